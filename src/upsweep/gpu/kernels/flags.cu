// Segments in other spellings, as flags. KEY is the type of an item of the keys.
#include "prelude.cuh"

template <class T> __device__ __forceinline__ bool differ(T a, T b) {
  if constexpr (same<T, b8> || same<T, f16> || same<T, bf16> || is_narrow<T>) return convert<float>(a) != convert<float>(b);
  else if constexpr (is_complex<T>) return a.re != b.re || a.im != b.im;
  else return a != b;
}

struct Mark { const char* offsets; i64 m, stride; u8* flags; i64 n; };
extern "C" __global__ void upsweep_mark(const __grid_constant__ Mark p) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.m) return;
  i64 at = *(const i64*)(p.offsets + i * p.stride);
  if (at >= 0 && at < p.n) p.flags[at] = 1;
}

// Of keys as (outer, n, inner), in C order: whether an item differs from the one before it along the middle.
struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
extern "C" __global__ void upsweep_changes(const __grid_constant__ Changes p) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  bool first = i / p.inner % p.n == 0;
  p.flags[i] = first || differ(p.keys[i], p.keys[i - p.inner]);
}
