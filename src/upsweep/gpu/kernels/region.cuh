// A region: the LANES * N consecutive items of all components (and the heads of segments) that a group of lanes owns.
#pragma once
#include "memory.cuh"
#include "params.cuh"

template <int C, int LANES, int N> using LoadSlab =
    Slab<typename Component<C>::Load, Component<C>::load_mode, Component<C>::load_flip, Component<C>::load_grain, LANES, N>;
template <int C, int LANES, int N> using StoreSlab =
    Slab<typename Component<C>::Store, Component<C>::store_mode, Component<C>::store_flip, Component<C>::store_grain, LANES, N>;
template <int LANES, int N> using HeadSlab = Slab<u8, HEADS_MODE, HEADS_FLIP, 1, LANES, N>;

template <int LANES, int N> struct Region {
  template <int C> static constexpr int area() { return max_of(LoadSlab<C, LANES, N>::AREA, StoreSlab<C, LANES, N>::AREA); }
  // Block sums may take the place of the items that they are sums of, where they are no larger.
  template <int C = 0> static constexpr bool keeps() {
    if constexpr (C == COMPONENTS) return true;
    else return sizeof(typename Component<C>::Acc) <= max_of(sizeof(typename Component<C>::Load), sizeof(typename Component<C>::Store)) && keeps<C + 1>();
  }
  static constexpr bool KEEPS = keeps();
  template <int C> static constexpr int offset() { if constexpr (C == 0) return 0; else return offset<C - 1>() + area<C - 1>(); }
  static constexpr int AREA = offset<COMPONENTS>() + (SEGMENTED ? HeadSlab<LANES, N>::AREA : 0);
  static constexpr int WARP_BYTES = (AREA * (32 / LANES) + 127) / 128 * 128;

  char* shared;  // of the warp
  int lane;      // within the warp

  template <class S, int OFFSET> __device__ __forceinline__ S slab() const {
    return S{shared, (lane / LANES * AREA + OFFSET) / 16, lane % LANES};
  }
  template <int C> __device__ __forceinline__ auto load_slab() const { return slab<LoadSlab<C, LANES, N>, offset<C>()>(); }
  template <int C> __device__ __forceinline__ auto store_slab() const { return slab<StoreSlab<C, LANES, N>, offset<C>()>(); }
  __device__ __forceinline__ auto head_slab() const { return slab<HeadSlab<LANES, N>, offset<COMPONENTS>()>(); }

  template <int C> static __device__ __forceinline__ Row in(const Params& p, u64 row) {
    return {p.in[C] + row_offset(p, p.in_strides[C], row), p.in_strides[C].along, 0, p.n};
  }
  template <int C> static __device__ __forceinline__ Row out(const Params& p, u64 row) {
    return {p.out[C] + row_offset(p, p.out_strides[C], row), p.out_strides[C].along, 0, p.n};
  }
  static __device__ __forceinline__ Row heads(const Params& p, u64 row) {
    return {p.heads + row_offset(p, p.heads_strides, row), p.heads_strides.along, p.heads_first, p.n};
  }

  // Starts the copies of the items from j on; the caller commits them.
  __device__ __forceinline__ void load(const Params& p, u64 row, i64 j) const {
    each<COMPONENTS>([&](auto c) { load_slab<c.value>().load(in<c.value>(p, row), j); });
    if constexpr (SEGMENTED) head_slab().load(heads(p, row), j);
  }

  static __device__ __forceinline__ void fetch_items(const Params& p, u64 row, i64 j, int count, int lane) {
    each<COMPONENTS>([&](auto c) { LoadSlab<c.value, LANES, N>::fetch_items(in<c.value>(p, row), j, count, lane); });
    if constexpr (SEGMENTED) HeadSlab<LANES, N>::fetch_items(heads(p, row), j, count, lane);
  }

  // Block sums in place of the items, lane by lane: what an up-sweep leaves need not be computed again.
  template <int C> __device__ __forceinline__ auto sum_slab() const {
    return slab<Slab<typename Component<C>::Acc, ALIGNED, Component<C>::load_flip, 1, LANES, N>, offset<C>()>();
  }
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
    each<COMPONENTS>([&](auto c) {
      typename Component<c.value>::Load raw[N];
      load_slab<c.value>().read(in<c.value>(p, row), j, raw);
#pragma unroll
      for (int k = 0; k < N; k++) get<c.value>(x[k]) = convert<typename Component<c.value>::Acc>(raw[k]);
    });
    return read_heads(p, row, j);
  }

  __device__ __forceinline__ u32 read_heads(const Params& p, u64 row, i64 j) const {
    if constexpr (!SEGMENTED) return 0;
    else {
      u32 bits = head_slab().read_bits(heads(p, row), j);
      return j + lane % LANES * N == 0 ? bits & ~1u : bits;  // a row starts its first segment anyway
    }
  }

  __device__ __forceinline__ void write(const Item (&y)[N]) const {
    each<COMPONENTS>([&](auto c) {
      if constexpr (Component<c.value>::stored) {
        typename Component<c.value>::Store raw[N];
#pragma unroll
        for (int k = 0; k < N; k++) raw[k] = convert<typename Component<c.value>::Store>(get<c.value>(y[k]));
        store_slab<c.value>().write(raw);
      }
    });
  }

  __device__ __forceinline__ void store(const Params& p, u64 row, i64 j) const {
    each<COMPONENTS>([&](auto c) { if constexpr (Component<c.value>::stored) store_slab<c.value>().store(out<c.value>(p, row), j); });
  }

  // A reduction writes one item a row.
  static __device__ __forceinline__ void store_last(const Params& p, u64 row, const Item& y) {
    each<COMPONENTS>([&](auto c) {
      typedef typename Component<c.value>::Store Store;
      if constexpr (Component<c.value>::stored)
        store_item<Store, Component<c.value>::store_grain>(p.out[c.value] + row_offset(p, p.out_strides[c.value], row),
                                                           convert<Store>(get<c.value>(y)));
    });
  }
};

// The last item of a reduction, taken from the run that holds it.
template <int LANES, int N> __device__ __forceinline__
void store_reduction(const Params& p, u64 row, i64 run, const Item (&x)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) if (run + k == p.n - 1) Region<LANES, N>::store_last(p, row, x[k]);
}
