// A stretch of memory that a block copies as it lies, in whole pieces of 16 bytes, by way of shared memory.
#pragma once
#include "memory.cuh"

// A block's part of one array. It begins in shared memory as it does in a piece of global memory.
template <class T> struct Stretch {
  char *shared, *from;
  int bytes;

  __device__ __forceinline__ int shift() const { return (int)((u64)from & 15); }
  // Calls move(at) for each piece of 16 bytes, which begins `at` bytes behind the start of the array's part.
  template <class F> __device__ __forceinline__ void each_piece(F&& move) const {
#pragma unroll 4
    for (int at = 16 * threadIdx.x - shift(); at < bytes; at += 16 * THREADS) move(at);
  }
  __device__ __forceinline__ void load() const {
    each_piece([&](int at) { copy_piece_async(shared_address(shared + shift() + at), from + at, min(bytes - at, 16)); });
  }
  __device__ __forceinline__ void store() const {
    each_piece([&](int at) { if (at >= 0 && at + 16 <= bytes) store_piece(from + at, *(const uint4*)(shared + shift() + at)); });
    each_end<sizeof(T), THREADS>(threadIdx.x, shift(), 0, bytes, [&](int at) { *(T*)(from + at) = *(const T*)(shared + shift() + at); });
  }
};
