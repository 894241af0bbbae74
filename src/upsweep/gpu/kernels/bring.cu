// Copies an array into another order of its dimensions. A block copies a tile: items of the dimension in which the source's
// neighbours lie, by items of the one in which the copy's lie. Where these are two dimensions (TURNED) the tile goes through shared
// memory: neighbouring lanes read neighbours, and write neighbours.
#include "params.cuh"

constexpr int EACH = TILE / THREADS;           // items of a thread
constexpr int A = max_of(DIMS - 2, 0), B = DIMS - 1;  // the two dimensions
typedef typename Input<0>::Load Source;
typedef typename Output<0>::Store T;

// A side of a tile, and the same as a divisor.
struct Side {
  u32 n, inverse;
  __device__ __forceinline__ explicit Side(u32 n) : n(n), inverse(0xffffffffu / n + 1) {}
  __device__ __forceinline__ int over(u32 i) const { return n == 1 ? i : __umulhi(i, inverse); }
};

// The places of a tile: a items by b. In shared memory a line of a items has an odd number of words, so that lanes of neighbouring
// lines meet in no bank.
struct Tile {
  Side a, b;
  __device__ __forceinline__ int line() const {
    constexpr int WORD = max_of(4, (int)sizeof(T));
    return ((a.n * (int)sizeof(T) + WORD - 1) / WORD | 1) * WORD;
  }
  __device__ __forceinline__ T& at(char* memory, int a, int b) const { return *(T*)(memory + b * line() + a * (int)sizeof(T)); }
  // Calls f(k, a, b) for each of the thread's items. BY_A: neighbouring threads have neighbours along a.
  template <bool BY_A, class F> __device__ __forceinline__ void each(F&& f) const {
    const Side& near = BY_A ? a : b;
    const Side& far = BY_A ? b : a;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      const int i = (int)threadIdx.x + k * THREADS, other = near.over(i), one = i - other * (int)near.n;
      if (other < far.n) f(k, BY_A ? one : other, BY_A ? other : one);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const i64 all_a = DIMS > 1 ? p.dim[A] : 1, all_b = p.dim[B];
  const i64 in_a = DIMS > 1 ? p.in_strides[0].row[A] : 0, in_b = p.in_strides[0].row[B];
  const i64 out_a = DIMS > 1 ? p.out_strides[0].row[A] : 0, out_b = p.out_strides[0].row[B];
  const u32 side_b = (u32)min(all_b, (i64)SIDE), side_a = (u32)min(all_a, (i64)(TILE / side_b));
  const Tile tile{Side(side_a), Side(side_b)};
  // Neighbouring blocks write neighbours, so that the cache hands whole lines to memory.
  u32 block = blockIdx.x;
  const u32 across = (u32)((all_b + side_b - 1) / side_b);
  const i64 b = (i64)(block % across) * side_b;
  block /= across;
  i64 from = 0, to = 0;
#pragma unroll
  for (int d = DIMS - 3; d >= 0; d--) {
    const u32 at = block % (u32)p.dim[d];
    block /= (u32)p.dim[d];
    from += at * p.in_strides[0].row[d];
    to += at * p.out_strides[0].row[d];
  }
  const i64 a = (i64)block * side_a;
  const int some_a = (int)min(all_a - a, (i64)side_a), some_b = (int)min(all_b - b, (i64)side_b);
  const char* source = p.in[0] + from + a * in_a + b * in_b;
  char* copy = p.out[0] + to + a * out_a + b * out_b;
  T x[EACH];
  tile.each<TURNED>([&](int k, int a, int b) {
    if (a < some_a && b < some_b) x[k] = convert<T>(load_item<Source, Input<0>::grain>(source + a * in_a + b * in_b));
  });
  if constexpr (TURNED) {
    tile.each<true>([&](int k, int a, int b) { tile.at(memory, a, b) = x[k]; });
    __syncthreads();  // the tile is there
    tile.each<false>([&](int k, int a, int b) { x[k] = tile.at(memory, a, b); });
  }
  tile.each<false>([&](int k, int a, int b) {
    if (a < some_a && b < some_b) store_item<T, Output<0>::grain>(copy + a * out_a + b * out_b, x[k]);
  });
}
