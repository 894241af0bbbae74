// Values, each repeated as often as its count says, however uneven the counts are. A first pass sums the counts of tiles, and
// writes a byte for each count. Then the ends of the tiles and the output's chunks cut the output into parts. A block finds its
// first part among the sums, and goes on to the next ones. It scans the counts of the tile, and marks the start of each segment.
// Every item of the output belongs to the nearest mark at or before it.
// The cuts: Green, McColl and Bader, "GPU merge path" (2012).
//   VALUES   x[s] is written for each item of segment s
//   OWNERS   s is written, and the item's place within the segment
#include "packs.cuh"
#include "tally.cuh"

constexpr int WARPS = THREADS / 32, TILE = THREADS * COUNTS;  // of counts
constexpr int LINE = 128;  // of the output
static_assert(TILE < 65536 && CHUNK % (WARPS * LINE) == 0, "a mark has 16 bits, a lane takes four items of the output from a line");
static_assert(COUNTS == 8 && PARTS < 32, "a thread's counts are a word of bytes, a warp's lanes ask for the tiles of all parts");

struct Repeat {
  const COUNT* counts;
  i64 n, tiles;
  u64* sum; u32* negative; u32* done; i64* total;
  u64* bytes;  // the counts of a thread, where those of its tile fit
  u8* wide;    // for each tile, whether they do not
  const VALUE* x; VALUE* values; i64* owners; i64* ranks;
  Nodes nodes;
};

__device__ __forceinline__ void load_counts(Pack<COUNT, COUNTS>& to, const Repeat& p, i64 t) {
  const i64 at = t * TILE + threadIdx.x * COUNTS;
  to.template load_within<EVEN>(p.counts + at, 0, p.n - at);
}

// The sums of tiles, and the sum of all counts: -2 where a count is negative.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_sums(const __grid_constant__ Repeat p) {
  __shared__ i64 sums[TOGETHER][WARPS], bits[TOGETHER][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = (i64)blockIdx.x * TOGETHER, some = min(p.tiles - t, (i64)TOGETHER);
#pragma unroll
  for (int g = 0; g < TOGETHER; g++) {
    Pack<COUNT, COUNTS> counts;
    load_counts(counts, p, t + g);
    i64 sum = 0, set = 0;
    u64 bytes = 0;
#pragma unroll
    for (int j = 0; j < COUNTS; j++) {
      const i64 count = counts.get(j);
      sum += count;
      set |= count;
      bytes |= (u64)(count & 255) << 8 * j;
    }
    if (g < some) p.bytes[(t + g) * THREADS + threadIdx.x] = bytes;
#pragma unroll
    for (int s = 16; s; s /= 2) { sum += __shfl_xor_sync(FULL, sum, s); set |= __shfl_xor_sync(FULL, set, s); }
    if (lane == 0) { sums[g][warp] = sum; bits[g][warp] = set; }
  }
  __syncthreads();  // all warps have summed
  if (warp) return;
  i64 sum = 0, set = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) if (lane < TOGETHER) { sum += sums[lane][w]; set |= bits[lane][w]; }
  if (lane < some) p.wide[t + lane] = set >> 8 != 0;
  tally_together(p.nodes, t, some, sum, lane);
#pragma unroll
  for (int s = 16; s; s /= 2) { sum += __shfl_xor_sync(FULL, sum, s); set |= __shfl_xor_sync(FULL, set, s); }
  if (lane) return;
  atomicAdd(p.sum, (u64)sum);
  if (set < 0) *p.negative = 1;
  __threadfence();  // who counts the last tiles sees the sums of all
  if (atomicAdd(p.done, (u32)some) + some < p.tiles) return;
  __threadfence();
  *(volatile i64*)p.total = *(volatile u32*)p.negative ? -2 : (i64)*(volatile u64*)p.sum;
  __threadfence_system();
}

struct Cut { i64 tile, start, end; };

// By a warp. Among the first `step` ends of tiles and of chunks (an end of a tile comes before the end of a chunk at the same
// place): the number of ends of tiles, and the sum of the next tile. The search goes down the levels, 32 nodes at a time.
__device__ __forceinline__ Cut cut_at(const Repeat& p, i64 step, int lane) {
  Cut cut = {0, 0, 0};
#pragma unroll
  for (int level = LEVELS - 1; level >= 0; level--) {
    const i64 nodes = (p.tiles + (1ll << 5 * level) - 1) >> 5 * level;
    for (i64 first = cut.tile >> 5 * level;; first += 32) {
      const i64 node = first + lane, behind = min((node + 1) << 5 * level, p.tiles);
      i64 sum = node < nodes ? (i64)p.nodes.level[level][node] : 0, end = sum;
#pragma unroll
      for (int s = 1; s < 32; s *= 2) { const i64 left = __shfl_up_sync(FULL, end, s); if (lane >= s) end += left; }
      end += cut.start;
      const int passed = __popc(__ballot_sync(FULL, node < nodes && end <= (step - behind + 1) * CHUNK));
      cut.tile = min((first + passed) << 5 * level, p.tiles);
      cut.end = __shfl_sync(FULL, end, min(passed, 31));
      if (passed) cut.start = __shfl_sync(FULL, end, passed - 1);
      if (cut.tile == p.tiles) return cut;
      if (passed < 32) break;
    }
  }
  return cut;
}

// Four neighbours of the output. The block owns those from low up to high.
template <class T> __device__ __forceinline__ void store_four(T* to, const T (&v)[4], int low, int high) {
  if (low <= 0 && high >= 4) {
    if constexpr (sizeof(T) == 1) *(u32*)to = *(const u32*)v;
    else if constexpr (sizeof(T) == 2) *(u64*)to = *(const u64*)v;
    else {
#pragma unroll
      for (int i = 0; i < sizeof(T) / 4; i++) ((uint4*)to)[i] = ((const uint4*)v)[i];
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) if (j >= low && j < high) to[j] = v[j];
  }
}

// Marks the starts of a thread's segments. The first of them starts at place `at`; the block's part is [first, end).
template <class T, class Counts>
__device__ __forceinline__ void mark(const Counts& counts, T at, int first, int end, u16* marks, int* begins, u32& cut_segment, i64& late) {
#pragma unroll
  for (int j = 0; j < COUNTS; j++) {
    const T next = at + (T)counts(j);
    if (next > at && next > first && at < end) {
      const int to = at > first ? (int)at : first, s = threadIdx.x * COUNTS + j;
      marks[to] = s + 1;
      if (OWNERS) begins[s] = to;
      if (OWNERS && at <= first) { cut_segment = s; late = first - at; }
    }
    at = next;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, (sizeof(VALUE) > 8 ? 768 : 1024) / THREADS) upsweep_fill(const __grid_constant__ Repeat p) {
  __shared__ uint4 mark_words[CHUNK / 8];
  __shared__ int begins[OWNERS ? TILE : 1];  // of segments, in the block's part
  __shared__ VALUE held[VALUES ? TILE : 1];
  __shared__ i64 sums[WARPS], tile_sums[PARTS], late;
  __shared__ u32 tops[WARPS], cut_segment;
  __shared__ u8 wides[PARTS];
  __shared__ Cut shared_cut;
  u16* const marks = (u16*)mark_words;  // 1 + the segment that starts here
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 step = (i64)blockIdx.x * PARTS;
  if (warp == 0) {
    const Cut cut = cut_at(p, step, lane);
    if (lane == 0) shared_cut = cut;
    if (lane < PARTS && cut.tile + lane < p.tiles) {
      tile_sums[lane] = p.nodes.level[0][cut.tile + lane];
      wides[lane] = p.wide[cut.tile + lane];
    }
  }
  for (int i = threadIdx.x; i < CHUNK / 8; i += THREADS) mark_words[i] = uint4{0, 0, 0, 0};
  __syncthreads();  // the first part is known, and there are no marks
  Cut cut = shared_cut;
  const i64 first_tile = cut.tile;
  i64 known = -1, before = 0;
  u64 bytes = 0, coming = cut.tile < p.tiles ? p.bytes[cut.tile * THREADS + threadIdx.x] : 0;
  bool wide = false;

  for (int part = 0; part < PARTS && cut.tile < p.tiles; part++) {
    const i64 t = cut.tile, bound = (step + part - t + 1) * CHUNK;
    const i64 low = max(cut.start, bound - CHUNK), high = min(cut.end, bound), base = low & ~3ll, start = cut.start;
    const bool last = cut.end <= bound;
    VALUE mine[COUNTS];
    if (known != t) {
      wide = wides[t - first_tile];
      bytes = coming;
      if (t + 1 < p.tiles) coming = p.bytes[(t + 1) * THREADS + threadIdx.x];
      if constexpr (VALUES) {
#pragma unroll
        for (int j = 0; j < COUNTS; j++) {
          const i64 s = t * TILE + j * THREADS + threadIdx.x;
          if (s < p.n) mine[j] = p.x[s];
        }
      }
      i64 sum = 0;
      if (wide) {
        Pack<COUNT, COUNTS> counts;
        load_counts(counts, p, t);
#pragma unroll
        for (int j = 0; j < COUNTS; j++) sum += (i64)counts.get(j);
      } else {
        const u64 pairs = (bytes & 0x00ff00ff00ff00ffull) + (bytes >> 8 & 0x00ff00ff00ff00ffull);
        sum = pairs * 0x0001000100010001ull >> 48;
      }
      i64 to_lane = sum;
#pragma unroll
      for (int s = 1; s < 32; s *= 2) { const i64 left = __shfl_up_sync(FULL, to_lane, s); if (lane >= s) to_lane += left; }
      if (lane == 31) sums[warp] = to_lane;
      before = to_lane - sum;
    }
    __syncthreads();  // all warps have summed, and are through with the part before
    if (known != t) {
      known = t;
#pragma unroll
      for (int w = 0; w < WARPS; w++) if (w < warp) before += sums[w];
#pragma unroll
      for (int j = 0; j < COUNTS; j++) if (VALUES) held[j * THREADS + threadIdx.x] = mine[j];
    }
    if (last) {
      cut.tile = t + 1;
      cut.start = cut.end;
      if (t + 1 - first_tile < PARTS) cut.end += tile_sums[t + 1 - first_tile];
    }
    if (low >= high) continue;
    const int first = (int)(low - base), end = (int)(high - base);
    const int lines = (end + WARPS * LINE - 1) / (WARPS * LINE), stretch = warp * lines * LINE;  // of a warp
    const i64 at = start + before - base;
    if (wide) {
      Pack<COUNT, COUNTS> counts;
      load_counts(counts, p, t);
      mark([&](int j) { return (i64)counts.get(j); }, at, first, end, marks, begins, cut_segment, late);
    } else mark([&](int j) { return (int)(bytes >> 8 * j & 255); }, (int)at, first, end, marks, begins, cut_segment, late);
    __syncthreads();  // marks are there
    u32 top = 0;
#pragma unroll 4
    for (int k = 0; k < lines; k++) {
      const uint2 w = *(const uint2*)(marks + stretch + LINE * k + 4 * lane);
      top = __vmaxu2(top, __vmaxu2(w.x, w.y));
    }
    top = max(top & 0xffff, top >> 16);
    top = __reduce_max_sync(FULL, top);
    if (lane == 0) tops[warp] = top;
    __syncthreads();  // the last mark of each stretch is known
    u32 nearest = 0;  // at or before a line's first item
#pragma unroll
    for (int w = 0; w < WARPS; w++) if (w < warp) nearest = max(nearest, tops[w]);
#pragma unroll 4
    for (int k = 0; k < lines; k++) {
      const int i = stretch + LINE * k + 4 * lane;
      u64* const four = (u64*)(marks + i);
      const u64 w = *four;
      *four = 0;
      u32 mark[4];
#pragma unroll
      for (int j = 0; j < 4; j++) mark[j] = max(j ? mark[j - 1] : 0u, (u32)(w >> 16 * j) & 0xffff);
      u32 to_lane = mark[3];
#pragma unroll
      for (int s = 1; s < 32; s *= 2) { const u32 left = __shfl_up_sync(FULL, to_lane, s); if (lane >= s) to_lane = max(to_lane, left); }
      const u32 left = __shfl_up_sync(FULL, to_lane, 1), mine = lane ? max(left, nearest) : nearest;
      nearest = max(nearest, __shfl_sync(FULL, to_lane, 31));
      if (i >= end) continue;
      u32 segment[4];
#pragma unroll
      for (int j = 0; j < 4; j++) segment[j] = max(max(mark[j], mine), 1u) - 1;  // before the part: any
      if constexpr (VALUES) {
        alignas(16) VALUE values[4];
#pragma unroll
        for (int j = 0; j < 4; j++) values[j] = held[segment[j]];
        store_four(p.values + base + i, values, first - i, end - i);
      }
      if constexpr (OWNERS) {
        alignas(16) i64 owners[4], ranks[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
          owners[j] = t * TILE + segment[j];
          ranks[j] = i + j - begins[segment[j]] + (segment[j] == cut_segment ? late : 0);
        }
        store_four(p.owners + base + i, owners, first - i, end - i);
        store_four(p.ranks + base + i, ranks, first - i, end - i);
      }
    }
  }
}
