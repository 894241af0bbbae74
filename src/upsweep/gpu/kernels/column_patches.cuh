// The rectangles of columns that a warp owns: their places in shared memory, and how items get there and back.
#include "memory.cuh"
#include "column_lookback.cuh"

// The lines of a strip, of a warp, of a tile; and the parts of a tile that are summed one by one.
constexpr int LINES = SUBS * ITEMS, HEIGHT = STRIPS * LINES, TILE = WARPS * HEIGHT, PARTS = WARPS * STRIPS;
constexpr int WIDTH = LANES * VECTOR, SIDE = CROSS ? WIDTH / CROSS : WIDTH;

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

// The same rectangle where lines begin at any item: it comes and goes as stretches of memory, in pieces of 16 bytes. A stretch is a
// run of whole lines that lie one behind another (WHOLE), or a part of one line. It keeps its remainder by 16, so PITCH, the bytes
// from line to line, has that of the lines in memory. PITCH is below 0 where the lines lie backwards.
constexpr bool WHOLE = COLUMNS > 0, RAGGED = LINE_BYTES > 0;
template <class T, int PITCH, int PHASE> struct Loose {
  static constexpr int SIZE = sizeof(T), UNIT = RAGGED ? 1 : SIZE, LINE = PITCH, WIDE = PITCH < 0 ? -PITCH : PITCH;
  // Between runs lie as many bytes as let lanes meet each bank once.
  static constexpr int PAD = SUBS > 1 && !FLAT ? ((max_of(16, LANES * SIZE) - ITEMS * WIDE) % 128 + 128) % 128 / 16 * 16 : 0, HIGH = ITEMS * WIDE + PAD;
  static constexpr bool BACK = PITCH < 0;
  // Runs without bytes between them are one stretch: a piece that two stretches share would come twice, each time in part.
  static constexpr int RUN = BACK ? -HIGH : HIGH, COUNT = !WHOLE ? HEIGHT : PAD > 0 ? HEIGHT / ITEMS : 1;
  // Bytes behind a line that belong to none: they are read with it, but not behind the last one.
  static constexpr int GAP = WHOLE ? WIDE - (RAGGED ? LINE_BYTES : COLUMNS * SIZE) : 0;
  static constexpr int MOST = WHOLE ? HEIGHT / COUNT * WIDE : WIDTH * SIZE, STEP = WHOLE ? MOST + PAD : WIDE;
  static constexpr int BYTES = ((COUNT - 1) * STEP + MOST + 30) / 16 * 16, PER = 16 / UNIT;
  typedef typename bits_of<UNIT>::type Unit;

  // The lowest address, its remainder by 16, and where the first item of the first run lies.
  static constexpr int FIRST = BACK ? (HEIGHT / ITEMS - 1) * HIGH + (ITEMS - 1) * WIDE : 0;
  template <class P> static __device__ __forceinline__ P* lowest(P* at, i64 stride) { return BACK ? at + (HEIGHT - 1) * stride : at; }
  static __device__ __forceinline__ int phase(const char* low) { return PHASE < 0 ? (int)(u64)low & 15 : PHASE; }
  static __device__ __forceinline__ int origin(const char* at, i64 stride) { return phase(lowest(at, stride)) + FIRST; }

  static __device__ __forceinline__ int column(int i) { return i * SIZE; }
  // Item i of a run. Ragged words begin at any byte, all words of a line alike.
  static __device__ __forceinline__ int shift_of(const char* run, int i) {
    return (PHASE < 0 || HIGH % 4 ? (int)(u64)run + i * LINE : PHASE + FIRST + i * LINE) & 3;
  }
  static __device__ __forceinline__ T get(const char* run, int i) {
    if constexpr (!RAGGED) return *(const T*)(run + i * LINE);
    else {
      int shift = shift_of(run, i);
      const u32* words = (const u32*)(run + (i * LINE - shift));
      return from_words<T>({shift ? __funnelshift_r(words[0], words[1], 8 * shift) : words[0]});
    }
  }
  static __device__ __forceinline__ void put(char* run, int i, const T& x) {
    char* at = run + i * LINE;
    if constexpr (!RAGGED) *(T*)at = x;
    else {
      u32 word = to_words(x).w[0];
      int shift = shift_of(run, i);
      if (shift == 0) *(u32*)at = word;
      else if (shift == 2) { *(u16*)at = (u16)word; *(u16*)(at + 2) = (u16)(word >> 16); }
      else { at[0] = (char)word; *(u16*)(at + 1) = (u16)(word >> 8); at[3] = (char)(word >> 24); }
    }
  }
  // The bytes of a word that a whole line ends within.
  static __device__ __forceinline__ void put_bytes(char* run, int i, const T& x, int exist) {
    u32 word = to_words(x).w[0];
#pragma unroll
    for (int b = 0; b < 3; b++) if (b < exist) run[i * LINE + b] = (char)(word >> 8 * b);
  }

  static __device__ __forceinline__ void load(char* shared, const char* from, i64 stride, i64 items, i64 columns, int lane, int skip = 0) {
    Span lines = span(items, skip);
    auto copy = [&](int place, const char* at, int bytes) { copy_piece_async(shared_address(shared + place), at, bytes < 16 ? bytes : 16); };
    if constexpr (WHOLE)
      each_of_runs(lowest(from, stride), lines, lane, [&](int place, const char* at, int, int high) { copy(place, at, high); });
    else
      each_of_lines<MOST / 16 + 1>(lowest(from, stride), stride, lines, columns, lane,
                                   [&](int place, const char* at, int, int high) { if (high > 0) copy(place, at, high); });
  }
  // Whole pieces, and then the items at the ends of each stretch.
  static __device__ __forceinline__ void store(const char* shared, char* to, i64 stride, i64 items, i64 columns, int lane) {
    Span lines = span(items, 0);
    auto move = [&](int place, char* at, int low, int high) {
      if (low <= 0 && high >= 16) *(uint4*)at = *(const uint4*)(shared + place);
      else if (WHOLE)
#pragma unroll 1
        for (int b = 0; b < 16; b += UNIT) if (b >= low && b < high) *(Unit*)(at + b) = *(const Unit*)(shared + place + b);
    };
    if constexpr (WHOLE) each_of_runs(lowest(to, stride), lines, lane, move);
    else {
      each_of_lines<MOST / 16>(lowest(to, stride), stride, lines, columns, lane, move);
      each_end(lowest(to, stride), stride, lines, columns, lane,
               [&](int place, char* at) { *(Unit*)at = *(const Unit*)(shared + place); });
    }
  }

  // The lines that exist, in the order of memory.
  struct Span { int first, last; };
  static __device__ __forceinline__ Span span(i64 items, int skip) {
    int most = (int)min(items, (i64)HEIGHT);
    return BACK ? Span{HEIGHT - most, HEIGHT - skip} : Span{skip, most};
  }
  // Bytes of a line of so many columns that are left.
  static __device__ __forceinline__ int bytes_of(i64 columns) {
    return columns > WIDTH ? WIDTH * SIZE : (int)columns * SIZE - (RAGGED ? (4 - LINE_BYTES % 4) % 4 : 0);
  }

  // Calls move(place in shared memory, address, low, high) for the pieces of all runs, of which the bytes from low up to high exist.
  template <class P, class F> static __device__ __forceinline__ void each_of_runs(P* at, Span lines, int lane, F&& move) {
    int low = lines.first * WIDE, high = lines.last * WIDE - GAP;
    if (PHASE == 0 && MOST % 16 == 0 && low == 0 && high == COUNT * MOST) {
#pragma unroll 8
      for (int c = 16 * lane; c < COUNT * MOST; c += 16 * 32) move(c + c / MOST * PAD, at + c, 0, 16);
      return;
    }
    constexpr int PIECES = (MOST + 30) / 16;
#pragma unroll 1
    for (int c = lane; c < COUNT * PIECES; c += 32) {
      int s = c / PIECES, begin = s * MOST, byte = begin + c % PIECES * 16 - ((begin + phase(at)) & 15);
      int from = max(begin, low), to = min(begin + MOST, high);
      if (byte + 16 > from && byte < to) move(s * PAD + phase(at) + byte, at + byte, from - byte, to - byte);
    }
  }

  // The same for the pieces of all lines, PIECES of each: a lane keeps its place in the line, but a last odd piece is another
  // lane's for each line. Where all lines are there and whole, which most are, no piece needs to be compared with bounds.
  template <int PIECES, class P, class F> static __device__ __forceinline__
  void each_of_lines(P* at, i64 stride, Span lines, i64 columns, int lane, F&& move) {
    constexpr int MAIN = MOST / 16, AT_ONCE = 32 / MAIN;
    static_assert(MAIN <= 32, "a lane has a piece of a line");
    i64 step = BACK ? -stride : stride;
    int bytes = bytes_of(columns), piece = lane % MAIN * 16, line = lane / MAIN, place = phase(at) + line * WIDE;
    auto pieces = [&](auto whole) {
      constexpr bool ALL = whole.value;
      P* to = at + line * step;
#pragma unroll
      for (int i = 0; i < HEIGHT; i += AT_ONCE, to = stepped(to, AT_ONCE * step)) {
        int shift = (place + i * WIDE) & 15, from = piece - shift;
        if (ALL || (i + line >= lines.first && i + line < lines.last)) move(place + i * WIDE + from, to + from, -from, ALL ? 16 : bytes - from);
      }
    };
    bool whole = 32 % MAIN == 0 && HEIGHT % AT_ONCE == 0 && lines.first == 0 && lines.last == HEIGHT && bytes == MOST;
    if (whole) pieces(Int<1>{});
    else pieces(Int<0>{});
    if constexpr (PIECES > MAIN)
#pragma unroll
      for (int i = 0; i < HEIGHT; i += 32) {
        int own = i + lane, place = phase(at) + own * WIDE, from = MOST - (place & 15);
        if (own >= lines.first && own < lines.last) move(place + from, at + own * step + from, -from, bytes - from);
      }
  }

  // Calls move(place, address) for the items in pieces that a line fills in part: of the first such piece and of the last.
  template <class P, class F> static __device__ __forceinline__
  void each_end(P* at, i64 stride, Span lines, i64 columns, int lane, F&& move) {
    constexpr int AT_ONCE = 32 / PER;
    i64 step = BACK ? -stride : stride;
    int bytes = bytes_of(columns), item = lane % PER * UNIT, line = lane / PER, place = phase(at) + line * WIDE;
    auto ends = [&](auto whole) {
      P* to = at + line * step;
#pragma unroll 4
      for (int i = 0; i < HEIGHT; i += AT_ONCE, to = stepped(to, AT_ONCE * step)) {
        int shift = (place + i * WIDE) & 15, head = item - shift, tail = ((bytes + shift) & ~15) + head;
        if constexpr (whole.value) {  // the last piece has what the first one lacks of 16 bytes
          int own = head < 0 ? head + MOST : head;
          move(place + i * WIDE + own, to + own);
        } else if (i + line >= lines.first && i + line < lines.last) {
          if ((shift > 0 || bytes < 16) && head >= 0 && head < bytes) move(place + i * WIDE + head, to + head);
          if (tail > head && tail < bytes) move(place + i * WIDE + tail, to + tail);
        }
      }
    };
    if (MOST % 16 == 0 && HEIGHT % AT_ONCE == 0 && bytes == MOST && lines.first == 0 && lines.last == HEIGHT) ends(Int<1>{});
    else ends(Int<0>{});
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

template <class T, int GRAIN, int PITCH, int PHASE, int LIES> struct PatchOf { typedef Loose<T, PITCH, PHASE> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, COLUMNS_NEAR> { typedef Patch<T, GRAIN> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, ITEMS_NEAR> { typedef Turned<T, GRAIN> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, SIDE_NEAR> { typedef Square<T, GRAIN, false> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_NEAR> { typedef Square<T, GRAIN, true> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_KEPT> { typedef Square<T, GRAIN, true, true> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_BYTES> { typedef Square<T, GRAIN, true, true, sizeof(T)> type; };
template <int I> using ColumnPatch =
  typename PatchOf<typename Input<I>::Load, Input<I>::grain, Input<I>::pitch, Input<I>::begin, Input<I>::lies>::type;
template <int O> using ResultPatch =
  typename PatchOf<typename Output<O>::Store, Output<O>::grain, Output<O>::pitch, Output<O>::begin, Output<O>::lies>::type;
typedef typename PatchOf<u8, HEADS_GRAIN, HEADS_PITCH, HEADS_BEGIN, COLUMNS_NEAR>::type HeadPatch;

// One list of heads for all columns, in words as they lie in memory: the heads of a warp's items.
constexpr bool HEADS_LISTED = SEGMENTED && !HEADS_APART && HEADS_MODE == SHIFTED;
struct HeadList {
  static constexpr int BYTES = (HEIGHT + 6 + 15) / 16 * 16;

  // The lowest address of these heads; `from` is the first one's.
  static __device__ __forceinline__ const char* low(const char* from) { return HEADS_FLIP ? from - (HEIGHT - 1) : from; }
  // Copies the words that have a head of one of so many `items`; the first may have none (`skip`).
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 items, bool skip, int lane) {
    const int last = (int)min(items, (i64)HEIGHT) - 1;
    const char *begin = (const char*)((u64)low(from) & ~3ull);
    const char *least = HEADS_FLIP ? from - last : from + skip, *most = HEADS_FLIP ? from - skip : from + last;
#pragma unroll
    for (int c = lane; c < HEIGHT / 4 + 2; c += 32)
      if (begin + 4 * c + 3 >= least && begin + 4 * c <= most) copy_async<4>(shared + 4 * c, begin + 4 * c);
  }
  // Whether a segment starts at item i.
  static __device__ __forceinline__ bool head(const char* shared, const char* from, int i) {
    return shared[((u64)low(from) & 3) + (HEADS_FLIP ? HEIGHT - 1 - i : i)] != 0;
  }
};

// The same list as bits, in words of 32, where a warp's items begin with a word.
struct BitList {
  static constexpr int BYTES = (HEIGHT / 8 + 15) / 16 * 16;

  // Copies the words of these heads from item j on, of `n` in all.
  static __device__ __forceinline__ void load(char* shared, const char* heads, i64 j, i64 n, int lane) {
#pragma unroll
    for (int c = lane; c < HEIGHT / 32; c += 32)
      if (j + 32 * c < n) copy_async<4>(shared + 4 * c, heads + j / 8 + 4 * c);
  }
  // The heads of a run.
  static __device__ __forceinline__ u32 of_run(const char* shared, int run) {
    return ((const typename bits_of<ITEMS == 32 ? 4 : ITEMS == 16 ? 2 : 1>::type*)shared)[run];
  }
};
constexpr int HEADS_BYTES = HEADS_APART ? HeadPatch::BYTES : HEADS_BITS ? BitList::BYTES : HEADS_LISTED ? HeadList::BYTES : 0;
constexpr int WARP_BYTES = HEADS_AT + HEADS_BYTES;
