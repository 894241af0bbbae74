// Scans of batches of few columns, as of features over time: the lines of a batch lie one behind another, and so do the batches. A
// block copies whole batches as they lie by way of shared memory, and a lane walks down its columns there, ITEMS items at a time. It
// sweeps such a run up and down the tree; the sums of runs go into a binary counter, from which it folds the prefix of the next.
#include "params.cuh"
#include "stretch.cuh"
#include "thread.cuh"

constexpr int ABREAST = THREADS / COLUMNS;  // batches that lanes walk down side by side

// The sums of all runs so far, of aligned blocks of 1, 2, 4, ... runs: those that the bits of their number name.
struct Counter {
  Element sums[LEVELS_OF_RUNS];

  // Adds the sum of a run that comes after `runs` others.
  __device__ __forceinline__ void add(Element sum, int runs) {
    bool carried = true;
#pragma unroll
    for (int l = 0; l < LEVELS_OF_RUNS; l++) {
      if (carried && !(runs >> l & 1)) { sums[l] = sum; carried = false; }
      else if (carried) sum = combine(sums[l], sum);
    }
  }
  // The prefix behind `runs` runs: the fold of their blocks, the largest first.
  __device__ __forceinline__ Prefix behind(int runs, const Item& start) const {
    Prefix p{start, INITIAL};
#pragma unroll
    for (int l = LEVELS_OF_RUNS - 1; l >= 0; l--) if (runs >> l & 1) fold(p, sums[l], start);
    return p;
  }
};

// A block's batches of one array, which lie PAD bytes further apart in shared memory than in global memory where lanes would meet in
// the same banks: then all begin at pieces of 16 bytes.
template <class T> struct Batches : Stretch<T> {
  int batch;  // bytes of one
  using Stretch<T>::shared;
  using Stretch<T>::from;
  using Stretch<T>::bytes;

  template <class F> __device__ __forceinline__ void each_padded(F&& move) const {
    const u32 inverse = 0xffffffffu / batch + 1;
#pragma unroll 4
    for (int at = 16 * threadIdx.x; at < bytes; at += 16 * THREADS) move(shared + at + (int)__umulhi(at, inverse) * PAD, from + at);
  }
  __device__ __forceinline__ void load() const {
    if constexpr (PAD == 0) Stretch<T>::load();
    else each_padded([](const char* here, const char* there) { copy_piece_async(shared_address(here), there, 16); });
  }
  __device__ __forceinline__ void store() const {
    if constexpr (PAD == 0) Stretch<T>::store();
    else each_padded([](const char* here, char* there) { store_piece(there, *(const uint4*)here); });
  }
};

struct Lane {
  const Params& p;
  char* shared;
  u64 first;    // batch of the block
  int batches;  // of the block
  int column;
  const u32* list;  // bits of the heads that all columns share

  __device__ __forceinline__ int n() const { return LENGTH ? LENGTH : (int)p.n; }
  // Whether a run that begins at item j has item k. The last run of a column has the first SURE items, and none from MOST on.
  __device__ __forceinline__ bool has(int j, int k) const {
    return k < SURE || (LEVELS_OF_RUNS > 1 && j + ITEMS <= n()) || (k < MOST && j + k < n());
  }
  template <class T, class M> __device__ __forceinline__ Batches<T> stretch(char* base) const {
    constexpr int LINE = COLUMNS * sizeof(T);
    const int batch = n() * LINE;
    char* here = shared + M::at * n() + (16 + PAD * ABREAST * VECTOR) * M::place;
    return {{here, base + (i64)first * batch - (M::flip ? batch - LINE : 0), batches * batch}, batch};
  }
  template <int I> __device__ __forceinline__ auto in() const { return stretch<typename Input<I>::Load, Input<I>>(p.in[I]); }
  template <int O> __device__ __forceinline__ auto out() const { return stretch<typename Output<O>::Store, Output<O>>(p.out[O]); }
  // Item j of the lane's column in a batch of the block.
  template <class T, class M> __device__ __forceinline__ T* item(const Batches<T>& s, int batch, int j) const {
    return (T*)(s.shared + s.shift() + batch * PAD) + (batch * n() + (M::flip ? n() - 1 - j : j)) * COLUMNS + column;
  }

  template <int I> __device__ __forceinline__ void read(int batch, int j, Given (&given)[ITEMS]) const {
    typedef typename Input<I>::Load Load;
    typedef typename Input<I>::Value Value;
    if constexpr (Input<I>::still) {
      const auto value = still_item<I>(p, first + batch, column);
#pragma unroll
      for (int k = 0; k < ITEMS; k++) get<I>(given[k]) = value;
    } else {
      const Load* from = item<Load, Input<I>>(in<I>(), batch, j);
      constexpr int STEP = Input<I>::flip ? -COLUMNS : COLUMNS;
#pragma unroll
      for (int k = 0; k < ITEMS; k++) if (has(j, k)) get<I>(given[k]) = convert<Value>(from[k * STEP]);
    }
  }

  template <int O> __device__ __forceinline__ void write(int batch, int j, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    if constexpr (REDUCE) {
      char* to = p.out[O] + row_offset(p, p.out_strides[O], first + batch) + column * (i64)sizeof(Store);
#pragma unroll
      for (int k = 0; k < ITEMS; k++) if (j + k == n() - 1) store_item<Store, Output<O>::grain>(to, convert<Store>(get<O>(y[k])));
    } else {
      Store* to = item<Store, Output<O>>(out<O>(), batch, j);
      constexpr int STEP = Output<O>::flip ? -COLUMNS : COLUMNS;
#pragma unroll
      for (int k = 0; k < ITEMS; k++) if (has(j, k)) to[k * STEP] = convert<Store>(get<O>(y[k]));
    }
  }

  // Bit k is set where item k of a run starts a segment; the first item of a column starts one in any case.
  __device__ __forceinline__ u32 heads(int batch, int j) const {
    if constexpr (!SEGMENTED) return 0;
    if constexpr (LISTED) return list[j / 32] >> j % 32 & (u32)((1ull << ITEMS) - 1);
    const char* from = p.heads + row_offset(p, p.heads_strides, first + batch) + column * p.heads_column + j * p.heads_strides.along;
    u32 bits = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
      if ((k > 0 || j > 0) && has(j, k)) bits |= (from[k * p.heads_strides.along] != 0 ? 1u : 0u) << k;
    return bits;
  }

  __device__ __forceinline__ void walk(int batch) const {
    Item start = {};
    if (INITIAL || EXCLUSIVE) start = start_of(p, first + batch, column);
    Prefix before{start, INITIAL};
    Counter counter;
#pragma unroll 1
    for (int j = 0; j < n(); j += ITEMS) {
      Given given[ITEMS];
      Item x[ITEMS];
      Result y[ITEMS];
      each<INPUTS>([&](auto i) { read<i.value>(batch, j, given); });
      Indices index(p, j);
#pragma unroll
      for (int k = 0; k < ITEMS; k++) x[k] = Map()(given[k], index[k]);
      const u32 heads_of_run = heads(batch, j);
      if constexpr (SEQUENTIAL) {
        results_in_order(x, heads_of_run, before, start);
      } else {
        u32 swept = heads_of_run;
        up_sweep(x, swept);
        counter.add(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1), j / ITEMS);
        const Prefix after = counter.behind(j / ITEMS + 1, start);
        results(x, heads_of_run, swept, before, after.value, start);
        before = after;
      }
#pragma unroll
      for (int k = 0; k < ITEMS; k++) y[k] = Finish()(x[k], given[k], index[k]);
      each<OUTPUTS>([&](auto o) { write<o.value>(batch, j, y); });
    }
  }
};

// The bits of a list that all columns share: a lane looks at one head for its warp, and the bits lie before the items.
__device__ __forceinline__ void list_heads(const Params& p, u32* list) {
  for (int at = threadIdx.x; at - threadIdx.x % 32 < p.n; at += THREADS) {
    const u32 bits = __ballot_sync(0xffffffffu, at > 0 && at < p.n && p.heads[at * p.heads_strides.along] != 0);
    if (threadIdx.x % 32 == 0) list[at / 32] = bits;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) upsweep_batches(const __grid_constant__ Params p) {
  await_marks();
  extern __shared__ __align__(128) char memory[];
  const int own = threadIdx.x / COLUMNS;
  const u64 first = (u64)blockIdx.x * (VECTOR * ABREAST);
  const int batches = (int)min(p.rows - (i64)first, (i64)(VECTOR * ABREAST));
  const int list_bytes = LISTED ? ((LENGTH ? LENGTH : (int)p.n) + 127) / 128 * 16 : 0;
  Lane lane{p, memory + list_bytes, first, batches, (int)threadIdx.x % COLUMNS, (const u32*)memory};
  each<INPUTS>([&](auto i) { if constexpr (!Input<i.value>::still) lane.in<i.value>().load(); });
  commit_copies();
  if constexpr (LISTED) list_heads(p, (u32*)memory);
  wait_copies<0>();
  __syncthreads();  // every thread's copies have landed
  if (own < ABREAST)
#pragma unroll 1
    for (int batch = own; batch < batches; batch += ABREAST) lane.walk(batch);
  if constexpr (!REDUCE) {
    __syncthreads();  // all lanes have written their columns
    each<OUTPUTS>([&](auto o) { lane.out<o.value>().store(); });
  }
}
