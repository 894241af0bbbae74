// A ring of stages between a warp that brings and one that works: FULL counts what has landed, DONE what has been worked on.
#pragma once
#include "barriers.cuh"

struct Ring {
  u64 full[STAGES], done[STAGES];
  bool heads[STAGES];  // whether segments may start in it
  __device__ __forceinline__ void init() {
    for (int s = 0; s < STAGES; s++) { barrier_init(&full[s], TURNED ? 1 : 64); barrier_init(&done[s], WALKERS); }
  }
};

// One place after the other, round and round.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void next() { if (++stage == STAGES) { stage = 0; parity ^= 1; } }
};
