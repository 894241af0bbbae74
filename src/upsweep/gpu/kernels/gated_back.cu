// The gradients of gated layers, from the last step to the first: s = g + a s. The inputs are read again, and so are
// the states that the way forward wrote.
#include "gated.cuh"

// Arrays that are read: the inputs, the gradient, and the states before.
constexpr int COUNT = ARRAYS + 2;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_gated_back(const __grid_constant__ Params p) {
  static_assert(!APART, "all warps meet in the end");
  extern __shared__ __align__(128) char bytes[];
  auto& memory = Memory<COUNT>::begin(bytes);
  const Part part(p);
  const int warp = (int)threadIdx.x / 32 - 1, lane = threadIdx.x % 32;
  const i64 state = part.sequence * p.channels + part.first;
  typedef Real Sums[SERVERS * VEC][WIDTH];
  static_assert(sizeof(Sums) <= sizeof(memory.tile), "the sums take the place of the tiles");
  Sums& sums = *(Sums*)memory.tile;
  if (warp < 0) {
    const int channel = channel_of(lane);
    Real carry = p.dlast && channel < part.exist ? p.dlast[state + channel] : Real(0);
    walk(memory, part.n, lane, [&](Real a, Real& x) { Real s = x + carry; carry = a * s; x = s; });
    if (p.dinitial && channel < part.exist) p.dinitial[state + channel] = carry;
    __syncthreads();  // all tiles have been handed out
  } else {
    const Server<true> server{p, part, warp, lane};
    Tile& tile = memory.tile[warp];
    Real parameter[VEC], initial[VEC], dparameter[VEC];
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      const i64 channel = server.place * VEC + v;
      parameter[v] = Layer::PARAMETER && server.owned ? Layer::taken(p.parameter[part.first + channel]) : Real(0);
      initial[v] = p.initial && server.owned ? p.initial[state + channel] : Real(0);
      dparameter[v] = 0;
    }
    Server<true>::Source from[COUNT], dx[ARRAYS];
#pragma unroll
    for (int c = 0; c < ARRAYS; c++) { from[c] = server.of(p.in[c]); dx[c] = server.of(p.dx[c]); }
    from[ARRAYS] = server.of(p.g);
    from[ARRAYS + 1] = server.of(p.out, 1);
    serve<true>(memory, part.n, warp, lane, [&](Stage<COUNT>& stage, i64 j) {
      const int m = server.exist(j), before = server.exist(j + 1);
#pragma unroll
      for (int c = 0; c < COUNT; c++) {
        server.bring(from[c], c <= ARRAYS ? m : before, stage.x[c]);
        server.move(from[c]);
      }
    }, [&](const Stage<COUNT>& stage) {
      server.template each_run<RUN>([&](int o, int v, int at) {
        Run a, b;
#pragma unroll
        for (int r = 0; r < RUN; r++) {
          Real item[ARRAYS], input;
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) item[c] = stage.x[c][o + r][lane][v];
          Layer::make(item, parameter[v], a.x[r], input);
          b.x[r] = stage.x[ARRAYS][o + r][lane][v];
        }
        tile.decay[0][at] = a;
        tile.value[0][at] = b;
      });
    }, [&](const Stage<COUNT>& stage, i64 j) {
      const int m = server.exist(j), before = server.exist(j + 1);
      Real made[ARRAYS][HELD][VEC];
      server.template each_run<RUN>([&](int o, int v, int at) {
        const Run s = tile.value[0][at];
#pragma unroll
        for (int r = 0; r < RUN; r++) {
          Real item[ARRAYS], ditem[ARRAYS];
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) item[c] = stage.x[c][o + r][lane][v];
          const Real last = o + r < before ? Real(stage.x[ARRAYS + 1][o + r][lane][v]) : initial[v];
          Real part_of = 0;
          Layer::back(item, parameter[v], last, s.x[r], ditem, part_of);
          if (o + r < m) dparameter[v] += part_of;
#pragma unroll
          for (int c = 0; c < ARRAYS; c++) made[c][o + r][v] = ditem[c];
        }
      });
#pragma unroll
      for (int c = 0; c < ARRAYS; c++) {
        Piece y[HELD];
#pragma unroll
        for (int o = 0; o < HELD; o++) y[o] = rounded_piece(made[c][o]);
        server.store(dx[c], m, y);
        server.move(dx[c]);
      }
    });
    __syncthreads();  // all tiles have been handed out
    if (Layer::PARAMETER)
#pragma unroll
      for (int v = 0; v < VEC; v++) sums[warp * VEC + lane / PER_LINE][server.place * VEC + v] = dparameter[v];
  }
  if (!Layer::PARAMETER) return;
  __syncthreads();  // every lane's sums have been written
  if (warp < 0 && lane < part.exist) {
    Real sum = 0;
    for (int i = 0; i < SERVERS * VEC; i++) sum += sums[i][lane];
    p.dparameter[state + lane] = Layer::gradient(p.parameter[part.first + lane], sum);
  }
}
