// Gated layers in order where channels are many: a lane walks a piece of channels by itself, makes their decays and inputs on the
// way, and exchanges nothing with other lanes. Its pieces come by way of shared memory, DEPTH times STEPS steps ahead.
#include "gates.cuh"
#include "spec.cuh"
#include "gated_params.cuh"

constexpr int ARRAYS = Layer::ARRAYS;
template <int COUNT> struct Stage { Raw x[COUNT][STEPS][32]; };

// A lane's piece of channels of one sequence. BACK: steps are counted from the last to the first.
template <bool BACK> struct Own {
  const Params& p;
  i64 sequence, channel, begin, n;

  __device__ __forceinline__ explicit Own(const Params& p) : p(p) {
    sequence = blockIdx.x / (u32)p.groups;
    channel = (blockIdx.x % (u32)p.groups * 32 + threadIdx.x) * (i64)VEC;
    begin = p.offsets ? p.offsets[sequence] : 0;
    n = p.offsets ? p.offsets[sequence + 1] - begin : p.steps;
  }
  // Where the piece of step j of an array lies, and how far apart steps are.
  struct Source {
    char* at;
    i64 step;
  };
  __device__ __forceinline__ Source of(const Lines& l, i64 j = 0) const {
    const i64 t = begin + (BACK ? n - 1 - j : j);
    return {l.at + (p.offsets ? 0 : sequence * l.sequence) + t * l.step + channel * SIZE, BACK ? -l.step : l.step};
  }
  __device__ __forceinline__ i64 state(int v) const { return sequence * p.channels + channel + v; }
};

// Calls f(whole, x, j) for STEPS steps after another, from step j on, with their pieces; whole.value says that all of them exist.
// The last array has `less` steps fewer.
template <int COUNT, class Source, class F>
__device__ __forceinline__ void stream(Stage<COUNT>* stages, Source (&from)[COUNT], i64 n, int less, F&& f) {
  const int lane = threadIdx.x;
  auto bring = [&](Stage<COUNT>& stage, i64 j) {
#pragma unroll
    for (int c = 0; c < COUNT; c++) {
      const i64 left = n - j - (c == COUNT - 1 ? less : 0);
      char* at = from[c].at;
#pragma unroll
      for (int o = 0; o < STEPS; o++, at += from[c].step)
        if (o < left) copy_async<GRAIN>((char*)&stage.x[c][o][lane], at);
      from[c].at = at;
    }
    commit_copies();
  };
  for (int d = 0; d < DEPTH; d++) bring(stages[d], d * STEPS);
  int now = 0;
  for (i64 j = 0; j < n; j += STEPS, now = now + 1 < DEPTH ? now + 1 : 0) {
    wait_copies<DEPTH - 1>();
    Raw x[COUNT][STEPS];
#pragma unroll
    for (int c = 0; c < COUNT; c++)
#pragma unroll
      for (int o = 0; o < STEPS; o++) x[c][o] = stages[now].x[c][o][lane];
    bring(stages[now], j + DEPTH * STEPS);
    if (n - j >= STEPS) f(Int<true>(), x, j);
    else f(Int<false>(), x, j);
  }
}
