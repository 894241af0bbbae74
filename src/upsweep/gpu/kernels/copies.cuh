// Memory on its way: pieces of an item, copies to shared memory without a wait, hints to the cache.
#pragma once
#include "prelude.cuh"

// Marks of segments are written by the launch before, for the end of which this one does not wait otherwise.
__device__ __forceinline__ void await_marks() {
#if SEGMENTED && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Copies of 16 bytes, the rest zero-filled. AGAIN: other rows of this multiprocessor want the bytes too, so its own cache keeps
// them.
template <bool AGAIN = false> __device__ __forceinline__ void copy_piece_async(u32 to, const char* from, int bytes) {
  if constexpr (AGAIN) asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  else asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
__device__ __forceinline__ void store_streaming(char* to, const uint4& v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
// Stores a piece. Only where a tile's results wait (STREAMED) may the cache give it up first, by .cs; elsewhere a plain store is faster
// (H200, .cs -> plain: f4 in rows of 1000 .952 -> .968 of a copy, of 100 .971 -> .979, batches of 7 x 3 .913 -> .940, x[1:] into y[1:]
// .933 -> .939).
template <bool STREAMED = false> __device__ __forceinline__ void store_piece(char* to, const uint4& v) {
  if constexpr (STREAMED) store_streaming(to, v);
  else asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Asks the second-level cache for memory that a block will load soon.
__device__ __forceinline__ void fetch(const char* from, u32 bytes, int lane) {
#if __CUDA_ARCH__ >= 900
  u64 start = (u64)from & ~15ull;
  if (lane == 0 && bytes >= 16) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(start), "r"(bytes & ~15u) : "memory");
#else
  for (u32 i = 128 * lane; i < bytes; i += 32 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i) : "memory");
#endif
}

// Asks the second-level cache for the sector of 32 bytes in which a row of results begins (`before` is 0), or ends before `at` (1), if it has bytes besides
// that nobody writes. Otherwise the cache reads a sector that was written in part, and does so when it has to make room.
__device__ __forceinline__ void fetch_end(const char* at, int before) {
  if ((u64)at & 31) asm volatile("prefetch.global.L2 [%0];" ::"l"(at - before) : "memory");
}

template <int BYTES> struct bits_of;
template <> struct bits_of<1> { typedef u8 type; };
template <> struct bits_of<2> { typedef u16 type; };
template <> struct bits_of<4> { typedef u32 type; };
template <> struct bits_of<8> { typedef u64 type; };
template <> struct bits_of<16> { typedef uint4 type; };

// An item whose address is a multiple of GRAIN only.
template <class T, int GRAIN> __device__ __forceinline__ T load_item(const char* p) {
  typedef typename bits_of<GRAIN>::type piece;
  union { T x; piece part[sizeof(T) / GRAIN]; } u;
#pragma unroll
  for (int i = 0; i < sizeof(T) / GRAIN; i++) u.part[i] = ((const piece*)p)[i];
  return u.x;
}
template <class T, int GRAIN> __device__ __forceinline__ void store_item(char* p, const T& x) {
  if constexpr (sizeof(T) == 2 && GRAIN == 1) {
    // Convert by way of 32 bits: to get the low byte of a half that has just been rounded, the compiler of CUDA 13.0 rounds the
    // number to an integer instead. The place may be in shared memory, where rows of two bytes wait.
    u16 bits;
    memcpy(&bits, &x, 2);
    u32 word = bits;
    asm volatile("" : "+r"(word));
    asm volatile("st.u8 [%0], %1; st.u8 [%0 + 1], %2;" ::"l"(p), "r"(word), "r"(word >> 8) : "memory");
  } else {
    typedef typename bits_of<GRAIN>::type piece;
    union { T x; piece part[sizeof(T) / GRAIN]; } u;
    u.x = x;
#pragma unroll
    for (int i = 0; i < sizeof(T) / GRAIN; i++) ((piece*)p)[i] = u.part[i];
  }
}

// LINES: other blocks want what lies beside it soon, so that whole lines come to the cache.
template <int BYTES, bool LINES = false> __device__ __forceinline__ void copy_async(char* to, const char* from) {
  if constexpr (LINES && BYTES == 16) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  else if constexpr (LINES && BYTES >= 4) asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES) : "memory");
  else if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  else if constexpr (BYTES >= 4) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES) : "memory");
  else *(typename bits_of<BYTES>::type*)to = *(const typename bits_of<BYTES>::type*)from;
}
