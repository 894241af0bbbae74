// Scans of rows that fit in shared memory. Either an aligned group of LANES lanes scans a row by itself, or ROW_WARPS warps of
// CLUSTER blocks scan it together (where a scan is GROUPED, up to 32 clusters, or up to 1024 where it is reduced). As many blocks as fit hide the latency, as in a
// copy kernel.
#include "packed.cuh"
#include "thread.cuh"
#include "nodes.cuh"

typedef Region<LANES, ITEMS> RowRegion;
static_assert(SHARED_BYTES == WARPS * RowRegion::WARP_BYTES && NODE_WORDS == NODE, "choice.py counts otherwise");
constexpr bool SHARED_ROWS = ROW_WARPS > 1, MANY_BLOCKS = CLUSTER > 1 || GROUPED;
// Where one warp of many finishes, none keeps its items in registers while they meet, but reads them again; not where few blocks
// run, which would only take longer, nor where a block has two warps, of which one would read half of the row again.
constexpr bool READ_AGAIN = REDUCE && ROW_WARPS > 2 && (GROUPED || !SMALL) && ITEMS * NODE > 8;
constexpr int places(int parts) { return 1 << log2_of(2 * parts - 1); }

// Barriers of a cluster, in two halves: the work between the halves need not wait.
__device__ __forceinline__ void arrive_at_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void await_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Where all rows have one list of heads, a block makes bits of those of its items for all its warps. Bit 32 is the first.
constexpr bool LISTED = SEGMENTED && !HEADS_HERE;
constexpr int PART = LANES * ITEMS, LIST = (ROW_WARPS * PART + 31) / 32;
struct List {
  u32 w[LIST + 3];

  // Of the items from `first` on.
  __device__ __forceinline__ void load(const Params& p, i64 first) {
    if (threadIdx.x < 3) w[threadIdx.x == 0 ? 0 : LIST + threadIdx.x] = 0;
    if constexpr (HEADS_BITS) {
#pragma unroll
      for (int k = 0; k < (LIST + THREADS - 1) / THREADS; k++) {
        const int i = k * THREADS + threadIdx.x;
        const i64 at = first / 32 + i;
        if (i < LIST) w[1 + i] = 32 * at < p.n ? ((const u32*)p.heads)[at] & (at == 0 ? ~1u : FULL) : 0;
      }
    } else {
      const char* heads = p.heads + (first + threadIdx.x) * p.heads_strides.along;
      const int from = first == 0, to = (int)min(p.n - first, (i64)(32 * LIST));  // a row starts its first segment anyway
#pragma unroll 4
      for (int k = 0; k < (LIST + WARPS - 1) / WARPS; k++, heads += THREADS * p.heads_strides.along) {
        const int at = k * THREADS + threadIdx.x;
        const u32 bits = __ballot_sync(FULL, at >= from && at < to && *heads != 0);
        if (threadIdx.x % 32 == 0 && at < 32 * LIST) w[1 + at / 32] = bits;
      }
    }
  }
  // Of a run that begins so many items after the first.
  __device__ __forceinline__ HeadsOfRun<ITEMS> of_run(int at) const {
    constexpr bool WHOLE = ITEMS % 32 == 0 && !PIECES_CUT;
    HeadsOfRun<ITEMS> heads;
    const u32* from = w + 1 + (at >> 5);
#pragma unroll
    for (int q = 0; q < (ITEMS + 31) / 32; q++) heads.w[q] = WHOLE ? from[q] : __funnelshift_r(from[q], from[q + 1], at & 31);
    if (ITEMS % 32) heads.w[ITEMS / 32] &= (1u << ITEMS % 32) - 1;
    return heads;
  }
};

// From the block sums of an up-sweep over PARTS neighbours, one a lane, to the prefix of one of them and the prefix behind it.
// `before` is the prefix of the first neighbour; `after`, the prefix behind all PLACES, stays where the part is the last of them.
template <int PARTS> __device__ __forceinline__
void narrow(const Element& swept, int part, int lane, const Item& start, Prefix& before, Prefix& after) {
  constexpr int PLACES = places(PARTS);
  Prefix p = before;
  down_sweep<PLACES>(p, lane % PLACES, swept, start);
  Item next = from_lane(p.value, (part + 1) % 32);
  if (part + 1 < PLACES) after = {next, true};
  before = {from_lane(p.value, part), before.some || part > 0};
}

// The number of a cluster, and the epoch where clusters meet. There the clusters take their numbers by ticket, because they wait
// for earlier ones: the first block draws for all blocks, which read the number from its shared memory.
__device__ __forceinline__ Joined number(const Params& p) {
  if constexpr (!GROUPED) return {0, blockIdx.x / CLUSTER};
  __shared__ Joined drawn;
  u32 clusters = gridDim.x / CLUSTER;
  if (threadIdx.x == 0 && blockIdx.x % CLUSTER == 0) drawn = join(p, clusters, (u64)clusters * NODE);
  if constexpr (CLUSTER == 1) {
    __syncthreads();  // the ticket is there
    return drawn;
  } else {
    __syncwarp();  // a warp arrives as one
    arrive_at_cluster();
    await_cluster();  // the ticket is there, and all blocks have started
    u32 from;
    Joined j;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(from) : "r"(shared_address(&drawn)));
    asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];" : "=r"(j.epoch), "=r"(j.ticket) : "r"(from) : "memory");
    return j;
  }
}

// The blocks of a row. The blocks of a cluster hand each other their sums through shared memory, then clusters do so through
// nodes, which a warp asks for all at once. A cluster waits only for clusters that took their tickets earlier.
__device__ __forceinline__ void meet_blocks(const Params& p, const Element& sum, const Element* groups, int lane, const Joined& own,
                                            const Item& start, Prefix& before, Prefix& after) {
  u32 rank = blockIdx.x % CLUSTER;
  Element swept = sum;
  if constexpr (CLUSTER > 1) {
    __shared__ Words<Element> sums[CLUSTER];
    if constexpr (!GROUPED) await_cluster();  // all its blocks have started
    if (lane < CLUSTER) {
      u32 to;
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(&sums[rank])), "r"(lane));
      Words<Element> w = to_words(sum);
#pragma unroll
      for (int i = 0; i < Words<Element>::count; i++)
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to + 4 * i), "r"(w.w[i]) : "memory");
    }
    __syncwarp();  // a warp arrives as one
    arrive_at_cluster();
    await_cluster();  // all sums are there
    swept = up_sweep<CLUSTER>(from_words<Element>(sums[lane % CLUSTER]), lane);
  }
  Element total = from_lane(swept, CLUSTER - 1);
  if constexpr (GROUPED) {
    const u32 t = own.ticket % (u32)p.tiles, place = t % 32;
    u64* nodes = p.nodes + (u64)(own.ticket - place) * NODE;
    if (rank == 0 && lane == 31) store_node<1>(nodes + place * NODE, total, own.epoch);
    // The last block of a row finishes a reduction, and the others wait for none.
    const bool waits = lane < place && (!REDUCE || t + 1 == (u32)p.tiles);
    Element sums = await_node<1>(nodes + lane * NODE, waits, {}, own.epoch), tiles = up_sweep<32>(pick(lane < place, sums, total), lane);
    if constexpr (REDUCE) sums = up_sweep<32>(pick(lane < t / 32, groups[lane], from_lane(tiles, 31)), lane);
    if (!EXCLUSIVE) fold(after, from_lane(REDUCE ? sums : tiles, 31), start);
    if constexpr (REDUCE) narrow<32>(sums, t / 32, lane, start, before, after);
    narrow<32>(tiles, place, lane, start, before, after);
  } else if (!EXCLUSIVE) {
    fold(after, total, start);
  }
  if constexpr (CLUSTER > 1) narrow<CLUSTER>(swept, rank, lane, start, before, after);
}

// The sums of whole groups of 32 blocks of a row that is reduced, for its last block, whose warps share them.
__device__ __forceinline__ void meet_groups(const Params& p, int warp, int lane, const Joined& own, Element* groups) {
  const u32 t = own.ticket % (u32)p.tiles;
  if (t + 1 < (u32)p.tiles) return;
  const u64* nodes = p.nodes + (u64)(own.ticket - t) * NODE;
#pragma unroll 1
  for (u32 g = warp; g < t / 32; g += WARPS) {
    Element sum = up_sweep<32>(await_node<1>(nodes + (32 * g + lane) * NODE, true, {}, own.epoch), lane);
    if (lane == 31) groups[g] = sum;
  }
}

// The warps of a row: `before` becomes the prefix of this warp's part of the row, and `after` the prefix behind that part.
__device__ __forceinline__ void meet(const Params& p, const Element& sum, int warp, int lane, const Joined& own, const Item& start,
                                     Prefix& before, Prefix& after) {
  __shared__ Element sums[WARPS];
  int part = warp % ROW_WARPS;
  __shared__ Element groups[GROUPED && REDUCE ? 32 : 1];
  if constexpr (GROUPED && REDUCE) meet_groups(p, warp, lane, own, groups);
  if (lane == 31) sums[warp] = sum;
  __syncthreads();  // all warps have written their sums
  Element swept = up_sweep<places(ROW_WARPS)>(sums[warp - part + min(lane % places(ROW_WARPS), ROW_WARPS - 1)], lane);
  if constexpr (MANY_BLOCKS) {
    __shared__ Prefix ends[2];
    if (warp == 0) {
      meet_blocks(p, from_lane(swept, ROW_WARPS - 1), groups, lane, own, start, before, after);
      if (lane == 0) { ends[0] = before; ends[1] = after; }
    } else if (CLUSTER > 1) {
      if (!GROUPED) await_cluster();
      arrive_at_cluster();
      await_cluster();
    }
    __syncthreads();  // the prefixes of the block are there
    before = ends[0];
    after = ends[1];
  } else if (!EXCLUSIVE) {
    fold(after, from_lane<places(ROW_WARPS)>(swept, places(ROW_WARPS) - 1), start);
  }
  narrow<ROW_WARPS>(swept, part, lane, start, before, after);
}

extern "C" __global__ void CLUSTERED __launch_bounds__(THREADS, BLOCKS) upsweep_rows(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  if constexpr (CLUSTER > 1 && !GROUPED) arrive_at_cluster();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, within = lane % LANES;
  Joined own = number(p);
  await_marks();
  u32 group = own.ticket, t = GROUPED ? group % (u32)p.tiles : 0;
  if (GROUPED) group /= (u32)p.tiles;
  i64 row = ((i64)group * (WARPS / ROW_WARPS) + warp / ROW_WARPS) * (32 / LANES) + lane / LANES;
  const i64 first = (t * CLUSTER + blockIdx.x % CLUSTER) * (i64)(ROW_WARPS * PART), j = first + warp % ROW_WARPS * PART;
  bool exists = row < p.rows;
  if (!exists) row = p.rows - 1;  // stays for the shuffles, writes nothing
  char* shared = memory + warp * RowRegion::WARP_BYTES;
  RowRegion region{shared, shared, lane};
  region.load(p, row, j);
  commit_copies();
  if (exists && j == 0) region.fetch_ends(p, row);
  Item start = {};
  if (INITIAL || EXCLUSIVE) start = start_of(p, row);
  __shared__ List list;
  if constexpr (LISTED) list.load(p, first);
  wait_copies<0>();
  if constexpr (LISTED) __syncthreads();  // all warps have made their bits
  __syncwarp();  // every lane's copies have landed
  const int before_row = PIECES_CUT ? in_piece(RowRegion::in<0>(p, row).base, BACK_IN) : 0;  // bytes that are no items
  const auto own_heads = LISTED ? list.of_run((int)(j - first) + within * ITEMS - before_row) : region.read_heads(p, row, j);
  Prefix before{start, INITIAL}, after = before;
  if constexpr (PACKED) {
    Packed w;
    const Row from = RowRegion::in<0>(p, row);
    read_run(region.template load_slab<0>(), from, j, w);
    normalize(w);
    if constexpr (SEGMENTED) {
      Quarters quarters(w, own_heads);
      const ByteSums<LANES> sums(quarters.last_segment(), quarters.headed(), within);
      if constexpr (SHARED_ROWS) meet(p, sums.last(), warp, lane, own, start, before, after);
      quarters.finish(sums.before(before, byte_of(start)), byte_of(start), w);
    } else {
      const ByteSums<LANES> sums(sum_bytes(w), false, within);
      if constexpr (SHARED_ROWS) meet(p, sums.last(), warp, lane, own, start, before, after);
      scan_bytes(w, sums.before(before, NEUTRAL));
    }
    __syncwarp();  // all lanes have read their runs
    region.template store_slab<0>().write_packed(RowRegion::out<0>(p, row), j, w);
    __syncwarp();  // all lanes have written theirs
    region.store(p, row, j, exists);
    return;
  }
  Item x[ITEMS];
  region.read_items(p, row, j, x);
  const u32 heads = own_heads.w[0];
  u32 swept = heads;
  up_sweep(x, swept);
  Element sums = up_sweep<LANES>(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), within);
  if constexpr (SHARED_ROWS) meet(p, sums, warp, lane, own, start, before, after);
  else if (!EXCLUSIVE) fold(after, sums, start);
  if (REDUCE && SHARED_ROWS && (p.n <= j || p.n > j + PART)) return;  // another warp has the last item
  if constexpr (READ_AGAIN) {
    region.read_items(p, row, j, x);
    swept = heads;
    up_sweep(x, swept);
  }
  down_sweep<LANES>(before, within, sums, start);
  Item next = from_next(before.value);
  if (within == LANES - 1) next = after.value;
  results(x, heads, swept, before, next, start);
  if constexpr (REDUCE) {
    if (exists) store_reduction<LANES>(p, row, j + within * ITEMS, x);
  } else {
    region.write(p, row, j, x, exists);
    __syncwarp();  // all lanes have written theirs
    region.store(p, row, j, exists);
  }
}
