// Selective scans: the state of a channel lies in the registers of LANES neighbouring lanes, OWN states each, and is walked in
// order. CHANNELS channels share a block, and with them what is the same for all channels. Gu and Dao, "Mamba: linear-time
// sequence modeling with selective state spaces" (2023), section 3.3.
#include "maths.cuh"
#include "spec.cuh"
#include "copies.cuh"

constexpr int CHANNELS = 32, WARPS = LANES, THREADS = 32 * WARPS, WARP_CHANNELS = 32 / LANES;
constexpr int PADDED = LANES * OWN;           // states, with those that are always zero
constexpr int SIZE = sizeof(Value);
constexpr int VEC = GRAIN / SIZE;             // channels that are moved at once
constexpr int PER_LINE = CHANNELS / VEC;
constexpr int CHUNK = 16;                     // steps from one state that is kept for the way back to the next

constexpr int LINES = THREADS / PER_LINE;     // that all threads move at once

constexpr Real LOG2E = 1.4426950408889634, LN2 = 0.6931471805599453;

// An array (sequences, steps, wide): where it begins, and its strides in bytes.
struct Lines { char* at; i64 sequence, step; };

struct Params {
  Lines u, delta, z, b, c, out;               // on the way back `out` holds the gradient that comes in
  const Real *a, *skip, *bias, *initial;
  Real *last, *marks;                         // marks: the state at each CHUNK of a sequence
  const i64* offsets;                         // of packed sequences, or null
  i64 steps, channels, groups, softplus;
  Lines du, ddelta, dz;
  const Real* dlast;
  Real *da, *dskip, *dbias, *dinitial, *parts;
  i64 lines;
};

// The steps of one sequence, and the channels of one block.
struct Part {
  i64 sequence, begin, n, line, mark, first;
  int exist;
  __device__ __forceinline__ explicit Part(const Params& p) {
    i64 s = blockIdx.x / p.groups;
    first = blockIdx.x % p.groups * CHANNELS;
    exist = (int)min(p.channels - first, (i64)CHANNELS);
    begin = p.offsets ? p.offsets[s] : 0;
    n = p.offsets ? p.offsets[s + 1] - begin : p.steps;
    sequence = s;
    line = p.offsets ? begin : s * p.steps;
    mark = line / CHUNK + s;                  // no two sequences share a mark
  }
  __device__ __forceinline__ char* at(const Params& p, const Lines& l, i64 t) const {
    return l.at + (p.offsets ? 0 : sequence * l.sequence) + (begin + t) * l.step;
  }
  // Where the states of a channel lie, in an array (sequences, channels, STATES).
  __device__ __forceinline__ i64 states(const Params& p, int channel) const { return (sequence * p.channels + first + channel) * STATES; }
};

template <class T, int N> struct alignas(N * sizeof(T) % 16 == 0 ? 16 : sizeof(T)) Pack { T x[N]; };

// Sums over the lanes that differ in the bits HIGH down to LOW, of V values each. Lanes give half of their values away for
// the other half of what their neighbours have, so that V values cost V shuffles at most. What is left is x[0], ...: the
// sums of the values `first`, ...; a lane for which `mine` is false has what another lane has too.
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

// A piece of channels of one step: what a thread moves at once, always of the same channels.
struct alignas(GRAIN) Piece { Value x[VEC]; };
__device__ __forceinline__ Piece piece_of(const Value* lines, int t, int channel) { return *(const Piece*)(lines + t * CHANNELS + channel); }

// An array as a thread sees it: its piece of the first of the lines that are moved at once.
struct Source {
  char* at;
  const i64& step;
  __device__ __forceinline__ Source(const Params& p, const Part& part, const Lines& l)
      : at(part.at(p, l, threadIdx.x / PER_LINE) + (part.first + threadIdx.x % PER_LINE * VEC) * SIZE), step(l.step) {}
  __device__ __forceinline__ char* of(i64 t) const { return at + t * step; }
};

// Calls f(step, lines before it) for each of a thread's steps of a tile of COUNT, of which m exist.
template <int COUNT, class F> __device__ __forceinline__ void each_step(int m, F&& f) {
#pragma unroll
  for (int k = 0; k < COUNT; k += LINES) { int t = k + threadIdx.x / PER_LINE; if (t < m && (COUNT % LINES == 0 || t < COUNT)) f(t, k); }
}

// Steps [t, t + m) of an array on their way to shared memory: of channels, and of what is the same for all channels.
template <int COUNT> __device__ __forceinline__ void bring(Value* to, const Source& from, i64 t, int m) {
  char* base = from.of(t);
  each_step<COUNT>(m, [&](int line, int skipped) {
    copy_async<GRAIN>((char*)(to + line * CHANNELS) + threadIdx.x % PER_LINE * GRAIN, base + skipped * from.step);
  });
}
template <int COUNT> __device__ __forceinline__ void bring_shared(Value* to, const char* from, i64 step, int m) {
  constexpr int PIECES = STATES * SIZE / STATE_GRAIN;
#pragma unroll
  for (int k = 0; k < (COUNT * PIECES + THREADS - 1) / THREADS; k++) {
    int i = k * THREADS + threadIdx.x, t = i / PIECES, x = i % PIECES * STATE_GRAIN;
    if (t < m) copy_async<STATE_GRAIN>((char*)(to + t * STATES) + x, from + t * step + x);
  }
}
template <int COUNT> struct Stage {
  alignas(16) Value u[COUNT * CHANNELS], delta[COUNT * CHANNELS], z[COUNT * CHANNELS], b[COUNT * STATES], c[COUNT * STATES];
};
// The arrays of a stage.
struct Sources {
  Source u, delta, z;
  __device__ __forceinline__ Sources(const Params& p, const Part& part) : u(p, part, p.u), delta(p, part, p.delta), z(p, part, p.z) {}
  template <int COUNT> __device__ __forceinline__ void bring_all(Stage<COUNT>& s, const Params& p, const Part& part, i64 t, int m, bool owned) const {
    bring<COUNT>(s.u, u, t, owned ? m : 0);
    bring<COUNT>(s.delta, delta, t, owned ? m : 0);
    bring<COUNT>(s.z, z, t, owned && p.z.at ? m : 0);
    bring_shared<COUNT>(s.b, part.at(p, p.b, t), p.b.step, m);
    bring_shared<COUNT>(s.c, part.at(p, p.c, t), p.c.step, m);
  }
};

// What is the same for all channels, in the dtype that is computed in; zero where nothing exists.
template <int COUNT> struct Shared {
  Pack<Real, OWN> b[COUNT * LANES], c[COUNT * LANES];
  __device__ __forceinline__ void fill(const Stage<COUNT>& s, int m) {
#pragma unroll
    for (int k = 0; k < COUNT * LANES; k += THREADS) {
      int i = k + threadIdx.x, t = i / LANES, lane = i % LANES;
      if (COUNT * LANES % THREADS && i >= COUNT * LANES) break;
      Pack<Real, OWN> x, y;
#pragma unroll
      for (int o = 0; o < OWN; o++) {
        bool there = t < m && (PADDED == STATES || lane * OWN + o < STATES);
        x.x[o] = there ? convert<Real>(s.b[t * STATES + lane * OWN + o]) : Real(0);
        y.x[o] = there ? convert<Real>(s.c[t * STATES + lane * OWN + o]) : Real(0);
      }
      b[i] = x;
      c[i] = y;
    }
  }
};

// The states of a lane: states [lane * OWN, lane * OWN + OWN) of its channel.
__device__ __forceinline__ void load_states(const Real* from, int lane, bool exist, Real (&x)[OWN]) {
#pragma unroll
  for (int o = 0; o < OWN; o++) x[o] = exist && lane * OWN + o < STATES ? from[lane * OWN + o] : Real(0);
}
__device__ __forceinline__ void store_states(Real* to, int lane, bool exist, const Real (&x)[OWN]) {
#pragma unroll
  for (int o = 0; o < OWN; o++) if (exist && lane * OWN + o < STATES) to[lane * OWN + o] = x[o];
}

// What a lane needs of a few steps: read before the steps ahead of them are walked.
template <class Item, int COUNT, int STEPS> struct Ahead {
  Item item[STEPS];
  Pack<Real, OWN> b[STEPS], c[STEPS];
  __device__ __forceinline__ void read(const Item (&items)[COUNT][CHANNELS], const Shared<COUNT>& shared, int t, int channel, int lane) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
      item[k] = items[t + k][channel];
      b[k] = shared.b[(t + k) * LANES + lane];
      c[k] = shared.c[(t + k) * LANES + lane];
    }
  }
};
