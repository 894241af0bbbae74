// An automaton over text: the tokens that each byte ends. Every chunk of text is a function from states to states, which a warp
// finds by running the chunk from all states at once. A composition of these functions gives each chunk the state in which it
// starts. Then a thread runs over each chunk. Hillis and Steele, "Data parallel algorithms" (1986); Mytkowicz, Musuvathi and
// Schulte, "Data-parallel finite-state machines" (2014).
//   A cell of the table holds the next state and the code of the tokens that the byte ends, by state and class of byte. The last
//   class stands for bytes outside of the text, and changes nothing.
#include "prelude.cuh"

constexpr u32 FULL = 0xffffffffu;
constexpr int OWN = (STATES + 31) / 32;  // states of a lane
constexpr int PIECE = 16;                // bytes that a thread reads at once

// Text begins `lead` bytes after a multiple of 16, from which chunks are counted, and ends `n` bytes after that multiple.
struct Automaton {
  const u8* text; i64 lead, n, chunks, group;
  const u32* table; const u8* classes;
  u16* functions;  // of the chunks, then those of groups of them: where each leads from every state
  u16* starts;     // the state in which each chunk begins, and the last
  CODE* codes;
};

struct Tables { u32 cells[STATES * CLASSES]; u8 classes[256]; };
__device__ __forceinline__ void bring(Tables& t, const Automaton& p) {
  for (int i = threadIdx.x; i < STATES * CLASSES; i += blockDim.x) t.cells[i] = p.table[i];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) t.classes[i] = p.classes[i];
  __syncthreads();  // the tables are there
}
__device__ __forceinline__ u32 class_at(const Tables& t, const Automaton& p, u32 byte, i64 i) {
  return i >= p.lead && i < p.n ? t.classes[byte] : OUTSIDE;
}
__device__ __forceinline__ u32 step(const Tables& t, u32 state, u32 of) { return t.cells[state * CLASSES + of]; }

// A warp goes over a chunk: every lane has states of its own.
__device__ __forceinline__ void function_of(const Tables& t, const Automaton& p, i64 chunk, int lane) {
  u32 state[OWN];
#pragma unroll
  for (int s = 0; s < OWN; s++) state[s] = min(s * 32 + lane, STATES - 1);
#pragma unroll 1
  for (i64 i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i += 32) {
    i64 at = i + lane;
    u32 mine = class_at(t, p, at >= p.lead && at < p.n ? p.text[at - p.lead] : 0, at);
#pragma unroll
    for (int k = 0; k < 32; k++) {
      u32 of = __shfl_sync(FULL, mine, k);
#pragma unroll
      for (int s = 0; s < OWN; s++) state[s] = step(t, state[s], of) & 0xffff;
    }
  }
#pragma unroll
  for (int s = 0; s < OWN; s++)
    if (s * 32 + lane < STATES) p.functions[chunk * STATES + s * 32 + lane] = (u16)state[s];
}
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_functions(const __grid_constant__ Automaton p) {
  __shared__ Tables t;
  bring(t, p);
  constexpr int WARPS = THREADS / 32;
  for (i64 chunk = (i64)blockIdx.x * WARPS + threadIdx.x / 32; chunk < p.chunks; chunk += (i64)gridDim.x * WARPS)
    function_of(t, p, chunk, threadIdx.x % 32);
}

// A thread for each group of chunks and state: the state that the group leads to.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_groups(const __grid_constant__ Automaton p) {
  const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, group = i / STATES;
  if (group * p.group >= p.chunks) return;
  u32 state = (u32)(i % STATES);
  for (i64 c = group * p.group; c < min((group + 1) * p.group, p.chunks); c++) state = p.functions[c * STATES + state];
  p.functions[p.chunks * STATES + i] = (u16)state;
}

// A thread for each group: from the start of the text to the start of the group, then over the group's chunks.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_starts(const __grid_constant__ Automaton p) {
  const i64 group = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (group * p.group >= p.chunks) return;
  u32 state = 0;
  for (i64 g = 0; g < group; g++) state = p.functions[(p.chunks + g) * STATES + state];
  for (i64 c = group * p.group; c < min((group + 1) * p.group, p.chunks); c++) {
    p.starts[c] = (u16)state;
    state = p.functions[c * STATES + state];
  }
  if ((group + 1) * p.group >= p.chunks) p.starts[p.chunks] = (u16)state;
}

// A thread for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_codes(const __grid_constant__ Automaton p) {
  __shared__ Tables t;
  bring(t, p);
  const i64 chunk = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (chunk >= p.chunks) return;
  u32 state = p.starts[chunk];
#pragma unroll 1
  for (i64 i = chunk * CHUNK; i < min((chunk + 1) * CHUNK, p.n); i += PIECE) {
    struct alignas(16) Bytes { u8 b[PIECE]; } text = *(const Bytes*)(p.text - p.lead + i);  // touches the text, so it can be read
    struct alignas(16) Codes { CODE c[PIECE]; } codes;
    const bool whole = i >= p.lead && i + PIECE <= p.n;
#pragma unroll
    for (int k = 0; k < PIECE; k++) {
      u32 cell = step(t, state, whole ? t.classes[text.b[k]] : class_at(t, p, text.b[k], i + k));
      codes.c[k] = (CODE)(cell >> 16);
      state = cell & 0xffff;
    }
    *(Codes*)(p.codes + i) = codes;
  }
}
