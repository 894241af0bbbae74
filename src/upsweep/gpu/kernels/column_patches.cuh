// The rectangles of columns that a warp owns, moved in pieces that begin where lines do: their places in shared memory, and how items
// get there and back.
#include "memory.cuh"
#include "column_lookback.cuh"

// The lines of a strip, of a warp, of a tile; and the parts of a tile that are summed one by one.
constexpr int LINES = SUBS * ITEMS, HEIGHT = STRIPS * LINES, TILE = WARPS * HEIGHT, PARTS = WARPS * STRIPS;
constexpr int WIDTH = LANES * VECTOR;

// The next address. The compiler would multiply anew for each, by some ten instructions.
template <class P> __device__ __forceinline__ P* stepped(P* at, i64 stride) {
  at += stride;
  asm("" : "+l"(at));
  return at;
}

// The rectangle of one input that a warp owns: HEIGHT items of WIDTH columns, item after item. Between runs lies one more line, so
// that lanes meet each bank once.
template <class T, int GRAIN> struct Patch {
  static constexpr int LINE = WIDTH * sizeof(T), RUN = ITEMS * LINE + (SUBS > 1 ? LINE : 0), BYTES = HEIGHT / ITEMS * RUN;
  // Where the first item of the first run lies.
  static __device__ __forceinline__ int origin(const char*, i64) { return 0; }
  static __device__ __forceinline__ int column(int i) { return i * (int)sizeof(T); }
  static __device__ __forceinline__ T get(const char* run, int i) { return *(const T*)(run + i * LINE); }
  static __device__ __forceinline__ void put(char* run, int i, const T& x) { *(T*)(run + i * LINE) = x; }
  static __device__ __forceinline__ int place(int item) { return item * LINE + (SUBS > 1 ? item / ITEMS * LINE : 0); }
  // Calls move(place in shared memory, address) for all pieces that exist, of `items` and `columns`, of an array that begins at
  // `at`: neighbouring lanes have neighbours in memory. The first items may be left out.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, i64 stride, i64 items, i64 columns, int lane, F&& move, int skip = 0) {
    // A lane keeps its places in the line.
    constexpr int PER_LINE = LINE / GRAIN, AT_ONCE = max_of(1, 32 / PER_LINE), SETS = max_of(1, PER_LINE / 32);
    int item = lane / PER_LINE, byte = lane % PER_LINE * GRAIN, exist[SETS];
#pragma unroll
    for (int s = 0; s < SETS; s++) exist[s] = byte + s * 32 * GRAIN < (int)columns * (int)sizeof(T) ? (int)min(items, (i64)HEIGHT) : 0;
    at += item * stride + byte;
    stride *= AT_ONCE;
#pragma unroll (SETS > 1 ? 8 : HEIGHT)
    for (int i = 0; i < HEIGHT; i += AT_ONCE, at = stepped(at, stride))
#pragma unroll
      for (int s = 0; s < SETS; s++)
        if (i + item < exist[s] && i + item >= skip) move(place(i + item) + byte + s * 32 * GRAIN, at + s * 32 * GRAIN);
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 stride, i64 items, i64 columns, int lane, int skip = 0) {
    each_piece(from, stride, items, columns, lane, [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); }, skip);
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, i64 stride, i64 items, i64 columns, int lane) {
    typedef typename bits_of<GRAIN>::type piece;
    each_piece(to, stride, items, columns, lane, [&](int place, char* at) { *(piece*)at = *(const piece*)(shared + place); });
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
  // This column's items, piece by piece; the first one lies at `at` in memory.
  static __device__ __forceinline__ void read(const char* shared, int column, const char* at, T (&x)[ITEMS]) {
    Piece pieces[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) pieces[i] = *(const Piece*)(shared + place(column, i));
    memcpy(x, pieces, sizeof x);
  }
  static __device__ __forceinline__ void write(char* shared, int column, const char* at, const T (&x)[ITEMS]) {
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
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 along, i64 across, i64 items, i64 columns, int lane) {
    each_piece(from, along, across, items, columns, lane, [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); });
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, i64 along, i64 across, i64 items, i64 columns, int lane) {
    each_piece(to, along, across, items, columns, lane, [&](int place, char* at) { *(Piece*)at = *(const Piece*)(shared + place); });
  }
};

// The same of narrow items whose runs begin within words, or lie BACK to front. A run comes and goes in the words that it shares with
// its neighbours, one word more than it fills, so that lanes that read runs meet each bank once.
template <class T, bool BACK> struct Skewed {
  static constexpr int SIZE = sizeof(T), RUN = ITEMS * SIZE, WORDS = RUN / 4, PITCH = RUN + 4, BYTES = WIDTH * PITCH;
  static constexpr int AT_ONCE = 32 / WORDS;
  static_assert(SIZE < 4 && WORDS <= 32);
  // The lowest address of the run whose first item lies at `at`, and the byte of a word with which it begins.
  template <class P> static __device__ __forceinline__ P* low(P* at) { return BACK ? at - (RUN - SIZE) : at; }
  static __device__ __forceinline__ int phase(const char* low) { return (int)((u64)low & 3); }
  // The bytes of a run that exist, of so many items.
  struct Span {
    int from, to;
    __device__ __forceinline__ explicit Span(i64 items) {
      const int bytes = (int)max((i64)0, min(items, (i64)ITEMS)) * SIZE;
      from = BACK ? RUN - bytes : 0;
      to = from + bytes;
    }
  };

  static __device__ __forceinline__ void read(const char* shared, int column, const char* at, T (&x)[ITEMS]) {
    const u32 *words = (const u32*)(shared + column * PITCH), bits = 8 * phase(low(at));
    u32 run[WORDS], before = words[0];
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      const u32 next = words[i + 1];
      run[i] = __funnelshift_r(before, next, bits);
      before = next;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) memcpy(&x[i], (const char*)run + (BACK ? ITEMS - 1 - i : i) * SIZE, SIZE);
  }
  static __device__ __forceinline__ void write(char* shared, int column, const char* at, const T (&x)[ITEMS]) {
    u32 *words = (u32*)(shared + column * PITCH), run[WORDS], before = 0;
    const u32 bits = 8 * phase(low(at));
#pragma unroll
    for (int i = 0; i < ITEMS; i++) memcpy((char*)run + (BACK ? ITEMS - 1 - i : i) * SIZE, &x[i], SIZE);
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      words[i] = __funnelshift_l(before, run[i], bits);
      before = run[i];
    }
    words[WORDS] = __funnelshift_l(before, 0, bits);
  }

  // Calls move(place in shared memory, its address, first byte behind the begin of the run) for all words but the last of each run.
  template <class P, class F> static __device__ __forceinline__ void each_word(P* at, i64 across, i64 columns, int lane, F&& move) {
    const int own = lane % WORDS, exist = (int)min(columns, (i64)WIDTH);
    P* line = low(at) + lane / WORDS * across;
#pragma unroll
    for (int c = 0; c < WIDTH; c += AT_ONCE, line = stepped(line, AT_ONCE * across)) {
      const int column = c + lane / WORDS, byte = 4 * own - phase(line);
      if (column < exist) move(column * PITCH + 4 * own, line + byte, byte);
    }
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, i64, i64 across, i64 items, i64 columns, int lane) {
    const Span span(items);
    auto copy = [&](int place, const char* at, int byte) {
      if (byte < span.to && byte + 4 > span.from) copy_async<4>(shared + place, at);
    };
    each_word(from, across, columns, lane, copy);
#pragma unroll
    for (int c = lane; c < WIDTH; c += 32) {
      const char* line = low(from) + c * across;
      if (c < columns) copy(c * PITCH + RUN, line + RUN - phase(line), RUN - phase(line));
    }
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, i64, i64 across, i64 items, i64 columns, int lane) {
    const Span span(items);
    each_word(to, across, columns, lane, [&](int place, char* at, int byte) {
      if (byte >= span.from && byte + 4 <= span.to) *(u32*)at = *(const u32*)(shared + place);
    });
    // A lane stores the items at the ends of a run that fill no word.
#pragma unroll
    for (int c = lane; c < WIDTH; c += 32) {
      char* line = low(to) + c * across;
      const int begin = phase(line), first = (span.from + begin + 3 & ~3) - begin, last = (span.to + begin & ~3) - begin;
      auto put = [&](int byte) {
        if (byte >= span.from && byte < span.to && c < columns) *(T*)(line + byte) = *(const T*)(shared + c * PITCH + begin + byte);
      };
#pragma unroll
      for (int b = 4 - SIZE; b > 0; b -= SIZE) put(first - b);
#pragma unroll
      for (int b = 0; b < 4 - SIZE; b += SIZE) if (last + b >= first) put(last + b);
    }
  }
};

// The rectangle of an array where a tile's columns are CROSS lines of SIDE columns: its neighbours lie along the lines, or across
// (CROSSES). Results that lie across are put where items were that lie along the lines (KEPT), or into places of their own. Pieces
// of 16 bytes change places, so that lanes meet each bank once both ways. Words of columns are columns again once they are put (SPLIT).
template <class T, int GRAIN, bool CROSSES, bool KEPT = false, int SPLIT = 1> struct Square {
  static constexpr int SIZE = sizeof(T) / SPLIT, COUNT = WIDTH * SPLIT, NEAR = CROSSES ? CROSS : SIDE * SPLIT, FAR = COUNT / NEAR;
  static constexpr int LINE = COUNT * SIZE, RUN = ITEMS * LINE, BYTES = HEIGHT * LINE;
  typedef typename bits_of<GRAIN>::type Piece;
  typedef typename bits_of<SIZE>::type Unit;
  // The place of an item in a line: the lanes' order is along the lines.
  static __device__ __forceinline__ int place(int i) { return i * SIZE ^ (i * SIZE >> 7 & 7) << 4; }
  static __device__ __forceinline__ int column(int i) { return place(CROSSES && !KEPT ? i % SIDE * NEAR + i / SIDE : i * SPLIT); }
  static __device__ __forceinline__ T get(const char* run, int i) { return *(const T*)(run + i * LINE); }
  static __device__ __forceinline__ void put(char* run, int i, const T& x) { *(T*)(run + i * LINE) = x; }
  static __device__ __forceinline__ Piece piece(const char* line, int i) {
    if constexpr (!KEPT) return *(const Piece*)(line + place(i));
    else {
      Unit x[GRAIN / SIZE];
#pragma unroll
      for (int k = 0; k < GRAIN / SIZE; k++) x[k] = *(const Unit*)(line + place((i % NEAR + k) * FAR + i / NEAR));
      Piece all;
      memcpy(&all, x, GRAIN);
      return all;
    }
  }

  static __device__ __forceinline__ i64 across(const Strides& s, i64 column) { return CROSSES ? column / SPLIT : line_stride<CROSS>(s); }
  static __device__ __forceinline__ i64 far(i64 columns, i64 lines) { return CROSSES ? columns * SPLIT : lines; }
  // Calls move(begin of the line, first item, address) for all pieces that exist, of so many items, columns and lines of an array
  // that begins at `at`, whose stride from column to column is `column`: neighbouring lanes have neighbours in memory.
  template <class P, class F> static __device__ __forceinline__
  void each_piece(P* at, const Strides& st, i64 column, i64 items, i64 columns, i64 lines, int lane, F&& move) {
    const i64 step = across(st, column), near = CROSSES ? lines : columns, most = far(columns, lines);
    constexpr int PIECES = LINE / GRAIN, PER = NEAR * SIZE / GRAIN, SETS = max_of(1, PIECES / 32);
    int exist[SETS];
#pragma unroll
    for (int s = 0; s < SETS; s++) {
      int i = lane + 32 * s;
      exist[s] = i < PIECES && i / PER < most && i % PER * GRAIN < near * SIZE ? (int)min(items, (i64)HEIGHT) : 0;
    }
    at += lane / PER * step + lane % PER * GRAIN;
#pragma unroll (SETS > 2 ? 2 : 8)
    for (int i = 0; i < HEIGHT; i++, at = stepped(at, st.along))
#pragma unroll
      for (int s = 0; s < SETS; s++)
        if (i < exist[s]) move(i * LINE, (lane + 32 * s) * (GRAIN / SIZE), at + 32 * s / PER * step + 32 * s % PER * GRAIN);
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, const Strides& st, i64 column, i64 items, i64 columns, i64 lines, int lane) {
    each_piece(from, st, column, items, columns, lines, lane,
               [&](int line, int i, const char* at) { copy_async<GRAIN, true>(shared + line + place(i), at); });
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, const Strides& st, i64 column, i64 items, i64 columns, i64 lines, int lane) {
    each_piece(to, st, column, items, columns, lines, lane, [&](int line, int i, char* at) { *(Piece*)at = piece(shared + line, i); });
  }
};

// The same where all neighbours are in the tile, both ways: those that lie together are a stretch of memory, which comes and goes in
// pieces of GRAIN bytes. Between the stretches lie as many bytes as let lanes meet each bank once, as far as pieces allow.
template <class T, int GRAIN, int PITCH, bool CROSSES> struct Stretches {
  static constexpr int SIZE = sizeof(T), NEAR = CROSSES ? CROSS : SIDE, FAR = CROSSES ? SIDE : CROSS, LINE = PITCH;
  static constexpr int BYTES_EACH = HEIGHT * NEAR * SIZE, BYTES_RUN = ITEMS * NEAR * SIZE, PER = BYTES_EACH / GRAIN;
  // Between the runs of a column lie PAD bytes for the same reason.
  static constexpr int PAD = SUBS > 1 ? 16 : 0, HELD = BYTES_EACH + SUBS * PAD, APART = max_of(NEAR * SIZE, SUBS * 16);
  static constexpr int STEP = HELD + ((APART - HELD) % 128 + 128) % 128 / 16 * 16;
  static constexpr int RUN = ITEMS * LINE + (PITCH < 0 ? -PAD : PAD), BYTES = FAR * STEP;
  static_assert(STRIPS == 1 && BYTES_RUN % GRAIN == 0);
  typedef typename bits_of<GRAIN>::type Piece;
  typedef typename bits_of<SIZE>::type Unit;
  static __device__ __forceinline__ int origin(const char*, i64) { return PITCH < 0 ? padded(-(HEIGHT - 1) * PITCH) : 0; }
  static __device__ __forceinline__ int padded(int byte) { return byte + (PAD ? byte / BYTES_RUN * PAD : 0); }
  static __device__ __forceinline__ int column(int i) {
    const int own = min(i, CROSS * SIDE - 1), line = own / SIDE, side = own % SIDE;
    return CROSSES ? side * STEP + line * SIZE : line * STEP + side * SIZE;
  }
  static __device__ __forceinline__ T get(const char* run, int i) { return *(const T*)(run + i * LINE); }
  static __device__ __forceinline__ void put(char* run, int i, const T& x) { *(T*)(run + i * LINE) = x; }

  static __device__ __forceinline__ i64 apart(const Strides& st, i64 column) { return CROSSES ? column : line_stride<CROSS>(st); }
  // Calls move(place in shared memory, address, bytes) for all pieces, or for all items of a tile that has fewer lines.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, const Strides& st, i64 column, i64 items, int lane, F&& move) {
    const i64 step = apart(st, column);
    if (PITCH < 0) at += (HEIGHT - 1) * st.along;
    if (items >= HEIGHT) {
#pragma unroll 8
      for (int c = lane; c < FAR * PER; c += 32) move(c / PER * STEP + padded(c % PER * GRAIN), at + c / PER * step + c % PER * GRAIN, Int<GRAIN>{});
    } else {
      const int some = max((int)items, 0) * NEAR, first = PITCH < 0 ? HEIGHT * NEAR - some : 0;
#pragma unroll 1
      for (int c = lane; c < FAR * some; c += 32) {
        const int byte = (first + c % some) * SIZE;
        move(c / some * STEP + padded(byte), at + c / some * step + byte, Int<SIZE>{});
      }
    }
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, const Strides& st, i64 column, i64 items, i64, i64, int lane) {
    each_piece(from, st, column, items, lane, [&](int place, const char* at, auto bytes) { copy_async<bytes.value>(shared + place, at); });
  }
  static __device__ __forceinline__ void store(const char* shared, char* to, const Strides& st, i64 column, i64 items, i64, i64, int lane) {
    each_piece(to, st, column, items, lane, [&](int place, char* at, auto bytes) {
      typedef typename bits_of<bytes.value>::type Part;
      *(Part*)at = *(const Part*)(shared + place);
    });
  }
  // Asks the second-level cache for the stretches.
  static __device__ __forceinline__ void fetch(const char* from, const Strides& st, i64 column, int items, int lane) {
    const int bytes = min(items, HEIGHT) * NEAR * SIZE, lines = (bytes + 127) / 128;
    if (PITCH < 0) from += (min(items, HEIGHT) - 1) * st.along;
    for (int c = lane; c < FAR * lines; c += 32)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + c / lines * apart(st, column) + c % lines * 128) : "memory");
  }
};
