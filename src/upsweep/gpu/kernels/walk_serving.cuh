// The warps that bring items to a walking warp and take results away. Where they map and finish besides (MAPPED), a stage holds the
// components of items, and their prefixes in their place: the walking warp only combines.
#pragma once
#include "params.cuh"
#include "walk_patches.cuh"
#include "ring.cuh"

// The rows of a block. ACROSS: columns [column, column + count) of a row of rows; otherwise rows [row, row + count).
struct Rows { u64 row; i64 column; int count; };
__device__ __forceinline__ Rows rows_of(const Params& p, i64 block) {
  if (!ACROSS) return {(u64)block * WIDTH, 0, (int)min(p.rows - block * WIDTH, (i64)WIDTH)};
  i64 column = block % p.column_groups * WIDTH;
  return {(u64)(block / p.column_groups), column, (int)min(p.columns - column, (i64)WIDTH)};
}
__device__ __forceinline__ Lines lines_of(const Params& p, char* array, const Strides& s, const Rows& rows, i64 column_stride, int lane) {
  u64 row = ACROSS ? rows.row : rows.row + min(lane, rows.count - 1);
  return {array + row_offset(p, s, row) + rows.column * column_stride};
}


// What stands before a row, and the item of an input that serves all of it.
__device__ __forceinline__ Item start_at(const Params& p, const Rows& rows, int at) {
  return ACROSS ? start_of(p, rows.row, rows.column + at) : start_of(p, rows.row + at, 0);
}
template <int I> __device__ __forceinline__ auto still_at(const Params& p, const Rows& rows, int at) {
  return ACROSS ? still_item<I>(p, rows.row, rows.column + at) : still_item<I>(p, rows.row + at);
}

// What a lane of a serving warp has asked for: of each input, then of the heads.
template <int I> struct Asked : Asked<I + 1> { typename In<I>::Asked items; };
template <> struct Asked<INPUTS> { Heads::Asked heads; };

// An item as it was read, of each input.
template <int I> struct Read : Read<I + 1> { typename Input<I>::Load x; };
template <> struct Read<INPUTS> {};

// The warps that bring items and take results away: warp w every chunk whose number leaves w by SERVERS, which divides STAGES.
struct Server {
  const Params& p;
  const Rows& rows;
  Ring& ring;
  char* memory;
  int warp, lane;
  Lines in[INPUTS], out[OUTPUTS], heads;
  Item start[VECTOR * PIECE];
  Given still[VECTOR * PIECE];

  // f(asked, patch, lines, stride, items that exist, items to leave out) for each array that is read in the chunk from item j on.
  template <class F> __device__ __forceinline__ void each_source(Asked<0>& asked, i64 j, F&& f) const {
    int m = (int)min(p.n - j, (i64)STEPS);
    each<INPUTS>([&](auto i) {
      constexpr int I = i.value;
      if constexpr (!Input<I>::still) f(static_cast<Asked<I>&>(asked).items, In<I>{}, in[I], p.in_strides[I].along, I == AHEAD && j + m == p.n ? m - 1 : m, 0);
    });
    // The head of the first item may lie outside. That item starts a segment in any case.
    constexpr bool LINES = ACROSS || HEADS_GRAIN == 1;
    if constexpr (SEGMENTED) f(asked.heads, Heads{}, heads, p.heads_strides.along, m, LINES && j < p.heads_first);
  }
  __device__ __forceinline__ void ask(Asked<0>& asked, i64 j) const {
    if (j < p.n)
      each_source(asked, j, [&](auto& items, auto patch, const Lines& at, i64 along, int m, int skip) { patch.ask(items, at, along, j, m, rows.count, lane, skip); });
  }

  // A lane's share of the steps of its columns, mapped and finished.
  static constexpr int AT_ONCE = SHARE < 4 ? SHARE : 4;
  __device__ __forceinline__ int column(int v) const { return column_of(row_of(lane, v)); }

  // Item i of a stage that begins with item j: read(input, x) gives what was read of an input.
  template <class F> __device__ __forceinline__ Given given(const char* stage, int v, i64 j, int i, F&& read) const {
    Given x;
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      typedef typename Input<I>::Load Load;
      if constexpr (Input<I>::still) get<I>(x) = get<I>(still[v]);
      else if constexpr (Input<I>::alone) get<I>(x) = convert<typename Input<I>::Value>(*(const Load*)(stage + Input<I>::at + i * (int)sizeof(Load)));
      else get<I>(x) = convert<typename Input<I>::Value>(read(n));
      if constexpr (I == AHEAD) if (j + i == p.n - 1) get<I>(x) = get<I>(start[v]);  // nothing lies behind it
    });
    return x;
  }
  template <bool WHOLE> __device__ __forceinline__ void map(const Asked<0>& asked, char* stage, i64 j) const {
    const int first = share_of(lane);
#pragma unroll
    for (int v = 0; v < VECTOR * PIECE; v++)
#pragma unroll
      for (int part = 0; part < SHARE; part += AT_ONCE) {
        Item x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
          const int i = first + part + k;
          if (column(v) < rows.count && (WHOLE || j + i < p.n))
            x[k] = Map()(given(stage, v, j, i, [&](auto n) { return static_cast<const Asked<n.value>&>(asked).items.item(v, part + k); }), index_of(p, j + i));
        }
        each<COMPONENTS>([&](auto c) {
          constexpr int C = c.value;
          Part<C>::template write_row<AT_ONCE>(stage, row_of(lane, v), first + part, [&](int k) { return get<C>(x[k]); });
        });
      }
  }
  template <bool WHOLE> __device__ __forceinline__ void finish(const char* stage, i64 j) const {
    constexpr int N = AT_ONCE;
#pragma unroll
    for (int v = 0; v < VECTOR * PIECE; v += PIECE) {
      if (column(v) >= rows.count) break;
      int i = share_of(lane);
      Sum<SUMS> sum[PIECE];
      char* to[OUTPUTS];
      each<OUTPUTS>([&](auto o) { to[o.value] = out[o.value].base + column(v) * (int)sizeof(typename Output<o.value>::Store) + (j + i) * p.out_strides[o.value].along; });
#pragma unroll
      for (int part = 0; part < SHARE; part += N, i += N) {
        Result y[N][PIECE];
#pragma unroll
        for (int q = 0; q < PIECE; q++) finish<WHOLE>(stage, j, v + q, q, i, y);
#pragma unroll
        for (int k = 0; k < N; k++) {
          if (!WHOLE && j + i + k >= p.n) break;
#pragma unroll
          for (int q = 0; q < PIECE; q++) sum[q].add(y[k][q]);
          each<RESULTS>([&](auto o) {
            typedef typename Output<o.value>::Store Store;
            Piece<Store> piece;
#pragma unroll
            for (int q = 0; q < PIECE; q++) piece.x[q] = convert<Store>(get<o.value>(y[k][q]));
            if constexpr (PIECE == 1) store_item<Store, Output<o.value>::grain>(to[o.value], piece.x[0]);
            else store_run<1>(to[o.value], &piece);
            to[o.value] += p.out_strides[o.value].along;
          });
        }
      }
      const i64 first = j + share_of(lane);
#pragma unroll
      for (int q = 0; q < PIECE; q++)
        sum[q].write(p, out[OUTPUTS - 1].base, first / SHARE, column(v + q), first < p.n && column(v + q) < rows.count);
    }
  }
  // Results of column v, the q-th of a piece, for the steps from i on.
  template <bool WHOLE> __device__ __forceinline__ void finish(const char* stage, i64 j, int v, int q, int i, Result (&y)[AT_ONCE][PIECE]) const {
    constexpr int N = AT_ONCE;
    Item s[N];
    Read<0> raw[N];
    each<COMPONENTS>([&](auto c) {
      constexpr int C = c.value;
      Part<C>::template read_row<N>(stage, row_of(lane, v), i, [&](int k, const auto& x) { get<C>(s[k]) = x; });
    });
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      if constexpr (READS_AGAIN && Input<I>::at >= 0 && !Input<I>::alone)
        In<I>::template read_row<N>(stage, row_of(lane, v), i, [&](int k, const auto& x) { static_cast<Read<I>&>(raw[k]).x = x; });
    });
#pragma unroll
    for (int k = 0; k < N; k++) {
      if (!WHOLE && j + i + k >= p.n) break;
      Given x = {};
      if constexpr (READS_AGAIN) x = given(stage, v, j, i + k, [&](auto n) { return static_cast<Read<n.value>&>(raw[k]).x; });
      y[k][q] = Finish()(s[k], x, index_of(p, j + i + k));
    }
  }

  __device__ __forceinline__ void run() {
    each<INPUTS>([&](auto i) {
      if constexpr (!Input<i.value>::still)
        in[i.value] = lines_of(p, p.in[i.value], p.in_strides[i.value], rows, Input<i.value>::alone ? 0 : In<i.value>::SIZE, lane);
    });
    each<OUTPUTS>([&](auto o) { out[o.value] = lines_of(p, p.out[o.value], p.out_strides[o.value], rows, Out<o.value>::SIZE, lane); });
    if (SEGMENTED) heads = lines_of(p, p.heads, p.heads_strides, rows, p.heads_column, lane);
    if constexpr (MAPPED)
#pragma unroll
      for (int v = 0; v < VECTOR * PIECE; v++) {
        int at = min(column(v), rows.count - 1);
        if (AHEAD >= 0) start[v] = start_at(p, rows, at);
        each<INPUTS>([&](auto i) { if constexpr (Input<i.value>::still) get<i.value>(still[v]) = still_at<i.value>(p, rows, at); });
      }
    i64 chunks = (p.n + STEPS - 1) / STEPS;
    u32 parity = 1;
    int s = warp;
    Asked<0> asked;
    ask(asked, (i64)warp * STEPS);
    for (i64 k = warp; k < chunks + STAGES; k += SERVERS) {
      char* stage = memory + s * STAGE_BYTES;
      i64 j = k * STEPS;
      if (k >= STAGES && k - STAGES < chunks) {
        barrier_wait(&ring.done[s], parity);
        i64 before = j - STAGES * STEPS;
        int m = (int)min(p.n - before, (i64)STEPS);
        if constexpr (MAPPED && !REDUCE) {
          if (m == STEPS) finish<true>(stage, before);
          else finish<false>(stage, before);
        } else if constexpr (!REDUCE)
          each<RESULTS>([&](auto o) { Out<o.value>::take(stage, out[o.value], p.out_strides[o.value].along, before, m, rows.count, lane); });
        __syncwarp();  // results have been read before anything lands on them
      }
      if (k < chunks) {
        each_source(asked, j, [&](auto& items, auto patch, const Lines& at, i64 along, int m, int skip) {
          if constexpr (MAPPED) { if (!patch.LIES) return; }
          patch.bring(items, stage, at, along, j, m, rows.count, lane, skip);
        });
        if constexpr (MAPPED) {
          __syncwarp();  // what serves all rows is there
          if (j + STEPS <= p.n) map<true>(asked, stage, j);
          else map<false>(asked, stage, j);
        }
        if (SEGMENTED) {
          bool any = __any_sync(~0u, Heads::any(asked.heads));
          if (lane == 0) ring.heads[s] = any;
        }
        if (TURNED) arrive(&ring.full[s], lane);
        else { barrier_arrive_with_copies(&ring.full[s]); barrier_arrive(&ring.full[s]); }
        ask(asked, j + SERVERS * STEPS);
      }
      s += SERVERS;
      if (s >= STAGES) { s -= STAGES; parity ^= 1; }
    }
  }
};
