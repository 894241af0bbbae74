// The arrays b and c of a tile, which all channels share, as warps that serve bring them.
#pragma once
#include "selective.cuh"
#include "serving.cuh"

// Packs of OWN states of one step that a lane brings, of steps APART apart.
constexpr int PACKS = (STEPS * LANES + 31) / 32, PACK_STEPS = 32 / LANES;
struct Shared {
  Pack<Value, OWN> x[PACKS];
  // Where the first pack of a lane lies, in the tile that begins at step j.
  static __device__ __forceinline__ char* first(const Params& p, const Part& part, const Lines& l, i64 j, int lane) {
    return part.at(p, l, j + lane / LANES) + lane % LANES * OWN * SIZE;
  }
  // from: the lane's first pack; the tile has m steps.
  __device__ __forceinline__ void load(const char* from, i64 step, int m, int lane) {
    constexpr int CUT = PADDED == STATES && OWN * SIZE % STATE_GRAIN == 0 ? STATE_GRAIN : SIZE;
    const int state = lane % LANES * OWN;
#pragma unroll
    for (int k = 0; k < PACKS; k++, from += PACK_STEPS * step) {
      x[k] = {};
      if (k * PACK_STEPS + lane / LANES >= m) continue;
      if (PADDED == STATES) x[k] = load_item<Pack<Value, OWN>, CUT>(from);
      else
#pragma unroll
        for (int o = 0; o < OWN; o++) if (state + o < STATES) x[k].x[o] = ((const Value*)from)[o];
    }
  }
  __device__ __forceinline__ void put(Pack<Real, OWN> (&to)[STEPS * LANES], int lane) const {
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      Pack<Real, OWN> wide;
#pragma unroll
      for (int o = 0; o < OWN; o++) wide.x[o] = convert<Real>(x[k].x[o]);
      if (k * 32 + lane < STEPS * LANES) to[k * 32 + lane] = wide;
    }
  }
};
