// A tile of three dimensions of an array, A, M and B, in shared memory. A line is as much of it as lies together in the source:
// neighbours along A, along M too (M_NEAR), along B too (B_NEAR). A run is as much as lies together in the results: neighbours along B,
// along M too (M_RUN). Lines come to shared memory in aligned words, as they lie, with the gaps between their items; there runs are
// put together, in pieces of AT_ONCE items.
#pragma once
#include "params.cuh"

constexpr int A = DIMS - 3, M = DIMS - 2, B = DIMS - 1, SIZE = ITEM_BYTES;
typedef typename bits_of<SIZE>::type T;
constexpr int OVER = TURNED ? 4 : 0;  // lines of a tile that the next tile has too
constexpr u32 LINES_B = B_NEAR ? 1 : TILE_B + OVER, LINES = (M_NEAR ? 1 : TILE_M) * LINES_B;

// The tile of a block: where it begins in the source and in the results, and its items along each side.
struct Part {
  i64 from = BEHIND, to = 0;
  // Neighbouring blocks write neighbours, so that the cache hands whole lines to memory.
  u32 block = blockIdx.x;
  int a, m, b;
  bool begins;  // whether runs begin in this tile

  __device__ __forceinline__ Part(const Params& p) {
    b = some_of(p, B, TILE_B, OVER);
    begins = to == 0;
    m = some_of(p, M, TILE_M);
#pragma unroll
    for (int d = A - 1; d >= 0; d--) some_of(p, d, 1);
    a = some_of(p, A, TILE_A);
  }
  __device__ __forceinline__ int some_of(const Params& p, int d, int tile, int over = 0) {
    const u32 across = (u32)((p.dim[d] + tile - 1) / tile);
    u32 at = block % across;
    asm("" : "+r"(at));  // else the compiler divides 64 bits
    const i64 first = (i64)at * tile;
    block /= across;
    from += first * p.in_strides[0].row[d];
    to += first * p.out_strides[0].row[d];
    return (int)min(p.dim[d] - first, (i64)tile + over);
  }
};

// The lines of a tile in shared memory. Lanes read neighbours along B, of lines side by side: these lie an odd number of words apart,
// and of narrow items 32 lines and one word more. A single line has PADS bytes more behind every 128.
struct Tile {
  const char* source;  // the first byte of the first line
  i64 in_m, in_b;      // from line to line
  int low = 0, high = SIZE;  // from the first item of a line to its first byte, and to the one behind its last
  int lines_m, lines_b;

  __device__ __forceinline__ Tile(const Params& p, const Part& part) : in_m(p.in_strides[0].row[M]), in_b(p.in_strides[0].row[B]) {
    auto reach = [&](int some, int stride) {
      low += min(0, (some - 1) * stride);
      high += max(0, (some - 1) * stride);
    };
    reach(part.a, IN_A);
    if (M_NEAR) reach(part.m, IN_M);
    if (B_NEAR) reach(part.b, IN_B);
    lines_m = M_NEAR ? 1 : part.m;
    lines_b = B_NEAR ? 1 : part.b;
    source = p.in[0] + part.from + low;
  }

  static __device__ __forceinline__ int padded(int byte) { return byte + (PADS ? (u32)byte / 128 * PADS : 0); }
  static __device__ __forceinline__ int at_line(u32 m, u32 b) {
    const u32 l = (M_NEAR ? 0 : m) * LINES_B + (B_NEAR ? 0 : b);
    return l * PITCH + (SIZE < 4 ? l / 32 * 4 : 0);
  }
  __device__ __forceinline__ const char* line(u32 m, u32 b) const {
    return source + (M_NEAR ? 0 : m * in_m) + (B_NEAR ? 0 : b * in_b);
  }
  // Bytes from the word in which a line begins.
  __device__ __forceinline__ int phase(u32 m, u32 b) const { return (int)((u64)line(m, b) & (WORD - 1)); }
  // Where the first of the items along A lies, but for the phase and for what a single line is padded with.
  __device__ __forceinline__ int place(u32 m, u32 b) const {
    return at_line(m, b) - low + (M_NEAR ? m * IN_M : 0) + (B_NEAR ? b * IN_B : 0);
  }

  __device__ __forceinline__ void load(char* memory) const {
    const u32 thread = threadIdx.x;
#pragma unroll 2
    for (u32 l = thread / LINE_LANES; l < LINES; l += THREADS / LINE_LANES) {
      const u32 m = l / LINES_B, b = l % LINES_B;
      if (m >= lines_m || b >= lines_b) continue;
      const char* from = line(m, b);
      const int before = phase(m, b), bytes = high - low + before;
#pragma unroll 8
      for (u32 word = 0; word < LINE_WORDS; word += LINE_LANES) {
        const int byte = (word + thread % LINE_LANES) * WORD;
        if (byte < bytes) copy_async<WORD>(memory + at_line(m, b) + padded(byte), from - before + byte);
      }
    }
    commit_copies();
  }
};

// An item at a byte of a word.
template <class X> __device__ __forceinline__ u32 at_byte(const X& x, int byte) {
  if constexpr (sizeof(X) < 4) return (u32)x << 8 * byte;
  else return 0;
}
