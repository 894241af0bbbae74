// Look-back over the sums of tiles, without a chain: a tile's prefix is the fold of at most 31 sums on each level of a
// radix-32 tree, and whoever arrives last in a group of 32 publishes the sum of the group. Nobody waits for a prefix, only
// for sums of tiles whose tickets were taken earlier and whose holders publish before they wait: so everyone gets on,
// however few blocks are resident.
#pragma once
#include "nodes.cuh"

constexpr int DIGITS = 5;                       // of radix 32: 2^25 tiles in a row

struct Tree {
  const Params& p;
  u64 row;
  u32 epoch;

  __device__ __forceinline__ u64* node(int level, i64 i) const {
    return p.nodes + (p.level_first[level] + (i64)row * p.level_size[level] + i) * NODE;
  }
  __device__ __forceinline__ u32* arrivals(int level, i64 group) const {  // of the children of a node of level + 1
    return p.arrivals + (p.level_first[level + 1] - p.level_first[1] + (i64)row * p.level_size[level + 1] + group);
  }
};

// Publishes the sum of tile t, and the sum of every group that it completes and that a later tile will ask for.
__device__ __forceinline__ void publish(const Tree& tree, i64 t, Element sum, int lane) {
  if (t + 1 >= tree.p.tiles) return;
  i64 i = t;
  for (int level = 0;; level++) {
    if (lane == 0) store_node<1>(tree.node(level, i), sum, tree.epoch);
    i64 group = i >> 5;
    if (level + 1 >= tree.p.levels || (group + 1) << (5 * (level + 1)) >= tree.p.tiles) return;
    u32 before = 0;
    if (lane == 0) before = atomicAdd(tree.arrivals(level, group), 1u);
    if (__shfl_sync(FULL, before, 0) != 31) return;
    if (lane == 0) *tree.arrivals(level, group) = 0;
    Element left[5];
    sum = up_sweep<32>(await_node<1>(tree.node(level, (i & ~31ll) + lane), true, {}, tree.epoch), lane, left);
    i = group;
  }
}

// The sums of the canonical blocks that a lane's element belongs to, of 1 to 16 lanes.
struct Blocks { Element sums[5]; };
__device__ __forceinline__ Blocks blocks_of(const Element& e, int lane) {
  Blocks b; b.sums[0] = e;
#pragma unroll
  for (int s = 0; s < 4; s++) {
    Element other = from_xor(b.sums[s], 1 << s);
    bool right = lane >> s & 1;
    b.sums[s + 1] = combine(pick(right, other, b.sums[s]), pick(right, b.sums[s], other));
  }
  return b;
}
// Folds the first m < 32 lanes' elements into p: canonical blocks, the largest first.
__device__ __forceinline__ void fold_lanes(const Blocks& b, int m, Prefix& p, const Item& start) {
#pragma unroll
  for (int s = 4; s >= 0; s--) {
    Element block = from_lane(b.sums[s], (m >> (s + 1)) << (s + 1) & 31);
    if (m >> s & 1) fold(p, block, start);
  }
}

// The prefix of tile t and the prefix of the tile after it.
struct LookBack {
  Tree tree;
  i64 t;
  const Item& start;
  int lane;

  __device__ __forceinline__ int digit(int level) const { return int(t >> (5 * level)) & 31; }

  // The elements left of t on a level, one a lane.
  __device__ __forceinline__ u64* sibling(int level) const { return tree.node(level, ((t >> (5 * level)) & ~31ll) + lane); }
  __device__ __forceinline__ Element siblings(int level) const {
    return await_node<1>(sibling(level), lane < digit(level), {}, tree.epoch);
  }

  // Groups do not end with most tiles, so that the levels above are the same for t and t + 1. The levels below NEAR are
  // asked for before anything is folded; of heavier elements all at once, of single ones one after another, which keeps more
  // of the memory's time for the tiles (.857 of a copy against .818 with segments, .866 against .836 for affine pairs, but
  // .913 against .926 for f4: H200). `sum` is the sum of tile t.
  __device__ __forceinline__ bool simple() const { return EXCLUSIVE || digit(0) != 31; }
  __device__ __forceinline__ void fold_simple(const Element& sum, Prefix& p, Prefix& next) const {
    constexpr bool AT_ONCE = SEGMENTED || COMPONENTS > 1;
    constexpr int NEAR = NODE <= 2 ? 3 : 1;  // larger items leave no registers for it
    Read r[NEAR] = {}; Found f[NEAR] = {};
#pragma unroll
    for (int level = NEAR - 1; level >= 0; level--)
      if (lane < digit(level)) { read_node<1>(sibling(level), r[level]); if (!AT_ONCE) f[level] = found_in(r[level], tree.epoch); }
    p.value = start; p.some = INITIAL; next = p;
    auto fold_level = [&](int level, Element e) {
      if (level == 0) next = p;
      if (!EXCLUSIVE && level == 0 && lane == digit(0)) e = sum;
      Blocks b = blocks_of(e, lane);
      if (!EXCLUSIVE && level == 0) fold_lanes(b, digit(0) + 1, next, start);
      fold_lanes(b, digit(level), p, start);
    };
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= NEAR; level--) fold_level(level, siblings(level));
#pragma unroll
    for (int level = NEAR - 1; level >= 0; level--)
      fold_level(level, await_node<1>(sibling(level), lane < digit(level), AT_ONCE ? found_in(r[level], tree.epoch) : f[level], tree.epoch));
  }

  // All levels, whichever groups end with t.
  __device__ __forceinline__ void fold_all(Element sum, Prefix& p, Prefix& next) const {
    int turn = 0;  // the level whose digit grows from t to t + 1: below it groups end with this tile
#pragma unroll 1
    for (; turn + 1 < tree.p.levels && digit(turn) == 31; turn++) {
      Element e = siblings(turn), left[5];
      sum = up_sweep<32>(pick(lane == 31, sum, e), lane, left);
    }
    p.value = start; p.some = INITIAL; next = p;
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= 0; level--) {
      Element e = siblings(level);
      if (level == turn && lane == digit(level)) e = sum;
      Blocks b = blocks_of(e, lane);
      fold_lanes(b, digit(level), p, start);
      if (!EXCLUSIVE && level >= turn) fold_lanes(b, digit(level) + (level == turn), next, start);
    }
  }
};

// Instead, where one block scans a row from end to end: the sums of the blocks that t names in binary, one a lane.
struct Carry {
  Element sums;
  int lane;

  __device__ __forceinline__ void fold_all(i64 t, Prefix& p, const Item& start) const {
    p.value = start; p.some = INITIAL;
    for (u32 rest = (u32)t; rest;) {
      int bit = 31 - __clz(rest);
      fold(p, from_lane(sums, bit), start);
      rest ^= 1u << bit;
    }
  }
  __device__ __forceinline__ void push(i64 t, Element sum) {
    int bit = 0;
    for (; t >> bit & 1; bit++) sum = combine(from_lane(sums, bit), sum);
    if (lane == bit) sums = sum;
  }
};
