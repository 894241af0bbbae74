// Which items of a tile a selection keeps: a bit for each, in words of the lanes that have the items. The names are those of
// select.cu.
#pragma once
#include "differ.cuh"
#include "packs.cuh"
#include "room.cuh"
#include "tally.cuh"

constexpr bool FLAGS = !RUNS && !TEST;
constexpr int WARPS = THREADS / 32, LINE = 32 * VECTOR, LINES = ITEMS / VECTOR, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS;
constexpr int SLOT = VALUES && !FLAGS ? TILE / 2 : 0;  // a tile that keeps more is read again, which costs as much
static_assert(ITEMS <= 32 && TILE <= 65536, "a lane's flags have 32 bits, an index within a tile has 16");
// Counts within a line. The counts of several lines lie side by side in a word, so one scan of the lanes is enough for all.
constexpr int FIELD = LINE < 256 ? 8 : 16, FIELDS = 32 / FIELD, WORDS = (LINES + FIELDS - 1) / FIELDS;
constexpr int PIECE = 16 / sizeof(KEY);
#if ITEMS > 16
typedef u32 Marks;
#else
typedef u16 Marks;
#endif
__device__ __forceinline__ u32 marks_of(u32 marks, int line) { return marks >> line * VECTOR & (u32)((1ull << VECTOR) - 1); }

struct Select {
  const KEY* x;
  const u8* flags;
  i64 n, skip, tiles;    // the first tile starts `skip` items before the first one, so that tiles lie evenly
  Room small, large;     // the small one takes the result where all of it fits
  Marks* marks;          // a word for each thread that has items of a tile
  KEY* slots;            // for the items of each tile that keeps few
  i64* count;            // here is written how many are kept, in memory of the device or of the host
  Nodes nodes;
};

#if TEST
extern "C" __device__ void upsweep_test(ITEM*, ANSWER*);
__device__ __forceinline__ bool passes(KEY x) {
  ITEM given = convert<ITEM>(x);
  ANSWER made;
  upsweep_test(&given, &made);
  return convert<bool>(made);
}
#endif

// A lane's items of a tile, of the lines where any is wanted.
struct Items { Pack<KEY, VECTOR> line[LINES]; };
__device__ __forceinline__ void load_items(Items& to, const Select& p, i64 from, u32 wanted) {
  if (EVEN && from >= 0 && from + (LINES - 1) * LINE + VECTOR <= p.n) {
#pragma unroll
    for (int k = 0; k < LINES; k++) if (marks_of(wanted, k)) to.line[k].load(p.x + from + k * LINE);
  } else {
#pragma unroll
    for (int k = 0; k < LINES; k++)
      if (marks_of(wanted, k)) to.line[k].template load_within<false>(p.x + from + k * LINE, -(from + k * LINE), p.n - (from + k * LINE));
  }
}

__device__ __forceinline__ KEY from_lane(const KEY& x, int lane) {
  Words<KEY> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<KEY>::count; i++) w.w[i] = __shfl_sync(FULL, w.w[i], lane);
  return from_words<KEY>(w);
}

#if RUNS
// A bit for each item of a line that differs from the one before it; `edge` is the item before the line's first, and then its last.
__device__ __forceinline__ u32 heads_of(const Pack<KEY, VECTOR>& line, KEY& edge, int lane) {
  const KEY turned = from_lane(line.get(VECTOR - 1), (lane + 31) % 32);
  KEY left = lane ? turned : edge;
  edge = turned;
  u32 heads = 0;
  if constexpr (same<KEY, u8>) {  // four at a time
    Pack<u8, VECTOR> change;
    u32 word = to_words(left).w[0] << 24;
#pragma unroll
    for (int i = 0; i < line.WORDS; i++) {
      change.w[i] = line.w[i] ^ (line.w[i] << 8 | word >> 24);
      word = line.w[i];
    }
    return bits_of(change);
  }
#pragma unroll
  for (int j = 0; j < VECTOR; j++) {
    const KEY item = line.get(j);
    if (differ(item, left)) heads |= 1u << j;
    left = item;
  }
  return heads;
}
#endif

// The items of a lane that are kept because of their values, a bit each. `edge` is the item before the warp's first.
__device__ __forceinline__ u32 kept_of(const Items& x, KEY edge, const Select& p, i64 from, int lane) {
  u32 mine = 0;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
#if RUNS
    mine |= heads_of(x.line[k], edge, lane) << k * VECTOR;
#elif TEST
#pragma unroll
    for (int j = 0; j < VECTOR; j++) if (passes(x.line[k].get(j))) mine |= 1u << (k * VECTOR + j);
#endif
  }
  if (from > 0 && from + (LINES - 1) * LINE + VECTOR <= p.n) return mine;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const i64 at = from + i / VECTOR * LINE + i % VECTOR;
    if (RUNS && at == 0) mine |= 1u << i;
    if (at < 0 || at >= p.n) mine &= ~(1u << i);
  }
  return mine;
}
