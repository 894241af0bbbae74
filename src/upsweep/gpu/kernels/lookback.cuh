// Look-back over the sums of tiles, without a chain: a tile's prefix is the fold of at most 31 sums on each level of a
// radix-32 tree, and whoever arrives last in a group of 32 publishes the sum of the group. Nobody waits for a prefix, only
// for sums of tiles whose tickets were taken earlier and whose holders publish before they wait: so everyone gets on,
// however few blocks are resident.
#pragma once
#include "nodes.cuh"


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

// The sums of the canonical blocks that a lane's elements belong to, of 1 to 16 lanes, for N levels side by side.
template <int N> struct Blocks {
  Element sums[N][5];

  __device__ __forceinline__ Blocks(const Element (&e)[N], int lane) {
#pragma unroll
    for (int i = 0; i < N; i++) sums[i][0] = e[i];
#pragma unroll
    for (int s = 0; s < 4; s++) {
      bool right = lane >> s & 1;
#pragma unroll
      for (int i = 0; i < N; i++) {
        Element other = from_xor(sums[i][s], 1 << s);
        sums[i][s + 1] = combine(pick(right, other, sums[i][s]), pick(right, sums[i][s], other));
      }
    }
  }
  // Folds the first m < 32 lanes' elements of one level into p: canonical blocks, the largest first.
  __device__ __forceinline__ void fold_lanes(int level, int m, Prefix& p, const Item& start) const {
#pragma unroll
    for (int s = 4; s >= 0; s--) {
      Element block = from_lane(sums[level][s], (m >> (s + 1)) << (s + 1) & 31);
      if (m >> s & 1) fold(p, block, start);
    }
  }
};

// The sums of N groups of 32 elements, one a lane: a lane gets that of the group whose number is its own modulo N.
template <int N> __device__ __forceinline__ Element sums_of(Element (&e)[N], int lane) {
#pragma unroll
  for (int s = 0; s < 5; s++) {
    bool right = lane >> s & 1;
#pragma unroll
    for (int j = 0; j < max_of(N >> (s + 1), 1); j++) {  // of two groups a lane keeps one and sends the other
      bool two = N >> (s + 1);
      Element kept = two ? pick(right, e[2 * j + 1], e[2 * j]) : e[j], sent = two ? pick(right, e[2 * j], e[2 * j + 1]) : e[j];
      Element got = from_xor(sent, 1 << s);
      e[j] = combine(pick(right, got, kept), pick(right, kept, got));
    }
  }
  return e[0];
}

// Levels that are asked for at once; items of more than 8 bytes leave no registers for it.
constexpr int AT_ONCE = NODE <= 2 ? 3 : 1;

// Groups whose sums are not waited for but taken from the sums of their tiles. Whoever arrives last publishes the sum of a
// group 5 us after the last sum in it, and by then ten more groups have ended: without it f4 ran at .91 of a copy, not .935,
// max at .92, not .94, f8 at .91, not .925 (H200). It makes a look-back longer, which costs more than it brings where that
// is what a block waits for: pairs .86 to .82, segments .87 to .82, logaddexp .50 to .45, bytes .88 to .80; 32 MiB .63 to .61.
constexpr bool LIGHT = !SMALL && !SEGMENTED && COMPONENTS == 1 && sizeof(Item) >= 4 && !COSTLY;
constexpr int NEAR = LIGHT && NODE <= (__CUDA_ARCH__ == 900 ? 2 : 1) ? 4 / NODE : 0;  // others spill with two words

// The prefix of tile t and the prefix of the tile after it.
struct LookBack {
  Tree tree;
  i64 t;
  const Item& start;
  int lane;

  __device__ __forceinline__ int digit(int level) const { return int(t >> (5 * level)) & 31; }

  // The elements left of t on a level, one a lane.
  __device__ __forceinline__ u64* sibling(int level) const { return tree.node(level, ((t >> (5 * level)) & ~31ll) + lane); }
  __device__ __forceinline__ Element wait(const u64* at, bool wanted, const Read& r) const {
    return await_node<1>(at, wanted, found_in(r, tree.epoch), tree.epoch);
  }
  __device__ __forceinline__ Element siblings(int level) const { return await_node<1>(sibling(level), lane < digit(level), {}, tree.epoch); }

  __device__ __forceinline__ void fold_level(const Element& e, int level, Prefix& p) const {
    Element one[] = {e};
    Blocks<1>(one, lane).fold_lanes(0, digit(level), p, start);
  }
  template <int N> __device__ __forceinline__ void fold_lowest(const Blocks<N>& blocks, Prefix& p, Prefix& next) const {
    next = p;
    blocks.fold_lanes(0, digit(0), p, start);
    if (!EXCLUSIVE) blocks.fold_lanes(0, digit(0) + 1, next, start);
  }

  // Groups do not end with most tiles, so that the levels above are the same for t and t + 1.
  __device__ __forceinline__ bool simple() const { return EXCLUSIVE || digit(0) != 31; }
  __device__ __forceinline__ void fold_simple(const Element& sum, Prefix& p, Prefix& next) const {
    Read r[AT_ONCE] = {};
#pragma unroll
    for (int level = AT_ONCE - 1; level >= 0; level--) if (lane < digit(level)) read_node<1>(sibling(level), r[level]);
    p = {start, INITIAL};
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= AT_ONCE; level--) fold_level(siblings(level), level, p);
    Element e[AT_ONCE];
#pragma unroll
    for (int level = AT_ONCE - 1; level >= 0; level--) e[level] = wait(sibling(level), lane < digit(level), r[level]);
    if (!EXCLUSIVE && lane == digit(0)) e[0] = sum;
    Blocks<AT_ONCE> blocks(e, lane);
#pragma unroll
    for (int level = AT_ONCE - 1; level > 0; level--) blocks.fold_lanes(level, digit(level), p, start);
    fold_lowest(blocks, p, next);
  }

  // The same with near groups: those beside t's, and those in the group of groups before, where that may lack its sum.
  __device__ __forceinline__ void fold_near(const Element& sum, Prefix& p, Prefix& next) const {
    constexpr int MANY = max_of(NEAR, 1);
    i64 group = t >> 5;
    int beside = min(digit(1), NEAR);
    bool turned = tree.p.levels > 2 && digit(1) < 16 && digit(2);
    int before = turned ? NEAR - beside : 0;
    int wanted[] = {digit(0), digit(1) - beside, digit(2) - turned};
    Read r[3] = {}, near[MANY] = {}, ended = {};
#pragma unroll
    for (int level = 2; level >= 0; level--) if (lane < wanted[level]) read_node<1>(sibling(level), r[level]);
    u64* tile[MANY]; bool asked[MANY];
#pragma unroll
    for (int j = 0; j < MANY; j++) {
      int back = (int)((group - 1 - j) & (MANY - 1)) + 1;  // the latest group whose number is j modulo NEAR
      asked[j] = back <= beside + before;
      tile[j] = tree.node(0, (group - back) * 32 + lane);
      if (asked[j]) read_node<1>(tile[j], near[j]);
    }
    u64* groups_before = tree.node(1, (group & ~31ll) - 32 + lane);
    if (turned && lane < 32 - before) read_node<1>(groups_before, ended);
    p = {start, INITIAL};
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= 3; level--) fold_level(siblings(level), level, p);
    Element tiles[MANY], left[5];
#pragma unroll
    for (int j = 0; j < MANY; j++) tiles[j] = wait(tile[j], asked[j], near[j]);
    Element latest = sums_of(tiles, lane);
    if (tree.p.levels > 2) {
      Element e = wait(sibling(2), lane < wanted[2], r[2]);
      if (turned) {
        Element all = pick(lane < 32 - before, wait(groups_before, lane < 32 - before, ended), latest);
        e = pick(lane == digit(2) - 1, up_sweep<32>(all, lane, left), e);
      }
      fold_level(e, 2, p);
    }
    if (tree.p.levels > 1) fold_level(pick(lane < wanted[1], wait(sibling(1), lane < wanted[1], r[1]), latest), 1, p);
    Element e[] = {wait(sibling(0), lane < wanted[0], r[0])};
    if (!EXCLUSIVE && lane == digit(0)) e[0] = sum;
    fold_lowest(Blocks<1>(e, lane), p, next);
  }

  // All levels, whichever groups end with t.
  __device__ __forceinline__ void fold_all(Element sum, Prefix& p, Prefix& next) const {
    int turn = 0;  // the level whose digit grows from t to t + 1: below it groups end with this tile
#pragma unroll 1
    for (; turn + 1 < tree.p.levels && digit(turn) == 31; turn++) {
      Element e = siblings(turn), left[5];
      sum = up_sweep<32>(pick(lane == 31, sum, e), lane, left);
    }
    p = next = {start, INITIAL};
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= 0; level--) {
      Element e[] = {siblings(level)};
      if (level == turn && lane == digit(level)) e[0] = sum;
      Blocks<1> blocks(e, lane);
      blocks.fold_lanes(0, digit(level), p, start);
      if (!EXCLUSIVE && level >= turn) blocks.fold_lanes(0, digit(level) + (level == turn), next, start);
    }
  }

  __device__ __forceinline__ void prefixes(const Element& sum, Prefix& p, Prefix& next) const {
    if (!simple()) fold_all(sum, p, next);
    else if constexpr (NEAR > 0) fold_near(sum, p, next);
    else fold_simple(sum, p, next);
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
