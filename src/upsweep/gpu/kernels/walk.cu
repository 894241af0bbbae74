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

// The warps that bring items and take results away: warp w every chunk whose number leaves w by SERVERS, which divides STAGES.
__device__ __forceinline__ void serve(const Params& p, const Rows& rows, Ring& ring, char* memory, int warp, int lane) {
  Lines in[INPUTS], out[OUTPUTS], heads{};
  each<INPUTS>([&](auto i) {
    if constexpr (!Input<i.value>::still)
      in[i.value] = lines_of(p, p.in[i.value], p.in_strides[i.value], rows, Input<i.value>::alone ? 0 : In<i.value>::SIZE, lane);
  });
  each<OUTPUTS>([&](auto o) { out[o.value] = lines_of(p, p.out[o.value], p.out_strides[o.value], rows, Out<o.value>::SIZE, lane); });
  if (SEGMENTED) heads = lines_of(p, p.heads, p.heads_strides, rows, p.heads_column, lane);
  i64 chunks = (p.n + STEPS - 1) / STEPS;
  u32 parity = 1;
  int s = warp;
  for (i64 k = warp; k < chunks + STAGES; k += SERVERS) {
    char* stage = memory + s * STAGE_BYTES;
    if (k >= STAGES && k - STAGES < chunks) {
      barrier_wait(&ring.done[s], parity);
      i64 j = (k - STAGES) * STEPS;
      int m = (int)min(p.n - j, (i64)STEPS);
      if constexpr (!REDUCE)
        each<OUTPUTS>([&](auto o) { Out<o.value>::take(stage, out[o.value], p.out_strides[o.value].along, j, m, rows.count, lane); });
      __syncwarp();  // results have been read before anything lands on them
    }
    if (k < chunks) {
      i64 j = k * STEPS;
      int m = (int)min(p.n - j, (i64)STEPS);
      each<INPUTS>([&](auto i) {
        int exist = i.value == AHEAD && j + m == p.n ? m - 1 : m;
        if constexpr (!Input<i.value>::still) In<i.value>::bring(stage, in[i.value], p.in_strides[i.value].along, j, exist, rows.count, lane);
      });
      // In a reverse scan the head of the first item lies outside, and heads come one by one. That item starts a segment in any
      // case.
      if (SEGMENTED) Heads::bring(stage, heads, p.heads_strides.along, j, m, rows.count, lane, HEADS_GRAIN == 1 && j < p.heads_first);
      barrier_arrive_with_copies(&ring.full[s]);
      barrier_arrive(&ring.full[s]);
    }
    s += SERVERS;
    if (s >= STAGES) { s -= STAGES; parity ^= 1; }
  }
}

// --- the warp that walks ------------------------------------------------------------------------------------------------

struct Walker {
  const Params& p;
  const Rows& rows;
  int lane;
  Item start[VECTOR];
  Prefix state[VECTOR];
  Given still[VECTOR];  // of which the inputs that serve whole rows are read

  // One step of one row: the results for the item.
  __device__ __forceinline__ Result step(int v, const Given& x, bool head, i64 j) {
    Item before = SEGMENTED ? select(head, start[v], state[v].value) : state[v].value;
    fold(state[v], element(Map()(x, index_of(p, j)), head), start[v]);
    return Finish()(EXCLUSIVE ? before : state[v].value, x, index_of(p, j));
  }

  template <int N> __device__ __forceinline__ void read(const char* stage, int i, Given (&x)[N][VECTOR], bool (&head)[N][VECTOR]) const {
    each<INPUTS>([&](auto n) {
      typename Input<n.value>::Load part[N][VECTOR];
      if constexpr (!Input<n.value>::still) In<n.value>::template read<N>(stage, lane, i, part);
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
          if constexpr (Input<n.value>::still) get<n.value>(x[k][v]) = get<n.value>(still[v]);
          else get<n.value>(x[k][v]) = convert<typename Input<n.value>::Value>(part[k][v]);
        }
    });
    if constexpr (SEGMENTED) {
      u8 flag[N][VECTOR];
      Heads::read<N>(stage, lane, i, flag);
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) head[k][v] = flag[k][v] != 0;
    }
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
  template <int N> __device__ __forceinline__ void walk(char* stage, i64 j, int i, const Given (&x)[N][VECTOR], const bool (&head)[N][VECTOR]) {
    Result y[N][VECTOR];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) y[k][v] = step(v, x[k][v], SEGMENTED && head[k][v], j + i + k);
    write<N>(stage, i, y);
  }
  // A stage whose first items have been read. It reads the first items of the next stage, which may have to land first.
  __device__ __forceinline__ void walk_stage(char* stage, i64 j, char* next, u64* full, u32 parity, Given (&x)[2][ITEMS][VECTOR], bool (&head)[2][ITEMS][VECTOR]) {
#pragma unroll
    for (int i = 0; i < STEPS; i += ITEMS) {
      int now = i / ITEMS % 2;
      if (i + ITEMS < STEPS) read<ITEMS>(stage, i + ITEMS, x[now ^ 1], head[now ^ 1]);
      else if (next) { barrier_wait(full, parity); read<ITEMS>(next, 0, x[now ^ 1], head[now ^ 1]); }
      walk<ITEMS>(stage, j, i, x[now], head[now]);
    }
  }
  __device__ __forceinline__ void walk_some(char* stage, i64 j, int m) {
#pragma unroll 1
    for (int i = 0; i < m; i++) {
      Given x[1][VECTOR]; bool head[1][VECTOR];
      read<1>(stage, i, x, head);
      if (AHEAD >= 0 && j + i == p.n - 1)  // nothing lies behind it
#pragma unroll
        for (int v = 0; v < VECTOR; v++)
          each<INPUTS>([&](auto c) { if constexpr (c.value == AHEAD) get<c.value>(x[0][v]) = get<c.value>(start[v]); });
      if (SEGMENTED && j + i == 0)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) head[0][v] = false;
      walk<1>(stage, j, i, x, head);
    }
  }

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = min(lane * VECTOR + v, rows.count - 1);
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
      Given x[2][ITEMS][VECTOR]; bool head[2][ITEMS][VECTOR];
      barrier_wait(&ring.full[turn.stage], turn.parity);
      read<ITEMS>(memory + turn.stage * STAGE_BYTES, 0, x[0], head[0]);
      for (; j + STEPS + REST <= p.n; j += STEPS) {
        Turn now = turn;
        turn.next();
        char* next = j + 2 * STEPS + REST <= p.n ? memory + turn.stage * STAGE_BYTES : nullptr;
        walk_stage(memory + now.stage * STAGE_BYTES, j, next, &ring.full[turn.stage], turn.parity, x, head);
        barrier_arrive(&ring.done[now.stage]);
      }
    }
    if (j < p.n) walk_slowly(ring, memory, turn, j);
    if (REDUCE) end();
  }
  __device__ __forceinline__ void walk_slowly(Ring& ring, char* memory, Turn& turn, i64& j) {
    barrier_wait(&ring.full[turn.stage], turn.parity);
    walk_some(memory + turn.stage * STAGE_BYTES, j, (int)min(p.n - j, (i64)STEPS));
    barrier_arrive(&ring.done[turn.stage]);
    turn.next();
    j += STEPS;
  }
  __device__ __forceinline__ void end() const {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = lane * VECTOR + v;
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

extern "C" __global__ void __launch_bounds__(32 + 32 * SERVERS, BLOCKS) upsweep_walk(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Ring ring;
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  Rows rows = rows_of(p, blockIdx.x);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) Walker{p, rows, lane}.run(ring, memory);
  else serve(p, rows, ring, memory, warp - 1, lane);
}
