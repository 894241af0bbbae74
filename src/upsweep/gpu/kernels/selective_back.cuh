// A tile of the way back of a selective scan, and what the warps of a team have in shared memory.
#pragma once
#include "selective_serving.cuh"

// A lane walks OWN states of SIDE channels, so that it adds what these give to the sums over channels by itself. A team has
// WIDTH channels; the warps that serve share each tile, and SLOTS tiles are under way.
constexpr int WALKERS = LANES / SIDE, THREADS = 32 * TEAMS * (WALKERS + SERVERS), SLOTS = 2;
static_assert(STEPS == CHUNK && 2 * STEPS == WIDTH, "a tile begins at a kept state; its states take the place of its sums");
// Lanes of a warp whose states lie in another order each, and lanes whose states lie in the same order. The lanes of the first
// kind give sums over channels to one another without choosing among registers.
constexpr int TURNS = OWN < 32 / LANES ? OWN : 32 / LANES, REST = 32 / LANES / TURNS;
// What a bit of a turn is worth at least.
constexpr int UNIT = OWN / TURNS;
// Lanes of a channel that are left after they have given half of their channels away as often as they can.
constexpr int LEFT_LANES = LANES / SIDE;
// Steps from one state of the trail to the next.
constexpr int KEPT = 2;

// Neighbouring channels lie APART places apart in a tile, as the channels of the largest pieces do. The sums over channels and over
// states follow the places, so they have the same bits where pieces are smaller.
constexpr int NEAR = SIZE < 8 ? 4 : 2, APART = WIDTH / NEAR, PIECES = NEAR / VEC;
__device__ __forceinline__ int place_of(int piece, int v) { return (piece % PIECES * VEC + v) * APART + piece / PIECES; }
__device__ __forceinline__ int channel_at(int place) { return place % APART * NEAR + place / APART; }

// An item's numbers. It gives step, drive and dy to the walk, which puts the sums of dh b and of dh a h rate in place of drive and
// dy, and adds y.
struct alignas(16) Item { Real step, drive, dy, y; };

struct Tile {
  Item items[STEPS][WIDTH];
  // b, then c, of each step in every order.
  Pack<Real, OWN> shared[2][STEPS][TURNS][LANES];
  // The states before the tile, of each warp's places; in the end db and dc, summed over its channels.
  union { Real parts[WALKERS][STEPS * 2 * PADDED]; Pack<Real, OWN> mark[WALKERS][WIDTH][LANES]; };
};
struct Team {
  Tile tile[SLOTS];
  // The state before every KEPT-th step.
  Pack<Real, OWN> trail[STEPS / KEPT][SIDE][32 * WALKERS];
  u64 full[SLOTS], done[SLOTS], summed;
  // Of all channels, for each warp that serves.
  alignas(16) Real bias[SERVERS][WIDTH], skip[SERVERS][WIDTH];
};
static_assert(TEAMS * sizeof(Team) == MEMORY, "layers/ counts otherwise");
