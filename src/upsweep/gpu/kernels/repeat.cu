// Values, each repeated as often as its count says, however uneven the counts are. A first pass sums the counts of tiles, and
// writes a byte for each count. Then the ends of the tiles and the output's chunks cut the output into parts. A block finds its
// first part among the sums, and goes on to the next ones. It scans the counts of the tile, and marks the start of each segment by
// a bit. So many bits as are set up to an item of the output, so many segments that have items have begun.
// The cuts: Green, McColl and Bader, "GPU merge path" (2012).
//   VALUES   x[s] is written for each item of segment s
//   OWNERS   s is written, and the item's place within the segment
//   TOUCHING   neighbours are written by one store
#include "repeat.cuh"

constexpr int LINE = 32 * PER;  // of the output: what a warp writes at once
constexpr int SPAN = 1024;  // of the output: a lane has a word of a warp's marks
constexpr u64 RANK = 1ull << 48;
static_assert(TILE <= 65536 && CHUNK % (WARPS * SPAN) == 0, "a segment's name and rank have 16 bits");
static_assert(PARTS < 32, "a warp's lanes ask for the tiles of all parts");

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

// Neighbours of the output. The block owns those from low up to high.
template <class T> __device__ __forceinline__ void store_neighbours(T* to, const T (&v)[PER], int low, int high) {
  if (TOUCHING && low <= 0 && high >= PER) {
    if constexpr (PER * sizeof(T) == 4) *(u32*)to = *(const u32*)v;
    else if constexpr (PER * sizeof(T) == 8) *(u64*)to = *(const u64*)v;
    else {
#pragma unroll
      for (int i = 0; i < PER * sizeof(T) / 16; i++) ((uint4*)to)[i] = ((const uint4*)v)[i];
    }
  } else {
#pragma unroll
    for (int j = 0; j < PER; j++) if (j >= low && j < high) to[j] = v[j];
  }
}

// Calls f(j, count, segment's first item, segment's rank among those that have items) for each segment of a thread that has any.
template <class T, class Counts, class F> __device__ __forceinline__ void each_segment(const Counts& counts, T at, u32 rank, F f) {
#pragma unroll
  for (int j = 0; j < COUNTS; j++) {
    const T count = (T)counts(j);
    if (count > 0) f(j, at, at + count, rank++);
    at += count;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, (sizeof(VALUE) > 8 ? 768 : VALUES ? 1280 : 1024) / THREADS) upsweep_fill(const __grid_constant__ Repeat p) {
  __shared__ u32 marks[2][CHUNK / 32];  // a bit where a segment starts, in this part and in the next one
  // The segments of a tile that have items: their values, or where they begin in the part, and their names.
  __shared__ VALUE held[VALUES ? TILE : 1];
  __shared__ int begins[OWNERS ? TILE : 1];
  __shared__ u16 names[OWNERS ? TILE : 1];
  __shared__ u64 sums[WARPS];
  __shared__ i64 tile_sums[PARTS];
  // The rank of the segment that a part starts in, and how many items it has before the part.
  __shared__ u32 cut_rank;
  __shared__ i64 late;
  __shared__ u8 wides[PARTS];
  __shared__ Cut shared_cut;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 step = (i64)blockIdx.x * PARTS;
  if (warp == 0) {
    const Cut cut = cut_at(p, step, lane);
    // Where a count is negative, the sums say nothing.
    if (lane == 0) shared_cut = *p.negative ? Cut{p.tiles, 0, 0} : cut;
    if (lane < PARTS && cut.tile + lane < p.tiles) {
      tile_sums[lane] = p.nodes.level[0][cut.tile + lane];
      wides[lane] = p.wide[cut.tile + lane];
    }
  }
  for (int i = threadIdx.x; i < CHUNK / 32; i += THREADS) marks[0][i] = 0;
  __syncthreads();  // the first part is known, and there are no marks
  Cut cut = shared_cut;
  const i64 first_tile = cut.tile;
  i64 known = -1;
  u64 before = 0;  // of the tile's items, and in the top bits of its segments that have any
  u64 bytes = 0, coming = cut.tile < p.tiles ? p.bytes[cut.tile * THREADS + threadIdx.x] : 0;
  bool wide = false;

  for (int part = 0; part < PARTS && cut.tile < p.tiles; part++) {
    const i64 t = cut.tile, bound = (step + part - t + 1) * CHUNK;
    const i64 low = max(cut.start, bound - CHUNK), high = min(min(cut.end, bound), p.room), base = low & -(i64)PER, start = cut.start;
    const bool last = cut.end <= bound, fresh = known != t;
    Pack<VALUE, COUNTS> mine;
    const auto segments = [&](i64 from, auto f) {
      const i64 at = from + (i64)(before & RANK - 1);
      const u32 rank = (u32)(before / RANK);
      if (wide) {
        Pack<COUNT, COUNTS> counts;
        load_counts(counts, p, t);
        each_segment([&](int j) { return counts.get(j); }, at, rank, f);
      } else each_segment([&](int j) { return bytes >> 8 * j & 255; }, (int)at, rank, f);
    };
    if (fresh) {
      known = t;
      wide = wides[t - first_tile];
      bytes = coming;
      if (t + 1 < p.tiles) coming = p.bytes[(t + 1) * THREADS + threadIdx.x];
      const i64 s = t * TILE + threadIdx.x * COUNTS;
      if (VALUES) mine.template load_within<EVEN>(p.x + s, 0, p.n - s);
      before = 0;
      u64 sum = 0;
      segments(0, [&](int j, auto at, auto end, u32 rank) { sum = (u64)(rank + 1) * RANK | (u64)end; });
      u64 to_lane = sum;
#pragma unroll
      for (int s = 1; s < 32; s *= 2) { const u64 left = __shfl_up_sync(FULL, to_lane, s); if (lane >= s) to_lane += left; }
      if (lane == 31) sums[warp] = to_lane;
      before = to_lane - sum;
    }
    __syncthreads();  // all warps have summed, and are through with the part before
    if (fresh) {
#pragma unroll
      for (int w = 0; w < WARPS; w++) if (w < warp) before += sums[w];
      segments(0, [&](int j, auto at, auto end, u32 rank) {
        if constexpr (VALUES) held[rank] = mine.get(j);
        if constexpr (OWNERS) names[rank] = threadIdx.x * COUNTS + j;
      });
    }
    for (int i = threadIdx.x; i < CHUNK / 32; i += THREADS) marks[part + 1 & 1][i] = 0;
    if (last) {
      cut.tile = t + 1;
      cut.start = cut.end;
      if (t + 1 - first_tile < PARTS) cut.end += tile_sums[t + 1 - first_tile];
    }
    if (low >= high) continue;
    const int first = (int)(low - base), end = (int)(high - base);
    u32* const bits = marks[part & 1];
    segments(start - base, [&](int j, auto at, auto behind, u32 rank) {
      if (behind <= first || at >= end) return;
      const int to = at > first ? (int)at : 0;
      atomicOr(bits + to / 32, 1u << to % 32);
      if (OWNERS) begins[rank] = to;
      if (at <= first) { cut_rank = rank; late = -at; }
    });
    __syncthreads();  // marks are there

#pragma unroll 1
    for (int window = 0; window < end; window += WARPS * SPAN) {
      const u32* const here = bits + window / 32;
      const int rest = min(end - window, WARPS * SPAN), lines = (rest + WARPS * LINE - 1) / (WARPS * LINE), words = LINE / 32 * lines;  // of a warp
      u32 rank = 0;  // before a lane's word
      for (int i = lane; i < window / 32 + warp * words; i += 32) rank += __popc(bits[i]);
      const u32 word = lane < words ? here[warp * words + lane] : 0;
      rank = cut_rank - 1 + __reduce_add_sync(FULL, rank) + sum_to_lane(__popc(word), lane) - __popc(word);
#pragma unroll 2
      for (int k = 0; k < lines; k++) {
        const int i = window + (warp * lines + k) * LINE + PER * lane, from = LINE / 32 * k + PER * lane / 32, shift = PER * lane % 32;
        const u32 near = __shfl_sync(FULL, word, from);
        u32 at = __shfl_sync(FULL, rank, from) + __popc(near & (1u << shift) - 1);
        if (i >= end) continue;
        u32 segment[PER];
#pragma unroll
        for (int j = 0; j < PER; j++) segment[j] = at += near >> (shift + j) & 1;
        if constexpr (VALUES) {
          alignas(16) VALUE values[PER];
#pragma unroll
          for (int j = 0; j < PER; j++) values[j] = held[segment[j]];
          store_neighbours(p.values + base + i, values, first - i, end - i);
        }
        if constexpr (OWNERS) {
          alignas(16) i64 owners[PER], ranks[PER];
#pragma unroll
          for (int j = 0; j < PER; j++) {
            owners[j] = t * TILE + names[segment[j]];
            ranks[j] = i + j - begins[segment[j]] + (segment[j] == cut_rank ? late : 0);
          }
          store_neighbours(p.owners + base + i, owners, first - i, end - i);
          store_neighbours(p.ranks + base + i, ranks, first - i, end - i);
        }
      }
    }
  }
}
