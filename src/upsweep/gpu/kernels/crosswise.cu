// Scans along an axis between two others, where neighbours in the inputs lie along one of these and neighbours in the results along
// the other. A block walks CROSS lines of SIDE columns down the axis, tile by tile, and waits for no other block: what stands before
// a tile comes of a counter of block sums, whose blocks are those of Brent and Kung's tree (1982). Lines come through a ring of
// stages in shared memory. A lane has VECTOR columns of HIGH lines, 16 bytes of an item. So its results are whole words across the
// lines, and lanes side by side write what lies side by side.
#include "params.cuh"
#include "thread.cuh"

// Lanes side by side across the lines, and such rows of lanes in a warp. The next eight lanes belong to the next of these rows, so
// that lanes that read at once meet each bank once.
constexpr int ABREAST = CROSS / HIGH, GROUPS = max_of(1, 32 / ABREAST), COUNT = VECTOR * HIGH;
struct Seat {
  int line, column;
  __device__ __forceinline__ Seat(int t)
    : line((t % 8 + t / (8 * GROUPS) % (ABREAST / 8) * 8) * HIGH), column((t / 8 % GROUPS + t / (ABREAST * GROUPS) * GROUPS) * VECTOR) {}
};

// The columns of a word of bytes are four, and so those of a lane's results.
constexpr int SPLIT = Output<0>::split, WRITTEN = VECTOR * SPLIT;

// The next address. The compiler would multiply anew for each.
template <class P> __device__ __forceinline__ P* stepped(P* at, i64 stride) {
  at += stride;
  asm("" : "+l"(at));
  return at;
}

// Stores to global memory: the compiler does not see that a stepped address lies there.
template <class T> __device__ __forceinline__ void store_global(char* to, const T& x) {
  if constexpr (sizeof(T) == 16) asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w));
  else if constexpr (sizeof(T) == 8) asm volatile("st.global.b64 [%0], %1;" ::"l"(to), "l"(x));
  else if constexpr (sizeof(T) == 4) asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(x));
  else if constexpr (sizeof(T) == 2) asm volatile("st.global.b16 [%0], %1;" ::"l"(to), "h"(x));
  else asm volatile("st.global.b8 [%0], %1;" ::"l"(to), "r"((u32)x));
}

// The rectangle of one item of an input. Lines of one lane lie apart, and pieces of 16 bytes change places, so that lanes side by
// side meet each bank once.
template <class T> struct Square {
  static constexpr int SIZE = sizeof(T), LINE = SIDE * SIZE, PIECES = LINE / 16, TURNS = PIECES < 8 ? PIECES : 8, BYTES = CROSS * LINE;
  static_assert(BYTES == 16 * THREADS && VECTOR * HIGH * SIZE == 16 && ABREAST % 8 == 0, "crosswise.py counts otherwise");
  static __device__ __forceinline__ int place(int line, int byte) {
    return (line % HIGH * ABREAST + line / HIGH) * LINE + (byte ^ (line / HIGH * TURNS / 8 % TURNS) << 4);
  }
  // The line and the byte of the piece of each item that a lane brings.
  static __device__ __forceinline__ int line() { return threadIdx.x / PIECES; }
  static __device__ __forceinline__ int byte() { return threadIdx.x % PIECES * 16; }
  // Copies so many items; `from` moves on.
  static __device__ __forceinline__ void load(char* to, const char*& from, i64 along, int items) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++, from = stepped(from, along))
      if (i < items) copy_async<16, true>(to + i * BYTES + place(line(), byte()), from);
  }
};
template <int I> using SquareOf = Square<typename Input<I>::Load>;

// The items of a lane as they lie in a stage, in words: of input I and those after it.
template <int I> struct Read : Read<I + 1> {
  typedef typename Input<I>::Load Load;
  static constexpr int BYTES = VECTOR * sizeof(Load);
  typename bits_of<BYTES < 16 ? BYTES : 16>::type x[ITEMS][HIGH];
  __device__ __forceinline__ Load at(int i, int h, int v) const { Load item; memcpy(&item, (const char*)&x[i][h] + v * sizeof(Load), sizeof item); return item; }
};
template <> struct Read<INPUTS> {};

struct Walker {
  const Params& p;
  char* memory;
  Seat seat;
  int columns, lines;  // that exist, from the block's first on
  const char* in[INPUTS];
  char* out[OUTPUTS][WRITTEN];
  Item before[COUNT];  // the prefixes of a tile

  __device__ __forceinline__ Walker(const Params& p, char* memory, u32 row, i64 column) : p(p), memory(memory), seat(threadIdx.x) {
    columns = (int)min(p.columns - column, (i64)SIDE);
    lines = (int)min(p.crosswise - (i64)(row % (u32)p.dim[DIMS - 1]) * CROSS, (i64)CROSS);
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      const Strides& st = p.in_strides[I];
      if constexpr (!Input<I>::still)
        in[I] = p.in[I] + row_offset(p, st, row) + column * p.in_column[I] + SquareOf<I>::line() * line_stride<CROSS>(st) + SquareOf<I>::byte();
    });
    each<OUTPUTS>([&](auto o) {
      const Strides& st = p.out_strides[o.value];
      const i64 apart = p.out_column[o.value] * VECTOR / WRITTEN;
#pragma unroll
      for (int v = 0; v < WRITTEN; v++)
        out[o.value][v] = p.out[o.value] + row_offset(p, st, row) + (column + seat.column) * p.out_column[o.value] + v * apart + seat.line * line_stride<CROSS>(st);
    });
    if constexpr (INITIAL || EXCLUSIVE)
#pragma unroll
      for (int k = 0; k < COUNT; k++)
        before[k] = start_of<CROSS>(p, row, column + min(seat.column + k / HIGH, columns - 1), min(seat.line + k % HIGH, lines - 1));
  }

  // A level of the counter: the sum of a block, and what stands before it.
  __device__ __forceinline__ Item& kept(int level, int part, int k) const {
    return ((Item*)(memory + STAGES * STAGE_BYTES))[((level * 2 + part) * COUNT + k) * THREADS + threadIdx.x];
  }

  __device__ __forceinline__ void load(u32 t) {
    char* stage = memory + t % STAGES * STAGE_BYTES;
    const int items = (int)max(0ll, min(p.n - (i64)t * ITEMS, (i64)ITEMS));
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      typedef SquareOf<I> Square;
      if constexpr (!Input<I>::still)
        Square::load(stage + Input<I>::at, in[I], p.in_strides[I].along, Square::line() < lines && Square::byte() < columns * Square::SIZE ? items : 0);
    });
    commit_copies();
  }
  __device__ __forceinline__ void read(u32 t, Read<0>& items) const {
    const char* stage = memory + t % STAGES * STAGE_BYTES;
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      typedef SquareOf<I> Square;
      if constexpr (!Input<I>::still)
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
#pragma unroll
          for (int h = 0; h < HIGH; h++) {
            auto& x = static_cast<Read<I>&>(items).x[i][h];
            memcpy(&x, __builtin_assume_aligned(stage + Input<I>::at + i * Square::BYTES + Square::place(seat.line + h, seat.column * Square::SIZE), sizeof x), sizeof x);
          }
    });
  }
  __device__ __forceinline__ Given given(const Read<0>& items, int i, int k) const {
    Given x;
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      if constexpr (Input<I>::still) get<I>(x) = still_item<I>(p, 0);
      else get<I>(x) = convert<typename Input<I>::Value>(static_cast<const Read<I>&>(items).at(i, k % HIGH, k / HIGH));
    });
    return x;
  }

  // The items of all columns.
  __device__ __forceinline__ void map(u32 t, const Read<0>& items, Item (&x)[COUNT][ITEMS]) const {
    Indices index(p, (i64)t * ITEMS);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
#pragma unroll
      for (int i = 0; i < ITEMS; i++) x[k][i] = Map()(given(items, i, k), index[i]);
  }
  // From the prefixes of tile t to those behind it. It completes as many blocks as t ends with ones.
  __device__ __forceinline__ void count(u32 t, const Item (&x)[COUNT][ITEMS], Item (&next)[COUNT]) const {
    Item sum[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) { sum[k] = x[k][ITEMS - 1]; next[k] = before[k]; }
    int level = 0;
#pragma unroll 1
    for (; t >> level & 1; level++)
#pragma unroll
      for (int k = 0; k < COUNT; k++) { sum[k] = op(kept(level, 0, k), sum[k]); next[k] = kept(level, 1, k); }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      kept(level, 0, k) = sum[k];
      kept(level, 1, k) = next[k];
      Prefix above = {next[k], INITIAL || (t & (t + 1)) != 0};
      fold_where(true, above, element(sum[k], false), next[k]);
      next[k] = above.value;
    }
  }

  // The results of one item in column v, or in the four columns of a word of bytes.
  template <int O> __device__ __forceinline__ void store(int v, const Result (&y)[HIGH], bool exists) {
    typedef typename Output<O>::Store Store;
    constexpr int GRAIN = Output<O>::grain, SIZE = sizeof(Store) / SPLIT, PIECES = HIGH * SIZE / GRAIN;
    typedef typename bits_of<GRAIN>::type Piece;
    union { Store x[HIGH]; u32 words[HIGH]; Piece piece[SPLIT][PIECES]; } line;
#pragma unroll
    for (int h = 0; h < HIGH; h++) line.x[h] = convert<Store>(get<O>(y[h]));
    if constexpr (SPLIT == 4) turn_bytes(line.words);  // the results are words of bytes, each of which belongs to a column
#pragma unroll
    for (int b = 0; b < SPLIT; b++) {
      char*& to = out[O][v * SPLIT + b];
#pragma unroll
      for (int g = 0; g < PIECES; g++)
        if (exists && (g == 0 || seat.line + g * GRAIN / SIZE < lines)) store_global(to + g * GRAIN, line.piece[b][g]);
      to = stepped(to, p.out_strides[O].along);
    }
  }
  __device__ __forceinline__ void finish(u32 t, const Read<0>& items, const Item (&x)[COUNT][ITEMS]) {
    const i64 j = (i64)t * ITEMS;
    int exist[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; v++) exist[v] = seat.line < lines && seat.column + v < columns ? (int)min(p.n - j, (i64)ITEMS) : 0;
    Indices index(p, j);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) {
        Result y[HIGH];
#pragma unroll
        for (int h = 0; h < HIGH; h++) y[h] = Finish()(x[v * HIGH + h][i], READS_AGAIN ? given(items, i, v * HIGH + h) : Given{}, index[i]);
        each<OUTPUTS>([&](auto o) { store<o.value>(v, y, i < exist[v]); });
      }
  }

  // Of a reduction, the prefixes of the last item.
  __device__ __forceinline__ void finish_last(int last, const Item (&x)[COUNT][ITEMS]) const {
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
      if (i == last)
#pragma unroll
        for (int v = 0; v < VECTOR; v++)
          if (seat.line < lines && seat.column + v < columns)
            each<OUTPUTS>([&](auto o) {
              typedef typename Output<o.value>::Store Store;
              typedef typename bits_of<sizeof(Store) / SPLIT>::type Part;
              Store y = convert<Store>(get<o.value>(Finish()(x[v][i], {}, 0)));
              Part parts[SPLIT];
              memcpy(parts, &y, sizeof y);
#pragma unroll
              for (int b = 0; b < SPLIT; b++) store_item<Part, REDUCE ? Output<o.value>::grain : 1>(out[o.value][v * SPLIT + b], parts[b]);
            });
  }

  // From the items of a tile to its prefixes.
  template <bool FIRST> __device__ __forceinline__ void scan(u32 t, Item (&x)[COUNT][ITEMS]) {
    constexpr bool SOME = INITIAL || !FIRST;
    if constexpr (SEQUENTIAL) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        Prefix state = {before[k], SOME};
        results_in_order(x[k], 0, state, before[k]);
        before[k] = state.value;
      }
      return;
    }
    u32 none = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) up_sweep(x[k], none);
    Item next[COUNT];
    count(t, x, next);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (!REDUCE || t + 1 == p.tiles) results(x[k], 0, 0, Prefix{before[k], SOME}, next[k], before[k]);
      before[k] = next[k];
    }
  }

  template <bool FIRST> __device__ __forceinline__ void walk(u32 t) {
    wait_copies<STAGES - 2>();
    __syncthreads();  // tile t has landed, and all lanes have read the one before it, whose stage is free
    Read<0> items;
    read(t, items);
    load(t + STAGES - 1);
    Item x[COUNT][ITEMS];
    map(t, items, x);
    scan<FIRST>(t, x);
    if constexpr (!REDUCE) finish(t, items, x);
    else if (t + 1 == p.tiles) finish_last((int)(p.n - 1 - (i64)t * ITEMS), x);
  }
  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (u32 t = 0; t < STAGES - 1; t++) load(t);
    walk<true>(0);
#pragma unroll 1
    for (u32 t = 1; t < p.tiles; t++) walk<false>(t);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_crosswise(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  u32 groups = (u32)p.column_groups, row = blockIdx.x / groups;
  Walker(p, memory, row, (i64)(blockIdx.x - row * groups) * SIDE).run();
}
