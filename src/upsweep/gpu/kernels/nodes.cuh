// Sums in global memory that blocks of one launch hand to each other. A node is 8-byte words {payload, tag}. Each word tells by
// itself whether it is of this launch, in any order of arrival. A tag is the epoch of the launch in 31 bits and, on top, whether a
// segment starts in the element. STEP words lie between the words of one node (32 where the lanes of a warp write neighbouring
// nodes).
#pragma once
#include "epochs.cuh"
#include "warp.cuh"

constexpr int NODE = Words<Item>::count;

template <int STEP> __device__ __forceinline__ void store_node(u64* at, const Element& e, u32 epoch) {
  Words<Item> w = to_words(e.value);
  u64 tag = (u64)(head_of(e) ? epoch | EPOCHS : epoch) << 32;
#pragma unroll
  for (int i = 0; i < NODE; i++) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at + i * STEP), "l"(tag | w.w[i]) : "memory");
}

// A node as it was read, and the result of looking at it: its words, and whether they are of this epoch.
struct Read { u64 v[NODE]; };
struct Found { Words<Item> w; bool head, here; };
template <int STEP> __device__ __forceinline__ void read_node(const u64* at, Read& r) {
#pragma unroll
  for (int i = 0; i < NODE; i++) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(r.v[i]) : "l"(at + i * STEP) : "memory");
}
__device__ __forceinline__ Found found_in(const Read& r, u32 epoch) {
  Found f = {{}, bool(r.v[0] >> 63), true};
#pragma unroll
  for (int i = 0; i < NODE; i++) {
    f.w.w[i] = (u32)r.v[i];
    f.here &= ((u32)(r.v[i] >> 32) & (EPOCHS - 1)) == epoch;
  }
  return f;
}
template <int STEP> __device__ __forceinline__ Found find_node(const u64* at, u32 epoch) {
  Read r;
  read_node<STEP>(at, r);
  return found_in(r, epoch);
}
// Each lane that wants its node waits for it; `f` is the result of an earlier look at it.
template <int STEP> __device__ __forceinline__ Element await_node(const u64* at, bool wanted, Found f, u32 epoch) {
  while (!__all_sync(FULL, f.here || !wanted)) if (wanted && !f.here) f = find_node<STEP>(at, epoch);
  return element(from_words<Item>(f.w), f.head);
}
