// How far each item is from the end of its links. Each item has a word: how many links it has gone, and the item it has
// come to. A thread adds that item's word to its own until its item has reached an end. This is pointer doubling. Nobody waits,
// since a word is always true. The first items lie far from each other; items between them come later and soon meet one that is
// at its end.
// Wyllie, "The complexity of parallel computations" (1979); Helman and JaJa, "Designing practical efficient algorithms for
// symmetric multiprocessors" (1999), whose splitters the first items are.
#include "counts.cuh"

constexpr u32 END = 0xffffffffu;
// n: less than 2^31.
struct Links { const LINK* links; i64 n; u64* words; i64* distances; int bits; };

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_link(const __grid_constant__ Links p) {
  const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.n) return;
  const i64 link = (i64)p.links[i];
  p.words[i] = link == -1 ? END : link < 0 || link >= p.n || link == i ? (u64)p.n << 32 | (u64)i : 1ull << 32 | (u64)link;
}

// Four neighbouring threads share a sector of memory. The first SPREAD fours lie 2^bits fours apart, the next ones in the middle
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
    // So many links are a circle.
    if (gone >= (u64)p.n) { p.distances[i] = -1; return; }
    word = gone << 32 | (u32)next;
    write_count(p.words + i, word);
  }
  p.distances[i] = (i64)(word >> 32);
}
