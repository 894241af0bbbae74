// Scans in order: y[i] = y[i-1] + x[i], one item after the other, a lane a row. One warp walks 32 * VECTOR rows. SERVERS other
// warps bring its items through a ring of stages in shared memory and take the results away. So the walking warp waits for
// arithmetic only, and few rows keep the memory busy.
//
// Along the tree (TREE) a lane sweeps runs of ITEMS up and down instead, as in Brent and Kung's tree (1982). What stands before a run
// comes of a counter of block sums. A TEAM of warps takes the runs of 32 columns by turns.
#include "walk_serving.cuh"
#include "thread.cuh"

// --- the warp that walks ------------------------------------------------------------------------------------------------

// N items of a lane's rows as they lie in a stage: of each input or component, then their heads.
template <int N, int I = 0> struct Items : Items<N, I + 1> { typename WalkedOf<I>::Load x[N][VECTOR]; };
template <int N> struct Items<N, SOURCES> { u8 head[N][VECTOR]; };

// What is taken of a stage for an item, and what is written.
typedef either<MAPPED, Item, Given>::type Taken;
typedef either<MAPPED, Item, Result>::type Written;

// Whether the stages at the ends of rows go ITEMS at once as far as they can. On an H200, 512 steps of 8 x 64 columns of f4 took 7.4
// us instead of 10.5; but gradients of f8 took 1.05 of the time, segments of bf16 1.02 to 1.04.
constexpr bool ENDS_AT_ONCE = !SEGMENTED && sizeof(typename Input<0>::Load) <= 4;

// Of doubles a costly operator is called: written out for each step of a run, it ran at .22 of a copy, so at .34 (H200).
constexpr How WALKING = COSTLY && sizeof(Item) > 4 ? CALLED : INLINE;

struct Walker {
  const Params& p;
  const Rows& rows;
  int lane;  // of all that walk; a lane's rows lie ABREAST apart
  char* counter;
  Item start[VECTOR];
  Prefix state[VECTOR];
  Sum<SUMS && !MAPPED> sum[VECTOR];  // of a stage's results
  Given still[VECTOR];  // of which the inputs that serve whole rows are read
  int in_at[SOURCES], out_at[OUTPUTS], heads_at;  // by which its rows are found in a stage: `lane`, or their place in a first line

  __device__ __forceinline__ int row(int v) const { return LINED ? lane * VECTOR + v : column_of(v * ABREAST + lane); }

  // One step of one row: the results for the item, or the prefix that the serving warps finish.
  __device__ __forceinline__ Item prefix(int v, const Item& x, bool head) {
    Item before = SEGMENTED ? select(head, start[v], state[v].value) : state[v].value;
    fold<WALKING>(state[v], element(x, head), start[v]);
    return EXCLUSIVE ? before : state[v].value;
  }
  template <class T> __device__ __forceinline__ auto step(int v, const T& x, bool head, i64 j) {
    if constexpr (MAPPED) return prefix(v, x, head);
    else return Finish()(prefix(v, Map()(x, index_of(p, j)), head), x, index_of(p, j));
  }


  // Of the lane's column: what stands before a run; for each level of the counter, the sum of a block of runs and what stands before
  // that; and bits that say whether segments start in these blocks.
  __device__ __forceinline__ Item& kept(int slot) const { return ((Item*)counter)[slot * 32 * WALKERS + lane]; }
  __device__ __forceinline__ u32& kept_heads() const { return ((u32*)counter)[lane - 32 * WALKERS]; }

  // The prefix behind run t, whose sum completes as many blocks as t ends with ones.
  __device__ __forceinline__ Prefix behind(u32 t, Element sum, Prefix before) const {
    u32 heads = 0;
    if (SEGMENTED && t > 0) heads = kept_heads();
    int level = 0;
#pragma unroll 1
    for (; t >> level & 1; level++) {
      sum = combine(element(kept(2 * level + 1), heads >> level & 1), sum);
      before.value = kept(2 * level + 2);
    }
    kept(2 * level + 1) = sum.value;
    kept(2 * level + 2) = before.value;
    if (SEGMENTED) kept_heads() = (heads & ~(1u << level)) | (u32)head_of(sum) << level;
    before.some = INITIAL || (t & (t + 1)) != 0;
    fold_where(true, before, sum, start[0]);
    return before;
  }
  // Run t along the tree. It waits for its turn only for what stands before it.
  template <int N> __device__ __forceinline__ void walk_run(char* stage, u32 t, u64* turn, u64* next, u32 parity) const {
    const i64 j = (i64)t * N;
    Items<N> items;
    read<N>(stage, 0, items);
    Item x[N];
    u32 heads = 0;
#pragma unroll
    for (int k = 0; k < N; k++) {
      x[k] = Map()(taken(items, k, 0, false), index_of(p, j + k));
      if constexpr (SEGMENTED) heads |= (items.head[k][0] != 0 ? 1u : 0u) << k;
    }
    if (t == 0) heads &= ~1u;  // a row starts its first segment anyway
    u32 swept = heads;
    up_sweep(x, swept);
    if (TEAM > 1 && t > 0) barrier_wait(turn, parity);
    Prefix before = {start[0], INITIAL || t > 0};
    if (t > 0) before.value = kept(0);
    const Prefix after = behind(t, element(x[N - 1], swept >> (N - 1) & 1), before);
    kept(0) = after.value;
    if constexpr (TEAM > 1) arrive(next, threadIdx.x % 32);
    results(x, heads, swept, before, after.value, start[0]);
    Written y[N][1];
#pragma unroll
    for (int k = 0; k < N; k++) y[k][0] = Finish()(x[k], taken(items, k, 0, false), index_of(p, j + k));
    write<N>(stage, 0, y);
  }
  // The runs of warp `own` of a team, whose warps take runs by turns: each is a stage.
  template <int N> __device__ __forceinline__ void run_along_tree(Ring& ring, char* memory, u64* turns, int own) {
    static_assert(STEPS == N && VECTOR == 1 && TEAM <= STAGES && AHEAD < 0 && !REDUCE, "shapes/walks.py says otherwise");
    begin();
    u32 parity = own == 0;
#pragma unroll 1
    for (u32 t = own; (i64)t * N < p.n; t += TEAM, parity ^= 1) {
      const u32 round = t / STAGES, s = t - round * STAGES;
      barrier_wait(&ring.full[s], round & 1);
      walk_run<N>(memory + s * STAGE_BYTES, t, turns + own, turns + (own + 1) % TEAM, parity);
      worked(&ring.done[s]);
    }
  }

  template <int N> __device__ __forceinline__ void read(const char* stage, int i, Items<N>& items) const {
    each<SOURCES>([&](auto n) {
      typedef WalkedOf<n.value> Source;
      if constexpr (!Source::still) Source::Patch::template read<N>(stage, in_at[n.value], i, static_cast<Items<N, n.value>&>(items).x);
    });
    if constexpr (SEGMENTED) Heads::read<N>(stage, heads_at, i, items.head);
  }
  template <int N> __device__ __forceinline__ Taken taken(const Items<N>& items, int k, int v, bool last) const {
    Taken x;
    each<SOURCES>([&](auto n) {
      constexpr int I = n.value;
      if constexpr (MAPPED) get<I>(x) = static_cast<const Items<N, I>&>(items).x[k][v];
      else if constexpr (Input<I>::still) get<I>(x) = get<I>(still[v]);
      else get<I>(x) = widened<typename Input<I>::Value>(static_cast<const Items<N, I>&>(items).x[k][v], (LINED ? v : k) % 2);
      if constexpr (I == AHEAD && !MAPPED) if (last) get<I>(x) = get<I>(start[v]);  // nothing lies behind it
    });
    return x;
  }
  template <int N> __device__ __forceinline__ void write(char* stage, int i, const Written (&y)[N][VECTOR]) const {
    if constexpr (MAPPED)
      each<COMPONENTS>([&](auto c) {
        if constexpr (Component<c.value>::kept) {
          typename Component<c.value>::Acc part[N][VECTOR];
#pragma unroll
          for (int k = 0; k < N; k++)
#pragma unroll
            for (int v = 0; v < VECTOR; v++) part[k][v] = get<c.value>(y[k][v]);
          Part<c.value>::template write<N>(stage, lane, i, part);
        }
      });
    else if constexpr (!REDUCE)
      each<RESULTS>([&](auto o) {
        typename Output<o.value>::Store part[N][VECTOR];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
          for (int v = 0; v < VECTOR; v++) part[k][v] = convert<typename Output<o.value>::Store>(get<o.value>(y[k][v]));
        Out<o.value>::template write<N>(stage, out_at[o.value], i, part);
      });
  }

  // N items: the items of the next step are read before these are worked on, and before results are written in their place.
  template <bool HEADS, int N> __device__ __forceinline__ void walk(char* stage, i64 j, int i, const Items<N>& items, bool last = false) {
    Written y[N][VECTOR];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) y[k][v] = step(v, taken(items, k, v, last), HEADS && items.head[k][v] != 0, j + i + k);
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) sum[v].add(y[k][v]);
    write<N>(stage, i, y);
  }
  // The sums of the stage that began with item j.
  __device__ __forceinline__ void write_sums(i64 j) {
    if constexpr (SUMS && !MAPPED)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) {
        char* base = p.out[OUTPUTS - 1] + row_offset(p, p.out_strides[OUTPUTS - 1], ACROSS ? rows.row : rows.row + row(v));
        sum[v].write(p, base, j / STEPS, ACROSS ? (int)rows.column + row(v) : 0, row(v) < rows.count);
      }
  }
  // A stage whose first items have been read. It reads the first items of the next stage, which may have to land first. HEADS:
  // segments may start in it.
  template <bool HEADS> __device__ __forceinline__ void walk_stage(char* stage, i64 j, bool more, char* next, u64* full, u32 parity, Items<ITEMS> (&x)[2]) {
    bool landed = barrier_passed(full, parity) || !more;
#pragma unroll
    for (int i = 0; i < STEPS; i += ITEMS) {
      int now = i / ITEMS % 2;
      if (i + ITEMS < STEPS) read<ITEMS>(stage, i + ITEMS, x[now ^ 1]);
      else {
        if (!landed) barrier_wait(full, parity);
        read<ITEMS>(next, 0, x[now ^ 1]);  // of the last stage its own, which nobody uses
      }
      walk<HEADS>(stage, j, i, x[now]);
    }
  }
  // A stage at either end of the rows: their first and last items, and those behind the last whole ITEMS, go one by one.
  __device__ __forceinline__ void walk_some(char* stage, i64 j, int m) {
    int i = 0;
#pragma unroll 1
    while (i < m) {
      if (ENDS_AT_ONCE && i % ITEMS == 0 && j + i > 0 && j + i + ITEMS < p.n && i + ITEMS <= m) {
        Items<ITEMS> x;
        read<ITEMS>(stage, i, x);
        for (int v = 0; v < VECTOR; v++) state[v].some = true;
        walk<SEGMENTED>(stage, j, i, x);
        i += ITEMS;
        continue;
      }
      Items<1> x;
      read<1>(stage, i, x);
      if (SEGMENTED && j + i == 0)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x.head[0][v] = 0;
      walk<SEGMENTED>(stage, j, i, x, j + i == p.n - 1);
      i++;
    }
  }

  // Of an array whose lines begin anywhere, ANYWHERE.
  __device__ __forceinline__ int place_in(char* array, const Strides& s, int size) const {
    return ANYWHERE ? ((int)(u64)lines_of(p, array, s, rows, size, lane).base & 15) + lane * size : lane;
  }
  __device__ __forceinline__ void begin() {
    each<SOURCES>([&](auto n) {
      if constexpr (MAPPED) in_at[n.value] = lane;
      else in_at[n.value] = place_in(p.in[n.value], p.in_strides[n.value], sizeof(typename Input<n.value>::Load));
    });
    each<OUTPUTS>([&](auto o) { out_at[o.value] = place_in(p.out[o.value], p.out_strides[o.value], sizeof(typename Output<o.value>::Store)); });
    if constexpr (SEGMENTED) heads_at = place_in(p.heads, p.heads_strides, 1);
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = min(row(v), rows.count - 1);
      start[v] = {};
      if (INITIAL || EXCLUSIVE || AHEAD >= 0) start[v] = start_at(p, rows, at);
      state[v] = {start[v], INITIAL};
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::still && !MAPPED) get<i.value>(still[v]) = still_at<i.value>(p, rows, at);
      });
    }
  }
  __device__ __forceinline__ void run(Ring& ring, char* memory) {
    static_assert((TREE || STEPS / ITEMS % 2 == 0) && STAGES % SERVERS == 0 && STAGES > 1, "shapes/walks.py says otherwise");
    begin();
    Turn turn;
    i64 j = 0;
    walk_slowly(ring, memory, turn, j);  // nothing may stand before the first item
#pragma unroll
    for (int v = 0; v < VECTOR; v++) state[v].some = true;
    constexpr int REST = AHEAD >= 0 && !MAPPED;  // the last item is not one of many
    if (j + STEPS + REST <= p.n) {
      Items<ITEMS> x[2];
      barrier_wait(&ring.full[turn.stage], turn.parity);
      read<ITEMS>(memory + turn.stage * STAGE_BYTES, 0, x[0]);
      for (; j + STEPS + REST <= p.n; j += STEPS) {
        Turn now = turn;
        turn.next();
        bool more = j + 2 * STEPS + REST <= p.n;
        char *stage = memory + now.stage * STAGE_BYTES, *next = memory + (more ? turn : now).stage * STAGE_BYTES;
        u64* full = &ring.full[turn.stage];
        if (SEGMENTED && ring.heads[now.stage]) walk_stage<SEGMENTED>(stage, j, more, next, full, turn.parity, x);
        else walk_stage<false>(stage, j, more, next, full, turn.parity, x);
        worked(&ring.done[now.stage]);
        write_sums(j);
      }
    }
    if (j < p.n) walk_slowly(ring, memory, turn, j);
    if (REDUCE) end();
  }
  // When all lanes that walk have read and written.
  __device__ __forceinline__ void worked(u64* done) const {
    __syncwarp(ABREAST == 32 ? ~0u : (1u << ABREAST) - 1);
    if (threadIdx.x % 32 == 0) barrier_arrive(done);
  }
  __device__ __forceinline__ void walk_slowly(Ring& ring, char* memory, Turn& turn, i64& j) {
    barrier_wait(&ring.full[turn.stage], turn.parity);
    walk_some(memory + turn.stage * STAGE_BYTES, j, (int)min(p.n - j, (i64)STEPS));
    worked(&ring.done[turn.stage]);
    write_sums(j);
    turn.next();
    j += STEPS;
  }
  __device__ __forceinline__ void end() const {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = row(v);
      if (at >= rows.count) continue;
      Result y = Finish()(state[v].value, {}, 0);
      each<OUTPUTS>([&](auto o) {
        typedef typename Output<o.value>::Store Store;
        char* to = p.out[o.value] + row_offset(p, p.out_strides[o.value], ACROSS ? rows.row : rows.row + at);
        if (ACROSS) to += (rows.column + at) * (i64)sizeof(Store);
        store_item<Store, Output<o.value>::reduced_grain>(to, convert<Store>(get<o.value>(y)));
      });
    }
  }
};

// A warp that walks has a scheduler to itself (APART): every fourth warp shares it, and does nothing.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_walk(const __grid_constant__ Params p) {
  await_marks();
  extern __shared__ __align__(128) char memory[];
  __shared__ Ring ring;
  __shared__ u64 turns[TREE ? WALKERS * TEAM : 1];
  if (threadIdx.x == 0) {
    ring.init();
    for (int w = 0; TREE && w < WALKERS * TEAM; w++) barrier_init(&turns[w], 1);
  }
  __syncthreads();  // all barriers are there
  Rows rows = rows_of(p, blockIdx.x);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < WALKERS * TEAM) {
    const int group = warp % WALKERS;
    Walker walker{p, rows, group * 32 * VECTOR + lane, memory + STAGES * STAGE_BYTES + HEADS_BYTES};
    if constexpr (TREE) walker.run_along_tree<ITEMS>(ring, memory, turns + group * TEAM, warp / WALKERS);
    else if (lane < ABREAST) walker.run(ring, memory);
  } else if (!APART || warp % 4) Server{p, rows, ring, memory, warp - WALKERS * TEAM - (APART ? warp / 4 : 0), lane}.run();
}
