// A stable radix sort, eight bits of the keys a pass, that reads and writes each key once a pass: the digits of all passes are
// counted in one read; then a tile of a pass counts its digits, looks back for how many there are in the tiles before it, and
// brings equal digits together in shared memory, so that stores touch. Adinets and Merrill, "Onesweep: a faster least
// significant digit radix sort for GPUs" (2022).
//   KEY      an unsigned integer of the keys' size; ORDER and NAN_ABOVE say how it is ordered, FALLING that the largest goes first
//   VALUE    what goes along with a key, if VALUES
//   COUNT    a word of the look-back: it has room for all keys
#include "counts.cuh"

enum { UNSIGNED, SIGNED, FLOAT };
constexpr int WARPS = THREADS / 32, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS, DIGITS = 256, PASSES = sizeof(KEY);
static_assert(THREADS >= DIGITS, "a thread looks back for each digit");

// The key as an unsigned integer in the order wanted: all NaNs are equal and last, so are the zeros.
__device__ __forceinline__ KEY ordered(KEY key) {
  constexpr KEY sign = (KEY)1 << (8 * sizeof(KEY) - 1), most = sign - 1;
  KEY size = key & most;
  if (ORDER == SIGNED) key ^= sign;
  if (ORDER == FLOAT) key = size == 0 ? sign : size > (KEY)NAN_ABOVE ? (KEY)~(KEY)0 : key & sign ? (KEY)~key : (KEY)(key | sign);
  return FALLING ? (KEY)~key : key;
}
__device__ __forceinline__ u32 digit_of(KEY key, int shift) { return (u32)(ordered(key) >> shift) & (DIGITS - 1); }

struct Digits { const char* x; i64 stride, n; u64* counts; };

// How often each digit occurs in each pass: counts[pass][digit], zero before.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_digits(const __grid_constant__ Digits p) {
  __shared__ u32 bins[PASSES * DIGITS];
  for (int i = threadIdx.x; i < PASSES * DIGITS; i += THREADS) bins[i] = 0;
  __syncthreads();  // bins are empty
  for (i64 first = (i64)blockIdx.x * TILE + threadIdx.x; first < p.n; first += (i64)gridDim.x * TILE) {
    KEY x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) if (first + k * THREADS < p.n) x[k] = *(const KEY*)(p.x + (first + k * THREADS) * p.stride);
#pragma unroll
    for (int k = 0; k < ITEMS; k++) if (first + k * THREADS < p.n) {
#pragma unroll
      for (int pass = 0; pass < PASSES; pass++) atomicAdd(bins + pass * DIGITS + digit_of(x[k], 8 * pass), 1u);
    }
  }
  __syncthreads();  // bins are full
  for (int i = threadIdx.x; i < PASSES * DIGITS; i += THREADS) if (bins[i]) atomicAdd(p.counts + i, (u64)bins[i]);
}

// For thread `digit`, the sum of x over the digits before it.
__device__ __forceinline__ u32 sum_before(u32 x) {
  __shared__ u32 sums[DIGITS / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 sum = sum_to_lane(x, lane);
  if (lane == 31 && warp < DIGITS / 32) sums[warp] = sum;
  __syncthreads();  // the warps' sums are there
#pragma unroll
  for (int w = 0; w < DIGITS / 32; w++) if (w < warp) sum += sums[w];
  return sum - x;
}

struct Starts { const u64* counts; COUNT* sums; i64 rows; };

// A block a pass: row 0 of its sums says where each digit begins. Row t + 1 is that of tile t.
extern "C" __global__ void __launch_bounds__(DIGITS) upsweep_starts(const __grid_constant__ Starts p) {
  __shared__ u64 counts[DIGITS];
  const int digit = threadIdx.x;
  counts[digit] = p.counts[blockIdx.x * DIGITS + digit];
  __syncthreads();  // counts are there
  u64 start = 0;
  for (int d = 0; d < digit; d++) start += counts[d];
  p.sums[blockIdx.x * p.rows * DIGITS + digit] = ALL<COUNT> | (COUNT)start;
}

struct Pass {
  const char* keys; i64 stride, n;
  KEY* keys_out;            // null: nobody asks for the keys
  const VALUE* values;      // null: the keys' places
  void* values_out; i64 wide;  // 1: as i64
  u32* ticket;
  COUNT* sums;
  i64 shift;
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

// The lanes whose digit is that of this one.
__device__ __forceinline__ u32 peers_of(u32 digit) {
#if MATCH
  return __match_any_sync(FULL, digit);
#else
  u32 peers = FULL;
#pragma unroll
  for (int bit = 0; bit < 8; bit++) {
    bool set = digit >> bit & 1;
    u32 with = __ballot_sync(FULL, set);
    peers &= set ? with : ~with;
  }
  return peers;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_pass(const __grid_constant__ Pass p) {
  constexpr int BYTES = max_of(max_of(WARPS * DIGITS * 4, TILE * (int)sizeof(KEY)), VALUES ? TILE * (int)sizeof(VALUE) : 0);
  extern __shared__ __align__(16) char memory[];
  static_assert(BYTES == SHARED_BYTES, "the host asks for other memory");
  u32* counts = (u32*)memory;  // of each warp
  KEY* keys = (KEY*)memory;
  __shared__ u32 starts[DIGITS];  // of each digit in the tile
  __shared__ i64 goes[DIGITS];    // from a place in the tile to one in the output
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, shift = (int)p.shift;
  for (int i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) counts[i] = 0;
  const i64 t = draw(p.ticket), begin = t * TILE, first = begin + warp * STRIP + lane;
  const int size = (int)min(p.n - begin, (i64)TILE);

  KEY x[ITEMS];
  u32 rank[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) if (first + 32 * k < p.n) x[k] = *(const KEY*)(p.keys + (first + 32 * k) * p.stride);
  // What lies beyond the end counts as the last digit, behind all keys. No barrier but the warp's: its counts are its own.
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 digit = first + 32 * k < p.n ? digit_of(x[k], shift) : DIGITS - 1, peers = peers_of(digit);
    u32 before = counts[warp * DIGITS + digit], left = __popc(peers & ((1u << lane) - 1));
    __syncwarp();  // all lanes have read
    if (left == 0) counts[warp * DIGITS + digit] = before + __popc(peers);
    __syncwarp();  // one of each digit has written
    rank[k] = before + left;
  }
  __syncthreads();  // all warps have counted
  const int mine = threadIdx.x;
  u32 count = 0;
  COUNT* sums = p.sums + mine;
  if (mine < DIGITS) {
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      u32 own = counts[w * DIGITS + mine];
      counts[w * DIGITS + mine] = count;
      count += own;
    }
    write_count(sums + (t + 1) * DIGITS, OWN<COUNT> | count);
  }
  const u32 start = sum_before(mine < DIGITS ? count : 0);
  if (mine < DIGITS) starts[mine] = start;
  __syncthreads();  // starts are there
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 digit = first + 32 * k < p.n ? digit_of(x[k], shift) : DIGITS - 1;
    rank[k] += starts[digit] + counts[warp * DIGITS + digit];
  }
  __syncthreads();  // nobody needs the counts: keys take their place
#pragma unroll
  for (int k = 0; k < ITEMS; k++) keys[rank[k]] = x[k];
  if (mine < DIGITS) {
    COUNT before = look_back(sums, t);
    write_count(sums + (t + 1) * DIGITS, ALL<COUNT> | before + count);
    goes[mine] = (i64)before - start;
  }
  __syncthreads();  // the tile is in order, and it is known where its digits go
  u8 digits[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = k * THREADS + threadIdx.x;
    if (i >= size) continue;
    digits[k] = digit_of(keys[i], shift);
    if (p.keys_out) p.keys_out[goes[digits[k]] + i] = keys[i];
  }
#if VALUES
  VALUE* values = (VALUE*)memory;
  VALUE v[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (!p.values) v[k] = (VALUE)(first + 32 * k);
    else if (first + 32 * k < p.n) v[k] = p.values[first + 32 * k];
  }
  __syncthreads();  // nobody needs the keys: values take their place
#pragma unroll
  for (int k = 0; k < ITEMS; k++) values[rank[k]] = v[k];
  __syncthreads();  // values are in order
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    int i = k * THREADS + threadIdx.x;
    if (i >= size) continue;
    if (p.wide) ((i64*)p.values_out)[goes[digits[k]] + i] = (i64)values[i];
    else ((VALUE*)p.values_out)[goes[digits[k]] + i] = values[i];
  }
#endif
}
