// Whether two items differ, as numbers do: NaN from everything, the zeros not from each other.
#pragma once
#include "prelude.cuh"

template <class T> __device__ __forceinline__ bool differ(T a, T b) {
  if constexpr (same<T, b8> || same<T, f16> || same<T, bf16> || is_narrow<T>) return convert<float>(a) != convert<float>(b);
  else if constexpr (is_complex<T>) return a.re != b.re || a.im != b.im;
  else return a != b;
}
