// Lines of columns that begin anywhere, on their way to a stage of walk.cu's ring and back.
#include "walk_stages.cuh"

// Neighbours in a line, as words where they are several: what is cut out of a word is waited for, and so only where it is wanted.
template <class T, int GRAIN, bool ONE = PIECE == 1> struct Near {
  static constexpr int BYTES = PIECE * sizeof(T);
  u32 w[(BYTES + 3) / 4];
  __device__ __forceinline__ void load(const char* from) {
    if constexpr (BYTES >= 4) load_run<BYTES / 4>(from, w);
    else w[0] = *(const typename bits_of<BYTES>::type*)from;
  }
  __device__ __forceinline__ T operator[](int q) const {
    T x;
    if constexpr (sizeof(T) >= 4) memcpy(&x, w + q * (int)sizeof(T) / 4, sizeof(T));
    else { typename bits_of<sizeof(T)>::type bits = w[q * (int)sizeof(T) / 4] >> q * (int)sizeof(T) % 4 * 8; memcpy(&x, &bits, sizeof(T)); }
    return x;
  }
};
template <class T, int GRAIN> struct Near<T, GRAIN, true> {
  T x;
  __device__ __forceinline__ void load(const char* from) { x = load_item<T, GRAIN>(from); }
  __device__ __forceinline__ T operator[](int) const { return x; }
};
template <class T> struct alignas(PIECE * sizeof(T)) Piece { T x[PIECE]; };

// Lines of columns that become rows of a stage by way of registers, so that lines may begin anywhere. A lane asks for its items a
// turn before they are wanted.
template <class T, int AT, int GRAIN> struct Turned : InStage<T, AT, false> {
  typedef InStage<T, AT, false> Base;
  struct Asked {
    Near<T, GRAIN> near[VECTOR][SHARE];
    __device__ __forceinline__ T item(int v, int i) const { return near[v / PIECE][i][v % PIECE]; }
  };

  // Calls f(v, item, whole) for every `step`-th column of this lane that exists, where the first item of its share lies; whole: all
  // items exist.
  template <class F> static __device__ __forceinline__ void each_column(const Lines& at, i64 along, i64 j, bool whole, int rows, int lane, int step, F&& f) {
#pragma unroll
    for (int v = 0; v < VECTOR * PIECE; v += step) {
      int column = column_of(row_of(lane, v));
      if (column >= rows) break;
      char* item = at.base + column * (int)sizeof(T) + (j + share_of(lane)) * along;
      if (whole) f(v, item, Int<1>{});
      else f(v, item, Int<0>{});
    }
  }
  static __device__ __forceinline__ void ask(Asked& asked, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip) {
    each_column(at, along, j, m == STEPS && !skip, rows, lane, PIECE, [&](int v, const char* item, auto whole) {
      const int from = share_of(lane);
#pragma unroll
      for (int i = 0; i < SHARE; i++, item += along)
        if (whole.value || (from + i < m && from + i >= skip)) asked.near[v / PIECE][i].load(item);
    });
  }
  static __device__ __forceinline__ bool any(const Asked&) { return true; }
  static __device__ __forceinline__ void bring(const Asked& asked, char* stage, const Lines&, i64, i64, int, int, int lane, int) {
#pragma unroll
    for (int v = 0; v < VECTOR * PIECE; v++)
      Base::template write_row<SHARE>(stage, row_of(lane, v), share_of(lane), [&](int k) { return asked.item(v, k); });
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane) {
    constexpr int N = SHARE < 4 * Base::UNIT ? SHARE : 4 * Base::UNIT;
    each_column(at, along, j, m == STEPS, rows, lane, 1, [&](int v, char* item, auto whole) {
      const int from = share_of(lane), row = row_of(lane, v);
#pragma unroll
      for (int i = 0; i < SHARE; i += N) {
        T x[N];
        Base::template read_row<N>(stage, row, from + i, [&](int k, const T& y) { x[k] = y; });
#pragma unroll
        for (int k = 0; k < N; k++, item += along)
          if (whole.value || from + i + k < m) store_item<T, GRAIN>(item, x[k]);
      }
    });
  }
};

// Lines that begin anywhere, in pieces of 16 bytes: a line keeps its remainder by 16 in a stage, and so does the one STEPS behind it.
// PITCH, the bytes from line to line there, has the remainder of those in memory.
template <class T, int AT, int PITCH> struct Loose {
  static constexpr int SIZE = sizeof(T), PER = 16 / SIZE;
  // The pieces of a line, of which a lane has one, or PARTS; and the lines that a warp moves at once, several times before it waits.
  static constexpr int PIECES = WIDTH * SIZE / 16 + 1, PARTS = (PIECES + 31) / 32, LINES = max_of(1, 32 / PIECES), TIMES = max_of(1, 8 / PARTS);
  struct Asked {};
  static __device__ __forceinline__ bool any(const Asked&) { return true; }
  static __device__ __forceinline__ void ask(Asked&, const Lines&, i64, i64, int, int, int, int) {}

  // `place` is that of a lane's column in the first line, behind AT.
  template <int N> static __device__ __forceinline__ void read(const char* stage, int place, int i, T (&x)[N][VECTOR]) {
#pragma unroll
    for (int k = 0; k < N; k++) x[k][0] = *(const T*)(stage + AT + place + (i + k) * PITCH);
  }
  template <int N> static __device__ __forceinline__ void write(char* stage, int place, int i, const T (&x)[N][VECTOR]) {
#pragma unroll
    for (int k = 0; k < N; k++) *(T*)(stage + AT + place + (i + k) * PITCH) = x[k][0];
  }

  static __device__ __forceinline__ void bring(const Asked&, char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip) {
    const int bytes = rows * SIZE;
    const u32 to = shared_address(stage + AT);
    Seat seat(at.base + j * along, along, lane);
#pragma unroll 8
    for (int i = 0; i < STEPS; i += LINES, seat.step(along))
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        const int byte = seat.byte(part);
        if (seat.line >= skip && seat.line < m && byte < bytes)
          asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to + seat.place + byte), "l"(seat.from + byte) : "memory");
      }
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane) {
    const int bytes = rows * SIZE;
    char* to = at.base + j * along;
    Seat seat(to, along, lane);
#pragma unroll 1
    for (int i = 0; i < STEPS; i += TIMES * LINES) {
      uint4 piece[TIMES][PARTS];
      Seat next = seat;
#pragma unroll
      for (int k = 0; k < TIMES; k++, next.step(along))
#pragma unroll
        for (int part = 0; part < PARTS; part++)
          if (i + k * LINES < STEPS) piece[k][part] = *(const uint4*)(stage + AT + (next.place & ~15) + min(next.piece + part * 512, (PIECES - 1) * 16));
#pragma unroll
      for (int k = 0; k < TIMES; k++, seat.step(along))
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
          const int byte = seat.byte(part);
          if (seat.line < m && byte >= 0 && byte + 16 <= bytes) *(uint4*)(seat.from + byte) = piece[k][part];
        }
    }
    take_ends(stage, to, along, m, bytes, lane);
  }

 private:
  static __device__ __forceinline__ int phase(const char* first) { return (int)(u64)first & 15; }
  // A lane's piece: its line, the line's place in a stage and address. A lane that is left over has a line that does not exist.
  struct Seat {
    int line, place, piece;
    char* from;
    __device__ __forceinline__ Seat(const char* first, i64 along, int lane) {
      const int own = lane / PIECES;
      const bool left = PARTS == 1 && own >= LINES;
      line = left ? STEPS : own;
      place = phase(first) + (left ? 0 : own) * PITCH;
      piece = PARTS > 1 ? lane * 16 : lane % PIECES * 16;
      from = (char*)first + (left ? 0 : own) * along;
    }
    __device__ __forceinline__ void step(i64 along) { line += LINES; place += LINES * PITCH; from += LINES * along; }
    // Where the piece begins, from the first byte of its line on.
    __device__ __forceinline__ int byte(int part) const { return piece + part * 512 - (place & 15); }
  };
  // The items of pieces that a line has in part, of the first one and of the last.
  static __device__ __forceinline__ void take_ends(const char* stage, char* to, i64 along, int m, int bytes, int lane) {
    constexpr int AT_ONCE = 32 / PER, MOST = max_of(1, STEPS / AT_ONCE < 4 ? STEPS / AT_ONCE : 4);
    const int unit = lane % PER * SIZE;
    int line = lane / PER, place = phase(to) + line * PITCH;
    char* from = to + line * along;
#pragma unroll 1
    for (int i = 0; i < STEPS; i += MOST * AT_ONCE) {
      T first[MOST], last[MOST];
#pragma unroll
      for (int k = 0; k < MOST; k++) {
        const int low = place + k * AT_ONCE * PITCH, shift = low & 15;
        first[k] = *(const T*)(stage + AT + low - shift + unit);
        last[k] = *(const T*)(stage + AT + low + ((bytes + shift) & ~15) - shift + unit);
      }
#pragma unroll
      for (int k = 0; k < MOST; k++, line += AT_ONCE, place += AT_ONCE * PITCH, from += AT_ONCE * along) {
        const int shift = place & 15, head = unit - shift, tail = ((bytes + shift) & ~15) + head;
        if (line >= m) continue;
        if ((shift > 0 || bytes < 16) && head >= 0 && head < bytes) *(T*)(from + head) = first[k];
        if (tail > head && tail < bytes) *(T*)(from + tail) = last[k];
      }
    }
  }
};

// All lines of a row of rows, which lie one behind another, as one stretch of memory, so that no two blocks share a sector. What
// lanes without a row read is the last row's, and is not written. BACK: the scan goes from the last line to the first.
template <class T, int AT, bool BACK> struct Stretch {
  static constexpr int SIZE = sizeof(T), PITCH = COLUMNS * SIZE, PIECES = STEPS * PITCH / 16;
  struct Asked {};
  static __device__ __forceinline__ bool any(const Asked&) { return true; }
  static __device__ __forceinline__ void ask(Asked&, const Lines&, i64, i64, int, int, int, int) {}

  template <int N> static __device__ __forceinline__ void read(const char* stage, int lane, int i, T (&x)[N][VECTOR]) {
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) x[k][v] = *(const T*)(stage + place(lane, v, i + k));
  }
  template <int N> static __device__ __forceinline__ void write(char* stage, int lane, int i, const T (&x)[N][VECTOR]) {
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++)
        if (lane + 32 * v < COLUMNS) *(T*)(stage + place(lane, v, i + k)) = x[k][v];
  }
  static __device__ __forceinline__ void bring(const Asked&, char* stage, const Lines& at, i64 along, i64 j, int m, int, int lane, int skip) {
    if (m == STEPS && !skip) {
      const char* from = at.base + (BACK ? j + STEPS - 1 : j) * along;
#pragma unroll 8
      for (int c = lane; c < PIECES; c += 32) copy_lines(stage + AT + c * 16, from + c * 16);
    } else each_item(at, along, j, m, skip, lane, [&](char* from, int place) { *(T*)(stage + place) = *(const T*)from; });
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int, int lane) {
    if (m == STEPS) {
      char* to = at.base + (BACK ? j + STEPS - 1 : j) * along;
#pragma unroll 8
      for (int c = lane; c < PIECES; c += 32) store_streaming(to + c * 16, *(const uint4*)(stage + AT + c * 16));
    } else each_item(at, along, j, m, 0, lane, [&](char* to, int place) { *(T*)to = *(const T*)(stage + place); });
  }

 private:
  static __device__ __forceinline__ int line(int i) { return AT + (BACK ? STEPS - 1 - i : i) * PITCH; }
  static __device__ __forceinline__ int place(int lane, int v, int i) { return line(i) + min(lane + 32 * v, COLUMNS - 1) * SIZE; }
  template <class F> static __device__ __forceinline__ void each_item(const Lines& at, i64 along, i64 j, int m, int skip, int lane, F&& f) {
    for (int i = skip; i < m; i++)
      for (int c = lane; c < COLUMNS; c += 32) f(at.base + (j + i) * along + c * SIZE, line(i) + c * SIZE);
  }
};
