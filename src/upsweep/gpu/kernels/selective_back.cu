// The gradients of a selective scan: tiles of steps from the last to the first. Warps that walk compute the states of a tile again
// from the state that the way forward kept, and then walk them backwards. Others serve them. Nothing that is as wide as all
// states is ever in memory.
#include "selective_serving.cuh"

// A lane walks OWN states of SIDE channels, so that it adds what these give to the sums over channels by itself. A team has
// WIDTH channels; the warps that serve share each tile, and SLOTS tiles are under way.
constexpr int WALKERS = LANES / SIDE, THREADS = 32 * TEAMS * (WALKERS + SERVERS), SLOTS = 2;
// Steps of a tile that a warp serves, and those that a lane of it holds.
constexpr int SHARE = STEPS / SERVERS, MINE = HELD / SERVERS;
static_assert(STEPS == CHUNK && 2 * STEPS == WIDTH, "a tile begins at a kept state; its states take the place of its sums");
// Lanes of a warp whose states lie in another order each, and lanes whose states lie in the same order. The lanes of the first
// kind give sums over channels to one another without choosing among registers.
constexpr int TURNS = OWN < 32 / LANES ? OWN : 32 / LANES, REST = 32 / LANES / TURNS;
// What a bit of a turn is worth at least.
constexpr int UNIT = OWN / TURNS;
// Lanes of a channel that are left after they have given half of their channels away as often as they can.
constexpr int LEFT_LANES = LANES / SIDE;
// Steps from one state of the trail to the next.
constexpr int KEPT = 2;

// Neighbouring channels lie APART places apart in a tile, as the channels of the largest pieces do. The sums over channels and over
// states follow the places, so they have the same bits where pieces are smaller.
constexpr int NEAR = SIZE < 8 ? 4 : 2, APART = WIDTH / NEAR, PIECES = NEAR / VEC;
__device__ __forceinline__ int place_of(int piece, int v) { return (piece % PIECES * VEC + v) * APART + piece / PIECES; }
__device__ __forceinline__ int channel_at(int place) { return place % APART * NEAR + place / APART; }

// An item's numbers. It gives step, drive and dy to the walk. The walk forwards adds y, and the walk backwards puts the sums of
// dh b and of dh a h rate in place of drive and dy.
struct alignas(16) Item { Real step, drive, dy, y; };

struct Tile {
  Item items[STEPS][WIDTH];
  Pack<Real, OWN> b[TURNS][STEPS * LANES], c[TURNS][STEPS * LANES];
  // The states before the tile, of each warp's places; in the end db and dc, summed over its channels.
  union { Real parts[WALKERS][STEPS * 2 * PADDED]; Pack<Real, OWN> mark[WALKERS][WIDTH][LANES]; };
};
struct Team {
  Tile tile[SLOTS];
  // The state before every KEPT-th step.
  Pack<Real, OWN> trail[STEPS / KEPT][SIDE][32 * WALKERS];
  u64 full[SLOTS], done[SLOTS], summed;
};
static_assert(TEAMS * sizeof(Team) == MEMORY, "layers.py counts otherwise");

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
    x.b = tile.b[turned][t * LANES + mine];
    x.c = tile.c[turned][t * LANES + mine];
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
          read_step(t ? t - KEPT : 0, k);
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
};

__device__ __forceinline__ void walk(const Params& p, const Part& part, Team& team, int warp, int lane) {
  Walker walker{team, warp, lane};
  // The places of a channel's states among those of the group of channels.
  int states[SIDE];
  bool exist[SIDE];
  const i64 group = part.first * STATES, of = part.sequence * p.channels * STATES + group;
#pragma unroll
  for (int s = 0; s < SIDE; s++) {
    const int channel = channel_at(walker.place(s));
    exist[s] = channel < part.exist;
    states[s] = channel * STATES;
    load_states(p.a + group + states[s], walker.mine, exist[s], walker.rate[s], walker.turn);
    load_states(p.dlast + of + states[s], walker.mine, exist[s] && p.dlast, walker.carry[s], walker.turn);
#pragma unroll
    for (int o = 0; o < OWN; o++) { walker.rate[s][o] *= LOG2E; walker.da[s][o] = 0; }
  }
  int now = 0;
  u32 parity = 0;
  for (i64 left = part.n; left > 0; left -= STEPS) {
    Tile& tile = team.tile[now];
    barrier_wait(&team.full[now], parity);
    Real h[SIDE][OWN];
#pragma unroll
    for (int s = 0; s < SIDE; s++)
#pragma unroll
      for (int o = 0; o < OWN; o++) h[s][o] = tile.mark[warp][walker.place(s)][walker.mine].x[o ^ walker.turn];
    walker.again(h, tile);
    walker.back(h, tile);
    arrive(&team.done[now], lane);
    now = now + 1 < SLOTS ? now + 1 : 0;
    parity ^= now == 0;
  }
#pragma unroll
  for (int s = 0; s < SIDE; s++) {
    store_states(p.da + of + states[s], walker.mine, exist[s], walker.da[s], walker.turn);
    if (p.dinitial) store_states(p.dinitial + of + states[s], walker.mine, exist[s], walker.carry[s], walker.turn);
  }
}

// A lane's pieces of a tile. They are read before the walk and again after it, then from the cache.
struct Pieces {
  Raw u[MINE], delta[MINE], z[MINE], g[MINE];
  __device__ __forceinline__ void load(const Params& p, const Lane<MINE>& own, i64 j) {
    const int m = own.exist(j);
    own.load(p.delta, j, m, delta);
    own.load(p.u, j, m, u);
    own.load(p.z, j, p.z.at ? m : 0, z);
    own.load(p.out, j, m, g);
  }
};

// A warp that serves. It has the same steps of each tile.
struct Steward {
  const Params& p;
  const Part& part;
  Team& team;
  int warp, lane;
  Lane<MINE> own{p, part, lane, warp * SHARE + lane / PER_LINE * MINE};
  Real dskip[VEC], dbias[VEC];

  // Numbers of the lane's channels: they are read for each tile, so that they take no registers between tiles.
  __device__ __forceinline__ void load_channels(const Real* from, Real (&x)[VEC]) const {
#pragma unroll
    for (int v = 0; v < VEC; v++) x[v] = from && own.owned ? from[part.first + own.place * VEC + v] : Real(0);
  }
  // Starts to copy the states before the tile at step j, of the places whose sums this warp hands out.
  __device__ __forceinline__ void bring_mark(Tile& tile, i64 j) const {
    constexpr int COUNT = WIDTH / SERVERS * LANES, CUT = sizeof(Pack<Real, OWN>) < 16 ? sizeof(Real) : 16;
    const i64 line = p.offsets ? part.begin : part.sequence * p.steps;
    // No two sequences share a mark.
    const Real* from = p.marks + ((line / CHUNK + part.sequence + j / CHUNK) * p.channels + part.first) * STATES;
#pragma unroll
    for (int k = 0; k < (COUNT + 31) / 32; k++) {
      const int i = warp * COUNT + k * 32 + lane, place = i / LANES, state = i % LANES * OWN, channel = channel_at(place);
      if (COUNT % 32 && k * 32 + lane >= COUNT) break;
      Pack<Real, OWN>& to = tile.mark[place * WALKERS / WIDTH][place][i % LANES];
      if (PADDED == STATES && channel < part.exist)
#pragma unroll
        for (int c = 0; c < sizeof(to); c += CUT) copy_async<CUT>((char*)&to + c, (const char*)(from + channel * STATES + state) + c);
      else load_states(from + channel * STATES, i % LANES, channel < part.exist, to.x);
    }
  }
  __device__ __forceinline__ void put(const Lines& l, i64 j, Pack<Real, OWN> (&to)[TURNS][STEPS * LANES]) const {
    Shared x;
    x.load(p, part, l, j, lane);
#pragma unroll
    for (int turned = 0; turned < TURNS; turned++) x.put(to[turned], lane, turned * UNIT);
  }
  // Brings and prepares this warp's steps of the tile at step j.
  __device__ __forceinline__ void fill(int slot, i64 j) const {
    Tile& tile = team.tile[slot];
    const int m = own.exist(j);
    Pieces x;
    x.load(p, own, j);
    Real bias[VEC];
    load_channels(p.bias, bias);
    bring_mark(tile, j);
    if (warp == 0) put(p.b, j, tile.b);
    if (warp == SERVERS - 1) put(p.c, j, tile.c);
#pragma unroll
    for (int o = 0; o < MINE; o++) {
      Real step[VEC], dy[VEC];
      each_channel([&](int v) { step[v] = x.delta[o][v] + bias[v]; dy[v] = x.g[o][v]; });
      if (p.softplus) each_channel([&](int v) { step[v] = softplus(step[v]); });
      if (p.z.at) each_channel([&](int v) { const Real gate = x.z[o][v]; dy[v] *= gate * sigmoid(gate); });
      // A step that does not exist has zeros for u and g.
      each_channel([&](int v) {
        tile.items[own.first + o][place_of(own.place, v)] = Item{o < m ? step[v] : Real(0), step[v] * x.u[o][v], dy[v], 0};
      });
    }
    commit_copies();
    wait_copies<0>();
    arrive(&team.full[slot], lane);
  }
  // Hands out the results of this warp's steps, when they have been walked.
  __device__ __forceinline__ void hand_out(int slot, i64 j, u32 parity) {
    const Tile& tile = team.tile[slot];
    const int m = own.exist(j);
    Pieces x;
    x.load(p, own, j);
    Real bias[VEC], skip[VEC];
    load_channels(p.bias, bias);
    load_channels(p.skip, skip);
    barrier_wait(&team.done[slot], parity);
    char *du_ = own.at(p.du, j), *ddelta_ = own.at(p.ddelta, j), *dz_ = own.at(p.dz, j);
#pragma unroll
    for (int o = 0; o < MINE; o++, du_ += p.du.step, ddelta_ += p.ddelta.step, dz_ += p.dz.step) {
      Item item[VEC];
      Real dy[VEC], slope[VEC], made[VEC];
      each_channel([&](int v) { item[v] = tile.items[own.first + o][place_of(own.place, v)]; dy[v] = x.g[o][v]; });
      if (p.z.at) {
        each_channel([&](int v) {
          const Real gate = x.z[o][v], s = sigmoid(gate);
          made[v] = dy[v] * mul_add(skip[v], x.u[o][v], item[v].y) * s * mul_add(gate, 1 - s, Real(1));
          dy[v] *= gate * s;
        });
        if (o < m) *(Piece*)dz_ = rounded_piece(made);
      }
      each_channel([&](int v) {
        // The walk has put the sum of dh b in place of drive, and that of dh a h rate in place of dy.
        made[v] = mul_add(skip[v], dy[v], item[v].step * item[v].drive);
        slope[v] = mul_add(x.u[o][v], item[v].drive, LN2 * item[v].dy);
      });
      if (o < m) *(Piece*)du_ = rounded_piece(made);
      if (p.softplus) each_channel([&](int v) { slope[v] *= sigmoid(x.delta[o][v] + bias[v]); });
      if (o < m) *(Piece*)ddelta_ = rounded_piece(slope);
      each_channel([&](int v) { dskip[v] = mul_add(dy[v], x.u[o][v], dskip[v]); dbias[v] += o < m ? slope[v] : Real(0); });
    }

    constexpr int LINE = 2 * STATES;
    const i64 line = (p.offsets ? part.begin : part.sequence * p.steps) + j + warp * SHARE;
    Real* parts = p.parts + (part.first / WIDTH * p.lines + line) * LINE;
    const int count = (int)min(part.n - j - warp * SHARE, (i64)SHARE) * LINE;
#pragma unroll 4
    for (int i = lane; i < count; i += 32) {
      const int at = warp * SHARE * 2 * PADDED + (PADDED == STATES ? i : i / STATES * PADDED + i % STATES);
      Real sum = tile.parts[0][at];
#pragma unroll
      for (int w = 1; w < WALKERS; w++) sum += tile.parts[w][at];
      parts[i] = sum;
    }
    // The warp's part of the tile may be written again.
    __syncwarp();
  }
  template <class F> static __device__ __forceinline__ void each_channel(F&& f) {
#pragma unroll
    for (int v = 0; v < VEC; v++) f(v);
  }
};

// The gradients of a skip and a bias.
__device__ __forceinline__ void sum_steps(const Params& p, const Part& part, const Team& team, int lane) {
  if (lane >= part.exist) return;
  Real skip = 0, bias = 0;
  for (int w = 0; w < SERVERS; w++)
#pragma unroll
    for (int k = 0; k < 32 / PER_LINE; k++) { const Item x = team.tile[0].items[w * SHARE + k][lane]; skip += x.step; bias += x.drive; }
  const i64 at = part.sequence * p.channels + part.first + lane;
  p.dskip[at] = skip;
  p.dbias[at] = bias;
}

__device__ __forceinline__ void serve(const Params& p, const Part& part, Team& team, int warp, int lane) {
  Steward server{p, part, team, warp, lane};
#pragma unroll
  for (int v = 0; v < VEC; v++) server.dskip[v] = server.dbias[v] = 0;
  const i64 last = (part.n + STEPS - 1) / STEPS * STEPS - STEPS;
#pragma unroll
  for (int s = 0; s < SLOTS; s++) if (last >= s * STEPS) server.fill(s, last - s * STEPS);
  u32 parity = 0;
  for (i64 at = last; at >= 0; at -= SLOTS * STEPS, parity ^= 1)
#pragma unroll 1
    for (int s = 0; s < SLOTS; s++) {
      const i64 j = at - s * STEPS;
      if (j < 0) break;
      // What follows from the lane alone is computed again for each tile: kept, it would take registers from the work.
      asm volatile("" : "+r"(server.lane));
      server.hand_out(s, j, parity);
      if (j >= SLOTS * STEPS) server.fill(s, j - SLOTS * STEPS);
    }
#pragma unroll
  for (int v = 0; v < VEC; v++)
    team.tile[0].items[warp * SHARE + lane / PER_LINE][server.own.place * VEC + v] = Item{server.dskip[v], server.dbias[v], 0, 0};
  arrive(&team.summed, lane);
  if (warp) return;
  barrier_wait(&team.summed, 0);
  sum_steps(p, part, team, lane);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_selective_back(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  const int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  const bool walks = warp < TEAMS * WALKERS;
  if (!walks) warp -= TEAMS * WALKERS;
  const int size = walks ? WALKERS : SERVERS;
  Team& team = ((Team*)bytes)[warp / size];
  const i64 task = (i64)blockIdx.x * TEAMS + warp / size;
  warp %= size;
  if (walks && warp == 0 && lane < SLOTS) {
    barrier_init(&team.full[lane], SERVERS);
    barrier_init(&team.done[lane], WALKERS);
    if (lane == 0) barrier_init(&team.summed, SERVERS);
  }
  __syncthreads();  // the barriers stand
  if (task >= p.tasks) return;
  const Part part(p, (u32)task);
  if (walks) walk(p, part, team, warp, lane);
  else serve(p, part, team, warp, lane);
}
