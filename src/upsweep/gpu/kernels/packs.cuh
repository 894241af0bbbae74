// Neighbours as they lie in memory, in words: bytes in registers of their own would take four times as many registers.
#pragma once
#include "prelude.cuh"

template <class T, int N> struct Pack {
  static constexpr int SIZE = sizeof(T), PER = SIZE < 4 ? 4 / SIZE : 1, WORDS = (N * SIZE + 3) / 4;
  u32 w[WORDS];

  __device__ __forceinline__ T get(int j) const {
    T x;
    const u32 word = w[j * SIZE / 4] >> 8 * (j * SIZE % 4);
    memcpy(&x, SIZE < 4 ? &word : w + j * SIZE / 4, SIZE);
    return x;
  }
  // Load from an address that is a multiple of their size, or of 16. ONCE: nobody will ask for them again, so they leave the caches
  // first.
  template <bool ONCE = false> __device__ __forceinline__ void load(const T* from) {
    if constexpr (N * SIZE == 1) w[0] = *(const u8*)from;
    else if constexpr (N * SIZE == 2) w[0] = *(const u16*)from;
    else if constexpr (N * SIZE == 4) w[0] = *(const u32*)from;
    else if constexpr (N * SIZE == 8) { const u64 v = *(const u64*)from; w[0] = (u32)v; w[1] = v >> 32; }
    else {
#pragma unroll
      for (int i = 0; i < WORDS / 4; i++) {
        const uint4 v = ONCE ? __ldcs((const uint4*)from + i) : ((const uint4*)from)[i];
        w[4 * i] = v.x; w[4 * i + 1] = v.y; w[4 * i + 2] = v.z; w[4 * i + 3] = v.w;
      }
    }
  }
  // Load the neighbours from low up to high, from any address; the others are zero.
  __device__ __forceinline__ void load_some(const T* from, i64 low, i64 high) {
#pragma unroll
    for (int i = 0; i < WORDS; i++) w[i] = 0;
#pragma unroll
    for (int j = 0; j < N; j++) if (j >= low && j < high) {
      u32 word = 0;
      memcpy(SIZE < 4 ? &word : w + j * SIZE / 4, from + j, SIZE);
      if (SIZE < 4) w[j * SIZE / 4] |= word << 8 * (j * SIZE % 4);
    }
  }
  // Load them so, by one load where all exist and lie evenly.
  template <bool WHOLE, bool ONCE = false> __device__ __forceinline__ void load_within(const T* from, i64 low, i64 high) {
    if (WHOLE && low <= 0 && high >= N) load<ONCE>(from); else load_some(from, low, high);
  }
};

// A bit for each byte that is not zero.
template <int N> __device__ __forceinline__ u32 bits_of(const Pack<u8, N>& bytes) {
  u32 bits = 0;
#pragma unroll
  for (int i = 0; i < bytes.WORDS; i++) {
    const u32 w = bytes.w[i], top = (((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) >> 7 & 0x01010101u;
    bits |= (top * 0x01020408u >> 24 & 15) << 4 * i;
  }
  return bits;
}
