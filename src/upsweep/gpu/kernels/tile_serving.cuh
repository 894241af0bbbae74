// What the warps of a block that scans long rows hand each other, and the two of them that serve the others: one publishes the sums of
// tiles, one looks back. One of them takes tickets.
#include "packed.cuh"
#include "thread.cuh"
#include "lookback.cuh"

constexpr int STRIP = 32 * ITEMS, PARTS = WARPS * STRIPS, TILE = PARTS * STRIP;  // a warp works strip by strip
typedef Region<32, ITEMS> Strip;
constexpr int STAGE_BYTES = PARTS * Strip::WARP_BYTES;
static_assert(SHARED_BYTES == STAGES * STAGE_BYTES + WARPS * OWN && NODE_WORDS == NODE, "choice.py counts otherwise");

constexpr bool KEPT = KEEPS && !REDUCE;  // one tile of a reduction is looked at again

// Lanes are swept by all lanes of their warp, though few have something to combine. Where an operation costs more than shared memory,
// groups of GROUP lanes hand their sums to the warp that publishes, each of whose lanes sweeps RUN of them, and get their prefixes back.
constexpr bool GATHERS = GROUP < 32;
constexpr int SUMS = PARTS * 32 / GROUP, RUN = GATHERS ? SUMS / 32 : 1, SPANS = GATHERS ? 1 : PARTS;
static_assert(!GATHERS || (!REDUCE && !PACKED), "lanes are gathered otherwise");
// Where operations bind, a look-back begins as soon as the one before it has ended: its warp hands back the prefixes, and the one that
// publishes takes tickets. Where memory does, it would ask for sums that are not there. Of a copy (H200), without -> so: e4m3 .724 ->
// .844, logaddexp of f8 .283 -> .310, by flags f4 .46 -> .48, f8 .262 -> .299; but four of f4 .896 -> .812.
constexpr bool EAGER = GATHERS && COMPONENTS == 1;
constexpr int LEAD = REDUCE ? 0 : 1;             // tiles that are summed before one is written

constexpr int RING = STAGES == 2 ? 4 : 8;

// How the lanes of a working warp are swept. Three components spill where the sweeps are written out: of f8 they ran at .61 of a copy in
// a loop; of more components four of f8 at .77 so, written out at .79, six of f4 at .80 and .81 (H200).
constexpr How SWEEPING = COMPONENTS == 3 && NODE > 2 ? ROLLED : INLINE;

// A tile asked for before there is room for it is summed late, and keeps all tiles after it waiting: affine .86 to .81. Not so
// where blocks take whole rows; and items of more than 16 bytes win more by tickets that come early, matrices .62 to .64 (H200).
// Tickets that the warps take which write, as those of columns do, come too early as well: f4 .89 to .86, affine .89 to .83 (H200).
constexpr bool PATIENT = !REDUCE && !CARRY && NODE <= 4;

// The sums that one lane of a serving warp sweeps, at an odd distance from those of the next lane, so that all lanes meet each bank
// once.
template <bool PADDED> struct Sums { Element at[RUN]; };
template <> struct Sums<true> { Element at[RUN]; alignas(Element) char pad[alignof(Element)]; };
typedef Sums<sizeof(Element) / alignof(Element) * RUN % 2 == 0 && GATHERS> LaneSums;

struct Shared {
  i64 ticket[RING];              // of the tiles in flight, the one asked for, the one just left
  LaneSums sums[2][SUMS / RUN];  // of the strips of a tile and of the next, or of groups of their lanes, and then the prefixes of these
  Prefix prefixes[2][SPANS + 1];  // of the strips, or of the tile; the last is the prefix of the next tile
  Item start[2];
  Item lanes[2][CHAINED ? PARTS : 1][32];  // the sum of a lane's segment in its strip, before the lane

  __device__ __forceinline__ Element& sum(int k, int i) { return sums[k & 1][i / RUN].at[i % RUN]; }
};

// Named barriers, each in two kinds, for even and odd tiles, so that whoever arrives may run ahead of whoever waits.
//   PUBLISH   the sums of a tile are in shared memory, or there is no such tile: for the warp that publishes
//   LOOK_BACK the same, for the warp that looks back: it must never hold up the other, or blocks wait in a chain
//   PREFIXES  the prefixes of a tile's strips are there
//   NEARLY    a warp is about to store, and will soon have room for another tile
//   TICKETS   the ticket of that tile is there, and the sums may be overwritten
//   OWN_SUM   where lanes are gathered: the block sums of the tile are there, for the warp that looks back
//   SPREAD    the same: the prefix of the tile is there, for the warp that publishes, unless look-backs are EAGER
enum { PUBLISH = 1, LOOK_BACK = 3, PREFIXES = 5, NEARLY = 7, TICKETS = 9, OWN_SUM = 11, SPREAD = 13 };
constexpr int TICKETED = WARPS + (GATHERS ? 1 : 2);  // the warps that meet for tickets
template <int ID, int COUNT> __device__ __forceinline__ void arrive(int k) {
  __syncwarp();  // a warp arrives as one, with all that its lanes have written
  asm volatile("bar.arrive %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}
template <int ID, int COUNT> __device__ __forceinline__ void await(int k) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}

// A tile's block sums, in place of the sums of its groups of lanes; the last is that of the tile, which lane 31 gets.
__device__ __forceinline__ Element gather(Shared& s, int k, int lane) {
  Element (&own)[RUN] = s.sums[k & 1][lane].at;
  Item x[RUN];
  u32 heads = 0;
#pragma unroll
  for (int i = 0; i < RUN; i++) { x[i] = own[i].value; heads |= (u32)head_of(own[i]) << i; }
  up_sweep(x, heads);
#pragma unroll
  for (int i = 0; i < RUN - 1; i++) own[i] = element(x[i], heads >> i & 1);
  return own[RUN - 1] = up_sweep<32, ROLLED>(element(x[RUN - 1], heads >> (RUN - 1) & 1), lane);
}

// The prefixes of the groups, in place of the block sums.
__device__ __forceinline__ void spread(Shared& s, int k, Prefix before, const Item& start, int lane) {
  Element (&own)[RUN] = s.sums[k & 1][lane].at;
  Item x[RUN];
  u32 heads = 0;
#pragma unroll
  for (int i = 0; i < RUN; i++) { x[i] = own[i].value; heads |= (u32)head_of(own[i]) << i; }
  __syncwarp();  // all lanes have read the sum of the tile, which lane 31 overwrites
  down_sweep<32, ROLLED>(before, lane, own[RUN - 1], start);
  down_sweep(x, heads, before, start);
  own[0].value = before.value;
#pragma unroll
  for (int i = 1; i < RUN; i++) own[i].value = x[i - 1];
}

// The ticket after `last`: where a block takes whole rows (CARRY), the next tile of the row, or a new row.
__device__ __forceinline__ i64 next_ticket(const Params& p, i64 last) {
  if (last >= 0 && gridDim.x >= p.tickets) return p.tickets;  // a block for each tile: none takes two
  if (!CARRY) return take_ticket(p);
  if (last >= 0 && ((u32)last + 1) % (u32)p.tiles) return last + 1;
  return take_ticket(p) * p.tiles;
}

// A tile that comes late keeps all tiles after it waiting: so whoever takes a ticket asks the second-level cache for the tile
// of a later one. It brought a sum of f4 from .89 to .92 of a copy, of f8 from .87 to .92. To ask for eight components takes the warp
// that looks back too long: eight of f4 .57 of a copy with it, .59 without; six and four of f8 .75 with it, .70 without (H200).
constexpr bool AHEAD = COMPONENTS < 8;
__device__ __forceinline__ void fetch_ahead(const Params& p, i64 ticket, int lane) {
  ticket += p.ahead;
  if (ticket >= p.tickets) return;
  Place at = place_of(p, ticket);
  i64 j = at.t * TILE;
  if (j < p.n) Strip::fetch_items(p, at.row, j, (int)min(p.n - j, (i64)TILE), lane);
}

__device__ __forceinline__ void ask(const Params& p, Shared& s, int k, int lane) {
  if (lane == 0) s.ticket[(k + STAGES) % RING] = next_ticket(p, s.ticket[(k + STAGES - 1) % RING]);
}
// The ticket for the stage of tile k, which will soon be free.
__device__ __forceinline__ void take_next(const Params& p, Shared& s, int k, int lane) {
  if (PATIENT) await<NEARLY, WARPS + 1>(k);
  if (!REDUCE) ask(p, s, k, lane);
  arrive<TICKETS, TICKETED>(k);
  if (AHEAD) fetch_ahead(p, __shfl_sync(FULL, s.ticket[(k + STAGES) % RING], 0), lane);
}

// The warp that publishes: at once, whatever the look-back of an earlier tile still waits for.
__device__ __forceinline__ void publish_tiles(const Params& p, Shared& s, int lane) {
  u32 epoch = p.control[2];
  for (int k = 0;; k++) {
    await<PUBLISH, WARPS + 1>(k);
    i64 ticket = s.ticket[k % RING];
    if (ticket >= p.tickets) break;
    auto [row, t] = place_of(p, ticket);
    Element sum = up_sweep<PARTS, LOOKING>(s.sum(k, lane % PARTS), lane);
    arrive<TICKETS, TICKETED>(k);
    if (!CARRY && p.tiles > 1) publish({p, row, epoch}, t, sum, lane);
  }
}

// The same warp where lanes are gathered. It waits for the prefix of a tile, or takes a ticket, when it has published the tile after it,
// which is all that the workers can sum before they have that prefix.
__device__ __forceinline__ void publish_gathered(const Params& p, Shared& s, int lane) {
  u32 epoch = p.control[2];
  for (int k = 0;; k++) {
    await<PUBLISH, WARPS + 1>(k);
    i64 ticket = s.ticket[k % RING];
    if (ticket < p.tickets) {
      Element sum = gather(s, k, lane);
      arrive<OWN_SUM, 2>(k);
      auto [row, t] = place_of(p, ticket);
      if (!CARRY && p.tiles > 1) publish({p, row, epoch}, t, sum, lane);
    }
    if (EAGER && k > 0) take_next(p, s, k - 1, lane);
    if (!EAGER && k > 0) {
      await<SPREAD, 2>(k - 1);
      spread(s, k - 1, s.prefixes[(k - 1) & 1][0], s.start[(k - 1) & 1], lane);
      arrive<PREFIXES, WARPS + 1>(k - 1);
    }
    if (ticket >= p.tickets) break;
  }
  if (EAGER && lane == 0) leave(p, epoch);
}

// The warp that looks back, and takes tickets unless it is EAGER.
__device__ __forceinline__ void look_back_tiles(const Params& p, Shared& s, int lane) {
  u32 epoch = p.control[2];
  Carry carry{{}, lane};
  Above above;
  for (int k = 0;; k++) {
    if (REDUCE) ask(p, s, k, lane);  // nobody waits for it while it is on its way
    await<LOOK_BACK, WARPS + 1>(k);
    i64 ticket = s.ticket[k % RING];
    if (ticket >= p.tickets) break;
    auto [row, t] = place_of(p, ticket);
    bool wanted = !REDUCE || t + 1 == p.tiles;
    Element swept, sum;
    if constexpr (!GATHERS) { swept = up_sweep<PARTS, LOOKING>(s.sum(k, lane % PARTS), lane); sum = from_lane(swept, 31); }
    auto own = [&] { if constexpr (GATHERS) { await<OWN_SUM, 2>(k); sum = s.sum(k, SUMS - 1); } };
    Item start = {};
    Prefix both;  // of this tile, and in the upper half of the lanes of the next
    if (wanted && (INITIAL || EXCLUSIVE || CARRY)) start = start_of(p, row);
    if constexpr (CARRY) {
      own();
      carry.fold_all(t, both, start);
      carry.push(t, sum);
      Prefix next = both;
      if (!EXCLUSIVE) carry.fold_all(t + 1, next, start);
      if (lane >= 16) both = next;
    } else if (wanted) {
      both = {start, INITIAL};
      if (p.tiles > 1) LookBack{{p, row, epoch}, t, sum, start, lane}.fold(both, above, own);
      else { own(); if (lane >= 16) fold(both, sum, start); }
    }
    if (wanted) {
      Prefix before = {from_lane(both.value, 0), INITIAL || t > 0};
      if constexpr (EAGER) spread(s, k, before, start, lane);
      if constexpr (!GATHERS) down_sweep<PARTS, LOOKING>(before, lane % PARTS, swept, start);
      if (lane < SPANS) s.prefixes[k & 1][lane] = before;
      if (lane == 31) { s.prefixes[k & 1][SPANS] = both; s.start[k & 1] = start; }
      if constexpr (GATHERS && !EAGER) arrive<SPREAD, 2>(k);
      else arrive<PREFIXES, WARPS + 1>(k);
    }
    if (!EAGER) take_next(p, s, k, lane);
  }
  if (!EAGER && lane == 0) leave(p, epoch);
}
