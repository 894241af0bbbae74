// A selective scan, forwards. While one tile of steps is walked, by every channel's lanes, the results of the tile behind are
// handed out and what the walk needs of the items of the tile ahead is made.
#include "selective.cuh"

constexpr int TILE = 16, STAGES = 4, GROUP = LANES, PITCH = CHANNELS + WARP_CHANNELS;

struct Step { Real step, drive; };  // delta after softplus, and that times u
struct Tile {
  Shared<TILE> shared;
  Step steps[TILE][CHANNELS];
  Real y[TILE][PITCH];
};
struct Memory {
  Stage<TILE> stage[STAGES];
  Tile tile[2];
};
static_assert(sizeof(Memory) == MEMORY, "layers.py counts otherwise");

struct Walker {
  int channel, lane;
  Real rate[OWN], h[OWN];  // rate: a times log2(e)

  // All steps of a tile, or m of them. Of GROUP steps each lane is left with one sum.
  template <bool WHOLE> __device__ __forceinline__ void walk(Tile& tile, int m) {
    constexpr int STEPS = GROUP < 4 ? GROUP : 4;
    Ahead<Step, TILE, STEPS> now, next;
    next.read(tile.steps, tile.shared, 0, channel, lane);
#pragma unroll(WHOLE ? TILE / GROUP : 1)
    for (int t = 0; t < (WHOLE ? TILE : m); t += GROUP) {
      Real y[GROUP];
#pragma unroll
      for (int g = 0; g < GROUP; g += STEPS) {
        now = next;
        next.read(tile.steps, tile.shared, t + g + STEPS < TILE ? t + g + STEPS : 0, channel, lane);
        Real decay[STEPS][OWN];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
          for (int o = 0; o < OWN; o++) decay[k][o] = exp2_of(now.item[k].step * rate[o]);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
          y[g + k] = 0;
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            Real after = mul_add(decay[k][o], h[o], now.item[k].drive * now.b[k].x[o]);
            h[o] = WHOLE || t + g + k < m ? after : h[o];
            y[g + k] = mul_add(h[o], now.c[k].x[o], y[g + k]);
          }
        }
      }
      int first = 0;
      bool mine = true;
      sum_over_lanes<LANES / 2, 1, GROUP>(y, lane, first, mine);
      tile.y[t + first][channel] = y[0];
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_selective(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  Part part(p);
  Walker walker{(int)threadIdx.x / LANES, (int)threadIdx.x % LANES};
  bool exist = walker.channel < part.exist;
  load_states(p.a + (part.first + walker.channel) * STATES, walker.lane, exist, walker.rate);
  load_states(p.initial + part.states(p, walker.channel), walker.lane, exist && p.initial, walker.h);
#pragma unroll
  for (int o = 0; o < OWN; o++) walker.rate[o] *= LOG2E;

  int own = threadIdx.x % PER_LINE * VEC;  // the channels of this thread where a tile is worked on item by item
  bool owned = own < part.exist;
  Real bias[VEC], skip[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    bias[v] = p.bias && owned ? p.bias[part.first + own + v] : Real(0);
    skip[v] = p.skip && owned ? p.skip[part.first + own + v] : Real(0);
  }
  Sources sources(p, part);
  Source out(p, part, p.out);
  int tiles = (int)((part.n + TILE - 1) / TILE);
  auto steps_of = [&](int k) { return (int)max(min(part.n - (i64)k * TILE, (i64)TILE), 0ll); };
  auto bring_tile = [&](int k) {
    sources.bring_all(memory.stage[(u32)k % STAGES], p, part, (i64)k * TILE, steps_of(k), owned);
    commit_copies();
  };
  bring_tile(0);
  for (int k = -1; k <= tiles; k++) {
    wait_copies<0>();
    __syncthreads();  // tile k + 1 has landed, tile k is made, tile k - 1 walked, tile k - 2 handed out
    bring_tile(k + 2);
    Tile &now = memory.tile[k & 1], &other = memory.tile[(k & 1) ^ 1];
    char* to = out.of((k - 1ll) * TILE);
    const Stage<TILE>& behind = memory.stage[(u32)(k - 1 + STAGES) % STAGES];
    each_step<TILE>(owned && k > 0 ? steps_of(k - 1) : 0, [&](int t, int skipped) {
      Piece u = piece_of(behind.u, t, own), z = piece_of(behind.z, t, own), result;
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Real y = mul_add(skip[v], convert<Real>(u.x[v]), other.y[t][own + v]);
        if (p.z.at) { Real gate = convert<Real>(z.x[v]); y *= gate * sigmoid(gate); }
        result.x[v] = convert<Value>(y);
      }
      *(Piece*)(to + skipped * out.step) = result;
    });
    const Stage<TILE>& ahead = memory.stage[(u32)(k + 1) % STAGES];
    int m = k < tiles ? steps_of(k + 1) : 0;
    if (m) other.shared.fill(ahead, m);
    each_step<TILE>(m, [&](int t, int) {
      Piece delta = piece_of(ahead.delta, t, own), u = piece_of(ahead.u, t, own);
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Real step = convert<Real>(delta.x[v]) + bias[v];
        if (p.softplus) step = softplus(step);
        other.steps[t][own + v] = {step, step * convert<Real>(u.x[v])};
      }
    });
    if (k < 0 || k == tiles) continue;
    if (p.marks) store_states(p.marks + ((part.mark + k) * p.channels + part.first + walker.channel) * STATES, walker.lane, exist, walker.h);
    m = steps_of(k);
    if (m == TILE) walker.walk<true>(now, m);
    else walker.walk<false>(now, m);
  }
  if (p.last) store_states(p.last + part.states(p, walker.channel), walker.lane, exist, walker.h);
}
