// Segment s fills [offsets[s], offsets[s + 1]) of the output, however uneven segments are. Ends of segments and items of the
// output are merged, an end before the item at it, and every tile takes as many steps of that; so its work is bounded also where
// segments are empty. Green, McColl and Bader, "GPU merge path" (2012).
//   VALUES   x[s] is written for each item of segment s
//   OWNERS   s is written, and the item's place within the segment
#include "prelude.cuh"

constexpr int TILE = THREADS * ITEMS;

// Of the first `step` steps, how many are ends: of `segments` ends, beside `items` items.
template <class T> __device__ __forceinline__ i64 ends_in(i64 step, const T* ends, i64 segments, i64 items) {
  i64 low = max(step - items, 0ll), high = min(step, segments);
  while (low < high) {
    i64 middle = (low + high) / 2;
    if ((i64)ends[middle] <= step - 1 - middle) low = middle + 1;
    else high = middle;
  }
  return low;
}

struct Repeat { const i64* offsets; i64 segments, items, tiles; i64* cuts; const char* x; i64 stride; VALUE* values; i64* owners; i64* ranks; };

// A thread for each place between tiles: the ends before it.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_cuts(const __grid_constant__ Repeat p) {
  i64 t = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (t <= p.tiles) p.cuts[t] = ends_in(min(t * TILE, p.segments + p.items), p.offsets + 1, p.segments, p.items);
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_repeat(const __grid_constant__ Repeat p) {
  __shared__ u16 ends[TILE], owner[TILE];
  const i64 t = blockIdx.x, segment = p.cuts[t], item = t * TILE - segment;
  const int steps = (int)min(p.segments + p.items - t * TILE, (i64)TILE), count = (int)(p.cuts[t + 1] - segment), items = steps - count;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int s = k * THREADS + threadIdx.x;
    if (s < count) ends[s] = (u16)(p.offsets[segment + s + 1] - item);
  }
  __syncthreads();  // the ends in this tile are there
  int step = threadIdx.x * ITEMS, s = (int)ends_in(min(step, steps), ends, count, items), i = min(step, steps) - s;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (step + k >= steps) break;
    if (s < count && ends[s] <= i) s++;
    else owner[i++] = s;
  }
  __syncthreads();  // every item has its owner
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int j = k * THREADS + threadIdx.x;
    if (j >= items) continue;
    i64 mine = segment + owner[j];
    if (VALUES) p.values[item + j] = *(const VALUE*)(p.x + mine * p.stride);
    if (OWNERS) { p.owners[item + j] = mine; p.ranks[item + j] = item + j - p.offsets[mine]; }
  }
}
