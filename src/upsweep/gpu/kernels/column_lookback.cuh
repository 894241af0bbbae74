// The look-back of lookback.cuh for 32 columns at once: a lane is a column, and a group is RADIX tiles one below another. A lane
// reads the sums of a group one after another, while the warp reads whole cache lines.
#pragma once
#include "nodes.cuh"

constexpr int RADIX_BITS = 3, RADIX = 1 << RADIX_BITS;

struct ColumnTree {
  const Params& p;
  i64 group;  // of 32 columns, among all of all rows
  u32 epoch;
  int lane;

  __device__ __forceinline__ i64 index(int level, i64 i) const { return p.level_first[level] + group * p.level_size[level] + i; }
  __device__ __forceinline__ u64* node(int level, i64 i) const { return p.nodes + index(level, i) * NODE * 32 + lane; }
  __device__ __forceinline__ u32* arrivals(int level, i64 i) const { return p.arrivals + index(level + 1, i) - p.level_first[1]; }

  // Asks for the first `count` nodes of a group of RADIX, which begins at `at`; `take` looks at the answers, and waits for nodes
  // that were not there yet.
  static constexpr int STEP = NODE * 32;
  __device__ __forceinline__ void ask(const u64* at, int count, Read (&r)[RADIX]) const {
#pragma unroll
    for (int k = 0; k < RADIX; k++) if (k < count) read_node<32>(at + k * STEP, r[k]);
  }
  __device__ __forceinline__ void take(const u64* at, int count, const Read (&r)[RADIX], Element (&e)[RADIX]) const {
#pragma unroll
    for (int k = 0; k < RADIX; k++) e[k] = await_node<32>(at + k * STEP, k < count, found_in(r[k], epoch), epoch);
  }
  __device__ __forceinline__ void load_group(const u64* at, int count, Element (&e)[RADIX]) const {
    Read r[RADIX];
    ask(at, count, r);
    take(at, count, r, e);
  }
};

__device__ __forceinline__ Element sum_group(const Element (&e)[RADIX]) {
  Element s[RADIX];
#pragma unroll
  for (int k = 0; k < RADIX; k++) s[k] = e[k];
#pragma unroll
  for (int d = 1; d < RADIX; d *= 2)
#pragma unroll
    for (int k = 2 * d - 1; k < RADIX; k += 2 * d) s[k] = combine(s[k - d], s[k]);
  return s[RADIX - 1];
}

// Folds the first m < RADIX elements into p: canonical blocks, the largest first.
__device__ __forceinline__ void fold_group(const Element (&e)[RADIX], int m, Prefix& p, const Item& start) {
  if (m & 4) fold(p, combine(combine(e[0], e[1]), combine(e[2], e[3])), start);
  if (m & 2) fold(p, combine(pick(m & 4, e[4], e[0]), pick(m & 4, e[5], e[1])), start);
  if (m & 1) fold(p, pick(m & 4, pick(m & 2, e[6], e[4]), pick(m & 2, e[2], e[0])), start);
}

__device__ __forceinline__ void publish(const ColumnTree& tree, i64 t, Element sum) {
  if (t + 1 >= tree.p.tiles) return;
  i64 i = t;
  for (int level = 0;; level++) {
    store_node<32>(tree.node(level, i), sum, tree.epoch);
    i64 parent = i / RADIX;
    if (level + 1 >= tree.p.levels || (parent + 1) << (RADIX_BITS * (level + 1)) >= tree.p.tiles) return;
    __syncwarp();
    u32 before = 0;
    if (tree.lane == 0) before = atomicAdd(tree.arrivals(level, parent), 1u);
    if (__shfl_sync(FULL, before, 0) != RADIX - 1) return;
    if (tree.lane == 0) *tree.arrivals(level, parent) = 0;
    Element e[RADIX];
    tree.load_group(tree.node(level, parent * RADIX), RADIX, e);
    sum = sum_group(e);
    i = parent;
  }
}

// The prefix of tile t and of the tile after it; `sum` is the sum of tile t. While a level is folded the next level is on its
// way, where registers allow.
__device__ __forceinline__ void look_back(const ColumnTree& tree, i64 t, Element sum, const Item& start, Prefix& p, Prefix& next) {
  constexpr bool AHEAD = NODE == 1;
  p.value = start; p.some = INITIAL;
  auto digit = [&](int level) { return int(t >> (RADIX_BITS * level)) & (RADIX - 1); };
  auto first = [&](int level) { return tree.node(level, t >> (RADIX_BITS * level) & ~(RADIX - 1ll)); };
  int level = (int)tree.p.levels - 1;
  Read asked[RADIX];
  if (AHEAD) tree.ask(first(level), digit(level), asked);
  int turn = 0;  // the level whose digit grows from t to t + 1: below it groups end with this tile
  if (!EXCLUSIVE)
    for (; turn + 1 < tree.p.levels && digit(turn) == RADIX - 1; turn++) {
      Element e[RADIX];
      tree.load_group(first(turn), RADIX - 1, e);
      e[RADIX - 1] = sum;
      sum = sum_group(e);
    }
  next = p;
#pragma unroll 1
  for (; level >= 0; level--) {
    int d = digit(level);
    Element e[RADIX];
    if constexpr (AHEAD) {
      Read here[RADIX];
      memcpy(here, asked, sizeof here);
      if (level > 0) tree.ask(first(level - 1), digit(level - 1), asked);
      tree.take(first(level), d, here, e);
    } else {
      tree.load_group(first(level), d, e);
    }
    if (!EXCLUSIVE && level == turn) {
      next = p;
#pragma unroll
      for (int k = 0; k < RADIX; k++) if (k == d) e[k] = sum;
      fold_group(e, d + 1, next, start);
    }
    fold_group(e, d, p, start);
  }
}
