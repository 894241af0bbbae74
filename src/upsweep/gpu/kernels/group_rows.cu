// The row of each group among those of one length, in any order, and how many rows there are of each length.
#include "group_rows.cuh"

struct Rows { const i64* starts; i64 groups, n; i64* rows; u64* counts; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_group_rows(const __grid_constant__ Rows p) {
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
