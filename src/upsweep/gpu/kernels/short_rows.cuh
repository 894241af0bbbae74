// Rows of at most ITEMS items, each of which a lane holds whole.
#pragma once
#include "params.cuh"
#include "thread.cuh"

// Bit k: item k of a row starts a segment.
typedef typename bits_of<(ITEMS > 32 ? 8 : 4)>::type Heads;

// From the items of a row to its results.
__device__ __forceinline__ void scan_row(Item (&x)[ITEMS], Heads heads, const Item& start) {
  if constexpr (SEQUENTIAL) {
    Prefix state{start, INITIAL};
    results_in_order(x, heads, state, start);
  } else {
    Heads swept = heads;
    up_sweep(x, swept);
    Prefix before{start, INITIAL}, after = before;
    fold(after, element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), start);
    results(x, heads, swept, before, after.value, start);
  }
}

// The bits of a list that all rows share: a lane looks at one head of 32 for its warp.
__device__ __forceinline__ Heads listed_heads(const Params& p) {
  Heads bits = 0;
#pragma unroll
  for (int first = 0; first < ITEMS; first += 32) {
    const int k = first + threadIdx.x % 32;
    bits |= (Heads)__ballot_sync(0xffffffffu, k > 0 && k < p.n && p.heads[k * p.heads_strides.along] != 0) << first;
  }
  return bits;
}
