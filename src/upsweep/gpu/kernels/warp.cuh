// One warp's elements, one a lane, in aligned groups of LANES lanes: the same tree, in place, by shuffles.
#pragma once
#include "elements.cuh"

constexpr u32 FULL = 0xffffffffu;

// A shuffle of all 32-bit words of a value, component by component: as one array of words the value would leave registers.
template <class T, class F> __device__ __forceinline__ void shuffle_words(T& x, F&& shuffle) {
  Words<T> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<T>::count; i++) w.w[i] = shuffle(w.w[i]);
  x = from_words<T>(w);
}
template <class F> __device__ __forceinline__ Item shuffled(Item x, F&& shuffle) {
  each<COMPONENTS>([&](auto c) { shuffle_words(get<c.value>(x), shuffle); });
  return x;
}
template <class F> __device__ __forceinline__ Element shuffled(const Element& e, F&& shuffle) {
#if SEGMENTED
  return element(shuffled(e.value, shuffle), shuffle(e.head));
#else
  return element(shuffled(e.value, shuffle), false);
#endif
}
template <int LANES = 32, class T> __device__ __forceinline__ T from_lane(const T& x, int lane) { return shuffled(x, [=](u32 w) { return __shfl_sync(FULL, w, lane, LANES); }); }
template <class T> __device__ __forceinline__ T from_left(const T& x, int lanes) { return shuffled(x, [=](u32 w) { return __shfl_up_sync(FULL, w, lanes); }); }
template <class T> __device__ __forceinline__ T from_next(const T& x) { return shuffled(x, [](u32 w) { return __shfl_down_sync(FULL, w, 1); }); }
template <class T> __device__ __forceinline__ T from_xor(const T& x, int mask) { return shuffled(x, [=](u32 w) { return __shfl_xor_sync(FULL, w, mask); }); }

__device__ __forceinline__ Element pick(bool first, const Element& a, const Element& b) {
#if SEGMENTED
  return element(select(first, a.value, b.value), first ? a.head : b.head);
#else
  return element(select(first, a.value, b.value), false);
#endif
}

// How many steps of a SPARING sweep are written out: the operator of many components once, in a loop, as all its copies fill the
// instruction cache. Eight of f4 ran at .56 of a copy so, at .46 without; six of f8 at .67, at .70 without (H200).
constexpr int WRITTEN = COMPONENTS < 8 ? 5 : 1;

// In place, of N sets of elements side by side: a lane gets the sum of the largest aligned block of lanes that ends with it,
// the last lane of a group that of the group. Blocks that end behind the first `most` elements of a set may be left out.
template <int LANES, How HOW = INLINE, int N>
__device__ __forceinline__ void up_sweep(Element (&e)[N], int lane, const int (&most)[N]) {
  auto step = [&](int i, int s) {
    bool ends = (~lane & ((2 << s) - 1)) == 0;
    e[i] = pick(ends, combine<HOW>(from_left(e[i], 1 << s), e[i]), e[i]);
  };
  if constexpr (HOW == SPARING) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll WRITTEN
      for (int s = 0; s < log2_of(LANES); s++) if (2 << s <= most[i]) step(i, s);
  } else if constexpr (HOW == ROLLED) {
#pragma unroll 1
    for (int s = 0; s < log2_of(LANES); s++)
#pragma unroll
      for (int i = 0; i < N; i++) step(i, s);
  } else {
#pragma unroll
    for (int s = 0; s < log2_of(LANES); s++)
#pragma unroll
      for (int i = 0; i < N; i++) if (HOW == INLINE || 2 << s <= most[i]) step(i, s);
  }
}
template <int LANES, How HOW = INLINE>
__device__ __forceinline__ Element up_sweep(const Element& e, int lane, int most = LANES) {
  Element one[] = {e};
  up_sweep<LANES, HOW>(one, lane, {most});
  return one[0];
}

// The sums of N groups of 32 elements, one a lane: a lane gets that of the group whose number is its own modulo N.
template <int N> __device__ __forceinline__ Element sums_of(Element (&e)[N], int lane) {
#pragma unroll
  for (int s = 0; s < 5; s++) {
    bool right = lane >> s & 1;
#pragma unroll
    for (int j = 0; j < max_of(N >> (s + 1), 1); j++) {  // of two groups a lane keeps one and sends the other
      bool two = N >> (s + 1);
      Element kept = two ? pick(right, e[2 * j + 1], e[2 * j]) : e[j], sent = two ? pick(right, e[2 * j], e[2 * j + 1]) : e[j];
      Element got = from_xor(sent, 1 << s);
      e[j] = combine(pick(right, got, kept), pick(right, kept, got));
    }
  }
  return e[0];
}

// Whether a segment starts in the largest aligned block of lanes that ends with this one.
__device__ __forceinline__ bool swept_heads(bool head, int lane) {
  return SEGMENTED && __ballot_sync(FULL, head) & ((2u << lane) - (1u << (lane + 1 - (lane + 1 & ~lane))));
}

// From the prefix of a group to the prefix of its element m: the blocks before that, the largest first.
template <int LANES, How HOW = INLINE>
__device__ __forceinline__ void down_sweep(Prefix& p, int m, const Element& swept, const Item& start) {
  constexpr int STEPS = log2_of(LANES);
  auto block = [&](int s) { return from_lane<LANES>(swept, ((m >> s) << s) - 1); };
  if constexpr (HOW == SPARING) {
#pragma unroll WRITTEN
    for (int s = STEPS - 1; s >= 0; s--) {
      bool wanted = m >> s & 1;
      if (__any_sync(FULL, wanted)) fold_where(wanted, p, block(s), start);
    }
  } else if constexpr (HOW == ROLLED) {
#pragma unroll 1
    for (int s = STEPS - 1; s >= 0; s--) fold_where(m >> s & 1, p, block(s), start);
  } else {
    Element blocks[max_of(STEPS, 1)];
#pragma unroll
    for (int s = 0; s < STEPS; s++) blocks[s] = block(s);
#pragma unroll
    for (int s = STEPS - 1; s >= 0; s--) {
      bool wanted = m >> s & 1;
      if constexpr (HOW == INLINE) fold_where(wanted, p, blocks[s], start);
      else if (wanted) fold<CALLED>(p, blocks[s], start);
    }
  }
}

// Of elements of which any order gives the same bits, one a lane: the sum of all, and `before`, that of the lanes before this one in
// the segment in which the last of these ends.
__device__ __forceinline__ Element sum_segments(const Element& e, int lane, Item& before) {
  const u32 starts = __ballot_sync(FULL, head_of(e));
  const int reach = lane - max(31 - __clz(starts & ((2u << lane) - 1)), 0);  // lanes before this one in the same segment
  Item sum = e.value;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const Item left = from_left(sum, d);
    sum = select(reach >= d, op(left, sum), sum);
  }
  before = from_left(sum, 1);
  return element(sum, starts != 0);
}
