// The parameters of gathered.cu.
#pragma once
#include "room.cuh"

struct Params {
  u32* control; u64* nodes; u64 node_words;  // of a workspace: epochs.cuh
  const KEY* x;
  i64 n, skip;        // so many items before the first does the first group start, at a multiple of 16 bytes
  i64 groups, share;  // in all, and of a block at most
  i64 held;           // items for which a block has shared memory
  KEY* aside;         // memory for half of all items
  Room small, large;  // the small one takes the result where all of it fits
  i64* count;         // here is written how many are kept, in memory of the device or of the host
};
