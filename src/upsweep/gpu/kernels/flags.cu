// Segments in other spellings, as flags. KEY is the type of an item of the keys.
#include "differ.cuh"

struct Mark { const char* offsets; i64 m, stride; u8* flags; i64 n; };
extern "C" __global__ void upsweep_mark(const __grid_constant__ Mark p) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.m) return;
  i64 at = *(const i64*)(p.offsets + i * p.stride);
  if (at >= 0 && at < p.n) p.flags[at] = 1;
}

// The same as bits of words.
extern "C" __global__ void upsweep_mark_bits(const __grid_constant__ Mark p) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.m) return;
  i64 at = *(const i64*)(p.offsets + i * p.stride);
  if (at >= 0 && at < p.n) atomicOr((u32*)p.flags + (at >> 5), 1u << (at & 31));
}

// Of keys as (outer, n, inner), in C order: whether an item differs from the one before it along the middle. A block takes
// BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
constexpr int THREADS = 256, BATCH = 8;
template <bool BITS> __device__ __forceinline__ void changes(const Changes& p) {
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
    bool head = i < p.count && ((one ? i == 0 : i / p.inner % p.n == 0) || differ(here[k], before[k]));
    if constexpr (BITS) {
      u32 word = __ballot_sync(0xffffffffu, head);
      if (i % 32 == 0 && i < p.count) ((u32*)p.flags)[i / 32] = word;
    } else {
      if (i < p.count) p.flags[i] = head;
    }
  }
}
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes(const __grid_constant__ Changes p) { changes<false>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes_bits(const __grid_constant__ Changes p) { changes<true>(p); }
