// Sums of arrays that lie one behind another, item by item and from the first array to the last. Of each line of two times
// `width` sums one half goes to one array, the other half to another.
#include "prelude.cuh"
#include "spec.cuh"

struct Params { const Real* from; Value *first, *second; i64 arrays, size, width; };
extern "C" __global__ void __launch_bounds__(256) upsweep_total(const __grid_constant__ Params p) {
  i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.size) return;
  Real sum = p.from[i];
  for (i64 k = 1; k < p.arrays; k++) sum += p.from[k * p.size + i];
  i64 line = i / (2 * p.width), at = i % (2 * p.width);
  (at < p.width ? p.first : p.second)[line * p.width + at % p.width] = convert<Value>(sum);
}
