// Items of a sequence that are kept, in their order and side by side, in one pass: a tile counts its own, looks back over the
// counts of the tiles before it, and brings them together in shared memory, so that what a warp stores touches.
//   RUNS     an item is kept that differs from the one before it; else one whose flag is set
//   VALUES, PLACES, LENGTHS   what is written of a kept item: itself, its index, the items from it to the next kept one
//   REST     the items that are not kept are written behind those that are
#include "counts.cuh"
#include "differ.cuh"

constexpr int WARPS = THREADS / 32, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS;
static_assert(ITEMS <= 32 && TILE <= 65536, "a lane counts a line of 32 items, and an index within a tile has 16 bits");

struct Select {
  const char* x; i64 stride;
  const char* flags; i64 flags_stride;
  i64 n, size;           // there is room for `size` items
  KEY* values; i64* places; i64* lengths;
  u32* ticket;           // zero, as are `counts` and `lasts`, one a tile
  u64* counts;           // items kept
  u64* lasts;            // 1 + the index of the last one kept, if lengths are wanted
  const i64* kept;       // how many there are in all, if the rest is wanted
  i64* count;            // here they are counted
};

struct Before { u64 count, last; };

// What the tiles before t keep, by a warp: 32 tiles at a time, back to one that knows all before it.
__device__ __forceinline__ Before look_back(const Select& p, i64 t, int lane) {
  Before before = {0, 0};
  for (i64 at = t - 1 - lane;; at -= 32) {
    u64 count, last = 0;
    u32 whole, needed;
    bool here;
    do {
      count = at < 0 ? ALL<u64> : read_count(p.counts + at);
      if (LENGTHS) last = at < 0 ? ALL<u64> : read_count(p.lasts + at);
      here = count >> 62 && (!LENGTHS || count >> 62 == last >> 62);
      whole = __ballot_sync(FULL, here && count >> 63);
      needed = ((whole & -whole) << 1) - 1;  // up to the nearest that knows all; else every lane
    } while ((__ballot_sync(FULL, here) & needed) != needed);
    count = needed >> lane & 1 ? count_in(count) : 0;
    last = needed >> lane & 1 ? count_in(last) : 0;
#pragma unroll
    for (int s = 16; s; s /= 2) {
      count += __shfl_xor_sync(FULL, count, s);
      if (LENGTHS) last = max(last, __shfl_xor_sync(FULL, last, s));
    }
    before.count += count;
    before.last = max(before.last, last);
    if (whole) return before;
  }
}

__device__ __forceinline__ KEY from_left(const KEY& x, KEY& edge, int lane) {
  Words<KEY> own = to_words(x), left, end;
#pragma unroll
  for (int i = 0; i < Words<KEY>::count; i++) {
    left.w[i] = __shfl_up_sync(FULL, own.w[i], 1);
    end.w[i] = __shfl_sync(FULL, own.w[i], 31);
  }
  KEY result = lane ? from_words<KEY>(left) : edge;
  edge = from_words<KEY>(end);
  return result;
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_select(const __grid_constant__ Select p) {
  __shared__ KEY moved[VALUES ? TILE : 1];
  __shared__ u16 spots[PLACES || LENGTHS ? TILE : 1];
  __shared__ u32 sums[WARPS], ends[WARPS];
  __shared__ Before shared_before;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = draw(p.ticket);
  const i64 first = t * TILE + warp * STRIP;  // of the warp, whose lines are 32 neighbours each
  const int left = (int)min(p.n - first, (i64)STRIP);

  KEY x[ITEMS];
  u32 line = 0;  // lane k: which items of line k are kept
#if RUNS
#pragma unroll
  for (int k = 0; k < ITEMS; k++) if (32 * k + lane < left) x[k] = *(const KEY*)(p.x + (first + 32 * k + lane) * p.stride);
  KEY edge = x[0];
  if (first && left > 0) edge = *(const KEY*)(p.x + (first - 1) * p.stride);
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    KEY before = from_left(x[k], edge, lane);
    int i = 32 * k + lane;
    u32 kept = __ballot_sync(FULL, i < left && (first + i == 0 || differ(x[k], before)));
    if (lane == k) line = kept;
  }
#else
  u8 flag[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) flag[k] = 32 * k + lane < left ? *(const u8*)(p.flags + (first + 32 * k + lane) * p.flags_stride) : 0;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 kept = __ballot_sync(FULL, flag[k]);
    if (lane == k) line = kept;
  }
#endif

  const u32 to_lane = sum_to_lane(__popc(line), lane);
  if (lane == 31) sums[warp] = to_lane;
  if (LENGTHS) {
    u32 end = line ? 32 * lane + 32 - __clz(line) : 0;
#pragma unroll
    for (int s = 16; s; s /= 2) end = max(end, __shfl_xor_sync(FULL, end, s));
    if (lane == 0) ends[warp] = end ? warp * STRIP + end : 0;
  }
  __syncthreads();  // all warps have counted
  u32 place = to_lane - __popc(line), total = 0, end = 0;  // lane k: where line k begins in the tile
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    if (w < warp) place += sums[w];
    total += sums[w];
    if (LENGTHS) end = max(end, ends[w]);
  }
  const u64 last = end ? t * TILE + end : 0;
  if (threadIdx.x == 0) {
    write_count(p.counts + t, OWN<u64> | total);
    if (LENGTHS) write_count(p.lasts + t, OWN<u64> | last);
  }
#if VALUES && !RUNS
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 kept = __shfl_sync(FULL, line, k);
    if (REST ? 32 * k + lane < left : kept >> lane & 1) x[k] = *(const KEY*)(p.x + (first + 32 * k + lane) * p.stride);
  }
#endif
  if (warp == 0) {
    Before before = look_back(p, t, lane);
    if (lane == 0) {
      write_count(p.counts + t, ALL<u64> | before.count + total);
      if (LENGTHS) write_count(p.lasts + t, ALL<u64> | max(before.last, last));
      shared_before = before;
      if ((t + 1) * TILE >= p.n) *p.count = before.count + total;
    }
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 kept = __shfl_sync(FULL, line, k), i = warp * STRIP + 32 * k + lane;
    u32 at = __shfl_sync(FULL, place, k) + __popc(kept & ((1u << lane) - 1));
    if (kept >> lane & 1) {
      if (VALUES) moved[at] = x[k];
      if (PLACES || LENGTHS) spots[at] = i;
    } else if (REST && 32 * k + lane < left) moved[total + i - at] = x[k];
  }
  __syncthreads();  // the tile's items are side by side, and it is known what lies before them
  const Before before = shared_before;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 j = k * THREADS + threadIdx.x;
    i64 to = before.count + j;
    if (j < total && to < p.size) {
      if (VALUES) p.values[to] = moved[j];
      if (PLACES) p.places[to] = t * TILE + spots[j];
    }
    if (LENGTHS && j < total && to && to <= p.size) p.lengths[to - 1] = t * TILE + spots[j] - (j ? t * TILE + spots[j - 1] : (i64)before.last - 1);
    if (REST && j >= total && j < min(p.n - t * TILE, (i64)TILE)) p.values[*p.kept + t * TILE - before.count + j - total] = moved[j];
  }
  if (LENGTHS && (t + 1) * TILE >= p.n && threadIdx.x == 0 && before.count + total <= p.size)  // the first item starts a run
    p.lengths[before.count + total - 1] = p.n - (i64)(total ? last : before.last) + 1;
}
