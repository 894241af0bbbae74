// Counts of repetitions, in tiles, and what the two passes over them share.
#pragma once
#include "packs.cuh"
#include "tally.cuh"

constexpr int WARPS = THREADS / 32, TILE = THREADS * COUNTS;  // of counts
static_assert(COUNTS == 8, "a thread's counts are a word of bytes");

struct Repeat {
  const COUNT* counts;
  i64 n, tiles;
  u64* sum; u32* negative; u32* done; i64* total;
  u64* bytes;  // the counts of a thread, where those of its tile fit
  u8* wide;    // for each tile, whether they do not
  const VALUE* x; VALUE* values; i64* owners; i64* ranks;
  i64 room;    // items of the output that are written at most
  Nodes nodes;
};

template <bool ONCE = false> __device__ __forceinline__ void load_counts(Pack<COUNT, COUNTS>& to, const Repeat& p, i64 t) {
  const i64 at = t * TILE + threadIdx.x * COUNTS;
  to.template load_within<EVEN, ONCE>(p.counts + at, 0, p.n - at);
}
