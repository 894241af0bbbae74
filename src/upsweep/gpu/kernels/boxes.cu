// The sums of boxes by a table of sums: each is read at its corners. A thread takes a box.
//   DIMS     dimensions of the table
#include "prelude.cuh"

struct Boxes {
  const VALUE* table;
  const i64* starts; const i64* stops;  // DIMS places of each box
  i64 n;
  VALUE* sums; i64* items;
  i64 shape[DIMS];
};

template <class T> __device__ __forceinline__ T moved(const T& sum, const T& by, bool down) {
  if constexpr (is_complex<T>) return {moved(sum.re, by.re, down), moved(sum.im, by.im, down)};
  else return down ? sum - by : sum + by;
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_boxes(const __grid_constant__ Boxes p) {
  const i64 box = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (box >= p.n) return;
  i64 first = 0, step = 1, items = 1, across[DIMS];
  bool within = true;
#pragma unroll
  for (int d = DIMS - 1; d >= 0; d--) {
    const i64 start = p.starts[box * DIMS + d], stop = p.stops[box * DIMS + d];
    within = within && 0 <= start && start <= stop && stop < p.shape[d];
    first += start * step;
    across[d] = (stop - start) * step;
    step *= p.shape[d];
    items *= stop - start;
  }
  p.items[box] = within ? items : -1;
  VALUE sum = {};
  if (within) {
#pragma unroll 8
    for (int corner = 0; corner < 1 << DIMS; corner++) {  // the last dimension turns first
      i64 at = first;
#pragma unroll
      for (int d = 0; d < DIMS; d++) if (corner >> (DIMS - 1 - d) & 1) at += across[d];
      sum = moved(sum, p.table[at], (DIMS - __popc(corner)) & 1);
    }
  }
  p.sums[box] = sum;
}
