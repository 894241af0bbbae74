// Scans of many rows that fit in shared memory: an aligned group of LANES lanes scans a row by itself, or ROW_WARPS warps
// together, and as many blocks as fit hide the latency, as in a copy kernel.
#include "region.cuh"
#include "thread.cuh"
#include "warp.cuh"

typedef Region<LANES, ITEMS> RowRegion;
static_assert(SHARED_BYTES == WARPS * RowRegion::WARP_BYTES, "launch.py counts otherwise");

// The prefix of this warp's part of the row, and the prefix of what follows it.
__device__ __forceinline__ void meet(const Element& sum, int warp, int lane, const Item& start, Prefix& before, Prefix& after) {
  constexpr int PLACES = 1 << log2_of(2 * ROW_WARPS - 1);
  __shared__ Element sums[WARPS];
  int part = warp % ROW_WARPS;
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  Element swept = up_sweep<PLACES>(sums[warp - part + min(lane % PLACES, ROW_WARPS - 1)], lane);
  Prefix p = before;
  down_sweep<PLACES>(p, lane % PLACES, swept, start);  // of part number `lane`
  if (part + 1 < PLACES) after.value = from_lane(p.value, part + 1);
  else fold(after, from_lane<PLACES>(swept, PLACES - 1), start);
  before = {from_lane(p.value, part), INITIAL || part > 0};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) upsweep_rows(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, within = lane % LANES;
  i64 row = ((i64)blockIdx.x * (WARPS / ROW_WARPS) + warp / ROW_WARPS) * (32 / LANES) + lane / LANES;
  i64 j = warp % ROW_WARPS * (LANES * ITEMS);
  bool exists = row < p.rows;
  if (!exists) row = p.rows - 1;  // stays for the shuffles, writes nothing
  RowRegion region{memory + warp * RowRegion::WARP_BYTES, lane};
  region.load(p, row, j);
  commit_copies();
  Item start = {};
  if (INITIAL || EXCLUSIVE) start = start_of(p, row);
  wait_copies<0>();
  __syncwarp();  // every lane's copies have landed
  Item x[ITEMS];
  u32 heads = region.read_items(p, row, j, x), swept = heads;
  up_sweep(x, swept);
  Element sums = up_sweep<LANES>(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), within);
  Prefix before{start, INITIAL}, after = before;
  if constexpr (ROW_WARPS > 1) meet(sums, warp, lane, start, before, after);
  else if (!EXCLUSIVE) fold(after, sums, start);
  down_sweep<LANES>(before, within, sums, start);
  Item next = from_next(before.value);
  if (within == LANES - 1) next = after.value;
  results(x, heads, swept, before, next, start);
  if constexpr (REDUCE) {
    if (exists) store_reduction<LANES>(p, row, j + within * ITEMS, x);
  } else {
    region.write(p, row, j, x);
    __syncwarp();  // all lanes have written theirs
    if (exists) region.store(p, row, j);
  }
}
