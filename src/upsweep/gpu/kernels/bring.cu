// Copies an array into another order of its dimensions: a block copies a tile.
#include "bring_bytes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_bring(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const Strides& out = p.out_strides[0];
  const Part part(p);
  const Tile tile(p, part);
  const int some_a = part.a, some_m = part.m, some_b = part.b;
  const i64 to = part.to;
  const u32 thread = threadIdx.x;
  auto item = [&](int place, int byte) { return load_item<T, GRAIN>(memory + Tile::padded(place + byte)); };
  tile.load(memory);
  wait_copies<0>();
  __syncthreads();  // the tile is there

  if constexpr (TURNED) return write_turned({memory, tile.source, p.in_strides[0].row[B]}, p.out[0] + to, out.row[A], some_a, some_b, part.begins);
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
      place[v.value] = tile.place(m, k - m * TILE_B) + tile.phase(m, k - m * TILE_B) - BYTES;
    });
    if (thread < STEP)
#pragma unroll 4
      for (int k = first, byte = 0; k < some; k += ITEMS, byte += BYTES, at += ITEMS * apart) {
        T x[AT_ONCE];
        u32 word = 0;
        if (k >= 0 && k + AT_ONCE <= some) {
          each<AT_ONCE>([&](auto v) { word |= at_byte(x[v.value] = item(place[v.value], byte), v.value * SIZE); });
          if (IN_WORDS) *(u32*)at = word;
          else store_item<T, To::grain>(at, x[0]);
        } else
          each<AT_ONCE>([&](auto v) {
            if ((u32)(k + v.value) < some) store_item<T, To::grain>(at + v.value * SIZE, item(place[v.value], byte));
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
      place[v.value] = there[v.value] ? tile.place(m, b) + tile.phase(m, b) : -tile.low;
    });
    const u32 first_m = M_RUN ? (u32)first / TILE_B : 0, first_b = first - first_m * TILE_B;
    char* at = run + (IN_WORDS ? (i64)first * SIZE : first_m * out.row[M] + first_b * out.row[B]);
#pragma unroll 4
    for (int a = from_a; a < some_a; a += RUN_STEP, at += RUN_STEP * out.row[A]) {
      T x[AT_ONCE];
      u32 word = 0;
      each<AT_ONCE>([&](auto v) { word |= at_byte(x[v.value] = item(place[v.value], a * IN_A), v.value * SIZE); });
      if (IN_WORDS && whole) *(u32*)at = word;
      else each<AT_ONCE>([&](auto v) { if (there[v.value]) store_item<T, To::grain>(at + v.value * SIZE, x[v.value]); });
    }
  }
}
