// The parameters of flagged.cu.
#pragma once
#include "room.cuh"

struct Params {
  u32* control; u64* nodes; u64 node_words;  // of a workspace: epochs.cuh
  const KEY* x;
  const u8* flags;
  i64 n, skip;        // the first group starts `skip` flags before the first one, at a multiple of 16 bytes
  i64 groups, share;  // in all, and of a block at most
  Room small, large;  // the small one takes the result where all of it fits
  i64* count;         // here is written how many are set, in memory of the device or of the host
};
