// Segment s fills [offsets[s], offsets[s + 1]) of the output, however uneven segments are. Ends of segments and items of the
// output are merged, an end before the item at it, and every tile takes as many steps of that; so its work is bounded also where
// segments are empty. Green, McColl and Bader, "GPU merge path" (2012).
//   VALUES   x[s] is written for each item of segment s
//   OWNERS   s is written, and the item's place within the segment
#include "prelude.cuh"

constexpr u32 FULL = 0xffffffffu;
constexpr int TILE = THREADS * ITEMS;

// Of the first `step` steps, how many are ends: of `segments` ends, beside `items` items.
__device__ __forceinline__ i64 ends_in(i64 step, const i64* ends, i64 segments, i64 items) {
  i64 low = max(step - items, 0ll), high = min(step, segments);
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (ends[middle] <= step - 1 - middle) low = middle + 1;
    else high = middle;
  }
  return low;
}

struct Repeat { const i64* offsets; i64 segments, items, tiles; i64* cuts; const VALUE* x; VALUE* values; i64* owners; i64* ranks; };

// A thread for each place between tiles: the ends before it.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_cuts(const __grid_constant__ Repeat p) {
  i64 t = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (t <= p.tiles) p.cuts[t] = ends_in(min(t * TILE, p.segments + p.items), p.offsets + 1, p.segments, p.items);
}

// Ends cut a tile's items into segments: each that has items marks its first. A warp goes along its strip, 32 items at a time,
// and every item belongs to the nearest mark at or before it.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_repeat(const __grid_constant__ Repeat p) {
  __shared__ u16 ends[TILE], marks[TILE];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = blockIdx.x, segment = p.cuts[t], item = t * TILE - segment;
  const int steps = (int)min(p.segments + p.items - t * TILE, (i64)TILE), count = (int)(p.cuts[t + 1] - segment), items = steps - count;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = k * THREADS + threadIdx.x;
    if (i < count) ends[i] = (u16)(p.offsets[segment + i + 1] - item);
    if (i < items) marks[i] = 0;
  }
  __syncthreads();  // the ends in this tile are there, and no marks
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int s = k * THREADS + threadIdx.x;  // of the segment after end s
    if (s < count && ends[s] < (s + 1 < count ? ends[s + 1] : items)) marks[ends[s]] = s + 1;
  }
  __syncthreads();  // marks are there
  const int strip = warp * 32 * ITEMS;
  u32 last = 0;  // the segment of the strip's first item: behind all ends up to it
  for (u32 high = count; last < high;) {
    u32 middle = (last + high) / 2;
    if (ends[middle] <= strip) last = middle + 1;
    else high = middle;
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = strip + 32 * k + lane;
    u32 mark = i < items ? marks[i] : 0, near = __ballot_sync(FULL, mark) & ((2u << lane) - 1);
    u32 owner = __shfl_sync(FULL, mark, 31 - __clz(near | 1));
    if (!near) owner = last;
    last = __shfl_sync(FULL, owner, 31);
    if (i >= items) continue;
    i64 mine = segment + owner;
    if (VALUES) p.values[item + i] = p.x[mine];
    if (OWNERS) { p.owners[item + i] = mine; p.ranks[item + i] = item + i - p.offsets[mine]; }
  }
}
