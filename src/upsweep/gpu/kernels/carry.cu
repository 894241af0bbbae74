// The items of an array by their places.
//   WORD, WORDS   the words that an item consists of
//   DIMS          dimensions of the array, without the axis
#include "prelude.cuh"

// y[i] = x[from[i]] along the axis of every row; nothing where from[i] is negative. Neighbouring threads take neighbours along
// the axis or, with `across`, neighbouring rows.
struct Carry { const char* x; const i64* from; char* y; i64 n, rows, across, x_step, y_step; i64 shape[DIMS], x_strides[DIMS], y_strides[DIMS]; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_carry(const __grid_constant__ Carry p) {
  const i64 thread = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (thread >= p.n * p.rows) return;
  const i64 i = p.across ? thread / p.rows : thread % p.n, from = p.from[i];
  if (from < 0) return;
  i64 row = p.across ? thread % p.rows : thread / p.n, x = from * p.x_step, y = i * p.y_step;
#pragma unroll
  for (int d = DIMS - 1; d >= 0; d--) {
    const i64 at = row % p.shape[d];
    row /= p.shape[d];
    x += at * p.x_strides[d];
    y += at * p.y_strides[d];
  }
#pragma unroll
  for (int w = 0; w < WORDS; w++) ((WORD*)(p.y + y))[w] = ((const WORD*)(p.x + x))[w];
}
