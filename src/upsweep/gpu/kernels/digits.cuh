// Digits of keys, and the places of keys within a tile that is ordered by one digit.
//   KEY      an unsigned integer of the keys' size; ORDER and NAN_ABOVE say how it is ordered, FALLING that the largest goes first
#pragma once
#include "counts.cuh"

enum { UNSIGNED, SIGNED, FLOAT };
constexpr int WARPS = THREADS / 32, STRIP = 32 * ITEMS, TILE = THREADS * ITEMS, DIGITS = 256, PASSES = sizeof(KEY);
static_assert(THREADS >= DIGITS, "a thread looks back for each digit");

constexpr KEY SIGN = (KEY)1 << (8 * sizeof(KEY) - 1), ALL_BITS = (KEY)~(KEY)0;
constexpr KEY FLIPPED = (KEY)((ORDER == SIGNED ? SIGN : (KEY)0) ^ (FALLING ? ALL_BITS : (KEY)0));

// Eight bits of the key as an unsigned integer in the order wanted: all NaNs are equal and last, so are the zeros.
__device__ __forceinline__ u32 digit_of(KEY key, int shift) {
  if (ORDER == FLOAT) {
    KEY size = key & (KEY)~SIGN;
    key = size == 0 ? SIGN : size > (KEY)NAN_ABOVE ? ALL_BITS : key & SIGN ? (KEY)~key : (KEY)(key | SIGN);
  }
  return ((u32)(key >> shift) ^ (u32)(FLIPPED >> shift)) & (DIGITS - 1);
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

// The place of each key of a thread among those of the same digit in its warp, and in the top bits the digit. `counts` has a word
// for each warp and digit, and gets the warp's counts; behind them lie as many words for the lanes that have a digit. All are zero
// before. What lies beyond the end, from the key `present` of the lane's strip on, counts as the last digit, behind all keys.
__device__ __forceinline__ void rank_in_warp(const KEY (&x)[ITEMS], u32 (&rank)[ITEMS], u32* counts, int shift, int present) {
  // No barrier but the warp's: its counts are its own.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 *own = counts + warp * DIGITS, *same = own + WARPS * DIGITS;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 digit = 32 * k < present ? digit_of(x[k], shift) : DIGITS - 1, *with = same + digit;
    atomicOr(with, 1u << lane);
    __syncwarp();  // all lanes of a digit are in its word
    u32 peers = *with, before = own[digit], left = __popc(peers & ((1u << lane) - 1));
    __syncwarp();  // all lanes have read
    if (left == 0) {
      own[digit] = before + __popc(peers);
      *with = 0;
    }
    __syncwarp();  // one of each digit has written
    rank[k] = before + left | digit << 24;
  }
}

// How often a digit occurs in the tile.
__device__ __forceinline__ u32 count_of(const u32* counts, int digit) {
  u32 count = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) count += counts[w * DIGITS + digit];
  return count;
}

// Makes of the warps' counts of a digit the places of their first keys, where the digit starts at `start`.
__device__ __forceinline__ void starts_of(u32* counts, int digit, u32 start) {
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    const u32 one = counts[w * DIGITS + digit];
    counts[w * DIGITS + digit] = start;
    start += one;
  }
}
