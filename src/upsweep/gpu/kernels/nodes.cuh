// Sums in global memory that blocks of one launch hand to each other, and the words that a launch leaves behind for the next. A
// node is 8-byte words {payload, tag}. Each word tells by itself whether it is of this launch, in any order of arrival. A tag is
// the epoch of the launch in 31 bits and, on top, whether a segment starts in the element. STEP words lie between the words of
// one node (32 where the lanes of a warp write neighbouring nodes).
#pragma once
#include "params.cuh"
#include "warp.cuh"

constexpr int NODE = Words<Item>::count;
constexpr u32 EPOCHS = 1u << 31;

__device__ __forceinline__ i64 take_ticket(const Params& p) { return atomicAdd(p.control, 1u); }

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

// The last block to leave makes the control words ready for the next launch, which then needs nothing from the host: so a launch
// replays in a CUDA graph. Epochs that wrap would meet their own past. So all nodes are cleared then.
__device__ __forceinline__ void leave(const Params& p, u32 epoch) {
  __threadfence();
  if (atomicAdd(p.control + 1, 1u) + 1 < gridDim.x) return;
  p.control[0] = 0;
  p.control[1] = 0;
  p.control[2] = epoch + 1;
  if (epoch + 1 == EPOCHS) {
    for (u64 i = 0; i < p.node_words; i++) p.nodes[i] = 0;
    p.control[2] = 1;
  }
}

// A launch whose `count` blocks take one ticket each does this instead: a ticket and the epoch come in one word, and the last
// ticket moves the epoch on for the next launch. Epochs wrap too. Twice on the way all nodes are cleared but the `used` words of
// this launch, so that none is ever as old as a turn.
struct alignas(8) Joined { u32 epoch, ticket; };
__device__ __forceinline__ Joined join(const Params& p, u32 count, u64 used) {
  u64* word = (u64*)(p.control + 2);
  u64 found = atomicAdd(word, 1ull << 32);
  u32 epoch = (u32)found, ticket = (u32)(found >> 32);
  if (ticket + 1 == count) {
    *word = epoch + 1 == EPOCHS ? 1 : epoch + 1;
    if ((epoch + 1) % (EPOCHS / 2) == 0)
      for (u64 i = used; i < p.node_words; i++) p.nodes[i] = 0;
  }
  return {epoch, ticket};
}
