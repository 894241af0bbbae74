// The gradients of a selective scan: chunks of steps from the last to the first. The states of a chunk are computed again from
// the state that the way forward kept, and then walked backwards; nothing that is as wide as all states is ever in memory.
#include "selective.cuh"

// A lane walks OWN states of SIDE channels, so that it adds what these give to the sums over channels without a shuffle.
constexpr int WARPS = LANES / SIDE, THREADS = 32 * WARPS, CHANNELS = 32;
constexpr int PER_LINE = CHANNELS / VEC;
// Lines that all threads move at once.
constexpr int LINES = THREADS / PER_LINE;

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
    // No two sequences share a mark.
    mark = line / CHUNK + s;
  }
  __device__ __forceinline__ char* at(const Params& p, const Lines& l, i64 t) const {
    return l.at + (p.offsets ? 0 : sequence * l.sequence) + (begin + t) * l.step;
  }
  // The place of a channel's states in an array (sequences, channels, STATES).
  __device__ __forceinline__ i64 states(const Params& p, int channel) const { return (sequence * p.channels + first + channel) * STATES; }
};

// A piece of channels of one step. A thread moves it at once, and always moves the same channels.
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
#pragma unroll 1
  for (int k = 0; k < COUNT; k += LINES) { int t = k + threadIdx.x / PER_LINE; if (t < m && (COUNT % LINES == 0 || t < COUNT)) f(t, k); }
}

// Starts to copy steps [t, t + m) of an array to shared memory: `bring` if the array has channels, `bring_shared` if it is the
// same for all channels.
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

// The arrays b and c, which all channels share, in the computed dtype; zero where nothing exists.
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

// Steps from one state of the trail to the next.
constexpr int KEPT = 2;

// An item's numbers. It gives step, drive and dy to the walk. The walk forwards adds y, and the walk backwards puts the sums of
// dh b and of dh a h rate in place of drive and dy.
struct alignas(16) Item { Real step, drive, dy, y; };

struct BackStage {
  Stage<CHUNK> in;
  alignas(16) Value g[CHUNK * CHANNELS];
};
struct Memory {
  BackStage stage[2];
  Shared<CHUNK> shared;
  Item items[CHUNK][CHANNELS];
  // The state before every KEPT-th step.
  Pack<Real, OWN> trail[CHUNK / KEPT][SIDE][THREADS];
  // db and dc, summed over the channels of a warp.
  Real parts[WARPS][CHUNK * 2 * PADDED];
};
// Sums over the chunks of a sequence, an item for each step that all threads move at once.
struct Sums { Real dskip[LINES][CHANNELS], dbias[LINES][CHANNELS]; };

static_assert(sizeof(Memory) == MEMORY, "layers.py counts otherwise");

// The numbers that a lane needs for a step. They are read before the step ahead of it is walked.
struct Ahead {
  Item item[SIDE];
  Pack<Real, OWN> b, c;
};

struct Walker {
  const Params& p;
  Memory& memory;
  int thread = threadIdx.x, lane = thread % LANES, warp = thread / 32;
  // carry: the share that the step after has in the gradient of the state.
  Real rate[SIDE][OWN], carry[SIDE][OWN], da[SIDE][OWN];

  __device__ __forceinline__ int channel(int side) const { return (warp * SIDE + side) * WARP_CHANNELS + thread % 32 / LANES; }
  __device__ __forceinline__ void read(Ahead& x, int t) const {
#pragma unroll
    for (int s = 0; s < SIDE; s++) x.item[s] = memory.items[t][channel(s)];
    x.b = memory.shared.b[t * LANES + lane];
    x.c = memory.shared.c[t * LANES + lane];
  }

  // Walks forwards from the state before the chunk, and leaves the states before some of its steps in the trail.
  __device__ __forceinline__ void again(Real (&h)[SIDE][OWN]) {
    // Steps whose results the lanes of a channel sum together.
    constexpr int TURN = LANES / SIDE;
    Ahead ahead[2];
    Real y[LANES];
    read(ahead[0], 0);
#pragma unroll 1
    for (int begin = 0; begin < CHUNK; begin += BODY)
#pragma unroll
      for (int k = 0; k < BODY; k++) {
        const int t = begin + k;
        const Ahead& now = ahead[k % 2];
        read(ahead[(k + 1) % 2], (t + 1) % CHUNK);
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
          if (k % KEPT == 0) {
            Pack<Real, OWN> before;
#pragma unroll
            for (int o = 0; o < OWN; o++) before.x[o] = h[s][o];
            memory.trail[t / KEPT][s][thread] = before;
          }
          Real& sum = y[k % TURN * SIDE + s];
          sum = 0;
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            h[s][o] = mul_add(exp2_of(now.item[s].step * rate[s][o]), h[s][o], now.item[s].drive * now.b.x[o]);
            sum = mul_add(h[s][o], now.c.x[o], sum);
          }
        }
        if ((k + 1) % TURN == 0) {
          int first = 0;
          bool mine = true;
          sum_over_lanes<LANES / 2, 1, LANES>(y, lane, first, mine);
          memory.items[t + 1 - TURN + first / SIDE][channel(first % SIDE)].y = y[0];
        }
      }
  }

  // Walks backwards from the state after the chunk.
  __device__ __forceinline__ void back(Real (&h)[SIDE][OWN]) {
    // Steps whose sums the lanes of a channel make together.
    constexpr int TURN = max_of(1, LANES / (2 * SIDE)), COUNT = 2 * SIDE * TURN, LEFT = left_of(LANES / 2, 1, COUNT);
    static_assert(TURN <= BODY && KEPT == 2 && BODY % 2 == 0, "the loop is cut otherwise");
    Ahead ahead[2];
    Pack<Real, OWN> trail[SIDE];
    Real sums[COUNT];
    auto read_trail = [&](int t) {
#pragma unroll
      for (int s = 0; s < SIDE; s++) trail[s] = memory.trail[t / KEPT][s][thread];
    };
    read_trail(CHUNK - KEPT);
    read(ahead[0], CHUNK - 2);
    read(ahead[1], CHUNK - 1);
#pragma unroll 1
    for (int begin = CHUNK - BODY; begin >= 0; begin -= BODY)
#pragma unroll
      for (int pair = BODY - KEPT; pair >= 0; pair -= KEPT) {
        const int t = begin + pair;
        // The state before each of two steps, and its decay.
        Real decay[KEPT][SIDE][OWN], before[KEPT][SIDE][OWN];
        const Ahead x[KEPT] = {ahead[0], ahead[1]};
#pragma unroll
        for (int s = 0; s < SIDE; s++)
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            decay[0][s][o] = exp2_of(x[0].item[s].step * rate[s][o]);
            decay[1][s][o] = exp2_of(x[1].item[s].step * rate[s][o]);
            before[0][s][o] = trail[s].x[o];
            before[1][s][o] = mul_add(decay[0][s][o], trail[s].x[o], x[0].item[s].drive * x[0].b.x[o]);
          }
        const int next = t ? t - KEPT : 0;
        read_trail(next);
        read(ahead[0], next);
        read(ahead[1], next + 1);
#pragma unroll
        for (int k = KEPT - 1; k >= 0; k--) {
          Real both[2 * OWN];
#pragma unroll
          for (int s = 0; s < SIDE; s++) {
            const Item& item = x[k].item[s];
            Real with_b = 0, with_rate = 0;
#pragma unroll
            for (int o = 0; o < OWN; o++) {
              const Real dh = mul_add(x[k].c.x[o], item.dy, carry[s][o]);
              both[o] = s ? mul_add(dh, item.drive, both[o]) : dh * item.drive;
              both[OWN + o] = s ? mul_add(h[s][o], item.dy, both[OWN + o]) : h[s][o] * item.dy;
              with_b = mul_add(dh, x[k].b.x[o], with_b);
              carry[s][o] = dh * decay[k][s][o];
              h[s][o] = before[k][s][o];
              const Real q = carry[s][o] * h[s][o];
              with_rate = mul_add(q, rate[s][o], with_rate);
              da[s][o] = mul_add(q, item.step, da[s][o]);
            }
            sums[((pair + k) % TURN * SIDE + s) * 2] = with_b;
            sums[((pair + k) % TURN * SIDE + s) * 2 + 1] = with_rate;
          }
          int first = 0;
          bool mine = true;
          sum_over_lanes<16, LANES, 2 * OWN>(both, thread % 32, first, mine);
#pragma unroll
          for (int v = 0; v < left_of(16, LANES, 2 * OWN); v++)
            if (mine) memory.parts[warp][(t + k) * 2 * PADDED + (first + v) / OWN * PADDED + lane * OWN + (first + v) % OWN] = both[v];
          if ((pair + k) % TURN == 0) {
            int first = 0;
            bool wanted = true;
            sum_over_lanes<LANES / 2, 1, COUNT>(sums, lane, first, wanted);
#pragma unroll
            for (int v = 0; v < LEFT; v++) {
              const int i = first + v;
              Item& to = memory.items[t + k + i / (2 * SIDE)][channel(i / 2 % SIDE)];
              (i % 2 ? to.dy : to.drive) = sums[v];
            }
          }
        }
      }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_selective_back(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  Part part(p);
  Walker walker{p, memory};
#pragma unroll
  for (int s = 0; s < SIDE; s++) {
    const int channel = walker.channel(s);
    load_states(p.a + (part.first + channel) * STATES, walker.lane, channel < part.exist, walker.rate[s]);
    load_states(p.dlast + part.states(p, channel), walker.lane, channel < part.exist && p.dlast, walker.carry[s]);
#pragma unroll
    for (int o = 0; o < OWN; o++) { walker.rate[s][o] *= LOG2E; walker.da[s][o] = 0; }
  }

  int own = threadIdx.x % PER_LINE * VEC;
  bool owned = own < part.exist;
  Real bias[VEC], skip[VEC], dskip[VEC], dbias[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    dskip[v] = dbias[v] = 0;
    bias[v] = p.bias && owned ? p.bias[part.first + own + v] : Real(0);
    skip[v] = p.skip && owned ? p.skip[part.first + own + v] : Real(0);
  }
  Sources sources(p, part);
  Source gradient(p, part, p.out), du_(p, part, p.du), ddelta_(p, part, p.ddelta), dz_(p, part, p.dz);
  auto bring_chunk = [&](i64 k) {
    i64 t = k * CHUNK;
    int m = k < 0 ? 0 : (int)min(part.n - t, (i64)CHUNK);
    BackStage& stage = memory.stage[k & 1];
    sources.bring_all(stage.in, p, part, t, m, owned);
    bring<CHUNK>(stage.g, gradient, t, owned ? m : 0);
    commit_copies();
  };
  i64 chunks = (part.n + CHUNK - 1) / CHUNK;
  bring_chunk(chunks - 1);
  for (i64 k = chunks - 1; k >= 0; k--) {
    BackStage& stage = memory.stage[k & 1];
    i64 t0 = k * CHUNK;
    int m = (int)min(part.n - t0, (i64)CHUNK);
    Real h[SIDE][OWN];
#pragma unroll
    for (int s = 0; s < SIDE; s++) {
      const int channel = walker.channel(s);
      load_states(p.marks + ((part.mark + k) * p.channels + part.first + channel) * STATES, walker.lane, channel < part.exist, h[s]);
    }
    bring_chunk(k - 1);
    wait_copies<1>();
    __syncthreads();  // the chunk has landed
    memory.shared.fill(stage.in, m);
    each_step<CHUNK>(CHUNK, [&](int t, int) {
      Piece delta = piece_of(stage.in.delta, t, own), u = piece_of(stage.in.u, t, own), z = piece_of(stage.in.z, t, own), g = piece_of(stage.g, t, own);
      bool there = t < m && owned;
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Item x{0, 0, 0, 0};
        x.step = convert<Real>(delta.x[v]) + bias[v];
        if (p.softplus) x.step = softplus(x.step);
        x.drive = x.step * convert<Real>(u.x[v]);
        x.dy = convert<Real>(g.x[v]);
        if (p.z.at) { Real gate = convert<Real>(z.x[v]); x.dy *= gate * sigmoid(gate); }
        memory.items[t][own + v] = there ? x : Item{0, 0, 0, 0};
      }
    });
    __syncthreads();  // what the walk reads has been written
    walker.again(h);
    walker.back(h);
    __syncthreads();  // the sums have been written
    each_step<CHUNK>(owned ? m : 0, [&](int t, int skipped) {
      Piece delta = piece_of(stage.in.delta, t, own), u = piece_of(stage.in.u, t, own), z = piece_of(stage.in.z, t, own), g = piece_of(stage.g, t, own);
      Piece du, ddelta, dz;
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Item x = memory.items[t][own + v];
        Real with_b = x.drive, with_rate = x.dy, input = convert<Real>(u.x[v]), dy = convert<Real>(g.x[v]);
        if (p.z.at) {
          Real gate = convert<Real>(z.x[v]), s = sigmoid(gate);
          dz.x[v] = convert<Value>(dy * mul_add(skip[v], input, x.y) * s * mul_add(gate, 1 - s, Real(1)));
          dy *= gate * s;
        }
        Real slope = mul_add(input, with_b, LN2 * with_rate);
        if (p.softplus) slope *= sigmoid(convert<Real>(delta.x[v]) + bias[v]);
        du.x[v] = convert<Value>(mul_add(skip[v], dy, x.step * with_b));
        ddelta.x[v] = convert<Value>(slope);
        dskip[v] += dy * input;
        dbias[v] += slope;
      }
      *(Piece*)du_.of(t0 + skipped) = du;
      *(Piece*)ddelta_.of(t0 + skipped) = ddelta;
      if (p.z.at) *(Piece*)dz_.of(t0 + skipped) = dz;
    });
    Real* parts = p.parts + (blockIdx.x % p.groups * p.lines + part.line + t0) * (2 * STATES);
    for (int i = threadIdx.x; i < m * 2 * STATES; i += THREADS) {
      const int at = PADDED == STATES ? i : i / STATES * PADDED + i % STATES;
      Real sum = memory.parts[0][at];
#pragma unroll
      for (int w = 1; w < WARPS; w++) sum += memory.parts[w][at];
      parts[i] = sum;
    }
    __syncthreads();  // the stage may be written again
  }
#pragma unroll
  for (int s = 0; s < SIDE; s++) {
    const int channel = walker.channel(s);
    store_states(p.da + part.states(p, channel), walker.lane, channel < part.exist, walker.da[s]);
    if (p.dinitial) store_states(p.dinitial + part.states(p, channel), walker.lane, channel < part.exist, walker.carry[s]);
  }
  Sums& sums = *(Sums*)memory.stage;
  static_assert(sizeof(Sums) <= sizeof(memory.stage), "the sums take the place of the stages");
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    sums.dskip[threadIdx.x / PER_LINE][own + v] = dskip[v];
    sums.dbias[threadIdx.x / PER_LINE][own + v] = dbias[v];
  }
  __syncthreads();  // the sums of all items have been written
  for (int channel = threadIdx.x; channel < part.exist; channel += THREADS) {
    Real skips = 0, biases = 0;
#pragma unroll
    for (int t = 0; t < LINES; t++) { skips += sums.dskip[t][channel]; biases += sums.dbias[t][channel]; }
    const i64 at = part.sequence * p.channels + part.first + channel;
    p.dskip[at] = skips;
    p.dbias[at] = biases;
  }
}
