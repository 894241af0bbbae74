// Reductions of rows that are one aligned block of the tree each, a row a block of threads. Only the up-sweep is needed. Lanes read
// what they sum straight from memory, STRIPS runs of at most 16 bytes of each input at once, and neighbouring lanes read neighbouring
// runs.
#include "params.cuh"
#include "thread.cuh"
#include "warp.cuh"

constexpr int STRIP = 32 * ITEMS;

// This lane's runs of one input; those of a warp lie one strip behind another.
template <int I> __device__ __forceinline__ void read(const Params& p, u64 row, i64 j, Given (&given)[STRIPS][ITEMS]) {
  typedef typename Input<I>::Load Load;
  typedef typename Input<I>::Value Value;
  if constexpr (Input<I>::still) {
    auto value = still_item<I>(p, row);
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int k = 0; k < ITEMS; k++) get<I>(given[s][k]) = value;
  } else {
    constexpr bool FLIP = Input<I>::flip;
    struct alignas(ITEMS * sizeof(Load)) Run { Load x[ITEMS]; } run[STRIPS];
    const char* from = p.in[I] + row_offset(p, p.in_strides[I], row);
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
      i64 first = j + s * STRIP;
      run[s] = *(const Run*)(from + (FLIP ? -(first + ITEMS - 1) : first) * (i64)sizeof(Load));
    }
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int k = 0; k < ITEMS; k++) get<I>(given[s][k]) = convert<Value>(run[s].x[FLIP ? ITEMS - 1 - k : k]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_sums(const __grid_constant__ Params p) {
  __shared__ Element sums[WARPS];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u64 row = blockIdx.x;
  i64 j = warp * STRIPS * STRIP + lane * ITEMS;
  Given given[STRIPS][ITEMS];
  each<INPUTS>([&](auto i) { read<i.value>(p, row, j, given); });
  Element e[STRIPS];
#pragma unroll
  for (int s = 0; s < STRIPS; s++) {
    Indices index(p, j + s * STRIP);
    Item x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = Map()(given[s][k], index[k]);
    u32 heads = 0;
    up_sweep(x, heads);
    e[s] = element(x[ITEMS - 1], false);
  }
  Element sum = up_sweep<STRIPS>(sums_of(e, lane), lane);
  if (lane == 31) sums[warp] = sum;
  __syncthreads();  // all warps have written their sums
  if (warp > 0) return;
  Item start = {};
  if (INITIAL) start = start_of(p, row);
  Prefix total{start, INITIAL};
  fold(total, up_sweep<WARPS>(sums[lane % WARPS], lane), start);
  if (lane == 31) store_last(p, row, total.value);
}
