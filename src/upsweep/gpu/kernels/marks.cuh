// Segments in other spellings, as flags or as bits: what the kernels share that write them. KEY is the type of an item of the keys.
#pragma once
#include "differ.cuh"

constexpr u32 FULL = 0xffffffffu;

// A block takes BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
constexpr int THREADS = 256, BATCH = 8;

// Backwards, and seen from the last item on, the first item of a segment is the one before the next segment's offset.
struct Mark {
  const char* offsets; i64 m, stride; u8* flags; i64 n, bits, back, span;
  __device__ __forceinline__ i64 offset(i64 i) const {
    const i64 at = *(const i64*)(offsets + i * stride);
    return back ? n - at : at;
  }
};

// Calls mark(offset) for this thread's share of BATCH * THREADS offsets from `start` on.
template <class P, class F> __device__ __forceinline__ void each_offset(const P& p, i64 start, F&& mark) {
  i64 at[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    const i64 i = start + k * THREADS + threadIdx.x;
    at[k] = i < p.m ? p.offset(i) : -1;
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) if (at[k] >= 0 && at[k] < p.n) mark(at[k]);
}

struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
