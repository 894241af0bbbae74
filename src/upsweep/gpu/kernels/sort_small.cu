// A stable sort of few keys in one launch: all passes of sort.cu. A tile stays in its block's registers. One block alone exchanges
// keys in shared memory. Several, which all run at once, exchange them in global memory: each learns the counts of all tiles, writes
// its keys to where the next pass has them, and waits until all have done so.
//   VALUE     what goes along with a key, if VALUES
//   SEVERAL   more than one block
#include "digits.cuh"

struct Small {
  const KEY* keys; i64 n;
  KEY* keys_out;        // null: nobody asks for the keys
  const VALUE* values;  // null: the keys' places
  void* values_out; i64 wide;  // 1: the result as i64
  // With several blocks, memory between passes, twice as much as for all keys; a word for each digit of each tile, twice; and the
  // number of blocks that have come to a meeting. Words and number are zero before.
  KEY* keys_aside; VALUE* values_aside; u32 *sums, *come;
};

// What each thread holds: keys and values, neighbours with neighbours.
struct Held { KEY x[ITEMS]; VALUE v[ITEMS]; };

// Brings the items that each thread holds to their places, and gives each thread the items that lie in its own places.
template <class T> __device__ __forceinline__ void exchange(T (&x)[ITEMS], const u32 (&rank)[ITEMS], char* memory, int first) {
  T* const all = (T*)memory;
  __syncthreads();  // nobody needs what was there
#pragma unroll
  for (int k = 0; k < ITEMS; k++) all[rank[k]] = x[k];
  __syncthreads();  // they are in order
#pragma unroll
  for (int k = 0; k < ITEMS; k++) x[k] = all[first + 32 * k];
}

// Loads a tile; the first `present` items from a lane's own place on exist.
__device__ __forceinline__ void load(Held& held, const KEY* keys, const VALUE* values, i64 from, int present) {
#pragma unroll
  for (int k = 0; k < ITEMS; k++) held.x[k] = 32 * k < present ? keys[from + 32 * k] : (KEY)0;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (!VALUES) continue;
    if (!values) held.v[k] = (VALUE)(from + 32 * k);
    else held.v[k] = 32 * k < present ? values[from + 32 * k] : (VALUE)0;
  }
}
template <class To> __device__ __forceinline__ void store(const Held& held, KEY* keys, void* values, bool wide, int present, To to) {
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (32 * k >= present) continue;
    const u32 at = to(k);
    if (keys) keys[at] = held.x[k];
    if (VALUES && wide) ((i64*)values)[at] = (i64)held.v[k];
    else if (VALUES) ((VALUE*)values)[at] = held.v[k];
  }
}

// How many keys have a digit, in all tiles and in those before tile t.
struct Tally { u32 all, before; };

constexpr int SHARES = THREADS / DIGITS, AT_ONCE = 16, TAG = 24;  // the pass stands above a count, and words are those of every other pass
static_assert(TILE < 1 << TAG, "a count has 24 bits");

// Publishes the count of a digit, and waits for those of all tiles. Threads share them out, DIGITS threads a share.
__device__ __forceinline__ Tally tally(const Small& p, u32 pass, u32 count) {
  __shared__ u32 all[SHARES][DIGITS], before[SHARES][DIGITS];
  const int tiles = gridDim.x, t = blockIdx.x, share = threadIdx.x / DIGITS, digit = threadIdx.x % DIGITS;
  u32* const sums = p.sums + (pass & 1) * tiles * DIGITS + digit;
  if (share == 0) write_count(sums + t * DIGITS, pass + 1 << TAG | count);
  u32 own_all = 0, own_before = 0;
  for (int first = share; first < tiles; first += AT_ONCE * SHARES) {
    u32 w[AT_ONCE];
    bool there;
    do {
      there = true;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) w[j] = read_count(sums + min(first + j * SHARES, tiles - 1) * DIGITS);
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) there = there && w[j] >> TAG == pass + 1;
    } while (!there);
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int tile = first + j * SHARES;
      const u32 of_tile = tile < tiles ? w[j] & (1u << TAG) - 1 : 0;
      own_all += of_tile;
      own_before += tile < t ? of_tile : 0;
    }
  }
  all[share][digit] = own_all;
  before[share][digit] = own_before;
  __syncthreads();  // all shares are there
  Tally sum = {0, 0};
#pragma unroll
  for (int s = 0; s < SHARES; s++) { sum.all += all[s][digit]; sum.before += before[s][digit]; }
  return sum;
}

// All blocks come here before any goes on, and each sees what the others have written.
__device__ __forceinline__ void meet(const Small& p, u32 meeting) {
  __syncthreads();  // the block has written
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(p.come, 1u);
    while (read_count(p.come) < meeting * gridDim.x) {}
    __threadfence();
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_small(const __grid_constant__ Small p) {
  constexpr int BYTES = max_of(max_of(2 * WARPS * DIGITS * 4, TILE * (int)sizeof(KEY)), VALUES ? TILE * (int)sizeof(VALUE) : 0);
  extern __shared__ __align__(16) char memory[];
  static_assert(BYTES == SHARED_BYTES, "the host asks for other memory");
  __shared__ u32 goes[DIGITS];  // from a place in the tile to one in the output
  u32* const counts = (u32*)memory;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane, digit = threadIdx.x;
  const int n = (int)p.n, begin = blockIdx.x * TILE, size = min(n - begin, TILE), present = size - first;
  Held held;
  u32 rank[ITEMS], moves = 0;
  load(held, p.keys, p.values, begin + first, present);
#pragma unroll 1
  for (int pass = 0; pass < PASSES; pass++) {
    const int shift = 8 * pass;
    __syncthreads();  // nobody needs what was there
    for (int i = threadIdx.x; i < 2 * WARPS * DIGITS; i += THREADS) counts[i] = 0;
    __syncthreads();  // counts are empty
    rank_in_warp(held.x, rank, counts, shift, present);
    __syncthreads();  // all warps have counted
    const u32 count = digit < DIGITS ? count_of(counts, digit) : 0, keys = count - (digit == DIGITS - 1 ? TILE - size : 0);
    const Tally sum = SEVERAL ? tally(p, pass, keys) : Tally{keys, 0};
    if (__syncthreads_or(digit < DIGITS && sum.all == n)) continue;  // they all have this digit
    const u32 start = sum_before(count);
    if (digit < DIGITS) starts_of(counts, digit, start);
    __syncthreads();  // each warp's digits have their starts
    if (SEVERAL) {
      const u32 to = sum_before(digit < DIGITS ? sum.all : 0) + sum.before - start;
      if (digit < DIGITS) goes[digit] = to;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++) rank[k] = (rank[k] & 0xffffff) + counts[warp * DIGITS + (rank[k] >> 24)];
    exchange(held.x, rank, memory, first);
    if constexpr (VALUES) exchange(held.v, rank, memory, first);
    if (!SEVERAL) continue;
    const auto to = [&](int k) { return goes[digit_of(held.x[k], shift)] + first + 32 * k; };
    if (pass == PASSES - 1) {
      store(held, p.keys_out, p.values_out, p.wide, present, to);
      return;
    }
    const i64 aside = moves++ % 2 * p.n;  // who is late still reads the other half
    store(held, p.keys_aside + aside, p.values_aside + aside, false, present, to);
    meet(p, moves);
    load(held, p.keys_aside + aside, p.values_aside + aside, begin + first, present);
  }
  store(held, p.keys_out, p.values_out, p.wide, present, [&](int k) { return begin + first + 32 * k; });
}
