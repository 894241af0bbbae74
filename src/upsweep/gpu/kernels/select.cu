// Items of a sequence that are kept, in their order and side by side, in one pass: a tile counts its own, looks back over the
// counts of the tiles before it, and brings them together in shared memory, so that what a warp stores touches.
//   RUNS     an item is kept that differs from the one before it; else one whose flag is set
//   VALUES, PLACES, LENGTHS   what is written of a kept item: itself, its index, the items from it to the next kept one
//   REST     the items that are not kept are written behind those that are
//   VECTOR   neighbours that a lane takes from a line, all by one load
#include "counts.cuh"
#include "differ.cuh"

constexpr int WARPS = THREADS / 32, LINE = 32 * VECTOR, LINES = ITEMS / VECTOR, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS;
static_assert(ITEMS <= 32 && TILE <= 65536, "a lane's flags have 32 bits, an index within a tile has 16");
// Counts within a line, those of several lines side by side in a word, so that one scan of the lanes does for all.
constexpr int FIELD = LINE < 256 ? 8 : 16, FIELDS = 32 / FIELD, WORDS = (LINES + FIELDS - 1) / FIELDS;

struct Select {
  const KEY* x;
  const u8* flags;
  i64 n, size;           // there is room for `size` items
  KEY* values; i64* places; i64* lengths;
  u32* ticket;           // zero, as are `counts` and `lasts`, one a tile
  u64* counts;           // items kept
  u64* lasts;            // 1 + the index of the last one kept, if lengths are wanted
  const i64* kept;       // how many there are in all, if the rest is wanted
  i64* count;            // here they are counted
  i64 ahead;             // tiles between a block's own and the one that it asks the cache for
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
    bool mine = needed >> lane & 1;
    before.count += mine ? count_in(count) : 0;
    if (LENGTHS) before.last = max(before.last, mine ? count_in(last) : 0);
    if (whole) break;
  }
#pragma unroll
  for (int s = 16; s; s /= 2) {
    before.count += __shfl_xor_sync(FULL, before.count, s);
    if (LENGTHS) before.last = max(before.last, __shfl_xor_sync(FULL, before.last, s));
  }
  return before;
}

// A lane's part of a line, of which `left` items exist.
template <class T> struct alignas(VECTOR * sizeof(T)) Part { T item[VECTOR]; };
template <class T> __device__ __forceinline__ Part<T> load_part(const T* from, int left) {
  if (left >= VECTOR) return *(const Part<T>*)from;
  Part<T> part = {};
#pragma unroll
  for (int j = 0; j < VECTOR; j++) if (j < left) part.item[j] = from[j];
  return part;
}

__device__ __forceinline__ KEY from_left(const KEY& x) {
  Words<KEY> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<KEY>::count; i++) w.w[i] = __shfl_up_sync(FULL, w.w[i], 1);
  return from_words<KEY>(w);
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_select(const __grid_constant__ Select p) {
  __shared__ KEY moved[VALUES ? TILE : 1];
  __shared__ u16 spots[PLACES || LENGTHS ? TILE : 1];
  __shared__ u32 sums[WARPS], ends[WARPS];
  __shared__ Before shared_before;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = draw(p.ticket), begin = t * TILE, ahead = begin + p.ahead * TILE, coming = min(p.n - ahead, (i64)TILE);
  if (RUNS) fetch((const char*)(p.x + ahead), coming * sizeof(KEY));
  else fetch((const char*)(p.flags + ahead), coming);
  const int first = warp * STRIP + lane * VECTOR, left = (int)min(p.n - begin, (i64)TILE) - first;

  Part<KEY> x[LINES];
  u32 mine = 0;  // a bit an item: which of this lane's are kept
#if RUNS
  KEY edge[LINES];
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    x[k] = load_part(p.x + begin + first + k * LINE, left - k * LINE);
    if (lane == 0 && left > k * LINE && begin + first + k * LINE) edge[k] = p.x[begin + first + k * LINE - 1];
  }
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    KEY before = from_left(x[k].item[VECTOR - 1]);
    if (lane == 0) before = edge[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      bool starts = begin + first + k * LINE + j == 0 || differ(x[k].item[j], before);
      if (starts && k * LINE + j < left) mine |= 1u << (k * VECTOR + j);
      before = x[k].item[j];
    }
  }
#else
  Part<u8> flags[LINES];
#pragma unroll
  for (int k = 0; k < LINES; k++) flags[k] = load_part(p.flags + begin + first + k * LINE, left - k * LINE);
#pragma unroll
  for (int i = 0; i < ITEMS; i++) if (flags[i / VECTOR].item[i % VECTOR]) mine |= 1u << i;
#endif

  u32 own[WORDS] = {}, total = 0, end = 0, place[LINES];  // where a lane's items of a line go
#pragma unroll
  for (int k = 0; k < LINES; k++) own[k / FIELDS] += __popc(mine >> k * VECTOR & ((1ull << VECTOR) - 1)) << k % FIELDS * FIELD;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    u32 to_lane = sum_to_lane(own[w], lane), all = __shfl_sync(FULL, to_lane, 31), before = to_lane - own[w];
#pragma unroll
    for (int k = w * FIELDS; k < LINES && k < (w + 1) * FIELDS; k++) {
      place[k] = total + (before >> k % FIELDS * FIELD & ((1 << FIELD) - 1));
      total += all >> k % FIELDS * FIELD & ((1 << FIELD) - 1);
    }
  }
  if (lane == 0) sums[warp] = total;
  if (LENGTHS) {
    int top = 31 - __clz(mine);
    if (mine) end = first + top / VECTOR * LINE + top % VECTOR + 1;
#pragma unroll
    for (int s = 16; s; s /= 2) end = max(end, __shfl_xor_sync(FULL, end, s));
    if (lane == 0) ends[warp] = end;
  }
  __syncthreads();  // all warps have counted
  u32 start = 0;
  total = end = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    if (w < warp) start += sums[w];
    total += sums[w];
    if (LENGTHS) end = max(end, ends[w]);
  }
  const u64 last = end ? begin + end : 0;
  if (threadIdx.x == 0) {
    write_count(p.counts + t, OWN<u64> | total);
    if (LENGTHS) write_count(p.lasts + t, OWN<u64> | last);
  }
#if VALUES && !RUNS
#pragma unroll
  for (int k = 0; k < LINES; k++)
    x[k] = load_part(p.x + begin + first + k * LINE, REST || mine >> k * VECTOR & ((1ull << VECTOR) - 1) ? left - k * LINE : 0);
#endif
  if (warp == 0) {
    Before before = look_back(p, t, lane);
    if (lane == 0) {
      write_count(p.counts + t, ALL<u64> | before.count + total);
      if (LENGTHS) write_count(p.lasts + t, ALL<u64> | max(before.last, last));
      shared_before = before;
      if (begin + TILE >= p.n) *p.count = before.count + total;
    }
  }
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    u32 to = start + place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      u32 i = first + k * LINE + j;
      if (mine >> (k * VECTOR + j) & 1) {
        if (VALUES) moved[to] = x[k].item[j];
        if (PLACES || LENGTHS) spots[to] = i;
        to++;
      } else if (REST && k * LINE + j < left) moved[total + i - to] = x[k].item[j];
    }
  }
  __syncthreads();  // the tile's items are side by side, and it is known what lies before them
  const Before before = shared_before;
  const i64 rest = REST ? *p.kept + begin - before.count - total : 0;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 j = k * THREADS + threadIdx.x;
    i64 to = before.count + j;
    if (j < total && to < p.size) {
      if (VALUES) p.values[to] = moved[j];
      if (PLACES) p.places[to] = begin + spots[j];
    }
    if (LENGTHS && j < total && to && to <= p.size) p.lengths[to - 1] = begin + spots[j] - (j ? begin + spots[j - 1] : (i64)before.last - 1);
    if (REST && j >= total && j < min(p.n - begin, (i64)TILE)) p.values[rest + j] = moved[j];
  }
  if (LENGTHS && begin + TILE >= p.n && threadIdx.x == 0 && before.count + total <= p.size)  // the first item starts a run
    p.lengths[before.count + total - 1] = p.n - (i64)(total ? last : before.last) + 1;
}
