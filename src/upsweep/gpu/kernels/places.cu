// The places of the flags that are set, in one launch whose blocks all run at once. A warp counts the flags of a stretch of its own
// and keeps them in shared memory, as bits. Blocks publish their counts, and each reads those of all. So flags are read once, and
// nothing but counts lies in memory in between. The host learns the length before a place is written.
#include "counts.cuh"
#include "packs.cuh"
#include "places.cuh"
#include "epochs.cuh"

constexpr int WARPS = THREADS / 32, GROUP = 1024, PIECE = 16, PIECES = GROUP / (32 * PIECE);
constexpr int SPARSE = 64;  // places of a group at most that lanes write as they find them

// The flags of a warp: they begin at a multiple of 16 bytes, and those from `low` up to `high` exist.
struct Stretch { const u8* flags; int low, high, pieces; };

// Counts the flags, and leaves a bit for each in `bits`.
__device__ __forceinline__ u32 mark(const Stretch& s, u16* bits, int lane) {
  u32 count = 0;
  const auto keep = [&](int k, const Pack<u8, PIECE>& flags) {
    const u32 mine = bits_of(flags);
    count += __popc(mine);
    bits[k * 32 + lane] = mine;
  };
  int k = 0;
  if (s.low <= 0)
#pragma unroll 1
    for (; k + TOGETHER <= s.pieces && (k + TOGETHER) * 32 * PIECE <= s.high; k += TOGETHER) {
      Pack<u8, PIECE> flags[TOGETHER];
#pragma unroll
      for (int j = 0; j < TOGETHER; j++) flags[j].load(s.flags + ((k + j) * 32 + lane) * PIECE);
#pragma unroll
      for (int j = 0; j < TOGETHER; j++) keep(k + j, flags[j]);
    }
#pragma unroll 1
  for (; k < s.pieces; k++) {
    const int at = (k * 32 + lane) * PIECE;
    Pack<u8, PIECE> flags;
    flags.load_some(s.flags + at, s.low - at, s.high - at);
    keep(k, flags);
  }
  return __reduce_add_sync(FULL, count);
}

// What all blocks have counted, and those before this one.
struct Sums { u32 before, all; };
__device__ __forceinline__ Sums exchange(const Params& p, u32 own, u32 epoch) {
  __shared__ Sums shares[WARPS];
  if (threadIdx.x == 0) write_count(p.nodes + blockIdx.x, (u64)epoch << 32 | own);
  Sums sums = {0, 0};
  for (int b = threadIdx.x; b < gridDim.x; b += THREADS) {
    u64 w;
    do w = read_count(p.nodes + b); while ((u32)(w >> 32) != epoch);
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

// Writes the places of a group to memory that has room for so many: a lane has the bits of 32 neighbours, and `rank` of the places
// come before its own.
__device__ __forceinline__ void write(i64* to, i64 room, u32 bits, u32 rank, u32 total, i64 begin, u16* spots, int lane) {
  const int some = (int)min(max(room, 0ll), (i64)total);
  if (total <= SPARSE) {
    for (; bits; bits &= bits - 1, rank++)
      if (rank < some) to[rank] = begin + 32 * lane + __ffs(bits) - 1;
    return;
  }
  for (; bits; bits &= bits - 1) spots[rank++] = 32 * lane + __ffs(bits) - 1;
  __syncwarp();  // the places lie side by side
#pragma unroll 4
  for (int j = lane; j < some; j += 32) to[j] = begin + spots[j];
  __syncwarp();  // all have been read
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_places(const __grid_constant__ Params p) {
  extern __shared__ u32 memory[];  // the bits of all warps, and then their spots
  __shared__ u32 counts[WARPS], shared_epoch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 w = (i64)blockIdx.x * WARPS + warp, warps = (i64)gridDim.x * WARPS;
  const i64 first = p.groups * w / warps, begin = first * GROUP - p.skip;
  const int some = (int)(p.groups * (w + 1) / warps - first);
  u32* const bits = memory + warp * (int)p.share * 32;
  u16* const spots = (u16*)(memory + WARPS * (int)p.share * 32) + warp * GROUP;
  const u32 epoch = threadIdx.x == 0 ? *(volatile u32*)(p.control + 2) : 0;
  const Stretch mine = {p.flags + begin, (int)max(-begin, 0ll), (int)min(p.n - begin, (i64)some * GROUP), some * PIECES};
  const u32 own = mark(mine, (u16*)bits, lane);
  if (lane == 0) counts[warp] = own;
  if (threadIdx.x == 0) shared_epoch = epoch;
  __syncthreads();  // all warps have counted

  u32 before = 0, block = 0;
#pragma unroll
  for (int v = 0; v < WARPS; v++) { if (v < warp) before += counts[v]; block += counts[v]; }
  const Sums sums = exchange(p, block, shared_epoch);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *(volatile i64*)p.count = sums.all;
    __threadfence_system();
    move_on(p, epoch, gridDim.x);  // all blocks have read it
  }
  const bool few = sums.all <= p.small_size;
  i64* const places = (few ? p.small : p.large) + sums.before + before;
  i64 room = (few ? p.small_size : p.large_size) - sums.before - before;
  u32 written = 0;
#pragma unroll 1
  for (int g = 0; g < some; g += 2) {
    const u32 a = bits[32 * g + lane], b = g + 1 < some ? bits[32 * g + 32 + lane] : 0;
    const u32 both = __popc(a) | __popc(b) << 16, to_lane = sum_to_lane(both, lane), all = __shfl_sync(FULL, to_lane, 31), rank = to_lane - both;
    write(places + written, room - written, a, rank & 0xffff, all & 0xffff, begin + g * GROUP, spots, lane);
    written += all & 0xffff;
    write(places + written, room - written, b, rank >> 16, all >> 16, begin + (g + 1) * GROUP, spots, lane);
    written += all >> 16;
  }
}
