// Scans of many rows whose neighbours lie otherwise in the results than in the input, or of which few lie together: a block walks a
// tile of rows down the axis, item by item, and waits for no other block. The items that follow come to shared memory meanwhile. A
// thread has the same pieces of each step, and keeps their prefixes. Where the order of evaluation counts, these come of a counter of
// block sums, whose blocks are those of Brent and Kung's tree (1982).
#include "bring_tile.cuh"
#include "elements.cuh"

// A thread's pieces lie equally far apart, in the results as in shared memory: every STEPth of the only run, or one of every RUN_STEPth.
constexpr bool ONE_RUN = STEP > 0;
constexpr u32 FROM_M = M_RUN ? 1 : TILE_M, OWN = ONE_RUN ? THREADS : PIECES * RUN_STEP * FROM_M;
constexpr int SETS = (OWN + THREADS - 1) / THREADS, AHEAD = STEP * AT_ONCE;
constexpr int COUNT = ONE_RUN ? (TILE_M * TILE_B - 1) / max_of(AHEAD, 1) + 1 + !EVEN_RUNS : (TILE_A - 1) / RUN_STEP + 1;
constexpr int BYTES = !ONE_RUN ? RUN_STEP * IN_A : M_RUN ? AHEAD / TILE_B * IN_M : AHEAD * IN_B;
constexpr bool WITHIN = GRAIN < WORD;  // lines begin within words

// The parts of lines that a thread brings of each step: every LINE_LANES lanes have a line.
struct Lines {
  static constexpr int ABREAST = THREADS / LINE_LANES, HIGH = (LINES - 1) / ABREAST + 1;
  const char* from[HIGH];
  int to[HIGH], bytes[HIGH];  // those of a line; none of one that does not exist

  __device__ __forceinline__ explicit Lines(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
      const u32 l = threadIdx.x / LINE_LANES + i * ABREAST, m = l / LINES_B, b = l % LINES_B;
      from[i] = tile.line(m, b);
      to[i] = Tile::at_line(m, b);
      bytes[i] = m < tile.lines_m && b < tile.lines_b ? tile.high - tile.low : -WORD;
    }
  }
  // Brings those of the next step.
  __device__ __forceinline__ void load(char* memory, i64 along) {
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
      const int before = WITHIN ? (int)((u64)from[i] & (WORD - 1)) : 0;
#pragma unroll
      for (int word = 0; word < LINE_WORDS; word += LINE_LANES) {
        const int byte = (word + threadIdx.x % LINE_LANES) * WORD;
        if (byte < bytes[i] + before) copy_async<WORD>(memory + to[i] + Tile::padded(byte), from[i] - before + byte);
      }
      from[i] += along;
    }
  }
};

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

// The items of a piece that the operator takes one by one, unless it takes a word of them; and all items of a thread.
typedef typename Input<0>::Load Load;
typedef typename Output<0>::Store Store;
constexpr int EACH = sizeof(Load) > SIZE ? 1 : AT_ONCE, COUNT_ALL = SETS * COUNT * EACH;

// The prefixes of a thread's items, step by step. All rows share their heads, so that no lane takes another way.
struct Prefixes {
  // For each level, the sum of the last block that ended with it, and what stands before the next one.
  Item sums[max_of(DEPTH, 1)][COUNT_ALL], befores[max_of(DEPTH, 1)][COUNT_ALL], last[COUNT_ALL];
  u32 heads = 0;  // bit l: a segment starts in the block of level l

  // Item t of each row becomes its result.
  __device__ __forceinline__ void next(i64 t, bool head, const Item& start, Item (&x)[COUNT_ALL]) {
    if constexpr (DEPTH == 0) {
      const bool anew = t == 0 || head;
#pragma unroll
      for (int e = 0; e < COUNT_ALL; e++) {
        const Item before = select(anew, start, last[e]);
        last[e] = select(anew && !INITIAL, x[e], op(before, x[e]));
        x[e] = EXCLUSIVE ? before : last[e];
      }
      return;
    }
    const bool before_head = t == 0 || head;
    const int level = __ffs((u32)t + 1) - 1;  // of the block that ends here
#pragma unroll
    for (int l = 0; l < DEPTH; l++) {
      if (l >= level) break;
      if (!head)
#pragma unroll
        for (int e = 0; e < COUNT_ALL; e++) x[e] = op(sums[l][e], x[e]);
      head |= heads >> l & 1;
    }
#pragma unroll
    for (int l = 0; l < DEPTH; l++)
      if (l == level) {
        const bool some = INITIAL || t + 1 > 1ll << l;
        heads = heads & ~(1u << l) | (u32)head << l;
#pragma unroll
        for (int e = 0; e < COUNT_ALL; e++) {
          const Item block = x[e], before = select(head || t + 1 == 1ll << l, start, befores[l][e]);
          sums[l][e] = block;
          x[e] = select(!INITIAL && (head || !some), block, op(before, block));
        }
      }
#pragma unroll
    for (int l = 0; l < DEPTH; l++)
      if (l < level)
#pragma unroll
        for (int e = 0; e < COUNT_ALL; e++) befores[l][e] = x[e];
    if constexpr (EXCLUSIVE)
#pragma unroll
      for (int e = 0; e < COUNT_ALL; e++) {
        const Item result = select(before_head, start, last[e]);
        last[e] = x[e];
        x[e] = result;
      }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_stepwise(const __grid_constant__ Params p) {
  await_marks();
  extern __shared__ __align__(128) char memory[];
  const Part part(p);
  const Tile tile(p, part);
  Lines lines(tile);
  Pieces pieces[SETS];
#pragma unroll
  for (int s = 0; s < SETS; s++) pieces[s] = Pieces(p, part, tile, threadIdx.x + s * THREADS);
  const i64 along = p.in_strides[0].along;
  i64 asked = 0;
  auto ask = [&] {  // for the next step, in the place of the one that all have read
    if (asked < p.n) lines.load(memory + (u32)asked % STAGES * STAGE_BYTES, along);
    commit_copies();
    asked++;
  };
  each<STAGES - 1>([&](auto) { ask(); });
  const Item start = start_of(p, 0);
  Prefixes prefixes;
#pragma unroll 1
  for (i64 t = 0; t < p.n; t++) {
    wait_copies<STAGES - 2>();
    __syncthreads();  // the tile of this step is there, and the one before has been read
    ask();
    const char* stage = memory + (u32)t % STAGES * STAGE_BYTES;
    const int moved = (int)(t * along);
    Item x[COUNT_ALL];
#pragma unroll
    for (int s = 0; s < SETS; s++) {
      const Pieces& own = pieces[s];
      int place[AT_ONCE];
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) place[v] = own.place[v] + (WITHIN ? own.line[v] + moved & WORD - 1 : 0);
#pragma unroll
      for (int j = 0; j < COUNT; j++) {
        const bool whole = own.whole(j);
        T raw[AT_ONCE];
        u32 word = 0;
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++) {
          raw[v] = T{};
          if (whole || own.has(j, v)) raw[v] = load_item<T, GRAIN>(stage + Tile::padded(place[v] + j * BYTES));
          word |= at_byte(raw[v], v * SIZE);
        }
#pragma unroll
        for (int v = 0; v < EACH; v++) {
          Load given;
          memcpy(&given, EACH < AT_ONCE ? (const void*)&word : (const void*)&raw[v], sizeof given);
          x[(s * COUNT + j) * EACH + v] = {convert<typename Component<0>::Acc>(given)};
        }
      }
    }
    prefixes.next(t, SEGMENTED && t > 0 && p.heads[t * p.heads_strides.along] != 0, start, x);
#pragma unroll
    for (int s = 0; s < SETS; s++) {
      Pieces& own = pieces[s];
      char* at = own.at;
      own.at += p.out_strides[0].along;
#pragma unroll
      for (int j = 0; j < COUNT; j++, at += own.apart) {
        T raw[AT_ONCE];
#pragma unroll
        for (int v = 0; v < EACH; v++) {
          const Store y = convert<Store>(x[(s * COUNT + j) * EACH + v].head);
          memcpy(&raw[v], &y, sizeof y);
        }
        if (own.whole(j)) {
          u32 word = 0;
#pragma unroll
          for (int v = 0; v < AT_ONCE; v++) word |= at_byte(raw[v], v * SIZE);
          if (AT_ONCE > 1) *(u32*)at = word;
          else store_item<T, Output<0>::grain>(at, raw[0]);
        } else
#pragma unroll
          for (int v = 0; v < AT_ONCE; v++) if (own.has(j, v)) store_item<T, SIZE>(at + v * SIZE, raw[v]);
      }
    }
  }
}
