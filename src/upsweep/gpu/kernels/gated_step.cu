// A few steps of gated layers: a thread a channel, which keeps the state in a register. The arithmetic is that of gated.cu, and
// so are the bits; but one step is over before a block of that has brought its first tile.
#include "gated.cuh"

extern "C" __global__ void __launch_bounds__(WORKERS) upsweep_gated_step(const __grid_constant__ Params p) {
  i64 blocks = (p.channels + WORKERS - 1) / WORKERS, sequence = blockIdx.x / blocks;
  i64 channel = blockIdx.x % blocks * WORKERS + threadIdx.x, state = sequence * p.channels + channel;
  if (channel >= p.channels) return;
  auto item = [&](const Lines& l, i64 t) { return (Value*)(l.at + sequence * l.sequence + t * l.step) + channel; };
  Real parameter = Layer::PARAMETER ? p.parameter[channel] : Real(0), h = p.initial ? p.initial[state] : Real(0);
  for (i64 t = 0; t < p.steps; t++) {
    Real x[Layer::ARRAYS], a, b;
#pragma unroll
    for (int c = 0; c < Layer::ARRAYS; c++) x[c] = convert<Real>(*item(p.in[c], t));
    Layer::make(x, parameter, a, b);
    h = a * h + b;
    *item(p.out, t) = convert<Value>(h);
  }
  if (p.last) p.last[state] = h;
}
