// The number of times that each of 0, ..., bins - 1 occurs, counted in shared memory where there is room. Items outside are left
// out.
#include "prelude.cuh"

constexpr int ROUND = THREADS * ITEMS;

struct Count { const KEY* x; i64 n, bins, shared; u64* counts; };

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_count(const __grid_constant__ Count p) {
  extern __shared__ u32 own[];
  for (i64 i = threadIdx.x; p.shared && i < p.bins; i += THREADS) own[i] = 0;
  __syncthreads();  // bins are empty
  for (i64 first = (i64)blockIdx.x * ROUND + threadIdx.x; first < p.n; first += (i64)gridDim.x * ROUND) {
    KEY x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = first + k * THREADS < p.n ? p.x[first + k * THREADS] : (KEY)0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      u64 bin = (u64)(i64)x[k];  // below zero: larger than any
      if (first + k * THREADS >= p.n || bin >= p.bins) continue;
      if (p.shared) atomicAdd(own + bin, 1u); else atomicAdd(p.counts + bin, 1ull);
    }
  }
  __syncthreads();  // bins are full
  for (i64 i = threadIdx.x; p.shared && i < p.bins; i += THREADS) if (own[i]) atomicAdd(p.counts + i, (u64)own[i]);
}
