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
  // Where the lane's numbers of some steps lie. They move along with the walk, so that a step's number needs no arithmetic.
  struct Place {
    Item* item[SIDE];
    const Pack<Real, OWN>* shared;
    Pack<Real, OWN>* trail;

    __device__ __forceinline__ void move(int steps) {
#pragma unroll
      for (int s = 0; s < SIDE; s++) item[s] += steps * WIDTH;
      shared += steps * TURNS * LANES;
      trail += steps / KEPT * SIDE * WALKERS * 32;
    }
    __device__ __forceinline__ void read(Ahead& x, int t) const {
#pragma unroll
      for (int s = 0; s < SIDE; s++) x.item[s] = item[s][t * WIDTH];
      x.b = shared[t * TURNS * LANES];
      x.c = shared[(STEPS + t) * TURNS * LANES];
    }
    // The state of side s before step t.
    __device__ __forceinline__ Pack<Real, OWN>& kept(int t, int s) const { return trail[(t / KEPT * SIDE + s) * WALKERS * 32]; }
  };
  __device__ __forceinline__ Place place_at(Tile& tile, int t) const {
    Place at;
#pragma unroll
    for (int s = 0; s < SIDE; s++) at.item[s] = &tile.items[t][place(s)];
    at.shared = &tile.shared[0][t][turned][mine];
    at.trail = &team.trail[t / KEPT][0][warp * 32 + lane];
    return at;
  }

  // Walks forwards from the state before the tile, and leaves the states before some of its steps in the trail.
  __device__ __forceinline__ void again(Real (&h)[SIDE][OWN], Tile& tile) {
    // Numbers are read two steps ahead, and decays are made one step ahead, so that no state waits for them.
    Ahead ahead[2];
    Real decay[2][SIDE][OWN];
    auto make_decay = [&](int k, int s, int o) { decay[k][s][o] = exp2_of(ahead[k].item[s].step * rate[s][o]); };
    Place at = place_at(tile, 0);
    at.read(ahead[0], 0);
    at.read(ahead[1], 1);
#pragma unroll
    for (int i = 0; i < SIDE * OWN; i++) make_decay(0, i / OWN, i % OWN);
#pragma unroll 1
    for (int begin = 0; begin < STEPS; begin += BODY, at.move(BODY))
#pragma unroll
      for (int k = 0; k < BODY; k++) {
        Ahead& now = ahead[k % 2];
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
          if (k % KEPT == 0) {
            Pack<Real, OWN> before;
#pragma unroll
            for (int o = 0; o < OWN; o++) before.x[o] = h[s][o];
            at.kept(k, s) = before;
          }
#pragma unroll
          for (int o = 0; o < OWN; o++) h[s][o] = mul_add(decay[k % 2][s][o], h[s][o], now.item[s].drive * now.b.x[o]);
        }
        // After the last steps numbers are read in vain, of what lies behind the tile's arrays.
        at.read(now, k + 2);
#pragma unroll
        for (int i = 0; i < SIDE * OWN; i++) make_decay((k + 1) % 2, i / OWN, i % OWN);
      }
  }

  // Walks backwards from the state after the tile.
  __device__ __forceinline__ void back(Real (&h)[SIDE][OWN], Tile& tile) {
    // What the states of a channel give: the sums of dh b, of dh a h rate and of c h. The lanes of a channel make those of
    // LEFT_LANES steps together, and each is left with the sums of one step.
    constexpr int COUNT = 3;
    static_assert(LEFT_LANES <= BODY && KEPT == 2 && BODY % 2 == 0, "the loop is cut otherwise");
    Ahead x[KEPT];
    Pack<Real, OWN> trail[SIDE];
    Real sums[LEFT_LANES * COUNT], steps[LEFT_LANES];
    Place at = place_at(tile, STEPS - BODY);
    Item* made = at.item[0];
    Real* parts = tile.parts[warp] + (STEPS - BODY) * 2 * PADDED + mine * OWN;
    auto read_step = [&](int t, int k) {
      at.read(x[k], t + k);
      if (k) return;
#pragma unroll
      for (int s = 0; s < SIDE; s++) trail[s] = at.kept(t, s);
    };
    read_step(BODY - KEPT, 1);
    read_step(BODY - KEPT, 0);
#pragma unroll 1
    for (int begin = STEPS - BODY; begin >= 0; begin -= BODY, made -= BODY * WIDTH, parts -= BODY * 2 * PADDED)
#pragma unroll
      for (int pair = BODY - KEPT; pair >= 0; pair -= KEPT) {
        Real decay[KEPT][SIDE][OWN];
#pragma unroll
        for (int i = 0; i < SIDE * OWN; i++)
#pragma unroll
          for (int k = 0; k < KEPT; k++) decay[k][i / OWN][i % OWN] = exp2_of(x[k].item[i / OWN].step * rate[i / OWN][i % OWN]);
        // db, then dc, of two steps.
        Real both[KEPT][2][OWN], with[KEPT][COUNT][SIDE];
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
          // The state before each of the two steps.
          Real before[KEPT][OWN];
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            before[0][o] = trail[s].x[o];
            before[1][o] = mul_add(decay[0][s][o], trail[s].x[o], x[0].item[s].drive * x[0].b.x[o]);
          }
#pragma unroll
          for (int k = KEPT - 1; k >= 0; k--) {
            const Item& item = x[k].item[s];
            Real with_b = 0, with_rate = 0, with_c = 0;
#pragma unroll
            for (int o = 0; o < OWN; o++) {
              const Real dh = mul_add(x[k].c.x[o], item.dy, carry[s][o]);
              both[k][0][o] = s ? mul_add(dh, item.drive, both[k][0][o]) : dh * item.drive;
              both[k][1][o] = s ? mul_add(h[s][o], item.dy, both[k][1][o]) : h[s][o] * item.dy;
              with_b = o ? mul_add(dh, x[k].b.x[o], with_b) : dh * x[k].b.x[o];
              with_c = o ? mul_add(h[s][o], x[k].c.x[o], with_c) : h[s][o] * x[k].c.x[o];
              carry[s][o] = dh * decay[k][s][o];
              h[s][o] = before[k][o];
              const Real q = carry[s][o] * h[s][o];
              with_rate = o ? mul_add(q, rate[s][o], with_rate) : q * rate[s][o];
              da[s][o] = mul_add(q, item.step, da[s][o]);
            }
            with[k][0][s] = with_b;
            with[k][1][s] = with_rate;
            with[k][2][s] = with_c;
          }
        }
        Real walked[KEPT];
#pragma unroll
        for (int k = 0; k < KEPT; k++) walked[k] = x[k].item[0].step;
        // The last steps' numbers are read in vain.
        if (pair == 0) at.move(begin ? -BODY : 0);
        read_step(pair ? pair - KEPT : BODY - KEPT, 1);
        read_step(pair ? pair - KEPT : BODY - KEPT, 0);
#pragma unroll
        for (int k = KEPT - 1; k >= 0; k--) {
          const int turn_of = (pair + k) % LEFT_LANES;
          steps[turn_of] = walked[k];
          sum_turned<OWN, UNIT, LANES * REST>(both[k][0]);
          sum_turned<OWN, UNIT, LANES * REST>(both[k][1]);
          Real left[2 * UNIT];
#pragma unroll
          for (int i = 0; i < 2 * UNIT; i++) left[i] = both[k][i / UNIT][i % UNIT];
          int first = 0;
          bool wanted = true;
          sum_over_lanes<REST / 2, 1, 2 * UNIT>(left, lane, first, wanted);
#pragma unroll
          for (int v = 0; v < left_of(REST / 2, 1, 2 * UNIT); v++) {
            const int i = first + v;
            if (wanted) parts[((pair + k) * 2 + i / UNIT) * PADDED + (i % UNIT ^ turn)] = left[v];
          }
#pragma unroll
          for (int i = 0; i < COUNT; i++) {
            sum_turned<SIDE, 1, LEFT_LANES * REST>(with[k][i]);
            sums[turn_of * COUNT + i] = with[k][i][0];
          }
          if (turn_of == 0) {
            int first = 0;
            bool wanted = true;
            sum_over_lanes<LEFT_LANES * REST / 2, REST, LEFT_LANES * COUNT>(sums, lane, first, wanted);
            Real step = steps[0];
#pragma unroll
            for (int i = 1; i < LEFT_LANES; i++) step = first == i * COUNT ? steps[i] : step;
            made[(pair + k + first / COUNT) * WIDTH] = Item{step, sums[0], sums[1], sums[2]};
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
