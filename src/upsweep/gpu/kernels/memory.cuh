// A slab: the LANES * N consecutive items of one component that a group of lanes owns, on their way through shared memory. Copies
// move whole 16-byte pieces of global memory, lane after lane; a thread then reads its own N items. Piece c lies at c ^ (c >> s &
// 7), so that both ways of walking meet each bank once (the 128-byte swizzle of Hopper's copy engine).
#pragma once
#include "elements.cuh"
#include "copies.cuh"

// All slabs of a region turn their pieces alike, as the widest slab needs it. Eight pieces may belong to two slabs, and slabs
// that were turned in two ways would lie over each other.
constexpr int turn(int n) { return max_of(3, log2_of(n * WIDEST / 16)); }

__device__ __forceinline__ uint4 four(const u32* w) { return make_uint4(w[0], w[1], w[2], w[3]); }
__device__ __forceinline__ void put(u32* w, const uint4& v) { w[0] = v.x; w[1] = v.y; w[2] = v.z; w[3] = v.w; }

// w[i] becomes the word that starts `shift` bytes later, of items of SIZE bytes.
template <int SIZE, int WORDS> __device__ __forceinline__ void realign(u32* w, int shift) {
  if (shift & 8) {
#pragma unroll
    for (int i = 0; i < WORDS + 2; i++) w[i] = w[i + 2];
  }
  if (shift & 4) {
#pragma unroll
    for (int i = 0; i < WORDS + 1; i++) w[i] = w[i + 1];
  }
  if constexpr (SIZE < 4) {
#pragma unroll
    for (int i = 0; i < WORDS; i++) w[i] = __funnelshift_r(w[i], w[i + 1], 8 * (shift & 3));
  }
}

// The same where the lanes of a warp have one shift, of items of less than four bytes: they branch together, and words move once.
template <int WHOLE, int WORDS> __device__ __forceinline__ void shift_words(u32* w, int bits) {
#pragma unroll
  for (int i = 0; i < WORDS; i++) w[i] = __funnelshift_r(w[i + WHOLE], w[i + WHOLE + 1], bits);
}
template <int WORDS> __device__ __forceinline__ void realign_together(u32* w, int shift) {
  const int bits = 8 * (shift & 3);
  switch (shift >> 2) {
    case 0: shift_words<0, WORDS>(w, bits); break;
    case 1: shift_words<1, WORDS>(w, bits); break;
    case 2: shift_words<2, WORDS>(w, bits); break;
    default: shift_words<3, WORDS>(w, bits);
  }
}

// Bytes [from, to) of a slab that begins `shift` bytes behind a piece of global memory: calls store(place) for the items of its
// ends that fill no whole piece. A lane has an item of one of the two pieces.
template <int SIZE, int LANES, class F> __device__ __forceinline__ void each_end(int lane, int shift, int from, int to, F&& store) {
  constexpr int PIECE = 16 / SIZE;
  const int first = ((from + shift) & ~15) - shift, last = ((to + shift) & ~15) - shift;
#pragma unroll
  for (int k = lane; k < 2 * PIECE; k += LANES) {
    int at = (k < PIECE ? first : last) + k % PIECE * SIZE;
    bool end = k >= PIECE || first < from;
    if (end && at >= from && at < to) store(at);
  }
}

// The row that a slab is cut from: item j lies at base + j * stride; items [first, n) exist.
struct Row { char* base; i64 stride, first, n; };

// Which bytes of a word are not zero, in its highest four bits.
__device__ __forceinline__ u32 bytes_set(u32 word) { return ((((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u) * 0x00204081u; }

// FLIP: neighbours touch, but backwards (stride is minus the size), as in a reverse scan.
template <class T, int MODE, bool FLIP, int GRAIN, int LANES, int N> struct Slab {
  static constexpr int SIZE = sizeof(T), RUN = N * SIZE, BYTES = LANES * RUN;
  static constexpr int PIECES = (BYTES + 15) / 16, SLACK = MODE == SHIFTED ? 1 : 0;
  static constexpr int TURN = turn(N);
  static constexpr int AREA = (PIECES + 1) * 16;  // one piece more for the shift
  static constexpr bool WIDE = RUN % 16 == 0;

  char* shared;  // of the whole warp
  int piece0;    // where the slab begins in it
  int lane;      // within the group

  // The slab of a lane's group: those of all groups lie side by side, where `at` bytes of each lie before them.
  static __device__ __forceinline__ Slab of(char* shared, int at, int lane) {
    return {shared, (at * (32 / LANES) + lane / LANES * AREA) / 16, lane % LANES};
  }

  __device__ __forceinline__ char* piece(int c) const { c += piece0; return shared + 16 * (c ^ ((c >> TURN) & 7)); }
  __device__ __forceinline__ char* item(int byte) const { return piece(byte >> 4) + (byte & 15); }
  __device__ __forceinline__ int place() const { return FLIP ? LANES - 1 - lane : lane; }

  // The lowest address of the slab that starts at item j, and the window of addresses that exist.
  static __device__ __forceinline__ char* low(const Row& r, i64 j) { return FLIP ? r.base - (j + LANES * N - 1) * SIZE : r.base + j * SIZE; }
  static __device__ __forceinline__ char* window_low(const Row& r) { return FLIP ? r.base - (r.n - 1) * SIZE : r.base + r.first * SIZE; }
  static __device__ __forceinline__ char* window_high(const Row& r) { return FLIP ? r.base + (1 - r.first) * SIZE : r.base + r.n * SIZE; }

  // Asks the cache for `count` items from j on.
  static __device__ __forceinline__ void fetch_items(const Row& r, i64 j, int count, int lane) {
    if constexpr (MODE != STRIDED) fetch(FLIP ? r.base - (j + count - 1) * SIZE : r.base + j * SIZE, count * SIZE, lane);
  }

  template <bool AGAIN = false> __device__ __forceinline__ void load(const Row& r, i64 j) const {
    if constexpr (MODE == STRIDED) {
#pragma unroll
      for (int k = 0; k < N; k++) {
        int i = k * LANES + lane;
        if (j + i >= r.first && j + i < r.n) *(T*)item(i * SIZE) = load_item<T, GRAIN>(r.base + (j + i) * r.stride);
      }
    } else {
      const char* a = low(r, j);
      const char *lo = window_low(r), *hi = window_high(r);
      if (MODE == SHIFTED) a -= (u64)a & 15;
      if (a >= lo && a + 16 * (PIECES + SLACK) <= hi) {
#pragma unroll
        for (int c = lane; c < PIECES + SLACK; c += LANES) copy_piece_async<AGAIN>(shared_address(piece(c)), a + 16 * c, 16);
      } else {
        const int from = lo > a ? (int)(lo - a) : 0, to = hi < a + BYTES + 16 ? (int)(hi - a) : BYTES + 16;
#pragma unroll 1
        for (int c = lane; c < PIECES + SLACK; c += LANES) {
          int left = 16 * c + 16 > from ? min(max(to - 16 * c, 0), 16) : 0;
          copy_piece_async<AGAIN>(shared_address(piece(c)), a + 16 * c, left);
        }
      }
    }
  }

  // This thread's run, in the order of the scan.
  __device__ __forceinline__ void read(const Row& r, i64 j, T (&out)[N]) const {
    int shift = MODE == SHIFTED ? (int)((u64)low(r, j) & 15) : 0, own = place() * RUN;
    if constexpr (WIDE) {
      u32 w[RUN / 4 + 4];
      read_words(own, shift, w);
#pragma unroll
      for (int k = 0; k < N; k++) memcpy(&out[k], (char*)w + (FLIP ? N - 1 - k : k) * SIZE, SIZE);
    } else {
#pragma unroll
      for (int k = 0; k < N; k++) out[k] = *(const T*)item(shift + own + (FLIP ? N - 1 - k : k) * SIZE);
    }
  }

  // The run of bytes, as words of four; where it lies BACKWARDS the last byte of a word comes first.
  static constexpr bool BACKWARDS = FLIP;
  __device__ __forceinline__ void read_packed(const Row& r, i64 j, u32* out) const {
    u32 w[RUN / 4 + 4];
    read_words(place() * RUN, MODE == SHIFTED ? (int)((u64)low(r, j) & 15) : 0, w);
#pragma unroll
    for (int i = 0; i < RUN / 4; i++) out[i] = w[FLIP ? RUN / 4 - 1 - i : i];
  }
  __device__ __forceinline__ void write_packed(const Row&, i64, const u32* in) const {
    u32 w[RUN / 4 + 1];
#pragma unroll
    for (int i = 0; i < RUN / 4; i++) w[i] = in[FLIP ? RUN / 4 - 1 - i : i];
#pragma unroll
    for (int c = 0; c < RUN / 16; c++)
      *(uint4*)piece(place() * RUN / 16 + c) = make_uint4(w[4 * c], w[4 * c + 1], w[4 * c + 2], w[4 * c + 3]);
  }

  // The run of bytes as bits: bit k is set where item k is not zero.
  __device__ __forceinline__ void read_bits(const Row& r, i64 j, u32 (&bits)[(N + 31) / 32]) const {
    int shift = MODE == SHIFTED ? (int)((u64)low(r, j) & 15) : 0, own = place() * RUN;
#pragma unroll
    for (int q = 0; q < (N + 31) / 32; q++) bits[q] = 0;
    if constexpr (WIDE) {
      u32 w[RUN / 4 + 4];
      read_words(own, shift, w);
#pragma unroll
      for (int q = 0; q < (N + 31) / 32; q++) {
        const int count = min(RUN / 4 - 8 * q, 8), first = FLIP ? RUN / 4 - 8 * q - count : 8 * q;
#pragma unroll
        for (int i = count - 1; i >= 0; i--) bits[q] = __funnelshift_l(bytes_set(w[first + i]), bits[q], 4);
        if (FLIP) bits[q] = __brev(bits[q]) >> 32 - 4 * count;
      }
    } else {
#pragma unroll
      for (int k = 0; k < N; k++) bits[k / 32] |= (*item(shift + own + (FLIP ? N - 1 - k : k)) != 0 ? 1u : 0u) << k % 32;
    }
  }

  __device__ __forceinline__ void write(const Row&, i64, const T (&in)[N]) const {
    int own = place() * RUN;
    if constexpr (WIDE) {
      alignas(16) u32 w[RUN / 4];
#pragma unroll
      for (int k = 0; k < N; k++) memcpy((char*)w + (FLIP ? N - 1 - k : k) * SIZE, &in[k], SIZE);
#pragma unroll
      for (int c = 0; c < RUN / 16; c++) *(uint4*)piece(own / 16 + c) = make_uint4(w[4 * c], w[4 * c + 1], w[4 * c + 2], w[4 * c + 3]);
    } else {
#pragma unroll
      for (int k = 0; k < N; k++) *(T*)item(own + (FLIP ? N - 1 - k : k) * SIZE) = in[k];
    }
  }

  template <bool STREAMED> __device__ __forceinline__ void store(const Row& r, i64 j, bool exists) const {
    if (!exists) return;
    if constexpr (MODE == STRIDED) {
#pragma unroll 4
      for (int k = 0; k < N; k++) {
        int i = k * LANES + lane;
        if (j + i < r.n) store_item<T, GRAIN>(r.base + (j + i) * r.stride, *(const T*)item(i * SIZE));
      }
    } else {
      char *a = low(r, j), *lo = window_low(r), *hi = window_high(r);
      const int from = lo > a ? (int)(lo - a) : 0, to = hi < a + BYTES ? (int)(hi - a) : BYTES;
      const int shift = MODE == SHIFTED ? (int)((u64)a & 15) : 0;
      const bool whole = to - from == BYTES && BYTES % 16 == 0;
      if (whole) {
#pragma unroll
        for (int c = lane; c < PIECES; c += LANES)
          if (shift == 0 || c > 0) store_piece<STREAMED>(a - shift + 16 * c, shifted_piece(c, shift));
      } else {
#pragma unroll 1
        for (int c = lane; c < PIECES + SLACK; c += LANES) {
          int at = 16 * c - shift;
          if (at >= from && at + 16 <= to) store_piece<STREAMED>(a - shift + 16 * c, shifted_piece(c, shift));
        }
      }
      if (shift || !whole) each_end<SIZE, LANES>(lane, shift, from, to, [&](int at) { *(T*)(a + at) = *(const T*)item(at); });
    }
  }

 private:
  template <int WORDS> static __device__ __forceinline__ void turn_words(u32* w, int shift) {
    if constexpr (LANES == 32 && SIZE < 4) realign_together<WORDS>(w, shift);
    else realign<SIZE, WORDS>(w, shift);
  }
  __device__ __forceinline__ void read_words(int own, int shift, u32 (&w)[RUN / 4 + 4]) const {
#pragma unroll
    for (int c = 0; c < RUN / 16 + SLACK; c++) {
      uint4 v = *(const uint4*)piece(own / 16 + c);
      w[4 * c] = v.x; w[4 * c + 1] = v.y; w[4 * c + 2] = v.z; w[4 * c + 3] = v.w;
    }
    if constexpr (MODE == SHIFTED) turn_words<RUN / 4>(w, shift);
  }
  // The 16 bytes of the slab that belong into piece c of global memory, which starts `shift` bytes before the slab.
  __device__ __forceinline__ uint4 shifted_piece(int c, int shift) const {
    if (MODE != SHIFTED || shift == 0) return *(const uint4*)piece(c);
    uint4 a = *(const uint4*)piece(c > 0 ? c - 1 : 0), b = *(const uint4*)piece(c);
    u32 w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    turn_words<4>(w, 16 - shift);
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};
