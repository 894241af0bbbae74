// Counts that tiles hand to each other in one pass. The sums are integers, whose order is free, so one word is enough: its top
// two bits say whether it holds nothing yet, the count of a tile (OWN), or that of all tiles up to it (ALL). A tile waits only
// for tiles whose tickets were drawn earlier, and each tile publishes its own count before it waits, so that everyone gets on.
// Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back" (2016).
#pragma once
#include "prelude.cuh"

constexpr u32 FULL = 0xffffffffu;

template <class W> constexpr int COUNT_BITS = 8 * sizeof(W) - 2;
template <class W> constexpr W OWN = (W)1 << COUNT_BITS<W>;
template <class W> constexpr W ALL = (W)2 << COUNT_BITS<W>;
template <class W> __device__ __forceinline__ W count_in(W w) { return w & (OWN<W> - 1); }

__device__ __forceinline__ u32 read_count(const u32* at) { u32 w; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(w) : "l"(at) : "memory"); return w; }
__device__ __forceinline__ u64 read_count(const u64* at) { u64 w; asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(at) : "memory"); return w; }
__device__ __forceinline__ void write_count(u32* at, u32 w) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(w) : "memory"); }
__device__ __forceinline__ void write_count(u64* at, u64 w) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(w) : "memory"); }

// A tile's number, the same for all threads of a block. The barrier also separates earlier uses of shared memory.
__device__ __forceinline__ u32 draw(u32* ticket) {
  __shared__ u32 drawn;
  if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
  __syncthreads();
  return drawn;
}

// The sum over the lanes up to this one.
__device__ __forceinline__ u32 sum_to_lane(u32 x, int lane) {
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    u32 left = __shfl_up_sync(FULL, x, s);
    if (lane >= s) x += left;
  }
  return x;
}

// Asks the second-level cache for memory that a later tile will load: a tile that comes late keeps all tiles after it waiting.
__device__ __forceinline__ void fetch(const char* from, i64 bytes) {
#if __CUDA_ARCH__ >= 900
  u64 start = (u64)from + 15 & ~15ull;
  bytes = (i64)((u64)from + bytes - start) & ~15ll;
  if (threadIdx.x == 0 && bytes > 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(start), "r"((u32)bytes) : "memory");
#else
  for (i64 i = 128 * threadIdx.x; i < bytes; i += 128 * blockDim.x) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i) : "memory");
#endif
}
