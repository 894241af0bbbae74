// Selection by what items are, in one launch whose blocks all run at once. A block goes through a stretch of its own by groups, each
// of a warp. What a group keeps lies in shared memory until the counts of all blocks are there, or in memory aside once that is full.
// A group that keeps more than half and finds no room is read again, which costs as much. The host learns the length before
// anything is written. The rules and the results are those of select.cu.
#include "kept_tile.cuh"
#include "gathered.cuh"
#include "epochs.cuh"

constexpr int HALF = STRIP / 2;    // of a group's items: what a warp brings side by side at once
constexpr u32 ASIDE = 1u << 31, AGAIN = ~0u;  // where a group's items are: in memory aside, or in the input
constexpr int MANY = sizeof(KEY) > 4 ? 4 : 8;  // items of a lane on their way at once
static_assert(HALF * (int)sizeof(KEY) <= STAGE && (!LENGTHS || STRIP * 2 <= STAGE), "a warp has STAGE bytes for half of a group, and for all its places");

// What a block knows of each of its groups. A scan makes of counts and last places those of all groups before.
struct Groups { u32 *starts, *counts, *lasts; Marks* marks; };

__device__ __forceinline__ u32 max_to_lane(u32 x, int lane) {
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    const u32 left = __shfl_up_sync(FULL, x, s);
    if (lane >= s) x = max(x, left);
  }
  return x;
}

// By a warp. Gives the block's own sum, and 1 + its last place in the block, or 0.
struct Own { u32 count, last; };
__device__ __forceinline__ Own scan_groups(const Groups& of, int some, int lane) {
  Own own = {0, 0};
  for (int first = 0; first < some; first += 32) {
    const int g = first + lane;
    const u32 count = g < some ? of.counts[g] : 0, sum = sum_to_lane(count, lane);
    if (g < some) of.counts[g] = own.count + sum - count;
    own.count += __shfl_sync(FULL, sum, 31);
    if (!LENGTHS) continue;
    const u32 last = max(own.last, max_to_lane(g < some ? of.lasts[g] : 0, lane));
    const u32 before = __shfl_up_sync(FULL, last, 1);
    if (g < some) of.lasts[g] = lane ? before : own.last;
    own.last = __shfl_sync(FULL, last, 31);
  }
  if (lane == 0) of.counts[some] = own.count;
  return own;
}

// What the blocks before this one keep, 1 + the last place of it, or 0, and what all keep.
struct Sums { u32 before, last, all; };
__device__ __forceinline__ i64 first_group(const Params& p, i64 block) { return p.groups * block / gridDim.x; }
__device__ __forceinline__ u32 wait_for(const u64* node, u32 epoch) {
  u64 w;
  do w = read_count(node); while ((u32)(w >> 32) != epoch);
  return (u32)w;
}
__device__ __forceinline__ Sums sums_of(const Params& p, u32 epoch) {
  __shared__ Sums shared;
  if (threadIdx.x == 0) shared = {0, 0, 0};
  Sums sums = {0, 0, 0};
  for (int b = threadIdx.x; b < gridDim.x; b += THREADS) {
    const u32 count = wait_for(p.nodes + b, epoch), end = LENGTHS ? wait_for(p.nodes + gridDim.x + b, epoch) : 0;
    sums.all += count;
    if (b >= blockIdx.x) continue;
    sums.before += count;
    if (end) sums.last = (u32)(first_group(p, b) * STRIP - p.skip) + end;  // blocks come in their order
  }
  sums = {__reduce_add_sync(FULL, sums.before), __reduce_max_sync(FULL, sums.last), __reduce_add_sync(FULL, sums.all)};
  __syncthreads();  // the sums are zero
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&shared.before, sums.before);
    atomicMax(&shared.last, sums.last);
    atomicAdd(&shared.all, sums.all);
  }
  __syncthreads();  // the counts of all blocks are there
  return shared;
}

// Calls f(rank, the item's place in the group, the item's number in the lane) for each item of a lane that is kept.
template <class F> __device__ __forceinline__ void each_kept(u32 mine, const Ranks& ranks, int lane, F f) {
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    u32 to = ranks.place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) if (mine >> (k * VECTOR + j) & 1) f(to++, k * LINE + lane * VECTOR + j, k * VECTOR + j);
  }
}

// By a warp: so many items to their places.
__device__ __forceinline__ void move_items(KEY* to, const KEY* from, int some, int lane) {
  for (int first = lane; first < some; first += 32 * MANY) {
    KEY item[MANY];
#pragma unroll
    for (int m = 0; m < MANY; m++) if (first + 32 * m < some) item[m] = from[first + 32 * m];
#pragma unroll
    for (int m = 0; m < MANY; m++) if (first + 32 * m < some) to[first + 32 * m] = item[m];
  }
}

// Brings the items that a group keeps side by side. A pointer that goes on takes a third of the instructions that ranks take.
__device__ __forceinline__ void bring(KEY* to, const Items& x, u32 mine, const Ranks& ranks) {
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    KEY* at = to + ranks.place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) if (mine >> (k * VECTOR + j) & 1) { *at = x.line[k].get(j); at++; }
  }
}

// Writes the first `some` of the items that a group keeps, half a group at a time by way of the warp's stage.
__device__ __forceinline__ void store_kept(KEY* to, const Items& x, u32 mine, const Ranks& ranks, int some, KEY* stage, int lane) {
  for (int low = 0; low < some; low += HALF) {
    each_kept(mine, ranks, lane, [&](u32 rank, int, int i) {
      if (rank - low < HALF) stage[rank - low] = x.line[i / VECTOR].get(i % VECTOR);
    });
    __syncwarp();  // they are side by side
    move_items(to + low, stage, min(some - low, HALF), lane);
    __syncwarp();  // all have been read
  }
}

// Writes the lengths of the runs that end at the first items which a group keeps.
__device__ __forceinline__ void write_lengths(const Room& room, i64 before, i64 last, i64 at, u32 mine, u16* spots, int lane) {
  const Ranks ranks = ranks_of(mine, lane);
  each_kept(mine, ranks, lane, [&](u32 rank, int place, int) { spots[rank] = place; });
  __syncwarp();  // places are side by side
#pragma unroll 4
  for (int j = lane; j < ranks.total; j += 32) {
    const i64 to = before + j, place = at + spots[j] + 1;
    if (to && to <= room.size) room.lengths[to - 1] = place - (j ? at + spots[j - 1] + 1 : last);
  }
  __syncwarp();  // all have been read
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_gathered(const __grid_constant__ Params p) {
  extern __shared__ uint4 memory[];  // the warps' stages, what is held, and what is known of the groups
  __shared__ u32 shared_epoch, used, spilled, shared_last;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 first = first_group(p, blockIdx.x), begin = first * STRIP - p.skip;
  const int some = (int)(first_group(p, blockIdx.x + 1) - first), share = (int)p.share;
  KEY *const stage = (KEY*)((char*)memory + warp * STAGE), *const held = (KEY*)((char*)memory + WARPS * STAGE);
  u32* const words = (u32*)(held + p.held);
  const Groups of = {words, words + share, words + 2 * share + 1, (Marks*)(words + 3 * share + 1)};
  KEY* const aside = p.aside + first * HALF;
  const auto load = [&](Items& x, KEY& edge, int g) {
    const i64 at = begin + (i64)g * STRIP;
    if (RUNS && lane == 0 && at > 0 && at <= p.n) edge = p.x[at - 1];
    load_items(x, p, at + lane * VECTOR, FULL);
  };
  const auto marks = [&](const Items& x, const KEY& edge, int g) { return kept_of(x, edge, p, begin + (i64)g * STRIP + lane * VECTOR, lane); };
  const u32 epoch = threadIdx.x == 0 ? *(volatile u32*)(p.control + 2) : 0;
  if (threadIdx.x == 0) used = spilled = 0;
  __syncthreads();  // nothing is held
  Items next;
  KEY next_edge;
  if (warp < some) load(next, next_edge, warp);
#pragma unroll 1
  for (int g = warp; g < some; g += WARPS) {
    const Items x = next;
    const u32 mine = marks(x, next_edge, g);
    if (g + WARPS < some) load(next, next_edge, g + WARPS);
    const Ranks ranks = ranks_of(mine, lane);
    u32 start = 0;
    if (lane == 0) {
      start = atomicAdd(&used, ranks.total);
      if (start + ranks.total > p.held) start = ranks.total > HALF ? AGAIN : ASIDE | atomicAdd(&spilled, ranks.total);
      of.starts[g] = start;
      of.counts[g] = ranks.total;
    }
    start = __shfl_sync(FULL, start, 0);
    if (start != AGAIN) bring(start < ASIDE ? held + start : stage, x, mine, ranks);
    if (start >= ASIDE && start != AGAIN) {
      __syncwarp();  // they are side by side
      move_items(aside + (start & ~ASIDE), stage, ranks.total, lane);
      __syncwarp();  // all have been read
    }
    if (LENGTHS) {
      of.marks[g * 32 + lane] = mine;
      const u32 end = end_of(mine, lane * VECTOR);
      if (lane == 0) of.lasts[g] = end ? g * STRIP + end : 0;
    }
  }
  __syncthreads();  // all groups are counted

  if (warp == 0) {
    const Own own = scan_groups(of, some, lane);
    if (lane == 0) {
      write_count(p.nodes + blockIdx.x, (u64)epoch << 32 | own.count);
      if (LENGTHS) write_count(p.nodes + gridDim.x + blockIdx.x, (u64)epoch << 32 | own.last);
      shared_epoch = epoch;
      shared_last = own.last;
    }
  }
  __syncthreads();  // the epoch is known, and what lies before each group
  const Sums sums = sums_of(p, shared_epoch);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *(volatile i64*)p.count = sums.all;
    __threadfence_system();
    move_on(p, epoch, (1 + LENGTHS) * gridDim.x);  // all blocks have read it
  }
  const Room room = room_for(p, sums.all);
  if (LENGTHS && blockIdx.x == gridDim.x - 1 && threadIdx.x == 0 && sums.all && sums.all <= room.size)
    room.lengths[sums.all - 1] = p.n + 1 - (shared_last ? begin + shared_last : sums.last);
#pragma unroll 1
  for (int g = warp; g < some; g += WARPS) {
    const u32 start = of.starts[g], rank = of.counts[g];
    const i64 before = sums.before + rank, count = of.counts[g + 1] - rank;
    const int writes = (int)min(max(room.size - before, 0ll), count);
    KEY* const to = room.values + before;
    if (start == AGAIN) {
      Items x;
      KEY edge;
      load(x, edge, g);
      const u32 mine = marks(x, edge, g);
      store_kept(to, x, mine, ranks_of(mine, lane), writes, stage, lane);
    } else move_items(to, start < ASIDE ? held + start : aside + (start & ~ASIDE), writes, lane);
    if (LENGTHS && count)
      write_lengths(room, before, of.lasts[g] ? begin + of.lasts[g] : sums.last, begin + (i64)g * STRIP, of.marks[g * 32 + lane], (u16*)stage, lane);
  }
}
