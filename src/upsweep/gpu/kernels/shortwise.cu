// Scans of short rows that lie one behind another in the results, while neighbours in the input lie along another dimension (A): a
// thread holds a row in registers, or several. So items come as they lie in the input, and results go by way of shared memory, a run
// of TILE_M rows for each of TILE_A neighbours.
#include "short_rows.cuh"

constexpr int A = DIMS - 2, M = DIMS - 1, SIZE = ITEM_BYTES;
typedef typename Input<0>::Load Load;
typedef typename Output<0>::Store Store;
typedef typename bits_of<SIZE>::type T;
// Rows that are a word, neighbours along A; items of a word of the results; the rows of a thread, UNIT along M of NEAR words along A.
constexpr int EACH = sizeof(Load) / SIZE, PER = SIZE < 4 ? 4 / SIZE : 1, OWN = UNIT * LENGTH;
constexpr u32 NEAR = TILE_A / EACH, UNITS = TILE_M / UNIT * NEAR;

// Word i becomes the i-th items of all words.
template <int N> __device__ __forceinline__ void turn_items(u32 (&w)[N]) {
  if constexpr (N == 4) turn_bytes(w);
  else if constexpr (N == 2) {
    const u32 first = __byte_perm(w[0], w[1], 0x5410);
    w[1] = __byte_perm(w[0], w[1], 0x7632);
    w[0] = first;
  }
}

// A thread's results to the runs of its rows, of which the first begins at `to`.
__device__ __forceinline__ void put(char* to, const Store (&y)[OWN]) {
  if constexpr (PER > 1 && OWN % PER == 0) {
#pragma unroll
    for (int j = 0; j < OWN; j += PER) {
      u32 w[PER] = {};
#pragma unroll
      for (int i = 0; i < PER; i++) memcpy(&w[i], &y[j + i], sizeof(Store));
      if constexpr (EACH > 1) turn_items(w);
      else {
#pragma unroll
        for (int i = 1; i < PER; i++) w[0] |= w[i] << 8 * SIZE * i;
      }
#pragma unroll
      for (int i = 0; i < EACH; i++) *(u32*)(to + i * PITCH + j * SIZE) = w[i];
    }
  } else {
#pragma unroll
    for (int j = 0; j < OWN; j++) {
      T x[EACH];
      memcpy(x, &y[j], sizeof(Store));
#pragma unroll
      for (int i = 0; i < EACH; i++) *(T*)(to + i * PITCH + j * SIZE) = x[i];
    }
  }
}

// Stores the 16 bytes behind byte `at` of a run.
__device__ __forceinline__ void store_shifted(char* to, const char* run, int at) {
  const u32* from = (const u32*)(run + (at & ~3));
  u32 w[5];
#pragma unroll
  for (int i = 0; i < 4 + (SIZE < 4); i++) w[i] = from[i];
  if constexpr (SIZE < 4) shift_words<0, 4>(w, 8 * (at & 3));
  store_piece(to, four(w));
}

// One block a multiprocessor is enough, so that registers hold all items of a thread before the first one is scanned.
extern "C" __global__ void __launch_bounds__(THREADS, 1) upsweep_shortwise(const __grid_constant__ Params p) {
  await_marks();
  extern __shared__ __align__(128) char memory[];
  const Strides &in = p.in_strides[0], &out = p.out_strides[0];
  i64 from = 0, to = 0;
  u32 block = blockIdx.x;
  auto some_of = [&](int d, int tile) {
    const u32 across = (u32)((p.dim[d] + tile - 1) / tile);
    u32 at = block % across;
    asm("" : "+r"(at));  // else the compiler divides 64 bits
    const i64 first = (i64)at * tile;
    block /= across;
    from += first * in.row[d];
    to += first * out.row[d];
    return (int)min(p.dim[d] - first, (i64)tile);
  };
  const int some_m = some_of(M, TILE_M);
#pragma unroll
  for (int d = A - 1; d >= 0; d--) some_of(d, 1);
  const int some_a = some_of(A, TILE_A);
  const Heads heads = SEGMENTED ? listed_heads(p) : 0;
  const Item start = INITIAL || EXCLUSIVE ? start_of(p, 0) : Item{};

#pragma unroll 1
  for (u32 u = threadIdx.x; u < UNITS; u += THREADS) {
    const int a = u % NEAR * EACH, m = u / NEAR * UNIT;
    if (a >= some_a || m >= some_m) continue;
    const char* at = p.in[0] + from + a * SIZE + m * in.row[M];
    Load raw[UNIT][LENGTH];
#pragma unroll
    for (int v = 0; v < UNIT; v++)
#pragma unroll
      for (int k = 0; k < LENGTH; k++)  // rows behind the last are that row again, and go nowhere
        raw[v][k] = load_item<Load, sizeof(Load)>(at + min(v, some_m - 1 - m) * in.row[M] + k * in.along);
    Store y[OWN];
#pragma unroll
    for (int v = 0; v < UNIT; v++) {
      Item x[ITEMS] = {};
#pragma unroll
      for (int k = 0; k < LENGTH; k++) x[k] = {convert<typename Component<0>::Acc>(raw[v][k])};
      scan_row(x, heads, start);
#pragma unroll
      for (int k = 0; k < LENGTH; k++) y[v * LENGTH + (FLIP ? LENGTH - 1 - k : k)] = convert<Store>(x[k].head);
    }
    put(memory + a * PITCH + m * (LENGTH * SIZE), y);
  }
  __syncthreads();  // all results are there

  char* first = p.out[0] + to - (FLIP ? (LENGTH - 1) * SIZE : 0);
  const int bytes = some_m * (LENGTH * SIZE);
#pragma unroll 2
  for (u32 i = threadIdx.x; i < TILE_A * (PITCH / 16 + 1); i += THREADS) {
    const u32 a = i / (PITCH / 16 + 1), c = i % (PITCH / 16 + 1);
    if (a >= some_a) break;
    char* run = first + a * out.row[A];
    const int at = 16 * c - (int)((u64)run & 15);
    const char* shared = memory + a * PITCH;
    if (at >= 0 && at + 16 <= bytes) store_shifted(run + at, shared, at);
    else if (at < bytes) {
#pragma unroll 1
      for (int b = max(at, 0); b < min(at + 16, bytes); b += SIZE) *(T*)(run + b) = *(const T*)(shared + b);
    }
  }
}
