// Selection: the kept items, in their order and side by side. A first kernel marks them, a bit for each item of a tile, and counts
// them. By flags it reads the flags alone, so that items which are not kept are never read. Else it reads the items, and where a
// tile keeps few it brings these together already, in a slot of the tile's own. A second kernel writes the result: from the slots,
// or from the items. It knows what lies before each tile, so nobody waits, and it has told the host the length before it writes. It
// knows how much is kept in all, too, and writes a small result to small memory, so that the host need not copy it there.
//   RUNS     an item is kept that differs from the one before it
//   TEST     an item is kept where a function says so; else an item whose flag is set
//   VALUES, PLACES, LENGTHS   the results for a kept item: itself, its index, the items from it to the next kept one
//   REST     the items that are not kept are written behind those that are
//   VECTOR   neighbours that a lane takes from a line; EVEN: all by one load
#include "kept.cuh"

// The memory that a result of so many items is written to.
__device__ __forceinline__ Room room_for(const Select& p, i64 kept) {
  const bool small = kept <= p.small.size;
  return {small ? p.small.size : p.large.size, small ? p.small.values : p.large.values,
          small ? p.small.places : p.large.places, small ? p.small.lengths : p.large.lengths};
}

// 1 + the place in its tile of the last item that a warp keeps, or 0; `first` is the place of a lane's first item.
__device__ __forceinline__ u32 end_of(u32 mine, int first) {
  const int top = 31 - __clz(mine);
  u32 end = mine ? first + top / VECTOR * LINE + top % VECTOR + 1 : 0;
  return __reduce_max_sync(FULL, end);
}

// The sum over the warps of a block.
struct Shares { u32 counts[WARPS], ends[WARPS]; };
struct Whole { u32 before, total, end; };
__device__ __forceinline__ Whole whole_of(const Shares& shares, int warp) {
  Whole whole = {0, 0, 0};
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    if (w < warp) whole.before += shares.counts[w];
    whole.total += shares.counts[w];
    if (LENGTHS) whole.end = max(whole.end, shares.ends[w]);
  }
  return whole;
}

// So many neighbours from shared memory, 16 bytes at a time: source and target both begin `phase` items behind a multiple of 16
// bytes.
__device__ __forceinline__ void store_items(KEY* to, const KEY* from, int phase, int count) {
  for (int low = threadIdx.x * PIECE; low < phase + count; low += THREADS * PIECE) {
    if (low >= phase && low + PIECE <= phase + count) *(uint4*)(to - phase + low) = *(const uint4*)(from + low);
    else {
#pragma unroll
      for (int j = low; j < low + PIECE; j++) if (j >= phase && j < phase + count) to[j - phase] = from[j];
    }
  }
}

// For the items of a lane that are kept: the place of the first of each line among those that the warp keeps, and these in all.
struct Ranks { u32 place[LINES], total; };
__device__ __forceinline__ Ranks ranks_of(u32 mine, int lane) {
  Ranks ranks;
  ranks.total = 0;
  u32 own[WORDS] = {};
#pragma unroll
  for (int k = 0; k < LINES; k++) own[k / FIELDS] += __popc(marks_of(mine, k)) << k % FIELDS * FIELD;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    const u32 to_lane = sum_to_lane(own[w], lane), all = __shfl_sync(FULL, to_lane, 31), before = to_lane - own[w];
#pragma unroll
    for (int k = w * FIELDS; k < LINES && k < (w + 1) * FIELDS; k++) {
      ranks.place[k] = ranks.total + (before >> k % FIELDS * FIELD & ((1 << FIELD) - 1));
      ranks.total += all >> k % FIELDS * FIELD & ((1 << FIELD) - 1);
    }
  }
  return ranks;
}

// Writes a tile, whose marks are known. Its items are in registers, or else in its slot and not written here.
__device__ __forceinline__ void write_tile(const Select& p, i64 t, u32 mine, const Items& x, bool slot, const Before& shared_before, const i64& shared_kept) {
  __shared__ uint4 moved_words[VALUES ? TILE / PIECE + 3 : 1];
  __shared__ u16 spots[PLACES || LENGTHS ? TILE : 1];
  __shared__ Shares written;
  KEY* const moved = (KEY*)moved_words;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 begin = t * TILE - p.skip;
  const Ranks ranks = ranks_of(mine, lane);
  const u32 end = LENGTHS ? end_of(mine, first) : 0;
  if (lane == 0) { written.counts[warp] = ranks.total; written.ends[warp] = end; }
  __syncthreads();  // the places of all warps are known, and what lies before the tile

  const Before before = shared_before;
  const i64 kept = shared_kept;
  const Room room = room_for(p, kept);
  const Whole tile = whole_of(written, warp);
  const u64 last = tile.end ? begin + tile.end : before.last;
  const bool final = begin + TILE >= p.n;
  const int absent = begin < 0 ? (int)-begin : 0, exists = (int)min(p.n - begin, (i64)TILE);
  KEY* const values = room.values + before.count;
  KEY* const rest = room.values + (REST ? kept + begin + absent - before.count : 0);
  const int phase = ((u64)values & 15) / sizeof(KEY), rest_phase = ((u64)rest & 15) / sizeof(KEY);
  KEY* const rest_moved = moved + (phase + tile.total + PIECE - 1) / PIECE * PIECE;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    u32 to = tile.before + ranks.place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      const int i = first + k * LINE + j;
      if (mine >> (k * VECTOR + j) & 1) {
        if (VALUES && !slot) moved[phase + to] = x.line[k].get(j);
        if (PLACES || LENGTHS) spots[to] = i;
        to++;
      } else if constexpr (REST) {
        if (i >= absent && i < exists) rest_moved[rest_phase + i - absent - to] = x.line[k].get(j);
      }
    }
  }
  __syncthreads();  // the tile's items are side by side

  const int some = (int)min(max(room.size - (i64)before.count, 0ll), (i64)tile.total);
  if (VALUES && !slot) store_items(values, moved, phase, some);
  if (REST) store_items(rest, rest_moved, rest_phase, exists - absent - tile.total);
  if (PLACES || LENGTHS) {
#pragma unroll 4
    for (int j = threadIdx.x; j < (LENGTHS ? (int)tile.total : some); j += THREADS) {
      const i64 to = before.count + j, place = begin + spots[j];
      if (PLACES && j < some) room.places[to] = place;
      if (LENGTHS && to && to <= room.size) room.lengths[to - 1] = place + 1 - (j ? begin + spots[j - 1] + 1 : (i64)before.last);
    }
  }
  if (LENGTHS && final && threadIdx.x == 0 && before.count + tile.total <= room.size)  // the first item starts a run
    room.lengths[before.count + tile.total - 1] = p.n + 1 - (i64)last;
}

// Brings the kept items of neighbouring tiles from their slots to their places: of the tiles whose bit is set.
__device__ __forceinline__ void move_slots(const Select& p, i64 t, u32 slots, const Before* before, const Room& room) {
  constexpr int MANY = 8;  // on their way at once
  const i64 start = before[0].count;
  const int some = (int)min(max(room.size - start, 0ll), (i64)before[WRITES].count - start);
  for (int first = threadIdx.x; first < some; first += MANY * THREADS) {
    KEY item[MANY];
    bool there[MANY];
#pragma unroll
    for (int m = 0; m < MANY; m++) {
      const int i = first + m * THREADS;
      int g = 0;
#pragma unroll
      for (int h = 1; h < WRITES; h++) g += i >= (int)(before[h].count - start);
      there[m] = i < some && slots >> g & 1;
      if (there[m]) item[m] = p.slots[(t + g) * SLOT + i - (int)(before[g].count - start)];
    }
#pragma unroll
    for (int m = 0; m < MANY; m++) if (there[m]) room.values[start + first + m * THREADS] = item[m];
  }
}

#if RUNS || TEST
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_mark(const __grid_constant__ Select p) {
  __shared__ uint4 moved_words[VALUES ? SLOT / PIECE : 1];
  __shared__ Shares counted;
  KEY* const moved = (KEY*)moved_words;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 t = blockIdx.x, begin = t * TILE - p.skip, from = begin + first;
  Items x;
  KEY before;
  if (RUNS && lane == 0 && from > 0 && from <= p.n) before = p.x[from - 1];
  load_items(x, p, from, FULL);
  const u32 mine = kept_of(x, before, p, from, lane);
  const Ranks ranks = ranks_of(mine, lane);
  const u32 end = LENGTHS ? end_of(mine, first) : 0;
  if (lane == 0) { counted.counts[warp] = ranks.total; counted.ends[warp] = end; }
  p.marks[t * THREADS + threadIdx.x] = mine;
  __syncthreads();  // all warps have counted

  const Whole tile = whole_of(counted, warp);
  if (warp == 0) tally<LENGTHS>(p.nodes, t, tile.total, tile.end ? begin + tile.end : 0, lane);
  if (tile.total > SLOT) return;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    u32 to = tile.before + ranks.place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) if (mine >> (k * VECTOR + j) & 1) moved[to++] = x.line[k].get(j);
  }
  __syncthreads();  // they are side by side
  uint4* const slot = (uint4*)(p.slots + t * SLOT);
  for (int i = threadIdx.x; i * PIECE < tile.total; i += THREADS) slot[i] = moved_words[i];
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Select p) {
  __shared__ u32 counts[TOGETHER][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = (i64)blockIdx.x * TOGETHER;
  Pack<u8, VECTOR> flags[TOGETHER][LINES];
  const i64 from = t * TILE - p.skip + warp * STRIP + lane * VECTOR;
  const bool all = t * TILE >= p.skip && (t + TOGETHER) * TILE - p.skip <= p.n;
#pragma unroll
  for (int g = 0; g < TOGETHER; g++)
#pragma unroll
    for (int k = 0; k < LINES; k++) {
      const i64 at = from + g * TILE + k * LINE;
      if (all) flags[g][k].load(p.flags + at); else flags[g][k].load_some(p.flags + at, -at, p.n - at);
    }
#pragma unroll
  for (int g = 0; g < TOGETHER; g++) {
    u32 mine = 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) mine |= bits_of(flags[g][k]) << k * VECTOR;
    if (t + g < p.tiles) p.marks[(t + g) * THREADS + threadIdx.x] = mine;
    const u32 sum = __reduce_add_sync(FULL, __popc(mine));
    if (lane == 0) counts[g][warp] = sum;
  }
  __syncthreads();  // all warps have counted
  if (warp) return;
  u32 sum = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) sum += lane < TOGETHER ? counts[lane][w] : 0;
  tally_together(p.nodes, t, min(p.tiles - t, (i64)TOGETHER), sum, lane);
}
#endif

// Where places alone are written, and few in all, every GROUPth block writes those of so many tiles, straight from their marks.
constexpr bool STRAIGHT = PLACES && !VALUES && !LENGTHS;
constexpr int GROUP = STRAIGHT ? 4 : WRITES;
static_assert(!STRAIGHT || WRITES == 1, "blocks take the tiles of a group by turns");

__device__ __forceinline__ void write_few(const Select& p, i64 t, u32 own, const Before* before, const Room& room) {
  __shared__ u32 counts[GROUP][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  u32 marks[GROUP];
  Ranks ranks[GROUP];
#pragma unroll
  for (int g = 0; g < GROUP; g++) marks[g] = g == 0 ? own : t + g < p.tiles ? p.marks[(t + g) * THREADS + threadIdx.x] : 0;
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    ranks[g] = ranks_of(marks[g], lane);
    if (lane == 0) counts[g][warp] = ranks[g].total;
  }
  __syncthreads();  // all warps have counted, and it is known what lies before the tiles
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    i64 start = before[g].count;
#pragma unroll
    for (int w = 0; w < WARPS; w++) start += w < warp ? counts[g][w] : 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) {
      i64 to = start + ranks[g].place[k];
      for (u32 left = marks_of(marks[g], k); left; left &= left - 1, to++)
        if (to < room.size) room.places[to] = (t + g) * TILE - p.skip + first + k * LINE + __ffs(left) - 1;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS - LENGTHS) upsweep_write(const __grid_constant__ Select p) {
  __shared__ Before before[GROUP + 1];
  __shared__ i64 shared_kept;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = (i64)(gridDim.x - 1 - blockIdx.x) * WRITES;  // the last ones first: what was written of them is in the cache
  const u64* const counts = p.nodes.level[0] + t;
  const u32 own = STRAIGHT ? p.marks[t * THREADS + threadIdx.x] : 0;  // asked for before it is known what becomes of them
  // Warp 0 asks what lies before the tiles; so that it need not wait for this number first, another warp does.
  const bool asks = threadIdx.x == THREADS - 1;
  const i64 kept = STRAIGHT || asks ? kept_by_all(p.nodes, p.tiles) : 0;
  if (warp == 0) {
    Before next = before_tile<LENGTHS>(p.nodes, t, lane);
#pragma unroll
    for (int g = 0; g <= GROUP; g++) {
      if (lane == 0) before[g] = next;
      if (g == GROUP || t + g >= p.tiles) continue;
      next.count += counts[g];
      if (LENGTHS) next.last = max(next.last, counts[g + p.nodes.lasts]);
    }
  }
  if (asks) shared_kept = kept;
  if (asks && blockIdx.x == 0) { *(volatile i64*)p.count = kept; __threadfence_system(); }
  const bool few = STRAIGHT && kept <= p.n / FEW;
  if (few && t % GROUP) return;
  if (few) {
    write_few(p, t, own, before, room_for(p, kept));
    return;
  }
  u32 slots = 0;  // a bit for each tile that has one
#pragma unroll
  for (int g = 0; g < WRITES; g++) if (SLOT && t + g < p.tiles && counts[g] <= SLOT) slots |= 1u << g;
  if (slots) {
    __syncthreads();  // it is known what lies before the tiles
    move_slots(p, t, slots, before, room_for(p, shared_kept));
  }
#pragma unroll 1
  for (int g = 0; g < WRITES && t + g < p.tiles; g++) {
    const bool slot = slots >> g & 1;
    if (slot && !PLACES && !LENGTHS) continue;
    const u32 mine = STRAIGHT ? own : p.marks[(t + g) * THREADS + threadIdx.x];
    Items x;
    if (VALUES && !slot) load_items(x, p, (t + g) * TILE - p.skip + warp * STRIP + lane * VECTOR, REST ? FULL : mine);
    write_tile(p, t + g, mine, x, slot, before[g], shared_kept);
  }
}
