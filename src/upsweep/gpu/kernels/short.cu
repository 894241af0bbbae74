// Scans of short rows that a lane holds in registers, VECTOR of them. Either the rows are neighbours in memory, as along an outer
// axis: then nothing is shared and nobody waits. Or they lie one behind another in some arrays (BEHIND): then a block copies its
// stretch of memory as it lies, in whole pieces of 16 bytes, by way of shared memory.
#include "params.cuh"
#include "short_rows.cuh"
#include "stretch.cuh"

// Rows that may lie apart (GAP), and come with what lies between them, which stays as it is where they go.
template <class T> struct Rows : Stretch<T> {
  int pitch, row;  // from row to row, and of a row
  using Stretch<T>::shared;
  using Stretch<T>::from;
  using Stretch<T>::bytes;
  using Stretch<T>::shift;

  // Stores words that are a row's as a whole, by neighbours, and of others the bytes that are a row's.
  // Halves go one by one: bf16 of 17 ran at .54 of a copy in words, so at .66, of 33 .59 and .66, of 100 .697 and .696 (H200).
  __device__ __forceinline__ void store_rows() const {
    constexpr int WORD = sizeof(T) == 2 ? 2 : 4;
    typedef typename bits_of<WORD>::type Word;
    const u32 inverse = 0xffffffffu / pitch + 1;  // divides all places of a stretch
#pragma unroll 4
    for (int at = WORD * threadIdx.x - shift(); at < bytes; at += WORD * THREADS) {
      const int place = at - (int)__umulhi(at, inverse) * pitch;
      if (at >= 0 && place + WORD <= row) *(Word*)(from + at) = *(const Word*)(shared + shift() + at);
      else if constexpr (sizeof(T) < WORD) {
#pragma unroll
        for (int b = at; b < at + WORD; b++)
          if (b >= 0 && b < bytes && b - (int)__umulhi(b, inverse) * pitch < row) *(T*)(from + b) = *(const T*)(shared + shift() + b);
      }
    }
  }
  // Of narrow items a word with bytes between rows takes several stores, and of long rows few sectors are such. Of a copy (H200), without
  // -> with: bf16 of 100 .62 -> .68, of 33 .59 -> .61, bytes of 33 .38 -> .42; but of 5 bf16 .31 -> .26, and f4 of 5 .55 -> .47, of 33 .65
  // -> .62, of 100 .79 -> .78.
  __device__ __forceinline__ void fetch_rows() const {
    if constexpr (LENGTH > 0 || sizeof(T) >= 4) return;
    const int at = threadIdx.x * pitch;
    if (at < bytes) { fetch_end(from + at, 0); fetch_end(from + at + row, 1); }
  }
};

struct Thread {
  const Params& p;
  u64 row;
  i64 column;
  char* shared;

  __device__ __forceinline__ int n() const { return LENGTH ? LENGTH : (int)p.n; }
  // Whether a row has item k. The first SURE items every row of this kernel has, and none more than MOST.
  __device__ __forceinline__ bool has(int k) const { return k < SURE || (k < MOST && k < n()); }
  __device__ __forceinline__ i64 existing(i64 column) const { return BEHIND ? min(column, p.columns - 1) : column; }
  // The stretch of an array, and the lane's part of it.
  template <class T, class M> __device__ __forceinline__ Rows<T> stretch(char* base, const Strides& s, i64 across) const {
    const int size = n() * (int)sizeof(T), pitch = M::apart ? (int)across : size;
    i64 first = column - threadIdx.x * VECTOR, rows = min(p.columns - first, (i64)(THREADS * VECTOR));
    char* from = base + row_offset(p, s, row) + first * pitch - (M::flip ? size - (int)sizeof(T) : 0);
    return {{shared + M::at * n() + (16 + GAP * THREADS * VECTOR) * M::place, from, ((int)rows - 1) * pitch + size}, pitch, size};
  }
  template <class T> __device__ __forceinline__ char* own(const Rows<T>& s) const {
    return s.shared + s.shift() + threadIdx.x * VECTOR * s.pitch;
  }
  template <int I> __device__ __forceinline__ auto in() const {
    return stretch<typename Input<I>::Load, Input<I>>(p.in[I], p.in_strides[I], p.in_column[I]);
  }
  template <int O> __device__ __forceinline__ auto out() const {
    return stretch<typename Output<O>::Store, Output<O>>(p.out[O], p.out_strides[O], p.out_column[O]);
  }
  // The place of item k where items lie backwards.
  template <class M> __device__ __forceinline__ int turned(int k) const { return M::flip ? n() - 1 - k : k; }

  template <int I> __device__ __forceinline__ void read(Given (&given)[VECTOR][ITEMS]) const {
    if constexpr (Input<I>::still) {
#pragma unroll
      for (int v = 0; v < VECTOR; v++) {
        auto value = still_item<I>(p, row, existing(column + v));
#pragma unroll
        for (int k = 0; k < ITEMS; k++) get<I>(given[v][k]) = value;
      }
    } else if constexpr (Input<I>::behind) {
      read_dense<I>(given);
    } else {
      read_lines<I>(given);
    }
  }
  template <int I> __device__ __forceinline__ void read_lines(Given (&given)[VECTOR][ITEMS]) const {
    typedef typename Input<I>::Load Load;
    typedef typename Input<I>::Value Value;
    constexpr bool SAME = Input<I>::same;
    constexpr int N = SAME ? 1 : VECTOR, GRAIN = Input<I>::grain;
    const Strides& s = p.in_strides[I];
    const char* from = p.in[I] + row_offset(p, s, row) + (SAME ? 0 : column * (i64)sizeof(Load));
    struct alignas(BEHIND ? sizeof(Load) : N * sizeof(Load)) Run { Load x[N]; } part[ITEMS];
    if (!BEHIND || column + VECTOR <= p.columns) {
#pragma unroll
      for (int k = 0; k < ITEMS; k++, from += s.along) if (has(k)) part[k] = load_item<Run, GRAIN>(from);
    } else {
#pragma unroll
      for (int k = 0; k < ITEMS; k++, from += s.along)
#pragma unroll
        for (int v = 0; v < N; v++) if (has(k)) part[k].x[v] = ((const Load*)from)[existing(column + v) - column];
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) get<I>(given[v][k]) = convert<Value>(part[k].x[v % N]);
  }
  // Of known length, a lane's rows are one piece of memory; of any other, it has one row, in pieces.
  template <int I> __device__ __forceinline__ void read_dense(Given (&given)[VECTOR][ITEMS]) const {
    typedef typename Input<I>::Load Load;
    typedef typename Input<I>::Value Value;
    constexpr int GRAIN = Input<I>::grain, PER = max_of(GRAIN / (int)sizeof(Load), 1);
    const auto stretch = in<I>();
    const char* from = own(stretch);
    if constexpr (LENGTH > 0) {
      constexpr int ROWS = Input<I>::apart ? 1 : VECTOR;
      struct alignas(sizeof(Load)) Run { Load x[ROWS * max_of(LENGTH, 1)]; };
#pragma unroll
      for (int v = 0; v < VECTOR; v += ROWS) {
        const Run run = load_item<Run, GRAIN>(from + v * stretch.pitch);
#pragma unroll
        for (int k = 0; k < ROWS * LENGTH; k++)
          get<I>(given[v + k / LENGTH][k % LENGTH]) = convert<Value>(run.x[k / LENGTH * LENGTH + turned<Input<I>>(k % LENGTH)]);
      }
    } else {
      struct alignas(sizeof(Load)) Piece { Load x[PER]; };
#pragma unroll
      for (int k = 0; k < ITEMS; k += PER) if (has(k)) {
        const Piece piece = load_item<Piece, GRAIN>(from + (Input<I>::flip ? n() - PER - k : k) * (int)sizeof(Load));
#pragma unroll
        for (int i = 0; i < PER; i++) get<I>(given[0][k + i]) = convert<Value>(piece.x[Input<I>::flip ? PER - 1 - i : i]);
      }
    }
  }

  template <int O> __device__ __forceinline__ void write(const Result (&y)[VECTOR][ITEMS]) const {
    typedef typename Output<O>::Store Store;
    if constexpr (Output<O>::behind) {
      write_dense<O>(y);
    } else {
    constexpr int GRAIN = Output<O>::grain;
    const Strides& s = p.out_strides[O];
    char* to = p.out[O] + row_offset(p, s, row) + column * (i64)sizeof(Store);
#pragma unroll
    for (int k = REDUCE ? SURE : 0; k < (REDUCE ? MOST : ITEMS); k++) {
      struct alignas(sizeof(Store)) Run { Store x[VECTOR]; } part;
#pragma unroll
      for (int v = 0; v < VECTOR; v++) part.x[v] = convert<Store>(get<O>(y[v][k]));
      if (REDUCE ? k == n() - 1 : has(k)) {
        if (!BEHIND || column + VECTOR <= p.columns) store_item<Run, GRAIN>(to, part);
        else
#pragma unroll
          for (int v = 0; v < VECTOR; v++) if (column + v < p.columns) *((Store*)to + v) = part.x[v];
      }
      if (!REDUCE) to += s.along;
    }
    }
  }
  template <int O> __device__ __forceinline__ void write_dense(const Result (&y)[VECTOR][ITEMS]) const {
    typedef typename Output<O>::Store Store;
    constexpr int GRAIN = Output<O>::grain, PER = max_of(GRAIN / (int)sizeof(Store), 1);
    const auto stretch = out<O>();
    char* to = own(stretch);
    if constexpr (LENGTH > 0) {
      constexpr int ROWS = Output<O>::apart ? 1 : VECTOR;
      struct alignas(sizeof(Store)) Run { Store x[ROWS * max_of(LENGTH, 1)]; } run;
#pragma unroll
      for (int v = 0; v < VECTOR; v += ROWS) {
#pragma unroll
        for (int k = 0; k < ROWS * LENGTH; k++)
          run.x[k / LENGTH * LENGTH + turned<Output<O>>(k % LENGTH)] = convert<Store>(get<O>(y[v + k / LENGTH][k % LENGTH]));
        store_item<Run, GRAIN>(to + v * stretch.pitch, run);
      }
    } else {
      struct alignas(sizeof(Store)) Piece { Store x[PER]; } piece;
#pragma unroll
      for (int k = 0; k < ITEMS; k += PER) if (has(k)) {
#pragma unroll
        for (int i = 0; i < PER; i++) piece.x[Output<O>::flip ? PER - 1 - i : i] = convert<Store>(get<O>(y[0][k + i]));
        store_item<Piece, GRAIN>(to + (Output<O>::flip ? n() - PER - k : k) * (int)sizeof(Store), piece);
      }
    }
  }

  // The first item starts a segment in any case.
  __device__ __forceinline__ Heads heads(int v, Heads listed) const {
    if constexpr (LISTED) return listed;
    const char* from = p.heads + row_offset(p, p.heads_strides, row) + existing(column + v) * p.heads_column;
    Heads bits = 0;
#pragma unroll
    for (int k = 1; k < ITEMS; k++) if (has(k)) bits |= (Heads)(from[k * p.heads_strides.along] != 0) << k;
    return bits;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_short(const __grid_constant__ Params p) {
  await_marks();
  extern __shared__ __align__(128) char memory[];
  const Heads listed = LISTED ? listed_heads(p) : 0;
  constexpr int TOGETHER = BEHIND ? THREADS : 1;  // lanes that stay together
  i64 unit = ((i64)blockIdx.x * THREADS + threadIdx.x) / TOGETHER;
  u64 row = p.rows == 1 ? 0 : unit / p.column_groups;
  if ((i64)row >= p.rows || unit - (i64)row * p.column_groups >= p.column_groups) return;
  i64 column = ((unit - (i64)row * p.column_groups) * TOGETHER + threadIdx.x % TOGETHER) * VECTOR;
  Thread own{p, row, column, memory};
  if constexpr (BEHIND) {
    each<INPUTS>([&](auto i) { if constexpr (Input<i.value>::behind) own.in<i.value>().load(); });
    commit_copies();
    each<OUTPUTS>([&](auto o) { if constexpr (Output<o.value>::apart) own.out<o.value>().fetch_rows(); });
    wait_copies<0>();
    __syncthreads();  // every thread's copies have landed
  }
  Given given[VECTOR][ITEMS];
  Result y[VECTOR][ITEMS];
  each<INPUTS>([&](auto i) { own.read<i.value>(given); });
  if constexpr (BEHIND && !REDUCE) __syncthreads();  // all threads have read what lies where results go
#pragma unroll
  for (int v = 0; v < VECTOR; v++) {
    Item x[ITEMS], start = {};
    if (INITIAL || EXCLUSIVE) start = start_of(p, row, own.existing(column + v));
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = Map()(given[v][k], index_of(p, k));
    scan_row(x, SEGMENTED ? own.heads(v, listed) : Heads{}, start);
#pragma unroll
    for (int k = 0; k < ITEMS; k++) y[v][k] = Finish()(x[k], given[v][k], index_of(p, k));
  }
  each<OUTPUTS>([&](auto o) { own.write<o.value>(y); });
  if constexpr (BEHIND && !REDUCE) {
    __syncthreads();  // all threads have written theirs
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::apart) own.out<o.value>().store_rows();
      else if constexpr (Output<o.value>::behind) own.out<o.value>().store();
    });
  }
}
