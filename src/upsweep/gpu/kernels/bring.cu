// Copies an array into another order of its dimensions. A block copies a tile: TILE_A items of the dimension in which the source's
// neighbours lie, by TILE_B of the one in which the copy's lie. Where these are two dimensions (TURNED) the tile goes through shared
// memory: neighbouring lanes read neighbours, and write neighbours.
#include "params.cuh"

constexpr int EACH = TILE_A * TILE_B / THREADS;  // items of a thread
typedef typename Input<0>::Load Source;
typedef typename Output<0>::Store T;

// A tile in shared memory: lines of TILE_A items, so far apart that lanes of neighbouring lines meet in no bank.
struct Tile {
  static constexpr int LINE = TILE_A * (int)sizeof(T) + max_of(4, (int)sizeof(T));
  char* memory;
  __device__ __forceinline__ T& at(int a, int b) const { return *(T*)(memory + b * LINE + a * (int)sizeof(T)); }
};

// Calls f(k, a, b) for each of the thread's items. BY_A: neighbouring threads have neighbours along a.
template <bool BY_A, class F> __device__ __forceinline__ void each_item(F&& f) {
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    const int i = (int)threadIdx.x + k * THREADS;
    f(k, BY_A ? i % TILE_A : i / TILE_B, BY_A ? i / TILE_A : i % TILE_B);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  constexpr int A = DIMS - 2, B = DIMS - 1;
  const i64 all_a = A < 0 ? 1 : p.dim[max_of(A, 0)], all_b = p.dim[B];
  const i64 in_a = A < 0 ? 0 : p.in_strides[0].row[max_of(A, 0)], in_b = p.in_strides[0].row[B];
  const i64 out_a = A < 0 ? 0 : p.out_strides[0].row[max_of(A, 0)], out_b = p.out_strides[0].row[B];
  // Neighbouring blocks write neighbours, so that the cache hands whole lines to memory.
  u32 block = blockIdx.x;
  const u32 across = (u32)((all_b + TILE_B - 1) / TILE_B);
  const i64 b = (i64)(block % across) * TILE_B;
  block /= across;
  i64 from = 0, to = 0;
#pragma unroll
  for (int d = A - 1; d >= 0; d--) {
    const u32 at = block % (u32)p.dim[d];
    block /= (u32)p.dim[d];
    from += at * p.in_strides[0].row[d];
    to += at * p.out_strides[0].row[d];
  }
  const i64 a = (i64)block * TILE_A;
  const int some_a = (int)min(all_a - a, (i64)TILE_A), some_b = (int)min(all_b - b, (i64)TILE_B);
  const char* source = p.in[0] + from + a * in_a + b * in_b;
  char* copy = p.out[0] + to + a * out_a + b * out_b;
  T x[EACH];
  each_item<TURNED>([&](int k, int a, int b) {
    if (a < some_a && b < some_b) x[k] = convert<T>(load_item<Source, Input<0>::grain>(source + a * in_a + b * in_b));
  });
  if constexpr (TURNED) {
    const Tile tile{memory};
    each_item<true>([&](int k, int a, int b) { tile.at(a, b) = x[k]; });
    __syncthreads();  // the tile is there
    each_item<false>([&](int k, int a, int b) { x[k] = tile.at(a, b); });
  }
  each_item<false>([&](int k, int a, int b) {
    if (a < some_a && b < some_b) store_item<T, Output<0>::grain>(copy + a * out_a + b * out_b, x[k]);
  });
}
