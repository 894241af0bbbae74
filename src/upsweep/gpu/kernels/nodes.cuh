// Sums in global memory that blocks of one launch hand to each other, and what a launch leaves behind for the next.
// A node is 8-byte words {payload, epoch}: each tells by itself whether it is of this launch, in any order of arrival.
// STEP words lie between the words of one node (32 where the lanes of a warp write neighbouring nodes).
#pragma once
#include "params.cuh"
#include "warp.cuh"

constexpr int NODE = Words<Element>::count;

__device__ __forceinline__ i64 take_ticket(const Params& p) { return atomicAdd(p.control, 1u); }

template <int STEP> __device__ __forceinline__ void store_node(u64* at, const Element& e, u32 epoch) {
  Words<Element> w = to_words(e);
#pragma unroll
  for (int i = 0; i < NODE; i++) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at + i * STEP), "l"((u64)epoch << 32 | w.w[i]) : "memory");
}
template <int STEP> __device__ __forceinline__ void read_words(const u64* at, u64 (&v)[NODE]) {
#pragma unroll
  for (int i = 0; i < NODE; i++) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v[i]) : "l"(at + i * STEP) : "memory");
}
__device__ __forceinline__ bool check_words(const u64 (&v)[NODE], Words<Element>& w, u32 epoch) {
  bool here = true;
#pragma unroll
  for (int i = 0; i < NODE; i++) {
    w.w[i] = (u32)v[i];
    here &= (u32)(v[i] >> 32) == epoch;
  }
  return here;
}
template <int STEP> __device__ __forceinline__ bool load_node(const u64* at, Words<Element>& w, u32 epoch) {
  u64 v[NODE];
  read_words<STEP>(at, v);
  return check_words(v, w, epoch);
}
// Each lane that wants its node waits for it; `here` says whether an earlier load found it.
template <int STEP> __device__ __forceinline__ Element await_node(const u64* at, bool wanted, bool here, Words<Element>& w, u32 epoch) {
  while (!__all_sync(FULL, here || !wanted)) if (wanted && !here) here = load_node<STEP>(at, w, epoch);
  return from_words<Element>(w);
}

// The last block to leave makes the control words ready for the next launch, which then needs nothing from the host:
// so a launch replays in a CUDA graph. Epochs that wrap would meet their own past: then all nodes are cleared.
__device__ __forceinline__ void leave(const Params& p, u32 epoch) {
  __threadfence();
  if (atomicAdd(p.control + 1, 1u) + 1 < gridDim.x) return;
  p.control[0] = 0;
  p.control[1] = 0;
  p.control[2] = epoch + 1;
  if (epoch + 1 == 0) {
    for (u64 i = 0; i < p.node_words; i++) p.nodes[i] = 0;
    p.control[2] = 1;
  }
}
