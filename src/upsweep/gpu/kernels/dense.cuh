// Short rows that lie one behind another: the 32 / LANES rows of a warp are one stretch of memory. The warp copies the stretch as
// it lies, in whole pieces, and each group of lanes then reads its own row. Group by group, rows of 8 ran at .70 of a copy, of 64
// at .73 (H200).
#pragma once
#include "memory.cuh"

// EVEN: every row and every run starts on 16 bytes.
template <class T, bool EVEN, int LANES, int N> struct DenseSlab {
  static constexpr int SIZE = sizeof(T), RUN = N * SIZE, PIECES = (LANES * RUN + 15) / 16, AREA = (PIECES + 1) * 16;
  static constexpr int TURN = turn(N), MOST = 32 / LANES * (PIECES + 1);

  char* shared;
  int piece0;
  int lane;  // within the warp

  // The slabs of all groups, where `at` bytes of each lie before them.
  static __device__ __forceinline__ DenseSlab of(char* shared, int at, int lane) { return {shared, at * (32 / LANES) / 16, lane}; }

  __device__ __forceinline__ char* piece(int c) const { c += piece0; return shared + 16 * (c ^ ((c >> TURN) & 7)); }
  __device__ __forceinline__ char* item(int byte) const { return piece(byte >> 4) + (byte & 15); }

  // The stretch of memory, and the bytes between the start of its first piece and its own start. Lanes without a row use the last
  // row.
  struct Stretch { char *low, *high; int shift; };
  static __device__ __forceinline__ Stretch stretch(const Row& r) {
    char* low = (char*)__shfl_sync(0xffffffffu, (u64)r.base, 0);
    char* high = (char*)__shfl_sync(0xffffffffu, (u64)r.base, 31) + r.n * SIZE;
    return {low, high, EVEN ? 0 : (int)((u64)low & 15)};
  }
  __device__ __forceinline__ int own(const Row& r, int shift) const { return shift + (int)r.n * SIZE * (lane / LANES) + lane % LANES * RUN; }

  template <bool AGAIN = false> __device__ __forceinline__ void load(const Row& r, i64) const {
    Stretch s = stretch(r);
#pragma unroll
    for (int c = 0; c < MOST; c += 32) {
      const char* from = s.low - s.shift + 16 * (c + lane);
      i64 left = s.high - from;
      if (left > 0) copy_piece_async(shared_address(piece(c + lane)), from, left < 16 ? (int)left : 16);
    }
  }

  __device__ __forceinline__ void read(const Row& r, i64, T (&out)[N]) const {
    if constexpr (EVEN) {
      alignas(16) u32 w[RUN / 4];
      int first = own(r, 0) / 16;
#pragma unroll
      for (int c = 0; c < RUN / 16; c++) *(uint4*)(w + 4 * c) = *(const uint4*)piece(first + c);
      memcpy(out, w, RUN);
    } else {
      int first = own(r, stretch(r).shift);
#pragma unroll
      for (int k = 0; k < N; k++) out[k] = *(const T*)item(first + k * SIZE);
    }
  }

  // A run may end behind its row, where the next one lies.
  __device__ __forceinline__ void write(const Row& r, const T (&in)[N]) const {
    int exist = (int)r.n - lane % LANES * N;
    if constexpr (EVEN) {
      alignas(16) u32 w[RUN / 4];
      memcpy(w, in, RUN);
      int first = own(r, 0) / 16;
#pragma unroll
      for (int c = 0; c < RUN / 16; c++)
        if (c * 16 < exist * SIZE) *(uint4*)piece(first + c) = make_uint4(w[4 * c], w[4 * c + 1], w[4 * c + 2], w[4 * c + 3]);
    } else {
      int first = own(r, stretch(r).shift);
#pragma unroll
      for (int k = 0; k < N; k++) if (k < exist) *(T*)item(first + k * SIZE) = in[k];
    }
  }

  __device__ __forceinline__ void store(const Row& r, i64, bool exists) const {
    Stretch s = stretch(r);
    if (!__shfl_sync(0xffffffffu, exists, 0)) return;
#pragma unroll
    for (int c = 0; c < MOST; c += 32) {
      char* to = s.low - s.shift + 16 * (c + lane);
      if (to < s.high) store_edge<T>(to, *(const uint4*)piece(c + lane), s.low, s.high);
    }
  }
};
