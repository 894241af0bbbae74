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
