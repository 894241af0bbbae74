// Gated layers forwards, where channels are many.
#include "gated_lanes.cuh"

extern "C" __global__ void __launch_bounds__(32, BLOCKS) upsweep_gated_lanes(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char bytes[];
  const Own<false> own(p);
  if (own.channel >= p.channels) return;
  Real parameter[VEC], h[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    parameter[v] = Layer::PARAMETER ? Layer::taken(p.parameter[own.channel + v]) : Real(0);
    h[v] = p.initial ? p.initial[own.state(v)] : Real(0);
  }
  Own<false>::Source in[ARRAYS], out = own.of(p.out);
#pragma unroll
  for (int c = 0; c < ARRAYS; c++) in[c] = own.of(p.in[c]);
  stream((Stage<ARRAYS>*)bytes, in, own.n, 0, [&](auto whole, const Raw (&x)[ARRAYS][STEPS], i64 j) {
#pragma unroll
    for (int o = 0; o < STEPS; o++) {
      if (!whole.value && j + o >= own.n) break;
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Real item[ARRAYS], a, b;
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) item[c] = x[c][o][v];
        Layer::make(item, parameter[v], a, b);
        h[v] = a * h[v] + b;
      }
      *(Piece*)out.at = rounded_piece(h);
      out.at += out.step;
    }
  });
  if (p.last)
#pragma unroll
    for (int v = 0; v < VEC; v++) p.last[own.state(v)] = h[v];
}
