// Keys of one row as bits: whether each differs from the key before it.
#include "marks.cuh"

// A warp makes BATCH words, and a lane has the item before its own from its neighbour. In the order of the scan items lie `inner` items
// apart: one, or as many backwards.
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_changes_bits(const __grid_constant__ Changes p) {
  let_next_begin();
  const int lane = threadIdx.x % 32;
  const i64 begin = ((i64)blockIdx.x * THREADS + threadIdx.x - lane) * BATCH;
  if (begin >= p.count) return;
  const int left = (int)min(p.count - begin, 32ll * BATCH) - lane;
  const KEY* from = p.keys + (begin + lane) * p.inner;
  KEY here[BATCH] = {}, last = p.keys[max(begin - 1, 0ll) * p.inner];
#pragma unroll
  for (int k = 0; k < BATCH; k++) if (32 * k < left) here[k] = from[32 * k * p.inner];
  u32 own = 0;
#pragma unroll
  for (int k = 0; k < BATCH; k++) {
    Words<KEY> w = to_words(here[k]);
#pragma unroll
    for (int i = 0; i < Words<KEY>::count; i++) w.w[i] = __shfl_sync(FULL, w.w[i], (lane + 31) % 32);
    KEY before = from_words<KEY>(w);
    bool head = differ(here[k], select(lane == 0, last, before)) || (k == 0 && begin + lane == 0);
    u32 word = __ballot_sync(FULL, head && 32 * k < left);
    if (lane == k) own = word;
    last = before;
  }
  if (lane < BATCH && 32 * lane < left + lane) ((u32*)p.flags)[begin / 32 + lane] = own;
}
