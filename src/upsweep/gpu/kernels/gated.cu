// Gated layers forwards.
#include "gated.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_gated(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char bytes[];
  auto& memory = Memory<ARRAYS>::begin(bytes);
  const Part part(p);
  const int place = (int)threadIdx.x / 32, warp = place - 1 - APART * place / 4, lane = threadIdx.x % 32;
  if (APART && place && place % 4 == 0) return;
  if (warp < 0) {
    const int channel = channel_of(lane);
    const i64 state = part.sequence * p.channels + part.first + channel;
    Real h = p.initial && channel < part.exist ? p.initial[state] : Real(0);
    walk(memory, part.n, lane, [&](Real a, Real& x) { h = a * h + x; x = h; });
    if (p.last && channel < part.exist) p.last[state] = h;
    return;
  }
  const Server<false> server{p, part, warp, lane};
  Tile& tile = memory.tile[warp];
  Real parameter[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) parameter[v] = Layer::PARAMETER && server.owned ? Layer::taken(p.parameter[part.first + server.place * VEC + v]) : Real(0);
  Server<false>::Source in[ARRAYS], out = server.of(p.out);
#pragma unroll
  for (int c = 0; c < ARRAYS; c++) in[c] = server.of(p.in[c]);
  serve<false>(memory, part.n, warp, lane, [&](Stage<ARRAYS>& stage, i64 j) {
    const int m = server.exist(j);
#pragma unroll
    for (int c = 0; c < ARRAYS; c++) {
      server.bring(in[c], m, stage.x[c]);
      server.move(in[c]);
    }
  }, [&](const Stage<ARRAYS>& stage) {
    Raw x[ARRAYS][HELD];
#pragma unroll
    for (int c = 0; c < ARRAYS; c++)
#pragma unroll
      for (int o = 0; o < HELD; o++) x[c][o] = stage.x[c][o][lane];
    server.template each_run<RUN>([&](int o, int v, int at) {
      Run a, b;
#pragma unroll
      for (int r = 0; r < RUN; r++) {
        Real item[ARRAYS];
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) item[c] = x[c][o + r][v];
        Layer::make(item, parameter[v], a.x[r], b.x[r]);
      }
      tile.decay[0][at] = a;
      tile.value[0][at] = b;
    });
  }, [&](const Stage<ARRAYS>&, i64 j) {
    Real h[HELD][VEC];
    server.template each_run<RUN>([&](int o, int v, int at) {
      const Run run = tile.value[0][at];
#pragma unroll
      for (int r = 0; r < RUN; r++) h[o + r][v] = run.x[r];
    });
    Piece y[HELD];
#pragma unroll
    for (int o = 0; o < HELD; o++) y[o] = rounded_piece(h[o]);
    server.store(out, server.exist(j), y);
    server.move(out);
  });
}
