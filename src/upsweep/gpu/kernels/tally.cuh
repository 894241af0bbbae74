// Counts of tiles, which one kernel adds up and the next one reads. A tile adds its own count to the counts of its groups of 32,
// 1024 and 32768 tiles. So the sum of all tiles before any tile is the sum of few nodes, which are read at once and not one after
// another. The sums are integers, whose order is free.
#pragma once
#include "counts.cuh"

constexpr int LEVELS = 4;

// The first node of each level; all nodes are zero before. So many words behind a node lies the last place that its tiles keep.
struct Nodes { u64* level[LEVELS]; i64 lasts; };
struct Before { u64 count, last; };

// By a warp: the number of items that a tile keeps, and 1 + the place of the last of them, or 0.
template <bool LAST> __device__ __forceinline__ void tally(const Nodes& nodes, i64 t, u64 count, u64 last, int lane) {
  if (lane >= LEVELS) return;
  u64* node = nodes.level[lane] + (t >> 5 * lane);
  atomicAdd(node, count);
  if (LAST) atomicMax(node + nodes.lasts, last);
}

// The same for neighbours: lane k < some <= 32 has the count of tile t + k, the other lanes have 0. All of them belong to the same
// group of 32. Atomics at one address come one after another, so that fewer of them are faster.
__device__ __forceinline__ void tally_together(const Nodes& nodes, i64 t, u32 some, u64 count, int lane) {
  if (lane < some) nodes.level[0][t + lane] = count;
#pragma unroll
  for (int s = 16; s; s /= 2) count += __shfl_xor_sync(FULL, count, s);
  if (lane > 0 && lane < LEVELS) atomicAdd(nodes.level[lane] + (t >> 5 * lane), count);
}

// By a warp: the number of items that the tiles before t keep. It is the sum of up to 31 nodes of a level and all nodes of the
// last.
template <bool LAST> __device__ __forceinline__ Before before_tile(const Nodes& nodes, i64 t, int lane) {
  Before before = {0, 0};
  auto add = [&](const u64* node) {
    before.count += *node;
    if (LAST) before.last = max(before.last, node[nodes.lasts]);
  };
#pragma unroll
  for (int l = 0; l < LEVELS - 1; l++) {
    const i64 end = t >> 5 * l, at = (end & ~31ll) + lane;
    if (at < end) add(nodes.level[l] + at);
  }
  for (i64 at = lane; at < t >> 5 * (LEVELS - 1); at += 32) add(nodes.level[LEVELS - 1] + at);
#pragma unroll
  for (int s = 16; s; s /= 2) {
    before.count += __shfl_xor_sync(FULL, before.count, s);
    if (LAST) before.last = max(before.last, __shfl_xor_sync(FULL, before.last, s));
  }
  return before;
}

// The number of items that all tiles keep: the nodes of the last level, of which there is one as a rule.
__device__ __forceinline__ u64 kept_by_all(const Nodes& nodes, i64 tiles) {
  u64 sum = *nodes.level[LEVELS - 1];
  for (i64 at = 1; at << 5 * (LEVELS - 1) < tiles; at++) sum += nodes.level[LEVELS - 1][at];
  return sum;
}

// In one kernel, where tiles still add their counts, the upper bits of a node say how many have done so.
constexpr int TILES_AT = 48;

// By a warp, where tiles go by tickets: adds a tile's count, and gives the sum of the tiles before it, once all have added theirs.
__device__ __forceinline__ u64 add_and_wait(const Nodes& nodes, i64 t, u64 count, int lane) {
  if (lane < LEVELS) atomicAdd(nodes.level[lane] + (t >> 5 * lane), 1ull << TILES_AT | count);
  u64 before;
  bool there;
  do {
    before = 0;
    there = true;
    const auto add = [&](const u64* node, int level) {
      const u64 w = read_count(node);
      there = there && w >> TILES_AT == 1ull << 5 * level;
      before += w & (1ull << TILES_AT) - 1;
    };
#pragma unroll
    for (int l = 0; l < LEVELS - 1; l++) {
      const i64 end = t >> 5 * l, at = (end & ~31ll) + lane;
      if (at < end) add(nodes.level[l] + at, l);
    }
    for (i64 at = lane; at < t >> 5 * (LEVELS - 1); at += 32) add(nodes.level[LEVELS - 1] + at, LEVELS - 1);
  } while (!__all_sync(FULL, there));
#pragma unroll
  for (int s = 16; s; s /= 2) before += __shfl_xor_sync(FULL, before, s);
  return before;
}
