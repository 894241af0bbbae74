// Counts of tiles that are ready long before they are asked for. A tile adds its own count to the counts of its groups of 32,
// 1024 and 32768 tiles. So the sum of all tiles before any tile is the sum of few nodes, which are read at once and not one after
// another. The sums are integers, whose order is free. A node's top bits count the tiles that have arrived.
#pragma once
#include "counts.cuh"

constexpr int LEVELS = 4, ARRIVALS = 40;  // a node of 32768 tiles holds less than 2^40 items
constexpr u64 ARRIVED = (u64)1 << ARRIVALS;

// The first node of each level; all nodes are zero before. So many words behind a node lies the last place that its tiles keep.
struct Nodes { u64* level[LEVELS]; i64 lasts; };
struct Before { u64 count, last; };

// By a warp: the number of items that a tile keeps, and 1 + the place of the last of them, or 0.
template <bool LAST> __device__ __forceinline__ void arrive(const Nodes& nodes, i64 t, u64 count, u64 last, int lane) {
  if (lane >= LEVELS) return;
  u64* node = nodes.level[lane] + (t >> 5 * lane);
  if (LAST) {
    if (last) atomicMax(node + nodes.lasts, last);
    __threadfence();  // who sees the count sees the place
  }
  atomicAdd(node, ARRIVED | count);
}

// The same for neighbours: lane k < some <= 32 has the count of tile t + k, the other lanes have 0. All of them belong to the same
// group of 32. Atomics at one address come one after another, so that fewer of them are faster.
__device__ __forceinline__ void arrive_together(const Nodes& nodes, i64 t, u32 some, u64 count, int lane) {
  if (lane < some) atomicAdd(nodes.level[0] + t + lane, ARRIVED | count);
#pragma unroll
  for (int s = 16; s; s /= 2) count += __shfl_xor_sync(FULL, count, s);
  if (lane > 0 && lane < LEVELS) atomicAdd(nodes.level[lane] + (t >> 5 * lane), some * ARRIVED | count);
}

// By a warp: the number of items that the tiles before t keep. It is the sum of up to 31 nodes of a level and all nodes of the
// last.
template <bool LAST> __device__ __forceinline__ Before before_tile(const Nodes& nodes, i64 t, int lane) {
  const u64* node[LEVELS];
  u64 word[LEVELS];
  bool wanted[LEVELS], there;
#pragma unroll
  for (int l = 0; l < LEVELS; l++) {
    const i64 end = t >> 5 * l, at = (l < LEVELS - 1 ? end & ~31ll : 0) + lane;
    node[l] = nodes.level[l] + at;
    wanted[l] = at < end;
  }
  Before before = {0, 0};
  while (true) {
    there = true;
#pragma unroll
    for (int l = 0; l < LEVELS; l++) word[l] = wanted[l] ? read_count(node[l]) : 0;
#pragma unroll
    for (int l = 0; l < LEVELS; l++) there = there && (!wanted[l] || word[l] >> ARRIVALS == 1u << 5 * l);
    if (__all_sync(FULL, there)) {
      if (LAST) __threadfence();
#pragma unroll
      for (int l = 0; l < LEVELS; l++) {
        before.count += word[l] & (ARRIVED - 1);
        if (LAST && wanted[l]) before.last = max(before.last, read_count(node[l] + nodes.lasts));
        wanted[l] = l == LEVELS - 1 && (node[l] += 32) < nodes.level[l] + (t >> 5 * l);
      }
      if (!__any_sync(FULL, wanted[LEVELS - 1])) break;
    } else __nanosleep(20);
  }
#pragma unroll
  for (int s = 16; s; s /= 2) {
    before.count += __shfl_xor_sync(FULL, before.count, s);
    if (LAST) before.last = max(before.last, __shfl_xor_sync(FULL, before.last, s));
  }
  return before;
}
