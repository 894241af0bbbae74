// Scans in order: y[i] = y[i-1] + x[i], one item after the other, a lane a row. One warp walks 32 * VECTOR rows. SERVERS other
// warps bring its items through a ring of stages in shared memory and take the results away. So the walking warp waits for
// arithmetic only, and few rows keep the memory busy.
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

// What a lane of a serving warp has asked for: of each input, then of the heads.
template <int I> struct Asked : Asked<I + 1> { typename In<I>::Asked items; };
template <> struct Asked<INPUTS> { Heads::Asked heads; };

// The warps that bring items and take results away: warp w every chunk whose number leaves w by SERVERS, which divides STAGES.
struct Server {
  const Params& p;
  const Rows& rows;
  Ring& ring;
  char* memory;
  int warp, lane;
  Lines in[INPUTS], out[OUTPUTS], heads;

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
  __device__ __forceinline__ void run() {
    each<INPUTS>([&](auto i) {
      if constexpr (!Input<i.value>::still)
        in[i.value] = lines_of(p, p.in[i.value], p.in_strides[i.value], rows, Input<i.value>::alone ? 0 : In<i.value>::SIZE, lane);
    });
    each<OUTPUTS>([&](auto o) { out[o.value] = lines_of(p, p.out[o.value], p.out_strides[o.value], rows, Out<o.value>::SIZE, lane); });
    if (SEGMENTED) heads = lines_of(p, p.heads, p.heads_strides, rows, p.heads_column, lane);
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
        if constexpr (!REDUCE)
          each<OUTPUTS>([&](auto o) { Out<o.value>::take(stage, out[o.value], p.out_strides[o.value].along, before, m, rows.count, lane); });
        __syncwarp();  // results have been read before anything lands on them
      }
      if (k < chunks) {
        each_source(asked, j, [&](auto& items, auto patch, const Lines& at, i64 along, int m, int skip) { patch.bring(items, stage, at, along, j, m, rows.count, lane, skip); });
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

// --- the warp that walks ------------------------------------------------------------------------------------------------

// N items of a lane's rows as they lie in a stage: of each input, then their heads.
template <int N, int I = 0> struct Items : Items<N, I + 1> { typename Input<I>::Load x[N][VECTOR]; };
template <int N> struct Items<N, INPUTS> { u8 head[N][VECTOR]; };

struct Walker {
  const Params& p;
  const Rows& rows;
  int lane;  // of all that walk; a lane's rows lie ABREAST apart
  Item start[VECTOR];
  Prefix state[VECTOR];
  Given still[VECTOR];  // of which the inputs that serve whole rows are read

  __device__ __forceinline__ int row(int v) const { return LINED ? lane * VECTOR + v : v * ABREAST + lane; }

  // One step of one row: the results for the item.
  __device__ __forceinline__ Result step(int v, const Given& x, bool head, i64 j) {
    Item before = SEGMENTED ? select(head, start[v], state[v].value) : state[v].value;
    fold(state[v], element(Map()(x, index_of(p, j)), head), start[v]);
    return Finish()(EXCLUSIVE ? before : state[v].value, x, index_of(p, j));
  }

  template <int N> __device__ __forceinline__ void read(const char* stage, int i, Items<N>& items) const {
    each<INPUTS>([&](auto n) {
      if constexpr (!Input<n.value>::still) In<n.value>::template read<N>(stage, lane, i, static_cast<Items<N, n.value>&>(items).x);
    });
    if constexpr (SEGMENTED) Heads::read<N>(stage, lane, i, items.head);
  }
  template <int N> __device__ __forceinline__ Given given(const Items<N>& items, int k, int v, bool last) const {
    Given x;
    each<INPUTS>([&](auto n) {
      constexpr int I = n.value;
      if constexpr (Input<I>::still) get<I>(x) = get<I>(still[v]);
      else get<I>(x) = widened<typename Input<I>::Value>(static_cast<const Items<N, I>&>(items).x[k][v], (LINED ? v : k) % 2);
      if constexpr (I == AHEAD) if (last) get<I>(x) = get<I>(start[v]);  // nothing lies behind it
    });
    return x;
  }
  template <int N> __device__ __forceinline__ void write(char* stage, int i, const Result (&y)[N][VECTOR]) const {
    if constexpr (!REDUCE)
      each<OUTPUTS>([&](auto o) {
        typename Output<o.value>::Store part[N][VECTOR];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
          for (int v = 0; v < VECTOR; v++) part[k][v] = convert<typename Output<o.value>::Store>(get<o.value>(y[k][v]));
        Out<o.value>::template write<N>(stage, lane, i, part);
      });
  }

  // N items: the items of the next step are read before these are worked on, and before results are written in their place.
  template <bool HEADS, int N> __device__ __forceinline__ void walk(char* stage, i64 j, int i, const Items<N>& items, bool last = false) {
    Result y[N][VECTOR];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) y[k][v] = step(v, given(items, k, v, last), HEADS && items.head[k][v] != 0, j + i + k);
    write<N>(stage, i, y);
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
  __device__ __forceinline__ void walk_some(char* stage, i64 j, int m) {
#pragma unroll 1
    for (int i = 0; i < m; i++) {
      Items<1> x;
      read<1>(stage, i, x);
      if (SEGMENTED && j + i == 0)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x.head[0][v] = 0;
      walk<SEGMENTED>(stage, j, i, x, j + i == p.n - 1);
    }
  }

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = min(row(v), rows.count - 1);
      start[v] = {};
      if (INITIAL || EXCLUSIVE || AHEAD >= 0) start[v] = ACROSS ? start_of(p, rows.row, rows.column + at) : start_of(p, rows.row + at, 0);
      state[v] = {start[v], INITIAL};
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::still)
          get<i.value>(still[v]) = ACROSS ? still_item<i.value>(p, rows.row, rows.column + at) : still_item<i.value>(p, rows.row + at);
      });
    }
  }
  __device__ __forceinline__ void run(Ring& ring, char* memory) {
    static_assert(STEPS / ITEMS % 2 == 0 && STAGES % SERVERS == 0 && STAGES > 1, "lanes.py counts otherwise");
    begin();
    Turn turn;
    i64 j = 0;
    walk_slowly(ring, memory, turn, j);  // nothing may stand before the first item
#pragma unroll
    for (int v = 0; v < VECTOR; v++) state[v].some = true;
    constexpr int REST = AHEAD >= 0;  // the last item is not one of many
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
  extern __shared__ __align__(128) char memory[];
  __shared__ Ring ring;
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  Rows rows = rows_of(p, blockIdx.x);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < WALKERS) {
    if (lane < ABREAST) Walker{p, rows, warp * 32 * VECTOR + lane}.run(ring, memory);
  } else if (!APART || warp % 4) Server{p, rows, ring, memory, warp - WALKERS - (APART ? warp / 4 : 0), lane}.run();
}
