// A stable sort of keys that one block holds, in one launch: all passes of sort.cu, from shared memory to shared memory.
//   VALUE    what goes along with a key, if VALUES
#include "digits.cuh"

struct Small {
  const KEY* keys; i64 n;
  KEY* keys_out;        // null: nobody asks for the keys
  const VALUE* values;  // null: the keys' places
  void* values_out; i64 wide;  // 1: the result as i64
};

// Brings what each thread holds to its place, and gives each what lies in its own places.
template <class T> __device__ __forceinline__ void exchange(T (&x)[ITEMS], const u32 (&rank)[ITEMS], char* memory, int first) {
  T* const all = (T*)memory;
  __syncthreads();  // nobody needs what was there
#pragma unroll
  for (int k = 0; k < ITEMS; k++) all[rank[k]] = x[k];
  __syncthreads();  // they are in order
#pragma unroll
  for (int k = 0; k < ITEMS; k++) x[k] = all[first + 32 * k];
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_small(const __grid_constant__ Small p) {
  constexpr int BYTES = max_of(max_of(2 * WARPS * DIGITS * 4, TILE * (int)sizeof(KEY)), VALUES ? TILE * (int)sizeof(VALUE) : 0);
  extern __shared__ __align__(16) char memory[];
  static_assert(BYTES == SHARED_BYTES, "the host asks for other memory");
  u32* const counts = (u32*)memory;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * STRIP + lane, digit = threadIdx.x;
  const int n = (int)p.n, present = n - first;
  KEY x[ITEMS];
  VALUE v[ITEMS];
  u32 rank[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) x[k] = 32 * k < present ? p.keys[first + 32 * k] : (KEY)0;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    if (!VALUES) continue;
    if (!p.values) v[k] = (VALUE)(first + 32 * k);
    else v[k] = 32 * k < present ? p.values[first + 32 * k] : (VALUE)0;
  }
#pragma unroll 1
  for (int shift = 0; shift < 8 * PASSES; shift += 8) {
    __syncthreads();  // nobody needs what was there
    for (int i = threadIdx.x; i < 2 * WARPS * DIGITS; i += THREADS) counts[i] = 0;
    __syncthreads();  // counts are empty
    rank_in_warp(x, rank, counts, shift, present);
    __syncthreads();  // all warps have counted
    const u32 count = digit < DIGITS ? count_of(counts, digit) : 0;
    const u32 keys = count - (digit == DIGITS - 1 ? TILE - n : 0);
    if (__syncthreads_or(digit < DIGITS && keys == n)) continue;  // they all have this digit
    const u32 start = sum_before(count);
    if (digit < DIGITS) starts_of(counts, digit, start);
    __syncthreads();  // each warp's digits have their starts
#pragma unroll
    for (int k = 0; k < ITEMS; k++) rank[k] = (rank[k] & 0xffffff) + counts[warp * DIGITS + (rank[k] >> 24)];
    exchange(x, rank, memory, first);
    if constexpr (VALUES) exchange(v, rank, memory, first);
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const int i = first + 32 * k;
    if (i >= n) continue;
    if (p.keys_out) p.keys_out[i] = x[k];
    if (VALUES && p.wide) ((i64*)p.values_out)[i] = (i64)v[k];
    else if (VALUES) ((VALUE*)p.values_out)[i] = v[k];
  }
}
