// A row for each group: rows have as many items as a power of two, those of one length one behind the other.
//   LENGTHS   as many lengths as rows may have
#pragma once
#include "prelude.cuh"

__device__ __forceinline__ i64 behind(const i64* starts, i64 group, i64 groups, i64 n) { return group + 1 < groups ? starts[group + 1] : n; }
__device__ __forceinline__ int bits_of(i64 items) { return items > 1 ? 64 - __clzll(items - 1) : 0; }
