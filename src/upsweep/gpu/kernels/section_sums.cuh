// The sums of tiles, of 32 and of 1024 tiles and so on, which blocks of one launch hand to each other: lookback.cuh says how nobody waits
// in a chain. A sum is words of 32 bits, each with the epoch of the launch above it.
#pragma once
#include "sections.cuh"
#include "epochs.cuh"

constexpr int SUM_WORDS = Words<c128>::count;

template <class V> struct Asked { u64 v[Words<V>::count]; };
template <class V> __device__ __forceinline__ Asked<V> ask(const u64* at) {
  Asked<V> r;
#pragma unroll
  for (int i = 0; i < Words<V>::count; i++) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(r.v[i]) : "l"(at + i) : "memory");
  return r;
}

template <class V> struct Sums {
  const Params& p;
  const Section& by;
  i64 row;    // of the sums: every section has its own
  i64 t;
  u32 epoch;
  int lane;

  __device__ __forceinline__ u64* node(int level, i64 i) const {
    return p.nodes + (p.level_first[level] + row * p.level_size[level] + i) * SUM_WORDS;
  }
  __device__ __forceinline__ u32* arrivals(int level, i64 group) const {
    return p.arrivals + (p.level_first[level + 1] - p.level_first[1] + row * p.level_size[level + 1] + group);
  }
  __device__ __forceinline__ void store(u64* at, const V& sum) const {
    const Words<V> w = to_words(sum);
#pragma unroll
    for (int i = 0; i < Words<V>::count; i++) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at + i), "l"((u64)epoch << 32 | w.w[i]) : "memory");
  }
  __device__ __forceinline__ bool here(const Asked<V>& r) const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < Words<V>::count; i++) all &= (u32)(r.v[i] >> 32) == epoch;
    return all;
  }
  __device__ __forceinline__ V await(const u64* at, bool wanted, Asked<V> r) const {
    while (!__all_sync(FULL, here(r) || !wanted)) if (wanted && !here(r)) r = ask<V>(at);
    Words<V> w;
#pragma unroll
    for (int i = 0; i < Words<V>::count; i++) w.w[i] = (u32)r.v[i];
    return from_words<V>(w);
  }

  // Publishes the tile's sum, and the sum of every group that it completes and that a later tile will ask for.
  __device__ __forceinline__ void publish(V sum) const {
    if (t + 1 >= p.tiles) return;
    i64 i = t;
    for (int level = 0;; level++) {
      if (lane == 0) store(node(level, i), sum);
      const i64 group = i >> 5;
      if (level + 1 == LEVELS || (group + 1) << 5 * (level + 1) >= p.tiles) return;
      u32 before = 0;
      if (lane == 0) before = atomicAdd(arrivals(level, group), 1u);
      if (__shfl_sync(FULL, before, 0) != 31) return;
      if (lane == 0) *arrivals(level, group) = 0;
      sum = from_lane(up_sweep<32>(await(node(level, (i & ~31ll) + lane), true, {}), lane, by, TILE_LEVEL + 5 * level), 31);
      i = group;
    }
  }

  __device__ __forceinline__ int digit(int level) const { return int(t >> 5 * level) & 31; }
  // The node beside the tile's own on a level that a lane reads.
  __device__ __forceinline__ u64* sibling(int level) const { return node(level, (t >> 5 * level & ~31ll) + lane); }

  // The sums of so many groups before the tile's own may still be on their way. They are made of their tiles' sums.
  __device__ __forceinline__ int beside() const { return min(digit(1), NEAR); }
  __device__ __forceinline__ V near(int j) const {
    return from_lane(up_sweep<32>(await(node(0, ((t >> 5) - 1 - j) * 32 + lane), true, {}), lane, by, TILE_LEVEL), 31);
  }

  __device__ __forceinline__ V swept(V sum, int level) const { return up_sweep<16>(sum, lane, by, TILE_LEVEL + 5 * level, digit(level)); }

  // The sums before the tile, one a lane on each level, swept up, but for the level on which those of near groups are missing.
  struct Siblings { V sum[LEVELS]; };
  __device__ __forceinline__ Siblings siblings() const {
    Asked<V> r[LEVELS] = {};
    const auto wanted = [&](int l) { return lane < digit(l) - (l == 1 ? beside() : 0); };
#pragma unroll
    for (int l = LEVELS - 1; l >= 0; l--) if (wanted(l)) r[l] = ask<V>(sibling(l));
    Siblings e;
#pragma unroll
    for (int l = LEVELS - 1; l >= 0; l--) {
      e.sum[l] = await(sibling(l), wanted(l), r[l]);
      if (l != 1) e.sum[l] = swept(e.sum[l], l);
    }
    return e;
  }

  // The state before the tile, by its siblings and the sums of the near groups.
  __device__ __forceinline__ Before<V> before(Siblings e, const c128 (&near)[NEAR]) const {
    const int back = digit(1) - 1 - lane;
    if (0 <= back && back < beside()) e.sum[1] = (const V&)near[back];
    e.sum[1] = swept(e.sum[1], 1);
    Before<V> b = {{}, false};
#pragma unroll
    for (int l = LEVELS - 1; l >= 0; l--)
#pragma unroll
      for (int s = 4; s >= 0; s--)
        if (digit(l) >> s & 1) fold(b, power<V>(by, TILE_LEVEL + 5 * l + s), from_lane(e.sum[l], (digit(l) >> s << s) - 1));
    return b;
  }
};
