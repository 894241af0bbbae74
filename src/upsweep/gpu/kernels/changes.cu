// Keys as flags of segments.
#include "marks.cuh"

// Whether a key differs from the key before it along the middle of (outer, n, inner), in C order.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes(const __grid_constant__ Changes p) {
  let_next_begin();
  i64 start = (i64)blockIdx.x * (THREADS * BATCH) + threadIdx.x;
  bool one = p.n == p.count;  // one row, whose first item alone has none before it
  KEY here[BATCH], before[BATCH];
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    i64 i = start + k * THREADS;
    if (i < p.count) { here[k] = p.keys[i]; before[k] = p.keys[i < p.inner ? i : i - p.inner]; }
  }
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    i64 i = start + k * THREADS;
    if (i < p.count) p.flags[i] = (one ? i == 0 : i / p.inner % p.n == 0) || differ(here[k], before[k]);
  }
}
