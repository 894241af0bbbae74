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
#include "kept_tile.cuh"

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
  if (PLACES || LENGTHS) p.marks[t * THREADS + threadIdx.x] = mine;
  __syncthreads();  // all warps have counted

  const Whole tile = whole_of(counted, warp);
  if (!PLACES && !LENGTHS && tile.total > SLOT) p.marks[t * THREADS + threadIdx.x] = mine;
  if (warp == 0) tally<LENGTHS>(p.nodes, t, tile.total, tile.end ? begin + tile.end : 0, lane);
  if (tile.total > SLOT) return;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    KEY* to = moved + tile.before + ranks.place[k];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) if (mine >> (k * VECTOR + j) & 1) { *to = x.line[k].get(j); to++; }
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

// The marks of neighbouring tiles: asked for once, where a thread has registers for them.
struct Marked {
  static constexpr bool HELD = LENGTHS && WRITES <= 8;
  const Select& p;
  i64 t;
  u32 held[HELD ? WRITES : 1];

  __device__ __forceinline__ u32 ask(int g) const { return t + g < p.tiles ? p.marks[(t + g) * THREADS + threadIdx.x] : 0; }
  __device__ __forceinline__ u32 operator[](int g) const { return HELD ? held[g] : ask(g); }
  __device__ __forceinline__ Marked(const Select& p, i64 t) : p(p), t(t) {
#pragma unroll
    for (int g = 0; HELD && g < WRITES; g++) held[g] = ask(g);
  }
};

// Writes the lengths of the runs that begin in neighbouring tiles, all of which have slots: the distances of first items.
__device__ __forceinline__ void write_lengths(const Select& p, const Marked& marks, const Before* before, const Room& room) {
  __shared__ u16 spots[LENGTHS ? WRITES * SLOT : 1];
  __shared__ u32 counts[WRITES][WARPS];
  static_assert(!LENGTHS || WRITES * TILE <= 65536, "an index within the tiles has 16 bits");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 begin = marks.t * TILE - p.skip, start = before[0].count;
#pragma unroll
  for (int g = 0; g < WRITES; g++) {
    const u32 count = __reduce_add_sync(FULL, __popc(marks[g]));
    if (lane == 0) counts[g][warp] = count;
  }
  __syncthreads();  // all warps have counted
#pragma unroll
  for (int g = 0; g < WRITES; g++) {
    const u32 mine = marks[g];
    const Ranks ranks = ranks_of(mine, lane);
    u32 to = before[g].count - start;
#pragma unroll
    for (int w = 0; w < WARPS; w++) to += w < warp ? counts[g][w] : 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) {
      u32 spot = to + ranks.place[k];
      for (u32 left = marks_of(mine, k); left; left &= left - 1) spots[spot++] = g * TILE + first + k * LINE + __ffs(left) - 1;
    }
  }
  __syncthreads();  // the tiles' first items are side by side
  const int total = before[WRITES].count - start;
#pragma unroll 4
  for (int j = threadIdx.x; j < total; j += THREADS) {
    const i64 to = start + j, place = begin + spots[j] + 1;
    if (to && to <= room.size) room.lengths[to - 1] = place - (j ? begin + spots[j - 1] + 1 : (i64)before[0].last);
  }
  const i64 end = begin + WRITES * TILE, last = total ? begin + spots[total - 1] + 1 : (i64)before[0].last;
  if (end >= p.n && threadIdx.x == 0 && start + total <= room.size) room.lengths[start + total - 1] = p.n + 1 - last;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS - LENGTHS) upsweep_write(const __grid_constant__ Select p) {
  __shared__ Before before[WRITES + 1];
  __shared__ i64 shared_kept;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = (i64)(gridDim.x - 1 - blockIdx.x) * WRITES;  // the last tiles first: their marks were written last, and are in the cache
  const u64* const counts = p.nodes.level[0] + t;
  const Marked marks(p, t);
  // Warp 0 asks what lies before the tiles; so that it need not wait for this number first, another warp does.
  const bool asks = threadIdx.x == THREADS - 1;
  const i64 kept = asks ? kept_by_all(p.nodes, p.tiles) : 0;
  if (warp == 0) {
    Before next = before_tile<LENGTHS>(p.nodes, t, lane);
#pragma unroll
    for (int g = 0; g <= WRITES; g++) {
      if (lane == 0) before[g] = next;
      if (g == WRITES || t + g >= p.tiles) continue;
      next.count += counts[g];
      if (LENGTHS) next.last = max(next.last, counts[g + p.nodes.lasts]);
    }
  }
  if (asks) shared_kept = kept;
  if (asks && blockIdx.x == 0) { *(volatile i64*)p.count = kept; __threadfence_system(); }
  u32 slots = 0;  // a bit for each tile that has one
#pragma unroll
  for (int g = 0; g < WRITES; g++) if (SLOT && t + g < p.tiles && counts[g] <= SLOT) slots |= 1u << g;
  if (slots) {
    __syncthreads();  // it is known what lies before the tiles
    move_slots(p, t, slots, before, room_for(p, shared_kept));
    if (LENGTHS && slots + 1 == 1u << min((i64)WRITES, p.tiles - t)) {
      write_lengths(p, marks, before, room_for(p, shared_kept));
      return;
    }
  }
#pragma unroll 1
  for (int g = 0; g < WRITES && t + g < p.tiles; g++) {
    const bool slot = slots >> g & 1;
    if (slot && !PLACES && !LENGTHS) continue;
    const u32 mine = p.marks[(t + g) * THREADS + threadIdx.x];
    Items x;
    if (VALUES && !slot) load_items(x, p, (t + g) * TILE - p.skip + warp * STRIP + lane * VECTOR, REST ? FULL : mine);
    write_tile(p, t + g, mine, x, slot, before[g], shared_kept);
  }
}
