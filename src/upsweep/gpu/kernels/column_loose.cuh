// The rectangle of columns that a warp owns where lines begin at any item: it comes and goes as stretches of memory, in pieces of 16
// bytes. A stretch is a run of whole lines that lie one behind another (WHOLE), or a part of one line. It keeps its remainder by 16, so
// PITCH, the bytes from line to line, has that of the lines in memory. PITCH is below 0 where the lines lie backwards.
#include "column_patches.cuh"

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
    Span lines = span(items, skip), bytes = stretch(lines);
    auto copy = [&](int place, const char* at, int bytes) { copy_piece_async(shared_address(shared + place), at, bytes < 16 ? bytes : 16); };
    from = lowest(from, stride);
    if constexpr (WHOLE) {
      if (!are_full(bytes)) {
        each_of_runs(from, bytes, lane, [&](int place, const char* at, int, int high) { copy(place, at, high); });
        return;
      }
      const int shift = phase(from);
      each_of_full(from - shift, lane, [&](int place, const char* at, int c) { copy(place, at, GAP > 0 ? COUNT * MOST - GAP + shift - c : 16); });
#pragma unroll
      for (int run = lane; run < COUNT; run += 32) {
        int high = run < COUNT - 1 ? shift : shift - GAP;
        if (high > 0) copy(run * STEP + MOST, from - shift + (run + 1) * MOST, high);
      }
    } else
      each_of_lines<MOST / 16 + 1>(from, stride, lines, columns, lane, [&](int place, const char* at, int, int high) { if (high > 0) copy(place, at, high); });
  }
  // Whole pieces, and then the items at the ends of each stretch.
  static __device__ __forceinline__ void store(const char* shared, char* to, i64 stride, i64 items, i64 columns, int lane) {
    Span lines = span(items, 0), bytes = stretch(lines);
    auto move = [&](int place, char* at, int low, int high) {
      if (low <= 0 && high >= 16) *(uint4*)at = *(const uint4*)(shared + place);
      else if (WHOLE)
#pragma unroll 1
        for (int b = 0; b < 16; b += UNIT) if (b >= low && b < high) *(Unit*)(at + b) = *(const Unit*)(shared + place + b);
    };
    to = lowest(to, stride);
    if constexpr (WHOLE) {
      if (are_full(bytes)) store_full(shared, to, lane);
      else each_of_runs(to, bytes, lane, move);
    } else {
      each_of_lines<MOST / 16>(to, stride, lines, columns, lane, move);
      each_end(to, stride, lines, columns, lane, [&](int place, char* at) { *(Unit*)at = *(const Unit*)(shared + place); });
    }
  }
  // All runs, where all their lines exist: the bytes of a piece in which two runs meet are brought together.
  static __device__ __forceinline__ void store_full(const char* shared, char* to, int lane) {
    const int shift = phase(to);
    char* low = to - shift;
    each_of_full(low, lane, [&](int place, char* at, int c) {
      if (shift == 0 || c % MOST) *(uint4*)at = *(const uint4*)(shared + place);
    });
    if (shift == 0) return;
#pragma unroll
    for (int run = lane; run < COUNT - 1; run += 32) {
      u32 ends[4], begins[4];
      ::put(ends, *(const uint4*)(shared + run * STEP + MOST));
      ::put(begins, *(const uint4*)(shared + (run + 1) * STEP));
#pragma unroll
      for (int w = 0; w < 4; w++) {
        const u32 first = shift >= 4 * w + 4 ? ~0u : (1u << 8 * max(shift - 4 * w, 0)) - 1;
        begins[w] = (ends[w] & first) | (begins[w] & ~first);
      }
      *(uint4*)(low + (run + 1) * MOST) = four(begins);
    }
#pragma unroll
    for (int i = lane; i < 2 * PER; i += 32) {
      const int byte = i % PER * UNIT;
      if ((i < PER) == (byte >= shift))
        *(Unit*)(low + (i < PER ? 0 : COUNT * MOST) + byte) = *(const Unit*)(shared + (i < PER ? 0 : (COUNT - 1) * STEP + MOST) + byte);
    }
  }

  // The lines that exist, in the order of memory.
  struct Span { int first, last; };
  static __device__ __forceinline__ Span span(i64 items, int skip) {
    int most = (int)min(items, (i64)HEIGHT);
    return BACK ? Span{HEIGHT - most, HEIGHT - skip} : Span{skip, most};
  }
  // The bytes of a stretch of these lines.
  static __device__ __forceinline__ Span stretch(Span lines) { return {lines.first * WIDE, lines.last * WIDE - GAP}; }
  // Bytes of a line of so many columns that are left.
  static __device__ __forceinline__ int bytes_of(i64 columns) {
    return columns > WIDTH ? WIDTH * SIZE : (int)columns * SIZE - (RAGGED ? (4 - LINE_BYTES % 4) % 4 : 0);
  }

  // Whether all bytes of a warp's lines are there, in runs of whole pieces.
  static __device__ __forceinline__ bool are_full(Span bytes) { return MOST % 16 == 0 && bytes.first == 0 && bytes.last == COUNT * MOST - GAP; }
  // Calls move(place in shared memory, address, byte) for the pieces of such runs from the first one's on, but for each run's end.
  template <class P, class F> static __device__ __forceinline__ void each_of_full(P* at, int lane, F&& move) {
#pragma unroll 8
    for (int c = 16 * lane; c < COUNT * MOST; c += 16 * 32) move(c + c / MOST * PAD, at + c, c);
  }

  // Calls move(place in shared memory, address, low, high) for the pieces of all runs, of which the bytes from low up to high exist.
  template <class P, class F> static __device__ __forceinline__ void each_of_runs(P* at, Span bytes, int lane, F&& move) {
    constexpr int PIECES = (MOST + 30) / 16;
#pragma unroll 1
    for (int c = lane; c < COUNT * PIECES; c += 32) {
      int s = c / PIECES, begin = s * MOST, byte = begin + c % PIECES * 16 - ((begin + phase(at)) & 15);
      int from = max(begin, bytes.first), to = min(begin + MOST, bytes.last);
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
