// Segments in other spellings, as flags. KEY is the type of an item of the keys.
#include "differ.cuh"

constexpr u32 FULL = 0xffffffffu;

// A block takes BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
constexpr int THREADS = 256, BATCH = 8;

struct Mark { const char* offsets; i64 m, stride; u8* flags; i64 n; };
template <class F> __device__ __forceinline__ void each_offset(const Mark& p, F&& mark) {
  const i64 start = (i64)blockIdx.x * (THREADS * BATCH) + threadIdx.x;
  i64 at[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    const i64 i = start + k * THREADS;
    at[k] = i < p.m ? *(const i64*)(p.offsets + i * p.stride) : -1;
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) if (at[k] >= 0 && at[k] < p.n) mark(at[k]);
}
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Mark p) {
  each_offset(p, [&](i64 at) { p.flags[at] = 1; });
}
// The same as bits of words.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark_bits(const __grid_constant__ Mark p) {
  each_offset(p, [&](i64 at) { atomicOr((u32*)p.flags + (at >> 5), 1u << (at & 31)); });
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
