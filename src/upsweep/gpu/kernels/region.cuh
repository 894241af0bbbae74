// A region: the LANES * N consecutive items of all inputs, later of all outputs, and the heads of segments, that a group of
// lanes owns.
#pragma once
#include "memory.cuh"
#include "params.cuh"

template <int I, int LANES, int N> using LoadSlab =
    Slab<typename Input<I>::Load, Input<I>::mode, Input<I>::flip, Input<I>::grain, LANES, N>;
template <int O, int LANES, int N> using StoreSlab =
    Slab<typename Output<O>::Store, Output<O>::mode, Output<O>::flip, Output<O>::grain, LANES, N>;
template <int LANES, int N> using HeadSlab = Slab<u8, HEADS_MODE, HEADS_FLIP, 1, LANES, N>;

template <int LANES, int N> struct Region {
  // A place holds an input, which makes way for an output.
  static constexpr int PLACES = max_of(INPUTS, OUTPUTS);
  template <int S> static constexpr int area() {
    int load = 0, store = 0;
    if constexpr (S < INPUTS) load = LoadSlab<S, LANES, N>::AREA;
    if constexpr (S < OUTPUTS) store = StoreSlab<S, LANES, N>::AREA;
    return max_of(load, store);
  }
  // Block sums may take the places of the items that they are sums of, where they are no larger.
  template <int C> using SumSlab = Slab<typename Component<C>::Acc, ALIGNED, Input<0>::flip, 1, LANES, N>;
  template <int C = 0> static constexpr bool keeps() {
    if constexpr (C == COMPONENTS) return true;
    else if constexpr (C == PLACES) return false;
    else return SumSlab<C>::AREA <= area<C>() && keeps<C + 1>();
  }
  static constexpr bool KEEPS = keeps();
  template <int S> static constexpr int offset() { if constexpr (S == 0) return 0; else return offset<S - 1>() + area<S - 1>(); }
  static constexpr int AREA = offset<PLACES>() + (SEGMENTED ? HeadSlab<LANES, N>::AREA : 0);
  static constexpr int WARP_BYTES = (AREA * (32 / LANES) + 127) / 128 * 128;

  char* shared;  // of the warp
  int lane;      // within the warp

  template <class S, int OFFSET> __device__ __forceinline__ S slab() const {
    return S{shared, (lane / LANES * AREA + OFFSET) / 16, lane % LANES};
  }
  template <int I> __device__ __forceinline__ auto load_slab() const { return slab<LoadSlab<I, LANES, N>, offset<I>()>(); }
  template <int O> __device__ __forceinline__ auto store_slab() const { return slab<StoreSlab<O, LANES, N>, offset<O>()>(); }
  template <int C> __device__ __forceinline__ auto sum_slab() const { return slab<SumSlab<C>, offset<C>()>(); }
  __device__ __forceinline__ auto head_slab() const { return slab<HeadSlab<LANES, N>, offset<PLACES>()>(); }

  template <int I> static __device__ __forceinline__ Row in(const Params& p, u64 row) {
    return {p.in[I] + row_offset(p, p.in_strides[I], row), p.in_strides[I].along, 0, p.n};
  }
  template <int O> static __device__ __forceinline__ Row out(const Params& p, u64 row) {
    return {p.out[O] + row_offset(p, p.out_strides[O], row), p.out_strides[O].along, 0, p.n};
  }
  static __device__ __forceinline__ Row heads(const Params& p, u64 row) {
    return {p.heads + row_offset(p, p.heads_strides, row), p.heads_strides.along, p.heads_first, p.n};
  }

  // Starts the copies of the items from j on; the caller commits them.
  __device__ __forceinline__ void load(const Params& p, u64 row, i64 j) const {
    each<INPUTS>([&](auto i) { load_slab<i.value>().load(in<i.value>(p, row), j); });
    if constexpr (SEGMENTED) head_slab().load(heads(p, row), j);
  }

  static __device__ __forceinline__ void fetch_items(const Params& p, u64 row, i64 j, int count, int lane) {
    each<INPUTS>([&](auto i) { LoadSlab<i.value, LANES, N>::fetch_items(in<i.value>(p, row), j, count, lane); });
    if constexpr (SEGMENTED) HeadSlab<LANES, N>::fetch_items(heads(p, row), j, count, lane);
  }

  // Block sums in place of the items, lane by lane: what an up-sweep leaves need not be computed again.
  __device__ __forceinline__ void keep(const Item (&x)[N]) const {
    each<COMPONENTS>([&](auto c) {
      typename Component<c.value>::Acc raw[N];
#pragma unroll
      for (int k = 0; k < N; k++) raw[k] = get<c.value>(x[k]);
      sum_slab<c.value>().write(raw);
    });
  }
  __device__ __forceinline__ u32 kept(const Params& p, u64 row, i64 j, Item (&x)[N]) const {
    each<COMPONENTS>([&](auto c) {
      typename Component<c.value>::Acc raw[N];
      sum_slab<c.value>().read({}, 0, raw);
#pragma unroll
      for (int k = 0; k < N; k++) get<c.value>(x[k]) = raw[k];
    });
    return read_heads(p, row, j);
  }

  // This lane's run; bit k of the result: a segment starts at item k of it.
  __device__ __forceinline__ u32 read(const Params& p, u64 row, i64 j, Item (&x)[N]) const {
    Given given[N];
    each<INPUTS>([&](auto i) {
      typename Input<i.value>::Load raw[N];
      load_slab<i.value>().read(in<i.value>(p, row), j, raw);
#pragma unroll
      for (int k = 0; k < N; k++) get<i.value>(given[k]) = convert<typename Input<i.value>::Value>(raw[k]);
    });
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = Map()(given[k]);
    return read_heads(p, row, j);
  }

  __device__ __forceinline__ u32 read_heads(const Params& p, u64 row, i64 j) const {
    if constexpr (!SEGMENTED) return 0;
    else {
      u32 bits = head_slab().read_bits(heads(p, row), j);
      return j + lane % LANES * N == 0 ? bits & ~1u : bits;  // a row starts its first segment anyway
    }
  }

  __device__ __forceinline__ void write(const Item (&x)[N]) const {
    each<OUTPUTS>([&](auto o) {
      typename Output<o.value>::Store raw[N];
#pragma unroll
      for (int k = 0; k < N; k++) raw[k] = convert<typename Output<o.value>::Store>(get<o.value>(Finish()(x[k])));
      store_slab<o.value>().write(raw);
    });
  }

  __device__ __forceinline__ void store(const Params& p, u64 row, i64 j) const {
    each<OUTPUTS>([&](auto o) { store_slab<o.value>().store(out<o.value>(p, row), j); });
  }

  // A reduction writes one item a row.
  static __device__ __forceinline__ void store_last(const Params& p, u64 row, const Item& x) {
    each<OUTPUTS>([&](auto o) {
      typedef typename Output<o.value>::Store Store;
      store_item<Store, Output<o.value>::grain>(p.out[o.value] + row_offset(p, p.out_strides[o.value], row),
                                                convert<Store>(get<o.value>(Finish()(x))));
    });
  }
};

// The last item of a reduction, taken from the run that holds it.
template <int LANES, int N> __device__ __forceinline__
void store_reduction(const Params& p, u64 row, i64 run, const Item (&x)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) if (run + k == p.n - 1) Region<LANES, N>::store_last(p, row, x[k]);
}
