// The gradients of a selective scan: tiles of steps from the last to the first. Warps that walk compute the states of a tile again
// from the state that the way forward kept, and then walk them backwards. Others serve them. Nothing that is as wide as all
// states is ever in memory.
#include "selective_walk.cuh"
#include "selective_steward.cuh"

// A part, made again when its steps are over: until then its numbers take no registers.
__device__ __forceinline__ Part made_again(const Params& p, u32 task) {
  asm volatile("" : "+r"(task));
  return Part(p, task);
}

// The gradients of a skip and a bias.
__device__ __forceinline__ void sum_steps(const Params& p, const Part& part, const Team& team, int lane) {
  if (lane >= part.exist) return;
  Real skip = 0, bias = 0;
  for (int w = 0; w < SERVERS; w++)
#pragma unroll
    for (int k = 0; k < 32 / PER_LINE; k++) { const Item x = team.tile[0].items[w * SHARE + k][lane]; skip += x.step; bias += x.drive; }
  const i64 at = part.sequence * p.channels + part.first + lane;
  p.dskip[at] = skip;
  p.dbias[at] = bias;
}

__device__ __forceinline__ void walk(const Params& p, u32 task, Team& team, int warp, int lane) {
  const Part part(p, task);
  Walker walker{team, warp, lane};
  walker.begin(p, part);
  int now = 0;
  u32 parity = 0;
  for (i64 left = part.n; left > 0; left -= STEPS) {
    barrier_wait(&team.full[now], parity);
    walker.walk(team.tile[now]);
    arrive(&team.done[now], lane);
    now = now + 1 < SLOTS ? now + 1 : 0;
    parity ^= now == 0;
  }
  walker.end(p, made_again(p, task));
}

__device__ __forceinline__ void serve(const Params& p, u32 task, Team& team, int warp, int lane) {
  const Part part(p, task);
  Steward server{p, part, team, warp, lane};
  const i64 tiles = (part.n + STEPS - 1) / STEPS;
  // Only the last tile, which comes first, may be shorter than STEPS.
  const int steps = (int)(part.n - (tiles - 1) * STEPS);
  // All other tiles of a whole group are whole.
  const bool group = part.exist == WIDTH;
  server.begin(tiles - 1);
  int slot = 0;
  u32 parity = 1;
  for (i64 k = 0; k < tiles + SLOTS; k++) {
    if (k >= SLOTS) {
      if (group && k > SLOTS) server.hand_out<true>(slot, STEPS, parity);
      else server.hand_out<false>(slot, k == SLOTS ? steps : STEPS, parity);
    }
    if (k < tiles) {
      if (group && k) server.fill<true>(slot, STEPS);
      else server.fill<false>(slot, k ? STEPS : steps);
    }
    server.move();
    slot = slot + 1 < SLOTS ? slot + 1 : 0;
    parity ^= slot == 0;
  }
#pragma unroll
  for (int v = 0; v < VEC; v++)
    team.tile[0].items[warp * SHARE + lane / PER_LINE][server.place * VEC + v] = Item{server.dskip[v], server.dbias[v], 0, 0};
  arrive(&team.summed, lane);
  if (warp) return;
  barrier_wait(&team.summed, 0);
  sum_steps(p, made_again(p, task), team, lane);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) upsweep_selective_back(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  const int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  const bool walks = warp < TEAMS * WALKERS;
  if (!walks) warp -= TEAMS * WALKERS;
  const int size = walks ? WALKERS : SERVERS;
  Team& team = ((Team*)bytes)[warp / size];
  const i64 task = (i64)blockIdx.x * TEAMS + warp / size;
  warp %= size;
  if (walks && warp == 0 && lane < SLOTS) {
    barrier_init(&team.full[lane], SERVERS);
    barrier_init(&team.done[lane], WALKERS);
    if (lane == 0) barrier_init(&team.summed, SERVERS);
  }
  __syncthreads();  // the barriers stand
  if (task >= p.tasks) return;
  if (walks) walk(p, (u32)task, team, warp, lane);
  else serve(p, (u32)task, team, warp, lane);
}
