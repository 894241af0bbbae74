// The number of times that each of 0, ..., bins - 1 occurs. Items outside are left out.
//   SHARED   a block counts in shared memory first, which has room for all bins
#include "packs.cuh"

constexpr u32 FULL = 0xffffffffu;
constexpr int PIECE = 16 / sizeof(KEY), STEP = THREADS * PIECE, ROUND = STEP * PIECES;

struct Count { const KEY* x; i64 n, skip, bins; u64* counts; };  // so many items before the first do pieces start

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_count(const __grid_constant__ Count p) {
  extern __shared__ u32 own[];
  for (i64 i = threadIdx.x; SHARED && i < p.bins; i += THREADS) own[i] = 0;
  __syncthreads();  // bins are empty
  const auto count = [&](KEY x, u32 many) {
    // An item below zero is larger than any bin.
    if constexpr (SHARED && sizeof(KEY) < 8) {
      if ((u32)x < (u32)p.bins) atomicAdd(own + (u32)x, many);
    } else if ((u64)x < (u64)p.bins) {
      if constexpr (SHARED) atomicAdd(own + (u64)x, many); else atomicAdd(p.counts + (u64)x, (u64)many);
    }
  };
  for (i64 begin = (i64)blockIdx.x * ROUND - p.skip; begin < p.n; begin += (i64)gridDim.x * ROUND) {
    const i64 first = begin + threadIdx.x * PIECE;
    if (begin >= 0 && begin + ROUND <= p.n) {
      Pack<KEY, PIECE> x[PIECES];
#pragma unroll
      for (int k = 0; k < PIECES; k++) x[k].load(p.x + first + k * STEP);
#pragma unroll
      for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
          const KEY item = x[k].get(j);
          if constexpr (SHARED) count(item, 1);
          else {  // atomics at one address of global memory come one after another: those of the first lane's item are one
            const u32 same = __ballot_sync(FULL, item == (KEY)__shfl_sync(FULL, item, 0));
            if (!(same >> threadIdx.x % 32 & 1)) count(item, 1);
            else if (threadIdx.x % 32 == 0) count(item, __popc(same));
          }
        }
    } else {
#pragma unroll 1
      for (int k = 0; k < PIECES; k++)
#pragma unroll 1
        for (i64 i = first + k * STEP; i < first + k * STEP + PIECE; i++) if (i >= 0 && i < p.n) count(p.x[i], 1);
    }
  }
  __syncthreads();  // bins are full
  for (i64 i = threadIdx.x; SHARED && i < p.bins; i += THREADS) if (own[i]) atomicAdd(p.counts + i, (u64)own[i]);
}
