// Writes what a selection keeps of a tile, once the tile's marks are known, and what lies before it. The names are those of select.cu.
#pragma once
#include "kept.cuh"

// The memory that a result of so many items is written to.
__device__ __forceinline__ Room room_for(const Select& p, i64 kept) {
  const bool small = kept <= p.small.size;
  return {small ? p.small.size : p.large.size, small ? p.small.values : p.large.values,
          small ? p.small.places : p.large.places, small ? p.small.lengths : p.large.lengths};
}

// 1 + the place in its tile of the last item that a warp keeps, or 0; `first` is the place of a lane's first item.
__device__ __forceinline__ u32 end_of(u32 mine, int first) {
  const int top = 31 - __clz(mine);
  u32 end = mine ? first + top / VECTOR * LINE + top % VECTOR + 1 : 0;
  return __reduce_max_sync(FULL, end);
}

// The sum over the warps of a block.
struct Shares { u32 counts[WARPS], ends[WARPS]; };
struct Whole { u32 before, total, end; };
__device__ __forceinline__ Whole whole_of(const Shares& shares, int warp) {
  Whole whole = {0, 0, 0};
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    if (w < warp) whole.before += shares.counts[w];
    whole.total += shares.counts[w];
    if (LENGTHS) whole.end = max(whole.end, shares.ends[w]);
  }
  return whole;
}

// So many neighbours from shared memory, 16 bytes at a time: source and target both begin `phase` items behind a multiple of 16
// bytes.
__device__ __forceinline__ void store_items(KEY* to, const KEY* from, int phase, int count) {
  for (int low = threadIdx.x * PIECE; low < phase + count; low += THREADS * PIECE) {
    if (low >= phase && low + PIECE <= phase + count) *(uint4*)(to - phase + low) = *(const uint4*)(from + low);
    else {
#pragma unroll
      for (int j = low; j < low + PIECE; j++) if (j >= phase && j < phase + count) to[j - phase] = from[j];
    }
  }
}

// For the items of a lane that are kept: the place of the first of each line among those that the warp keeps, and these in all.
struct Ranks { u32 place[LINES], total; };
__device__ __forceinline__ Ranks ranks_of(u32 mine, int lane) {
  Ranks ranks;
  ranks.total = 0;
  u32 own[WORDS] = {};
#pragma unroll
  for (int k = 0; k < LINES; k++) own[k / FIELDS] += __popc(marks_of(mine, k)) << k % FIELDS * FIELD;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    const u32 to_lane = sum_to_lane(own[w], lane), all = __shfl_sync(FULL, to_lane, 31), before = to_lane - own[w];
#pragma unroll
    for (int k = w * FIELDS; k < LINES && k < (w + 1) * FIELDS; k++) {
      ranks.place[k] = ranks.total + (before >> k % FIELDS * FIELD & ((1 << FIELD) - 1));
      ranks.total += all >> k % FIELDS * FIELD & ((1 << FIELD) - 1);
    }
  }
  return ranks;
}

// Writes a tile, whose marks are known. Its items are in registers, or else in its slot and not written here.
__device__ __forceinline__ void write_tile(const Select& p, i64 t, u32 mine, const Items& x, bool slot, const Before& shared_before, const i64& shared_kept) {
  __shared__ uint4 moved_words[VALUES ? TILE / PIECE + 3 : 1];
  __shared__ u16 spots[PLACES || LENGTHS ? TILE : 1];
  __shared__ Shares written;
  KEY* const moved = (KEY*)moved_words;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane * VECTOR;
  const i64 begin = t * TILE - p.skip;
  const Ranks ranks = ranks_of(mine, lane);
  const u32 end = LENGTHS ? end_of(mine, first) : 0;
  if (lane == 0) { written.counts[warp] = ranks.total; written.ends[warp] = end; }
  __syncthreads();  // the places of all warps are known, and what lies before the tile

  const Before before = shared_before;
  const i64 kept = shared_kept;
  const Room room = room_for(p, kept);
  const Whole tile = whole_of(written, warp);
  const u64 last = tile.end ? begin + tile.end : before.last;
  const bool final = begin + TILE >= p.n;
  const int absent = begin < 0 ? (int)-begin : 0, exists = (int)min(p.n - begin, (i64)TILE);
  KEY* const values = room.values + before.count;
  KEY* const rest = room.values + (REST ? kept + begin + absent - before.count : 0);
  const int phase = ((u64)values & 15) / sizeof(KEY), rest_phase = ((u64)rest & 15) / sizeof(KEY);
  KEY* const rest_moved = moved + (phase + tile.total + PIECE - 1) / PIECE * PIECE;
#pragma unroll
  for (int k = 0; k < LINES; k++) {
    // Pointers that go on take fewer instructions than places do, but more registers.
    u32 to = tile.before + ranks.place[k];
    KEY* at = moved + phase + to;
    u16* spot = spots + to;
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
      const int i = first + k * LINE + j;
      if (mine >> (k * VECTOR + j) & 1) {
        if (VALUES && !slot) *(REST ? moved + phase + to : at) = x.line[k].get(j);
        if (PLACES || LENGTHS) *spot = i;
        to++, at++, spot++;
      } else if constexpr (REST) {
        if (i >= absent && i < exists) rest_moved[rest_phase + i - absent - to] = x.line[k].get(j);
      }
    }
  }
  __syncthreads();  // the tile's items are side by side

  const int some = (int)min(max(room.size - (i64)before.count, 0ll), (i64)tile.total);
  if (VALUES && !slot) store_items(values, moved, phase, some);
  if (REST) store_items(rest, rest_moved, rest_phase, exists - absent - tile.total);
  if (PLACES || LENGTHS) {
#pragma unroll 4
    for (int j = threadIdx.x; j < (LENGTHS ? (int)tile.total : some); j += THREADS) {
      const i64 to = before.count + j, place = begin + spots[j];
      if (PLACES && j < some) room.places[to] = place;
      if (LENGTHS && to && to <= room.size) room.lengths[to - 1] = place + 1 - (j ? begin + spots[j - 1] + 1 : (i64)before.last);
    }
  }
  if (LENGTHS && final && threadIdx.x == 0 && before.count + tile.total <= room.size)  // the first item starts a run
    room.lengths[before.count + tile.total - 1] = p.n + 1 - (i64)last;
}
