// The look-back of lookback.cuh for the columns of a warp at once: a lane is a column, and a group is RADIX tiles one below
// another. A lane reads the sums of MOST of them one after another, while the warp reads whole cache lines. Where LANES columns
// are fewer than a warp's lanes, SUBS lanes share the group of a column, each with its part, and all keep the prefix.
#pragma once
#include "nodes.cuh"

// Whether a tile wants the prefix of the tile after it.
constexpr bool NEXT = !(EXCLUSIVE || CHAINED);
constexpr int SUBS = 32 / LANES, MOST = 8, RADIX_BITS = 3 + log2_of(SUBS), RADIX = 1 << RADIX_BITS;

// The sweeps of warp.cuh over the lanes of each column: lane `sub` of them.
__device__ __forceinline__ Element up_sweep_subs(Element e, int sub) {
#pragma unroll
  for (int i = 0; i < log2_of(SUBS); i++)
    e = pick((~sub & ((2 << i) - 1)) == 0, combine(from_left(e, LANES << i), e), e);
  return e;
}
// From the prefix of the first of these lanes to that of lane m: the blocks before it, the largest first.
__device__ __forceinline__ void down_sweep_subs(Prefix& p, int m, const Element& swept, int own, const Item& start) {
#pragma unroll
  for (int i = log2_of(SUBS) - 1; i >= 0; i--)
    fold_where(m >> i & 1, p, from_lane(swept, (((m >> i << i) - 1) * LANES + own) & 31), start);
}

struct ColumnTree {
  const Params& p;
  i64 group;  // of the columns of a warp, among all of all rows
  u32 epoch;
  int lane, sub = SUBS == 1 ? 0 : lane / LANES, own = SUBS == 1 ? lane : lane % LANES;

  __device__ __forceinline__ i64 index(int level, i64 i) const { return p.level_first[level] + group * p.level_size[level] + i; }
  __device__ __forceinline__ u64* node(int level, i64 i) const { return p.nodes + index(level, i) * NODE * LANES + own; }
  __device__ __forceinline__ u32* arrivals(int level, i64 i) const { return p.arrivals + index(level + 1, i) - p.level_first[1]; }

  // Asks for this lane's part of the first `count` nodes of a group of RADIX, which begins at `at`; `take` looks at the answers, and
  // asks again for nodes that were not there yet. All lanes vote once for all nodes: with a vote for each, 101 columns of bf16 ran
  // at .70 of a copy, so at .714 (H200). To ask for siblings before it is known that all have come costs more than it saves: .69.
  static constexpr int STEP = NODE * LANES;
  __device__ __forceinline__ void ask(const u64* at, int count, Read (&r)[MOST]) const {
#pragma unroll
    for (int k = 0; k < MOST; k++) if (sub * MOST + k < count) read_node<LANES>(at + (sub * MOST + k) * STEP, r[k]);
  }
  __device__ __forceinline__ void take(const u64* at, int count, Read (&r)[MOST], Element (&e)[MOST]) const {
    auto missing = [&](int k) { return sub * MOST + k < count && !found_in(r[k], epoch).here; };
    for (;;) {
      bool all = true;
#pragma unroll
      for (int k = 0; k < MOST; k++) all &= !missing(k);
      if (__all_sync(FULL, all)) break;
#pragma unroll
      for (int k = 0; k < MOST; k++) if (missing(k)) read_node<LANES>(at + (sub * MOST + k) * STEP, r[k]);
    }
#pragma unroll
    for (int k = 0; k < MOST; k++) {
      Found f = found_in(r[k], epoch);
      e[k] = element(from_words<Item>(f.w), f.head);
    }
  }
  __device__ __forceinline__ void load_group(const u64* at, int count, Element (&e)[MOST]) const {
    Read r[MOST];
    ask(at, count, r);
    take(at, count, r, e);
  }
  // This element instead of that with the number i, in the lane that has it.
  __device__ __forceinline__ void put(Element (&e)[MOST], int i, const Element& x) const {
#pragma unroll
    for (int k = 0; k < MOST; k++) if (sub * MOST + k == i) e[k] = x;
  }
};

__device__ __forceinline__ Element sum_part(const Element (&e)[MOST]) {
  Element s[MOST];
#pragma unroll
  for (int k = 0; k < MOST; k++) s[k] = e[k];
#pragma unroll
  for (int d = 1; d < MOST; d *= 2)
#pragma unroll
    for (int k = 2 * d - 1; k < MOST; k += 2 * d) s[k] = combine(s[k - d], s[k]);
  return s[MOST - 1];
}
// The same of lanes that share a group: up to a lane's part.
__device__ __forceinline__ Element sum_parts_to(const ColumnTree& tree, const Element (&e)[MOST]) { return up_sweep_subs(sum_part(e), tree.sub); }
// The sum of a whole group, for all its lanes.
__device__ __forceinline__ Element sum_group(const ColumnTree& tree, const Element (&e)[MOST]) {
  return from_lane(sum_parts_to(tree, e), (SUBS - 1) * LANES + tree.own);
}

// Folds the first m < RADIX elements into p: canonical blocks, the largest first. `parts` are whole parts of several lanes.
__device__ __forceinline__
void fold_group(const ColumnTree& tree, const Element (&e)[MOST], const Element& parts, int m, Prefix& p, const Item& start) {
  int part = m / MOST, from = part * LANES + tree.own;  // whole parts, and the lane that has the rest
  if constexpr (SUBS > 1) {
    down_sweep_subs(p, part, parts, tree.own, start);
    m %= MOST;
  }
  auto block = [&](const Element& x) { if constexpr (SUBS == 1) return x; else return from_lane(x, from); };
  if (m & 4) fold(p, block(combine(combine(e[0], e[1]), combine(e[2], e[3]))), start);
  if (m & 2) fold(p, block(combine(pick(m & 4, e[4], e[0]), pick(m & 4, e[5], e[1]))), start);
  if (m & 1) fold(p, block(pick(m & 4, pick(m & 2, e[6], e[4]), pick(m & 2, e[2], e[0]))), start);
}

// Of two stages, one warp for 32 columns publishes and another looks back, for both. Of more stages each has a warp ALONE, which
// publishes and then looks back: where all columns are one group, the look-back of a tile takes longer than its sum and its
// stores, and so must overlap with that of the next. With two stages this is slower: 101 columns of bf16 .60 of a copy instead
// of .65, with three .69 (H200).
constexpr bool ALONE = STAGES > 2;

// Whether the warp that publishes this sum is the one that adds up its group. Of two stages that is the warp of the group's last
// tile, which waits for the other sums: it has them sooner than by counting, for which every sum waits for the count. A warp ALONE
// would keep its look-back waiting, and so counts: the last to arrive adds up. Of a copy (H200), by counting -> by place: 8352 x 279
// i8 .494 -> .509, 111042 x 21 .447 -> .496, 4000 x 2048 f2 .529 -> .562, 30 columns of f8 in three stages .805 -> .797.
__device__ __forceinline__ bool completes(const ColumnTree& tree, int level, i64 i) {
  if constexpr (!ALONE) return (i & RADIX - 1) == RADIX - 1;
  __syncwarp();
  u32 before = 0;
  if (tree.lane == 0) before = atomicAdd(tree.arrivals(level, i / RADIX), 1u);
  if (__shfl_sync(FULL, before, 0) != RADIX - 1) return false;
  if (tree.lane == 0) *tree.arrivals(level, i / RADIX) = 0;
  return true;
}

__device__ __forceinline__ void publish(const ColumnTree& tree, i64 t, Element sum) {
  if (t + 1 >= tree.p.tiles) return;
  i64 i = t;
  for (int level = 0;; level++) {
    if (tree.sub == 0) store_node<LANES>(tree.node(level, i), sum, tree.epoch);
    i64 parent = i / RADIX;
    if (level + 1 >= tree.p.levels || (parent + 1) << (RADIX_BITS * (level + 1)) >= tree.p.tiles) return;
    if (!completes(tree, level, i)) return;
    Element e[MOST];
    tree.load_group(tree.node(level, parent * RADIX), RADIX, e);
    sum = sum_group(tree, e);
    i = parent;
  }
}

// The prefix of tile t, and of the tile after it where that is wanted; `sum` is the sum of tile t. While a level is folded the next
// level is on its way, where registers allow.
__device__ __forceinline__ void look_back(const ColumnTree& tree, i64 t, Element sum, const Item& start, Prefix& p, Prefix& next) {
  constexpr bool AHEAD = NODE == 1;
  p.value = start; p.some = INITIAL;
  auto digit = [&](int level) { return int(t >> (RADIX_BITS * level)) & (RADIX - 1); };
  auto first = [&](int level) { return tree.node(level, t >> (RADIX_BITS * level) & ~(RADIX - 1ll)); };
  int level = (int)tree.p.levels - 1;
  Read asked[MOST];
  const u64* at = first(level);
  if (AHEAD) tree.ask(at, digit(level), asked);
  int turn = 0;  // the level whose digit grows from t to t + 1: below it groups end with this tile
  if (NEXT)
    for (; turn + 1 < tree.p.levels && digit(turn) == RADIX - 1; turn++) {
      Element e[MOST];
      tree.load_group(first(turn), RADIX - 1, e);
      tree.put(e, RADIX - 1, sum);
      sum = sum_group(tree, e);
    }
  next = p;
#pragma unroll 1
  for (; level >= 0; level--) {
    int d = digit(level);
    Element e[MOST];
    const u64* here = at;
    if (level > 0) at = first(level - 1);
    if constexpr (AHEAD) {
      Read read[MOST];
      memcpy(read, asked, sizeof read);
      if (level > 0) tree.ask(at, digit(level - 1), asked);
      tree.take(here, d, read, e);
    } else {
      tree.load_group(here, d, e);
    }
    const bool ends = NEXT && level == turn;
    if (ends) tree.put(e, d, sum);
    Element parts = {};
    if constexpr (SUBS > 1) parts = sum_parts_to(tree, e);
    if (ends) {
      next = p;
      fold_group(tree, e, parts, d + 1, next, start);
    }
    fold_group(tree, e, parts, d, p, start);
  }
}
