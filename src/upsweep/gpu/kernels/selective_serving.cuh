// The arrays b and c of a tile, which all channels share, as warps that serve bring them.
#pragma once
#include "selective.cuh"
#include "serving.cuh"

// A lane of a warp that serves, with COUNT steps of a tile from step `first` on.
template <int COUNT> struct Lane {
  const Params& p;
  const Part& part;
  int lane, first;
  // The place of the lane's pieces within a line.
  int place = lane % PER_LINE;
  bool owned = place * VEC < part.exist;

  // How many of the lane's steps exist in the tile that begins at step j.
  __device__ __forceinline__ int exist(i64 j) const { return owned ? (int)max(min(part.n - j - first, (i64)COUNT), 0ll) : 0; }
  __device__ __forceinline__ char* at(const Lines& l, i64 j) const { return part.at(p, l, j + first) + part.first * SIZE + place * GRAIN; }
  __device__ __forceinline__ void load(const Lines& from, i64 j, int m, Raw (&x)[COUNT]) const {
    load_pieces(at(from, j), from.step, m, x);
  }
};

// Packs of OWN states of one step that a lane brings.
constexpr int PACKS = (STEPS * LANES + 31) / 32;
struct Shared {
  Pack<Value, OWN> x[PACKS];
  __device__ __forceinline__ void load(const Params& p, const Part& part, const Lines& l, i64 j, int lane) {
    constexpr int CUT = PADDED == STATES && OWN * SIZE % STATE_GRAIN == 0 ? STATE_GRAIN : SIZE;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      const int i = k * 32 + lane, state = i % LANES * OWN;
      const char* from = part.at(p, l, j + i / LANES) + state * SIZE;
      x[k] = {};
      if (j + i / LANES >= part.n || i >= STEPS * LANES) continue;
      if (PADDED == STATES) x[k] = load_item<Pack<Value, OWN>, CUT>(from);
      else
#pragma unroll
        for (int o = 0; o < OWN; o++) if (state + o < STATES) x[k].x[o] = ((const Value*)from)[o];
    }
  }
  // turn: state o ^ turn of a pack goes to place o.
  __device__ __forceinline__ void put(Pack<Real, OWN> (&to)[STEPS * LANES], int lane, int turn = 0) const {
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      Pack<Real, OWN> wide;
#pragma unroll
      for (int o = 0; o < OWN; o++) wide.x[o] = convert<Real>(x[k].x[o ^ turn]);
      if (k * 32 + lane < STEPS * LANES) to[k * 32 + lane] = wide;
    }
  }
};
