// Rows as they lie: short rows one behind another, of which the 32 / LANES of a warp are one stretch of memory, or one row, or a
// warp's part of it. The warp copies the stretch in whole pieces, and each group of lanes then reads its own row. Group by group,
// rows of 8 ran at .70 of a copy, of 64 at .73 (H200).
#pragma once
#include "memory.cuh"

// HOW: EVEN, LOOSE, or DENSE, which goes item by item.
template <class T, int HOW, int LANES, int N> struct DenseSlab {
  static constexpr int SIZE = sizeof(T), RUN = N * SIZE, PIECES = (LANES * RUN + 15) / 16, AREA = (PIECES + 1) * 16;
  static constexpr int TURN = turn(N), GROUPS = 32 / LANES, MOST = GROUPS * (PIECES + 1);
  static_assert(HOW == DENSE || RUN % 16 == 0, "sweeps.py says otherwise");

  char* shared;
  int piece0;
  int lane;  // within the warp

  // The slabs of all groups, where `at` bytes of each lie before them.
  static __device__ __forceinline__ DenseSlab of(char* shared, int at, int lane) { return {shared, at * GROUPS / 16, lane}; }

  __device__ __forceinline__ char* piece(int c) const { c += piece0; return shared + 16 * (c ^ ((c >> TURN) & 7)); }
  __device__ __forceinline__ char* item(int byte) const { return piece(byte >> 4) + (byte & 15); }

  // The stretch of memory, and the bytes between the start of its first piece and its own start. Lanes without a row use the last
  // row.
  struct Stretch { char* low; int bytes, shift; };
  static __device__ __forceinline__ Stretch stretch(const Row& r, i64 j) {
    char* low = GROUPS == 1 ? r.base + j * SIZE : (char*)__shfl_sync(0xffffffffu, (u64)r.base, 0);
    char* high = r.base + r.n * SIZE;
    if (GROUPS > 1) high = (char*)__shfl_sync(0xffffffffu, (u64)high, 31);
    else if (high > low + LANES * RUN) high = low + LANES * RUN;
    return {low, (int)(high - low), HOW == EVEN ? 0 : (int)((u64)low & 15)};
  }
  // Where a lane's run begins as it is read, which may lie a little behind the row before; as it is written; and the bytes of the
  // row from there on.
  __device__ __forceinline__ int begin(const Row& r, i64 j) const {
    Stretch s = stretch(r, j);
    return s.shift + (GROUPS == 1 ? 0 : (int)(r.base - s.low)) + lane % LANES * RUN;
  }
  __device__ __forceinline__ int own(const Row& r, int shift) const { return shift + (int)r.n * SIZE * (lane / LANES) + lane % LANES * RUN; }
  __device__ __forceinline__ int left(const Row& r, i64 j) const { return min((int)(r.n - j), LANES * N) * SIZE - lane % LANES * RUN; }

  static __device__ __forceinline__ void fetch_items(const Row& r, i64 j, int count, int lane) { fetch(r.base + j * SIZE, count * SIZE, lane); }

  template <bool AGAIN = false> __device__ __forceinline__ void load(const Row& r, i64 j) const {
    Stretch s = stretch(r, j);
#pragma unroll
    for (int c = lane; c < MOST; c += 32) {
      int at = 16 * c - s.shift;
      if (at < s.bytes) copy_piece_async<AGAIN>(shared_address(piece(c)), s.low - s.shift + 16 * c, min(s.bytes - at, 16));
    }
  }

  __device__ __forceinline__ void read(const Row& r, i64 j, T (&out)[N]) const {
    if constexpr (HOW == DENSE) {
      int first = begin(r, j);
#pragma unroll
      for (int k = 0; k < N; k++) out[k] = *(const T*)item(first + k * SIZE);
    } else {
      u32 w[RUN / 4];
      read_packed(r, j, w);
      memcpy(out, w, RUN);
    }
  }
  // A run may end behind its row, where the next one lies.
  __device__ __forceinline__ void write(const Row& r, i64 j, const T (&in)[N]) const {
    if constexpr (HOW == DENSE) {
      int first = own(r, stretch(r, j).shift), exist = left(r, j) / SIZE;
#pragma unroll
      for (int k = 0; k < N; k++) if (k < exist) *(T*)item(first + k * SIZE) = in[k];
    } else {
      u32 w[RUN / 4];
      memcpy(w, in, RUN);
      write_packed(r, j, w);
    }
  }

  // The run as words of four bytes.
  static constexpr bool BACKWARDS = false;
  __device__ __forceinline__ void read_packed(const Row& r, i64 j, u32* out) const {
    const int start = begin(r, j);
    u32 w[RUN / 4 + 4];
#pragma unroll
    for (int c = 0; c < RUN / 16 + (HOW == LOOSE); c++) put(w + 4 * c, *(const uint4*)piece(start / 16 + c));
    if constexpr (HOW == LOOSE) turn_words<RUN / 4>(w, start & 15);
#pragma unroll
    for (int i = 0; i < RUN / 4; i++) out[i] = w[i];
  }
  __device__ __forceinline__ void write_packed(const Row& r, i64 j, const u32* in) const {
    const int start = own(r, stretch(r, j).shift), exist = left(r, j);
    if constexpr (HOW == LOOSE) {
      write_loose(r, start, exist, in);
    } else {
#pragma unroll
      for (int c = 0; c < RUN / 16; c++) if (c * 16 < exist) *(uint4*)piece(start / 16 + c) = four(in + 4 * c);
    }
  }

  template <bool STREAMED> __device__ __forceinline__ void store(const Row& r, i64 j, bool exists) const {
    Stretch s = stretch(r, j);
    if (!__shfl_sync(0xffffffffu, exists, 0)) return;
#pragma unroll
    for (int c = lane; c < MOST; c += 32) {
      int at = 16 * c - s.shift;
      if (at >= 0 && at + 16 <= s.bytes) store_piece<STREAMED>(s.low + at, *(const uint4*)piece(c));
    }
    if (HOW == EVEN) return;
    each_end<SIZE, 32>(lane, s.shift, 0, s.bytes, [&](int at) { *(T*)(s.low + at) = *(const T*)item(s.shift + at); });
  }

 private:
  template <int WORDS> static __device__ __forceinline__ void turn_words(u32* w, int shift) {
    if constexpr (GROUPS == 1 && SIZE < 4) realign_together<WORDS>(w, shift);
    else realign<SIZE, WORDS>(w, shift);
  }
  // A piece that two runs share is written by the later one, which is handed the bytes of the one before.
  __device__ __forceinline__ void write_loose(const Row& r, int start, int exist, const u32* in) const {
    u32 w[RUN / 4 + 8];
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = LANES > 1 ? __shfl_up_sync(0xffffffffu, in[RUN / 4 - 4 + i], 1) : 0;
#pragma unroll
    for (int i = 0; i < RUN / 4 + 4; i++) w[4 + i] = i < RUN / 4 ? in[i] : 0;
    const int past = start & 15, front = past ? past : 16;
    turn_words<RUN / 4 + 4>(w, 16 - front);  // piece c begins `front` bytes before byte 16 c of the run
    if constexpr (GROUPS > 1) {
      const int last = ((int)r.n - 1) / N, from = max(lane / LANES * LANES - LANES + last, 0);
      const u64 taken = lane % LANES == 0 && lane ? (1ull << 4 * past) - 1 : 0;  // four bits for a byte
      u32 tail[4] = {w[0], w[1], w[2], w[3]};
#pragma unroll
      for (int c = 1; c <= RUN / 16; c++)
        if (16 * c - front < exist)
#pragma unroll
          for (int i = 0; i < 4; i++) tail[i] = w[4 * c + i];
#pragma unroll
      for (int i = 0; i < 4; i++)
        w[i] = __byte_perm(w[i], __shfl_sync(0xffffffffu, tail[i], from), 0x3210 | ((u32)(taken >> 16 * i) & 0x4444));
    }
    const bool ends = lane / LANES == GROUPS - 1 && exist > 0 && exist <= RUN;
#pragma unroll
    for (int c = 0; c <= RUN / 16; c++) {
      int at = 16 * c - front;
      if ((c > 0 || past) && (at + 16 <= min(exist, RUN) || (ends && at < exist))) *(uint4*)piece((start - front) / 16 + c) = four(w + 4 * c);
    }
  }
};

// The bytes of a piece of memory before the byte at an address, or behind it.
__device__ __forceinline__ int in_piece(const char* at, bool behind) { return (int)(u64)at & 15 ^ (behind ? 15 : 0); }

// A row of bytes, each at its place in a piece of memory: lanes hold whole pieces, and the bytes before the row's first are for the
// reader to leave out.
template <class T, bool FLIP, int LANES, int N> struct PlacedSlab : Slab<T, SHIFTED, FLIP, 1, LANES, N> {
  typedef Slab<T, SHIFTED, FLIP, 1, LANES, N> Base;
  using Base::lane; using Base::piece; using Base::place;
  static __device__ __forceinline__ PlacedSlab of(char* shared, int at, int lane) { return {Base::of(shared, at, lane)}; }

  // The address of the lowest piece, and the bytes that exist from there.
  struct Stretch { char* low; int from, to; };
  static __device__ __forceinline__ Stretch stretch(const Row& r, i64 j) {
    const int before = in_piece(r.base, FLIP), first = j == 0 ? before : 0, last = (int)min(r.n - j + before, (i64)Base::BYTES);
    if (FLIP) return {r.base + 1 + before - j - Base::BYTES, Base::BYTES - last, Base::BYTES - first};
    return {r.base - before + j, first, last};
  }
  template <bool AGAIN = false> __device__ __forceinline__ void load(const Row& r, i64 j) const {
    const Stretch s = stretch(r, j);
#pragma unroll
    for (int c = lane; c < Base::PIECES; c += LANES)
      if (16 * c < s.to && (!FLIP || 16 * c + 16 > s.from)) copy_piece_async<AGAIN>(shared_address(piece(c)), s.low + 16 * c, min(s.to - 16 * c, 16));
  }
  __device__ __forceinline__ void read_packed(const Row&, i64, u32* out) const {
    u32 w[N / 4];
#pragma unroll
    for (int c = 0; c < N / 16; c++) put(w + 4 * c, *(const uint4*)piece(place() * N / 16 + c));
#pragma unroll
    for (int i = 0; i < N / 4; i++) out[i] = w[FLIP ? N / 4 - 1 - i : i];
  }
  template <bool STREAMED> __device__ __forceinline__ void store(const Row& r, i64 j, bool exists) const {
    if (!exists) return;
    const Stretch s = stretch(r, j);
#pragma unroll
    for (int c = lane; c < Base::PIECES; c += LANES)
      if (16 * c >= s.from && 16 * c + 16 <= s.to) store_piece<STREAMED>(s.low + 16 * c, *(const uint4*)piece(c));
    each_end<1, LANES>(lane, 0, s.from, s.to, [&](int at) { s.low[at] = *Base::item(at); });
  }
};
