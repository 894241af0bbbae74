// Scans of many short rows: each aligned group of LANES lanes scans a row by itself, and as many warps as fit hide the
// latency, as in a copy kernel.
#include "region.cuh"
#include "thread.cuh"
#include "warp.cuh"

typedef Region<LANES, ITEMS> RowRegion;
static_assert(SHARED_BYTES == WARPS * RowRegion::WARP_BYTES, "launch.py counts otherwise");

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) upsweep_rows(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, within = lane % LANES;
  i64 row = ((i64)blockIdx.x * WARPS + warp) * (32 / LANES) + lane / LANES;
  bool exists = row < p.rows;
  if (!exists) row = p.rows - 1;  // stays for the shuffles, writes nothing
  RowRegion region{memory + warp * RowRegion::WARP_BYTES, lane};
  region.load(p, row, 0);
  commit_copies();
  Item start = {};
  if (INITIAL || EXCLUSIVE) start = start_of(p, row);
  wait_copies<0>();
  __syncwarp();  // every lane's copies have landed
  Item x[ITEMS]; Element left[5];
  u32 heads = region.read(p, row, 0, x), swept = heads;
  up_sweep(x, swept);
  Element sum = up_sweep<LANES>(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), within, left);
  Prefix before{start, INITIAL}, after = before;
  if (!EXCLUSIVE) fold(after, sum, start);
  down_sweep<LANES>(before, within, left, start);
  Item next = from_next(before.value);
  if (within == LANES - 1) next = after.value;
  results(x, heads, swept, before, next, start);
  if constexpr (REDUCE) {
    if (exists) store_reduction<LANES>(p, row, within * ITEMS, x);
  } else {
    __syncwarp();  // all lanes have read their runs
    region.write(x);
    __syncwarp();  // all lanes have written theirs
    if (exists) region.store(p, row, 0);
  }
}
