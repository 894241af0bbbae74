// What the warps of columns.cu tell each other, and the warps that publish and look back for those that read and write.
#include "column_places.cuh"
#include "column_lookback.cuh"

__device__ __forceinline__ int stage_of(int k) { return (u32)k % STAGES; }

// A tile: its ticket, its place, and its first column.
struct Spot { i64 ticket, column; u32 row, t; };

struct Shared {
  Spot spots[4];                                     // of the tiles in flight, the one asked for, the one just left
  Element sums[STAGES][PARTS][WIDTH];                // of the parts of a tile, which are the strips of its warps: a warp's block sums
  Item prefixes[STAGES][WARPS + NEXT][WIDTH];        // of the warps, and of the next tile where its prefix is a result of this one
#if SEGMENTED
  u32 heads[STAGES][PARTS][FLAT ? 1 : 32 * VECTOR];  // of each lane's run, or a bit for each run
#endif
};
static_assert(SHARED_BYTES == WARPS * (STAGES * WARP_BYTES + RESULT_BYTES) + sizeof(Shared) && NODE_WORDS == NODE, "choice.py counts otherwise");

// Named barriers, each once for each stage, so that a warp that arrives may run ahead of one that waits.
//   PUBLISH   the sums of a tile are in shared memory, or there is no such tile: for the warp that publishes
//   PREFIXES  the prefixes of a tile's warps are there
//   TICKETS   a tile is written, the ticket of another is there, and the sums may be overwritten
//   LOOK_BACK as PUBLISH, for a warp that looks back alone: it must never hold up the other, or blocks wait in a chain
//   DRAWN     the first tickets of all stages are there
enum { PUBLISH = 1, LOOK_BACK = PUBLISH + STAGES, PREFIXES = LOOK_BACK + (ALONE ? 0 : STAGES), TICKETS = PREFIXES + STAGES, DRAWN = TICKETS + STAGES };
template <int ID, int COUNT> __device__ __forceinline__ void arrive(int k) {
  __syncwarp();  // a warp arrives as one, with all that its lanes have written
  asm volatile("bar.arrive %0, %1;" ::"r"(ID + stage_of(k)), "n"(32 * COUNT) : "memory");
}
template <int ID, int COUNT> __device__ __forceinline__ void await(int k) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(ID + stage_of(k)), "n"(32 * COUNT) : "memory");
}

// Tickets go along the columns first: between a tile and its upper neighbour lie as many tickets as there are sets of columns. Those
// of rectangles go down BAND groups of lines, and along the columns then, so that pieces of one cache line come, and go, together.
constexpr u32 BAND = 4;
__device__ __forceinline__ Spot spot_of(const Params& p, i64 ticket) {
  u32 groups = (u32)p.column_groups;
  if constexpr (CROSS > 0) {
    u32 beside = (u32)p.dim[max_of(DIMS - 1, 0)], tile = (u32)ticket / (groups * beside), row = tile / (u32)p.tiles;
    u32 rest = (u32)ticket - tile * groups * beside, first = rest / (BAND * groups) * BAND, high = min(BAND, beside - first);
    u32 place = rest - first * groups, group = place / high;
    return {ticket, (i64)group * SIDE, row * beside + first + (place - group * high), tile - row * (u32)p.tiles};
  }
  u32 line = (u32)ticket / groups, group = (u32)ticket - line * groups, row = line / (u32)p.tiles;
  return {ticket, (i64)group * SIDE, row, line - row * (u32)p.tiles};
}

// Item j of the first column of an input, or of the heads.
template <int I> __device__ __forceinline__ const char* first_of(const Params& p, const Spot& at, i64 j) {
  const Strides& s = p.in_strides[I];
  constexpr bool NEAR = Input<I>::lies == COLUMNS_NEAR || Input<I>::lies == SIDE_NEAR;
  i64 across = Input<I>::still || Input<I>::same || !NEAR ? p.in_column[I] : sizeof(typename Input<I>::Load);
  return p.in[I] + row_offset(p, s, at.row) + j * s.along + at.column * across;
}
__device__ __forceinline__ const char* heads_of(const Params& p, const Spot& at, i64 j) {
  return p.heads + row_offset(p, p.heads_strides, at.row) + j * p.heads_strides.along + at.column * p.heads_column;
}

__device__ __forceinline__ ColumnTree tree_of(const Params& p, const Spot& at, int v, u32 epoch, int lane) {
  return ColumnTree{p, ((i64)at.row * p.column_groups + at.column / SIDE) * VECTOR + v, epoch, lane};
}

// The lines of columns from a tile's first on, and the initial value of a column of the tile, or of the last that exists.
__device__ __forceinline__ i64 lines_of(const Params& p, const Spot& at) {
  return CROSS ? p.crosswise - (i64)(at.row % (u32)p.dim[max_of(DIMS - 1, 0)]) * CROSS : 1;
}
__device__ __forceinline__ Item start_of_column(const Params& p, const Spot& at, int i) {
  i64 column = min(at.column + (CROSS ? i % SIDE : i), p.columns - 1);
  if constexpr (CROSS > 0) return start_of<CROSS>(p, at.row, column, min((i64)(i / SIDE), lines_of(p, at) - 1));
  else return start_of(p, at.row, column);
}

// Where lanes share a column, each sweeps its share of a tile's warps, if an operation takes longer than to hand its sum over.
constexpr int SHARES = COSTLY && (WARPS & (WARPS - 1)) == 0 && WARPS >= SUBS ? SUBS : 1, SHARE = WARPS / SHARES;
__device__ __forceinline__ int first_warp(int lane) { return SHARES > 1 ? lane / LANES * SHARE : 0; }

// The block sums of the warps, of which the last of a share is that of all lanes before it, too; and the sum of the tile. Tiles of
// lines that lanes hold whole are no blocks of the tree.
__device__ __forceinline__ Element sum_warps(const Element (&sums)[PARTS][WIDTH], int v, int lane, Element (&e)[SHARE]) {
#pragma unroll
  for (int w = 0; w < SHARE; w++) e[w] = sums[(first_warp(lane) + w + 1) * STRIPS - 1][32 * v + lane % LANES];
#pragma unroll
  for (int d = 1; d < SHARE; d *= 2)
#pragma unroll
    for (int w = 2 * d - 1; w < SHARE; w += 2 * d) e[w] = combine(e[w - d], e[w]);
  if constexpr (SHARES > 1) {
    e[SHARE - 1] = up_sweep_subs(e[SHARE - 1], lane / LANES);
    return from_lane(e[SHARE - 1], 32 - LANES + lane % LANES);
  }
  Element sum = e[SHARE - 1];
#pragma unroll
  for (int w = SHARE & SHARE - 1; FLAT && w > 0; w &= w - 1) sum = combine(e[w - 1], sum);
  return sum;
}

// Warps at a barrier. A warp that has given a tile's prefixes reads its sums no more, and need not come to the barrier of tickets.
constexpr int HALF = WARPS + VECTOR, ALL = WARPS + (ALONE ? 0 : 2 * VECTOR);

// The warps that publish: warp v for the columns from 32 * v on.
__device__ __forceinline__ void publish_tiles(const Params& p, Shared& s, int v, int lane) {
  u32 epoch = p.control[2];
  for (int k = 0;; k++) {
    await<PUBLISH, HALF>(k);
    Spot at = s.spots[k & 3];
    if (at.ticket >= p.tickets) break;
    Element e[SHARE], sum = sum_warps(s.sums[stage_of(k)], v, lane, e);
    arrive<TICKETS, ALL>(k);
    if (p.tiles > 1) publish(tree_of(p, at, v, epoch, lane), at.t, sum);
  }
}

// The prefixes of a tile's warps. A reduction wants those of a row's last tile alone. A warp ALONE publishes the sum of the tile first.
__device__ __forceinline__ void prefix_tile(const Params& p, Shared& s, int k, const Spot& at, int v, u32 epoch, int lane) {
  const bool wanted = !REDUCE || at.t + 1 == p.tiles;
  if (!ALONE && !wanted) return;
  int mine = 32 * v + lane % LANES, first = first_warp(lane);
  auto& prefixes = s.prefixes[stage_of(k)];
  Element e[SHARE], sum = sum_warps(s.sums[stage_of(k)], v, lane, e), last = e[SHARE - 1];
  u64 heads = 0;
#pragma unroll
  for (int w = 0; COSTLY && w < SHARE - 1; w++) {
    prefixes[first + w + 1][mine] = e[w].value;
    heads |= (u64)head_of(e[w]) << w;
  }
  if (ALONE && p.tiles > 1) publish(tree_of(p, at, v, epoch, lane), at.t, sum);
  if (!wanted) return;
  Item start = {};
  if (INITIAL || EXCLUSIVE) start = start_of_column(p, at, mine);
  Prefix before, next;
  look_back(tree_of(p, at, v, epoch, lane), at.t, sum, start, before, next);
  // Again, as to keep them all the while costs more registers than there are. Those of a costly operator lie where prefixes will.
  if constexpr (COSTLY) {
#pragma unroll
    for (int w = 0; w < SHARE - 1; w++) e[w] = element(prefixes[first + w + 1][mine], heads >> w & 1);
    __syncwarp();  // lanes that share a column have read them
  } else {
    sum_warps(s.sums[stage_of(k)], v, lane, e);
  }
  if constexpr (SHARES > 1) down_sweep_subs(before, lane / LANES, last, lane % LANES, start);
  prefixes[first][mine] = before.value;
  if constexpr (NEXT) prefixes[WARPS][mine] = next.value;
#pragma unroll
  for (int d = 1 << log2_of(SHARE); d >= 1; d /= 2)
#pragma unroll
    for (int w = d - 1; w < SHARE - 1; w += 2 * d) {
      Prefix q = before;
      if (w >= d) q = {prefixes[first + w - d + 1][mine], true};
      fold(q, e[w], start);
      prefixes[first + w + 1][mine] = q.value;
    }
}

// The warps that look back. They take no tickets: while they waited for room for another tile, the next tile, which has long been
// summed, would wait for them. Advantages ran at .80 of a copy so, at .64 before (H200).
__device__ __forceinline__ void look_back_tiles(const Params& p, Shared& s, int v, int lane) {
  u32 epoch = p.control[2];
  for (int k = 0;; k++) {
    await<LOOK_BACK, HALF>(k);
    Spot at = s.spots[k & 3];
    if (at.ticket >= p.tickets) break;
    prefix_tile(p, s, k, at, v, epoch, lane);
    arrive<PREFIXES, HALF>(k);
    arrive<TICKETS, ALL>(k);
  }
}

// A warp that serves a stage alone. When a tile comes, the one before it in the same stage has been written: so a look-back holds
// up no sum that others wait for.
__device__ __forceinline__ void serve_stage(const Params& p, Shared& s, int stage, int v, int lane) {
  u32 epoch = p.control[2];
  for (int k = stage;; k += STAGES) {
    await<PUBLISH, HALF>(k);
    Spot at = s.spots[k & 3];
    if (at.ticket >= p.tickets) break;
    prefix_tile(p, s, k, at, v, epoch, lane);
    arrive<PREFIXES, HALF>(k);
  }
}
