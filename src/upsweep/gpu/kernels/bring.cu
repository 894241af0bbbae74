// Copies an array into another order of its dimensions. A block copies a tile of three of them, A, M and B. A line is as much of it as
// lies together in the source: neighbours along A, along M too (M_NEAR), along B too (B_NEAR). A run is as much as lies together in
// the copy: neighbours along B, along M too (M_RUN). Lines come to shared memory in aligned words, as they lie, with the gaps between
// their items; there runs are put together, in pieces of AT_ONCE items.
#include "bring_bytes.cuh"

constexpr int A = DIMS - 3, M = DIMS - 2, B = DIMS - 1;
typedef typename bits_of<sizeof(typename Output<0>::Store)>::type T;
constexpr int SIZE = sizeof(T);
constexpr int OVER = TURNED ? 4 : 0;  // lines of a tile that the next tile has too
constexpr u32 LINES_B = B_NEAR ? 1 : TILE_B + OVER, LINES = (M_NEAR ? 1 : TILE_M) * LINES_B;

// The lines of a tile in shared memory. Lanes read neighbours along B, of lines side by side: these lie an odd number of words apart,
// and of narrow items 32 lines and one word more. A single line has PADS bytes more behind every 128.
struct Tile {
  const char* source;  // the first byte of the first line
  i64 in_m, in_b;      // from line to line
  int low;             // from the first item of a line to its first byte

  const char* memory;

  static __device__ __forceinline__ int padded(int byte) { return byte + (PADS ? (u32)byte / 128 * PADS : 0); }
  static __device__ __forceinline__ int at_line(u32 m, u32 b) {
    const u32 l = (M_NEAR ? 0 : m) * LINES_B + (B_NEAR ? 0 : b);
    return l * PITCH + (SIZE < 4 ? l / 32 * 4 : 0);
  }
  __device__ __forceinline__ const char* line(u32 m, u32 b) const {
    return source + (M_NEAR ? 0 : m * in_m) + (B_NEAR ? 0 : b * in_b);
  }
  // Bytes from the word in which a line begins.
  __device__ __forceinline__ int phase(u32 m, u32 b) const { return (int)((u64)line(m, b) & (WORD - 1)); }
  // Where the first of the items along A lies, but for what a single line is padded with.
  __device__ __forceinline__ int place(u32 m, u32 b) const {
    return at_line(m, b) + phase(m, b) - low + (M_NEAR ? m * IN_M : 0) + (B_NEAR ? b * IN_B : 0);
  }
  __device__ __forceinline__ T item(int place, int byte) const { return load_item<T, GRAIN>(memory + padded(place + byte)); }
};

// An item at a byte of a word.
template <class X> __device__ __forceinline__ u32 at_byte(const X& x, int byte) {
  if constexpr (sizeof(X) < 4) return (u32)x << 8 * byte;
  else return 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const Strides &in = p.in_strides[0], &out = p.out_strides[0];
  // Neighbouring blocks write neighbours, so that the cache hands whole lines to memory.
  u32 block = blockIdx.x;
  i64 from = BEHIND, to = 0;
  bool begins = true;  // whether runs begin in this tile
  auto some_of = [&](int d, int tile, int over = 0) {
    const u32 across = (u32)((p.dim[d] + tile - 1) / tile);
    u32 at = block % across;
    asm("" : "+r"(at));  // else the compiler divides 64 bits
    const i64 first = (i64)at * tile;
    block /= across;
    from += first * in.row[d];
    to += first * out.row[d];
    if (d == B) begins = at == 0;
    return (int)min(p.dim[d] - first, (i64)tile + over);
  };
  const int some_b = some_of(B, TILE_B, OVER), some_m = some_of(M, TILE_M);
#pragma unroll
  for (int d = A - 1; d >= 0; d--) some_of(d, 1);
  const int some_a = some_of(A, TILE_A);

  // The first byte of a line and the one behind its last, from its first item.
  int low = 0, high = SIZE;
  auto reach = [&](int some, int stride) {
    low += min(0, (some - 1) * stride);
    high += max(0, (some - 1) * stride);
  };
  reach(some_a, IN_A);
  if (M_NEAR) reach(some_m, IN_M);
  if (B_NEAR) reach(some_b, IN_B);
  const Tile tile{p.in[0] + from + low, in.row[M], in.row[B], low, memory};
  const u32 thread = threadIdx.x;
#pragma unroll 2
  for (u32 l = thread / LINE_LANES; l < LINES; l += THREADS / LINE_LANES) {
    const u32 m = l / LINES_B, b = l % LINES_B;
    if (!M_NEAR && m >= some_m || !B_NEAR && b >= some_b) continue;
    const char* line = tile.line(m, b);
    const int phase = tile.phase(m, b), bytes = high - low + phase;
#pragma unroll 8
    for (u32 word = 0; word < LINE_WORDS; word += LINE_LANES) {
      const int byte = (word + thread % LINE_LANES) * WORD;
      if (byte < bytes) copy_async<WORD>(memory + tile.at_line(m, b) + tile.padded(byte), line - phase + byte);
    }
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();  // the tile is there

  if constexpr (TURNED) return write_turned({memory, tile.source, in.row[B]}, p.out[0] + to, out.row[A], some_a, some_b, begins);
  typedef Output<0> To;
  if constexpr (STEP > 0) {
    // A thread has every STEPth piece of the only run: these lie equally far apart, in the copy as in a line.
    constexpr int ITEMS = STEP * AT_ONCE, BYTES = M_RUN ? ITEMS / TILE_B * IN_M : ITEMS * IN_B;
    const i64 apart = IN_WORDS ? SIZE : M_RUN && TILE_B == 1 ? out.row[M] : out.row[B];
    char* run = p.out[0] + to;
    const int some = some_m * some_b, first = thread * AT_ONCE - (EVEN_RUNS ? 0 : (int)((u64)run & 3) / SIZE);
    char* at = run + first * apart;
    int place[AT_ONCE];
    each<AT_ONCE>([&](auto v) {  // of the piece behind it, as the first may begin before the run
      const u32 k = first + v.value + ITEMS, m = M_RUN ? k / TILE_B : 0;
      place[v.value] = tile.place(m, k - m * TILE_B) - BYTES;
    });
    if (thread < STEP)
#pragma unroll 4
      for (int k = first, byte = 0; k < some; k += ITEMS, byte += BYTES, at += ITEMS * apart) {
        T x[AT_ONCE];
        u32 word = 0;
        if (k >= 0 && k + AT_ONCE <= some) {
          each<AT_ONCE>([&](auto v) { word |= at_byte(x[v.value] = tile.item(place[v.value], byte), v.value * SIZE); });
          if (IN_WORDS) *(u32*)at = word;
          else store_item<T, To::grain>(at, x[0]);
        } else
          each<AT_ONCE>([&](auto v) {
            if ((u32)(k + v.value) < some) store_item<T, To::grain>(at + v.value * SIZE, tile.item(place[v.value], byte));
          });
      }
    return;
  }

  // A thread has the same piece of every RUN_STEPth run: these begin at one place within a word.
  constexpr u32 FROM_M = M_RUN ? 1 : TILE_M;
  for (u32 i = thread; i < PIECES * RUN_STEP * FROM_M; i += THREADS) {
    const u32 piece = i % PIECES, from_a = i / PIECES % RUN_STEP, from_m = i / PIECES / RUN_STEP;
    if (from_m >= some_m) break;
    char* run = p.out[0] + to + from_a * out.row[A] + (M_RUN ? 0 : from_m * out.row[M]);
    const int first = piece * AT_ONCE - (EVEN_RUNS ? 0 : (int)((u64)run & 3) / SIZE);
    int place[AT_ONCE];
    bool there[AT_ONCE], whole = true;
    each<AT_ONCE>([&](auto v) {
      const u32 k = first + v.value, m = M_RUN ? k / TILE_B : from_m, b = M_RUN ? k % TILE_B : k;
      whole &= there[v.value] = m < some_m && b < some_b;
      place[v.value] = there[v.value] ? tile.place(m, b) : -low;
    });
    const u32 first_m = M_RUN ? (u32)first / TILE_B : 0, first_b = first - first_m * TILE_B;
    char* at = run + (IN_WORDS ? (i64)first * SIZE : first_m * out.row[M] + first_b * out.row[B]);
#pragma unroll 4
    for (int a = from_a; a < some_a; a += RUN_STEP, at += RUN_STEP * out.row[A]) {
      T x[AT_ONCE];
      u32 word = 0;
      each<AT_ONCE>([&](auto v) { word |= at_byte(x[v.value] = tile.item(place[v.value], a * IN_A), v.value * SIZE); });
      if (IN_WORDS && whole) *(u32*)at = word;
      else each<AT_ONCE>([&](auto v) { if (there[v.value]) store_item<T, To::grain>(at + v.value * SIZE, x[v.value]); });
    }
  }
}
