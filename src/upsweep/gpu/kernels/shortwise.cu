// Scans of short rows whose neighbours lie otherwise in the results than in the input: a block brings a tile that has whole rows to
// shared memory, where a thread scans one of them, or a word of some side by side, in registers. Results take the items' places.
#include "bring_runs.cuh"
#include "short_rows.cuh"

typedef typename Input<0>::Load Load;
typedef typename Output<0>::Store Store;
// Rows that are a word: neighbours along A.
constexpr int EACH = sizeof(Load) / SIZE, OWN_GRAIN = EACH > 1 ? (int)sizeof(Load) : GRAIN;
// Rows of a tile: neighbours along one side of the two that are not the axis, and along the other.
constexpr u32 NEAR = AXIS == A ? TILE_B : TILE_A / EACH, FAR = AXIS == M ? TILE_B : TILE_M;

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_shortwise(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const Part part(p);
  const Tile tile(p, part);
  tile.load(memory);
  const Heads heads = SEGMENTED ? listed_heads(p) : 0;
  const Item start = INITIAL || EXCLUSIVE ? start_of(p, 0) : Item{};
  wait_copies<0>();
  __syncthreads();  // the tile is there
#pragma unroll 1
  for (u32 row = threadIdx.x; row < NEAR * FAR; row += THREADS) {
    const u32 near = row % NEAR, far = row / NEAR;
    const int a = AXIS == A ? 0 : near * EACH, m = AXIS == M ? 0 : far, b = AXIS == A ? near : AXIS == M ? far : 0;
    if (a >= part.a || m >= part.m || b >= part.b) continue;
    auto place = [&](int k) {
      const u32 at_m = AXIS == M ? k : m, at_b = AXIS == B ? k : b;
      const int phase = OWN_GRAIN < WORD ? tile.phase(at_m, at_b) : 0;
      return memory + Tile::padded(tile.place(at_m, at_b) + phase + (AXIS == A ? k : a) * IN_A);
    };
    Item x[ITEMS] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k++) x[k] = {convert<typename Component<0>::Acc>(load_item<Load, OWN_GRAIN>(place(k)))};
    scan_row(x, heads, start);
#pragma unroll
    for (int k = 0; k < LENGTH; k++) store_item<Store, OWN_GRAIN>(place(k), convert<Store>(x[k].head));
  }
  __syncthreads();  // all rows have their results
  write_runs(p, part, tile, memory);
}
