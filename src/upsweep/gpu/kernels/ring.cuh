// A ring of stages between a warp that brings and one that works, by mbarriers: FULL counts what has landed, DONE what has
// been worked on.
#pragma once
#include "memory.cuh"

__device__ __forceinline__ void barrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives when the copies that this thread has started so far have landed.
__device__ __forceinline__ void barrier_arrive_with_copies(u64* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Waits until the barrier has been completed once more than `parity` says.
__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
}

struct Ring {
  u64 full[STAGES], done[STAGES];
  __device__ __forceinline__ void init() {
    for (int s = 0; s < STAGES; s++) { barrier_init(&full[s], 64); barrier_init(&done[s], 32); }
  }
};

// One place after the other, round and round.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void next() { if (++stage == STAGES) { stage = 0; parity ^= 1; } }
};
