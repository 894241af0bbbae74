// A few steps of a selective scan: LANES lanes a channel keep its states in registers. The arithmetic and the bits are those of
// selective.cu; but here one step is over before a block of selective.cu has made its first tile.
#include "selective.cuh"

// OWN states of a lane, moved in pieces as wide as their place allows.
struct States {
  static constexpr bool WHOLE = PADDED == STATES;
  static constexpr int CUT = WHOLE && OWN * sizeof(Real) % STATE_GRAIN == 0 ? STATE_GRAIN : sizeof(Real);
  Pack<Real, OWN> x;
  __device__ __forceinline__ void load(const Real* from, int lane) {
    x = {};
    if (WHOLE) x = load_item<Pack<Real, OWN>, CUT>((const char*)(from + lane * OWN));
    else load_states(from, lane, true, x.x);
  }
  __device__ __forceinline__ void store(Real* to, int lane) const {
    if (WHOLE) store_item<Pack<Real, OWN>, CUT>((char*)(to + lane * OWN), x);
    else store_states(to, lane, true, x.x);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_selective_step(const __grid_constant__ Params p) {
  // Channels of a block.
  constexpr u32 CHANNELS = THREADS / LANES;
  const u32 blocks = (u32)((p.channels + CHANNELS - 1) / CHANNELS), sequence = blockIdx.x / blocks;
  const int lane = threadIdx.x % LANES;
  const i64 place = (i64)(blockIdx.x % blocks) * CHANNELS + threadIdx.x / LANES;
  const bool exist = place < p.channels;
  const i64 channel = exist ? place : 0, state = (sequence * p.channels + channel) * STATES;
  auto at = [&](const Lines& l, i64 t) { return (const Value*)(l.at + sequence * l.sequence + t * l.step); };
  States rate, h{};
  rate.load(p.a + channel * STATES, lane);
  if (p.initial) h.load(p.initial + state, lane);
#pragma unroll
  for (int o = 0; o < OWN; o++) rate.x.x[o] *= LOG2E;
  const Real bias = p.bias ? p.bias[channel] : Real(0), skip = p.skip ? p.skip[channel] : Real(0);
  for (i64 t = 0; t < p.steps; t++) {
    const Real u = convert<Real>(at(p.u, t)[channel]);
    Real step = convert<Real>(at(p.delta, t)[channel]) + bias, y = 0;
    if (p.softplus) step = softplus(step);
    const Real drive = step * u;
    const Value *b = at(p.b, t), *c = at(p.c, t);
#pragma unroll
    for (int o = 0; o < OWN; o++) {
      const int s = lane * OWN + o;
      const bool there = PADDED == STATES || s < STATES;
      h.x.x[o] = mul_add(exp2_of(step * rate.x.x[o]), h.x.x[o], drive * (there ? convert<Real>(b[s]) : Real(0)));
      y = mul_add(h.x.x[o], there ? convert<Real>(c[s]) : Real(0), y);
    }
    int first = 0;
    bool wanted = exist;
    sum_over_lanes<LANES / 2, 1, 1>(&y, lane, first, wanted);
    y = mul_add(skip, u, y);
    if (p.z.at) { const Real gate = convert<Real>(at(p.z, t)[channel]); y *= gate * sigmoid(gate); }
    if (wanted) ((Value*)at(p.out, t))[channel] = convert<Value>(y);
  }
  if (p.last && exist) h.store(p.last + state, lane);
}
