// The warps that walk a selective scan back.
#pragma once
#include "selective_back.cuh"

// The numbers that a lane needs for a step. They are read before the step ahead of it is walked.
struct Ahead {
  Item item[SIDE];
  Pack<Real, OWN> b, c;
};

struct Walker {
  Team& team;
  int warp, lane;
  // The lane's place: among those that share a channel, among those with turned states, and among the rest.
  int mine = lane / REST % LANES, turned = lane / REST / LANES, turn = turned * UNIT;
  // Side s has the channel s ^ swap of the lane's SIDE channels.
  int swap = mine / LEFT_LANES, base = (warp * WARP_CHANNELS + turned * REST + lane % REST) * SIDE;
  // carry: the share that the step after has in the gradient of the state.
  Real rate[SIDE][OWN], carry[SIDE][OWN], da[SIDE][OWN];

  __device__ __forceinline__ int place(int side) const { return base + (side ^ swap); }
  __device__ __forceinline__ void read(Ahead& x, const Tile& tile, int t) const {
#pragma unroll
    for (int s = 0; s < SIDE; s++) x.item[s] = tile.items[t][place(s)];
    x.b = tile.shared[0][turned][t * LANES + mine];
    x.c = tile.shared[1][turned][t * LANES + mine];
  }

  // Walks forwards from the state before the tile, and leaves the states before some of its steps in the trail.
  __device__ __forceinline__ void again(Real (&h)[SIDE][OWN], Tile& tile) {
    // Decays are made a step ahead, so that exponentials never make a state wait.
    Ahead ahead[2];
    Real decay[2][SIDE][OWN];
    // Steps whose results the lanes of a channel sum together.
    Real y[LEFT_LANES];
    auto make_decay = [&](int k, int s, int o) { decay[k][s][o] = exp2_of(ahead[k].item[s].step * rate[s][o]); };
    read(ahead[0], tile, 0);
#pragma unroll
    for (int i = 0; i < SIDE * OWN; i++) make_decay(0, i / OWN, i % OWN);
#pragma unroll 1
    for (int begin = 0; begin < STEPS; begin += BODY)
#pragma unroll
      for (int k = 0; k < BODY; k++) {
        const int t = begin + k;
        const Ahead& now = ahead[k % 2];
        read(ahead[(k + 1) % 2], tile, (t + 1) % STEPS);
        Real sums[SIDE];
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
          if (k % KEPT == 0) {
            Pack<Real, OWN> before;
#pragma unroll
            for (int o = 0; o < OWN; o++) before.x[o] = h[s][o];
            team.trail[t / KEPT][s][warp * 32 + lane] = before;
          }
          sums[s] = 0;
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            h[s][o] = mul_add(decay[k % 2][s][o], h[s][o], now.item[s].drive * now.b.x[o]);
            sums[s] = o ? mul_add(h[s][o], now.c.x[o], sums[s]) : h[s][o] * now.c.x[o];
          }
        }
#pragma unroll
        for (int i = 0; i < SIDE * OWN; i++) make_decay((k + 1) % 2, i / OWN, i % OWN);
        sum_turned<SIDE, 1, LEFT_LANES * REST>(sums);
        y[k % LEFT_LANES] = sums[0];
        if ((k + 1) % LEFT_LANES == 0) {
          int first = 0;
          bool wanted = true;
          sum_over_lanes<LEFT_LANES * REST / 2, REST, LEFT_LANES>(y, lane, first, wanted);
          tile.items[t + 1 - LEFT_LANES + first][place(0)].y = y[0];
        }
      }
  }

  // Walks backwards from the state after the tile.
  __device__ __forceinline__ void back(Real (&h)[SIDE][OWN], Tile& tile) {
    // Steps whose sums the lanes of a channel make together.
    constexpr int TURN = max_of(1, LEFT_LANES / 2), COUNT = 2 * TURN, LEFT = left_of(LEFT_LANES / 2, 1, COUNT);
    static_assert(LEFT_LANES <= BODY && KEPT == 2 && BODY % 2 == 0, "the loop is cut otherwise");
    Ahead x[KEPT];
    Pack<Real, OWN> trail[SIDE];
    Real sums[COUNT];
    auto read_step = [&](int t, int k) {
      read(x[k], tile, t + k);
      if (k) return;
#pragma unroll
      for (int s = 0; s < SIDE; s++) trail[s] = team.trail[t / KEPT][s][warp * 32 + lane];
    };
    read_step(STEPS - KEPT, 1);
    read_step(STEPS - KEPT, 0);
#pragma unroll 1
    for (int begin = STEPS - BODY; begin >= 0; begin -= BODY)
#pragma unroll
      for (int pair = BODY - KEPT; pair >= 0; pair -= KEPT) {
        const int t = begin + pair;
        // The state before each of two steps, and its decay.
        Real decay[KEPT][SIDE][OWN], before[KEPT][SIDE][OWN];
#pragma unroll
        for (int s = 0; s < SIDE; s++)
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            decay[0][s][o] = exp2_of(x[0].item[s].step * rate[s][o]);
            decay[1][s][o] = exp2_of(x[1].item[s].step * rate[s][o]);
            before[0][s][o] = trail[s].x[o];
            before[1][s][o] = mul_add(decay[0][s][o], trail[s].x[o], x[0].item[s].drive * x[0].b.x[o]);
          }
#pragma unroll
        for (int k = KEPT - 1; k >= 0; k--) {
          // db, then dc.
          Real both[2][OWN], with[2][SIDE];
#pragma unroll
          for (int s = 0; s < SIDE; s++) {
            const Item& item = x[k].item[s];
            Real with_b = 0, with_rate = 0;
#pragma unroll
            for (int o = 0; o < OWN; o++) {
              const Real dh = mul_add(x[k].c.x[o], item.dy, carry[s][o]);
              both[0][o] = s ? mul_add(dh, item.drive, both[0][o]) : dh * item.drive;
              both[1][o] = s ? mul_add(h[s][o], item.dy, both[1][o]) : h[s][o] * item.dy;
              with_b = o ? mul_add(dh, x[k].b.x[o], with_b) : dh * x[k].b.x[o];
              carry[s][o] = dh * decay[k][s][o];
              h[s][o] = before[k][s][o];
              const Real q = carry[s][o] * h[s][o];
              with_rate = o ? mul_add(q, rate[s][o], with_rate) : q * rate[s][o];
              da[s][o] = mul_add(q, item.step, da[s][o]);
            }
            with[0][s] = with_b;
            with[1][s] = with_rate;
          }
          // The last steps' numbers are read in vain.
          read_step(pair ? t - KEPT : max(begin - KEPT, 0), k);
          sum_turned<OWN, UNIT, LANES * REST>(both[0]);
          sum_turned<OWN, UNIT, LANES * REST>(both[1]);
          Real left[2 * UNIT];
#pragma unroll
          for (int i = 0; i < 2 * UNIT; i++) left[i] = both[i / UNIT][i % UNIT];
          int first = 0;
          bool wanted = true;
          sum_over_lanes<REST / 2, 1, 2 * UNIT>(left, lane, first, wanted);
#pragma unroll
          for (int v = 0; v < left_of(REST / 2, 1, 2 * UNIT); v++) {
            const int i = first + v;
            if (wanted) tile.parts[warp][(t + k) * 2 * PADDED + i / UNIT * PADDED + mine * OWN + (i % UNIT ^ turn)] = left[v];
          }
#pragma unroll
          for (int i = 0; i < 2; i++) {
            sum_turned<SIDE, 1, LEFT_LANES * REST>(with[i]);
            sums[(pair + k) % TURN * 2 + i] = with[i][0];
          }
          if ((pair + k) % TURN == 0) {
            int first = 0;
            bool wanted = true;
            sum_over_lanes<LEFT_LANES * REST / 2, REST, COUNT>(sums, lane, first, wanted);
#pragma unroll
            for (int v = 0; v < LEFT; v++) {
              const int i = first + v;
              Item& to = tile.items[t + k + i / 2][place(0)];
              (i % 2 ? to.dy : to.drive) = sums[v];
            }
          }
        }
      }
  }

  // Side s of the lane: where its states lie among those of all sequences, and whether its channel exists.
  template <class F> __device__ __forceinline__ void each_side(const Params& p, const Part& part, F&& f) const {
#pragma unroll
    for (int s = 0; s < SIDE; s++) {
      const int channel = channel_at(place(s));
      f(s, (part.first + channel) * STATES, part.sequence * p.channels * STATES, channel < part.exist);
    }
  }
  __device__ __forceinline__ void begin(const Params& p, const Part& part) {
    each_side(p, part, [&](int s, i64 at, i64 sequence, bool exist) {
      load_states(p.a + at, mine, exist, rate[s], turn);
      load_states(p.dlast + sequence + at, mine, exist && p.dlast, carry[s], turn);
#pragma unroll
      for (int o = 0; o < OWN; o++) { rate[s][o] *= LOG2E; da[s][o] = 0; }
    });
  }
  __device__ __forceinline__ void walk(Tile& tile) {
    Real h[SIDE][OWN];
#pragma unroll
    for (int s = 0; s < SIDE; s++)
#pragma unroll
      for (int o = 0; o < OWN; o++) h[s][o] = tile.mark[warp][place(s)][mine].x[o ^ turn];
    again(h, tile);
    back(h, tile);
  }
  __device__ __forceinline__ void end(const Params& p, const Part& part) const {
    each_side(p, part, [&](int s, i64 at, i64 sequence, bool exist) {
      store_states(p.da + sequence + at, mine, exist, da[s], turn);
      if (p.dinitial) store_states(p.dinitial + sequence + at, mine, exist, carry[s], turn);
    });
  }
};
