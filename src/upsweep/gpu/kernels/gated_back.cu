// The gradients of gated layers: tiles from the last to the first, s = g + a s backwards. What the decays were made of is read
// again, and so is what the way forward wrote.
#include "gated.cuh"

constexpr int STAGES = 5, ARRAYS = Layer::ARRAYS;
struct Stage {
  alignas(16) Value in[ARRAYS][TILE * WIDTH];
  alignas(16) Value g[TILE * WIDTH];
  alignas(16) Value h[(TILE + 1) * WIDTH];  // from the state before the tile on
};
struct Memory {
  Stage stage[STAGES];
  Pairs pairs[3];
};
static_assert(sizeof(Memory) == MEMORY, "layers.py counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_gated_back(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *(Memory*)bytes;
  Part part(p);
  int worker = (int)threadIdx.x - 32, lane = threadIdx.x;
  int tiles = (int)((part.n + TILE - 1) / TILE);
  // Tile k counted from the end begins at step `begin_of(k)`; the last of them is tile 0 of the sequence.
  auto begin_of = [&](int k) { return (i64)(tiles - 1 - k) * TILE; };
  auto steps_of = [&](int k) { return k < 0 || k >= tiles ? 0 : (int)min(part.n - begin_of(k), (i64)TILE); };
  int own = worker % PER_LINE * VEC;
  bool owned = worker >= 0 && own < part.exist;
  Source in[] = {{p, part, p.in[0], worker}, {p, part, p.in[1], worker}, {p, part, p.in[2], worker}};
  Source dx[] = {{p, part, p.dx[0], worker}, {p, part, p.dx[1], worker}, {p, part, p.dx[2], worker}};
  Source g(p, part, p.g, worker), h(p, part, p.out, worker);
  auto bring_tile = [&](int k) {
    Stage& s = memory.stage[(u32)k % STAGES];
    i64 t = begin_of(k);
    int m = owned ? steps_of(k) : 0;
#pragma unroll
    for (int c = 0; c < ARRAYS; c++) bring(s.in[c], in[c], t, m, worker);
    bring(s.g, g, t, m, worker);
    if (t > 0) bring(s.h, h, t - 1, m, worker);
    else bring(s.h + WIDTH, h, 0, m - 1, worker);
    commit_copies();
  };
  i64 state = part.sequence * p.channels + part.first;
  Real parameter[VEC], dparameter[VEC], carry = 0;
  if (worker >= 0) {
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      parameter[v] = Layer::PARAMETER && owned ? p.parameter[part.first + own + v] : Real(0);
      dparameter[v] = 0;
    }
    bring_tile(0);
    bring_tile(1);
  } else if (p.dlast && lane < part.exist) carry = p.dlast[state + lane];
  for (int k = -1; k <= tiles; k++) {
    if (worker < 0) {
      walk<true>(memory.pairs[(u32)(k + 3) % 3], steps_of(k), lane, [&](Pair& x) { Real s = x.b + carry; carry = x.a * s; x.b = s; });
    } else {
      bring_tile(k + 3);
      wait_copies<2>();
      workers_meet();  // tile k + 1 has landed
      const Stage& next = memory.stage[(u32)(k + 1) % STAGES];
      each_step(worker, owned ? steps_of(k + 1) : 0, [&](int t, int) {
        Piece x[ARRAYS], dy = *(const Piece*)(next.g + t * WIDTH + own);
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) x[c] = *(const Piece*)(next.in[c] + t * WIDTH + own);
#pragma unroll
        for (int v = 0; v < VEC; v++) {
          Real item[ARRAYS], input;
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) item[c] = convert<Real>(x[c].x[v]);
          Pair made;
          Layer::make(item, parameter[v], made.a, input);
          made.b = convert<Real>(dy.x[v]);
          memory.pairs[(u32)(k + 1) % 3][t][place(t, v, own / VEC)] = made;
        }
      });
      const Stage& behind = memory.stage[(u32)(k - 1 + STAGES) % STAGES];
      i64 begin = begin_of(k - 1);
      each_step(worker, owned ? steps_of(k - 1) : 0, [&](int t, int skipped) {
        Piece x[ARRAYS], made[ARRAYS], last = *(const Piece*)(behind.h + t * WIDTH + own);
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) x[c] = *(const Piece*)(behind.in[c] + t * WIDTH + own);
#pragma unroll
        for (int v = 0; v < VEC; v++) {
          Real item[ARRAYS], ditem[ARRAYS], before = convert<Real>(last.x[v]);
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) item[c] = convert<Real>(x[c].x[v]);
          if (begin + t == 0) before = p.initial ? p.initial[state + own + v] : Real(0);
          Layer::back(item, parameter[v], before, memory.pairs[(u32)(k + 2) % 3][t][place(t, v, own / VEC)].b, ditem, dparameter[v]);
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) made[c].x[v] = convert<Value>(ditem[c]);
        }
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) *(Piece*)(dx[c].of(begin + skipped)) = made[c];
      });
    }
    __syncthreads();  // tile k has been walked, k + 1 made, k - 1 handed out
  }
  if (worker < 0 && p.dinitial && lane < part.exist) p.dinitial[state + lane] = carry;
  if (Layer::PARAMETER) {
    typedef Real Sums[LINES][WIDTH];
    static_assert(sizeof(Sums) <= sizeof(memory.pairs), "the sums take the place of the pairs");
    Sums& sums = *(Sums*)memory.pairs;
    if (worker >= 0)
#pragma unroll
      for (int v = 0; v < VEC; v++) sums[worker / PER_LINE][own + v] = dparameter[v];
    __syncthreads();  // every worker's sum has been written
    if (worker < 0 && lane < part.exist) {
      Real sum = 0;
      for (int i = 0; i < LINES; i++) sum += sums[i][lane];
      p.dparameter[state + lane] = sum;
    }
  }
}
