// Copies an array into another order of its dimensions. A block copies a tile: items of the dimension in which the source's
// neighbours lie, by items of the one in which the copy's lie. Where these are two dimensions (TURNED) the tile goes through shared
// memory: neighbouring lanes read neighbours, and write neighbours.
#include "params.cuh"

constexpr int EACH = (TILE_A * TILE_B + THREADS - 1) / THREADS;  // items of a thread
constexpr int A = max_of(DIMS - 2, 0), B = DIMS - 1;               // the two dimensions
typedef typename Input<0>::Load Source;
typedef typename Output<0>::Store T;

// A tile in shared memory: lines of TILE_A items of an odd number of words, so that lanes of neighbouring lines meet in no bank.
struct Tile {
  static constexpr int WORD = max_of(4, (int)sizeof(T)), LINE = ((TILE_A * (int)sizeof(T) + WORD - 1) / WORD | 1) * WORD;
  char* memory;
  __device__ __forceinline__ T& at(int a, int b) const { return *(T*)(memory + b * LINE + a * (int)sizeof(T)); }
};

// Calls f(k, a, b) for each of the thread's items. BY_A: neighbouring threads have neighbours along a.
template <bool BY_A, class F> __device__ __forceinline__ void each_item(F&& f) {
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    const int i = (int)threadIdx.x + k * THREADS;
    if (TILE_A * TILE_B % THREADS == 0 || i < TILE_A * TILE_B)
      f(k, BY_A ? i % TILE_A : i / TILE_B, BY_A ? i / TILE_A : i % TILE_B);
  }
}

// Items of fewer than four bytes that move as words: PACK neighbours each.
struct alignas(PACK * sizeof(T)) Word { T x[PACK]; };
constexpr int WORDS = TILE_A * TILE_B / PACK / THREADS;

// Calls f(k, a, b) for each word of the thread: with the first of its items along a, or along b (!BY_A). Of the lanes of a warp that
// read items of lines PACK apart, as many have the word behind: they meet in no bank.
template <bool BY_A, class F> __device__ __forceinline__ void each_word(F&& f) {
  constexpr int NEAR = 32 / PACK, GROUPS = max_of(1, TILE_B / PACK / NEAR);
#pragma unroll
  for (int k = 0; k < WORDS; k++) {
    const int i = (int)threadIdx.x + k * THREADS, rest = i / 32 / GROUPS;
    if (BY_A) f(k, i % (TILE_A / PACK) * PACK, i / (TILE_A / PACK));
    else f(k, rest / PACK * PACK * PACK + i / NEAR % PACK * PACK + rest % PACK, (i / 32 % GROUPS * NEAR + i % NEAR) * PACK);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const i64 all_a = DIMS > 1 ? p.dim[A] : 1, all_b = p.dim[B];
  const i64 in_a = DIMS > 1 ? p.in_strides[0].row[A] : 0, in_b = p.in_strides[0].row[B];
  const i64 out_a = DIMS > 1 ? p.out_strides[0].row[A] : 0, out_b = p.out_strides[0].row[B];
  // Neighbouring blocks write neighbours, so that the cache hands whole lines to memory.
  u32 block = blockIdx.x;
  const u32 across = (u32)((all_b + TILE_B - 1) / TILE_B);
  const i64 b = (i64)(block % across) * TILE_B;
  block /= across;
  i64 from = 0, to = 0;
#pragma unroll
  for (int d = DIMS - 3; d >= 0; d--) {
    const u32 at = block % (u32)p.dim[d];
    block /= (u32)p.dim[d];
    from += at * p.in_strides[0].row[d];
    to += at * p.out_strides[0].row[d];
  }
  const i64 a = (i64)block * TILE_A;
  const int some_a = (int)min(all_a - a, (i64)TILE_A), some_b = (int)min(all_b - b, (i64)TILE_B);
  const char* source = p.in[0] + from + a * in_a + b * in_b;
  char* copy = p.out[0] + to + a * out_a + b * out_b;
  const Tile tile{memory};
  auto in = [&](int a, int b) { return source + a * in_a + b * in_b; };
  auto out = [&](int a, int b) { return copy + a * out_a + b * out_b; };
  auto exists = [&](int a, int b) { return a < some_a && b < some_b; };
  if constexpr (PACK > 1) {
    Word x[WORDS];
    each_word<true>([&](int k, int a, int b) { if (exists(a, b)) x[k] = *(const Word*)in(a, b); });
    each_word<true>([&](int k, int a, int b) { *(Word*)&tile.at(a, b) = x[k]; });
    __syncthreads();  // the tile is there
    each_word<false>([&](int k, int a, int b) {
#pragma unroll
      for (int v = 0; v < PACK; v++) x[k].x[v] = tile.at(a, b + v);
    });
    each_word<false>([&](int k, int a, int b) { if (exists(a, b)) *(Word*)out(a, b) = x[k]; });
  } else {
    T x[EACH];
    each_item<TURNED>([&](int k, int a, int b) {
      if (exists(a, b)) x[k] = convert<T>(load_item<Source, Input<0>::grain>(in(a, b)));
    });
    if constexpr (TURNED) {
      each_item<true>([&](int k, int a, int b) { tile.at(a, b) = x[k]; });
      __syncthreads();  // the tile is there
      each_item<false>([&](int k, int a, int b) { x[k] = tile.at(a, b); });
    }
    each_item<false>([&](int k, int a, int b) { if (exists(a, b)) store_item<T, Output<0>::grain>(out(a, b), x[k]); });
  }
}
