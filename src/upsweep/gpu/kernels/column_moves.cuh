// How a working warp of columns.cu moves its rectangles: from memory to shared memory, from there to registers, and results back.
#include "column_serving.cuh"

// Whether results go by whole lines once all lanes have theirs, where a warp has one set of columns.
template <int O> constexpr bool GATHERED = VECTOR * STRIPS == 1 && (SUBS > 1 || Output<O>::grain > sizeof(typename Output<O>::Store)) &&
                                           Patch<typename Output<O>::Store, 1>::BYTES <= WARP_BYTES;

// Asks the second-level cache for a rectangle that a block will load soon, line by line: of at most MOST lines of MOST_BYTES.
template <int MOST, int MOST_BYTES> __device__ __forceinline__
void fetch_lines(const char* from, i64 stride, int items, int bytes, int lane) {
  if (WHOLE || (SUBS > 1 && stride == bytes)) {
    int line = (int)(stride < 0 ? -stride : stride);
    if (items > 0) fetch(stride < 0 ? from + (items - 1) * stride : from, (items - 1) * line + min(bytes, line), lane);
    return;
  }
#pragma unroll
  for (int i = 0; i < MOST; i += 32)
#pragma unroll
    for (int b = 0; b < MOST_BYTES; b += 128)
      if (i + lane < items && b < bytes) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (i + lane) * stride + b) : "memory");
}

// The same for a rectangle whose columns are a square.
template <class Square> __device__ __forceinline__
void fetch_square(const char* from, const Strides& st, i64 column, int items, int columns, int lines, int lane) {
#pragma unroll
  for (int i = lane; i < HEIGHT * Square::FAR; i += 32)
    if (i / Square::FAR < items && i % Square::FAR < Square::far(columns, lines))
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i / Square::FAR * st.along + i % Square::FAR * Square::across(st, column)) : "memory");
}

// A working warp: its places, and how its items come and go.
struct Mover {
  const Params& p;
  Shared& s;
  char* memory;
  int warp, lane, sub = lane / LANES, own = lane % LANES;

  __device__ __forceinline__ char* patch(int k) const { return memory + (stage_of(k) * WARPS + warp) * WARP_BYTES; }
  // Where results wait for whole lines: in the places of the items, or in places of their own, one for all stages.
  __device__ __forceinline__ char* result_lines(int k) const {
    return RESULT_BYTES ? memory + STAGES * WARPS * WARP_BYTES + warp * RESULT_BYTES : patch(k);
  }
  __device__ __forceinline__ i64 first(const Spot& at) const { return (i64)at.t * TILE + warp * HEIGHT; }
  // The strips of a tile are its parts; the runs of a warp, one below another, those of all its strips.
  __device__ __forceinline__ int part(int strip) const { return warp * STRIPS + strip; }
  __device__ __forceinline__ int run(int strip) const { return strip * SUBS + sub; }
  template <int O> __device__ __forceinline__ char* first_result(const Spot& at, i64 j) const {
    typedef typename Output<O>::Store Store;
    const Strides& st = p.out_strides[O];
    return p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * (CROSS > 0 ? p.out_column[O] : (i64)sizeof(Store));
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
          } else if constexpr (items_touch(Input<i.value>::lies))
            Patch::load(shared, from, along, p.in_column[i.value], p.n - j, columns, lane);
          else if constexpr (CROSS > 0)
            Patch::load(shared, from, p.in_strides[i.value], p.in_column[i.value], p.n - j, columns, lines_of(p, at), lane);
          else Patch::load(shared, from, along, p.n - j, columns, lane);
        }
      });
      if constexpr (HEADS_APART)  // in a reverse scan the heads of the first items lie outside
        HeadPatch::load(patch(k) + HEADS_AT, heads_of(p, at, j), p.heads_strides.along, p.n - j, columns, lane, j < p.heads_first);
      else if constexpr (HEADS_BITS) BitList::load(patch(k) + HEADS_AT, p.heads, j, p.n, lane);
      else if constexpr (HEADS_LISTED) HeadList::load(patch(k) + HEADS_AT, heads_of(p, at, j), p.n - j, j < p.heads_first, lane);
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
      if constexpr (items_touch(Input<i.value>::lies)) {
        if (Input<i.value>::lies == ITEMS_BACKWARDS) from -= (items - 1) * SIZE;
        fetch_lines<WIDTH, HEIGHT * SIZE>(from, p.in_column[i.value], columns, items * SIZE, lane);
      }
      else if constexpr (Input<i.value>::lies >= SIDE_WHOLE)
        ColumnPatch<i.value>::fetch(from, p.in_strides[i.value], p.in_column[i.value], items, lane);
      else if constexpr (CROSS > 0 && Input<i.value>::lies > ITEMS_NEAR)
        fetch_square<ColumnPatch<i.value>>(from, p.in_strides[i.value], p.in_column[i.value], items, columns, (int)lines_of(p, at), lane);
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
      } else if constexpr (items_touch(Input<n.value>::lies)) {
        const int column = 32 * v + lane;
        Load raw[ITEMS];
        ColumnPatch<n.value>::read(patch(k) + Input<n.value>::at, column, first_of<n.value>(p, at, first(at)) + column * p.in_column[n.value], raw);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(raw[i]);
      } else {
        const char* from = run_of<n.value>(k, v, strip, at);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(ColumnPatch<n.value>::get(from, i));
      }
    });
  }
  // The first item of this run in shared memory.
  template <int I> __device__ __forceinline__ char* run_of(int k, int v, int strip, const Spot& at) const {
    typedef ColumnPatch<I> Patch;
    char* from = patch(k) + Input<I>::at + run(strip) * Patch::RUN + Patch::column(32 * v + own);
    if constexpr (Input<I>::pitch) from += Patch::origin(first_of<I>(p, at, first(at)), p.in_strides[I].along);
    return from;
  }
  // Block sums take the place of the items of input I. Of items half as wide a sum's upper half does, and its lower half has another
  // place; every second sum is the item itself. A lane without a column has no place.
  template <int I> __device__ __forceinline__ void keep_sums(int k, int v, int strip, const Spot& at, const Item (&x)[ITEMS]) const {
    char* to = run_of<I>(k, v, strip, at);
    if (WHOLE && 32 * v + own >= COLUMNS) return;
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
      if constexpr (!SPLIT) ColumnPatch<I>::put(to, i, get<I>(x[i]));
      else if (i % 2) {
        typename Input<I>::Load halves[2];
        memcpy(halves, &get<I>(x[i]), sizeof halves);
        lower_halves<I>(k, v, strip)[i / 2 * 32] = halves[0];
        ColumnPatch<I>::put(to, i, halves[1]);
      }
    }
  }
  template <int I> __device__ __forceinline__ void kept_sums(int k, int v, int strip, const Spot& at, Item (&x)[ITEMS]) const {
    const char* from = run_of<I>(k, v, strip, at);
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
      typename Input<I>::Load item = ColumnPatch<I>::get(from, i), halves[2] = {item, item};
      if (!SPLIT || i % 2 == 0) get<I>(x[i]) = convert<typename Input<I>::Value>(item);
      else {
        halves[0] = lower_halves<I>(k, v, strip)[i / 2 * 32];
        memcpy(&get<I>(x[i]), halves, sizeof halves);
      }
    }
  }
  // The sums of a run but for the last, which is asked for where there are runs below; and this lane's lower halves, of column set v and
  // of a strip.
  static constexpr int SUMS = SUBS > 1 ? ITEMS : ITEMS - 1;
  template <int I> __device__ __forceinline__ typename Input<I>::Load* lower_halves(int k, int v, int strip) const {
    typedef typename Input<I>::Load Half;
    return (Half*)(patch(k) + HEADS_AT) - ((VECTOR - v) * STRIPS - strip) * (SUMS / 2 * 32) + lane;
  }

  // Results of runs one below another, and narrow ones, are written in the place of the items, and from there line by line.
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
    char* shared = result_lines(k) + Output<O>::at + run(strip) * Results::RUN + Results::column(32 * v + own);
    if constexpr (Output<O>::pitch) shared += Results::origin(first_result<O>(at, first(at)), p.out_strides[O].along);
    // What is left of a whole line. Words ask once for all items: a branch for each costs as much as the item.
    const int exist = RAGGED ? LINE_BYTES - 4 * (32 * v + own) : COLUMNS - 32 * v - own;
    if (WHOLE && RAGGED && exist < 4) {
      if constexpr (RAGGED)
#pragma unroll
        for (int i = 0; i < ITEMS; i++) Results::put_bytes(shared, i, convert<Store>(get<O>(y[i])), exist);
    } else {
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        Store item = convert<Store>(get<O>(y[i]));
        if (!WHOLE || RAGGED || exist > 0) Results::put(shared, i, item);
      }
    }
  }
  __device__ __forceinline__ void store_lines(int k, const Spot& at) const {
    __syncwarp();  // all lanes have put theirs
    i64 j = first(at);
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::at >= 0) {
        typedef ResultPatch<o.value> Results;
        const Strides& st = p.out_strides[o.value];
        char *shared = result_lines(k) + Output<o.value>::at, *to = first_result<o.value>(at, j);
        if constexpr (CROSS > 0)
          Results::store(shared, to, st, p.out_column[o.value], p.n - j, p.columns - at.column, lines_of(p, at), lane);
        else Results::store(shared, to, st.along, p.n - j, p.columns - at.column, lane);
      }
    });
  }

  // The sum of each `run` results of a column, by the tree, for one item.
  template <int O> __device__ __forceinline__ void write_sums(i64 j, int column, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    constexpr int RUN = Output<O>::run;
    static_assert(RUN == 1 || ITEMS % RUN == 0, "a lane holds whole runs");
    Store sums[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) sums[i] = convert<Store>(get<O>(y[i]));
    if (j + ITEMS > p.n) {  // the last run of a row may be short
#pragma unroll
      for (int i = 0; i < ITEMS; i++)
        if (j + i >= p.n) sums[i] = Store{};
    }
#pragma unroll
    for (int d = 1; d < RUN; d *= 2)
#pragma unroll
      for (int i = 0; i < ITEMS; i += 2 * d) sums[i] = sums[i] + sums[i + d];
    char* to = first_result<O>(at, j / RUN) + column * (int)sizeof(Store);
#pragma unroll
    for (int i = 0; i < ITEMS; i += RUN, to += p.out_strides[O].along)
      if (at.column + column < p.columns && j + i < p.n) store_item<Store, sizeof(Store)>(to, sums[i]);
  }

  // The sum over the columns of set v for each item, by the tree: lanes hand each other half of the items that they have left.
  template <int O> __device__ __forceinline__ void write_line_sums(i64 j, int v, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    static_assert(Output<O>::line == 1 || LANES == 32, "a warp has neighbouring columns");
    Store sums[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) sums[i] = at.column + 32 * v + lane < p.columns ? convert<Store>(get<O>(y[i])) : Store{};
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const bool upper = lane & d;
#pragma unroll
      for (int i = 0; i < max_of(1, ITEMS / (2 * d)); i++) {
        if (d < ITEMS) {
          Store kept = upper ? sums[2 * i + 1] : sums[2 * i], given = upper ? sums[2 * i] : sums[2 * i + 1];
          sums[i] = kept + __shfl_xor_sync(FULL, given, d);
        } else sums[i] = sums[i] + __shfl_xor_sync(FULL, sums[i], d);
      }
    }
    const Strides& st = p.out_strides[O];
    char* to = p.out[O] + row_offset(p, st, at.row) + (j + lane) * st.along + (at.column / 32 + v) * (i64)sizeof(Store);
    if (lane < ITEMS && j + lane < p.n && at.column + 32 * v < p.columns) store_item<Store, sizeof(Store)>(to, sums[0]);
  }

  // Results that touch along the axis are turned in the place of the items.
  template <int O> __device__ __forceinline__ void write_turned(int k, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef ResultPatch<O> Results;
    static_assert(VECTOR == 1 && SUBS == 1 && Results::BYTES <= WARP_BYTES);
    const Strides& st = p.out_strides[O];
    const i64 j = first(at), across = p.out_column[O];
    char* to = p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * across;
    Store raw[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) raw[i] = convert<Store>(get<O>(y[i]));
    __syncwarp();  // all lanes have read what lies there
    Results::write(patch(k), lane, to + lane * across, raw);
    __syncwarp();  // all lanes have written theirs
    Results::store(patch(k), to, st.along, across, p.n - j, p.columns - at.column, lane);
  }
};
