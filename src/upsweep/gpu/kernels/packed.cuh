// Sums of bytes, four to a register. Bytes wrap, so that their sum is the same in every order, and a thread need not walk
// the tree inside its own run. One add at a time took 15 instructions an item and .64 of a copy (H200).
#pragma once
#include "region.cuh"
#include "warp.cuh"

template <class F> constexpr bool adds = same<F, Scalar<Add>>;
template <class T> constexpr bool is_byte = same<T, i8> || same<T, u8>;
constexpr bool ALL_BYTES = is_byte<typename Input<0>::Load> && is_byte<typename Component<0>::Acc> && is_byte<typename Output<0>::Store>;
constexpr bool PACKED = PLAIN && !Input<0>::still && COMPONENTS == 1 && !SEGMENTED && !REDUCE && ITEMS >= 16 && adds<Op> && ALL_BYTES;

// Words of a run; of other types too, for which the functions below are compiled but never called.
constexpr int PACKED_WORDS = max_of(max_of(LoadSlab<0, 32, ITEMS>::RUN, StoreSlab<0, 32, ITEMS>::RUN) / 4, 1);
typedef u32 Packed[PACKED_WORDS];

__device__ __forceinline__ u32 sum_bytes(const Packed& w) {
  u32 sum = 0;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) sum = __dp4a(w[i], 0x01010101u, sum);
  return sum;
}

// Prefixes of the bytes, in two lanes of 16 bits: items 0 and 2, and items 1 and 3, of each word.
__device__ __forceinline__ void scan_bytes(Packed& w, u32 before) {
  u32 carry = (before & 0xff) * 0x00010001u;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) {
    u32 even = __byte_perm(w[i], 0, 0x4240), odd = __byte_perm(w[i], 0, 0x4341), pair = even + odd;
    u32 first = even + (pair << 16) + carry, second = pair + (pair << 16) + carry;
    u32 inclusive = __byte_perm(first, second, 0x6240);
    w[i] = EXCLUSIVE ? __byte_perm(carry, inclusive, 0x6540) : inclusive;
    carry = __byte_perm(second, 0, 0x4242);
  }
}

__device__ __forceinline__ Element byte_element(u32 sum) {
  Item item;
  get<0>(item) = convert<typename Component<0>::Acc>(sum);
  return element(item, false);
}
