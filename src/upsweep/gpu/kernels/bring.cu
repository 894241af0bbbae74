// Copies an array into another order of its dimensions: a block copies a tile.
#include "bring_bytes.cuh"
#include "bring_runs.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const Part part(p);
  const Tile tile(p, part);
  tile.load(memory);
  wait_copies<0>();
  __syncthreads();  // the tile is there
  if constexpr (TURNED)
    write_turned({memory, tile.source, p.in_strides[0].row[B]}, p.out[0] + part.to, p.out_strides[0].row[A], part.a, part.b, part.begins);
  else write_runs(p, part, tile, memory);
}
