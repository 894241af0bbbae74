// The gradients of a selective scan: chunks of steps from the last to the first. The states of a chunk are computed again from
// the state that the way forward kept, and then walked backwards; nothing that is as wide as all states is ever in memory.
#include "selective.cuh"

constexpr int CHANNELS = 32, WARPS = LANES, THREADS = 32 * WARPS;
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
#pragma unroll
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

// The numbers that a lane needs for a few steps. They are read before the steps ahead of them are walked.
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

// Steps whose two sums over lanes are taken together.
constexpr int HALF = LANES / 2 ? LANES / 2 : 1;

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
  // The state before each step.
  Pack<Real, OWN> trail[CHUNK][THREADS];
  // db and dc, summed over the channels of a warp.
  Real parts[WARPS][CHUNK][2 * PADDED];
  Real dskip[CHUNK * CHANNELS], dbias[CHUNK * CHANNELS];
};

static_assert(sizeof(Memory) == MEMORY, "layers.py counts otherwise");

struct Walker {
  const Params& p;
  const Part& part;
  Memory& memory;
  int channel, lane, warp;
  // carry: the share that the step after has in the gradient of the state.
  Real rate[OWN], carry[OWN], da[OWN];

  // Walks forwards from the state before the chunk, and leaves the state before each step in the trail.
  __device__ __forceinline__ void again(Real (&h)[OWN]) {
    constexpr int STEPS = LANES < 4 ? LANES : 4;
    Ahead<Item, CHUNK, STEPS> now, next;
    next.read(memory.items, memory.shared, 0, channel, lane);
#pragma unroll 1
    for (int t = 0; t < CHUNK; t += LANES) {
      Real y[LANES];
#pragma unroll
      for (int g = 0; g < LANES; g += STEPS) {
        now = next;
        next.read(memory.items, memory.shared, (t + g + STEPS) % CHUNK, channel, lane);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
          Pack<Real, OWN> before;
          y[g + k] = 0;
#pragma unroll
          for (int o = 0; o < OWN; o++) {
            before.x[o] = h[o];
            h[o] = mul_add(exp2_of(now.item[k].step * rate[o]), h[o], now.item[k].drive * now.b[k].x[o]);
            y[g + k] = mul_add(h[o], now.c[k].x[o], y[g + k]);
          }
          memory.trail[t + g + k][threadIdx.x] = before;
        }
      }
      int first = 0;
      bool mine = true;
      sum_over_lanes<LANES / 2, 1, LANES>(y, lane, first, mine);
      memory.items[t + first][channel].y = y[0];
    }
  }

  // Walks backwards from the state after the chunk.
  __device__ __forceinline__ void back(Real (&h)[OWN]) {
    Ahead<Item, CHUNK, HALF> now, next;
    Pack<Real, OWN> trail[HALF], before[HALF];
    auto read = [&](int t) {
      next.read(memory.items, memory.shared, t, channel, lane);
#pragma unroll
      for (int k = 0; k < HALF; k++) trail[k] = memory.trail[t + k][threadIdx.x];
    };
    read(CHUNK - HALF);
#pragma unroll 1
    for (int t = CHUNK - HALF; t >= 0; t -= HALF) {
      Real sums[2 * HALF], both[HALF][2 * OWN];
      now = next;
#pragma unroll
      for (int k = 0; k < HALF; k++) before[k] = trail[k];
      read(t ? t - HALF : 0);
#pragma unroll
      for (int k = HALF - 1; k >= 0; k--) {
        Item x = now.item[k];
        Real with_b = 0, with_rate = 0;
#pragma unroll
        for (int o = 0; o < OWN; o++) {
          Real dh = mul_add(now.c[k].x[o], x.dy, carry[o]);
          both[k][o] = dh * x.drive;
          both[k][OWN + o] = h[o] * x.dy;
          with_b = mul_add(dh, now.b[k].x[o], with_b);
          carry[o] = dh * exp2_of(x.step * rate[o]);
          h[o] = before[k].x[o];
          Real q = carry[o] * h[o];
          with_rate = mul_add(q, rate[o], with_rate);
          da[o] = mul_add(q, x.step, da[o]);
        }
        sums[2 * k] = with_b;
        sums[2 * k + 1] = with_rate;
      }
#pragma unroll
      for (int k = 0; k < HALF; k++) {
        int first = 0;
        bool mine = true;
        sum_over_lanes<16, LANES, 2 * OWN>(both[k], threadIdx.x % 32, first, mine);
#pragma unroll
        for (int i = 0; i < left_of(16, LANES, 2 * OWN); i++)
          if (mine) memory.parts[warp][t + k][(first + i) / OWN * PADDED + lane * OWN + (first + i) % OWN] = both[k][i];
      }
      int which = 0;
      bool wanted = true;
      sum_over_lanes<LANES / 2, 1, 2 * HALF>(sums, lane, which, wanted);
#pragma unroll
      for (int i = 0; i < left_of(LANES / 2, 1, 2 * HALF); i++) {
        Item& to = memory.items[t + (which + i) / 2][channel];
        ((which + i) % 2 ? to.dy : to.drive) = sums[i];
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, THREADS < 384 ? 384 / THREADS : 1) upsweep_selective_back(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  Part part(p);
  Walker walker{p, part, memory, (int)threadIdx.x / LANES, (int)threadIdx.x % LANES, (int)threadIdx.x / 32};
  bool exist = walker.channel < part.exist;
  load_states(p.a + (part.first + walker.channel) * STATES, walker.lane, exist, walker.rate);
  load_states(p.dlast + part.states(p, walker.channel), walker.lane, exist && p.dlast, walker.carry);
#pragma unroll
  for (int o = 0; o < OWN; o++) { walker.rate[o] *= LOG2E; walker.da[o] = 0; }
  for (int i = threadIdx.x; i < CHUNK * CHANNELS; i += THREADS) memory.dskip[i] = memory.dbias[i] = 0;

  int own = threadIdx.x % PER_LINE * VEC;
  bool owned = own < part.exist;
  Real bias[VEC], skip[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
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
    Real h[OWN];
    load_states(p.marks + ((part.mark + k) * p.channels + part.first + walker.channel) * STATES, walker.lane, exist, h);
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
        memory.dskip[t * CHANNELS + own + v] += dy * input;
        memory.dbias[t * CHANNELS + own + v] += slope;
      }
      *(Piece*)du_.of(t0 + skipped) = du;
      *(Piece*)ddelta_.of(t0 + skipped) = ddelta;
      if (p.z.at) *(Piece*)dz_.of(t0 + skipped) = dz;
    });
    for (int i = threadIdx.x; i < m * 2 * STATES; i += THREADS) {
      int t = i / (2 * STATES), j = i % (2 * STATES), n = j / STATES * PADDED + j % STATES;
      Real sum = memory.parts[0][t][n];
#pragma unroll
      for (int w = 1; w < WARPS; w++) sum += memory.parts[w][t][n];
      p.parts[(blockIdx.x % p.groups * p.lines + part.line + t0 + t) * (2 * STATES) + j] = sum;
    }
    __syncthreads();  // the stage may be written again
  }
  store_states(p.da + part.states(p, walker.channel), walker.lane, exist, walker.da);
  if (p.dinitial) store_states(p.dinitial + part.states(p, walker.channel), walker.lane, exist, walker.carry);
  __syncthreads();  // the sums of all items have been written
  if (threadIdx.x < part.exist) {
    Real dskip = 0, dbias = 0;
    for (int t = 0; t < CHUNK; t++) { dskip += memory.dskip[t * CHANNELS + threadIdx.x]; dbias += memory.dbias[t * CHANNELS + threadIdx.x]; }
    i64 at = part.sequence * p.channels + part.first + threadIdx.x;
    p.dskip[at] = dskip;
    p.dbias[at] = dbias;
  }
}
