// Where in the rows of groups an item comes to lie, and the other way round.
#include "group_rows.cuh"

// The last group, from the first to the last of these, that starts at or before a place.
__device__ __forceinline__ i64 group_at(const i64* starts, i64 place, i64 first, i64 last) {
  while (first < last) {
    const i64 middle = (first + last + 1) / 2;
    if (starts[middle] <= place) first = middle; else last = middle - 1;
  }
  return first;
}

// first: where the rows of each length begin.
struct Places { const i64* order; const i64* starts; const i64* rows; i64 groups, n, reverse; i64* sources; i64* places; i64 first[LENGTHS]; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_group_places(const __grid_constant__ Places p) {
  __shared__ i64 ends[2];
  const i64 begin = (i64)blockIdx.x * THREADS, i = begin + threadIdx.x;
  if (threadIdx.x < 2) ends[threadIdx.x] = group_at(p.starts, min(begin + (THREADS - 1) * (i64)threadIdx.x, p.n - 1), 0, p.groups - 1);
  __syncthreads();
  if (i >= p.n) return;
  const i64 group = group_at(p.starts, i, ends[0], ends[1]), start = p.starts[group];
  const i64 items = behind(p.starts, group, p.groups, p.n) - start;
  const int bits = bits_of(items);
  const i64 rank = p.reverse ? items - 1 - (i - start) : i - start;
  const i64 place = p.first[bits] + (p.rows[group] << bits) + rank;
  p.sources[place] = p.order[i];
  p.places[p.order[i]] = place;
}
