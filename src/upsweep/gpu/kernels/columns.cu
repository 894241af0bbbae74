// Scans along an axis whose neighbours in memory belong to other scans: columns. A lane is a column, so that a warp reads
// and writes whole cache lines; nothing is transposed. A tile is WARPS * ITEMS items of 32 * VECTOR columns. The pass is
// the one of tiles.cu; its look-back goes column by column (column_lookback.cuh), with two serving warps for 32 columns.
#include "thread.cuh"
#include "memory.cuh"
#include "column_lookback.cuh"

constexpr int TILE = WARPS * ITEMS, WIDTH = 32 * VECTOR, THREADS = 32 * (WARPS + 2 * VECTOR);

// The rectangle of one input that a warp owns: ITEMS items of WIDTH columns, item after item.
template <class T, int GRAIN> struct Patch {
  static constexpr int LINE = WIDTH * sizeof(T), BYTES = ITEMS * LINE;
  // `items` and `columns` say how much of it exists; the first items may be left out.
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 stride, i64 items, i64 columns, int lane, int skip = 0) {
    constexpr int PER_LINE = LINE / GRAIN, COUNT = BYTES / GRAIN;
    if constexpr (PER_LINE <= 32) {  // a lane keeps its place in the line
      constexpr int LINES = 32 / PER_LINE;
      int item = lane / PER_LINE, byte = lane % PER_LINE * GRAIN, exist = byte < (int)columns * (int)sizeof(T) ? (int)min(items, (i64)ITEMS) : 0;
      from += item * stride + byte;
      shared += item * LINE + byte;
      stride *= LINES;
#pragma unroll
      for (int i = 0; i < ITEMS; i += LINES, from += stride) if (i + item < exist && i + item >= skip) copy_async<GRAIN>(shared + i * LINE, from);
    } else {
      int exist = (int)columns * (int)sizeof(T);
#pragma unroll 8
      for (int c = lane; c < COUNT; c += 32) {
        int item = c / PER_LINE, byte = c % PER_LINE * GRAIN;
        if (item < items && item >= skip && byte < exist) copy_async<GRAIN>(shared + item * LINE + byte, from + item * stride + byte);
      }
    }
  }
};

// Asks the second-level cache for a rectangle that a block will load soon, line by line.
__device__ __forceinline__ void fetch_lines(const char* from, i64 stride, int items, int bytes, int lane) {
  for (int i = lane; i < items; i += 32)
    for (int b = 0; b < bytes; b += 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i * stride + b) : "memory");
}

template <int I> using ColumnPatch = Patch<typename Input<I>::Load, Input<I>::grain>;
typedef Patch<u8, HEADS_GRAIN> HeadPatch;
constexpr int WARP_BYTES = HEADS_AT + (SEGMENTED ? HeadPatch::BYTES : 0);

struct Shared {
  i64 ticket[4];
  Element sums[2][WARPS][WIDTH];         // of the warps of a tile and of the next
  Item prefixes[2][WARPS + 1][WIDTH];    // of the warps; the last is the prefix of the next tile
};
static_assert(SHARED_BYTES == STAGES * WARPS * WARP_BYTES + sizeof(Shared) && NODE_WORDS == NODE, "launch.py counts otherwise");

// Named barriers, each in two kinds, for even and odd tiles, so that whoever arrives may run ahead of whoever waits.
//   PUBLISH   the sums of a tile are in shared memory, or there is no such tile: for the warp that publishes
//   LOOK_BACK the same, for the warp that looks back: it must never hold up the other, or blocks wait in a chain
//   PREFIXES  the prefixes of a tile's warps are there
//   NEARLY    a warp is about to store, and will soon have room for another tile
//   TICKETS   the ticket of that tile is there, and the sums may be overwritten
enum { PUBLISH = 1, LOOK_BACK = 3, PREFIXES = 5, NEARLY = 7, TICKETS = 9 };
template <int ID, int COUNT> __device__ __forceinline__ void arrive(int k) {
  __syncwarp();  // a warp arrives as one, with all that its lanes have written
  asm volatile("bar.arrive %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}
template <int ID, int COUNT> __device__ __forceinline__ void await(int k) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}

// Tickets go along the columns first: a tile's upper neighbour is as many tickets back as there are groups of columns.
struct Spot { u64 row; i64 t, column; };
__device__ __forceinline__ Spot spot_of(const Params& p, i64 ticket) {
  u32 groups = (u32)p.column_groups, line = (u32)ticket / groups, group = (u32)ticket - line * groups;
  u32 row = line / (u32)p.tiles;
  return {row, line - row * (u32)p.tiles, (i64)group * WIDTH};
}

__device__ __forceinline__ ColumnTree tree_of(const Params& p, const Spot& at, int v, u32 epoch, int lane) {
  return {p, ((i64)at.row * p.column_groups + at.column / WIDTH) * VECTOR + v, epoch, lane};
}

// The block sums of a tile's warps, in place.
__device__ __forceinline__ void sum_warps(const Element (&sums)[WARPS][WIDTH], int column, Element (&e)[WARPS]) {
#pragma unroll
  for (int w = 0; w < WARPS; w++) e[w] = sums[w][column];
#pragma unroll
  for (int d = 1; d < WARPS; d *= 2)
#pragma unroll
    for (int w = 2 * d - 1; w < WARPS; w += 2 * d) e[w] = combine(e[w - d], e[w]);
}

constexpr int HALF = WARPS + VECTOR, ALL = WARPS + 2 * VECTOR;  // warps at a barrier

// The warps that publish: warp v for the columns from 32 * v on.
__device__ __forceinline__ void publish_tiles(const Params& p, Shared& s, int v, int lane) {
  u32 epoch = p.control[2];
  for (int k = 0;; k++) {
    await<PUBLISH, HALF>(k);
    i64 ticket = s.ticket[k & 3];
    if (ticket >= p.tickets) break;
    Spot at = spot_of(p, ticket);
    Element e[WARPS];
    sum_warps(s.sums[k & 1], 32 * v + lane, e);
    arrive<TICKETS, ALL>(k);
    if (p.tiles > 1) publish(tree_of(p, at, v, epoch, lane), at.t, e[WARPS - 1]);
  }
}

// The warps that look back; the first of them takes tickets.
__device__ __forceinline__ void look_back_tiles(const Params& p, Shared& s, int v, int lane) {
  u32 epoch = p.control[2];
  int mine = 32 * v + lane;
  for (int k = 0;; k++) {
    await<LOOK_BACK, HALF>(k);
    i64 ticket = s.ticket[k & 3];
    if (ticket >= p.tickets) break;
    Spot at = spot_of(p, ticket);
    if (!REDUCE || at.t + 1 == p.tiles) {
      Item start = {};
      i64 column = at.column + mine;
      if (INITIAL || EXCLUSIVE) start = start_of(p, at.row, column < p.columns ? column : p.columns - 1);
      Element e[WARPS];
      sum_warps(s.sums[k & 1], mine, e);
      Prefix before, next;
      look_back(tree_of(p, at, v, epoch, lane), at.t, e[WARPS - 1], start, before, next);
      sum_warps(s.sums[k & 1], mine, e);  // again: to keep it all the while costs more registers than there are
      auto& prefixes = s.prefixes[k & 1];
      prefixes[0][mine] = before.value;
      prefixes[WARPS][mine] = next.value;
#pragma unroll
      for (int d = WARPS / 2; d >= 1; d /= 2)
#pragma unroll
        for (int w = d - 1; w < WARPS - 1; w += 2 * d) {
          Prefix q = before;
          if (w >= d) q = {prefixes[w - d + 1][mine], true};
          fold(q, e[w], start);
          prefixes[w + 1][mine] = q.value;
        }
    }
    arrive<PREFIXES, HALF>(k);
    await<NEARLY, HALF>(k);
    if (v == 0 && lane == 0) s.ticket[(k + 2) & 3] = take_ticket(p);
    arrive<TICKETS, ALL>(k);
  }
  if (v == 0 && lane == 0) leave(p, epoch);
}

// The warps that read, sum and write.
struct Worker {
  const Params& p;
  Shared& s;
  char* memory;
  int warp, lane;

  __device__ __forceinline__ char* patch(int k) const { return memory + ((k & 1) * WARPS + warp) * WARP_BYTES; }
  __device__ __forceinline__ i64 first(const Spot& at) const { return at.t * TILE + warp * ITEMS; }

  __device__ __forceinline__ void load(int k) const {
    i64 ticket = s.ticket[k & 3];
    if (ticket < p.tickets) {
      Spot at = spot_of(p, ticket);
      i64 j = first(at), columns = min(p.columns - at.column, (i64)WIDTH);
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::at >= 0)
          ColumnPatch<i.value>::load(patch(k) + Input<i.value>::at, first<i.value>(at, j), p.in_strides[i.value].along, p.n - j, columns, lane);
      });
      if constexpr (SEGMENTED)
        if (p.heads_column)  // in a reverse scan the heads of the first items lie outside
          HeadPatch::load(patch(k) + HEADS_AT, heads(at, j), p.heads_strides.along, p.n - j, columns, lane, j < p.heads_first);
    }
    commit_copies();
    fetch_ahead(ticket + p.ahead);
  }
  // A tile that comes late keeps those below it waiting: whoever loads one asks the cache for a later one.
  __device__ __forceinline__ void fetch_ahead(i64 ticket) const {
    if (ticket >= p.tickets) return;
    Spot at = spot_of(p, ticket);
    i64 j = first(at);
    each<INPUTS>([&](auto i) {
      constexpr int SIZE = sizeof(typename Input<i.value>::Load);
      int bytes = (int)min(p.columns - at.column, (i64)WIDTH) * SIZE;
      if constexpr (Input<i.value>::at >= 0)
        fetch_lines(first<i.value>(at, j), p.in_strides[i.value].along, (int)min(p.n - j, (i64)ITEMS), bytes, lane);
    });
  }
  // Item j of the first column of an input.
  template <int I> __device__ __forceinline__ const char* first(const Spot& at, i64 j) const {
    const Strides& s = p.in_strides[I];
    return p.in[I] + row_offset(p, s, at.row) + j * s.along + (Input<I>::same ? 0 : at.column * (i64)sizeof(typename Input<I>::Load));
  }
  __device__ __forceinline__ const char* heads(const Spot& at, i64 j) const {
    return p.heads + row_offset(p, p.heads_strides, at.row) + j * p.heads_strides.along + at.column * p.heads_column;
  }

  // This lane's run of column set v, as it is read.
  __device__ __forceinline__ void read(int k, int v, const Spot& at, Given (&given)[ITEMS]) const {
    each<INPUTS>([&](auto n) {
      typedef typename Input<n.value>::Load Load;
      typedef typename Input<n.value>::Value Value;
      if constexpr (Input<n.value>::still) {
        auto one = still_item<n.value>(p, at.row, min(at.column + 32 * v + lane, p.columns - 1));
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = one;
      } else if constexpr (Input<n.value>::same) {
        i64 j = first(at);
        const char* from = first<n.value>(at, j);
#pragma unroll
        for (int i = 0; i < ITEMS; i++, from += p.in_strides[n.value].along)
          if (j + i < p.n) get<n.value>(given[i]) = convert<Value>(load_item<Load, Input<n.value>::grain>(from));
      } else {
        const char* own = patch(k) + Input<n.value>::at + (32 * v + lane) * sizeof(Load);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(*(const Load*)(own + i * ColumnPatch<n.value>::LINE));
      }
    });
  }

  // The same as it is combined, swept up; `heads` before and after the sweep.
  __device__ __forceinline__ void read(int k, int v, const Spot& at, Item (&x)[ITEMS], u32& heads_of_items, u32& swept) const {
    Given given[ITEMS];
    read(k, v, at, given);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) x[i] = Map()(given[i]);
    u32 bits = 0;
    if constexpr (SEGMENTED) {
      i64 j = first(at);
      if (p.heads_column) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) bits |= (patch(k)[HEADS_AT + i * HeadPatch::LINE + 32 * v + lane] != 0 ? 1u : 0u) << i;
      } else {  // one list for all columns
        bool head = lane < ITEMS && j + lane >= p.heads_first && j + lane < p.n && heads(at, j)[lane * p.heads_strides.along] != 0;
        bits = __ballot_sync(FULL, head);
      }
      if (j == 0) bits &= ~1u;  // a row starts its first segment anyway
    }
    heads_of_items = swept = bits;
    up_sweep(x, swept);
  }

  __device__ __forceinline__ void sum(int k) const {
    i64 ticket = s.ticket[k & 3];
    __syncwarp();  // every lane's copies of this tile have landed
    if (ticket >= p.tickets) return;
    Spot at = spot_of(p, ticket);
#pragma unroll 1
    for (int v = 0; v < VECTOR; v++) {
      Item x[ITEMS]; u32 heads_of_items, swept;
      read(k, v, at, x, heads_of_items, swept);
      s.sums[k & 1][warp][32 * v + lane] = element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1);
    }
  }

  __device__ __forceinline__ void finish(int k, int v, const Spot& at) const {
    Item x[ITEMS]; u32 heads_of_items, swept;
    read(k, v, at, x, heads_of_items, swept);
    i64 j = first(at), column = at.column + 32 * v + lane;
    bool exists = column < p.columns;
    Item start = {};
    if (EXCLUSIVE || (SEGMENTED && INITIAL)) start = start_of(p, at.row, exists ? column : p.columns - 1);
    Prefix before = {s.prefixes[k & 1][warp][32 * v + lane], INITIAL || at.t > 0 || warp > 0};
    results(x, heads_of_items, swept, before, s.prefixes[k & 1][warp + 1][32 * v + lane], start);
    Given given[ITEMS];
    Result y[ITEMS];
    if constexpr (READS_AGAIN) read(k, v, at, given);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) y[i] = Finish()(x[i], given[i], index_of(p, j + i));
    each<OUTPUTS>([&](auto o) {
      typedef typename Output<o.value>::Store Store;
      const Strides& st = p.out_strides[o.value];
      char* to = p.out[o.value] + row_offset(p, st, at.row) + column * (i64)sizeof(Store);
      if constexpr (!REDUCE) to += j * st.along;
      int exist = exists ? (int)min(p.n - j, (i64)ITEMS) : 0;
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        Store item = convert<Store>(get<o.value>(y[i]));
        if (REDUCE ? exists && j + i == p.n - 1 : i < exist) store_item<Store, Output<o.value>::grain>(to, item);
        if (!REDUCE) to += st.along;
      }
    });
  }

  __device__ __forceinline__ void run() const {
    load(0); load(1);
    wait_copies<1>();
    sum(0);
    arrive<PUBLISH, HALF>(0);
    arrive<LOOK_BACK, HALF>(0);
    for (int k = 0;; k++) {
      i64 ticket = s.ticket[k & 3];
      if (ticket >= p.tickets) break;
      Spot at = spot_of(p, ticket);
      wait_copies<0>();
      sum(k + 1);
      arrive<PUBLISH, HALF>(k + 1);
      arrive<LOOK_BACK, HALF>(k + 1);
      await<PREFIXES, HALF>(k);
      if (!REDUCE || at.t + 1 == p.tiles) {
#pragma unroll 1
        for (int v = 0; v < VECTOR; v++) finish(k, v, at);
      }
      arrive<NEARLY, HALF>(k);
      await<TICKETS, ALL>(k);  // and the stage is free
      load(k + 2);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_columns(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  Shared& s = *(Shared*)(memory + STAGES * WARPS * WARP_BYTES);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {  // where there is a block for each tile, none takes two
    s.ticket[0] = take_ticket(p);
    s.ticket[1] = gridDim.x >= p.tickets ? p.tickets : take_ticket(p);
  }
  __syncthreads();
  if (warp < WARPS) Worker{p, s, memory, warp, lane}.run();
  else if (warp < WARPS + VECTOR) publish_tiles(p, s, warp - WARPS, lane);
  else look_back_tiles(p, s, warp - WARPS - VECTOR, lane);
}
