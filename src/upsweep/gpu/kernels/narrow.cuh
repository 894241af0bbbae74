// Floats of eight bits: a sign, EXPONENT bits and MANTISSA bits, with the highest exponent for infinity and NaN (INFINITE) or
// all ones alone for NaN (Micikevicius et al. 2022, "FP8 formats for deep learning"). The arithmetic is plain C and exact, so
// that every architecture, and a host compiler, gives the bits of ml_dtypes. From sm_89 on, instructions convert two of the types
// in a third of the time.
#pragma once

template <int EXPONENT, int MANTISSA, bool INFINITE> struct Narrow {
  unsigned char bits;
  static constexpr int width = EXPONENT + MANTISSA, shift = 23 - MANTISSA, bias = (1 << (EXPONENT - 1)) - 1;
  static constexpr unsigned largest = (1u << width) - 1 - (INFINITE ? 1u << MANTISSA : 1u);
  static constexpr unsigned overflow = largest + 1, nan = overflow + (INFINITE ? 1u << (MANTISSA - 1) : 0u);
};
typedef Narrow<4, 3, false> e4m3;
typedef Narrow<5, 2, true> e5m2;

template <class T> inline constexpr bool is_narrow = false;
template <int E, int M, bool I> inline constexpr bool is_narrow<Narrow<E, M, I>> = true;

constexpr float power_of_two(int e) { return e == 0 ? 1.0f : e > 0 ? 2.0f * power_of_two(e - 1) : 0.5f * power_of_two(e + 1); }
__device__ __forceinline__ float as_float(unsigned bits) { float r; memcpy(&r, &bits, 4); return r; }
__device__ __forceinline__ unsigned as_bits(float x) { unsigned r; memcpy(&r, &x, 4); return r; }

// Whether the chip has instructions for the type.
template <class T> inline constexpr bool by_instruction = false;

// Exponent and mantissa where float32 has them, times a power of two, which is exact for subnormal numbers too.
template <class T> __device__ __forceinline__ float decoded_plainly(T x) {
  unsigned wide = x.bits & ((1u << T::width) - 1), sign = (unsigned)(x.bits >> T::width) << 31;
  unsigned size = as_bits(as_float(wide << T::shift) * power_of_two(127 - T::bias));
  if (wide >= T::overflow) size = wide == T::overflow && T::nan != T::overflow ? 0x7f800000u : 0x7fc00000u;
  return as_float(size | sign);
}

// Normal numbers are rounded as integers, subnormal ones by adding a power of two whose last place is theirs; ties to even.
template <class T> __device__ __forceinline__ T encoded_plainly(float x) {
  constexpr int magic = 24 - T::bias - (23 - T::shift);
  unsigned bits = as_bits(x), size = bits & 0x7fffffffu, sign = bits >> 31 << T::width;
  unsigned nearest = size + (1u << (T::shift - 1)) - 1 + (size >> T::shift & 1);
  unsigned normal = (nearest >> T::shift) - ((unsigned)(127 - T::bias) << (23 - T::shift));
  unsigned small = as_bits(as_float(size) + power_of_two(magic)) - ((unsigned)(127 + magic) << 23);
  unsigned code = size < (unsigned)(128 - T::bias) << 23 ? small : normal > T::largest ? T::overflow : normal;
  if (size > 0x7f800000u) code = T::nan;
  return T{(unsigned char)(code | sign)};
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <> inline constexpr bool by_instruction<e4m3> = true;
template <> inline constexpr bool by_instruction<e5m2> = true;

// Each is a half too, and a half a float; instructions take two at a time.
__device__ __forceinline__ float half_as_float(unsigned bits) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)bits)); return r; }
__device__ __forceinline__ unsigned halves(e5m2, unsigned two) { return (two & 0xff) << 8 | (two & 0xff00) << 16; }
__device__ __forceinline__ unsigned halves(e4m3, unsigned two) {
  unsigned r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((unsigned short)two)); return r;
}
__device__ __forceinline__ unsigned rounded(e4m3, float low, float high) {
  unsigned short r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low)); return r;
}
__device__ __forceinline__ unsigned rounded(e5m2, float low, float high) {
  unsigned short r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low)); return r;
}
template <class T> __device__ __forceinline__ float decoded_by_instruction(T x) { return half_as_float(halves(T{}, x.bits) & 0xffff); }
// The instruction stops at the largest number. A number that lies half a step above it overflows, where the largest code is odd, and so
// does any further above.
template <class T> constexpr unsigned most = (((T::largest << 1 | 1) << (T::shift - 1)) - (T::largest & 1)) + ((unsigned)(127 - T::bias) << 23);
template <class T> __device__ __forceinline__ T encoded_by_instruction(T, float x) {
  const float size = fabsf(x);
  unsigned sign = as_bits(x) >> 31 << T::width, code = size <= as_float(most<T>) ? rounded(T{}, x, 0.0f) : T::overflow | sign;
  if (T::nan != T::overflow && !(size <= as_float(0x7f800000u))) code = T::nan | sign;
  return T{(unsigned char)code};
}

// Four at once. The halves of a word are named in the instructions' text: cut out of it by shifts they cost a shift each.
__device__ __forceinline__ void halves_of_four(e4m3, unsigned four, unsigned& low, unsigned& high) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b; }" : "=r"(low), "=r"(high) : "r"(four));
}
__device__ __forceinline__ void halves_of_four(e5m2, unsigned four, unsigned& low, unsigned& high) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e5m2x2 %0, a; cvt.rn.f16x2.e5m2x2 %1, b; }" : "=r"(low), "=r"(high) : "r"(four));
}
__device__ __forceinline__ void halves_as_floats(unsigned two, float& low, float& high) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(two));
}
__device__ __forceinline__ unsigned rounded_four(e4m3, const float* x) {
  unsigned r;
  asm("{ .reg .b16 a, b; cvt.rn.satfinite.e4m3x2.f32 a, %2, %1; cvt.rn.satfinite.e4m3x2.f32 b, %4, %3; mov.b32 %0, {a, b}; }"
      : "=r"(r) : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
  return r;
}
__device__ __forceinline__ unsigned rounded_four(e5m2, const float* x) {
  unsigned r;
  asm("{ .reg .b16 a, b; cvt.rn.satfinite.e5m2x2.f32 a, %2, %1; cvt.rn.satfinite.e5m2x2.f32 b, %4, %3; mov.b32 %0, {a, b}; }"
      : "=r"(r) : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
  return r;
}

// N at once, which is a multiple of four.
template <class T, int N> __device__ __forceinline__ void decode_all(const T (&x)[N], float (&y)[N]) {
#pragma unroll
  for (int k = 0; k < N; k += 4) {
    unsigned four, low, high;
    memcpy(&four, x + k, 4);
    halves_of_four(T{}, four, low, high);
    halves_as_floats(low, y[k], y[k + 1]);
    halves_as_floats(high, y[k + 2], y[k + 3]);
  }
}
// Whether a byte of the word, without its sign, is at least `least`: then the highest bit of its byte is set.
__device__ __forceinline__ unsigned at_least(unsigned least, unsigned four) { return (four & 0x7f7f7f7fu) + (128 - least) * 0x01010101u; }
// The instruction makes the largest code, or a larger one, of a NaN and of a number that overflows. Where no item of the run has such a
// code, nothing is left to do. A number that overflows gets the code after the largest. Where a NaN, which comes as 0x7f, is among the
// items, all are converted one by one.
template <class T, int N> __device__ __forceinline__ void encode_all(const float (&x)[N], T (&y)[N]) {
  unsigned four[N / 4], large = 0;
#pragma unroll
  for (int i = 0; i < N / 4; i++) {
    four[i] = rounded_four(T{}, x + 4 * i);
    large |= at_least(T::largest, four[i]);
  }
  if (large & 0x80808080u) {
    unsigned nan = 0;
#pragma unroll
    for (int i = 0; i < N / 4; i++) nan |= at_least(0x7f, four[i]);
    if (nan & 0x80808080u) {
#pragma unroll
      for (int i = 0; i < N / 4; i++) {
        four[i] = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) four[i] |= (unsigned)encoded_by_instruction(T{}, x[4 * i + k]).bits << 8 * k;
      }
    } else {
#pragma unroll
      for (int k = 0; k < N; k++) if (fabsf(x[k]) > as_float(most<T>)) four[k / 4] += 1u << 8 * (k % 4);
    }
  }
  memcpy(y, four, N);
}
#endif

template <class T> __device__ __forceinline__ float decoded(T x) {
  if constexpr (by_instruction<T>) return decoded_by_instruction(x);
  else return decoded_plainly(x);
}
template <class T> __device__ __forceinline__ T encoded(float x) {
  if constexpr (by_instruction<T>) return encoded_by_instruction(T{}, x);
  else return encoded_plainly<T>(x);
}
