// Scans of long rows in one pass: persistent blocks take tiles by ticket, publish a tile's sum one tile ahead of writing it,
// and look back over sums alone (lookback.cuh). Merrill and Garland, "Single-pass parallel prefix scan with decoupled
// look-back" (2016), gave the pass; the radix-32 tree of Brent-Kung blocks replaces their chain.
#include "tile_serving.cuh"

// The warps that read, sum and write.
struct Worker {
  const Params& p;
  Shared& s;
  char* memory;
  int warp, lane;

  __device__ __forceinline__ int part(int strip) const { return warp * STRIPS + strip; }
  __device__ __forceinline__ int group(int strip) const { return (part(strip) * 32 + lane) / GROUP; }
  __device__ __forceinline__ Strip region(int k, int strip) const {
    char* shared = memory + k % STAGES * STAGE_BYTES + part(strip) * Strip::WARP_BYTES;
    return Strip{shared, OWN ? memory + STAGES * STAGE_BYTES + warp * OWN : shared, lane};
  }

  __device__ __forceinline__ void load(int k) const {
    i64 ticket = s.ticket[k % RING];
    if (ticket < p.tickets) {
      auto [row, t] = place_of(p, ticket);
#pragma unroll 1
      for (int i = 0; i < STRIPS; i++) region(k, i).load(p, row, t * TILE + part(i) * STRIP);
    }
    commit_copies();
  }

  __device__ __forceinline__ void sum(int k) const {
    i64 ticket = s.ticket[k % RING];
    if (ticket >= p.tickets) return;
    auto [row, t] = place_of(p, ticket);
    __syncwarp();  // every lane's copies of this tile have landed
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++) {
      i64 j = t * TILE + part(i) * STRIP;
      if constexpr (PACKED) {
        Packed w;
        read_run(region(k, i).template load_slab<0>(), Strip::in<0>(p, row), j, w);
        if constexpr (BYTEWISE != ORS || SEGMENTED) normalize(w);  // whether any byte is set is the same before and after
        Element e;
        if constexpr (SEGMENTED) {
          const Heads heads = region(k, i).read_heads(p, row, j);
          region(k, i).keep_heads(heads);
          const u32 lanes = __ballot_sync(FULL, any_head(heads));
          e = byte_element(sum_lanes(lane < last_lane(lanes) ? NEUTRAL : sum_last_segment(w, heads)), lanes != 0);
        } else e = byte_element(sum_lanes(sum_bytes(w)));
        if (lane == 31) s.sum(k, part(i)) = e;
        continue;
      }
      Item x[ITEMS];
      region(k, i).read_items(p, row, j, x);
      const auto own = region(k, i).read_heads(p, row, j);
      region(k, i).keep_heads(own);
      u32 heads = own.w[0];
      up_sweep(x, heads);
      if constexpr (CHAINED) {
        const Element e = sum_segments(element(x[ITEMS - 1], own.w[0] != 0), lane, s.lanes[k & 1][part(i)][lane]);
        if (lane == 31) s.sum(k, part(i)) = e;
        continue;
      }
      Element e = up_sweep<GROUP, SWEEPING>(element(x[ITEMS - 1], heads >> (ITEMS - 1) & 1), lane);
      if (lane % GROUP == GROUP - 1) s.sum(k, group(i)) = e;
      if constexpr (KEPT) {
        x[ITEMS - 1] = e.value;  // with what the lanes made of the run's own sum, which nobody asks for again
        __syncwarp();  // all lanes have read their runs
        region(k, i).keep(x);
      }
    }
  }

  // The prefixes of a run, one after the other, from that of its strip and what lies between.
  __device__ __forceinline__ void chain(int k, int i, u32 heads, Item (&x)[ITEMS]) const {
    const Item start = s.start[k & 1];
    Prefix before = s.prefixes[k & 1][part(i)];
    const bool anew = (__ballot_sync(FULL, heads != 0) & ((1u << lane) - 1)) != 0;
    fold_where(lane > 0, before, element(s.lanes[k & 1][part(i)][lane], anew), start);
    results_in_order(x, heads, before, start);
  }

  __device__ __forceinline__ void finish_packed(int k, int i, u64 row, i64 j) const {
    if constexpr (PACKED) {
      Packed w;
      read_run(region(k, i).template load_slab<0>(), Strip::in<0>(p, row), j, w);
      normalize(w);
      const Prefix before = s.prefixes[k & 1][part(i)];
      if constexpr (SEGMENTED) {
        Quarters quarters(w, region(k, i).kept_heads(p, row, j));
        const u32 start = byte_of(s.start[k & 1]);
        quarters.finish(ByteSums<>(quarters.last_segment(), quarters.headed(), lane).before(before, start), start, w);
      } else {
        scan_bytes(w, ByteSums<>(sum_bytes(w), false, lane).before(before, NEUTRAL));
      }
      __syncwarp();  // all lanes have read their runs
      region(k, i).template store_slab<0>().write_packed(Strip::out<0>(p, row), j, w);
      __syncwarp();  // all lanes have written theirs
      if (PATIENT && i == STRIPS - 1) arrive<NEARLY, WARPS + 1>(k);
      region(k, i).store(p, row, j);
    }
  }

  __device__ __forceinline__ void write(int k, int i, u64 row, i64 j, const Item (&x)[ITEMS]) const {
    region(k, i).write(p, row, j, x);
    __syncwarp();  // all lanes have written theirs
    if (PATIENT && i == STRIPS - 1) arrive<NEARLY, WARPS + 1>(k);
    region(k, i).store(p, row, j);
  }

  __device__ __forceinline__ void finish(int k, u64 row, i64 t) const {
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++) {
      i64 j = t * TILE + part(i) * STRIP;
      if (REDUCE && (p.n <= j || p.n > j + STRIP)) continue;  // another strip has the last item
      if constexpr (PACKED) { finish_packed(k, i, row, j); continue; }
      Item x[ITEMS]; Element sums;
      const u32 heads = region(k, i).kept_heads(p, row, j).w[0];
      if constexpr (CHAINED) {
        region(k, i).read_items(p, row, j, x);
        chain(k, i, heads, x);
        write(k, i, row, j, x);
        continue;
      }
      u32 swept = heads;
      if constexpr (KEPT) {
        region(k, i).kept(x);
        if (SEGMENTED) up_sweep_heads<ITEMS>(swept);
        sums = element(x[ITEMS - 1], swept_heads(swept >> (ITEMS - 1) & 1, lane));
      } else {
        region(k, i).read_items(p, row, j, x);
        up_sweep(x, swept);
        sums = up_sweep<max_of(GROUP / 2, 1), SWEEPING>(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), lane);
      }
      Prefix before;
      if constexpr (GATHERS) before = {s.sum(k, group(i)).value, INITIAL || t > 0 || group(i) > 0};
      else before = s.prefixes[k & 1][part(i)];
      Item start = {};
      if (EXCLUSIVE || SEGMENTED) start = s.start[k & 1];
      down_sweep<GROUP, SWEEPING>(before, lane % GROUP, sums, start);
      Item next = from_next(before.value);
      if (lane == 31) next = GATHERS && part(i) + 1 < PARTS ? s.sum(k, group(i) + 1).value : s.prefixes[k & 1][GATHERS ? 1 : part(i) + 1].value;
      results(x, heads, swept, before, next, start);
      if constexpr (REDUCE) store_reduction<32>(p, row, j + lane * ITEMS, x);
      else write(k, i, row, j, x);
    }
  }

  __device__ __forceinline__ void hand_over(int k) const {
    sum(k);
    arrive<PUBLISH, WARPS + 1>(k);
    arrive<LOOK_BACK, WARPS + 1>(k);
  }

  __device__ __forceinline__ void run() const {
    await_marks();
    for (int k = 0; k < STAGES; k++) load(k);
    if constexpr (LEAD) {
      wait_copies<STAGES - 1>();
      hand_over(0);
    }
    for (int k = 0;; k++) {
      i64 ticket = s.ticket[k % RING];
      if (LEAD && ticket >= p.tickets) break;
      wait_copies<STAGES - 1 - LEAD>();
      hand_over(k + LEAD);
      if (!LEAD && ticket >= p.tickets) break;
      auto [row, t] = place_of(p, ticket);
      if (!REDUCE || t + 1 == p.tiles) {
        await<PREFIXES, WARPS + 1>(k);
        finish(k, row, t);
      }
      await<TICKETS, TICKETED>(k);  // and the stage is free
      load(k + STAGES);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_tiles(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Shared s;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0)  // where there is a block for each tile, none takes two
    for (int k = 0; k < STAGES; k++) s.ticket[k] = next_ticket(p, k ? s.ticket[k - 1] : -1);
  __syncthreads();
  if (warp < WARPS) Worker{p, s, memory, warp, lane}.run();
  else if (warp == WARPS && GATHERS) publish_gathered(p, s, lane);
  else if (warp == WARPS) publish_tiles(p, s, lane);
  else look_back_tiles(p, s, lane);
}
