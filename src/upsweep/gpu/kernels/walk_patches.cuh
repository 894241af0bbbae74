// The places of arrays in a stage of walk.cu's ring, and how items get there and back: a lane is a row.
#include "params.cuh"
#include "memory.cuh"

constexpr int WIDTH = 32 * VECTOR;

// N items that lie side by side, at an address that is a multiple of their size or of 16.
template <int N, class T> __device__ __forceinline__ void load_run(const char* from, T* to) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename bits_of<BYTES>::type piece;
#pragma unroll
  for (int b = 0; b < N * sizeof(T); b += BYTES) { piece x = *(const piece*)(from + b); memcpy((char*)to + b, &x, BYTES); }
}
template <int N, class T> __device__ __forceinline__ void store_run(char* to, const T* from) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename bits_of<BYTES>::type piece;
#pragma unroll
  for (int b = 0; b < N * sizeof(T); b += BYTES) { piece x; memcpy(&x, (const char*)from + b, BYTES); *(piece*)(to + b) = x; }
}

// 16 bytes of a line whose neighbours are soon wanted by this block or the next.
__device__ __forceinline__ void copy_lines(char* to, const char* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// A piece on its way to shared memory. A piece of less than 4 bytes goes through a register, in an order that the compiler
// chooses, so that many pieces are on their way at once.
template <int BYTES> __device__ __forceinline__ void copy_piece(char* to, const char* from) {
  if constexpr (BYTES == 16) copy_lines(to, from);
  else if constexpr (BYTES >= 4) copy_async<BYTES>(to, from);
  else {
    unsigned short x;
    if constexpr (BYTES == 2) asm("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(from));
    else asm("{ .reg .u16 x; ld.global.u8 x, [%1]; mov.u16 %0, x; }" : "=h"(x) : "l"(from));
    *(typename bits_of<BYTES>::type*)to = x;
  }
}

// The start of the rows of a block. ACROSS: the first of them; otherwise each lane knows its own row.
struct Lines {
  char* base;
  __device__ __forceinline__ char* of(int row) const { return ACROSS ? base : (char*)__shfl_sync(~0u, (u64)base, row); }
};

// The place of an array in a stage: STEPS items of WIDTH rows, from byte AT on.
//   ACROSS   item after item, neighbours are rows
//   else     row after row, 16 bytes further apart than they are long, so that 16-byte reads of all lanes meet each bank once
//   SAME     one row of items serves all
//   FLIP     16 bytes hold their items last first, as memory does where the scan goes backwards
// GRAIN bytes are copied at once; along rows, 16 bytes or an item.
template <class T, int AT, bool SAME, bool FLIP, int GRAIN> struct Patch {
  static constexpr int SIZE = sizeof(T), LINE = ACROSS ? WIDTH * SIZE : STEPS * SIZE + 16;
  static constexpr int UNIT = 16 / SIZE;  // items of 16 bytes

  // Items [i, i + N) of this lane's rows.
  template <int N> static __device__ __forceinline__ void read(const char* stage, int lane, int i, T (&x)[N][VECTOR]) {
    stage += AT;
    if constexpr (SAME) {
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x[k][v] = *(const T*)(stage + (i + k) * SIZE);
    } else if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < N; k++) load_run<VECTOR>(stage + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
      constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
      for (int k = 0; k < N; k += RUN) {
        T run[RUN];
        load_run<RUN>(stage + lane * LINE + place<RUN>(i + k), run);
#pragma unroll
        for (int r = 0; r < RUN; r++) x[k + r][0] = run[FLIP ? RUN - 1 - r : r];
      }
    }
  }
  template <int N> static __device__ __forceinline__ void write(char* stage, int lane, int i, const T (&x)[N][VECTOR]) {
    stage += AT;
    if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < N; k++) store_run<VECTOR>(stage + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
      constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
      for (int k = 0; k < N; k += RUN) {
        T run[RUN];
#pragma unroll
        for (int r = 0; r < RUN; r++) run[FLIP ? RUN - 1 - r : r] = x[k + r][0];
        store_run<RUN>(stage + lane * LINE + place<RUN>(i + k), run);
      }
    }
  }

  // Calls f(which, address in memory, place in the stage, bytes) for each piece of the items [j + skip, j + m), lane after
  // lane. WHOLE: all STEPS items of WIDTH rows. Lanes keep their place in a line and go from line to line.
  static constexpr int PER_LINE = ACROSS ? LINE / GRAIN : GRAIN == 16 ? STEPS / UNIT : STEPS;
  static constexpr int LINES = 32 / PER_LINE;                                // that a warp copies at once
  static constexpr int PIECES = (ACROSS ? STEPS : WIDTH) * PER_LINE, COUNT = (PIECES + 31) / 32;  // of a warp, of a lane
  template <bool WHOLE, class F>
  static __device__ __forceinline__ void each_piece(const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip, F&& f) {
    if constexpr (SAME) {
#pragma unroll
      for (int k = 0; k < (STEPS + 31) / 32; k++) {
        int i = k * 32 + lane;
        if (i < m && i >= skip) f(k, at.base + (j + i) * along, AT + i * SIZE, Int<SIZE>{});
      }
    } else if constexpr (ACROSS && LINES > 0) {
      int first = lane / PER_LINE, byte = lane % PER_LINE * GRAIN;
      int exist = byte < rows * SIZE ? m : 0;
      char* from = at.base + (j + first) * along + byte;
#pragma unroll
      for (int k = 0; k < COUNT; k++, from += LINES * along) {
        int i = k * LINES + first;
        if (WHOLE || (i < exist && i >= skip)) f(k, from, AT + i * LINE + byte, Int<GRAIN>{});
      }
    } else if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        int i = (k * 32 + lane) / PER_LINE, byte = (k * 32 + lane) % PER_LINE * GRAIN;
        if (WHOLE || (i < m && i >= skip && byte < rows * SIZE)) f(k, at.base + (j + i) * along + byte, AT + i * LINE + byte, Int<GRAIN>{});
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
    if constexpr (!ACROSS && !SAME && PER_LINE < STEPS) {
      const int whole = m / UNIT * UNIT;
      char* from = at.of(lane) + (j + whole) * along;
      if (lane < rows)
        for (int i = whole; i < m; i++, from += along) f(0, from, AT + lane * LINE + (FLIP ? 2 * whole + UNIT - 1 - i : i) * SIZE, Int<SIZE>{});
    }
  }
  static __device__ __forceinline__ void bring(char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip = 0) {
    auto copy = [&](int, const char* from, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) copy_piece<PIECE>(stage + place + b, from + b);
    };
    if (PIECES % 32 == 0 && m == STEPS && rows == WIDTH && !skip) each_piece<true>(at, along, j, m, rows, lane, 0, copy);
    else { each_piece<false>(at, along, j, m, rows, lane, skip, copy); each_end(at, along, j, m, rows, lane, copy); }
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane) {
    auto copy = [&](int, char* to, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
      typedef typename bits_of<PIECE>::type piece;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) *(piece*)(to + b) = *(const piece*)(stage + place + b);
    };
    if (PIECES % 32 == 0 && m == STEPS && rows == WIDTH) {
      if constexpr (GRAIN == 16 && COUNT <= 16) {  // all are read before the first is stored
        uint4 part[COUNT];
        each_piece<true>(at, along, j, m, rows, lane, 0, [&](int k, char*, int place, auto) { part[k] = *(const uint4*)(stage + place); });
        each_piece<true>(at, along, j, m, rows, lane, 0, [&](int k, char* to, int, auto) { store_streaming(to, part[k]); });
      } else {
        each_piece<true>(at, along, j, m, rows, lane, 0, copy);
      }
    } else {
      each_piece<false>(at, along, j, m, rows, lane, 0, copy);
      each_end(at, along, j, m, rows, lane, copy);
    }
  }

 private:
  template <int RUN> static __device__ __forceinline__ int place(int i) {
    return FLIP ? (i / UNIT + 1) * 16 - (i % UNIT + RUN) * SIZE : i * SIZE;
  }
};

template <int I> using In = Patch<typename Input<I>::Load, Input<I>::at, Input<I>::alone, Input<I>::flip, Input<I>::grain>;
template <int O> using Out = Patch<typename Output<O>::Store, Output<O>::at, false, Output<O>::flip, Output<O>::grain>;
typedef Patch<u8, HEADS_AT, HEADS_SAME, HEADS_FLIP, HEADS_GRAIN> Heads;
