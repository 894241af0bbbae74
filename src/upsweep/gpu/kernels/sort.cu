// A stable radix sort, eight bits of the keys a pass, that reads and writes each key once a pass: the digits of all passes are
// counted in one read, so that a pass is left out where all keys have the same digit. Then a tile of a pass counts its digits,
// looks back for how many there are in the tiles before it, and brings equal digits together in shared memory, so that stores
// touch. Adinets and Merrill, "Onesweep: a faster least significant digit radix sort for GPUs" (2022).
//   VALUE    what goes along with a key, if VALUES
//   COUNT    a word of the look-back: it has room for all keys
#include "digits.cuh"

struct Digits { const KEY* keys; i64 n; u64* counts; };

// How often each digit occurs in each pass: counts[pass][digit], zero before.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_digits(const __grid_constant__ Digits p) {
  __shared__ u32 bins[PASSES * DIGITS];
  for (int i = threadIdx.x; i < PASSES * DIGITS; i += THREADS) bins[i] = 0;
  __syncthreads();  // bins are empty
  for (i64 begin = (i64)blockIdx.x * TILE; begin < p.n; begin += (i64)gridDim.x * TILE) {
    const KEY* from = p.keys + begin + threadIdx.x;
    const int left = (int)min(p.n - begin, (i64)TILE) - threadIdx.x;
    KEY x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = k * THREADS < left ? from[k * THREADS] : (KEY)0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) if (k * THREADS < left) {
#pragma unroll
      for (int pass = 0; pass < PASSES; pass++) atomicAdd(bins + pass * DIGITS + digit_of(x[k], 8 * pass), 1u);
    }
  }
  __syncthreads();  // bins are full
  for (int i = threadIdx.x; i < PASSES * DIGITS; i += THREADS) if (bins[i]) atomicAdd(p.counts + i, (u64)bins[i]);
}

// The way of a pass. Where all keys have the same digit a pass is left out, but not the last one, which writes the result.
enum { RUNS = 1, FIRST = 2, ASIDE = 4 };  // it reads the keys as they came; it writes the other memory instead of the result

constexpr int WAY = 29;  // a ticket names a tile in its lower bits, and the way of the pass above

struct Starts { const u64* counts; i64 n; u64* tickets; COUNT* sums; i64 rows; };

// A block a pass: row 0 of its sums says where each digit begins. Row t + 1 is that of tile t.
extern "C" __global__ void __launch_bounds__(DIGITS) upsweep_starts(const __grid_constant__ Starts p) {
  __shared__ u64 counts[DIGITS];
  const int digit = threadIdx.x, own = blockIdx.x;
  counts[digit] = p.counts[own * DIGITS + digit];
  u32 runs = 1u << (PASSES - 1);
#pragma unroll
  for (int pass = 0; pass < PASSES - 1; pass++) runs |= !__syncthreads_or(p.counts[pass * DIGITS + digit] == p.n) << pass;
  __syncthreads();  // counts are there
  const u32 way = RUNS | (runs & (1u << own) - 1 ? 0 : FIRST) | (__popc(runs >> own) & 1 ? 0 : ASIDE);
  if (digit == 0 && runs >> own & 1) p.tickets[own] = way << WAY;
  u64 start = 0;
  for (int d = 0; d < digit; d++) start += counts[d];
  p.sums[own * p.rows * DIGITS + digit] = ALL<COUNT> | (COUNT)start;
}

struct Pass {
  const KEY* keys; i64 n;
  KEY *keys_out, *keys_aside;  // null: nobody asks for the keys
  const VALUE* values;         // null: the keys' places
  void *values_out, *values_aside; i64 wide;  // 1: the result as i64
  u32* ticket;
  COUNT* sums;
  i64 shift;
  i64 ahead;  // tiles between a block's own and the one that it asks the cache for
};

// Where the digit of this thread goes on in tile t: eight tiles are asked at a time.
__device__ __forceinline__ COUNT look_back(const COUNT* sums, i64 t) {
  COUNT sum = 0;
  for (i64 row = t;;) {
    COUNT w[8];
#pragma unroll
    for (int j = 0; j < 8; j++) w[j] = read_count(sums + max(row - j, 0ll) * DIGITS);
    bool here = true;
#pragma unroll
    for (int j = 0; j < 8; j++) {
      here = here && w[j] >> COUNT_BITS<COUNT>;
      if (here) {
        sum += count_in(w[j]);
        if (w[j] & ALL<COUNT>) return sum;
        row--;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_pass(const __grid_constant__ Pass p) {
  constexpr int BYTES = max_of(max_of(2 * WARPS * DIGITS * 4, TILE * (int)sizeof(KEY)), VALUES ? TILE * (int)sizeof(VALUE) : 0);
  extern __shared__ __align__(16) char memory[];
  static_assert(BYTES == SHARED_BYTES, "the host asks for other memory");
  u32* counts = (u32*)memory;  // of each warp; behind them the lanes that have a digit
  KEY* keys = (KEY*)memory;
  __shared__ i64 goes[DIGITS];    // from a place in the tile to one in the output
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, shift = (int)p.shift;
  for (int i = threadIdx.x; i < 2 * WARPS * DIGITS; i += THREADS) counts[i] = 0;
  const u32 ticket = draw(p.ticket), way = ticket >> WAY;
  if (!way) return;
  const i64 t = ticket & (1u << WAY) - 1, begin = t * TILE;
  const KEY* const keys_in = way & FIRST ? p.keys : way & ASIDE ? p.keys_out : p.keys_aside;
  KEY* const keys_to = way & ASIDE ? p.keys_aside : p.keys_out;
  const int size = (int)min(p.n - begin, (i64)TILE), first = warp * STRIP + lane, present = size - first;
  const i64 ahead = begin + p.ahead * TILE, coming = min(p.n - ahead, (i64)TILE);
  fetch((const char*)(keys_in + ahead), coming * sizeof(KEY));
#if VALUES
  const VALUE* const values_in = way & FIRST ? p.values : (const VALUE*)(way & ASIDE ? p.values_out : p.values_aside);
  void* const values_to = way & ASIDE ? p.values_aside : p.values_out;
  if (values_in) fetch((const char*)(values_in + ahead), coming * sizeof(VALUE));
#endif

  const KEY* from = keys_in + begin + first;
  KEY x[ITEMS];
  u32 rank[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) x[k] = 32 * k < present ? from[32 * k] : (KEY)0;
  rank_in_warp(x, rank, counts, shift, present);
  __syncthreads();  // all warps have counted
  const int mine = threadIdx.x;
  const u32 count = mine < DIGITS ? count_of(counts, mine) : 0;
  COUNT* sums = p.sums + mine;
  if (mine < DIGITS) write_count(sums + (t + 1) * DIGITS, OWN<COUNT> | count);
  const u32 start = sum_before(count);  // of this digit, in the tile
  if (mine < DIGITS) starts_of(counts, mine, start);
  __syncthreads();  // each warp's digits have their starts
#pragma unroll
  for (int k = 0; k < ITEMS; k++) rank[k] = (rank[k] & 0xffffff) + counts[warp * DIGITS + (rank[k] >> 24)];
  __syncthreads();  // nobody needs the counts: keys take their place
#pragma unroll
  for (int k = 0; k < ITEMS; k++) keys[rank[k]] = x[k];
  if (mine < DIGITS) {
    COUNT before = look_back(sums, t);
    write_count(sums + (t + 1) * DIGITS, ALL<COUNT> | before + count);
    goes[mine] = (i64)before - start;
  }
  __syncthreads();  // the tile is in order, and it is known where its digits go; that of place k waits in the top of rank[k]
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = k * THREADS + threadIdx.x;
    if (i >= size) continue;
    KEY key = keys[i];
    const u32 digit = digit_of(key, shift);
    if (VALUES) rank[k] |= digit << 24;
    if (keys_to) keys_to[goes[digit] + i] = key;
  }
#if VALUES
  VALUE* values = (VALUE*)memory;
  VALUE v[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (!values_in) v[k] = (VALUE)(begin + first + 32 * k);
    else v[k] = 32 * k < present ? values_in[begin + first + 32 * k] : (VALUE)0;
  }
  __syncthreads();  // nobody needs the keys: values take their place
#pragma unroll
  for (int k = 0; k < ITEMS; k++) values[rank[k] & 0xffffff] = v[k];
  __syncthreads();  // values are in order
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = k * THREADS + threadIdx.x;
    if (i >= size) continue;
    i64 to = goes[rank[k] >> 24] + i;
    if (p.wide) ((i64*)values_to)[to] = (i64)values[i];
    else ((VALUE*)values_to)[to] = values[i];
  }
#endif
}
