// The elementary functions of layers: in f32 by the processor's approximations, of some 22 bits and without branches; in f64
// by CUDA's.
#pragma once
#include "prelude.cuh"

constexpr f32 far_exponent = 126;  // 2^far is finite, and so is 1 + 2^far
__device__ __forceinline__ f32 exp2_of(f32 x) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
__device__ __forceinline__ f64 exp2_of(f64 x) { return exp2(x); }
__device__ __forceinline__ f32 inverse(f32 x) { f32 r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
__device__ __forceinline__ f64 inverse(f64 x) { return 1 / x; }
__device__ __forceinline__ f32 root(f32 x) { f32 r; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
__device__ __forceinline__ f64 root(f64 x) { return sqrt(x); }
__device__ __forceinline__ f32 mul_add(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f64 mul_add(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
template <class R> __device__ __forceinline__ R exp_of(R x) { return exp2_of(R(1.4426950408889634) * x); }
template <class R> __device__ __forceinline__ R sigmoid(R x) { return inverse(1 + exp_of(-x)); }
// The sigmoids of x and of -x, neither by a difference.
__device__ __forceinline__ void both_sigmoids(f32 x, f32& open, f32& shut) {
  f32 e = exp2_of(fminf(-1.4426950408889634f * x, far_exponent));
  open = inverse(1 + e);
  shut = e * open;
}
__device__ __forceinline__ void both_sigmoids(f64 x, f64& open, f64& shut) { open = sigmoid(x); shut = sigmoid(-x); }

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)); log1p(u) / u on [0, 1] by the polynomial of logaddexp.
__device__ __forceinline__ f32 softplus(f32 x) {
  constexpr f32 terms[] = {0.005365469f, -0.030068422f, 0.07920893f, -0.1375419f, 0.19153848f, -0.24857217f, 0.3332133f, -0.49999648f, 1.0f};
  f32 u = exp_of(-fabsf(x)), s = terms[0];
#pragma unroll
  for (int k = 1; k < 9; k++) s = __fmaf_rn(s, u, terms[k]);
  return __fmaf_rn(u, s, fmaxf(x, 0));
}
__device__ __forceinline__ f64 softplus(f64 x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
