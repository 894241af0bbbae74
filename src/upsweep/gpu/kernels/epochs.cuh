// Tickets and epochs: the words that a launch leaves behind for the next one on the same workspace.
#pragma once

constexpr u32 EPOCHS = 1u << 31;

__device__ __forceinline__ i64 take_ticket(const Params& p) { return atomicAdd(p.control, 1u); }

// The last block to leave makes the control words ready for the next launch, which then needs nothing from the host: so a launch
// replays in a CUDA graph. Epochs that wrap would meet their own past. So all nodes are cleared then.
__device__ __forceinline__ void leave(const Params& p, u32 epoch) {
  __threadfence();
  if (atomicAdd(p.control + 1, 1u) + 1 < gridDim.x) return;
  p.control[0] = 0;
  p.control[1] = 0;
  p.control[2] = epoch + 1;
  if (epoch + 1 == EPOCHS) {
    for (u64 i = 0; i < p.node_words; i++) p.nodes[i] = 0;
    p.control[2] = 1;
  }
}

// Moves the epoch on for the next launch. Epochs wrap. Twice on the way all nodes are cleared but the `used` words of this launch, so
// that none is ever as old as a turn.
__device__ __forceinline__ void move_on(const Params& p, u32 epoch, u64 used) {
  *(u64*)(p.control + 2) = epoch + 1 == EPOCHS ? 1 : epoch + 1;
  if ((epoch + 1) % (EPOCHS / 2) == 0)
    for (u64 i = used; i < p.node_words; i++) p.nodes[i] = 0;
}

// A launch whose `count` blocks take one ticket each does this instead: a ticket and the epoch come in one word, and the last
// ticket moves the epoch on.
struct alignas(8) Joined { u32 epoch, ticket; };
__device__ __forceinline__ Joined join(const Params& p, u32 count, u64 used) {
  const u64 found = atomicAdd((u64*)(p.control + 2), 1ull << 32);
  const u32 epoch = (u32)found, ticket = (u32)(found >> 32);
  if (ticket + 1 == count) move_on(p, epoch, used);
  return {epoch, ticket};
}
