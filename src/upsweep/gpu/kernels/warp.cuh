// One warp's elements, one a lane, in aligned groups of LANES lanes: the same tree, by shuffles.
#pragma once
#include "elements.cuh"

constexpr u32 FULL = 0xffffffffu;

template <class T, class F> __device__ __forceinline__ T by_words(const T& x, F&& shuffle) {
  Words<T> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<T>::count; i++) w.w[i] = shuffle(w.w[i]);
  return from_words<T>(w);
}
template <class T> __device__ __forceinline__ T from_lane(const T& x, int lane) { return by_words(x, [=](u32 w) { return __shfl_sync(FULL, w, lane); }); }
template <class T> __device__ __forceinline__ T from_next(const T& x) { return by_words(x, [](u32 w) { return __shfl_down_sync(FULL, w, 1); }); }
template <class T> __device__ __forceinline__ T from_xor(const T& x, int mask) { return by_words(x, [=](u32 w) { return __shfl_xor_sync(FULL, w, mask); }); }

// The sum of each group, in all its lanes. left[e] is the sum of the 2^e lanes left of this lane's block of 2^e: the left
// sibling, meant only where bit e of the lane is set.
template <int LANES> __device__ __forceinline__ Element up_sweep(Element e, int lane, Element* left) {
#pragma unroll
  for (int s = 0; s < log2_of(LANES); s++) {
    Element other = from_xor(e, 1 << s);
    left[s] = other;
    bool right = lane >> s & 1;
    e = combine(right ? other : e, right ? e : other);
  }
  return e;
}

// From the prefix of the group to the prefix of this lane: the largest block first.
template <int LANES> __device__ __forceinline__ void down_sweep(Prefix& p, int lane, const Element* left, const Item& start) {
#pragma unroll
  for (int s = log2_of(LANES) - 1; s >= 0; s--) if (lane >> s & 1) fold(p, left[s], start);
}
