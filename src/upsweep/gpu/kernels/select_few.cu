// Selection from few tiles, in one launch: each block counts by itself what the tiles before its own keep, and all of them. So nobody
// waits, and no memory lies between blocks. The results and the names are those of select.cu.
#include "kept_tile.cuh"

// What decides which items of a tile a lane keeps.
struct Look {
#if RUNS || TEST
  Items x;
  KEY edge;
  __device__ __forceinline__ void ask(const Select& p, i64 from, int lane) {
    if (RUNS && lane == 0 && from > 0 && from <= p.n) edge = p.x[from - 1];
    load_items(x, p, from, FULL);
  }
  __device__ __forceinline__ u32 marks(const Select& p, i64 from, int lane) const { return kept_of(x, edge, p, from, lane); }
#else
  Pack<u8, VECTOR> flags[LINES];
  __device__ __forceinline__ void ask(const Select& p, i64 from, int) {
    const bool all = from >= 0 && from + (LINES - 1) * LINE + VECTOR <= p.n;
#pragma unroll
    for (int k = 0; k < LINES; k++) {
      const i64 at = from + k * LINE;
      if (all) flags[k].load(p.flags + at); else flags[k].load_some(p.flags + at, -at, p.n - at);
    }
  }
  __device__ __forceinline__ u32 marks(const Select&, i64, int) const {
    u32 mine = 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) mine |= bits_of(flags[k]) << k * VECTOR;
    return mine;
  }
#endif
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_select(const __grid_constant__ Select p) {
  constexpr int MANY = 4;  // tiles on their way at once
  __shared__ u32 befores[WARPS], totals[WARPS], lasts[WARPS];
  __shared__ Before shared_before;
  __shared__ i64 shared_kept;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const int t = blockIdx.x;
  const i64 from = first - p.skip;
  u32 mine = 0, before = 0, total = 0, last = 0;
#pragma unroll 1
  for (int g = 0; g < p.tiles; g += MANY) {
    Look look[MANY];
#pragma unroll
    for (int m = 0; m < MANY; m++) look[m].ask(p, from + (g + m) * TILE, lane);
#pragma unroll
    for (int m = 0; m < MANY; m++) {
      const u32 marks = look[m].marks(p, from + (g + m) * TILE, lane), count = __popc(marks);
      const u32 end = LENGTHS ? end_of(marks, first) : 0;
      total += count;
      if (g + m == t) mine = marks;
      if (g + m >= t) continue;
      before += count;
      if (end) last = (g + m) * TILE - p.skip + end;  // tiles come in their order
    }
  }
  before = __reduce_add_sync(FULL, before);
  total = __reduce_add_sync(FULL, total);
  if (lane == 0) { befores[warp] = before; totals[warp] = total; lasts[warp] = last; }
  __syncthreads();  // all warps have counted
  if (threadIdx.x == 0) {
    Before all = {0, 0};
    u32 kept = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      all.count += befores[w];
      kept += totals[w];
      all.last = max(all.last, (u64)lasts[w]);
    }
    shared_before = all;
    shared_kept = kept;
    if (t == 0) { *(volatile i64*)p.count = kept; __threadfence_system(); }
  }
  Items x;
  if (VALUES) load_items(x, p, from + (i64)t * TILE, REST ? FULL : mine);
  write_tile(p, t, mine, x, false, shared_before, shared_kept);
}
