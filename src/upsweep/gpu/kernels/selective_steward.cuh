// The warps that serve a selective scan's way back: each has the same SHARE of the steps of every tile.
#pragma once
#include "selective_back.cuh"

// Steps of a tile that a warp serves, and those that a lane of it holds.
constexpr int SHARE = STEPS / SERVERS, MINE = HELD / SERVERS;
static_assert(SERVERS == 2, "one warp brings b, the other one c");

// The pieces of a lane in a tile. They are read before the walk and again after it, then from the cache.
struct Pieces { Raw u[MINE], delta[MINE], z[MINE], g[MINE]; };

template <class F> __device__ __forceinline__ void each_channel(F&& f) {
#pragma unroll
  for (int v = 0; v < VEC; v++) f(v);
}

struct Steward {
  const Params& p;
  const Part& part;
  Team& team;
  int warp, lane;
  // The lane's pieces within a line, and its first step within a tile.
  int place = lane % PER_LINE, first = warp * SHARE + lane / PER_LINE * MINE;
  bool owned = place * VEC < part.exist;
  const Lines& shared = warp ? p.c : p.b;
  // The tile that is filled next: the lane's first piece of each array, its states of b or c, the states before the tile, and
  // its sums of db and dc.
  char *u, *delta, *z, *g, *du, *ddelta, *dz, *pack;
  const Real* mark;
  Real* parts;
  Real dskip[VEC], dbias[VEC];

  __device__ __forceinline__ void begin(i64 tile) {
    const i64 j = tile * STEPS, line = p.offsets ? part.begin : part.sequence * p.steps;
    auto at = [&](const Lines& l) { return part.at(p, l, j + first) + part.first * SIZE + place * GRAIN; };
    u = at(p.u), delta = at(p.delta), z = at(p.z), g = at(p.out), du = at(p.du), ddelta = at(p.ddelta), dz = at(p.dz);
    pack = Shared::first(p, part, shared, j, lane);
    // No two sequences share a mark.
    mark = p.marks + ((line / CHUNK + part.sequence + tile) * p.channels + part.first) * STATES;
    parts = p.parts + (part.first / WIDTH * p.lines + line + j + warp * SHARE) * 2 * STATES;
    each_channel([&](int v) { dskip[v] = dbias[v] = 0; });
    team.bias[warp][lane] = p.bias && lane < part.exist ? p.bias[part.first + lane] : Real(0);
    team.skip[warp][lane] = p.skip && lane < part.exist ? p.skip[part.first + lane] : Real(0);
    __syncwarp();
  }
  // Moves on to the tile before.
  __device__ __forceinline__ void move() {
    u -= STEPS * p.u.step, delta -= STEPS * p.delta.step, z -= STEPS * p.z.step, g -= STEPS * p.out.step;
    du -= STEPS * p.du.step, ddelta -= STEPS * p.ddelta.step, dz -= STEPS * p.dz.step;
    pack -= STEPS * shared.step;
    mark -= p.channels * STATES;
    parts -= STEPS * 2 * STATES;
  }
  // How many of the lane's steps exist, in a tile of m steps. WHOLE: all that a tile can have.
  template <bool WHOLE> __device__ __forceinline__ int exist(int m) const { return WHOLE ? MINE : owned ? max(min(m - first, MINE), 0) : 0; }
  // The pieces of the tile that was filled `ago` tiles before the next one.
  __device__ __forceinline__ void load(Pieces& x, int m, int ago) const {
    load_pieces(delta + ago * STEPS * p.delta.step, p.delta.step, m, x.delta);
    load_pieces(u + ago * STEPS * p.u.step, p.u.step, m, x.u);
    load_pieces(z + ago * STEPS * p.z.step, p.z.step, p.z.at ? m : 0, x.z);
    load_pieces(g + ago * STEPS * p.out.step, p.out.step, m, x.g);
  }
  // Numbers of the lane's channels: they are read for each tile, so that they take no registers between tiles.
  __device__ __forceinline__ void load_channels(const Real (&from)[WIDTH], Real (&x)[VEC]) const {
    const Pack<Real, VEC> held = ((const Pack<Real, VEC>*)from)[place];
    each_channel([&](int v) { x[v] = held.x[v]; });
  }
  // Starts to copy the states before the tile, of the places whose sums this warp hands out.
  template <bool WHOLE> __device__ __forceinline__ void bring_mark(Tile& tile) const {
    constexpr int COUNT = WIDTH / SERVERS * LANES, CUT = sizeof(Pack<Real, OWN>) < 16 ? sizeof(Real) : 16;
#pragma unroll
    for (int k = 0; k < (COUNT + 31) / 32; k++) {
      const int i = warp * COUNT + k * 32 + lane, at = i / LANES, state = i % LANES * OWN, channel = channel_at(at);
      if (COUNT % 32 && k * 32 + lane >= COUNT) break;
      Pack<Real, OWN>& to = tile.mark[at * WALKERS / WIDTH][at][i % LANES];
      if (PADDED == STATES && (WHOLE || channel < part.exist))
#pragma unroll
        for (int c = 0; c < sizeof(to); c += CUT) copy_async<CUT>((char*)&to + c, (const char*)(mark + channel * STATES + state) + c);
      else load_states(mark + channel * STATES, i % LANES, channel < part.exist, to.x);
    }
  }
  // Neighbouring steps are written in other orders, so that lanes do not meet in a bank.
  __device__ __forceinline__ void put_shared(const Shared& from, Pack<Real, OWN> (&to)[STEPS][TURNS][LANES]) const {
    constexpr int OTHER = TURNS > 1 ? UNIT : 0;
    const int odd = OTHER ? lane / LANES % 2 : 0;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      if (STEPS * LANES < 32 && lane >= STEPS * LANES) break;
      Real wide[OWN];
#pragma unroll
      for (int o = 0; o < OWN; o++) wide[o] = convert<Real>(odd ? from.x[k].x[o ^ OTHER] : from.x[k].x[o]);
#pragma unroll
      for (int turned = 0; turned < TURNS; turned++) {
        Pack<Real, OWN> pack;
#pragma unroll
        for (int o = 0; o < OWN; o++) pack.x[o] = wide[o ^ turned * UNIT];
        to[k * PACK_STEPS + lane / LANES][turned ^ odd][lane % LANES] = pack;
      }
    }
  }
  // Brings and prepares this warp's steps of a tile of m steps.
  template <bool WHOLE> __device__ __forceinline__ void fill(int slot, int m) const {
    Tile& tile = team.tile[slot];
    const int mine = exist<WHOLE>(m);
    Pieces x;
    load(x, mine, 0);
    Real bias[VEC];
    load_channels(team.bias[warp], bias);
    Shared both;
    both.load(pack, shared.step, WHOLE ? STEPS : m, lane);
    bring_mark<WHOLE>(tile);
    put_shared(both, tile.shared[warp]);
#pragma unroll
    for (int o = 0; o < MINE; o++) {
      Real step[VEC], dy[VEC];
      each_channel([&](int v) { step[v] = x.delta[o][v] + bias[v]; dy[v] = x.g[o][v]; });
      if (p.softplus) each_channel([&](int v) { step[v] = softplus(step[v]); });
      if (p.z.at) each_channel([&](int v) { const Real gate = x.z[o][v]; dy[v] *= gate * sigmoid(gate); });
      // A step that does not exist has zeros for u and g.
      each_channel([&](int v) {
        tile.items[first + o][place_of(place, v)] = Item{o < mine ? step[v] : Real(0), step[v] * x.u[o][v], dy[v], 0};
      });
    }
    commit_copies();
    wait_copies<0>();
    arrive(&team.full[slot], lane);
  }
  // Hands out the results of this warp's steps of the tile before that, of m steps, when they have been walked.
  template <bool WHOLE> __device__ __forceinline__ void hand_out(int slot, int m, u32 parity) {
    const Tile& tile = team.tile[slot];
    const int mine = exist<WHOLE>(m);
    Pieces x;
    load(x, mine, SLOTS);
    Real bias[VEC], skip[VEC];
    load_channels(team.bias[warp], bias);
    load_channels(team.skip[warp], skip);
    barrier_wait(&team.done[slot], parity);
    char *du_ = du + SLOTS * STEPS * p.du.step, *ddelta_ = ddelta + SLOTS * STEPS * p.ddelta.step;
    char* dz_ = dz + SLOTS * STEPS * p.dz.step;
#pragma unroll
    for (int o = 0; o < MINE; o++, du_ += p.du.step, ddelta_ += p.ddelta.step, dz_ += p.dz.step) {
      Item item[VEC];
      Real dy[VEC], slope[VEC], made[VEC];
      each_channel([&](int v) { item[v] = tile.items[first + o][place_of(place, v)]; dy[v] = x.g[o][v]; });
      if (p.z.at) {
        each_channel([&](int v) {
          const Real gate = x.z[o][v], s = sigmoid(gate);
          made[v] = dy[v] * mul_add(skip[v], x.u[o][v], item[v].y) * s * mul_add(gate, 1 - s, Real(1));
          dy[v] *= gate * s;
        });
        if (o < mine) *(Piece*)dz_ = rounded_piece(made);
      }
      each_channel([&](int v) {
        // The walk has put the sum of dh b in place of drive, and that of dh a h rate in place of dy.
        made[v] = mul_add(skip[v], dy[v], item[v].step * item[v].drive);
        slope[v] = mul_add(x.u[o][v], item[v].drive, LN2 * item[v].dy);
      });
      if (o < mine) *(Piece*)du_ = rounded_piece(made);
      if (p.softplus) each_channel([&](int v) { slope[v] *= sigmoid(x.delta[o][v] + bias[v]); });
      if (o < mine) *(Piece*)ddelta_ = rounded_piece(slope);
      each_channel([&](int v) { dskip[v] = mul_add(dy[v], x.u[o][v], dskip[v]); dbias[v] += o < mine ? slope[v] : Real(0); });
    }
    add_parts(tile, WHOLE ? STEPS : m - warp * SHARE);
    // The warp's part of the tile may be written again.
    __syncwarp();
  }
  // Writes the sums of db and dc over the channels of the tile, of this warp's first m steps.
  __device__ __forceinline__ void add_parts(const Tile& tile, int m) const {
    constexpr int COUNT = SHARE * 2 * LANES;
    Real* to = parts + SLOTS * STEPS * 2 * STATES;
#pragma unroll
    for (int i = lane; i < COUNT; i += 32) {
      const int line = i / LANES, state = i % LANES * OWN;
      Pack<Real, OWN> sum = ((const Pack<Real, OWN>*)tile.parts[0])[warp * COUNT + i];
#pragma unroll
      for (int w = 1; w < WALKERS; w++) {
        const Pack<Real, OWN> more = ((const Pack<Real, OWN>*)tile.parts[w])[warp * COUNT + i];
#pragma unroll
        for (int o = 0; o < OWN; o++) sum.x[o] += more.x[o];
      }
      if (line >= 2 * m) continue;
      if (PADDED == STATES) *(Pack<Real, OWN>*)(to + line * STATES + state) = sum;
      else store_states(to + line * STATES, i % LANES, true, sum.x);
    }
  }
};
