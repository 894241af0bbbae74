// The patches of walk.cu's ring: how each array gets to its place in a stage and back.
#include "walk_columns.cuh"

// Items that are copied as they lie, GRAIN bytes at once; along rows, 16 bytes or an item.
template <class T, int AT, bool FLIP, int GRAIN> struct Copied : InStage<T, AT, FLIP> {
  using InStage<T, AT, FLIP>::SIZE;
  using InStage<T, AT, FLIP>::LINE;
  using InStage<T, AT, FLIP>::UNIT;
  struct Asked {};
  static __device__ __forceinline__ void ask(Asked&, const Lines&, i64, i64, int, int, int, int) {}
  static __device__ __forceinline__ bool any(const Asked&) { return true; }

  // Calls f(which, address in memory, place in the stage, bytes) for each piece of the items [j + skip, j + m), lane after
  // lane. WHOLE: all STEPS items of WIDTH rows. Lanes keep their place in a line and go from line to line.
  static constexpr int PER_LINE = ACROSS ? LINE / GRAIN : GRAIN == 16 ? STEPS / UNIT : STEPS;
  static constexpr int PIECES = (ACROSS ? STEPS : WIDTH) * PER_LINE, COUNT = (PIECES + 31) / 32;  // of a warp, of a lane
  template <bool WHOLE, class F>
  static __device__ __forceinline__ void each_piece(const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip, F&& f) {
    if constexpr (ACROSS) {
      constexpr int LINES = max_of(1, 32 / PER_LINE), PARTS = max_of(1, PER_LINE / 32);  // that a warp copies at once; of a line
      int first = lane / PER_LINE, byte = lane % PER_LINE * GRAIN;
      char* from = at.base + (j + first) * along + byte;
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        int i = k / PARTS * LINES + first, part = k % PARTS * 32 * GRAIN;
        if (WHOLE || (byte + part < rows * SIZE && i < m && i >= skip)) f(k, from + part, AT + i * LINE + byte + part, Int<GRAIN>{});
        if (k % PARTS == PARTS - 1) from += LINES * along;
      }
    } else {
      constexpr int ITEMS = STEPS / PER_LINE;
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        int row = (k * 32 + lane) / PER_LINE, i = (k * 32 + lane) % PER_LINE * ITEMS;
        char* from = at.of(row) + (j + i) * along;
        if (WHOLE || (row < rows && i + ITEMS <= m && i >= skip)) f(k, from - (FLIP ? 16 - SIZE : 0), AT + row * LINE + i * SIZE, Int<ITEMS * SIZE>{});
      }
    }
  }
  // The rest of rows that end within 16 bytes.
  template <class F> static __device__ __forceinline__ void each_end(const Lines& at, i64 along, i64 j, int m, int rows, int lane, F&& f) {
    if constexpr (!ACROSS && PER_LINE < STEPS) {
      const int whole = m / UNIT * UNIT;
      char* from = at.of(lane) + (j + whole) * along;
      if (lane < rows)
        for (int i = whole; i < m; i++, from += along) f(0, from, AT + lane * LINE + (FLIP ? 2 * whole + UNIT - 1 - i : i) * SIZE, Int<SIZE>{});
    }
  }
  static __device__ __forceinline__ void bring(const Asked&, char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip) {
    auto copy = [&](int, const char* from, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) copy_piece<PIECE>(stage + place + b, from + b);
    };
    if (PIECES % 32 == 0 && m == STEPS && rows == WIDTH && !skip) each_piece<true>(at, along, j, m, rows, lane, 0, copy);
    else { each_piece<false>(at, along, j, m, rows, lane, skip, copy); each_end(at, along, j, m, rows, lane, copy); }
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane) {
    typedef typename bits_of<GRAIN>::type piece;
    constexpr bool EVEN = PIECES % 32 == 0, AT_ONCE = EVEN && COUNT * GRAIN <= 256 && (ACROSS || GRAIN == 16);
    auto copy = [&](int, char* to, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
      typedef typename bits_of<PIECE>::type piece;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) *(piece*)(to + b) = *(const piece*)(stage + place + b);
    };
    // All pieces are read before the first is stored.
    piece part[AT_ONCE ? COUNT : 1];
    auto read = [&](int k, char*, int place, auto) { part[k] = *(const piece*)(stage + place); };
    auto store = [&](int k, char* to, int, auto) {
      if constexpr (GRAIN == 16) store_streaming(to, part[k]);
      else *(piece*)to = part[k];
    };
    const bool whole = EVEN && m == STEPS && rows == WIDTH;
    if constexpr (AT_ONCE) {
      if (ACROSS || whole) each_piece<true>(at, along, j, m, rows, lane, 0, read);
      if (whole) return each_piece<true>(at, along, j, m, rows, lane, 0, store);
      if constexpr (ACROSS) return each_piece<false>(at, along, j, m, rows, lane, 0, store);
    } else if (whole) return each_piece<true>(at, along, j, m, rows, lane, 0, copy);
    each_piece<false>(at, along, j, m, rows, lane, 0, copy);
    each_end(at, along, j, m, rows, lane, copy);
  }
};

// The way in which an array lies says how it is moved.
template <bool FIRST, class A, class B> struct either { typedef A type; };
template <class A, class B> struct either<false, A, B> { typedef B type; };
template <class T, int AT, bool FLIP, int GRAIN, int PITCH>
using Lying = typename either<ANYWHERE, Loose<T, AT, PITCH>, Copied<T, AT, FLIP, GRAIN>>::type;
template <class T, int AT, bool FLIP, int GRAIN, int PITCH>
using Moved = typename either<(COLUMNS > 0), Stretch<T, AT, FLIP>, Lying<T, AT, FLIP, GRAIN, PITCH>>::type;
template <class T, int AT, bool FLIP, int GRAIN, int PITCH>
using Patch = typename either<TURNED, Turned<T, AT, GRAIN>, Moved<T, AT, FLIP, GRAIN, PITCH>>::type;
template <class T, int AT, bool ALONE, bool FLIP, int GRAIN, int PITCH>
using Source = typename either<ALONE, Alone<T, AT, GRAIN>, Patch<T, AT, FLIP, GRAIN, PITCH>>::type;

template <int I> using In = Source<typename Input<I>::Load, Input<I>::at, Input<I>::alone, Input<I>::flip, Input<I>::grain, Input<I>::pitch>;
template <int O> using Out = Patch<typename Output<O>::Store, Output<O>::at, Output<O>::flip, Output<O>::grain, Output<O>::pitch>;
typedef Source<u8, HEADS_AT, HEADS_ALONE, HEADS_FLIP, HEADS_GRAIN, HEADS_PITCH> Heads;

// Where the serving warps map and finish, a stage holds the components of items.
template <int C> using Part = Turned<typename Component<C>::Acc, Component<C>::at, 1>;

// What the walking warp reads of a stage.
template <int I, bool PARTS> struct Walked { typedef In<I> Patch; typedef typename Input<I>::Load Load; static constexpr bool still = Input<I>::still; };
template <int C> struct Walked<C, true> { typedef Part<C> Patch; typedef typename Component<C>::Acc Load; static constexpr bool still = false; };
template <int I> using WalkedOf = Walked<I, MAPPED>;
constexpr int SOURCES = MAPPED ? COMPONENTS : INPUTS;
