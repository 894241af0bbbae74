// Warps that serve walking warps: SERVERS of them take turns at tiles of STEPS steps. Each brings the items of its tile, prepares
// them for the walk, waits until the tile has been walked, and hands out the results. Nobody else waits for it.
#pragma once
#include "pieces.cuh"
#include "barriers.cuh"

// Channels of a tile.
constexpr int WIDTH = 32;
// Lanes of a serving warp that share a step.
constexpr int PER_LINE = WIDTH / VEC;
// Steps that such a lane holds, one after the other.
constexpr int HELD = STEPS / VEC;
// Steps from one tile of a warp to its next.
constexpr int ROUND = SERVERS * STEPS;

// The steps of one sequence, and the channels of one block, from the `first` on.
struct Part {
  i64 sequence, begin, n, first;
  int exist;
  __device__ __forceinline__ explicit Part(const Params& p, u32 task = blockIdx.x) {
    sequence = task / (u32)p.groups;
    first = task % (u32)p.groups * (i64)WIDTH;
    exist = (int)min(p.channels - first, (i64)WIDTH);
    begin = p.offsets ? p.offsets[sequence] : 0;
    n = p.offsets ? p.offsets[sequence + 1] - begin : p.steps;
  }
  __device__ __forceinline__ char* at(const Params& p, const Lines& l, i64 t) const {
    return l.at + (p.offsets ? 0 : sequence * l.sequence) + (begin + t) * l.step;
  }
};

// The channel whose runs lie at this place of a tile.
__device__ __forceinline__ int channel_of(int place) { return place % PER_LINE * VEC + place / PER_LINE; }

// A piece of a line; zero where the piece does not exist. Other blocks soon want its neighbours.
template <class Raw> __device__ __forceinline__ Raw load_piece(const char* from, bool there) {
  Raw x;
  if constexpr (sizeof(Raw) == 16)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
                 " @p ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&r"(x.w[0]), "=&r"(x.w[1]), "=&r"(x.w[2]), "=&r"(x.w[3]) : "l"(from), "r"((u32)there));
  else if constexpr (sizeof(Raw) == 8)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0;"
                 " @p ld.global.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2]; }"
                 : "=&r"(x.w[0]), "=&r"(x.w[1]) : "l"(from), "r"((u32)there));
  else if constexpr (sizeof(Raw) == 4)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u32 %0, [%1]; }" : "=&r"(x.w[0]) : "l"(from), "r"((u32)there));
  else
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u16 %0, 0; @p ld.global.u16 %0, [%1]; }" : "=&h"(x.w[0]) : "l"(from), "r"((u32)there));
  return x;
}

// The first m pieces of neighbouring steps.
template <int COUNT> __device__ __forceinline__ void load_pieces(const char* at, i64 step, int m, Raw (&x)[COUNT]) {
#pragma unroll
  for (int o = 0; o < COUNT; o++, at += step) x[o] = load_piece<Raw>(at, o < m);
}

// A lane of a warp that serves. BACK: steps are counted from the last to the first.
template <bool BACK> struct Server {
  const Params& p;
  const Part& part;
  int warp, lane;
  // The place of the lane's piece within a line, and its first step within a tile.
  int place = lane % PER_LINE, first = lane / PER_LINE * HELD;
  bool owned = place * VEC < part.exist;

  // An array: where this lane's piece of the first of its steps lies, and how far apart steps are.
  struct Source {
    char* at;
    i64 step;
  };
  __device__ __forceinline__ Source of(const Lines& l, i64 skip = 0) const {
    const i64 j = (i64)warp * STEPS + first + skip;
    return {part.at(p, l, BACK ? part.n - 1 - j : j) + part.first * SIZE + place * GRAIN, BACK ? -l.step : l.step};
  }
  // Moves arrays on to the warp's next tile.
  template <class... Sources> __device__ __forceinline__ void move(Sources&... s) const { ((s.at += ROUND * s.step), ...); }
  // How many of the lane's steps exist in the tile that begins at step j.
  __device__ __forceinline__ int exist(i64 j) const { return owned ? (int)max(min(part.n - j - first, (i64)HELD), 0ll) : 0; }
  __device__ __forceinline__ void load(const Source& from, int m, Raw (&x)[HELD]) const { load_pieces(from.at, from.step, m, x); }
  // Starts to copy the lane's first m pieces to shared memory.
  __device__ __forceinline__ void bring(const Source& from, int m, Raw (&to)[HELD][32]) const {
    const char* at = from.at;
#pragma unroll
    for (int o = 0; o < HELD; o++, at += from.step)
      if (o < m) copy_async<GRAIN, true>((char*)&to[o][lane], at);
  }
  __device__ __forceinline__ void store(const Source& to, int m, const Piece (&x)[HELD]) const {
    char* at = to.at;
#pragma unroll
    for (int o = 0; o < HELD; o++, at += to.step)
      if (o < m) *(Piece*)at = x[o];
  }
  // Calls f(o, v, place) for each channel v of each run of steps from o on. The channels of a piece lie PER_LINE runs apart in a
  // tile, so that neither the lanes that serve nor those that walk meet in a bank.
  template <int RUN, class F> __device__ __forceinline__ void each_run(F&& f) const {
#pragma unroll
    for (int o = 0; o < HELD; o += RUN)
#pragma unroll
      for (int v = 0; v < VEC; v++) f(o, v, (first + o) / RUN * WIDTH + v * PER_LINE + place);
  }
};
