// What the kernels of gated layers are told.
#pragma once
#include "pieces.cuh"

struct Params {
  Lines in[3], out, dx[3];   // on the way back `out` holds what the way forward has written
  Lines g;
  const Real *parameter, *initial;
  Real* last;
  const i64* offsets;        // of packed sequences, or null
  i64 steps, channels, groups;
  const Real* dlast;
  Real *dparameter, *dinitial;
};
