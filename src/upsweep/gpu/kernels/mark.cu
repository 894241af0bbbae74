// Offsets of segments, which never fall, or few lengths, as bits of words, or as bytes.
#include "marks.cuh"

// Backwards, and seen from the last item on, the first item of a segment is the one before the next segment's offset.
struct Mark {
  const char* numbers; i64 m, stride; u8* flags; i64 n, bits, back, span, lengths;
  __device__ __forceinline__ i64 number(i64 i) const { return (i64)*(const KEY*)(numbers + i * stride); }
  __device__ __forceinline__ i64 seen(i64 offset) const { return back ? n - offset : offset; }
  __device__ __forceinline__ i64 offset(i64 i) const { return seen(number(i)); }
};

// Calls mark(offset) for this thread's share of BATCH * THREADS offsets from `start` on.
template <class F> __device__ __forceinline__ void each_offset(const Mark& p, i64 start, F&& mark) {
  i64 at[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    const i64 i = start + k * THREADS + threadIdx.x;
    at[k] = i < p.m ? p.offset(i) : -1;
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) mark(at[k]);
}

// The same of lengths, of which a block sums all from the first on: `before` becomes the sum of those so far. Their ends are offsets.
template <class F> __device__ __forceinline__ void each_end(const Mark& p, i64 start, i64& before, F&& mark) {
  __shared__ i64 lengths[THREADS][BATCH + 1], sums[THREADS / 32];  // with a gap, so that threads meet no bank twice
  i64 own[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    const i64 i = start + k * THREADS + threadIdx.x;
    own[k] = i < p.m ? p.number(i) : 0;
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) lengths[k * (THREADS / BATCH) + threadIdx.x / BATCH][threadIdx.x % BATCH] = own[k];
  __syncthreads();  // all lengths are there
  i64 sum = 0;
#pragma unroll
  for (int k = 0; k < BATCH; k++) own[k] = sum += lengths[threadIdx.x][k];
  i64 all = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const i64 left = __shfl_up_sync(FULL, all, d);
    if (threadIdx.x % 32 >= d) all += left;
  }
  if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = all;
  __syncthreads();  // and the sums of all warps, and the words are cleared
  i64 base = before + all - sum;
#pragma unroll
  for (int w = 0; w < THREADS / 32; w++) {
    base += w < threadIdx.x / 32 ? sums[w] : 0;
    before += sums[w];
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) if (start + threadIdx.x * BATCH + k < p.m) mark(p.seen(base + own[k]));
}

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
// goes on from there. Of lengths it sums all.
constexpr int MOST = 131072;
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Mark p) {
  let_next_begin();
  __shared__ __align__(16) u32 words[MOST / 32];
  const i64 first = blockIdx.x * p.span, left = min(p.n - first, p.span);
  const int count = (int)(left + 31) / 32;
  for (int i = threadIdx.x; i < count; i += THREADS) words[i] = 0;
  bool behind = false;
  const auto mark = [&](i64 offset) {
    const i64 at = offset - first;
    if (at >= p.span) behind = true;
    else if (at >= 0 && offset < p.n) atomicOr(&words[at / 32], 1u << at % 32);
  };
  i64 before = 0;
  if (p.lengths)
    for (i64 start = 0; start < p.m; start += THREADS * BATCH) each_end(p, start, before, mark);
  else
    for (i64 start = p.m <= THREADS * BATCH ? 0 : offsets_before(p, first); !__syncthreads_or(behind || start >= p.m); start += THREADS * BATCH)
      each_offset(p, start, mark);
  __syncthreads();  // all words are there
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
