// Segments in other spellings, as flags or as bits: what the kernels share that write them. KEY is the type of an item of the keys.
#pragma once
#include "differ.cuh"

constexpr u32 FULL = 0xffffffffu;

// A block takes BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
constexpr int THREADS = 256, BATCH = 8;

// The scan that reads the marks may begin, and waits for them itself.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
