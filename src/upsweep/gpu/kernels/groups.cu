// Groups whose items lie in any order: where each group starts among items in the order of their keys, a row for each group, and
// the items of an array by their places. Rows have as many items as a power of two, those of one length one behind the other.
//   KEY          the type of an item of the keys
//   WORD, WORDS  what moves an item that is carried
//   DIMS         dimensions of an array that is carried, without the axis
//   LENGTHS      as many lengths as rows may have
#include "differ.cuh"

// All NaNs are one key, as the zeros are.
__device__ __forceinline__ bool another(KEY a, KEY b) { return differ(a, b) && !(differ(a, a) && differ(b, b)); }

// heads: where a group starts; with `more` also where one starts by the keys before these.
struct Heads { const KEY* keys; const i64* order; u8* heads; i64 n, more; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_heads(const __grid_constant__ Heads p) {
  const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.n) return;
  bool head = i == 0 || (p.more && p.heads[i]);
  if (!head) head = another(p.keys[p.order[i]], p.keys[p.order[i - 1]]);
  p.heads[i] = head;
}

__device__ __forceinline__ i64 behind(const i64* starts, i64 group, i64 groups, i64 n) { return group + 1 < groups ? starts[group + 1] : n; }
__device__ __forceinline__ int bits_of(i64 items) { return items > 1 ? 64 - __clzll(items - 1) : 0; }

// The row of each group among those of one length, in any order, and how many rows there are of each length.
struct Rows { const i64* starts; i64 groups, n; i64* rows; u64* counts; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_rows(const __grid_constant__ Rows p) {
  __shared__ u32 here[LENGTHS];
  __shared__ u64 before[LENGTHS];
  if (threadIdx.x < LENGTHS) here[threadIdx.x] = 0;
  __syncthreads();
  const i64 group = (i64)blockIdx.x * THREADS + threadIdx.x;
  int bits = 0;
  u32 row = 0;
  if (group < p.groups) {
    bits = bits_of(behind(p.starts, group, p.groups, p.n) - p.starts[group]);
    row = atomicAdd(here + bits, 1u);
  }
  __syncthreads();
  if (threadIdx.x < LENGTHS && here[threadIdx.x]) before[threadIdx.x] = atomicAdd((unsigned long long*)p.counts + threadIdx.x, (unsigned long long)here[threadIdx.x]);
  __syncthreads();
  if (group < p.groups) p.rows[group] = (i64)before[bits] + row;
}

// The last group, from the first to the last of these, that starts at or before a place.
__device__ __forceinline__ i64 group_at(const i64* starts, i64 place, i64 first, i64 last) {
  while (first < last) {
    const i64 middle = (first + last + 1) / 2;
    if (starts[middle] <= place) first = middle; else last = middle - 1;
  }
  return first;
}

// Where in the rows an item comes to lie, and the other way round. first: where the rows of each length begin.
struct Places { const i64* order; const i64* starts; const i64* rows; i64 groups, n, reverse; i64* sources; i64* places; i64 first[LENGTHS]; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_places(const __grid_constant__ Places p) {
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

// y[i] = x[from[i]] along the axis of every row; nothing where from[i] is negative. Neighbouring threads take neighbours along
// the axis or, with `across`, neighbouring rows.
struct Carry { const char* x; const i64* from; char* y; i64 n, rows, across, x_step, y_step; i64 shape[DIMS], x_strides[DIMS], y_strides[DIMS]; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_carry(const __grid_constant__ Carry p) {
  const i64 thread = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (thread >= p.n * p.rows) return;
  const i64 i = p.across ? thread / p.rows : thread % p.n, from = p.from[i];
  if (from < 0) return;
  i64 row = p.across ? thread % p.rows : thread / p.n, x = from * p.x_step, y = i * p.y_step;
#pragma unroll
  for (int d = DIMS - 1; d >= 0; d--) {
    const i64 at = row % p.shape[d];
    row /= p.shape[d];
    x += at * p.x_strides[d];
    y += at * p.y_strides[d];
  }
#pragma unroll
  for (int w = 0; w < WORDS; w++) ((WORD*)(p.y + y))[w] = ((const WORD*)(p.x + x))[w];
}
