// Neighbouring channels of a step, which a lane moves at once, and the arrays that they are pieces of.
#pragma once
#include "spec.cuh"
#include "copies.cuh"

constexpr int SIZE = sizeof(Value), VEC = GRAIN / SIZE;  // channels of a piece
struct alignas(GRAIN) Piece { Value x[VEC]; };

// A piece as it lies in registers: words, of which each of two narrow floats is cut where it is converted.
struct alignas(GRAIN) Raw {
  static constexpr int BYTES = GRAIN < 4 ? GRAIN : 4;
  typename bits_of<BYTES>::type w[GRAIN / BYTES];
  __device__ __forceinline__ Real operator[](int v) const {
    if constexpr (same<Value, bf16> && BYTES == 4) return convert<Real>(__uint_as_float(v % 2 ? w[v / 2] & 0xffff0000u : w[v / 2] << 16));
    else { Value x; memcpy(&x, (const char*)w + v * SIZE, SIZE); return convert<Real>(x); }
  }
};

// An array (sequences, steps, channels): where it begins, and its strides in bytes.
struct Lines { char* at; i64 sequence, step; };
