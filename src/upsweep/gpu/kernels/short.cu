// Scans along a short axis whose neighbours in memory belong to other scans. A lane holds whole rows in registers, VECTOR
// neighbours at a time. So nothing is shared and nobody waits.
#include "params.cuh"
#include "memory.cuh"
#include "thread.cuh"

struct Thread {
  const Params& p;
  u64 row;
  i64 column;

  template <int I> __device__ __forceinline__ void read(Given (&given)[VECTOR][ITEMS]) const {
    typedef typename Input<I>::Load Load;
    if constexpr (Input<I>::still) {
#pragma unroll
      for (int v = 0; v < VECTOR; v++) {
        auto value = still_item<I>(p, row, column + v);
#pragma unroll
        for (int k = 0; k < ITEMS; k++) get<I>(given[v][k]) = value;
      }
      return;
    }
    constexpr bool SAME = Input<I>::same;
    constexpr int N = SAME ? 1 : VECTOR, GRAIN = Input<I>::grain;
    const Strides& s = p.in_strides[I];
    const char* from = p.in[I] + row_offset(p, s, row) + (SAME ? 0 : column * (i64)sizeof(Load));
    struct alignas(N * sizeof(Load)) Run { Load x[N]; } part[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++, from += s.along) if (k < p.n) part[k] = load_item<Run, GRAIN>(from);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) get<I>(given[v][k]) = convert<typename Input<I>::Value>(part[k].x[v % N]);
  }

  template <int O> __device__ __forceinline__ void write(const Result (&y)[VECTOR][ITEMS]) const {
    typedef typename Output<O>::Store Store;
    constexpr int GRAIN = Output<O>::grain;
    const Strides& s = p.out_strides[O];
    char* to = p.out[O] + row_offset(p, s, row) + column * (i64)sizeof(Store);
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      struct alignas(VECTOR * sizeof(Store)) Run { Store x[VECTOR]; } part;
#pragma unroll
      for (int v = 0; v < VECTOR; v++) part.x[v] = convert<Store>(get<O>(y[v][k]));
      if (REDUCE ? k == p.n - 1 : k < p.n) store_item<Run, GRAIN>(to, part);
      if (!REDUCE) to += s.along;
    }
  }

  // Bit k is set where item k starts a segment; the first item starts one in any case.
  __device__ __forceinline__ u32 heads(int v) const {
    const char* from = p.heads + row_offset(p, p.heads_strides, row) + (column + v) * p.heads_column;
    u32 bits = 0;
#pragma unroll
    for (int k = 1; k < ITEMS; k++) if (k < p.n) bits |= (from[k * p.heads_strides.along] != 0 ? 1u : 0u) << k;
    return bits;
  }

  __device__ __forceinline__ void scan(Item (&x)[ITEMS], u32 heads, const Item& start) const {
    if constexpr (SEQUENTIAL) {
      Prefix state{start, INITIAL};
#pragma unroll
      for (int k = 0; k < ITEMS; k++) {
        bool head = SEGMENTED && heads >> k & 1;
        Item before = SEGMENTED ? select(head, start, state.value) : state.value;
        fold(state, element(x[k], head), start);
        x[k] = EXCLUSIVE ? before : state.value;
      }
    } else {
      u32 swept = heads;
      up_sweep(x, swept);
      Prefix before{start, INITIAL}, after = before;
      fold(after, element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), start);
      results(x, heads, swept, before, after.value, start);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_short(const __grid_constant__ Params p) {
  i64 thread = (i64)blockIdx.x * THREADS + threadIdx.x;
  u64 row = p.rows == 1 ? 0 : thread / p.column_groups;
  if ((i64)row >= p.rows || thread - (i64)row * p.column_groups >= p.column_groups) return;
  Thread own{p, row, (thread - (i64)row * p.column_groups) * VECTOR};
  Given given[VECTOR][ITEMS];
  Result y[VECTOR][ITEMS];
  each<INPUTS>([&](auto i) { own.read<i.value>(given); });
#pragma unroll
  for (int v = 0; v < VECTOR; v++) {
    Item x[ITEMS], start = {};
    if (INITIAL || EXCLUSIVE) start = start_of(p, row, own.column + v);
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = Map()(given[v][k], index_of(p, k));
    own.scan(x, SEGMENTED ? own.heads(v) : 0, start);
#pragma unroll
    for (int k = 0; k < ITEMS; k++) y[v][k] = Finish()(x[k], given[v][k], index_of(p, k));
  }
  each<OUTPUTS>([&](auto o) { own.write<o.value>(y); });
}
