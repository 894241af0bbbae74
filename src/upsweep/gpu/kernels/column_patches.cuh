// The rectangles of columns that a warp owns: their places in shared memory, and how items get there and back.
#include "memory.cuh"
#include "column_lookback.cuh"

constexpr int LINES = SUBS * ITEMS, TILE = WARPS * LINES, WIDTH = LANES * VECTOR;
constexpr int THREADS = 32 * (WARPS + 2 * VECTOR), SERVED = 32 * VECTOR;

// The next address. The compiler would multiply anew for each, by some ten instructions.
template <class P> __device__ __forceinline__ P* stepped(P* at, i64 stride) {
  at += stride;
  asm("" : "+l"(at));
  return at;
}

// The rectangle of one input that a warp owns: LINES items of WIDTH columns, item after item. Between runs lies one more line, so
// that lanes meet each bank once.
template <class T, int GRAIN> struct Patch {
  static constexpr int LINE = WIDTH * sizeof(T), RUN = ITEMS * LINE + (SUBS > 1 ? LINE : 0), BYTES = SUBS * RUN;
  static __device__ __forceinline__ int place(int item) { return item * LINE + (SUBS > 1 ? item / ITEMS * LINE : 0); }
  // Calls move(place in shared memory, address) for all pieces that exist, of `items` and `columns`, of an array that begins at
  // `at`: neighbouring lanes have neighbours in memory. The first items may be left out.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, i64 stride, i64 items, i64 columns, int lane, F&& move, int skip = 0) {
    constexpr int PER_LINE = LINE / GRAIN, COUNT = LINES * PER_LINE;
    if constexpr (PER_LINE <= 32) {  // a lane keeps its place in the line
      constexpr int AT_ONCE = 32 / PER_LINE;
      int item = lane / PER_LINE, byte = lane % PER_LINE * GRAIN, exist = byte < (int)columns * (int)sizeof(T) ? (int)min(items, (i64)LINES) : 0;
      at += item * stride + byte;
      stride *= AT_ONCE;
#pragma unroll
      for (int i = 0; i < LINES; i += AT_ONCE, at = stepped(at, stride))
        if (i + item < exist && i + item >= skip) move(place(i + item) + byte, at);
    } else {
      int exist = (int)columns * (int)sizeof(T);
#pragma unroll 8
      for (int c = lane; c < COUNT; c += 32) {
        int item = c / PER_LINE, byte = c % PER_LINE * GRAIN;
        if (item < items && item >= skip && byte < exist) move(place(item) + byte, at + item * stride + byte);
      }
    }
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 stride, i64 items, i64 columns, int lane, int skip = 0) {
    each_piece(from, stride, items, columns, lane, [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); }, skip);
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, i64 stride, i64 items, i64 columns, int lane) {
    typedef typename bits_of<GRAIN>::type piece;
    each_piece(to, stride, items, columns, lane, [&](int place, char* at) { *(piece*)at = *(const piece*)(shared + place); });
  }
};

// The same rectangle where the lines of all columns lie one behind another (STRETCH): each run is one piece of memory, which moves in
// whole pieces of 16 bytes. Between runs lie PAD bytes.
constexpr bool STRETCH = COLUMNS > 0;
template <class T> struct Stretch {
  static constexpr int LINE = COLUMNS * sizeof(T), RUN = ITEMS * LINE + PAD, BYTES = SUBS * RUN;
  static_assert(ITEMS * LINE % 16 == 0, "runs are whole pieces");
  // Calls move(place in shared memory, place in the array) for the pieces of these items.
  template <class F> static __device__ __forceinline__ void each_piece(i64 items, int lane, F&& move) {
    int bytes = (int)min(items, (i64)LINES) * LINE;
#pragma unroll 8
    for (int c = 16 * lane; c < LINES * LINE; c += 16 * 32)
      if (c < bytes) move(c + c / (ITEMS * LINE) * PAD, c);
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, i64, i64 items, i64, int lane) {
    const char* end = from + items * LINE;
    each_piece(items, lane, [&](int place, int at) {
      copy_piece_async(shared_address(shared + place), from + at, end - from - at < 16 ? (int)(end - from) - at : 16);
    });
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, i64, i64 items, i64, int lane) {
    each_piece(items, lane, [&](int place, int at) { store_edge<T>(to + at, *(const uint4*)(shared + place), to, to + items * LINE); });
  }
};

// The rectangle of an array whose items touch along the axis, such as a transposed one: column after column, in pieces of GRAIN
// bytes that change places, so that lanes meet each bank once both ways.
template <class T, int GRAIN> struct Turned {
  static constexpr int PIECES = ITEMS * sizeof(T) / GRAIN, PER_PIECE = GRAIN / sizeof(T), BYTES = WIDTH * ITEMS * sizeof(T);
  static constexpr int AT_ONCE = 32 / PIECES, SAME_BANKS = max_of(1, 128 / (PIECES * GRAIN));
  static __device__ __forceinline__ int place(int column, int piece) {
    return (column * PIECES + (piece ^ (column / SAME_BANKS % PIECES))) * GRAIN;
  }
  typedef typename bits_of<GRAIN>::type Piece;
  // This column's items, piece by piece.
  static __device__ __forceinline__ void read(const char* shared, int column, T (&x)[ITEMS]) {
    Piece pieces[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) pieces[i] = *(const Piece*)(shared + place(column, i));
    memcpy(x, pieces, sizeof x);
  }
  static __device__ __forceinline__ void write(char* shared, int column, const T (&x)[ITEMS]) {
    Piece pieces[PIECES];
    memcpy(pieces, x, sizeof x);
#pragma unroll
    for (int i = 0; i < PIECES; i++) *(Piece*)(shared + place(column, i)) = pieces[i];
  }
  // Calls move(place in shared memory, address) for all pieces that exist, of an array that begins at `at`: neighbouring lanes
  // have neighbours in memory.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, i64 along, i64 across, i64 items, i64 columns, int lane, F&& move) {
    int piece = lane % PIECES, exist = piece * PER_PIECE < items ? (int)min(columns, (i64)WIDTH) : 0;
    at += piece * PER_PIECE * along + lane / PIECES * across;
#pragma unroll
    for (int c = 0; c < WIDTH; c += AT_ONCE, at = stepped(at, AT_ONCE * across))
      if (c + lane / PIECES < exist) move(place(c + lane / PIECES, piece), at);
  }
};

// Asks the second-level cache for a rectangle that a block will load soon, line by line: of at most MOST lines of MOST_BYTES.
template <int MOST, int MOST_BYTES> __device__ __forceinline__
void fetch_lines(const char* from, i64 stride, int items, int bytes, int lane) {
  if (SUBS > 1 && stride == bytes) {
    if (items > 0) fetch(from, items * bytes, lane);
    return;
  }
#pragma unroll
  for (int i = 0; i < MOST; i += 32)
#pragma unroll
    for (int b = 0; b < MOST_BYTES; b += 128)
      if (i + lane < items && b < bytes) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (i + lane) * stride + b) : "memory");
}

template <class T, int GRAIN, bool TURNED, bool = STRETCH> struct PatchOf { typedef Patch<T, GRAIN> type; };
template <class T, int GRAIN> struct PatchOf<T, GRAIN, false, true> { typedef Stretch<T> type; };
template <class T, int GRAIN> struct PatchOf<T, GRAIN, true, false> { typedef Turned<T, GRAIN> type; };
template <int I> using ColumnPatch = typename PatchOf<typename Input<I>::Load, Input<I>::grain, Input<I>::turned>::type;
template <int O> using ResultPatch = typename PatchOf<typename Output<O>::Store, Output<O>::grain, false>::type;
typedef Patch<u8, HEADS_GRAIN> HeadPatch;
constexpr int WARP_BYTES = HEADS_AT + (HEADS_APART ? HeadPatch::BYTES : 0);
