// Neighbouring channels of a step, which a lane moves at once, and the arrays that they are pieces of.
#pragma once
#include "spec.cuh"
#include "copies.cuh"

// VEC: channels of a piece.
constexpr int SIZE = sizeof(Value), VEC = GRAIN / SIZE;
struct alignas(GRAIN) Piece { Value x[VEC]; };

// A piece as it lies in registers: words. A narrow float is cut out of its word where it is converted.
struct alignas(GRAIN) Raw {
  static constexpr int BYTES = GRAIN < 4 ? GRAIN : 4;
  typename bits_of<BYTES>::type w[GRAIN / BYTES];
  __device__ __forceinline__ Real operator[](int v) const {
    if constexpr (same<Value, bf16> && BYTES == 4) return convert<Real>(__uint_as_float(v % 2 ? w[v / 2] & 0xffff0000u : w[v / 2] << 16));
    else { Value x; memcpy(&x, (const char*)w + v * SIZE, SIZE); return convert<Real>(x); }
  }
};

// Channels as they go to memory: one instruction rounds two narrow floats.
template <class R> __device__ __forceinline__ Piece rounded_piece(const R (&x)[VEC]) {
  Piece y;
#pragma unroll
  for (int v = 0; v < VEC; v += 2) {
#if __CUDA_ARCH__ >= 800
    if constexpr (same<R, f32> && VEC > 1 && (same<Value, bf16> || same<Value, f16>)) {
      u32 both;
      if constexpr (same<Value, bf16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x[v + 1]), "f"(x[v]));
      else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x[v + 1]), "f"(x[v]));
      memcpy(y.x + v, &both, 4);
      continue;
    }
#endif
    y.x[v] = convert<Value>(x[v]);
    if constexpr (VEC > 1) y.x[v + 1] = convert<Value>(x[v + 1]);
  }
  return y;
}

// An array (sequences, steps, channels): where it begins, and its strides in bytes.
struct Lines { char* at; i64 sequence, step; };
