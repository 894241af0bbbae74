// Scans along an axis whose neighbours in memory belong to other scans: columns. A lane is a column, so a warp reads and writes
// whole cache lines, and nothing is transposed. Where there are fewer columns than lanes, LANES of them, a warp holds SUBS runs
// of each, one below another. A warp takes STRIPS such sets of runs, and a tile is WARPS * STRIPS * SUBS * ITEMS items of WIDTH
// columns. The pass is the one of tiles.cu. Its look-back goes column by column (column_lookback.cuh), with two serving warps for
// 32 columns.
#include "thread.cuh"
#include "column_serving.cuh"

// Truths in memory may be any byte: those that are not 0 become 1.
template <class T> __device__ __forceinline__ T truths(const T& x) {
  if constexpr (!TRUTHS) return x;
  else return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) >> 7 & 0x01010101u;
}

// The warps that read, sum and write.
struct Worker {
  const Params& p;
  Shared& s;
  char* memory;
  int warp, lane, sub = lane / LANES, own = lane % LANES;

  __device__ __forceinline__ char* patch(int k) const { return memory + ((k & 1) * WARPS + warp) * WARP_BYTES; }
  __device__ __forceinline__ i64 first(const Spot& at) const { return (i64)at.t * TILE + warp * HEIGHT; }
  // The strips of a tile are its parts; the runs of a warp, one below another, those of all its strips.
  __device__ __forceinline__ int part(int strip) const { return warp * STRIPS + strip; }
  __device__ __forceinline__ int run(int strip) const { return strip * SUBS + sub; }
  template <int O> __device__ __forceinline__ char* first_result(const Spot& at, i64 j) const {
    typedef typename Output<O>::Store Store;
    const Strides& st = p.out_strides[O];
    return p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * (i64)sizeof(Store);
  }

  __device__ __forceinline__ void load(int k) const {
    Spot at = s.spots[k & 3];
    if (at.ticket < p.tickets) {
      i64 j = first(at), columns = p.columns - at.column;
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::at >= 0) {
          typedef ColumnPatch<i.value> Patch;
          constexpr int GRAIN = Input<i.value>::grain;
          const char* from = first_of<i.value>(p, at, j);
          char* shared = patch(k) + Input<i.value>::at;
          i64 along = p.in_strides[i.value].along;
          if constexpr (Input<i.value>::same) {  // one list for all columns
            constexpr int SIZE = sizeof(typename Input<i.value>::Load);
#pragma unroll
            for (int q = lane; q < (HEIGHT + 31) / 32 * 32; q += 32)
              if (q < HEIGHT && j + q < p.n)
#pragma unroll
                for (int b = 0; b < SIZE; b += GRAIN) copy_async<GRAIN>(shared + q * SIZE + b, from + q * along + b);
          } else if constexpr (Input<i.value>::turned)
            Patch::each_piece(from, along, p.in_column[i.value], p.n - j, columns, lane,
                              [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); });
          else Patch::load(shared, from, along, p.n - j, columns, lane);
        }
      });
      if constexpr (HEADS_APART)  // in a reverse scan the heads of the first items lie outside
        HeadPatch::load(patch(k) + HEADS_AT, heads_of(p, at, j), p.heads_strides.along, p.n - j, columns, lane, j < p.heads_first);
    }
    commit_copies();
    fetch_ahead(at.ticket + p.ahead);
  }
  // A tile that comes late keeps those below it waiting. So the loader of a tile asks the cache for a later one, but not for its
  // heads: a byte a line cost returns .07 of a copy (H200).
  __device__ __forceinline__ void fetch_ahead(i64 ticket) const {
    if (ticket >= p.tickets) return;
    Spot at = spot_of(p, ticket);
    i64 j = first(at);
    int items = (int)min(p.n - j, (i64)HEIGHT), columns = (int)min(p.columns - at.column, (i64)WIDTH);
    each<INPUTS>([&](auto i) {
      constexpr int SIZE = sizeof(typename Input<i.value>::Load);
      const char* from = first_of<i.value>(p, at, j);
      if constexpr (Input<i.value>::turned) fetch_lines<WIDTH, HEIGHT * SIZE>(from, p.in_column[i.value], columns, items * SIZE, lane);
      else if constexpr (Input<i.value>::at >= 0 && !Input<i.value>::same)
        fetch_lines<HEIGHT, WIDTH * SIZE>(from, p.in_strides[i.value].along, items, columns * SIZE, lane);
    });
  }

  // This lane's run of column set v and of a strip, as it is read.
  __device__ __forceinline__ void read(int k, int v, int strip, const Spot& at, Given (&given)[ITEMS]) const {
    each<INPUTS>([&](auto n) {
      typedef typename Input<n.value>::Load Load;
      typedef typename Input<n.value>::Value Value;
      if constexpr (Input<n.value>::still) {
        auto one = still_item<n.value>(p, at.row, min(at.column + 32 * v + own, p.columns - 1));
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = one;
      } else if constexpr (Input<n.value>::same) {
        const Load* from = (const Load*)(patch(k) + Input<n.value>::at) + run(strip) * ITEMS;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(from[i]);
      } else if constexpr (Input<n.value>::turned) {
        Load raw[ITEMS];
        ColumnPatch<n.value>::read(patch(k) + Input<n.value>::at, 32 * v + lane, raw);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(raw[i]);
      } else {
        typedef ColumnPatch<n.value> Patch;
        const char* from = patch(k) + Input<n.value>::at + run(strip) * Patch::RUN + (32 * v + own) * (int)sizeof(Load);
        if constexpr (Input<n.value>::pitch) from += Patch::origin(first_of<n.value>(p, at, first(at)), p.in_strides[n.value].along);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(truths(Patch::get(from, i)));
      }
    });
  }

  // The run as it is combined, swept up; `swept` are its heads, swept up likewise.
  __device__ __forceinline__ void read(int k, int v, int strip, const Spot& at, Item (&x)[ITEMS], u32& swept) const {
    Given given[ITEMS];
    read(k, v, strip, at, given);
    Indices index(p, first(at) + run(strip) * ITEMS);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) x[i] = Map()(given[i], index[i]);
    up_sweep(x, swept);
  }

  // Bit i: a segment starts at item i of the run.
  __device__ __forceinline__ u32 heads_of_run(int k, int v, int strip, const Spot& at) const {
    u32 bits = 0;
    if constexpr (SEGMENTED) {
      i64 j = first(at) + strip * LINES;
      if constexpr (HEADS_APART) {
        const char* from = patch(k) + HEADS_AT + run(strip) * HeadPatch::RUN + 32 * v + own;
        if constexpr (HEADS_PITCH) from += HeadPatch::origin(heads_of(p, at, first(at)), p.heads_strides.along);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) bits |= (from[i * HeadPatch::LINE] != 0 ? 1u : 0u) << i;
      } else {  // one list for all columns
#pragma unroll
        for (int s = 0; s < SUBS; s++) {
          i64 i = j + s * ITEMS + lane;
          bool head = lane < ITEMS && i >= p.heads_first && i < p.n && heads_of(p, at, i)[0] != 0;
          u32 found = __ballot_sync(FULL, head);
          if (s == sub) bits = found;
        }
      }
      if (j + sub * ITEMS == 0) bits &= ~1u;  // a row starts its first segment anyway
    }
    return bits;
  }

  // The heads that `sum` has found are kept: a finish need not look at a byte for each once more.
  __device__ __forceinline__ void keep_heads(int k, int v, int strip, u32 heads) const {
#if SEGMENTED
    s.heads[k & 1][part(strip)][32 * v + lane] = heads;
#endif
  }
  __device__ __forceinline__ u32 kept_heads(int k, int v, int strip) const {
#if SEGMENTED
    return s.heads[k & 1][part(strip)][32 * v + lane];
#else
    return 0;
#endif
  }

  __device__ __forceinline__ void sum(int k) const {
    Spot at = s.spots[k & 3];
    __syncwarp();  // every lane's copies of this tile have landed
    if (at.ticket >= p.tickets) return;
#pragma unroll 1
    for (int i = 0; i < VECTOR * STRIPS; i++) {
      int v = i / STRIPS, strip = i % STRIPS;
      Item x[ITEMS];
      u32 swept = heads_of_run(k, v, strip, at);
      keep_heads(k, v, strip, swept);
      read(k, v, strip, at, x, swept);
      Element e = up_sweep_subs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), sub);
      if (sub == SUBS - 1) s.sums[k & 1][part(strip)][32 * v + own] = e;
    }
  }

  // Results of runs one below another are written in the place of the items, and from there line by line.
  template <int O> __device__ __forceinline__ void write_runs(int k, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef Patch<Store, Output<O>::grain> Results;
    i64 j = first(at);
    char* shared = patch(k);
    __syncwarp();  // all lanes have read what lies there
#pragma unroll
    for (int i = 0; i < ITEMS; i++) *(Store*)(shared + sub * Results::RUN + i * Results::LINE + own * sizeof(Store)) = convert<Store>(get<O>(y[i]));
    __syncwarp();  // all lanes have written theirs
    Results::store(shared, first_result<O>(at, j), p.out_strides[O].along, p.n - j, p.columns - at.column, lane);
  }

  // Results of column set v where its items were, which no other lane reads; and all of them, in whole lines.
  template <int O> __device__ __forceinline__ void put_in_line(int k, int v, int strip, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef ResultPatch<O> Results;
    char* shared = patch(k) + Output<O>::at + run(strip) * Results::RUN + (32 * v + own) * (int)sizeof(Store);
    if constexpr (Output<O>::pitch) shared += Results::origin(first_result<O>(at, first(at)), p.out_strides[O].along);
    int exist = RAGGED ? LINE_BYTES - 4 * (32 * v + own) : COLUMNS - 32 * v - own;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) Results::put(shared, i, convert<Store>(get<O>(y[i])), exist);
  }
  __device__ __forceinline__ void store_lines(int k, const Spot& at) const {
    __syncwarp();  // all lanes have put theirs
    i64 j = first(at);
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::at >= 0) {
        ResultPatch<o.value>::store(patch(k) + Output<o.value>::at, first_result<o.value>(at, j), p.out_strides[o.value].along,
                                    p.n - j, p.columns - at.column, lane);
      }
    });
  }

  // Results that touch along the axis are turned in the place of the items.
  template <int O> __device__ __forceinline__ void write_turned(int k, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef Turned<Store, Output<O>::grain> Results;
    static_assert(!Output<O>::turned || (VECTOR == 1 && SUBS == 1 && Results::BYTES <= WARP_BYTES));
    const Strides& st = p.out_strides[O];
    i64 j = first(at);
    char* to = p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * p.out_column[O];
    Store raw[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) raw[i] = convert<Store>(get<O>(y[i]));
    __syncwarp();  // all lanes have read what lies there
    Results::write(patch(k), lane, raw);
    __syncwarp();  // all lanes have written theirs
    typedef typename Results::Piece Piece;
    Results::each_piece(to, st.along, p.out_column[O], p.n - j, p.columns - at.column, lane,
                        [&](int place, char* at) { *(Piece*)at = *(const Piece*)(patch(k) + place); });
  }

  __device__ __forceinline__ void finish(int k, int v, int strip, const Spot& at) const {
    Item x[ITEMS];
    u32 heads_of_items = kept_heads(k, v, strip), swept = heads_of_items;
    read(k, v, strip, at, x, swept);
    i64 j = first(at) + run(strip) * ITEMS, column = at.column + 32 * v + own;
    bool exists = column < p.columns;
    Item start = {};
    if (EXCLUSIVE || (SEGMENTED && INITIAL)) start = start_of(p, at.row, exists ? column : p.columns - 1);
    Prefix before = {s.prefixes[k & 1][part(strip)][32 * v + own], INITIAL || at.t > 0 || part(strip) > 0};
    Item next = {};
    if constexpr (!EXCLUSIVE) next = s.prefixes[k & 1][part(strip) + 1][32 * v + own];
    if constexpr (SUBS > 1) {
      down_sweep_subs(before, sub, up_sweep_subs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), sub), own, start);
      Item following = from_lane(before.value, (lane + LANES) % 32);
      next = select(sub == SUBS - 1, next, following);
    }
    results(x, heads_of_items, swept, before, next, start);
    Given given[ITEMS];
    Result y[ITEMS];
    if constexpr (READS_AGAIN) read(k, v, strip, at, given);
    Indices index(p, j);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) y[i] = Finish()(x[i], given[i], index[i]);
    each<OUTPUTS>([&](auto o) {
      typedef typename Output<o.value>::Store Store;
      if constexpr (Output<o.value>::at >= 0) put_in_line<o.value>(k, v, strip, at, y);
      else if constexpr (Output<o.value>::turned) write_turned<o.value>(k, at, y);
      else if constexpr (!REDUCE && SUBS > 1 && Patch<Store, 1>::BYTES <= WARP_BYTES) write_runs<o.value>(k, at, y);
      else {
        constexpr int SIZE = sizeof(Store), GRAIN = Output<o.value>::grain < SIZE ? Output<o.value>::grain : SIZE;
        const Strides& st = p.out_strides[o.value];
        char* to = p.out[o.value] + row_offset(p, st, at.row) + column * (i64)SIZE;
        if constexpr (!REDUCE) to += j * st.along;
        int exist = exists ? (int)min(p.n - j, (i64)ITEMS) : 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
          Store item = convert<Store>(get<o.value>(y[i]));
          if (REDUCE ? exists && j + i == p.n - 1 : i < exist) store_item<Store, GRAIN>(to, item);
          if (!REDUCE) to += st.along;
        }
      }
    });
  }

  __device__ __forceinline__ void run() const {
    bool draws = warp == 0 && lane == 0;
    load(0); load(1);
    wait_copies<1>();
    sum(0);
    arrive<PUBLISH, HALF>(0);
    arrive<LOOK_BACK, HALF>(0);
    for (int k = 0;; k++) {
      Spot at = s.spots[k & 3];
      if (at.ticket >= p.tickets) break;
      wait_copies<0>();
      sum(k + 1);
      arrive<PUBLISH, HALF>(k + 1);
      arrive<LOOK_BACK, HALF>(k + 1);
      await<PREFIXES, HALF>(k);
      // The ticket comes while the tile is written.
      i64 next = draws ? take_ticket(p) : 0;
      if (!REDUCE || at.t + 1 == p.tiles) {
#pragma unroll 1
        for (int i = 0; i < VECTOR * STRIPS; i++) finish(k, i / STRIPS, i % STRIPS, at);
        store_lines(k, at);
      }
      if (draws) s.spots[(k + 2) & 3] = spot_of(p, next);
      await<TICKETS, ALL>(k);  // and the stage is free
      load(k + 2);
    }
    if (draws) leave(p, p.control[2]);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_columns(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  Shared& s = *(Shared*)(memory + STAGES * WARPS * WARP_BYTES);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {  // where there is a block for each tile, none takes two
    s.spots[0] = spot_of(p, take_ticket(p));
    s.spots[1] = spot_of(p, gridDim.x >= p.tickets ? p.tickets : take_ticket(p));
  }
  __syncthreads();
  if (warp < WARPS) Worker{p, s, memory, warp, lane}.run();
  else if (warp < WARPS + VECTOR) publish_tiles(p, s, warp - WARPS, lane);
  else look_back_tiles(p, s, warp - WARPS - VECTOR, lane);
}
