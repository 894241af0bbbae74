// Writes one line many times, one behind another. PERIOD lines are whole pieces of 16 bytes, so that a thread's piece comes again behind
// as many: it is put together once, of units of GRAIN bytes, and stored TIMES times.
#include "params.cuh"

constexpr int LINES = DIMS - 2, ITEMS = DIMS - 1, UNITS = 16 / GRAIN;
typedef typename bits_of<GRAIN>::type Unit;

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_alike(const __grid_constant__ Params p) {
  const i64 line = p.dim[ITEMS] * sizeof(typename Output<0>::Store), period = line * PERIOD, all = line * p.dim[LINES];
  // Neighbouring blocks write neighbours.
  const u32 across = (u32)p.column_groups, parts = (u32)p.tiles, block = blockIdx.x / across;
  const u32 piece = blockIdx.x % across * THREADS + threadIdx.x;
  if (piece >= period / 16) return;
  u32 row = block / parts;
  const char* source = p.in[0];
  char* copy = p.out[0];
#pragma unroll
  for (int d = LINES - 1; d >= 0; d--) {
    const u32 n = (u32)p.dim[d], at = row % n;
    row /= n;
    source += at * p.in_strides[0].row[d];
    copy += at * p.out_strides[0].row[d];
  }
  // The first piece begins up to 15 bytes before the first line, at what comes before a later one.
  i64 at = 16 * (i64)piece - (i64)((u64)copy & 15), from = (at + 16 * line) % line;
  alignas(16) Unit units[UNITS];
#pragma unroll
  for (int i = 0; i < UNITS; i++) {
    units[i] = *(const Unit*)(source + from);
    from = from + GRAIN == line ? 0 : from + GRAIN;
  }
  at += block % parts * TIMES * period;
#pragma unroll
  for (int k = 0; k < TIMES; k++, at += period) {
    if (at >= all) break;
    if (at >= 0 && at + 16 <= all) {
      uint4 whole;
      memcpy(&whole, units, 16);
      store_piece(copy + at, whole);
    } else {
#pragma unroll
      for (int i = 0; i < UNITS; i++) {
        const i64 unit = at + i * GRAIN;
        if (unit >= 0 && unit < all) *(Unit*)(copy + unit) = units[i];
      }
    }
  }
}
