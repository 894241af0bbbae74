// Offsets of segments, which never fall, as bits of words.
#include "marks.cuh"

// How many of the offsets lie before an item: a block asks for as many as it has threads at a time.
__device__ __forceinline__ i64 offsets_before(const MarkBits& p, i64 item) {
  __shared__ int found[2][THREADS / 32];  // for even and odd turns: a warp may be a turn ahead of another
  i64 low = 0, high = p.m;
  for (int turn = 0; low < high; turn ^= 1) {
    const i64 step = (high - low + THREADS - 1) / THREADS, at = low + step * (threadIdx.x + 1) - 1;
    const u32 before = __ballot_sync(FULL, at < high && p.offset(at) < item);
    if (threadIdx.x % 32 == 0) found[turn][threadIdx.x / 32] = __popc(before);
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) sum += found[turn][w];
    low += step * sum;
    high = min(high, low + step - 1);
  }
  return low;
}

// A block finds the first offset of SPAN items, goes on from there, and writes all words of these items.
constexpr int SPAN = 131072;
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark_bits(const __grid_constant__ MarkBits p) {
  __shared__ __align__(16) u32 words[SPAN / 32];
  const i64 first = (i64)blockIdx.x * SPAN;
  const int count = (int)((min(p.n - first, (i64)SPAN) + 31) / 32);
  for (int i = threadIdx.x; i < SPAN / 32; i += THREADS) words[i] = 0;
  i64 start = offsets_before(p, first);
  for (bool behind = false; !__syncthreads_or(behind || start >= p.m); start += THREADS * BATCH)
    each_offset(p, start, [&](i64 offset) {
      const i64 at = offset - first;
      if (at >= SPAN) behind = true;
      else if (at >= 0) atomicOr(&words[at / 32], 1u << at % 32);
    });
  u32* to = (u32*)p.flags + first / 32;
  if (count == SPAN / 32) for (int i = threadIdx.x; i < SPAN / 128; i += THREADS) ((uint4*)to)[i] = ((const uint4*)words)[i];
  else for (int i = threadIdx.x; i < count; i += THREADS) to[i] = words[i];
}
