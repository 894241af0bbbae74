// A selective scan, forwards. Warps walk WARP_CHANNELS channels each; others serve them.
#include "selective_serving.cuh"

constexpr int WALKERS = LANES, THREADS = 32 * (WALKERS + SERVERS);
// Steps whose items lie side by side, and how often a tile has so many.
constexpr int PAIR = 16 / (2 * sizeof(Real)), PAIRS = STEPS / PAIR;
// Steps whose results lie side by side.
constexpr int RUN = 16 / sizeof(Real);

// A step is delta after softplus, a drive is the step times u.
struct alignas(16) Items { Real step[PAIR], drive[PAIR]; };
struct alignas(16) Run { Real x[RUN]; };
// The results of a lane's states; those who serve sum the lanes of a channel.
struct Tile {
  Items items[PAIRS][WIDTH];
  Run y[STEPS / RUN * WIDTH][LANES];
  Pack<Real, OWN> b[STEPS * LANES], c[STEPS * LANES];
};
struct Memory {
  Tile tile[SERVERS];
  u64 full[SERVERS], done[SERVERS];
};
static_assert(sizeof(Memory) == MEMORY, "layers/ counts otherwise");

// Where the results of a lane lie among those of its channel, so that neither the lanes that walk nor those that serve meet in a
// bank.
__device__ __forceinline__ int slot(int place, int lane) { return lane ^ place * LANES / 8 % LANES; }

__device__ __forceinline__ void walk(const Params& p, const Part& part, Memory& memory, int warp, int lane) {
  // Neighbouring lanes have the same states, and lanes two apart the same channel: shared memory serves such pairs at once.
  const int place = warp * WARP_CHANNELS + lane / (2 * LANES) * 2 + lane % 2, mine = lane / 2 % LANES, channel = channel_of(place);
  const bool exist = channel < part.exist;
  const i64 states = (part.sequence * p.channels + part.first + channel) * STATES;
  // rate: a times log2(e).
  Real rate[OWN], h[OWN];
  load_states(p.a + (part.first + channel) * STATES, mine, exist, rate);
  load_states(p.initial + states, mine, exist && p.initial, h);
#pragma unroll
  for (int o = 0; o < OWN; o++) rate[o] *= LOG2E;
  const i64 line = p.offsets ? part.begin : part.sequence * p.steps;
  Real* mark = p.marks + ((line / CHUNK + part.sequence) * p.channels + part.first + channel) * STATES;

  // The numbers of a pair of steps: items are read two pairs ahead, b and c one, and the decays are made one pair ahead. So
  // exponentials never make a state wait.
  Items items[4];
  Pack<Real, OWN> b[2][PAIR], c[2][PAIR];
  Real decay[2][PAIR][OWN];
  auto read_items = [&](const Tile& tile, int i) { items[i % 4] = tile.items[i][place]; };
  auto read_shared = [&](const Tile& tile, int i) {
#pragma unroll
    for (int k = 0; k < PAIR; k++) {
      b[i % 2][k] = tile.b[(i * PAIR + k) * LANES + mine];
      c[i % 2][k] = tile.c[(i * PAIR + k) * LANES + mine];
    }
  };
  auto make_decay = [&](int i, int k, int o) { decay[i % 2][k][o] = exp2_of(items[i % 4].step[k] * rate[o]); };
  int now = 0;
  u32 parity = 0;
  if (part.n > 0) {
    const Tile& tile = memory.tile[0];
    barrier_wait(&memory.full[0], 0);
    read_items(tile, 0);
    read_items(tile, 1);
    read_shared(tile, 0);
#pragma unroll
    for (int k = 0; k < PAIR; k++)
#pragma unroll
      for (int o = 0; o < OWN; o++) make_decay(0, k, o);
  }
  for (i64 left = part.n; left > 0; left -= STEPS) {
    const int next = now + 1 < SERVERS ? now + 1 : 0;
    const u32 later = next ? parity : parity ^ 1;
    const bool more = left > STEPS, made = more && barrier_passed(&memory.full[next], later);
    Tile& tile = memory.tile[now];
    const Tile& after = memory.tile[more ? next : now];
    if (p.marks) {
      store_states(mark, mine, exist, h);
      mark += p.channels * STATES;
    }
    Run y;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      if (i + 2 == PAIRS && more && !made) barrier_wait(&memory.full[next], later);
      read_items(i + 2 < PAIRS ? tile : after, (i + 2) % PAIRS);
      read_shared(i + 1 < PAIRS ? tile : after, (i + 1) % PAIRS);
#pragma unroll
      for (int k = 0; k < PAIR; k++) {
        const int t = i * PAIR + k;
        Real& sum = y.x[t % RUN];
        sum = 0;
#pragma unroll
        for (int o = 0; o < OWN; o++) {
          make_decay((i + 1) % PAIRS, k, o);
          h[o] = mul_add(decay[i % 2][k][o], h[o], items[i % 4].drive[k] * b[i % 2][k].x[o]);
          sum = mul_add(h[o], c[i % 2][k].x[o], sum);
        }
        if ((t + 1) % RUN == 0) tile.y[t / RUN * WIDTH + place][slot(place, mine)] = y;
      }
    }
    arrive(&memory.done[now], lane);
    now = next;
    parity = later;
  }
  if (p.last) store_states(p.last + states, mine, exist, h);
}

__device__ __forceinline__ void serve(const Params& p, const Part& part, Memory& memory, int warp, int lane) {
  Server<false> server{p, part, warp, lane};
  Tile& tile = memory.tile[warp];
  Real bias[VEC], skip[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    const i64 channel = part.first + server.place * VEC + v;
    bias[v] = p.bias && server.owned ? p.bias[channel] : Real(0);
    skip[v] = p.skip && server.owned ? p.skip[channel] : Real(0);
  }
  auto u_ = server.of(p.u), delta_ = server.of(p.delta), z_ = server.of(p.z), out = server.of(p.out);
  char *b_ = Shared::first(p, part, p.b, (i64)warp * STEPS, lane), *c_ = Shared::first(p, part, p.c, (i64)warp * STEPS, lane);
  // Those of all channels of a piece.
  int slots[LANES];
#pragma unroll
  for (int l = 0; l < LANES; l++) slots[l] = slot(server.place, l);
  u32 parity = 0;
  for (i64 j = (i64)warp * STEPS; j < part.n; j += ROUND, parity ^= 1) {
    Raw u[HELD], delta[HELD], z[HELD];
    Shared b, c;
    const int m = server.exist(j);
    server.load(delta_, m, delta);
    server.load(u_, m, u);
    const int steps = (int)min(part.n - j, (i64)STEPS);
    b.load(b_, p.b.step, steps, lane);
    c.load(c_, p.c.step, steps, lane);
    b_ += ROUND * p.b.step;
    c_ += ROUND * p.c.step;
    server.load(z_, p.z.at ? m : 0, z);
    Real step[HELD][VEC];
#pragma unroll
    for (int o = 0; o < HELD; o++)
#pragma unroll
      for (int v = 0; v < VEC; v++) step[o][v] = delta[o][v] + bias[v];
    if (p.softplus)
#pragma unroll
      for (int o = 0; o < HELD; o++)
#pragma unroll
        for (int v = 0; v < VEC; v++) step[o][v] = softplus(step[o][v]);
    server.each_run<PAIR>([&](int o, int v, int at) {
      Items made;
      // A step that does not exist leaves the state as it is, bit for bit.
#pragma unroll
      for (int k = 0; k < PAIR; k++) {
        made.step[k] = o + k < m ? step[o + k][v] : Real(0);
        made.drive[k] = o + k < m ? step[o + k][v] * u[o + k][v] : Real(-0.0);
      }
      tile.items[0][at] = made;
    });
    b.put(tile.b, lane);
    c.put(tile.c, lane);
    arrive(&memory.full[warp], lane);
    barrier_wait(&memory.done[warp], parity);
    Real y[HELD][VEC];
    server.each_run<RUN>([&](int o, int v, int at) {
      Run sums[LANES];
#pragma unroll
      for (int l = 0; l < LANES; l++) sums[l] = tile.y[at][slots[l]];
#pragma unroll
      for (int r = 0; r < RUN; r++) {
#pragma unroll
        for (int half = LANES / 2; half > 0; half /= 2)
#pragma unroll
          for (int l = 0; l < half; l++) sums[l].x[r] += sums[l + half].x[r];
        y[o + r][v] = mul_add(skip[v], u[o + r][v], sums[0].x[r]);
      }
    });
    if (p.z.at)
#pragma unroll
      for (int o = 0; o < HELD; o++)
#pragma unroll
        for (int v = 0; v < VEC; v++) { const Real gate = z[o][v]; y[o][v] *= gate * sigmoid(gate); }
    Piece made[HELD];
#pragma unroll
    for (int o = 0; o < HELD; o++)
#pragma unroll
      for (int v = 0; v < VEC; v++) made[o].x[v] = convert<Value>(y[o][v]);
    server.store(out, m, made);
    server.move(u_, delta_, z_, out);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_selective(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  const Part part(p);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < SERVERS) { barrier_init(&memory.full[threadIdx.x], 1); barrier_init(&memory.done[threadIdx.x], WALKERS); }
  __syncthreads();  // the barriers stand
  if (warp < WALKERS) walk(p, part, memory, warp, lane);
  else serve(p, part, memory, warp - WALKERS, lane);
}
