// Values, each repeated as often as its count says, however uneven the counts are. A first pass sums the counts of tiles. Then
// the ends of the tiles and the output's chunks cut the output into parts. A block finds its own part among the sums, scans the
// counts of that tile again, and marks the start of each segment. Every item of the output belongs to the nearest mark at or
// before it.
// The cuts: Green, McColl and Bader, "GPU merge path" (2012).
//   VALUES   x[s] is written for each item of segment s
//   OWNERS   s is written, and the item's place within the segment
#include "arrivals.cuh"
#include "packs.cuh"

constexpr int WARPS = THREADS / 32, PAIRS = COUNTS / 2, STRIP = 32 * COUNTS, TILE = THREADS * COUNTS;  // of counts
constexpr int STRETCH = CHUNK / WARPS, LINES = STRETCH / 128;                                          // of the output
static_assert(TILE < 65536 && STRETCH % 128 == 0, "a mark has 16 bits, a lane takes four items of the output from a line");

// A lane's counts: two of each line of a warp.
__device__ __forceinline__ void load_counts(i64 (&to)[PAIRS][2], const COUNT* counts, i64 from, i64 n) {
#pragma unroll
  for (int k = 0; k < PAIRS; k++, from += 64) {
    Pack<COUNT, 2> pair;
    pair.template load_within<EVEN>(counts + from, 0, n - from);
    to[k][0] = pair.get(0);
    to[k][1] = pair.get(1);
  }
}

struct Sums { const COUNT* counts; i64 n, tiles; u64* sum; u32* negative; u32* done; i64* total; Nodes nodes; };

// The sums of tiles, and the sum of all counts: -2 where a count is negative.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_sums(const __grid_constant__ Sums p) {
  __shared__ i64 sums[WARPS], signs[WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = blockIdx.x;
  i64 counts[PAIRS][2], sum = 0, sign = 0;
  load_counts(counts, p.counts, t * TILE + warp * STRIP + 2 * lane, p.n);
#pragma unroll
  for (int k = 0; k < PAIRS; k++) { sum += counts[k][0] + counts[k][1]; sign |= counts[k][0] | counts[k][1]; }
#pragma unroll
  for (int s = 16; s; s /= 2) { sum += __shfl_xor_sync(FULL, sum, s); sign |= __shfl_xor_sync(FULL, sign, s); }
  if (lane == 0) { sums[warp] = sum; signs[warp] = sign; }
  __syncthreads();  // all warps have summed
  if (warp) return;
  sum = sign = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) { sum += sums[w]; sign |= signs[w]; }
  arrive<false>(p.nodes, t, sum & (i64)(ARRIVED - 1), 0, lane);
  if (lane) return;
  atomicAdd(p.sum, (u64)sum);
  if (sign < 0) *p.negative = 1;
  __threadfence();  // who counts the last tile sees the sums of all
  if (atomicAdd(p.done, 1u) + 1 < p.tiles) return;
  __threadfence();
  *(volatile i64*)p.total = *(volatile u32*)p.negative ? -2 : (i64)*(volatile u64*)p.sum;
  __threadfence_system();
}

struct Fill { const COUNT* counts; i64 n, tiles, chunks; const VALUE* x; VALUE* values; i64* owners; i64* ranks; Nodes nodes; };
struct Cut { i64 tile, start, end; };

// By a warp. Among the first `step` ends of tiles and of chunks (an end of a tile comes before the end of a chunk at the same
// place): the number of ends of tiles, and the sum of the next tile. The search goes down the levels, 32 nodes at a time.
__device__ __forceinline__ Cut cut_at(const Fill& p, i64 step, int lane) {
  Cut cut = {0, 0, 0};
#pragma unroll
  for (int level = LEVELS - 1; level >= 0; level--) {
    const i64 nodes = (p.tiles + (1ll << 5 * level) - 1) >> 5 * level;
    for (i64 first = cut.tile >> 5 * level;; first += 32) {
      const i64 node = first + lane, behind = min((node + 1) << 5 * level, p.tiles);
      i64 sum = node < nodes ? (i64)(read_count(p.nodes.level[level] + node) & (ARRIVED - 1)) : 0, end = sum;
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

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_fill(const __grid_constant__ Fill p) {
  __shared__ uint4 mark_words[CHUNK / 8];
  __shared__ int begins[OWNERS ? TILE : 1];  // of segments, in the block's part
  __shared__ i64 sums[WARPS], late;
  __shared__ u32 tops[WARPS], cut_segment;
  __shared__ Cut shared_cut;
  u16* const marks = (u16*)mark_words;  // 1 + the segment that starts here
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    const Cut cut = cut_at(p, blockIdx.x, lane);
    if (lane == 0) shared_cut = cut;
  }
  for (int i = threadIdx.x; i < CHUNK / 8; i += THREADS) mark_words[i] = uint4{0, 0, 0, 0};
  __syncthreads();  // the part is known, and there are no marks
  const i64 t = shared_cut.tile, chunk = blockIdx.x - t;
  const i64 low = max(shared_cut.start, chunk * CHUNK), high = min(shared_cut.end, (chunk + 1) * CHUNK), base = low & ~3ll;
  if (t >= p.tiles || low >= high) return;

  i64 counts[PAIRS][2], before[PAIRS], sum = 0;
  load_counts(counts, p.counts, t * TILE + warp * STRIP + 2 * lane, p.n);
#pragma unroll
  for (int k = 0; k < PAIRS; k++) {
    const i64 own = counts[k][0] + counts[k][1];
    i64 to_lane = own;
#pragma unroll
    for (int s = 1; s < 32; s *= 2) { const i64 left = __shfl_up_sync(FULL, to_lane, s); if (lane >= s) to_lane += left; }
    before[k] = sum + to_lane - own;
    sum += __shfl_sync(FULL, to_lane, 31);
  }
  if (lane == 0) sums[warp] = sum;
  __syncthreads();  // all warps have summed
  i64 start = shared_cut.start;
#pragma unroll
  for (int w = 0; w < WARPS; w++) if (w < warp) start += sums[w];
#pragma unroll
  for (int k = 0; k < PAIRS; k++) {
    i64 from = start + before[k];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const i64 to = from + counts[k][j];
      const int s = warp * STRIP + 64 * k + 2 * lane + j;
      if (to > from && to > low && from < high) {
        const int at = (int)(max(from, low) - base);
        marks[at] = s + 1;
        if (OWNERS) begins[s] = at;
        if (OWNERS && from <= low) { cut_segment = s; late = low - from; }
      }
      from = to;
    }
  }
  __syncthreads();  // marks are there
  const int first = (int)(low - base), end = (int)(high - base), stretch = warp * STRETCH;
  u32 mark[LINES][4], top = 0;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    const u64 w = *(const u64*)(marks + stretch + 128 * k + 4 * lane);
#pragma unroll
    for (int j = 0; j < 4; j++) mark[k][j] = max(j ? mark[k][j - 1] : 0u, (u32)(w >> 16 * j) & 0xffff);
    top = max(top, mark[k][3]);
  }
#pragma unroll
  for (int s = 16; s; s /= 2) top = max(top, __shfl_xor_sync(FULL, top, s));
  if (lane == 0) tops[warp] = top;
  __syncthreads();  // the last mark of each stretch is known
  u32 nearest = 0;  // at or before a line's first item
#pragma unroll
  for (int w = 0; w < WARPS; w++) if (w < warp) nearest = max(nearest, tops[w]);
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    if (stretch + 128 * k >= end) break;
    const int i = stretch + 128 * k + 4 * lane;
    u32 to_lane = mark[k][3];
#pragma unroll
    for (int s = 1; s < 32; s *= 2) { const u32 left = __shfl_up_sync(FULL, to_lane, s); if (lane >= s) to_lane = max(to_lane, left); }
    const u32 left = __shfl_up_sync(FULL, to_lane, 1), mine = lane ? max(left, nearest) : nearest;
    nearest = max(nearest, __shfl_sync(FULL, to_lane, 31));
    if (i >= end) continue;
    u32 segment[4];
#pragma unroll
    for (int j = 0; j < 4; j++) segment[j] = max(max(mark[k][j], mine), 1u) - 1;  // before the part: any
    if constexpr (VALUES) {
      alignas(16) VALUE values[4];
#pragma unroll
      for (int j = 0; j < 4; j++) values[j] = p.x[t * TILE + segment[j]];
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
