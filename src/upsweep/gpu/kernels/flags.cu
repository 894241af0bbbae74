// Segments in other spellings, as flags. KEY is the type of an item of the keys.
#include "differ.cuh"

constexpr u32 FULL = 0xffffffffu;

// A block takes BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
constexpr int THREADS = 256, BATCH = 8;

struct Mark {
  const char* offsets; i64 m, stride; u8* flags; i64 n;
  __device__ __forceinline__ i64 offset(i64 i) const { return *(const i64*)(offsets + i * stride); }
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
  for (int k = 0; k < BATCH; k++) if (at[k] >= 0 && at[k] < p.n) mark(at[k]);
}
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Mark p) {
  each_offset(p, (i64)blockIdx.x * (THREADS * BATCH), [&](i64 at) { p.flags[at] = 1; });
}

// How many of the offsets, which never fall, lie before an item: a block asks for as many as it has threads at a time.
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

// The same as bits of words: a block finds the first offset of SPAN items, goes on from there, and writes all words of these items.
constexpr int SPAN = 131072;
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark_bits(const __grid_constant__ Mark p) {
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

// Whether a key differs from the key before it along the middle of (outer, n, inner), in C order.
struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes(const __grid_constant__ Changes p) {
  i64 start = (i64)blockIdx.x * (THREADS * BATCH) + threadIdx.x;
  bool one = p.n == p.count;  // one row, whose first item alone has none before it
  KEY here[BATCH], before[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    i64 i = start + k * THREADS;
    if (i < p.count) { here[k] = p.keys[i]; before[k] = p.keys[i < p.inner ? i : i - p.inner]; }
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    i64 i = start + k * THREADS;
    if (i < p.count) p.flags[i] = (one ? i == 0 : i / p.inner % p.n == 0) || differ(here[k], before[k]);
  }
}

// The same of one row, as bits: a warp makes BATCH words, and a lane has the item before its own from its neighbour.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes_bits(const __grid_constant__ Changes p) {
  const int lane = threadIdx.x % 32;
  const i64 begin = ((i64)blockIdx.x * THREADS + threadIdx.x - lane) * BATCH;
  if (begin >= p.count) return;
  const int left = (int)min(p.count - begin, 32ll * BATCH) - lane;
  const KEY* from = p.keys + begin + lane;
  KEY here[BATCH] = {}, last = p.keys[max(begin - 1, 0ll)];
#pragma unroll
  for (int k = 0; k < BATCH; k++) if (32 * k < left) here[k] = from[32 * k];
  u32 own = 0;
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    Words<KEY> w = to_words(here[k]);
#pragma unroll
    for (int i = 0; i < Words<KEY>::count; i++) w.w[i] = __shfl_sync(FULL, w.w[i], (lane + 31) % 32);
    KEY before = from_words<KEY>(w);
    bool head = differ(here[k], select(lane == 0, last, before)) || (k == 0 && begin + lane == 0);
    u32 word = __ballot_sync(FULL, head && 32 * k < left);
    if (lane == k) own = word;
    last = before;
  }
  if (lane < BATCH && 32 * lane < left + lane) ((u32*)p.flags)[begin / 32 + lane] = own;
}
