// The gradients of gated layers, where channels are many, from the last step to the first: s = g + a s. The inputs are read again,
// and so are the states that the way forward wrote.
#include "gated_lanes.cuh"

// Arrays that are read: the inputs, the gradient, and the states before.
constexpr int COUNT = ARRAYS + 2;

extern "C" __global__ void __launch_bounds__(32, BLOCKS) upsweep_gated_back_lanes(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char bytes[];
  const Own<true> own(p);
  if (own.channel >= p.channels) return;
  Real given[VEC], parameter[VEC], initial[VEC], carry[VEC], dparameter[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    given[v] = Layer::PARAMETER ? p.parameter[own.channel + v] : Real(0);
    parameter[v] = Layer::taken(given[v]);
    initial[v] = p.initial ? p.initial[own.state(v)] : Real(0);
    carry[v] = p.dlast ? p.dlast[own.state(v)] : Real(0);
    dparameter[v] = 0;
  }
  Own<true>::Source from[COUNT], dx[ARRAYS];
#pragma unroll
  for (int c = 0; c < ARRAYS; c++) { from[c] = own.of(p.in[c]); dx[c] = own.of(p.dx[c]); }
  from[ARRAYS] = own.of(p.g);
  from[ARRAYS + 1] = own.of(p.out, 1);
  stream((Stage<COUNT>*)bytes, from, own.n, 1, [&](auto whole, const Raw (&x)[COUNT][STEPS], i64 j) {
    // The parts of these steps are summed by themselves, so that a long sum loses less.
    Real part_of[VEC] = {};
#pragma unroll
    for (int o = 0; o < STEPS; o++) {
      if (!whole.value && j + o >= own.n) break;
      const bool first = j + o == own.n - 1;
      Real made[ARRAYS][VEC];
#pragma unroll
      for (int v = 0; v < VEC; v++) {
        Real item[ARRAYS], ditem[ARRAYS], a, b;
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) item[c] = x[c][o][v];
        Layer::make(item, parameter[v], a, b);
        const Real s = x[ARRAYS][o][v] + carry[v];
        carry[v] = a * s;
        Layer::back(item, parameter[v], first ? initial[v] : x[ARRAYS + 1][o][v], s, ditem, part_of[v]);
#pragma unroll
        for (int c = 0; c < ARRAYS; c++) made[c][v] = ditem[c];
      }
#pragma unroll
      for (int c = 0; c < ARRAYS; c++) {
        *(Piece*)dx[c].at = rounded_piece(made[c]);
        dx[c].at += dx[c].step;
      }
    }
#pragma unroll
    for (int v = 0; v < VEC; v++) dparameter[v] += part_of[v];
  });
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    if (p.dinitial) p.dinitial[own.state(v)] = carry[v];
    if (Layer::PARAMETER) p.dparameter[own.state(v)] = Layer::gradient(given[v], dparameter[v]);
  }
}
