// Scans along an axis whose neighbours in memory belong to other scans: columns. A lane is a column, so a warp reads and writes
// whole cache lines, and nothing is transposed. Where there are fewer columns than lanes, LANES of them, a warp holds SUBS runs
// of each, one below another. A warp takes STRIPS such sets of runs, and a tile is WARPS * STRIPS * SUBS * ITEMS items of WIDTH
// columns. The pass is the one of tiles.cu. Its look-back goes column by column (column_lookback.cuh), with as many
// serving warps for 32 columns as there are stages.
#include "thread.cuh"
#include "column_lines.cuh"

// A ticket after a block's first. Where there is a block for each tile, none takes two.
__device__ __forceinline__ i64 next_ticket(const Params& p) { return gridDim.x >= p.tickets ? p.tickets : take_ticket(p); }

// The tickets of the stages after the first.
__device__ __forceinline__ void draw_later(const Params& p, Shared& s) {
  each<STAGES - 1>([&](auto k) { s.spots[k.value + 1] = spot_of(p, next_ticket(p)); });
}

// The warps that read, sum and write.
struct Worker : Mover {
  using Mover::read;

  // The run as it is combined.
  __device__ __forceinline__ void read_items(int k, int v, int strip, const Spot& at, Item (&x)[ITEMS]) const {
    Given given[ITEMS];
    read(k, v, strip, at, given);
    Indices index(p, first(at) + run(strip) * ITEMS);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) x[i] = Map()(given[i], index[i]);
  }
  // The same swept up; `swept` are its heads, swept up likewise. KEPT sums have been swept up by `sum`.
  __device__ __forceinline__ void read(int k, int v, int strip, const Spot& at, Item (&x)[ITEMS], u32& swept) const {
    each<KEPT>([&](auto i) { kept_sums<i.value>(k, v, strip, at, x); });
    if constexpr (KEPT) up_sweep_heads<ITEMS>(swept);
    else {
      read_items(k, v, strip, at, x);
      up_sweep(x, swept);
    }
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
      } else if constexpr (HEADS_BITS) {
        bits = BitList::of_run(patch(k) + HEADS_AT, run(strip));
      } else if constexpr (HEADS_LISTED && HeadList::BY_LANES) {
        bits = HeadList::of_run(patch(k) + HEADS_AT, heads_of(p, at, first(at)), run(strip));
      } else {  // one list for all columns
#pragma unroll
        for (int s = 0; s < SUBS; s++) {
          i64 i = j + s * ITEMS + lane;
          bool head = lane < ITEMS && i >= p.heads_first && i < p.n;
          if constexpr (HEADS_LISTED)
            head = head && HeadList::head(patch(k) + HEADS_AT, heads_of(p, at, first(at)), strip * LINES + s * ITEMS + lane);
          else head = head && heads_of(p, at, i)[0] != 0;
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
    s.heads[stage_of(k)][part(strip)][FLAT ? 0 : 32 * v + lane] = heads;
#endif
  }
  __device__ __forceinline__ u32 kept_heads(int k, int v, int strip) const {
#if SEGMENTED
    return s.heads[stage_of(k)][part(strip)][FLAT ? 0 : 32 * v + lane];
#else
    return 0;
#endif
  }

  // Of lines that lanes hold whole: whether a segment starts in a line of the lane's run, but a row starts its first one anyway.
  __device__ __forceinline__ auto heads_of_lines(int k, int strip, const Spot& at) const {
    const int run = strip * LINES + lane * Held::HIGH, none = first(at) == 0 ? 0 : -1;
    const char *list = patch(k) + HEADS_AT, *from = SEGMENTED ? heads_of(p, at, first(at)) : nullptr;
    return [=](int line) { return HEADS_LISTED && run + line != none && HeadList::head(list, from, run + line); };
  }
  // Of the same: the first word of a strip, the bytes of it before the strip, and what lanes keep of the runs before their own.
  __device__ __forceinline__ u32* runs_of(int k, int strip, const Spot& at, int& shift) const {
    constexpr bool BACK = Input<0>::pitch < 0;
    int begin = Input<0>::begin;
    each<FLAT && (Input<0>::begin < 0)>([&](auto i) {
      typedef ColumnPatch<i.value> Patch;
      begin = Patch::phase(Patch::lowest(first_of<i.value>(p, at, first(at)), p.in_strides[i.value].along));
    });
    shift = WITHIN ? (BACK ? -begin : begin) & 3 : 0;
    u32* words = (u32*)(patch(k) + (BACK ? begin + shift : begin - shift));
    return Held::word(BACK ? words + STRIPS * 32 * Held::RUN - 1 : words, strip * 32 * Held::RUN);
  }
  __device__ __forceinline__ u32* kept(int k, int strip) const {
    return (u32*)(patch(k) + HEADS_AT) - (STRIPS - strip) * Held::STRIP;
  }

  // The block sums of a warp's strips, and from them the prefix of a strip.
  __device__ __forceinline__ Element& sum_of(int k, int strip, int column) const { return s.sums[stage_of(k)][part(strip)][column]; }
  __device__ __forceinline__ void keep_sum(int k, int strip, int column, Element e) const {
    for (int d = 1; d < STRIPS && strip & d; d *= 2) e = combine(sum_of(k, strip - d, column), e);
    sum_of(k, strip, column) = e;
  }
  __device__ __forceinline__ Prefix prefix_of(int k, int strip, int column, const Spot& at, const Item& start) const {
    Prefix p = {s.prefixes[stage_of(k)][warp + strip / STRIPS][column], INITIAL || at.t > 0 || warp > 0};
#pragma unroll
    for (int d = STRIPS / 2; d >= 1; d /= 2) if (strip & d) fold(p, sum_of(k, (strip & -d) - 1, column), start);
    return p;
  }

  __device__ __forceinline__ void sum(int k) const {
    Spot at = s.spots[k & 3];
    __syncwarp();  // every lane's copies of this tile have landed
    if (at.ticket >= p.tickets) return;
#pragma unroll 1
    for (int i = 0; i < VECTOR * STRIPS; i++) {
      int v = i / STRIPS, strip = i % STRIPS;
      if constexpr (FLAT) {
        int shift;
        u32* runs = runs_of(k, strip, at, shift);
        bool some = Held::sum_run(Held::word(runs, lane * Held::RUN), shift, heads_of_lines(k, strip, at));
        u32 starts = SEGMENTED ? __ballot_sync(FULL, some) : 0;
        keep_heads(k, v, strip, starts);
        __syncwarp();  // all lanes have summed theirs
        Element e = Held::sum_runs(runs, kept(k, strip), sub, own, starts);
        if (sub == SUBS - 1) keep_sum(k, strip, own, e);
        continue;
      }
      Item x[ITEMS];
      u32 swept = heads_of_run(k, v, strip, at);
      keep_heads(k, v, strip, swept);
      read_items(k, v, strip, at, x);
      up_sweep(x, swept);
      each<KEPT>([&](auto i) { keep_sums<i.value>(k, v, strip, at, x); });
      Element e = up_sweep_subs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), sub);
      if (sub == SUBS - 1) keep_sum(k, strip, 32 * v + own, e);
    }
  }

  // The prefixes of a run. One after the other (CHAINED) they take half the operations of the tree's sweeps.
  __device__ __forceinline__ void scan(int k, int v, int strip, const Spot& at, Item (&x)[ITEMS]) const {
    u32 heads_of_items = kept_heads(k, v, strip), swept = heads_of_items;
    Item start = {}, next = {};
    if (EXCLUSIVE || (SEGMENTED && INITIAL)) start = start_of_column(p, at, 32 * v + own);
    Prefix before = prefix_of(k, strip, 32 * v + own, at, start);
    if constexpr (CHAINED) {
      read_items(k, v, strip, at, x);
      results_in_order(x, heads_of_items, before, start);
    } else {
      read(k, v, strip, at, x, swept);
      if constexpr (NEXT) next = prefix_of(k, strip + 1, 32 * v + own, at, start).value;
      if constexpr (SUBS > 1) {
        down_sweep_subs(before, sub, up_sweep_subs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), sub), own, start);
        Item following = from_lane(before.value, (lane + LANES) % 32);
        next = select(sub == SUBS - 1, next, following);
      }
      results(x, heads_of_items, swept, before, next, start);
    }
  }

  __device__ __forceinline__ void finish(int k, int v, int strip, const Spot& at) const {
    if constexpr (FLAT) {
      bool anew = (kept_heads(k, v, strip) & ((1u << lane) - 1)) != 0;
      bool some = (INITIAL || at.t > 0 || warp > 0) && !anew;
      u32 start = NEUTRAL;
      each<INITIAL>([&](auto) { start = to_words(start_of(p, at.row)).w[0]; });
      int shift;
      u32* run = Held::word(runs_of(k, strip, at, shift), lane * Held::RUN);
      Held::finish_run(run, shift, kept(k, strip) + lane * Held::STEP, s.prefixes[stage_of(k)][warp], some, start,
                       heads_of_lines(k, strip, at));
      return;
    }
    i64 j = first(at) + run(strip) * ITEMS, column = at.column + 32 * v + own;
    bool exists = column < p.columns;
    Item x[ITEMS];
    scan(k, v, strip, at, x);
    Given given[ITEMS];
    Result y[ITEMS];
    if constexpr (READS_AGAIN) read(k, v, strip, at, given);
    Indices index(p, j);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) y[i] = Finish()(x[i], given[i], index[i]);
    each<OUTPUTS>([&](auto o) {
      typedef typename Output<o.value>::Store Store;
      if constexpr (Output<o.value>::run > 1) write_sums<o.value>(j, 32 * v + own, at, y);
      else if constexpr (Output<o.value>::line > 1) write_line_sums<o.value>(j, v, at, y);
      else if constexpr (Output<o.value>::at >= 0) put_in_line<o.value>(k, v, strip, at, y);
      else if constexpr (items_touch(Output<o.value>::lies)) write_turned<o.value>(k, at, y);
      else if constexpr (!REDUCE && GATHERED<o.value>) write_runs<o.value>(k, at, y);
      else {
        constexpr int SIZE = sizeof(Store), GRAIN = Output<o.value>::grain < SIZE ? Output<o.value>::grain : SIZE;
        const Strides& st = p.out_strides[o.value];
        char* to = p.out[o.value] + row_offset(p, st, at.row) + column * (REDUCE ? p.out_column[o.value] : (i64)SIZE);
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

  // The sums of a tile, for the warps that serve its stage.
  __device__ __forceinline__ void hand_on(int k) const {
    sum(k);
    arrive<PUBLISH, HALF>(k);
    if constexpr (!ALONE) arrive<LOOK_BACK, HALF>(k);
  }

  __device__ __forceinline__ void work() const {
    await_marks();
    bool draws = warp == 0 && lane == 0;
    load(0);
    // The tickets of the other stages come while the first tile does. Of a copy (H200), before it -> so: 4000 x 2048 f2 .529 -> .569,
    // 10 x 25471 x 40 .439 -> .479, 8352 x 279 i8 .494 -> .530, 918 x 2686 .570 -> .590; large arrays as before.
    // Where each stage has a warp of its own they come before: 67108864 x 4 f4 .83 -> .87.
    if constexpr (!ALONE) {
      if (draws) draw_later(p, s);
      await<DRAWN, WARPS>(0);
    }
    each<STAGES - 1>([&](auto k) { load(k.value + 1); });
    wait_copies<1>();
    each<STAGES - 1>([&](auto k) { hand_on(k.value); });
    int k = 0;
    for (;; k++) {
      Spot at = s.spots[k & 3];
      if (at.ticket >= p.tickets) break;
      wait_copies<0>();
      hand_on(k + STAGES - 1);
      await<PREFIXES, HALF>(k);
      // The ticket comes while the tile is written.
      i64 next = draws ? next_ticket(p) : 0;
      // A reduction is finished by the warp that has the last item.
      if (!REDUCE || (u64)(p.n - 1 - first(at)) < HEIGHT) {
#pragma unroll 1
        for (int i = 0; i < VECTOR * STRIPS; i++) finish(k, i / STRIPS, i % STRIPS, at);
        if (RESULT_BYTES == 0) store_lines(k, at);
      }
      if (draws) s.spots[(k + STAGES) & 3] = spot_of(p, next);
      await<TICKETS, ALL>(k);  // and the stage is free
      load(k + STAGES);
      if (RESULT_BYTES > 0) store_lines(k, at);  // the stage is free: another tile comes meanwhile
    }
    // The other warps that serve stages have heard that tiles are at an end.
    if constexpr (ALONE) arrive<PUBLISH, HALF>(k + STAGES - 1);
    if (draws) leave(p, p.control[2]);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_columns(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  Shared& s = *(Shared*)(memory + WARPS * (STAGES * WARP_BYTES + RESULT_BYTES));
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    s.spots[0] = spot_of(p, take_ticket(p));
    if constexpr (ALONE) draw_later(p, s);
  }
  __syncthreads();
  if (warp < WARPS) Worker{{p, s, memory, warp, lane}}.work();
  else if (ALONE) serve_stage(p, s, (warp - WARPS) / VECTOR, (warp - WARPS) % VECTOR, lane);
  else if (warp < WARPS + VECTOR) publish_tiles(p, s, warp - WARPS, lane);
  else look_back_tiles(p, s, warp - WARPS - VECTOR, lane);
}
