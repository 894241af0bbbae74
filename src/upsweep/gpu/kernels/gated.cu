// Gated layers forwards.
#include "gated.cuh"

constexpr int STAGES = 3;
struct Memory {
  alignas(16) Value in[STAGES][Layer::ARRAYS][TILE * WIDTH];
  Pairs pairs[3];
};
static_assert(sizeof(Memory) == MEMORY, "layers.py counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_gated(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  Part part(p);
  int worker = (int)threadIdx.x - 32, lane = threadIdx.x;  // warp 0 walks
  int tiles = (int)((part.n + TILE - 1) / TILE);
  auto steps_of = [&](int k) { return (int)max(min(part.n - (i64)k * TILE, (i64)TILE), 0ll); };
  int own = worker % PER_LINE * VEC;
  bool owned = worker >= 0 && own < part.exist;
  Source in[] = {{p, part, p.in[0], worker}, {p, part, p.in[1], worker}, {p, part, p.in[2], worker}}, out(p, part, p.out, worker);
  auto bring_tile = [&](int k) {
    int m = owned ? steps_of(k) : 0;
#pragma unroll
    for (int c = 0; c < Layer::ARRAYS; c++) bring(memory.in[(u32)k % STAGES][c], in[c], (i64)k * TILE, m, worker);
    commit_copies();
  };
  i64 state = part.sequence * p.channels + part.first + lane;
  Real parameter[VEC], h = 0;
  if (worker >= 0) {
#pragma unroll
    for (int v = 0; v < VEC; v++) parameter[v] = Layer::PARAMETER && owned ? p.parameter[part.first + own + v] : Real(0);
    bring_tile(0);
    bring_tile(1);
  } else if (p.initial && lane < part.exist) h = p.initial[state];
  for (int k = -1; k <= tiles; k++) {
    if (worker < 0) {
      walk<false>(memory.pairs[(u32)(k + 3) % 3], k < 0 ? 0 : steps_of(k), lane, [&](Pair& x) { h = x.a * h + x.b; x.b = h; });
    } else {
      bring_tile(k + 3);
      wait_copies<2>();
      workers_meet();  // tile k + 1 has landed
      each_step(worker, owned ? steps_of(k + 1) : 0, [&](int t, int) {
        Piece x[Layer::ARRAYS];
#pragma unroll
        for (int c = 0; c < Layer::ARRAYS; c++) x[c] = *(const Piece*)(memory.in[(u32)(k + 1) % STAGES][c] + t * WIDTH + own);
#pragma unroll
        for (int v = 0; v < VEC; v++) {
          Real item[Layer::ARRAYS];
#pragma unroll
          for (int c = 0; c < Layer::ARRAYS; c++) item[c] = convert<Real>(x[c].x[v]);
          Pair made;
          Layer::make(item, parameter[v], made.a, made.b);
          memory.pairs[(u32)(k + 1) % 3][t][place(t, v, own / VEC)] = made;
        }
      });
      char* to = out.of((k - 1ll) * TILE);
      each_step(worker, owned && k > 0 ? steps_of(k - 1) : 0, [&](int t, int skipped) {
        Piece y;
#pragma unroll
        for (int v = 0; v < VEC; v++) y.x[v] = convert<Value>(memory.pairs[(u32)(k + 2) % 3][t][place(t, v, own / VEC)].b);
        *(Piece*)(to + skipped * out.step) = y;
      });
    }
    __syncthreads();  // tile k has been walked, k + 1 made, k - 1 handed out
  }
  if (worker < 0 && p.last && lane < part.exist) p.last[state] = h;
}
