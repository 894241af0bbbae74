// The first pass of repetitions (repeat.cu).
#include "repeat.cuh"

// The sums of tiles, and the sum of all counts: -2 where a count is negative.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_sums(const __grid_constant__ Repeat p) {
  __shared__ i64 sums[TOGETHER][WARPS], bits[TOGETHER][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = (i64)blockIdx.x * TOGETHER, some = min(p.tiles - t, (i64)TOGETHER);
#pragma unroll
  for (int g = 0; g < TOGETHER; g++) {
    Pack<COUNT, COUNTS> counts;
    load_counts<true>(counts, p, t + g);
    i64 sum = 0, set = 0;
    u64 bytes = 0;
#pragma unroll
    for (int j = 0; j < COUNTS; j++) {
      const i64 count = counts.get(j);
      sum += count;
      set |= count;
      bytes |= (u64)(count & 255) << 8 * j;
    }
    if (g < some) p.bytes[(t + g) * THREADS + threadIdx.x] = bytes;
#pragma unroll
    for (int s = 16; s; s /= 2) { sum += __shfl_xor_sync(FULL, sum, s); set |= __shfl_xor_sync(FULL, set, s); }
    if (lane == 0) { sums[g][warp] = sum; bits[g][warp] = set; }
  }
  __syncthreads();  // all warps have summed
  if (warp) return;
  i64 sum = 0, set = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) if (lane < TOGETHER) { sum += sums[lane][w]; set |= bits[lane][w]; }
  if (lane < some) p.wide[t + lane] = set >> 8 != 0;
  tally_together(p.nodes, t, some, sum, lane);
#pragma unroll
  for (int s = 16; s; s /= 2) { sum += __shfl_xor_sync(FULL, sum, s); set |= __shfl_xor_sync(FULL, set, s); }
  if (lane) return;
  atomicAdd(p.sum, (u64)sum);
  if (set < 0) *p.negative = 1;
  __threadfence();  // who counts the last tiles sees the sums of all
  if (atomicAdd(p.done, (u32)some) + some < p.tiles) return;
  __threadfence();
  *(volatile i64*)p.total = *(volatile u32*)p.negative ? -2 : (i64)*(volatile u64*)p.sum;
  __threadfence_system();
}
