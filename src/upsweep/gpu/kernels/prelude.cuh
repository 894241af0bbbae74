// Types, tuples and conversions: the little that the kernels need of a standard library (NVRTC has none).
#pragma once
#include "narrow.cuh"
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long long i64; typedef unsigned long long u64;
typedef float f32; typedef double f64;

// How a component lies along its row.
//   ALIGNED   neighbours touch, and every tile starts on 16 bytes
//   SHIFTED   neighbours touch, tiles start anywhere: pieces stay those of global memory, threads realign in registers
//   STRIDED   anything else, item by item, in pieces of GRAIN bytes
//   DENSE     short rows one behind another, several to a warp
//   EVEN      the same, where each starts on 16 bytes
//   LOOSE     one row or several, of items of up to four bytes, which threads turn in registers both ways
//   PLACED    rows of bytes that may be cut anywhere, and so are cut where memory's pieces end
enum Mode { ALIGNED, SHIFTED, STRIDED, DENSE, EVEN, LOOSE, PLACED };
// Along what the neighbours of a tile of columns lie: columns, items of one column (WITHIN words, in order or BACKWARDS), the lines of a
// rectangle of columns, or across these.
enum Lies { COLUMNS_NEAR, ITEMS_NEAR, ITEMS_WITHIN, ITEMS_BACKWARDS, SIDE_NEAR, CROSS_NEAR, CROSS_KEPT, CROSS_BYTES, SIDE_WHOLE, CROSS_WHOLE };

struct b8 { u8 bits; };                     // a bool in memory
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
template <class R> struct alignas(2 * sizeof(R)) complex { R re, im; };
typedef complex<float> c64; typedef complex<double> c128;

template <class T, class U> inline constexpr bool same = false;
template <class T> inline constexpr bool same<T, T> = true;
template <class T> inline constexpr bool is_complex = same<T, c64> || same<T, c128>;

// Truths of neighbouring columns, a byte each, as they lie in memory: those that are not 0 become 1.
template <class T> struct Truths { T bytes; };
template <class T> inline constexpr bool are_truths = false;
template <class T> inline constexpr bool are_truths<Truths<T>> = true;
__device__ __forceinline__ u32 ones(u32 x) { return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) >> 7 & 0x01010101u; }

// An item of COUNT neighbours in memory, of which one counts.
template <class T, int COUNT, int AT> struct alignas(COUNT * sizeof(T)) Spaced { T item[COUNT]; };
template <class T> inline constexpr bool is_spaced = false;
template <class T, int COUNT, int AT> inline constexpr bool is_spaced<Spaced<T, COUNT, AT>> = true;
template <class T, int COUNT, int AT> __device__ __forceinline__ T counting(const Spaced<T, COUNT, AT>& x) { return x.item[AT]; }

// Four bytes, each the one at AT of COUNT neighbours in memory.
template <int COUNT, int AT> struct alignas(4 * COUNT) Woven { u32 w[COUNT]; };
template <class T> inline constexpr bool is_woven = false;
template <int COUNT, int AT> inline constexpr bool is_woven<Woven<COUNT, AT>> = true;
template <int AT> __device__ __forceinline__ u32 unwoven(const Woven<2, AT>& x) { return __byte_perm(x.w[0], x.w[1], AT * 0x1111 + 0x6420); }
template <int AT> __device__ __forceinline__ u32 unwoven(const Woven<4, AT>& x) {
  constexpr u32 pair = AT * 0x11 + 0x40;
  return __byte_perm(__byte_perm(x.w[0], x.w[1], pair), __byte_perm(x.w[2], x.w[3], pair), 0x5410);
}

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }
constexpr int max_of(int a, int b) { return a > b ? a : b; }
// The bytes of four words change places: byte b of word c and byte c of word b.
__device__ __forceinline__ void turn_bytes(u32* w) {
  const u32 a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[0], w[1], 0x7362);
  const u32 c = __byte_perm(w[2], w[3], 0x5140), d = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(a, c, 0x5410); w[1] = __byte_perm(a, c, 0x7632);
  w[2] = __byte_perm(b, d, 0x5410); w[3] = __byte_perm(b, d, 0x7632);
}

// Of two words of every second byte, the bytes that count.
template <class T, int AT> __device__ __forceinline__ u32 second_bytes(Spaced<T, 2, AT>, u32 low, u32 high) {
  return unwoven(Woven<2, AT>{{low, high}});
}

// The number that a narrow float is made of. A double goes toward zero, and its last bit is set where that is not exact
// ("rounding to odd", Boldo and Melquiond 2008), so that the number is rounded only once.
template <class From> __device__ __forceinline__ f32 before_narrow(From x) {
  if constexpr (!same<From, f64>) return (f32)x;
  else { const f32 r = __double2float_rz(x); return (f64)r == x ? r : __uint_as_float(__float_as_uint(r) | 1); }
}

// A cast as C++ casts. Narrow floats go through float and are rounded once, to nearest even.
template <class To, class From> __device__ __forceinline__ To convert(From x) {
  if constexpr (same<To, From>) return x;
  else if constexpr (is_spaced<From>) return convert<To>(counting(x));
  else if constexpr (is_woven<From>) return convert<To>(unwoven(x));
  else if constexpr (are_truths<From>) return convert<To>(ones(convert<u32>(x.bytes)));
  else if constexpr (same<From, b8>) return convert<To>(x.bits != 0);
  else if constexpr (same<From, f16>) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return convert<To>(r); }
  else if constexpr (same<From, bf16>) return convert<To>(__uint_as_float((u32)x.bits << 16));
  else if constexpr (is_narrow<From>) return convert<To>(decoded(x));
  else if constexpr (same<To, b8>) { if constexpr (is_complex<From>) return b8{u8(x.re != 0 || x.im != 0)}; else return b8{u8(x != 0)}; }
  else if constexpr (same<To, f16>) { f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(before_narrow(x))); return r; }
  else if constexpr (same<To, bf16>) { bf16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(before_narrow(x))); return r; }
  else if constexpr (is_narrow<To>) return encoded<To>(before_narrow(x));
  else if constexpr (is_complex<To> && is_complex<From>) return To{(decltype(To::re))x.re, (decltype(To::re))x.im};
  else if constexpr (is_complex<To>) return To{(decltype(To::re))x, 0};
  else if constexpr (is_complex<From>) return (To)x.re;
  else return (To)x;
}

// N items at once.
template <class From, class To, int N> __device__ __forceinline__ void convert_all(const From (&x)[N], To (&y)[N]) {
  if constexpr (by_instruction<From> && same<To, f32> && N % 4 == 0) { decode_all(x, y); return; }
  if constexpr (by_instruction<To> && same<From, f32> && N % 4 == 0) { encode_all(x, y); return; }
#pragma unroll
  for (int k = 0; k < N; k++) y[k] = convert<To>(x[k]);
}

// A tuple of components; an item of the sequence is one.
template <class... Ts> struct Tuple;
template <class T> struct Tuple<T> { T head; };
template <class T, class... Rest> struct Tuple<T, Rest...> { T head; Tuple<Rest...> tail; };

template <int C, class T, class... Rest> __device__ __forceinline__ auto& get(Tuple<T, Rest...>& t) {
  if constexpr (C == 0) return t.head; else return get<C - 1>(t.tail);
}
template <int C, class T, class... Rest> __device__ __forceinline__ const auto& get(const Tuple<T, Rest...>& t) {
  if constexpr (C == 0) return t.head; else return get<C - 1>(t.tail);
}

// A choice component by component: a choice of the whole would be one of two addresses, and would leave registers.
template <class T> __device__ __forceinline__ T select(bool first, const T& a, const T& b) {
  if constexpr (is_complex<T>) return {first ? a.re : b.re, first ? a.im : b.im};
  else return first ? a : b;
}
template <class T> __device__ __forceinline__ Tuple<T> select(bool first, const Tuple<T>& a, const Tuple<T>& b) {
  return {select(first, a.head, b.head)};
}
template <class T, class U, class... Rest>
__device__ __forceinline__ Tuple<T, U, Rest...> select(bool first, const Tuple<T, U, Rest...>& a, const Tuple<T, U, Rest...>& b) {
  return {select(first, a.head, b.head), select(first, a.tail, b.tail)};
}

template <int V> struct Int { static constexpr int value = V; };
// each<K>(f) calls f(Int<0>), ..., f(Int<K - 1>): a loop over components, whose types differ.
template <int K, int C = 0, class F> __device__ __forceinline__ void each(F&& f) {
  if constexpr (C < K) { f(Int<C>{}); each<K, C + 1>(f); }
}

// A value as 32-bit words, for shuffles and for the nodes in memory.
template <class T> struct Words { static constexpr int count = (sizeof(T) + 3) / 4; u32 w[count]; };
template <class T> __device__ __forceinline__ Words<T> to_words(const T& x) {
  Words<T> r; r.w[Words<T>::count - 1] = 0; memcpy(&r, &x, sizeof(T)); return r;
}
template <class T> __device__ __forceinline__ T from_words(const Words<T>& r) { T x; memcpy(&x, &r, sizeof(T)); return x; }
