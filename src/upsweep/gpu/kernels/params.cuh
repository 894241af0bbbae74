// Places, by the parameters of a launch: gpu/params.py lists the fields of Params, and writes it into spec.cuh.
#pragma once
#include "memory.cuh"

__device__ __forceinline__ i64 row_offset(const Params& p, const Strides& s, u64 row) {
  i64 offset = 0;
#pragma unroll
  for (int d = DIMS - 1; d > 0; d--) { offset += (i64)(row % p.dim[d]) * s.row[d]; row /= p.dim[d]; }
  return DIMS > 0 ? offset + (i64)row * s.row[0] : 0;
}

// The row that a ticket stands for, and the tile of the row.
struct Place { u64 row; i64 t; };
__device__ __forceinline__ Place place_of(const Params& p, i64 ticket) {
  if (p.tiles == 1) return {(u64)ticket, 0};
  if (p.tiles == p.tickets) return {0, ticket};
  u32 row = (u32)ticket / (u32)p.tiles;
  return {row, (u32)ticket - row * (u32)p.tiles};
}

// The stride from line to line, where CROSS of them are one of the innermost rows.
template <int CROSS> __device__ __forceinline__ i64 line_stride(const Strides& s) { return s.row[max_of(DIMS - 1, 0)] / CROSS; }

// The initial value of a row, or the identity; in column scans, of a column of it.
template <int CROSS = 1> __device__ __forceinline__ Item start_of(const Params& p, u64 row, i64 column = 0, i64 line = 0) {
  Item start;
  each<COMPONENTS>([&](auto c) {
    auto& value = get<c.value>(start);
    typedef typename Component<c.value>::Acc Acc;
    value = *(const Acc*)p.start_value[c.value].value;
    if (p.start[c.value])
      value = *(const Acc*)(p.start[c.value] + row_offset(p, p.start_strides[c.value], row) + column * p.start_column[c.value] +
                             (CROSS > 1 ? line * line_stride<CROSS>(p.start_strides[c.value]) : 0));
  });
  return start;
}

// The item of an input that serves a whole row: a number that came with the launch, or one item for each row, or for each column
// of it.
template <int I, class P> __device__ __forceinline__ auto still_item(const P& p, u64 row, i64 column = 0) {
  typedef typename Input<I>::Load Load;
  if constexpr (Input<I>::told >= 0) return convert<typename Input<I>::Value>(*(const Load*)p.in_value[Input<I>::told].value);
  else {
    const char* from = p.in[I] + row_offset(p, p.in_strides[I], row) + column * p.in_column[I];
    return convert<typename Input<I>::Value>(load_item<Load, Input<I>::grain>(from));
  }
}

// A reduction writes one item a row: what the finish makes of it.
template <class T> __device__ __forceinline__ void store_last(const Params& p, u64 row, const T& x) {
  each<OUTPUTS>([&](auto o) {
    typedef typename Output<o.value>::Store Store;
    store_item<Store, Output<o.value>::grain>(p.out[o.value] + row_offset(p, p.out_strides[o.value], row),
                                              convert<Store>(get<o.value>(Finish()(x, {}, 0))));
  });
}

// The index along the axis of the item that a scan comes to after j others.
__device__ __forceinline__ i64 index_of(const Params& p, i64 j) { return REVERSE ? p.n - 1 - j : j; }

// The indices of a run that begins after j others. Where 32 bits hold them (NEAR_ITEMS) the compiler must not see that more bits
// have been there: then a map that compares an index with a number of 32 bits compares one word.
struct Indices {
  i64 first;
  int near;
  __device__ __forceinline__ Indices(const Params& p, i64 j) : first(index_of(p, j)), near((int)first) { asm("" : "+r"(near)); }
  __device__ __forceinline__ i64 operator[](int i) const {
    int behind = REVERSE ? -i : i;
    return NEAR_ITEMS ? near + behind : first + behind;
  }
};
