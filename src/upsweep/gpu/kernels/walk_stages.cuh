// The places of arrays in a stage of walk.cu's ring, and how a lane reads and writes its rows there.
#include "params.cuh"
#include "memory.cuh"

// Lanes of a warp that walk: a lane's rows lie so far apart. Where several lanes bring a row, the others of a warp that walks have
// nothing to do. (If they did what these do, they would read items in whose place these have written results.)
constexpr int ABREAST = 32 / ROW_LANES, WIDTH = ABREAST * VECTOR * WALKERS;

// A lane that serves moves PIECE neighbouring columns at once, so that ROW_LANES * PIECE lanes have the steps of a row, each a share.
// GROUPS such lanes lie side by side. In a stage the first columns of all pieces are neighbours, then the second ones, so that
// lanes side by side meet each bank once.
constexpr int GROUPS = ABREAST / PIECE, SHARE = STEPS / (ROW_LANES * PIECE);
__device__ __forceinline__ int column_of(int row) { return row / ABREAST * ABREAST + row % GROUPS * PIECE + row % ABREAST / GROUPS; }
// Of a lane that serves: the row of its column v in a stage, and the first step of its share.
__device__ __forceinline__ int row_of(int lane, int v) { return v / PIECE * ABREAST + v % PIECE * GROUPS + lane % GROUPS; }
__device__ __forceinline__ int share_of(int lane) { return lane / GROUPS * SHARE; }

// The last output may be sums of results: over the steps of a stage; or over a share of them, where serving warps finish.
constexpr bool SUMS = Output<OUTPUTS - 1>::run > 1;
constexpr int RESULTS = OUTPUTS - SUMS;
static_assert(!SUMS || Output<OUTPUTS - 1>::run == (MAPPED ? SHARE : STEPS), "walk.py counts otherwise");
template <bool HERE, int O = OUTPUTS - 1> struct Sum {
  typedef typename Output<O>::Store Store;
  Store sum = {};
  template <class R> __device__ __forceinline__ void add(const R& y) { sum = sum + convert<Store>(get<O>(y)); }
  __device__ __forceinline__ void write(const Params& p, char* base, i64 number, int column, bool exists) {
    char* to = base + number * p.out_strides[O].along + column * (int)sizeof(Store);
    if (exists) store_item<Store, sizeof(Store)>(to, sum);
    sum = {};
  }
};
template <int O> struct Sum<false, O> {
  template <class R> __device__ __forceinline__ void add(const R&) {}
  __device__ __forceinline__ void write(const Params&, char*, i64, int, bool) {}
};

// Pieces of 8 bytes as two words: the compiler packs halves into a word by one instruction, into a number of 64 bits by shifts.
template <int BYTES> struct words_of : bits_of<BYTES> {};
template <> struct words_of<8> { typedef uint2 type; };

// An item as the number that is computed with. The upper half of a word takes one instruction so, and two as a conversion.
template <class To, class From> __device__ __forceinline__ To widened(From x, bool upper) {
  if (!same<From, bf16> || !upper) return convert<To>(x);
  if constexpr (same<From, bf16>) { f32 r; asm("{ .reg .b16 zero; mov.b16 zero, 0; mov.b32 %0, {zero, %1}; }" : "=f"(r) : "h"(x.bits)); return convert<To>(r); }
}

// N items that lie side by side, at an address that is a multiple of their size or of 16.
template <int N, class T> __device__ __forceinline__ void load_run(const char* from, T* to) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename words_of<BYTES>::type piece;
#pragma unroll
  for (int b = 0; b < N * sizeof(T); b += BYTES) { piece x = *(const piece*)(from + b); memcpy((char*)to + b, &x, BYTES); }
}
template <int N, class T> __device__ __forceinline__ void store_run(char* to, const T* from) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename words_of<BYTES>::type piece;
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
//   LINED    item after item, neighbours are rows
//   else     row after row, 16 bytes further apart than they are long, so that 16-byte accesses of all lanes meet each bank once;
//            a lane's rows lie 32 apart
//   FLIP     16 bytes hold their items last first, as memory does where the scan goes backwards
constexpr bool LINED = ACROSS && !TURNED && !COLUMNS && !ANYWHERE;
template <class T, int AT, bool FLIP> struct InStage {
  static constexpr int SIZE = sizeof(T), LINE = LINED ? WIDTH * SIZE : STEPS * SIZE + 16;
  static constexpr int UNIT = max_of(1, 16 / SIZE);  // items of 16 bytes
  static constexpr bool LIES = AT >= 0;  // in a stage at all

  // Items [i, i + N) of this lane's rows.
  template <int N> static __device__ __forceinline__ void read(const char* stage, int lane, int i, T (&x)[N][VECTOR]) {
    if constexpr (LINED) {
#pragma unroll
      for (int k = 0; k < N; k++) load_run<VECTOR>(stage + AT + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
#pragma unroll
      for (int v = 0; v < VECTOR; v++)
        read_row<N>(stage, v * ABREAST + lane, i, [&](int k, const T& item) { x[k][v] = item; });
    }
  }
  template <int N> static __device__ __forceinline__ void write(char* stage, int lane, int i, const T (&x)[N][VECTOR]) {
    if constexpr (LINED) {
#pragma unroll
      for (int k = 0; k < N; k++) store_run<VECTOR>(stage + AT + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
#pragma unroll
      for (int v = 0; v < VECTOR; v++)
        write_row<N>(stage, v * ABREAST + lane, i, [&](int k) { return x[k][v]; });
    }
  }

  // The items of a row: f(k, item k), or item k by f(k).
  template <int N, class F> static __device__ __forceinline__ void read_row(const char* stage, int row, int i, F&& f) {
    constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
    for (int k = 0; k < N; k += RUN) {
      T run[RUN];
      load_run<RUN>(stage + place<RUN>(row, i + k), run);
#pragma unroll
      for (int r = 0; r < RUN; r++) f(k + r, run[FLIP ? RUN - 1 - r : r]);
    }
  }
  template <int N, class F> static __device__ __forceinline__ void write_row(char* stage, int row, int i, F&& f) {
    constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
    for (int k = 0; k < N; k += RUN) {
      T run[RUN];
#pragma unroll
      for (int r = 0; r < RUN; r++) run[FLIP ? RUN - 1 - r : r] = f(k + r);
      store_run<RUN>(stage + place<RUN>(row, i + k), run);
    }
  }

 private:
  template <int RUN> static __device__ __forceinline__ int place(int row, int i) {
    return AT + row * LINE + (FLIP ? (i / UNIT + 1) * 16 - (i % UNIT + RUN) * SIZE : i * SIZE);
  }
};

// One line of items that serves all rows: a lane asks for its items a turn before they are wanted.
template <class T, int AT, int GRAIN> struct Alone {
  static constexpr int SIZE = sizeof(T), COUNT = (STEPS + 31) / 32;
  static constexpr bool LIES = true;
  struct Asked { T x[COUNT]; };
  static __device__ __forceinline__ void ask(Asked& asked, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip) {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      int i = k * 32 + lane;
      asked.x[k] = T{};
      if (i < m && i >= skip) asked.x[k] = load_item<T, GRAIN>(at.base + (j + i) * along);
    }
  }
  static __device__ __forceinline__ bool any(const Asked& asked) {
    u32 all = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) all |= asked.x[k];
    return all != 0;
  }
  static __device__ __forceinline__ void bring(const Asked& asked, char* stage, const Lines&, i64, i64, int m, int, int lane, int) {
#pragma unroll
    for (int k = 0; k < COUNT; k++)
      if (k * 32 + lane < m) *(T*)(stage + AT + (k * 32 + lane) * SIZE) = asked.x[k];
  }
  template <int N> static __device__ __forceinline__ void read(const char* stage, int, int i, T (&x)[N][VECTOR]) {
    T run[N];
    load_run<N>(stage + AT + i * SIZE, run);
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) x[k][v] = run[k];
  }
};
