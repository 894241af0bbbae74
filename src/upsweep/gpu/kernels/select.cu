// Selection: the kept items, in their order and side by side. A tile is marked, a bit for each item that is kept, and counted; later
// it is written. With flags these are two kernels: the marks take an eighth of the flags' room, what is not kept is not read, and
// nobody waits. Else a block draws a ticket: it counts one tile and writes another, which was counted `lag` tickets before and
// still lies in the cache. So items come from memory once, and a count is there when it is asked for.
//   RUNS     an item is kept that differs from the one before it
//   TEST     an item is kept where a function says so; else an item whose flag is set
//   VALUES, PLACES, LENGTHS   the results for a kept item: itself, its index, the items from it to the next kept one
//   REST     the items that are not kept are written behind those that are
//   VECTOR   neighbours that a lane takes from a line; EVEN: all by one load
#include "arrivals.cuh"
#include "differ.cuh"
#include "packs.cuh"

constexpr bool FLAGS = !RUNS && !TEST;
constexpr int WARPS = THREADS / 32, LINE = 32 * VECTOR, LINES = ITEMS / VECTOR, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS;
static_assert(ITEMS <= 32 && TILE <= 65536, "a lane's flags have 32 bits, an index within a tile has 16");
// Counts within a line. The counts of several lines lie side by side in a word, so one scan of the lanes is enough for all.
constexpr int FIELD = LINE < 256 ? 8 : 16, FIELDS = 32 / FIELD, WORDS = (LINES + FIELDS - 1) / FIELDS;
constexpr int PIECE = 16 / sizeof(KEY);
#if ITEMS > 16
typedef u32 Marks;
#else
typedef u16 Marks;
#endif
__device__ __forceinline__ u32 marks_of(u32 marks, int line) { return marks >> line * VECTOR & (u32)((1ull << VECTOR) - 1); }

struct Select {
  const KEY* x;
  const u8* flags;
  i64 n, skip, tiles;    // so many items before the first does the first tile start, that tiles lie evenly
  i64 size;              // there is room for `size` items
  KEY* values; i64* places; i64* lengths;
  Marks* marks;          // a word for each thread that has items of a tile
  u32* ticket;           // zero before
  i64 lag;               // of a tile's writing behind its counting
  i64* count;            // here is written how many are kept, in memory of the device or of the host
  Nodes nodes;
};

#if TEST
extern "C" __device__ void upsweep_test(ITEM*, ANSWER*);
__device__ __forceinline__ bool passes(KEY x) {
  ITEM given = convert<ITEM>(x);
  ANSWER made;
  upsweep_test(&given, &made);
  return convert<bool>(made);
}
#endif

// A lane's items of a tile, of the lines where any is wanted.
struct Items { Pack<KEY, VECTOR> line[LINES]; };
__device__ __forceinline__ void load_items(Items& to, const Select& p, i64 from, u32 wanted) {
  if (EVEN && from >= 0 && from + (LINES - 1) * LINE + VECTOR <= p.n) {
#pragma unroll
    for (int k = 0; k < LINES; k++) if (marks_of(wanted, k)) to.line[k].load(p.x + from + k * LINE);
  } else {
#pragma unroll
    for (int k = 0; k < LINES; k++)
      if (marks_of(wanted, k)) to.line[k].template load_within<false>(p.x + from + k * LINE, -(from + k * LINE), p.n - (from + k * LINE));
  }
}

__device__ __forceinline__ KEY from_lane(const KEY& x, int lane) {
  Words<KEY> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<KEY>::count; i++) w.w[i] = __shfl_sync(FULL, w.w[i], lane);
  return from_words<KEY>(w);
}

// The items of a lane that are kept because of their values, a bit each. `before` is the item before the warp's first.
__device__ __forceinline__ u32 kept_of(const Items& x, KEY before, const Select& p, i64 from, int lane) {
  u32 mine = 0;
#if RUNS
  KEY edge = before;
#endif
#pragma unroll
  for (int k = 0; k < LINES; k++) {
#if RUNS
    const KEY turned = from_lane(x.line[k].get(VECTOR - 1), (lane + 31) % 32);
    KEY left = lane ? turned : edge;
    edge = turned;
#endif
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      const KEY item = x.line[k].get(j);
#if RUNS
      if (differ(item, left)) mine |= 1u << (k * VECTOR + j);
      left = item;
#elif TEST
      if (passes(item)) mine |= 1u << (k * VECTOR + j);
#endif
    }
  }
  if (from > 0 && from + (LINES - 1) * LINE + VECTOR <= p.n) return mine;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const i64 at = from + i / VECTOR * LINE + i % VECTOR;
    if (RUNS && at == 0) mine |= 1u << i;
    if (at < 0 || at >= p.n) mine &= ~(1u << i);
  }
  return mine;
}

// By a warp, once all tiles have been counted.
__device__ __forceinline__ void tell(const Select& p, int lane) {
  const u64 all = before_tile<false>(p.nodes, p.tiles, lane).count;
  if (lane == 0) { *(volatile i64*)p.count = all; __threadfence_system(); }
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

// Writes a tile, whose marks and counts are known.
__device__ __forceinline__ void write_tile(const Select& p, i64 t, u32 mine, const Items& x) {
  __shared__ uint4 moved_words[VALUES ? TILE / PIECE + 3 : 1];
  __shared__ u16 spots[PLACES || LENGTHS ? TILE : 1];
  __shared__ Shares written;
  __shared__ Before shared_before;
  __shared__ u64 kept;
  KEY* const moved = (KEY*)moved_words;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 begin = t * TILE - p.skip;
  if (warp == 0) {
    const Before before = before_tile<LENGTHS>(p.nodes, t, lane);
    const u64 all = REST ? before_tile<false>(p.nodes, p.tiles, lane).count : 0;
    if (lane == 0) { shared_before = before; kept = all; }
  }

  u32 own[WORDS] = {}, total = 0, place[LINES];  // where a lane's items of a line go
#pragma unroll
  for (int k = 0; k < LINES; k++) own[k / FIELDS] += __popc(mine >> k * VECTOR & ((1ull << VECTOR) - 1)) << k % FIELDS * FIELD;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    const u32 to_lane = sum_to_lane(own[w], lane), all = __shfl_sync(FULL, to_lane, 31), before = to_lane - own[w];
#pragma unroll
    for (int k = w * FIELDS; k < LINES && k < (w + 1) * FIELDS; k++) {
      place[k] = total + (before >> k % FIELDS * FIELD & ((1 << FIELD) - 1));
      total += all >> k % FIELDS * FIELD & ((1 << FIELD) - 1);
    }
  }
  const u32 end = LENGTHS ? end_of(mine, first) : 0;
  if (lane == 0) { written.counts[warp] = total; written.ends[warp] = end; }
  __syncthreads();  // the places of all warps are known, and what lies before the tile

  const Before before = shared_before;
  const Whole tile = whole_of(written, warp);
  const u64 last = tile.end ? begin + tile.end : before.last;
  const bool final = begin + TILE >= p.n;
  const int absent = begin < 0 ? (int)-begin : 0, exists = (int)min(p.n - begin, (i64)TILE);
  KEY* const values = p.values + before.count;
  KEY* const rest = p.values + (REST ? kept + begin + absent - before.count : 0);
  const int phase = ((u64)values & 15) / sizeof(KEY), rest_phase = ((u64)rest & 15) / sizeof(KEY);
  KEY* const rest_moved = moved + (phase + tile.total + PIECE - 1) / PIECE * PIECE;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    u32 to = tile.before + place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      const int i = first + k * LINE + j;
      if (mine >> (k * VECTOR + j) & 1) {
        if constexpr (VALUES) moved[phase + to] = x.line[k].get(j);
        if (PLACES || LENGTHS) spots[to] = i;
        to++;
      } else if constexpr (REST) {
        if (i >= absent && i < exists) rest_moved[rest_phase + i - absent - to] = x.line[k].get(j);
      }
    }
  }
  __syncthreads();  // the tile's items are side by side

  const int room = (int)min(max(p.size - (i64)before.count, 0ll), (i64)tile.total);
  if (VALUES) store_items(values, moved, phase, room);
  if (REST) store_items(rest, rest_moved, rest_phase, exists - absent - tile.total);
  if (!PLACES && !LENGTHS) return;
#pragma unroll 4
  for (int j = threadIdx.x; j < (LENGTHS ? (int)tile.total : room); j += THREADS) {
    const i64 to = before.count + j, place = begin + spots[j];
    if (PLACES && j < room) p.places[to] = place;
    if (LENGTHS && to && to <= p.size) p.lengths[to - 1] = place + 1 - (j ? begin + spots[j - 1] + 1 : (i64)before.last);
  }
  if (LENGTHS && final && threadIdx.x == 0 && before.count + tile.total <= p.size)  // the first item starts a run
    p.lengths[before.count + tile.total - 1] = p.n + 1 - (i64)last;
}

#if RUNS || TEST
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_select(const __grid_constant__ Select p) {
  __shared__ Shares counted;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 ticket = draw(p.ticket), t = ticket - p.lag, begin = ticket * TILE - p.skip, from = begin + first;
  const bool counts = ticket < p.tiles, writes = t >= 0;
  Items x;
  KEY before;
  if (counts) {
    if (RUNS && lane == 0 && from > 0 && from <= p.n) before = p.x[from - 1];
    load_items(x, p, from, FULL);
    const u32 kept = kept_of(x, before, p, from, lane);
    const u32 sum = __reduce_add_sync(FULL, __popc(kept)), end = LENGTHS ? end_of(kept, first) : 0;
    if (lane == 0) { counted.counts[warp] = sum; counted.ends[warp] = end; }
  }
  if (writes) {
    const i64 at = t * TILE - p.skip + first;
    if (RUNS && lane == 0 && at > 0 && at <= p.n) before = p.x[at - 1];
    load_items(x, p, at, FULL);
  }
  __syncthreads();  // all warps have counted
  if (counts && warp == 0) {
    const Whole tile = whole_of(counted, 0);
    arrive<LENGTHS>(p.nodes, ticket, tile.total, tile.end ? begin + tile.end : 0, lane);
  }
  if (ticket == p.tiles && warp == 1) tell(p, lane);  // the first block that counts nothing, while others write
  if (!writes) return;
  write_tile(p, t, kept_of(x, before, p, t * TILE - p.skip + first, lane), x);
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
  arrive_together(p.nodes, t, min(p.tiles - t, (i64)TOGETHER), sum, lane);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_write(const __grid_constant__ Select p) {
  if (blockIdx.x == 0 && threadIdx.x / 32 == WARPS - 1) tell(p, threadIdx.x % 32);
  const i64 t = blockIdx.x;
  const u32 mine = p.marks[t * THREADS + threadIdx.x];
  Items x;
  if (VALUES) load_items(x, p, t * TILE - p.skip + threadIdx.x / 32 * STRIP + threadIdx.x % 32 * VECTOR, REST ? FULL : mine);
  write_tile(p, t, mine, x);
}
#endif
