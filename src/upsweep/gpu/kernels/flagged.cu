// What flags keep, in one launch whose blocks all run at once. A block counts the flags of a stretch of its own and keeps them in
// shared memory, as bits. Blocks publish their counts, and each reads those of all. So flags are read once, and nothing but counts
// lies in memory in between. The host learns the length before anything is written.
//   VALUES, PLACES   the results for a kept item: itself, its index
#include "counts.cuh"
#include "packs.cuh"
#include "flagged.cuh"
#include "epochs.cuh"

constexpr int WARPS = THREADS / 32, PIECE = 16, GROUP = 32 * PIECE * PIECES, WORDS = PIECES / 2;
constexpr int SPARSE = 64;  // of 1024 flags at most, what lanes write as they find it
constexpr int MANY = sizeof(KEY) > 8 ? 4 : 8;  // items of a lane on their way at once
static_assert(WORDS == 2, "the counts of two words are scanned as one");

// Reads a group of flags, of which those from `low` up to `high` exist, and leaves a bit for each in `bits`. Gives their number.
__device__ __forceinline__ u32 mark(const u8* from, i64 low, i64 high, u16* bits, int lane) {
  u32 count = 0;
  const auto keep = [&](int k, const Pack<u8, PIECE>& flags) {
    const u32 mine = bits_of(flags);
    count += __popc(mine);
    bits[k * 32 + lane] = mine;
  };
  if (low <= 0 && high >= GROUP) {
    Pack<u8, PIECE> flags[PIECES];
#pragma unroll
    for (int k = 0; k < PIECES; k++) flags[k].load(from + (k * 32 + lane) * PIECE);
#pragma unroll
    for (int k = 0; k < PIECES; k++) keep(k, flags[k]);
  } else {
#pragma unroll 1
    for (int k = 0; k < PIECES; k++) {
      const int at = (k * 32 + lane) * PIECE;
      Pack<u8, PIECE> flags;
      flags.load_some(from + at, low - at, high - at);
      keep(k, flags);
    }
  }
  return __reduce_add_sync(FULL, count);
}

// By a warp: makes of the counts of groups how many come before each, and gives their sum.
__device__ __forceinline__ u32 scan_counts(u32* counts, int groups, int lane) {
  u32 sum = 0;
  for (int first = 0; first < groups; first += 32) {
    const int g = first + lane;
    const u32 own = g < groups ? counts[g] : 0, to_lane = sum_to_lane(own, lane);
    if (g < groups) counts[g] = sum + to_lane - own;
    sum += __shfl_sync(FULL, to_lane, 31);
  }
  return sum;
}

// What all blocks have counted, and those before this one.
struct Sums { u32 before, all; };
__device__ __forceinline__ Sums sums_of(const u64* nodes, u32 epoch) {
  __shared__ Sums shares[WARPS];
  Sums sums = {0, 0};
  for (int b = threadIdx.x; b < gridDim.x; b += THREADS) {
    u64 w;
    do w = read_count(nodes + b); while ((u32)(w >> 32) != epoch);
    sums.all += (u32)w;
    if (b < blockIdx.x) sums.before += (u32)w;
  }
  sums = {__reduce_add_sync(FULL, sums.before), __reduce_add_sync(FULL, sums.all)};
  if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32] = sums;
  __syncthreads();  // the counts of all blocks are there
  sums = {0, 0};
#pragma unroll
  for (int w = 0; w < WARPS; w++) { sums.before += shares[w].before; sums.all += shares[w].all; }
  return sums;
}

// Where a warp brings the places of 1024 flags side by side. Lanes that find 32 places each meet each bank once.
struct Spots {
  static constexpr int ROW = 34, SIZE = 32 * ROW;
  u16* at;
  __device__ __forceinline__ u16& operator[](u32 k) const { return at[k / 32 * ROW + k % 32]; }
};

// Where a result goes, and the room behind it.
struct Result { i64* places; KEY* values; i64 room; };
__device__ __forceinline__ Result behind(const Result& to, i64 count) { return {to.places + count, to.values + count, to.room - count}; }

// Writes what 1024 flags keep: a lane has the bits of 32 neighbours, and `rank` of the kept ones come before its own. The first flag
// is that of the item at `x`, whose place is `begin`.
__device__ __forceinline__ void write(const Result& to, const KEY* x, i64 begin, u32 bits, u32 rank, u32 total, const Spots& spots, int lane) {
  const int some = (int)min(max(to.room, 0ll), (i64)total);
  if (total <= SPARSE) {
    for (; bits; bits &= bits - 1, rank++) {
      const int i = 32 * lane + __ffs(bits) - 1;
      if (rank >= some) break;
      if (VALUES) to.values[rank] = x[i];
      if (PLACES) to.places[rank] = begin + i;
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < 32; j++) if (bits >> j & 1) spots[rank++] = 32 * lane + j;
  __syncwarp();  // what is kept lies side by side
  for (int first = lane; first < some; first += 32 * MANY) {
    KEY item[MANY];
#pragma unroll
    for (int m = 0; VALUES && m < MANY; m++) if (first + 32 * m < some) item[m] = x[spots[first + 32 * m]];
#pragma unroll
    for (int m = 0; m < MANY; m++) {
      const int j = first + 32 * m;
      if (VALUES && j < some) to.values[j] = item[m];
      if (PLACES && j < some) to.places[j] = begin + spots[j];
    }
  }
  __syncwarp();  // all have been read
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_flagged(const __grid_constant__ Params p) {
  extern __shared__ u32 memory[];  // bits of all groups, their counts, and the spots of warps
  __shared__ u32 shared_epoch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, share = (int)p.share;
  const i64 first = p.groups * blockIdx.x / gridDim.x, begin = first * GROUP - p.skip;
  const int some = (int)(p.groups * (blockIdx.x + 1) / gridDim.x - first);
  u32 *const bits = memory, *const counts = bits + share * GROUP / 32;
  const Spots spots = {(u16*)(counts + share) + warp * Spots::SIZE};
  const u32 epoch = threadIdx.x == 0 ? *(volatile u32*)(p.control + 2) : 0;
#pragma unroll 1
  for (int g = warp; g < some; g += WARPS) {
    const i64 at = begin + (i64)g * GROUP;
    const u32 count = mark(p.flags + at, -at, p.n - at, (u16*)(bits + g * GROUP / 32), lane);
    if (lane == 0) counts[g] = count;
  }
  __syncthreads();  // all groups are counted

  if (warp == 0) {
    const u32 sum = scan_counts(counts, some, lane);
    if (lane == 0) { write_count(p.nodes + blockIdx.x, (u64)epoch << 32 | sum); shared_epoch = epoch; }
  }
  __syncthreads();  // the epoch is known, and what lies before each group
  const Sums sums = sums_of(p.nodes, shared_epoch);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *(volatile i64*)p.count = sums.all;
    __threadfence_system();
    move_on(p, epoch, gridDim.x);  // all blocks have read it
  }
  const bool few = sums.all <= p.small.size;
  const Room& room = few ? p.small : p.large;
  const Result to = behind({room.places, room.values, room.size}, sums.before);
#pragma unroll 1
  for (int g = warp; g < some; g += WARPS) {
    const u32 a = bits[g * GROUP / 32 + lane], b = bits[g * GROUP / 32 + 32 + lane], start = counts[g];
    const u32 both = __popc(a) | __popc(b) << 16, to_lane = sum_to_lane(both, lane), all = __shfl_sync(FULL, to_lane, 31), rank = to_lane - both;
    const i64 at = begin + (i64)g * GROUP;
    const Result here = behind(to, start);
    write(here, p.x + at, at, a, rank & 0xffff, all & 0xffff, spots, lane);
    write(behind(here, all & 0xffff), p.x + at + GROUP / 2, at + GROUP / 2, b, rank >> 16, all >> 16, spots, lane);
  }
}
