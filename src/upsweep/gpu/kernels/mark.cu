// Offsets of segments as flags: 1 where one starts, in memory that is zero.
#include "marks.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_mark(const __grid_constant__ Mark p) {
  each_offset(p, (i64)blockIdx.x * (THREADS * BATCH), [&](i64 at) { p.flags[at] = 1; });
}
