// Selective scans: the states of a channel lie in the registers of LANES neighbouring lanes, OWN states each, and are walked in
// order. The channels of a block share b and c, which are the same for all channels. Gu and Dao, "Mamba: linear-time
// sequence modeling with selective state spaces" (2023), section 3.3.
#include "maths.cuh"
#include "spec.cuh"
#include "pieces.cuh"

// States, with those that are always zero.
constexpr int PADDED = LANES * OWN;
// Channels that a warp walks.
constexpr int WARP_CHANNELS = 32 / LANES;
// Steps from one state that is kept for the way back to the next.
constexpr int CHUNK = 16;
constexpr Real LOG2E = 1.4426950408889634, LN2 = 0.6931471805599453;

struct Params {
  // On the way back `out` holds the gradient that comes in.
  Lines u, delta, z, b, c, out;
  const Real *a, *skip, *bias, *initial;
  // marks: the state at each CHUNK of a sequence.
  Real *last, *marks;
  // The offsets of packed sequences, or null.
  const i64* offsets;
  i64 steps, channels, groups, softplus;
  Lines du, ddelta, dz;
  const Real* dlast;
  Real *da, *dskip, *dbias, *dinitial, *parts;
  // tasks: a group of channels of a sequence each.
  i64 lines, tasks;
};

template <class T, int N> struct alignas(N * sizeof(T) % 16 == 0 ? 16 : sizeof(T)) Pack { T x[N]; };

// Sums over the lanes that differ in the bits HIGH down to LOW, of V values each. Lanes give half of their values away for
// the other half of their neighbours' values, so that V values cost V shuffles at most. The sums of the values `first`, ... are
// left in x[0], ...; a lane for which `mine` is false has the same sums as another lane.
constexpr int left_of(int high, int low, int v) { return high < low ? v : left_of(high / 2, low, v % 2 ? v : v / 2); }
template <int HIGH, int LOW, int V> __device__ __forceinline__ void sum_over_lanes(Real* x, int lane, int& first, bool& mine) {
  if constexpr (HIGH >= LOW) {
    constexpr bool HALVES = V % 2 == 0;
    constexpr int LEFT = HALVES ? V / 2 : V;
    bool upper = lane & HIGH;
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
      Real keep = HALVES && upper ? x[i + V - LEFT] : x[i];
      Real give = HALVES && !upper ? x[i + V - LEFT] : x[i];
      x[i] = keep + __shfl_xor_sync(~0u, give, HIGH);
    }
    if (HALVES) first += upper ? LEFT : 0;
    else mine = mine && !upper;
    sum_over_lanes<HIGH / 2, LOW, LEFT>(x, lane, first, mine);
  }
}

// Sums over lanes as sum_over_lanes makes them, of values that lie in a lane in the order that its place among lanes STRIDE apart
// asks for: each lane keeps its first values.
template <int V, int UNTIL, int STRIDE> __device__ __forceinline__ void sum_turned(Real* x) {
  if constexpr (V > UNTIL) {
#pragma unroll
    for (int i = 0; i < V / 2; i++) x[i] += __shfl_xor_sync(~0u, x[i + V / 2], V / 2 / UNTIL * STRIDE);
    sum_turned<V / 2, UNTIL, STRIDE>(x);
  }
}

// The states of a lane: states [lane * OWN, lane * OWN + OWN) of its channel, of which place o has the state o ^ turn.
__device__ __forceinline__ void load_states(const Real* from, int lane, bool exist, Real (&x)[OWN], int turn = 0) {
#pragma unroll
  for (int o = 0; o < OWN; o++) {
    const int state = lane * OWN + (o ^ turn);
    x[o] = exist && state < STATES ? from[state] : Real(0);
  }
}
__device__ __forceinline__ void store_states(Real* to, int lane, bool exist, const Real (&x)[OWN], int turn = 0) {
#pragma unroll
  for (int o = 0; o < OWN; o++) {
    const int state = lane * OWN + (o ^ turn);
    if (exist && state < STATES) to[state] = x[o];
  }
}
