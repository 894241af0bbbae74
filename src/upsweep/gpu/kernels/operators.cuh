// The built-in operators. Each is the same arithmetic, operation by operation, as its Python function in arithmetic.py. The left
// operand is the earlier one. Integers wrap, so they are added and multiplied unsigned.
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
template <class T> __device__ __forceinline__ bool equals(T a, T b) {
  if constexpr (is_complex<T>) return a.re == b.re && a.im == b.im;
  else return a == b;
}
constexpr i64 NOT_A_TIME = (i64)0x8000000000000000ull;

// NaN where either operand is one, and -0 below 0. Of f64, a is kept where it is NaN or one comparison says so: with b's bits plus 1
// where b's sign decides between equals, and with infinity where b is NaN. The number that a is compared with does not hang on a, so that
// a chain of them takes 18 cycles an item instead of 50 (H200).
template <class T> __device__ __forceinline__ T minimum(T a, T b) {
  if constexpr (same<T, f32>) { f32 r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
  else if constexpr (same<T, f64>) {
    i64 bits = __double_as_longlong(b);
    f64 above = __longlong_as_double(b != b ? 0xfff0000000000000ll : bits + (bits >= 0));
    return !(a >= above) ? a : b;
  }
  else return a <= b ? a : b;
}
template <class T> __device__ __forceinline__ T maximum(T a, T b) {
  if constexpr (same<T, f32>) { f32 r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
  else if constexpr (same<T, f64>) {
    i64 bits = __double_as_longlong(b);
    f64 below = __longlong_as_double(b != b ? 0x7ff0000000000000ll : bits + (bits < 0));
    return !(a <= below) ? a : b;
  }
  else return a >= b ? a : b;
}

// Scalar operators: on items of one component.
struct Add { template <class T> __device__ T operator()(T a, T b) const { return plus(a, b); } };
struct Mul { template <class T> __device__ T operator()(T a, T b) const { return times(a, b); } };
struct Min { template <class T> __device__ T operator()(T a, T b) const { return minimum(a, b); } };
struct Max { template <class T> __device__ T operator()(T a, T b) const { return maximum(a, b); } };
struct And { template <class T> __device__ T operator()(T a, T b) const { return T(a & b); } };
struct Or { template <class T> __device__ T operator()(T a, T b) const { return T(a | b); } };
struct Xor { template <class T> __device__ T operator()(T a, T b) const { return T(a ^ b); } };
struct Last { template <class T> __device__ T operator()(T a, T b) const { return select(equals(b, b), b, a); } };
// Of the bytes of a word, by their highest bits, and of its halves.
struct AddBytes { __device__ u32 operator()(u32 a, u32 b) const { return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u); } };
template <u32 (*HALVES)(u32, u32)> struct HalvesOf { __device__ u32 operator()(u32 a, u32 b) const { return HALVES(a, b); } };
// Of four bytes, as the high bytes of two pairs of 16 bits: of the even ones, and of the odd ones.
template <u32 (*HALVES)(u32, u32)> struct BytesOf { __device__ u32 operator()(u32 a, u32 b) const { return __byte_perm(HALVES(a << 8, b << 8), HALVES(a, b), 0x7351); } };
struct AddTimes { __device__ i64 operator()(i64 a, i64 b) const { return a == NOT_A_TIME || b == NOT_A_TIME ? NOT_A_TIME : plus(a, b); } };
struct MaxTimes { __device__ i64 operator()(i64 a, i64 b) const { return (a >= b && b != NOT_A_TIME) || a == NOT_A_TIME ? a : b; } };
struct LastTimes { __device__ i64 operator()(i64 a, i64 b) const { return b != NOT_A_TIME ? b : a; } };

// Use a predicated FMA: with a select, the compiler branches around the polynomials and the two chains no longer overlap.
__device__ __forceinline__ f32 fma_below(f32 x, f32 far, f32 a, f32 b, f32 c) {
  asm("{ .reg .pred p; setp.lt.f32 p, %3, %4; @p fma.rn.f32 %0, %1, %2, %0; }" : "+f"(c) : "f"(a), "f"(b), "f"(x), "f"(far)); return c;
}
// Of x >= 0, and of `far` whose lower half is 0.
__device__ __forceinline__ f64 fma_below(f64 x, f64 far, f64 a, f64 b, f64 c) {
  asm("{ .reg .pred p; setp.lt.s32 p, %3, %4; @p fma.rn.f64 %0, %1, %2, %0; }" : "+d"(c) : "d"(a), "d"(b), "r"(__double2hiint(x)), "r"(__double2hiint(far))); return c;
}
__device__ __forceinline__ f32 magnitude(f32 x) { return fabs(x); }
__device__ __forceinline__ f64 magnitude(f64 x) { return __hiloint2double(__double2hiint(x) & 0x7fffffff, __double2loint(x)); }
template <int N, class R> __device__ __forceinline__ R horner(const R (&terms)[N], R x) {
  R total = terms[0];
#pragma unroll
  for (int i = 1; i < N; i++) total = fma(total, x, terms[i]);
  return total;
}
// log(exp(a) + exp(b)); arithmetic.py explains it and has its numbers.
template <class Numbers> struct LogAddExp { template <class R> __device__ R operator()(R a, R b) const {
  constexpr Numbers number{};
  constexpr R magic = R(3ull << (number.mantissa - 1)), log2e = R(-1.4426950408889634);
  R top = maximum(a, b), gap = magnitude(a - b), d = gap;
  if constexpr (same<R, f32>) d = fmin(gap, number.far);  // the magnitude comes with it
  R k = fma(d, log2e, magic), f = fma(d, log2e, magic - k), e = horner(Numbers::held().exp2, f), u;
  decltype(number.bits) power, bits;
  memcpy(&power, &k, sizeof(R)); memcpy(&bits, &e, sizeof(R));
  bits += power << number.mantissa;
  memcpy(&u, &bits, sizeof(R));
  return fma_below(gap, number.far, u, horner(Numbers::held().log1p, u), top);
} };

// Operators on pairs.
struct Affine { template <class P> __device__ P operator()(P a, P b) const {
  return {times(a.head, b.head), {plus(times(a.tail.head, b.head), b.tail.head)}};
} };
// The map in order where only the state is wanted: the product of all factors is left out.
struct AffineState { template <class P> __device__ P operator()(P a, P b) const {
  return {b.head, {plus(times(a.tail.head, b.head), b.tail.head)}};
} };
// One step back through a recurrence, on (gradient of the state, factor, state before); and the gradients that follow from it.
struct Adjoint { template <class P> __device__ P operator()(P a, P b) const {
  return {plus(b.head, times(a.tail.head, a.head)), b.tail};
} };
struct Products { template <class P> __device__ P operator()(P s) const {
  return {s.head, {times(s.head, s.tail.tail.head), s.tail.tail}};
} };
struct ArgMax { template <class P> __device__ P operator()(P a, P b) const { return select(a.head >= b.head || a.head != a.head, a, b); } };
struct ArgMin { template <class P> __device__ P operator()(P a, P b) const { return select(a.head <= b.head || a.head != a.head, a, b); } };

// A scalar operator lifted to items of one component.
template <class F> struct Scalar { template <class P> __device__ P operator()(P a, P b) const { return {F()(a.head, b.head)}; } };
