// Gated layers in order, h = a h + b, where a and b are made of the inputs on the way and never lie in memory. One warp walks
// WIDTH channels, a lane each; the others serve it.
#include "gates.cuh"
#include "spec.cuh"
#include "gated_params.cuh"
#include "serving.cuh"

// Where the walk has a scheduler to itself (APART), every fourth warp, which would share it, does nothing.
constexpr int ARRAYS = Layer::ARRAYS, THREADS = 32 * (1 + SERVERS + APART * (SERVERS - 1) / 3);
// Steps that shared memory holds side by side, and such runs of a tile.
constexpr int RUN = 16 / sizeof(Real), RUNS = STEPS / RUN;

struct alignas(16) Run { Real x[RUN]; };
// Decays, and inputs, which become states. On the way back the gradients of results become gradients of states.
struct Tile { Run decay[RUNS][WIDTH], value[RUNS][WIDTH]; };
// Pieces of a tile on their way: each lane brings those that it reads itself.
template <int COUNT> struct Stage { Raw x[COUNT][HELD][32]; };
template <int COUNT> struct Memory {
  Stage<COUNT> stage[SERVERS][DEPTH];
  Tile tile[SERVERS];
  // Barriers of each tile: it is made, and it has been walked.
  u64 full[SERVERS], done[SERVERS];
  static __device__ __forceinline__ Memory& begin(char* bytes) {
    static_assert(sizeof(Memory) == MEMORY, "layers/ counts otherwise");
    Memory& memory = *(Memory*)bytes;
    if (threadIdx.x < SERVERS) { barrier_init(&memory.full[threadIdx.x], 1); barrier_init(&memory.done[threadIdx.x], 1); }
    __syncthreads();  // the barriers stand
    return memory;
  }
};

// Walks n steps, one after the other, by f(decay, value), which leaves its result in `value`. Runs are read AHEAD of their turn.
template <int COUNT, class F> __device__ __forceinline__ void walk(Memory<COUNT>& memory, i64 n, int lane, F&& f) {
  Run a[RUNS], x[RUNS];
  auto read = [&](const Tile& tile, int i) { a[i] = tile.decay[i][lane]; x[i] = tile.value[i][lane]; };
  int now = 0;
  u32 parity = 0;
  i64 left = n;
  if (left >= STEPS) {
    barrier_wait(&memory.full[0], 0);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) read(memory.tile[0], i);
  }
  for (; left >= STEPS; left -= STEPS) {
    const int next = now + 1 < SERVERS ? now + 1 : 0;
    const u32 later = next ? parity : parity ^ 1;
    const bool more = left >= 2 * STEPS, made = more && barrier_passed(&memory.full[next], later);
    Tile& tile = memory.tile[now];
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
      if (i + AHEAD < RUNS) read(tile, i + AHEAD);
      else if (more) {
        if (i + AHEAD == RUNS && !made) barrier_wait(&memory.full[next], later);
        read(memory.tile[next], i + AHEAD - RUNS);
      }
#pragma unroll
      for (int r = 0; r < RUN; r++) f(a[i].x[r], x[i].x[r]);
      tile.value[i][lane] = x[i];
    }
    arrive(&memory.done[now], lane);
    now = next;
    parity = later;
  }
  if (left > 0) {
    barrier_wait(&memory.full[now], parity);
    for (int j = 0; j < (int)left; j++) f(memory.tile[now].decay[j / RUN][lane].x[j % RUN], memory.tile[now].value[j / RUN][lane].x[j % RUN]);
    arrive(&memory.done[now], lane);
  }
}

// Serves the walk with a warp's tiles, one after the other. bring(stage, j) copies what the tile from step j on needs,
// make(stage) prepares the tile, and give(stage, j) hands its results out. AGAIN: `give` reads the stage too.
template <bool AGAIN, int COUNT, class Bring, class Make, class Give>
__device__ __forceinline__ void serve(Memory<COUNT>& memory, i64 n, int warp, int lane, Bring&& bring, Make&& make, Give&& give) {
  i64 j = (i64)warp * STEPS;
  auto start = [&](Stage<COUNT>& stage, i64 first) { bring(stage, first); commit_copies(); };
  for (int d = 0; d < DEPTH; d++) start(memory.stage[warp][d], j + d * ROUND);
  int now = 0;
  for (u32 parity = 0; j < n; j += ROUND, parity ^= 1, now = now + 1 < DEPTH ? now + 1 : 0) {
    Stage<COUNT>& stage = memory.stage[warp][now];
    wait_copies<DEPTH - 1>();
    make(stage);
    arrive(&memory.full[warp], lane);
    if (!AGAIN) start(stage, j + DEPTH * ROUND);
    barrier_wait(&memory.done[warp], parity);
    give(stage, j);
    if (AGAIN) start(stage, j + DEPTH * ROUND);
  }
}
