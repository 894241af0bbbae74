// A filter's sections of one pole or of a pair of them. A section is a recurrence with one multiplier for all its items, so that
// the sum of a block of the tree is multiplied by a power of the pole that depends on the block's level alone. Only the second
// component of a scan of affine maps is computed then, with the same bits.
//   LOAD, STORE   types of items in memory
#pragma once
#include "operators.cuh"

constexpr u32 FULL = 0xffffffffu;
constexpr int POWERS = 32, MOST = 4, LEVELS = 4;  // cascades.py counts alike

struct Section {
  f64 now, first, second;
  f64 pair;               // not 0 where the pole stands for its conjugate too
  c128 power[POWERS];     // of the pole: 2^k times
};

struct Params {
  u32* control; u32* arrivals; u64* nodes; u64 node_words;  // as in params.py
  const LOAD* in; STORE* out;
  i64 n, in_row, out_row, tiles, tickets;
  i64 level_first[LEVELS], level_size[LEVELS];
  i64 sections, used;
  Section section[MOST];
};
static_assert(sizeof(Section) == 8 * (4 + 2 * POWERS) && sizeof(Params) == 8 * 22 + MOST * sizeof(Section), "cascades.py packs others");

template <class V> __device__ __forceinline__ V power(const Section& by, int level) {
  if constexpr (is_complex<V>) return by.power[level]; else return by.power[level].re;
}
template <class V> __device__ __forceinline__ V after(V state, V power, V block) { return plus(times(state, power), block); }
// An item is a state whose imaginary part is 0. Products with that 0 are left out; sums with it are not, as -0 + 0 is 0.
template <class V> __device__ __forceinline__ V state_of(f64 x) { if constexpr (is_complex<V>) return {x, 0.0}; else return x; }
template <class V> __device__ __forceinline__ V sum_of_two(f64 x0, V pole, f64 x1) {
  if constexpr (is_complex<V>) return {x0 * pole.re + x1, x0 * pole.im + 0.0}; else return x0 * pole + x1;
}
template <class V> __device__ __forceinline__ f64 result(const Section& by, f64 x, V state) {
  if constexpr (is_complex<V>) return by.now * x + (by.first * state.re + by.second * state.im);
  else return by.now * x + by.first * state;
}

// The state before an item; there is none before the first item of a row.
template <class V> struct Before { V value; bool some; };
template <class V> __device__ __forceinline__ void fold(Before<V>& b, V power, V block) {
  b = {select(b.some, after(b.value, power, block), block), true};
}

// The sum of the 2^LEVEL items of a run from `first` on.
template <int LEVEL, class V, int N> __device__ __forceinline__ V sum_of(const f64 (&x)[N], int first, const Section& by) {
  if constexpr (LEVEL == 1) return sum_of_two(x[first], power<V>(by, 0), x[first + 1]);
  else if constexpr (LEVEL == 0) return state_of<V>(x[first]);
  else return after(sum_of<LEVEL - 1, V>(x, first, by), power<V>(by, LEVEL - 1), sum_of<LEVEL - 1, V>(x, first + (1 << LEVEL - 1), by));
}

// Makes results of the 2^LEVEL items from `first` on.
template <int LEVEL, class V, int N> __device__ __forceinline__ void finish(f64 (&x)[N], int first, const Section& by, Before<V> b) {
  if constexpr (LEVEL == 0) x[first] = result(by, x[first], b.value);
  else {
    const V left = sum_of<LEVEL - 1, V>(x, first, by);
    finish<LEVEL - 1>(x, first, by, b);
    fold(b, power<V>(by, LEVEL - 1), left);
    finish<LEVEL - 1>(x, first + (1 << LEVEL - 1), by, b);
  }
}

template <class V, class F> __device__ __forceinline__ V shuffled(const V& x, F&& shuffle) {
  Words<V> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<V>::count; i++) w.w[i] = shuffle(w.w[i]);
  return from_words<V>(w);
}

// One sum a lane, in aligned groups of LANES lanes, of blocks of 2^level items: a lane gets the sum of the largest aligned block of
// lanes that ends with it. Blocks that end behind the first `most` lanes may be left out.
template <int LANES, class V> __device__ __forceinline__ V up_sweep(V sum, int lane, const Section& by, int level, int most = LANES) {
#pragma unroll
  for (int s = 0; s < log2_of(LANES) && 2 << s <= most; s++) {
    const V left = shuffled(sum, [=](u32 w) { return __shfl_up_sync(FULL, w, 1 << s); });
    sum = select((~lane & (2 << s) - 1) == 0, after(left, power<V>(by, level + s), sum), sum);
  }
  return sum;
}
template <int LANES = 32, class V> __device__ __forceinline__ V from_lane(const V& x, int lane) {
  return shuffled(x, [=](u32 w) { return __shfl_sync(FULL, w, lane, LANES); });
}

// From the state before a group to that before its block m: the blocks before it, the largest first.
template <int LANES, class V> __device__ __forceinline__ void down_sweep(Before<V>& b, int m, V swept, const Section& by, int level) {
#pragma unroll
  for (int s = log2_of(LANES) - 1; s >= 0; s--) {
    const V block = from_lane<LANES>(swept, (m >> s << s) - 1);
    const bool wanted = m >> s & 1;
    b.value = select(wanted, select(b.some, after(b.value, power<V>(by, level + s), block), block), b.value);
    b.some |= wanted;
  }
}
