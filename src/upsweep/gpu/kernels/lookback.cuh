// Look-back over the sums of tiles, without a chain: a tile's prefix is the fold of at most 31 sums on each level of a
// radix-32 tree, and whoever arrives last in a group of 32 publishes the sum of the group. Nobody waits for a prefix, only
// for sums of tiles whose tickets were taken earlier and whose holders publish before they wait: so everyone gets on,
// however few blocks are resident.
#pragma once
#include "nodes.cuh"

// How the warps that look back and publish fold. Three components are few enough to be written out: of f4 .76 of a copy, SPARING
// .68, of f8 .56 and .49 (H200).
constexpr How LOOKING = COSTLY ? CALLED : NODE > 2 && COMPONENTS != 3 ? SPARING : INLINE;

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

// Publishes the sum of tile t, which lane 31 has, and the sum of every group that it completes and that a later tile will ask for.
__device__ __forceinline__ void publish(const Tree& tree, i64 t, Element sum, int lane) {
  if (t + 1 >= tree.p.tiles) return;
  i64 i = t;
  for (int level = 0;; level++) {
    if (lane == 31) store_node<1>(tree.node(level, i), sum, tree.epoch);
    i64 group = i >> 5;
    if (level + 1 >= tree.p.levels || (group + 1) << (5 * (level + 1)) >= tree.p.tiles) return;
    u32 before = 0;
    if (lane == 31) before = atomicAdd(tree.arrivals(level, group), 1u);
    if (__shfl_sync(FULL, before, 31) != 31) return;
    if (lane == 31) *tree.arrivals(level, group) = 0;
    sum = up_sweep<32, LOOKING>(await_node<1>(tree.node(level, (i & ~31ll) + lane), true, {}, tree.epoch), lane);
    i = group;
  }
}

// Three levels are asked for at once, or two below a prefix that is remembered, where registers allow.
constexpr bool AT_ONCE = NODE <= 8;

// Groups whose sums are not waited for but taken from the sums of their tiles. Whoever arrives last publishes the sum of a
// group 4 us after the last sum in it, and by then eight more groups have ended: without it f4 ran at .91 of a copy, not .935,
// max at .92, not .94, f8 at .91, not .925, i2 at .915, not .935, pairs at .885, not .905 (H200). It makes a look-back longer,
// which costs more than it brings where that is what a block waits for: bytes .91 to .90; 32 MiB .63 to .61.
constexpr bool LIGHT = !SMALL && NODE <= 2 && sizeof(Item) >= 2 && !COSTLY;
constexpr bool FITS = NEAR_GROUPS || sizeof(Item) == 4;
constexpr int NEAR = !LIGHT || !FITS ? 0 : SEGMENTED ? 2 : COMPONENTS > 1 ? 4 : 4 / NODE;
constexpr int SLOTS = max_of(NEAR, 1);  // no array is empty

// Lanes without an element take one that exists: a division of zeros goes a long way, and all lanes go with it. A count, a mean and a
// spread of f4 ran at .59 of a copy with zeros, at .68 without (H200).
constexpr bool FILLED = COMPONENTS > 2 && !LIGHT;

// The prefix before the 1024 tiles that t is among stays for all of them: of three components, or more of many words, a warp keeps it
// from one tile to its next. In two runs, eight of f8 went from .443 to .468 of a copy and from .484 to .502, six of f8 from .72 and .74
// to .75, three of f4 from .77 to .795, of f8 from .57 to .60 or stayed; six of f4 fell from .81 to .79 with it, four of f4 from .89 to
// .88 (H200). logaddexp .634 -> .648, and with levels swept side by side .654.
constexpr bool REMEMBERS = COSTLY || COMPONENTS == 3 || (COMPONENTS > 3 && NODE >= 8);
struct Above { u64 row; i64 turn = -1; Prefix prefix; };

// Folds the prefix of tile t, and in the upper half of the lanes that of the tile after it. `sum` is the sum of tile t.
struct LookBack {
  Tree tree;
  i64 t;
  const Element& sum;
  const Item& start;
  int lane;

  static __device__ __forceinline__ int digit(i64 t, int level) { return int(t >> (5 * level)) & 31; }
  __device__ __forceinline__ int digit(int level) const { return digit(t, level); }
  // The tile whose prefix a lane folds.
  __device__ __forceinline__ i64 mine() const { return t + (!EXCLUSIVE && lane >= 16); }

  // The elements left of t on a level, one a lane.
  __device__ __forceinline__ u64* sibling(int level) const { return tree.node(level, ((t >> (5 * level)) & ~31ll) + lane); }
  __device__ __forceinline__ Element wait(const u64* at, bool wanted, const Read& r) const {
    return await_node<1>(at, wanted, found_in(r, tree.epoch), tree.epoch);
  }
  __device__ __forceinline__ Element siblings(int level) const { return await_node<1>(sibling(level), lane < digit(level), {}, tree.epoch); }

  // How many elements of a level the prefixes of t and of t + 1 are folded from.
  __device__ __forceinline__ int most(int level) const { return max(digit(level), EXCLUSIVE ? 0 : digit(t + 1, level)); }

  __device__ __forceinline__ void fold_level(const Element& e, int level, Prefix& p) const {
    down_sweep<32, LOOKING>(p, digit(mine(), level), up_sweep<16, LOOKING>(e, lane, most(level)), start);
  }

  // The siblings of a level, and in all lanes behind them the sum of tile t.
  __device__ __forceinline__ Element with_own(const Element& e, int level) const { return pick(lane < digit(level), e, sum); }

  // Groups do not end with most tiles, so that the levels above are the same for t and t + 1. Sums that may be missing are taken
  // from their parts: those of the near groups beside t's, and, while t is among the first 16 groups after a `turn` of the level
  // above, that of the 32 groups before, the latest of which are near ones.
  __device__ __forceinline__ bool simple() const { return EXCLUSIVE || digit(0) != 31; }
  template <class F> __device__ __forceinline__ void fold_simple(Prefix& p, F&& own) const {
    i64 group = t >> 5;
    int beside = min(digit(1), NEAR);
    bool turned = LIGHT && tree.p.levels > 2 && digit(1) < 16 && digit(2);
    int before = turned ? NEAR - beside : 0;
    int wanted[] = {digit(0), digit(1) - beside, digit(2) - turned};
    Read r[3] = {}, near[SLOTS] = {}, ended = {};
#pragma unroll
    for (int level = 2; level >= 0; level--) if (lane < wanted[level]) read_node<1>(sibling(level), r[level]);
    u64* tile[SLOTS]; bool asked[SLOTS];
#pragma unroll
    for (int j = 0; j < NEAR; j++) {
      int back = (int)((group - 1 - j) & (NEAR - 1)) + 1;  // the latest group whose number is j modulo NEAR
      asked[j] = back <= beside + before;
      tile[j] = tree.node(0, (group - back) * 32 + lane);
      if (asked[j]) read_node<1>(tile[j], near[j]);
    }
    u64* groups_before = tree.node(1, (group & ~31ll) - 32 + lane);
    if (turned && lane < 32 - before) read_node<1>(groups_before, ended);
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= 3; level--) fold_level(siblings(level), level, p);
    own();
    Element latest = {}, tiles[SLOTS], e[3];
    if constexpr (FILLED) latest = sum;
    if constexpr (NEAR > 0) {
#pragma unroll
      for (int j = 0; j < NEAR; j++) tiles[j] = wait(tile[j], asked[j], near[j]);
      latest = sums_of(tiles, lane);
    }
    e[2] = wait(sibling(2), lane < wanted[2], r[2]);
    if (turned) {
      Element all = pick(lane < 32 - before, wait(groups_before, lane < 32 - before, ended), latest);
      e[2] = pick(lane == digit(2) - 1, from_lane(up_sweep<32, LOOKING>(all, lane), 31), e[2]);
    }
    e[1] = pick(lane < wanted[1], wait(sibling(1), lane < wanted[1], r[1]), latest);
    if constexpr (FILLED) e[2] = pick(lane < wanted[2], e[2], latest);
    e[0] = pick(FILLED ? lane >= digit(0) : lane == digit(0), sum, wait(sibling(0), lane < wanted[0], r[0]));
    up_sweep<16, LOOKING>(e, lane, {most(0), most(1), most(2)});
#pragma unroll
    for (int level = 2; level >= 0; level--) down_sweep<32, LOOKING>(p, digit(mine(), level), e[level], start);
  }

  // Two levels, and the prefix before them as it is remembered.
  template <class F> __device__ __forceinline__ void fold_remembered(Prefix& p, Above& above, F&& own) const {
    Read r[2] = {};
    if constexpr (AT_ONCE) {
#pragma unroll
      for (int level = 1; level >= 0; level--) if (lane < digit(level)) read_node<1>(sibling(level), r[level]);
    }
    own();
    if (above.turn != t >> 10 || above.row != tree.row) {
#pragma unroll 1
      for (int level = (int)tree.p.levels - 1; level >= 2; level--) fold_level(with_own(siblings(level), level), level, p);
      above = {tree.row, t >> 10, p};
    }
    p = above.prefix;
    if constexpr (AT_ONCE) {
      Element e[2];
#pragma unroll
      for (int level = 1; level >= 0; level--) e[level] = with_own(wait(sibling(level), lane < digit(level), r[level]), level);
      up_sweep<16, COSTLY ? ROLLED : LOOKING>(e, lane, {most(0), most(1)});
#pragma unroll
      for (int level = 1; level >= 0; level--) down_sweep<32, LOOKING>(p, digit(mine(), level), e[level], start);
    } else {
#pragma unroll 1
      for (int level = min((int)tree.p.levels - 1, 1); level >= 0; level--) fold_level(with_own(siblings(level), level), level, p);
    }
  }

  // All levels, whichever groups end with t.
  __device__ __forceinline__ void fold_all(Prefix& p) const {
    Element ended = sum;
    int turn = 0;  // the level whose digit grows from t to t + 1: below it groups end with this tile
#pragma unroll 1
    for (; turn + 1 < tree.p.levels && digit(turn) == 31; turn++)
      ended = from_lane(up_sweep<32, LOOKING>(pick(lane == 31, ended, siblings(turn)), lane), 31);
#pragma unroll 1
    for (int level = (int)tree.p.levels - 1; level >= 0; level--)
      fold_level(pick(FILLED ? lane >= digit(level) : level == turn && lane == digit(level), ended, siblings(level)), level, p);
  }

  // `own` waits for the sum of tile t, where that comes late.
  template <class F> __device__ __forceinline__ void fold(Prefix& p, Above& above, F&& own) const {
    if (!simple()) { own(); fold_all(p); }
    else if constexpr (REMEMBERS) fold_remembered(p, above, own);
    else fold_simple(p, own);
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
