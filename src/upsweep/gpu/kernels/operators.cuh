// The built-in operators: each the same arithmetic, operation by operation, as its Python function in operator.py.
// The left operand is the earlier one. Integers wrap, so they are added and multiplied unsigned.
#pragma once
#include "prelude.cuh"

template <class T> struct wrapping { typedef T type; };
template <> struct wrapping<i8> { typedef u32 type; };
template <> struct wrapping<u8> { typedef u32 type; };
template <> struct wrapping<i16> { typedef u32 type; };
template <> struct wrapping<u16> { typedef u32 type; };
template <> struct wrapping<i32> { typedef u32 type; };
template <> struct wrapping<i64> { typedef u64 type; };

template <class T> __device__ __forceinline__ T plus(T a, T b) {
  if constexpr (is_complex<T>) return {a.re + b.re, a.im + b.im};
  else { typedef typename wrapping<T>::type W; return T(W(a) + W(b)); }
}
template <class T> __device__ __forceinline__ T times(T a, T b) {
  if constexpr (is_complex<T>) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  else { typedef typename wrapping<T>::type W; return T(W(a) * W(b)); }
}
constexpr i64 NOT_A_TIME = (i64)0x8000000000000000ull;

// Scalar operators: on items of one component.
struct Add { template <class T> __device__ T operator()(T a, T b) const { return plus(a, b); } };
struct Mul { template <class T> __device__ T operator()(T a, T b) const { return times(a, b); } };
struct Min { template <class T> __device__ T operator()(T a, T b) const { return a <= b || a != a ? a : b; } };
struct Max { template <class T> __device__ T operator()(T a, T b) const { return a >= b || a != a ? a : b; } };
struct And { template <class T> __device__ T operator()(T a, T b) const { return T(a & b); } };
struct Or { template <class T> __device__ T operator()(T a, T b) const { return T(a | b); } };
struct Xor { template <class T> __device__ T operator()(T a, T b) const { return T(a ^ b); } };
struct AddTimes { __device__ i64 operator()(i64 a, i64 b) const { return a == NOT_A_TIME || b == NOT_A_TIME ? NOT_A_TIME : plus(a, b); } };
struct MaxTimes { __device__ i64 operator()(i64 a, i64 b) const { return (a >= b && b != NOT_A_TIME) || a == NOT_A_TIME ? a : b; } };

// log(exp(a) + exp(b)) in plain arithmetic; operator.py says how it works.
template <class R, class N, int MANTISSA, int BIAS, int EXP, int TANH> __device__ __forceinline__
R logaddexp(R a, R b, R far, R high, R low, const R* exp_terms, const R* tanh_terms) {
  const R magic = R(3ull << (MANTISSA - 1)), log2e = R(1.4426950408889634), log2 = R(0.6931471805599453);
  R top = a >= b || a != a ? a : b, difference = a - b, gap = difference < 0 ? -difference : difference;
  R d = gap < far ? gap : R(0);
  R k = (d * log2e + magic) - magic;
  R r = (k * high - d) + k * low;
  R e = exp_terms[0];
#pragma unroll
  for (int i = 1; i < EXP; i++) e = e * r + exp_terms[i];
  N scale = N(BIAS - N(k)) << MANTISSA;
  R power; memcpy(&power, &scale, sizeof(R));
  R u = e * power, s = u / (R(2) + u), z = s * s, p = tanh_terms[0];
#pragma unroll
  for (int i = 1; i < TANH; i++) p = p * z + tanh_terms[i];
  return top + (a == b ? log2 : gap < far ? R(2) * s * p : R(0));
}
struct LogAddExp {
  __device__ float operator()(float a, float b) const {
    constexpr float exps[8] = {float(1. / 5040), float(1. / 720), float(1. / 120), float(1. / 24), float(1. / 6), .5f, 1.f, 1.f};
    constexpr float tanhs[8] = {float(1. / 15), float(1. / 13), float(1. / 11), float(1. / 9), float(1. / 7), float(1. / 5), float(1. / 3), 1.f};
    return logaddexp<float, i32, 23, 127, 8, 8>(a, b, 87.f, 0.693359375f, float(-2.12194440e-4), exps, tanhs);
  }
  __device__ double operator()(double a, double b) const {
    constexpr double exps[14] = {1. / 6227020800., 1. / 479001600., 1. / 39916800., 1. / 3628800., 1. / 362880., 1. / 40320., 1. / 5040,
                                 1. / 720, 1. / 120, 1. / 24, 1. / 6, .5, 1., 1.};
    constexpr double tanhs[17] = {1. / 33, 1. / 31, 1. / 29, 1. / 27, 1. / 25, 1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11,
                                  1. / 9, 1. / 7, 1. / 5, 1. / 3, 1.};
    return logaddexp<double, i64, 52, 1023, 14, 17>(a, b, 708., 6.93147180369123816490e-01, 1.90821492927058770002e-10, exps, tanhs);
  }
};

// Operators on pairs.
struct Affine { template <class P> __device__ P operator()(P a, P b) const {
  return {times(a.head, b.head), {plus(times(a.tail.head, b.head), b.tail.head)}};
} };
struct ArgMax { template <class P> __device__ P operator()(P a, P b) const { return select(a.head >= b.head || a.head != a.head, a, b); } };
struct ArgMin { template <class P> __device__ P operator()(P a, P b) const { return select(a.head <= b.head || a.head != a.head, a, b); } };

// A scalar operator lifted to items of one component.
template <class F> struct Scalar { template <class P> __device__ P operator()(P a, P b) const { return {F()(a.head, b.head)}; } };
