// Offsets of segments, which never fall, as bits of words, or as bytes.
#include "marks.cuh"

// The lowest four bits as bytes.
__device__ __forceinline__ u32 spread(u32 bits) { return (bits & 15) * 0x204081 & 0x01010101; }

// How many of the offsets lie before an item: a block asks for as many as it has threads at a time.
__device__ __forceinline__ i64 offsets_before(const Mark& p, i64 item) {
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

// A block marks `span` items: it finds the first offset of these, where it does not look at all offsets in one go anyway, and
// goes on from there.
constexpr int MOST = 131072;
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Mark p) {
  __shared__ __align__(16) u32 words[MOST / 32];
  const i64 first = blockIdx.x * p.span, left = min(p.n - first, p.span);
  const int count = (int)(left + 31) / 32;
  for (int i = threadIdx.x; i < count; i += THREADS) words[i] = 0;
  i64 start = p.m <= THREADS * BATCH ? 0 : offsets_before(p, first);
  for (bool behind = false; !__syncthreads_or(behind || start >= p.m); start += THREADS * BATCH)
    each_offset(p, start, [&](i64 offset) {
      const i64 at = offset - first;
      if (at >= p.span) behind = true;
      else if (at >= 0) atomicOr(&words[at / 32], 1u << at % 32);
    });
  u8* to = p.flags + (p.bits ? first / 8 : first);
  if (p.bits) {
    for (int i = threadIdx.x; i < count; i += THREADS) ((u32*)to)[i] = words[i];
    return;
  }
  for (int i = threadIdx.x; 16 * i < left; i += THREADS) {
    const u32 half = words[i / 2] >> i % 2 * 16;
    if (16 * i + 16 <= left) ((uint4*)to)[i] = {spread(half), spread(half >> 4), spread(half >> 8), spread(half >> 12)};
    else for (int k = 0; 16 * i + k < left; k++) to[16 * i + k] = half >> k & 1;
  }
}
