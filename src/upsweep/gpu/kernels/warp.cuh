// One warp's elements, one a lane, in aligned groups of LANES lanes: the same tree, by shuffles.
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
template <class T> __device__ __forceinline__ T from_lane(const T& x, int lane) { return shuffled(x, [=](u32 w) { return __shfl_sync(FULL, w, lane); }); }
template <class T> __device__ __forceinline__ T from_next(const T& x) { return shuffled(x, [](u32 w) { return __shfl_down_sync(FULL, w, 1); }); }
template <class T> __device__ __forceinline__ T from_xor(const T& x, int mask) { return shuffled(x, [=](u32 w) { return __shfl_xor_sync(FULL, w, mask); }); }

__device__ __forceinline__ Element pick(bool first, const Element& a, const Element& b) {
#if SEGMENTED
  return element(select(first, a.value, b.value), first ? a.head : b.head);
#else
  return element(select(first, a.value, b.value), false);
#endif
}

// The sum of each group, in all its lanes. left[e] is the sum of the 2^e lanes left of this lane's block of 2^e: the left
// sibling, meant only where bit e of the lane is set.
template <int LANES> __device__ __forceinline__ Element up_sweep(Element e, int lane, Element* left) {
#pragma unroll
  for (int s = 0; s < log2_of(LANES); s++) {
    Element other = from_xor(e, 1 << s);
    left[s] = other;
    bool right = lane >> s & 1;
    e = combine(pick(right, other, e), pick(right, e, other));
  }
  return e;
}

// From the prefix of the group to the prefix of this lane: the largest block first.
template <int LANES> __device__ __forceinline__ void down_sweep(Prefix& p, int lane, const Element* left, const Item& start) {
#pragma unroll
  for (int s = log2_of(LANES) - 1; s >= 0; s--) if (lane >> s & 1) fold(p, left[s], start);
}
