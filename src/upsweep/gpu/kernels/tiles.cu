// Scans of long rows in one pass: persistent blocks take tiles by ticket, publish a tile's sum one tile ahead of writing it,
// and look back over sums alone (lookback.cuh). Merrill and Garland, "Single-pass parallel prefix scan with decoupled
// look-back" (2016), gave the pass; the radix-32 tree of Brent-Kung blocks replaces their chain.
#include "region.cuh"
#include "thread.cuh"
#include "lookback.cuh"

typedef Region<32, ITEMS> WarpRegion;
constexpr int TILE = WARPS * 32 * ITEMS, THREADS = 32 * (WARPS + 1), STAGES = 2;
static_assert(SHARED_BYTES == STAGES * WARPS * WarpRegion::WARP_BYTES && NODE_WORDS == NODE, "launch.py counts otherwise");

struct Shared {
  i64 ticket[4];                // a ring: two stages, the one being asked for, the one just left
  Element sums[2][WARPS];       // of the warps of a tile and of the next
  Prefix prefixes[WARPS + 1];   // of the warps; the last is the prefix of the next tile
  Item start;
};

// A: the sums of a tile are in shared memory. B: the prefixes of the tile before it, and a new ticket, are.
__device__ __forceinline__ void barrier_arrive(int id) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(THREADS) : "memory"); }
__device__ __forceinline__ void barrier_sync(int id) { asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory"); }
enum { A = 1, B = 2 };

// The warp that takes tickets, publishes and looks back.
__device__ __forceinline__ void serve(const Params& p, Shared& s, int lane) {
  u32 epoch = p.control[2];
  barrier_sync(A);
  Element ahead;
  auto sum_of = [&](int buffer, Element* left) {
    return up_sweep<WARPS>(s.sums[buffer][lane % WARPS], lane, left);
  };
  auto publish_tile = [&](i64 ticket, int buffer) {
    if (ticket >= p.tickets || p.tiles == 1) return;
    Element left[5];
    ahead = sum_of(buffer, left);
    Place at = place_of(p, ticket);
    publish({p, at.row, epoch}, at.t, ahead, lane);
  };
  publish_tile(s.ticket[0], 0);
  for (int k = 0;; k++) {
    i64 ticket = s.ticket[k & 3];
    if (ticket >= p.tickets) break;
    i64 later = 0;
    if (lane == 0) later = take_ticket(p);
    Element left[5];
    Element sum = sum_of(k & 1, left);
    barrier_sync(A);
    publish_tile(s.ticket[(k + 1) & 3], (k + 1) & 1);
    auto [row, t] = place_of(p, ticket);
    if (!REDUCE || t + 1 == p.tiles) {
      Item start = {};
      if (INITIAL || EXCLUSIVE) start = start_of(p, row);
      Prefix before, next;
      look_back({p, row, epoch}, t, sum, start, lane, before, next);
      down_sweep<WARPS>(before, lane, left, start);
      if (lane < WARPS) s.prefixes[lane] = before;
      if (lane == WARPS) s.prefixes[WARPS] = next;
      if (lane == 0) s.start = start;
    }
    if (lane == 0) s.ticket[(k + 2) & 3] = later;
    barrier_sync(B);
  }
  if (lane == 0) leave(p, epoch);
}

// The warps that read, sum and write.
__device__ __forceinline__ void work(const Params& p, Shared& s, char* memory, int warp, int lane) {
  auto region = [&](int k) { return WarpRegion{memory + ((k & 1) * WARPS + warp) * WarpRegion::WARP_BYTES, lane}; };
  auto first = [&](i64 t) { return t * TILE + warp * (32 * ITEMS); };
  auto load = [&](int k) {
    i64 ticket = s.ticket[k & 3];
    if (ticket < p.tickets) { auto [row, t] = place_of(p, ticket); region(k).load(p, row, first(t)); }
    commit_copies();
  };
  auto sum = [&](int k) {
    i64 ticket = s.ticket[k & 3];
    __syncwarp();  // every lane's copies of this tile have landed
    if (ticket >= p.tickets) return;
    Item x[ITEMS]; Element left[5];
    auto [row, t] = place_of(p, ticket);
    u32 heads = region(k).read(p, row, first(t), x);
    up_sweep(x, heads);
    Element e = up_sweep<32>(element(x[ITEMS - 1], heads >> (ITEMS - 1) & 1), lane, left);
    if (lane == 0) s.sums[k & 1][warp] = e;
  };
  load(0); load(1);
  wait_copies<1>();
  sum(0);
  barrier_arrive(A);
  for (int k = 0;; k++) {
    i64 ticket = s.ticket[k & 3];
    if (ticket >= p.tickets) break;
    auto [row, t] = place_of(p, ticket);
    i64 j = first(t);
    wait_copies<0>();
    sum(k + 1);
    barrier_arrive(A);
    Item x[ITEMS]; Element left[5];
    u32 heads = region(k).read(p, row, j, x), swept = heads;
    up_sweep(x, swept);
    up_sweep<32>(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), lane, left);
    barrier_sync(B);
    if (!REDUCE || t + 1 == p.tiles) {
      Prefix before = s.prefixes[warp];
      Item start = {};
      if (EXCLUSIVE || SEGMENTED) start = s.start;
      down_sweep<32>(before, lane, left, start);
      Item next = from_next(before.value);
      if (lane == 31) next = s.prefixes[warp + 1].value;
      results(x, heads, swept, before, next, start);
      if constexpr (REDUCE) store_reduction<32>(p, row, j + lane * ITEMS, x);
      else {
        __syncwarp();  // all lanes have read their runs
        region(k).write(x);
        __syncwarp();  // all lanes have written theirs
        region(k).store(p, row, j);
      }
    }
    __syncwarp();  // the stage is free
    load(k + 2);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_tiles(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Shared s;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) { s.ticket[0] = take_ticket(p); s.ticket[1] = take_ticket(p); }
  __syncthreads();
  if (warp == WARPS) serve(p, s, lane); else work(p, s, memory, warp, lane);
}
