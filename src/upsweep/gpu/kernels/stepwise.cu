// Scans of many rows whose neighbours lie otherwise in the results than in the input, or of which few lie together: a block walks a
// tile of rows down the axis, item by item, and waits for no other block. The items that follow come to shared memory meanwhile. A
// thread has the same pieces of each step, and keeps their prefixes, so that the order of evaluation is that of the items.
#include "bring_tile.cuh"
#include "elements.cuh"

// A thread's pieces lie equally far apart, in the results as in shared memory: every STEPth of the only run, or one of every RUN_STEPth.
constexpr bool ONE_RUN = STEP > 0;
constexpr u32 FROM_M = M_RUN ? 1 : TILE_M, OWN = ONE_RUN ? THREADS : PIECES * RUN_STEP * FROM_M;
constexpr int SETS = (OWN + THREADS - 1) / THREADS, AHEAD = STEP * AT_ONCE;
constexpr int COUNT = ONE_RUN ? (TILE_M * TILE_B - 1) / max_of(AHEAD, 1) + 1 + !EVEN_RUNS : (TILE_A - 1) / RUN_STEP + 1;
constexpr int BYTES = !ONE_RUN ? RUN_STEP * IN_A : M_RUN ? AHEAD / TILE_B * IN_M : AHEAD * IN_B;
constexpr bool WITHIN = GRAIN < WORD;  // lines begin within words

struct Pieces {
  char* at;  // the first one in the results
  i64 apart;
  int first, some;  // of the only run its first item, and the items of the run; else its run, and how many there are
  bool there[AT_ONCE], all = true;
  int place[AT_ONCE], line[AT_ONCE];  // of its items in shared memory, and where their lines begin within words

  __device__ __forceinline__ Pieces() {}
  __device__ __forceinline__ Pieces(const Params& p, const Part& part, const Tile& tile, u32 i) {
    const Strides& out = p.out_strides[0];
    const u32 from_a = ONE_RUN ? 0 : i / PIECES % RUN_STEP, from_m = ONE_RUN ? 0 : i / PIECES / RUN_STEP;
    char* run = p.out[0] + part.to + from_a * out.row[A] + (M_RUN ? 0 : from_m * out.row[M]);
    const int begin = (ONE_RUN ? i : i % PIECES) * AT_ONCE - (EVEN_RUNS ? 0 : (int)((u64)run & 3) / SIZE);
    each<AT_ONCE>([&](auto v) {
      // Of the only run, in the piece behind it, as the first may begin before the run.
      const u32 k = begin + v.value + AHEAD, m = M_RUN ? k / TILE_B : from_m, b = M_RUN ? k % TILE_B : k;
      all &= there[v.value] = ONE_RUN || (m < part.m && b < part.b);
      place[v.value] = there[v.value] ? tile.place(m, b) + (ONE_RUN ? -BYTES : (int)from_a * IN_A) : -tile.low;
      line[v.value] = there[v.value] ? (int)(u64)tile.line(m, b) : 0;
    });
    const i64 next = M_RUN && TILE_B == 1 ? out.row[M] : out.row[B];
    const u32 first_m = M_RUN ? (u32)begin / TILE_B : 0, first_b = begin - first_m * TILE_B;
    if (IN_WORDS) at = run + begin * SIZE;
    else at = run + (ONE_RUN ? begin * next : first_m * out.row[M] + first_b * out.row[B]);
    apart = ONE_RUN ? AHEAD * (IN_WORDS ? SIZE : next) : RUN_STEP * out.row[A];
    first = ONE_RUN ? begin : from_a;
    some = ONE_RUN ? (i < STEP ? part.m * part.b : 0) : i < OWN ? part.a : 0;
  }
  // Whether item v of piece j exists, and all of its items.
  __device__ __forceinline__ bool has(int j, int v) const {
    return ONE_RUN ? (u32)(first + j * AHEAD + v) < (u32)some : first + j * RUN_STEP < some && there[v];
  }
  __device__ __forceinline__ bool whole(int j) const {
    return ONE_RUN ? has(j, 0) && has(j, AT_ONCE - 1) : first + j * RUN_STEP < some && all;
  }
};

// An item of a word.
template <class S> __device__ __forceinline__ T item_of(const S& x, int v) {
  T item;
  memcpy(&item, (const char*)&x + v * SIZE, SIZE);
  return item;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_stepwise(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  typedef typename Output<0>::Store Store;
  const Part part(p);
  Tile tile(p, part);
  Pieces pieces[SETS];
#pragma unroll
  for (int s = 0; s < SETS; s++) pieces[s] = Pieces(p, part, tile, threadIdx.x + s * THREADS);
  const i64 along = p.in_strides[0].along;
  i64 asked = 0;
  auto ask = [&] {  // for the next step, in the place of the one that all have read
    if (asked < p.n) tile.load(memory + (u32)asked % STAGES * STAGE_BYTES);
    else commit_copies();
    tile.source += along;
    asked++;
  };
  each<STAGES - 1>([&](auto) { ask(); });
  const Item start = start_of(p, 0);
  Item state[SETS][COUNT];
#pragma unroll 1
  for (i64 t = 0; t < p.n; t++) {
    wait_copies<STAGES - 2>();
    __syncthreads();  // the tile of this step is there, and the one before has been read
    ask();
    const char* stage = memory + (u32)t % STAGES * STAGE_BYTES;
    const bool anew = t == 0 || (SEGMENTED && p.heads[t * p.heads_strides.along] != 0);
    const int moved = (int)(t * along);
#pragma unroll
    for (int s = 0; s < SETS; s++) {
      Pieces& own = pieces[s];
      int place[AT_ONCE];
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) place[v] = own.place[v] + (WITHIN ? own.line[v] + moved & WORD - 1 : 0);
      char* at = own.at;
      own.at += p.out_strides[0].along;
#pragma unroll
      for (int j = 0; j < COUNT; j++, at += own.apart) {
        const bool whole = own.whole(j);
        T raw[AT_ONCE];
        u32 word = 0;
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++) {
          raw[v] = T{};
          if (whole || own.has(j, v)) raw[v] = load_item<T, GRAIN>(stage + Tile::padded(place[v] + j * BYTES));
          word |= at_byte(raw[v], v * SIZE);
        }
        typename Input<0>::Load given;
        memcpy(&given, AT_ONCE > 1 ? (const void*)&word : (const void*)raw, sizeof given);
        const Item x = {convert<typename Component<0>::Acc>(given)}, before = select(anew, start, state[s][j]);
        state[s][j] = select(anew && !INITIAL, x, op(before, x));
        const Store y = convert<Store>((EXCLUSIVE ? before : state[s][j]).head);
        if (whole) store_item<Store, AT_ONCE == 1 ? Output<0>::grain : 4>(at, y);
        else if (AT_ONCE > 1)
#pragma unroll
          for (int v = 0; v < AT_ONCE; v++) if (own.has(j, v)) store_item<T, SIZE>(at + v * SIZE, item_of(y, v));
      }
    }
  }
}
