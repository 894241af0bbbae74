// A few steps of gated layers: a thread a piece of neighbouring channels, whose states it keeps in registers. The arithmetic and
// the bits are those of gated.cu; but one step is over before a block of gated.cu has brought its first tile.
#include "gates.cuh"
#include "gated_params.cuh"

struct alignas(VEC * sizeof(Real) < 16 ? VEC * sizeof(Real) : 16) States { Real x[VEC]; };

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_gated_step(const __grid_constant__ Params p) {
  u32 pieces = (u32)(p.channels / VEC), blocks = (pieces + THREADS - 1) / THREADS, sequence = blockIdx.x / blocks;
  u32 piece = blockIdx.x % blocks * THREADS + threadIdx.x;
  if (piece >= pieces) return;
  i64 state = sequence * p.channels + (i64)piece * VEC;
  auto at = [&](const Lines& l, i64 t) { return (Piece*)(l.at + sequence * l.sequence + t * l.step) + piece; };
  States parameter{}, h{};
  if (Layer::PARAMETER) {
    parameter = ((const States*)p.parameter)[piece];
#pragma unroll
    for (int v = 0; v < VEC; v++) parameter.x[v] = Layer::taken(parameter.x[v]);
  }
  if (p.initial) h = *(const States*)(p.initial + state);
  for (i64 t = 0; t < p.steps; t++) {
    Raw x[Layer::ARRAYS];
    Piece y;
#pragma unroll
    for (int c = 0; c < Layer::ARRAYS; c++) x[c] = *(const Raw*)at(p.in[c], t);
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      Real item[Layer::ARRAYS], a, b;
#pragma unroll
      for (int c = 0; c < Layer::ARRAYS; c++) item[c] = x[c][v];
      Layer::make(item, parameter.x[v], a, b);
      h.x[v] = a * h.x[v] + b;
      y.x[v] = convert<Value>(h.x[v]);
    }
    *at(p.out, t) = y;
  }
  if (p.last) *(States*)(p.last + state) = h;
}
