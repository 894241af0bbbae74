// Segments in other spellings, as flags or as bits: what the kernels share that write them. KEY is the type of an item of the keys.
#pragma once
#include "differ.cuh"

constexpr u32 FULL = 0xffffffffu;

// A block takes BATCH items for each of its threads, neighbours by neighbouring threads: so many loads are on their way at once.
constexpr int THREADS = 256, BATCH = 8;

struct Changes { const KEY* keys; u8* flags; i64 count, n, inner; };
