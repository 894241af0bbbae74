// Where each group starts among items in the order of their keys.
//   KEY   the type of an item of the keys
#include "differ.cuh"

// All NaNs are one key, as the zeros are.
__device__ __forceinline__ bool another(KEY a, KEY b) { return differ(a, b) && !(differ(a, a) && differ(b, b)); }

// With `more`, `heads` says already where one starts by the keys before these.
struct Heads { const KEY* keys; const i64* order; u8* heads; i64 n, more; };
extern "C" __global__ void __launch_bounds__(THREADS) upsweep_group_heads(const __grid_constant__ Heads p) {
  const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.n) return;
  bool head = i == 0 || (p.more && p.heads[i]);
  if (!head) head = another(p.keys[p.order[i]], p.keys[p.order[i - 1]]);
  p.heads[i] = head;
}
