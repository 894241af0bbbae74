// What a launch is told. Eight bytes each, so that the host packs them as one list; pointers first, they alone change.
#pragma once
#include "elements.cuh"

constexpr int LEVELS = 8;                       // 2^25 tiles in a row by radix 32, 2^24 in a column by radix 8
constexpr int RANK = DIMS > 0 ? DIMS : 1;

struct alignas(16) Start { u64 value[2]; };     // an initial value or the identity, as bytes of the accumulator
struct Strides { i64 along, row[RANK]; };

struct Params {
  u32* control;                                 // ticket, blocks done, epoch: zero, zero and non-zero between launches
  u32* arrivals;                                // of each group of nodes: zero between launches
  u64* nodes;                                   // words of {payload, epoch}
  u64 node_words;                               // how many there are, to clear when the epoch wraps
  char* in[COMPONENTS];
  char* out[COMPONENTS];
  char* heads;
  char* start[COMPONENTS];                      // null: the value below
  Start start_value[COMPONENTS];
  i64 n, rows;                                  // items of a row, rows
  i64 tiles, tickets;                           // tiles of a row, of all rows
  i64 ahead;                                    // how many tickets ahead of its own a block asks the cache for a tile
  i64 levels;                                   // of nodes
  i64 level_first[LEVELS], level_size[LEVELS];  // where the nodes of a level begin; how many there are for each row
  i64 dim[RANK];                                // the shape of the rows, slowest first
  Strides in_strides[COMPONENTS], out_strides[COMPONENTS], heads_strides;
  Strides start_strides[COMPONENTS];
  i64 heads_first;                              // 1: the head of item 0 lies outside (a reverse scan)
  i64 columns, column_groups;                   // column scans: neighbours in memory, and groups of them, one a tile
  i64 heads_column, start_column[COMPONENTS];   // strides from column to column
};

__device__ __forceinline__ i64 row_offset(const Params& p, const Strides& s, u64 row) {
  i64 offset = 0;
#pragma unroll
  for (int d = DIMS - 1; d > 0; d--) { offset += (i64)(row % p.dim[d]) * s.row[d]; row /= p.dim[d]; }
  return DIMS > 0 ? offset + (i64)row * s.row[0] : 0;
}

// Which row and which tile of it a ticket stands for.
struct Place { u64 row; i64 t; };
__device__ __forceinline__ Place place_of(const Params& p, i64 ticket) {
  if (p.tiles == 1) return {(u64)ticket, 0};
  if (p.tiles == p.tickets) return {0, ticket};
  u32 row = (u32)ticket / (u32)p.tiles;
  return {row, (u32)ticket - row * (u32)p.tiles};
}

// The initial value of a row, or the identity; of a column of it in column scans.
__device__ __forceinline__ Item start_of(const Params& p, u64 row, i64 column = 0) {
  Item start;
  each<COMPONENTS>([&](auto c) {
    auto& value = get<c.value>(start);
    typedef typename Component<c.value>::Acc Acc;
    value = *(const Acc*)p.start_value[c.value].value;
    if (p.start[c.value])
      value = *(const Acc*)(p.start[c.value] + row_offset(p, p.start_strides[c.value], row) + column * p.start_column[c.value]);
  });
  return start;
}
