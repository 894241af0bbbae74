// Gated layers in order, h = a h + b, where a and b are made of the inputs on the way and never lie in memory. One warp walks
// WIDTH channels; the others bring tiles of steps, make decays and inputs of the tile ahead, and hand out the results of the
// tile behind.
#include "gates.cuh"
#include "spec.cuh"
#include "gated_params.cuh"

constexpr int WIDTH = 32, THREADS = 32 + WORKERS;
constexpr int BLOCKS = sizeof(Real) == 4 ? 3 : 1;  // of a multiprocessor
constexpr int PER_LINE = WIDTH / VEC;
constexpr int LINES = WORKERS / PER_LINE, ROUNDS = (TILE + LINES - 1) / LINES;  // that workers take at once

struct Part {
  i64 sequence, begin, n, first;
  int exist;
  __device__ __forceinline__ explicit Part(const Params& p) {
    sequence = blockIdx.x / p.groups;
    first = blockIdx.x % p.groups * WIDTH;
    exist = (int)min(p.channels - first, (i64)WIDTH);
    begin = p.offsets ? p.offsets[sequence] : 0;
    n = p.offsets ? p.offsets[sequence + 1] - begin : p.steps;
  }
  __device__ __forceinline__ char* at(const Params& p, const Lines& l, i64 t) const {
    return l.at + (p.offsets ? 0 : sequence * l.sequence) + (begin + t) * l.step + first * SIZE;
  }
};

struct Pair { Real a, b; };  // decay and input; then b is the state, or its gradient

// Where the pair of step t and of the v-th channel of the i-th piece lies in its line: so that neither those who make pairs, a
// piece each, nor the lanes that walk, a channel each, meet in a bank.
__device__ __forceinline__ int place(int t, int v, int i) { return ((v + t) * PER_LINE + i) % WIDTH; }

typedef Pair Pairs[TILE][WIDTH];

// One step after the other, all of them or some, by f(step, pair), which leaves its result in the pair.
template <bool BACK, class F> __device__ __forceinline__ void walk(Pairs& pairs, int m, int lane, F&& f) {
  constexpr int AT_ONCE = 8;  // pairs that are read before the first of them is walked
  int v = lane % VEC, i = lane / VEC;
  if (m == TILE) {
#pragma unroll
    for (int j = 0; j < TILE; j += AT_ONCE) {
      Pair x[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) { int t = BACK ? TILE - 1 - j - k : j + k; x[k] = pairs[t][place(t, v, i)]; }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) f(x[k]);
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) { int t = BACK ? TILE - 1 - j - k : j + k; pairs[t][place(t, v, i)].b = x[k].b; }
    }
  } else {
#pragma unroll 1
    for (int j = 0; j < m; j++) { int t = BACK ? m - 1 - j : j; f(pairs[t][place(t, v, i)]); }
  }
}

__device__ __forceinline__ void workers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

// An array as a worker sees it: its piece of the first of the lines that are taken at once.
struct Source {
  char* at;
  const i64& step;
  __device__ __forceinline__ Source(const Params& p, const Part& part, const Lines& l, int worker)
      : at(part.at(p, l, worker / PER_LINE) + worker % PER_LINE * GRAIN), step(l.step) {}
  __device__ __forceinline__ char* of(i64 t) const { return at + t * step; }
};

// Calls f(step) for each of a worker's steps of a tile of m.
template <class F> __device__ __forceinline__ void each_step(int worker, int m, F&& f) {
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) { int t = k * LINES + worker / PER_LINE; if (t < m && (TILE % LINES == 0 || t < TILE)) f(t, k * LINES); }
}

// Steps [t, t + m) of an array on their way to shared memory.
__device__ __forceinline__ void bring(Value* to, const Source& from, i64 t, int m, int worker) {
  char* base = from.of(t);
  each_step(worker, m, [&](int line, int skipped) { copy_async<GRAIN>((char*)(to + line * WIDTH) + worker % PER_LINE * GRAIN, base + skipped * from.step); });
}
