// One thread's run of N consecutive items, in registers: Brent and Kung's two sweeps (1982).
#pragma once
#include "elements.cuh"

// Bits of the items that close a block of 2d items.
constexpr u32 closing(int d, int n) { u32 m = 0; for (int k = 2 * d - 1; k < n; k += 2 * d) m |= 1u << k; return m; }

// Bit k of `heads` becomes whether a segment starts in the largest aligned block that ends at k.
template <int N> __device__ __forceinline__ void up_sweep_heads(u32& heads) {
#pragma unroll
  for (int d = 1; d < N; d *= 2) heads |= (heads << d) & closing(d, N);
}

// An operation on a word or two goes without a branch around it, behind which it would wait for those before it: in a warp's 32 items
// logaddexp had 41 branches, and has 5. Larger items are chosen word by word, which takes longer than predicates.
constexpr bool BRANCHLESS = COMPONENTS == 1 && sizeof(Item) <= 8;

// After it, x[k] is the sum of the largest aligned block that ends at k, and bit k of `heads` whether a segment starts in it.
template <int N> __device__ __forceinline__ void up_sweep(Item (&x)[N], u32& heads) {
#pragma unroll
  for (int d = 1; d < N; d *= 2) {
#pragma unroll
    for (int k = 2 * d - 1; k < N; k += 2 * d) {
      const bool head = SEGMENTED && heads >> k & 1;
      if constexpr (BRANCHLESS) x[k] = select(head, x[k], op(x[k - d], x[k]));
      else if (!head) x[k] = op(x[k - d], x[k]);
    }
    if (SEGMENTED) heads |= (heads << d) & closing(d, N);
  }
}

// Turns the block sums of an up-sweep into inclusive prefixes, of all but the last item; `before` is the prefix of the run.
template <int N> __device__ __forceinline__ void down_sweep(Item (&x)[N], u32 heads, const Prefix& before, const Item& start) {
#pragma unroll
  for (int d = N / 2; d >= 1; d /= 2)
#pragma unroll
    for (int k = d - 1; k < N - 1; k += 2 * d) {
      Prefix p = before;
      if (k >= d) p = {x[k - d], true};
      fold(p, element(x[k], heads >> k & 1), start);
      x[k] = p.value;
    }
}

// From the block sums of a run to its results: `next` is the prefix of the run after this one.
template <int N> __device__ __forceinline__
void results(Item (&x)[N], u32 heads, u32 swept, const Prefix& before, const Item& next, const Item& start) {
  Item first = select(before.some, before.value, start);
  down_sweep(x, swept, before, start);
  if constexpr (EXCLUSIVE) {
    // Tests the heads anew. Otherwise the compiler keeps tests that up_sweep made, and CUDA 13.0's ptxas used the predicate of
    // one for another test meanwhile without saving it: item 29 of 32 was selected by bit 29 of `swept` (H200).
    asm("" : "+r"(heads));
#pragma unroll
    for (int k = N - 1; k > 0; k--) x[k] = SEGMENTED ? select(heads >> k & 1, start, x[k - 1]) : x[k - 1];
    x[0] = SEGMENTED ? select(heads & 1, start, first) : first;
  } else {
    x[N - 1] = next;
  }
}

// The results of a run in order, one item after the other, from the prefix before it; `state` becomes the prefix behind it.
template <int N> __device__ __forceinline__ void results_in_order(Item (&x)[N], u32 heads, Prefix& state, const Item& start) {
#pragma unroll
  for (int k = 0; k < N; k++) {
    bool head = SEGMENTED && heads >> k & 1;
    Item before = SEGMENTED ? select(head, start, state.value) : state.value;
    fold(state, element(x[k], head), start);
    x[k] = EXCLUSIVE ? before : state.value;
  }
}
