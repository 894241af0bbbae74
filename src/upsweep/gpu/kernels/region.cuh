// A region: the LANES * N consecutive items of all inputs, later of all outputs, and the heads of segments, that a group of
// lanes owns.
#pragma once
#include "dense.cuh"
#include "params.cuh"

template <class T, class M, int LANES, int N, int HOW = M::mode> struct SlabOf { typedef DenseSlab<T, HOW, LANES, N> type; };
template <class T, class M, int LANES, int N> struct SlabOf<T, M, LANES, N, ALIGNED> { typedef Slab<T, ALIGNED, M::flip, M::grain, LANES, N> type; };
template <class T, class M, int LANES, int N> struct SlabOf<T, M, LANES, N, SHIFTED> { typedef Slab<T, SHIFTED, M::flip, M::grain, LANES, N> type; };
template <class T, class M, int LANES, int N> struct SlabOf<T, M, LANES, N, STRIDED> { typedef Slab<T, STRIDED, M::flip, M::grain, LANES, N> type; };
template <class T, class M, int LANES, int N> struct SlabOf<T, M, LANES, N, PLACED> { typedef PlacedSlab<T, M::flip, LANES, N> type; };
template <int I, int LANES, int N> using LoadSlab = typename SlabOf<typename Input<I>::Load, Input<I>, LANES, N>::type;
template <int O, int LANES, int N> using StoreSlab = typename SlabOf<typename Output<O>::Store, Output<O>, LANES, N>::type;

// The heads of a lane's run: bit k says that a segment starts at item k.
template <int N> struct HeadsOfRun { u32 w[(N + 31) / 32]; };
// A region holds them unless they are one list for all rows of a kernel that needs no copy of it. They are bytes, or bits, of which an
// item of the slab has PER.
constexpr bool HEADS_HERE = SEGMENTED && HEADS_AT >= 0;
template <int LANES, int N, bool BITS> struct HeadsOf { typedef Slab<u8, HEADS_MODE, HEADS_FLIP, 1, LANES, N> type; };
template <int LANES, int N> struct HeadsOf<LANES, N, true> {
  static constexpr int PER = N < 32 ? N : 32;
  static_assert(turn(N / PER) == turn(N), "slabs of a region turn their pieces alike");
  typedef Slab<typename bits_of<PER / 8>::type, ALIGNED, false, PER / 8, LANES, N / PER> type;
};
template <int LANES, int N> using HeadSlab = typename HeadsOf<LANES, N, HEADS_BITS>::type;

// Results of tiles that are carried on, or have a place of their own, ran at .852 and .828 of a copy otherwise, so at .882 (H200).
constexpr bool STREAMED = CARRY || OWN > 0;

template <int LANES, int N> struct Region {
  static constexpr int PER = N < 32 ? N : 32;  // heads in a word of bits
  static constexpr int WARP_BYTES = (AREA * (32 / LANES) + 127) / 128 * 128;

  char* shared;   // of the warp
  char* results;  // where its results lie: in the same place, or in one of their own
  int lane;       // within the warp

  template <int I> __device__ __forceinline__ auto load_slab() const { return LoadSlab<I, LANES, N>::of(shared, Input<I>::at, lane); }
  template <int O> __device__ __forceinline__ auto store_slab() const { return StoreSlab<O, LANES, N>::of(results, Output<O>::at, lane); }
  template <int C> __device__ __forceinline__ auto sum_slab() const {
    return Slab<typename Component<C>::Acc, ALIGNED, SUMS_FLIP, 1, LANES, N>::of(shared, Component<C>::at, lane);
  }
  __device__ __forceinline__ auto head_slab() const { return HeadSlab<LANES, N>::of(shared, HEADS_AT, lane); }

  template <int I> static __device__ __forceinline__ Row in(const Params& p, u64 row) {
    return {p.in[I] + row_offset(p, p.in_strides[I], row), p.in_strides[I].along, 0, p.n};
  }
  template <int O> static __device__ __forceinline__ Row out(const Params& p, u64 row) {
    return {p.out[O] + row_offset(p, p.out_strides[O], row), p.out_strides[O].along, 0, p.n};
  }
  static __device__ __forceinline__ Row heads(const Params& p, u64 row) {
    if constexpr (HEADS_BITS) return {p.heads, PER / 8, 0, (p.n + PER - 1) / PER};
    return {p.heads + row_offset(p, p.heads_strides, row), p.heads_strides.along, p.heads_first, p.n};
  }

  // Starts the copies of the items from j on; the caller commits them.
  __device__ __forceinline__ void load(const Params& p, u64 row, i64 j) const {
    each<INPUTS>([&](auto i) { if constexpr (!Input<i.value>::still) load_slab<i.value>().template load<Input<i.value>::again>(in<i.value>(p, row), j); });
    if constexpr (HEADS_HERE) head_slab().template load<HEADS_AGAIN>(heads(p, row), HEADS_BITS ? j / PER : j);
  }

  static __device__ __forceinline__ void fetch_items(const Params& p, u64 row, i64 j, int count, int lane) {
    each<INPUTS>([&](auto i) {
      if constexpr (!Input<i.value>::still) LoadSlab<i.value, LANES, N>::fetch_items(in<i.value>(p, row), j, count, lane);
    });
    if constexpr (HEADS_HERE && HEADS_BITS) HeadSlab<LANES, N>::fetch_items(heads(p, row), j / PER, (count + PER - 1) / PER, lane);
    else if constexpr (HEADS_HERE) HeadSlab<LANES, N>::fetch_items(heads(p, row), j, count, lane);
  }

  // Asks the cache for the ends of a row of results that touches no other.
  __device__ __forceinline__ void fetch_ends(const Params& p, u64 row) const {
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::apart) {
        const Row r = out<o.value>(p, row);
        const int bytes = (int)r.n * (int)sizeof(typename Output<o.value>::Store);
        const char* low = Output<o.value>::flip ? r.base + sizeof(typename Output<o.value>::Store) - bytes : r.base;
        for (int end = lane % LANES; end < 2; end += LANES) fetch_end(low + end * bytes, end);
      }
    });
  }

  // Block sums in place of the items, lane by lane: what an up-sweep leaves need not be computed again.
  __device__ __forceinline__ void keep(const Item (&x)[N]) const {
    each<COMPONENTS>([&](auto c) {
      typename Component<c.value>::Acc raw[N];
#pragma unroll
      for (int k = 0; k < N; k++) raw[k] = get<c.value>(x[k]);
      sum_slab<c.value>().write({}, 0, raw);
    });
  }
  __device__ __forceinline__ void kept(Item (&x)[N]) const {
    each<COMPONENTS>([&](auto c) {
      typename Component<c.value>::Acc raw[N];
      sum_slab<c.value>().read({}, 0, raw);
#pragma unroll
      for (int k = 0; k < N; k++) get<c.value>(x[k]) = raw[k];
    });
  }

  // This lane's run as it is read.
  __device__ __forceinline__ void read(const Params& p, u64 row, i64 j, Given (&given)[N]) const {
    each<INPUTS>([&](auto i) {
      if constexpr (Input<i.value>::still) {
        auto value = still_item<i.value>(p, row);
#pragma unroll
        for (int k = 0; k < N; k++) get<i.value>(given[k]) = value;
      } else {
        typename Input<i.value>::Load raw[N];
        typename Input<i.value>::Value value[N];
        load_slab<i.value>().read(in<i.value>(p, row), j, raw);
        convert_all(raw, value);
#pragma unroll
        for (int k = 0; k < N; k++) get<i.value>(given[k]) = value[k];
      }
    });
  }

  // The same as it is combined.
  __device__ __forceinline__ void read_items(const Params& p, u64 row, i64 j, Item (&x)[N]) const {
    Given given[N];
    read(p, row, j, given);
    Indices index(p, j + lane % LANES * N);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = Map()(given[k], index[k]);
  }

  __device__ __forceinline__ HeadsOfRun<N> read_heads(const Params& p, u64 row, i64 j) const {
    HeadsOfRun<N> bits = {};
    if constexpr (HEADS_HERE) {
      if constexpr (HEADS_BITS) {
        typename bits_of<PER / 8>::type own[N / PER];
        head_slab().read(heads(p, row), j / PER, own);
        memcpy(bits.w, own, N / 8);
      } else {
        head_slab().read_bits(heads(p, row), j, bits.w);
      }
      if (j + lane % LANES * N == 0) bits.w[0] &= ~1u;  // a row starts its first segment anyway
    }
    return bits;
  }
  // Heads that came as bytes, as bits in their place: a second look at them is one load.
  static constexpr bool KEEPS_HEADS = HEADS_HERE && !HEADS_BITS && N >= 4;
  __device__ __forceinline__ u32* own_heads() const { return (u32*)head_slab().item(lane * (int)sizeof(HeadsOfRun<N>)); }
  __device__ __forceinline__ void keep_heads(const HeadsOfRun<N>& bits) const {
    if constexpr (!KEEPS_HEADS) return;
    __syncwarp();  // all lanes have read theirs
    memcpy(own_heads(), bits.w, sizeof(bits.w));
  }
  __device__ __forceinline__ HeadsOfRun<N> kept_heads(const Params& p, u64 row, i64 j) const {
    if constexpr (!KEEPS_HEADS) return read_heads(p, row, j);
    HeadsOfRun<N> bits;
    memcpy(bits.w, own_heads(), sizeof(bits.w));
    return bits;
  }

  // What is written for the prefixes of this lane's run, in place of what was read.
  __device__ __forceinline__ void write(const Params& p, u64 row, i64 j, const Item (&x)[N], bool exists = true) const {
    Given given[N];
    Result y[N];
    if constexpr (READS_AGAIN) read(p, row, j, given);
    Indices index(p, j + lane % LANES * N);
#pragma unroll
    for (int k = 0; k < N; k++) y[k] = Finish()(x[k], given[k], index[k]);
    __syncwarp();  // all lanes have read their runs
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::run > 1) return write_sum<o.value>(p, row, j, y, exists);
      typename Output<o.value>::Store raw[N];
      auto first = get<o.value>(y[0]);
      decltype(first) value[N];
#pragma unroll
      for (int k = 0; k < N; k++) value[k] = get<o.value>(y[k]);
      convert_all(value, raw);
      store_slab<o.value>().write(out<o.value>(p, row), j, raw);
    });
  }

  // The sum over this lane's run, by the tree.
  template <int O> __device__ __forceinline__ void write_sum(const Params& p, u64 row, i64 j, const Result (&y)[N], bool exists) const {
    typedef typename Output<O>::Store Store;
    static_assert(Output<O>::run == 1 || Output<O>::run == N, "a lane holds one run");
    const i64 first = j + lane % LANES * N;
    Store sums[N];
#pragma unroll
    for (int k = 0; k < N; k++) sums[k] = convert<Store>(get<O>(y[k]));
    if (first + N > p.n) {  // the last run of a row may be short
#pragma unroll
      for (int k = 0; k < N; k++)
        if (first + k >= p.n) sums[k] = Store{};
    }
#pragma unroll
    for (int d = 1; d < N; d *= 2)
#pragma unroll
      for (int k = 0; k < N; k += 2 * d) sums[k] = sums[k] + sums[k + d];
    const Row to = out<O>(p, row);
    if (exists && first < p.n) store_item<Store, sizeof(Store)>(to.base + first / N * to.stride, sums[0]);
  }

  __device__ __forceinline__ void store(const Params& p, u64 row, i64 j, bool exists = true) const {
    each<OUTPUTS>([&](auto o) {
      if constexpr (Output<o.value>::run == 1) store_slab<o.value>().template store<STREAMED>(out<o.value>(p, row), j, exists);
    });
  }
};

// The last item of a reduction, taken from the run that holds it.
template <int LANES, int N> __device__ __forceinline__
void store_reduction(const Params& p, u64 row, i64 run, const Item (&x)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) if (run + k == p.n - 1) store_last(p, row, x[k]);
}
