// How far each item is from the end of its links. An item has a word: how many links it has gone, and where to. A thread adds the
// word of that place to its own until its item has reached an end: pointer doubling, where nobody waits, since a word is always
// true. Items that are taken first lie far from each other, those between them come later and soon meet one that is at its end.
// Wyllie, "The complexity of parallel computations" (1979); Helman and JaJa, "Designing practical efficient algorithms for
// symmetric multiprocessors" (1999), whose splitters the first items are.
#include "counts.cuh"

constexpr u32 END = 0xffffffffu;
struct Links { const LINK* links; i64 n; u64* words; i64* distances; int bits; };  // n: less than 2^31

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_link(const __grid_constant__ Links p) {
  const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.n) return;
  const i64 link = (i64)p.links[i];
  p.words[i] = link == -1 ? END : link < 0 || link >= p.n || link == i ? (u64)p.n << 32 | (u64)i : 1ull << 32 | (u64)link;
}

// Threads by fours, of a sector of memory: those of the first SPREAD fours lie 2^bits fours apart, the next ones in the middle
// between them, and so on.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_climb(const __grid_constant__ Links p) {
  const i64 thread = (i64)blockIdx.x * THREADS + threadIdx.x, four = thread / 4;
  const i64 apart = p.bits ? (i64)(__brev((u32)(four / SPREAD)) >> (32 - p.bits)) : 0;
  const i64 i = 4 * ((four % SPREAD << p.bits) + apart) + thread % 4;
  if (i >= p.n) return;
  u64 word = read_count(p.words + i);
  while ((u32)word != END) {
    const u64 next = read_count(p.words + (u32)word);
    const u64 gone = (word >> 32) + (next >> 32);
    if (gone >= (u64)p.n) { p.distances[i] = -1; return; }  // a circle
    word = gone << 32 | (u32)next;
    write_count(p.words + i, word);
  }
  p.distances[i] = (i64)(word >> 32);
}
