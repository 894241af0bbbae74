// Codes of bytes, one behind the other: a thread sums the lengths of its codes, tiles learn the sum of all tiles before them, and
// the bits of a tile come together in shared memory. The lowest bit is the first.
//   EVEN   threads load their bytes by one load
#include "packs.cuh"
#include "tally.cuh"

constexpr int WARPS = THREADS / 32, BYTES = 16, TILE = THREADS * BYTES, LONGEST = 12;
static_assert(BLOCK == 32 * BYTES, "a warp has the bytes of a block");

struct Codes {
  const u8* x;
  i64 n, tiles;
  u32* words;    // zero before; there is room for the longest codes
  i64* sizes;    // of blocks, in bits
  i64* total;    // of all blocks, in memory of the host
  u32* ticket;
  Nodes nodes;
  u16 entries[256];  // of each byte: its code, and in the lowest four bits the code's length
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_codes(const __grid_constant__ Codes p) {
  __shared__ u32 held[TILE * LONGEST / 32 + 2], sums[WARPS];
  __shared__ u16 entries[256];
  __shared__ u64 shared_before;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 t = draw(p.ticket), first = t * TILE + threadIdx.x * BYTES;
  Pack<u8, BYTES> bytes;
  bytes.template load_within<EVEN>(p.x + first, 0, p.n - first);
  for (int i = threadIdx.x; i < 256; i += THREADS) entries[i] = p.entries[i];
  for (int i = threadIdx.x; i < sizeof(held) / 4; i += THREADS) held[i] = 0;
  __syncthreads();  // codes are there, and no bits

  const int present = (int)max(min(p.n - first, (i64)BYTES), 0ll);
  u32 bits = 0;
#pragma unroll
  for (int j = 0; j < BYTES; j++) if (j < present) bits += entries[bytes.get(j)] & 15;
  const u32 to_lane = sum_to_lane(bits, lane);
  if (lane == 31) {
    const i64 block = t * WARPS + warp;
    sums[warp] = to_lane;
    if (block * BLOCK < p.n) p.sizes[block] = to_lane;
  }
  __syncthreads();  // all warps have summed
  u32 total = 0, at = to_lane - bits;
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    if (w < warp) at += sums[w];
    total += sums[w];
  }
  if (warp == 0) {
    const u64 before = add_and_wait(p.nodes, t, total, lane);
    if (lane == 0) shared_before = before;
  }
  __syncthreads();  // it is known where the tile begins
  const u64 before = shared_before;
  if (t == p.tiles - 1 && threadIdx.x == 0) { *(volatile i64*)p.total = before + total; __threadfence_system(); }
  const u32 start = (u32)before % 32;
  at += start;
  u64 own = 0;
  int word = at / 32, have = at % 32;
#pragma unroll
  for (int j = 0; j < BYTES; j++) if (j < present) {
    const u32 entry = entries[bytes.get(j)];
    own |= (u64)(entry >> 4) << have;
    have += entry & 15;
    if (have >= 32) {
      atomicOr(held + word++, (u32)own);
      own >>= 32;
      have -= 32;
    }
  }
  if (own) atomicOr(held + word, (u32)own);
  __syncthreads();  // all bits are there
  const int last = (start + total + 31) / 32 - 1;
  u32* const to = p.words + before / 32;
  for (int i = threadIdx.x; i <= last; i += THREADS) {
    if (i > 0 && i < last) to[i] = held[i];
    else atomicOr(to + i, held[i]);  // the tiles beside have bits of this word
  }
}
