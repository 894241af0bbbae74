// Scans along an axis whose neighbours in memory belong to other scans: columns. A lane is a column, so a warp reads and writes
// whole cache lines, and nothing is transposed. Where there are fewer columns than lanes, LANES of them, a warp holds SUBS runs
// of each, one below another. A tile is WARPS * SUBS * ITEMS items of WIDTH columns. The pass is the one of tiles.cu. Its
// look-back goes column by column (column_lookback.cuh), with two serving warps for 32 columns.
#include "thread.cuh"
#include "memory.cuh"
#include "column_lookback.cuh"

constexpr int SUBS = 32 / LANES, LINES = SUBS * ITEMS, TILE = WARPS * LINES, WIDTH = LANES * VECTOR;
constexpr int THREADS = 32 * (WARPS + 2 * VECTOR), SERVED = 32 * VECTOR;

// The next address. The compiler would multiply anew for each, by some ten instructions.
template <class P> __device__ __forceinline__ P* stepped(P* at, i64 stride) {
  at += stride;
  asm("" : "+l"(at));
  return at;
}

// The rectangle of one input that a warp owns: LINES items of WIDTH columns, item after item. Between runs lies one more line, so
// that lanes meet each bank once.
template <class T, int GRAIN> struct Patch {
  static constexpr int LINE = WIDTH * sizeof(T), RUN = ITEMS * LINE + (SUBS > 1 ? LINE : 0), BYTES = SUBS * RUN;
  static __device__ __forceinline__ int place(int item) { return item * LINE + (SUBS > 1 ? item / ITEMS * LINE : 0); }
  // Calls move(place in shared memory, address) for all pieces that exist, of `items` and `columns`, of an array that begins at
  // `at`: neighbouring lanes have neighbours in memory. The first items may be left out.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, i64 stride, i64 items, i64 columns, int lane, F&& move, int skip = 0) {
    constexpr int PER_LINE = LINE / GRAIN, COUNT = LINES * PER_LINE;
    if constexpr (PER_LINE <= 32) {  // a lane keeps its place in the line
      constexpr int AT_ONCE = 32 / PER_LINE;
      int item = lane / PER_LINE, byte = lane % PER_LINE * GRAIN, exist = byte < (int)columns * (int)sizeof(T) ? (int)min(items, (i64)LINES) : 0;
      at += item * stride + byte;
      stride *= AT_ONCE;
#pragma unroll
      for (int i = 0; i < LINES; i += AT_ONCE, at = stepped(at, stride))
        if (i + item < exist && i + item >= skip) move(place(i + item) + byte, at);
    } else {
      int exist = (int)columns * (int)sizeof(T);
#pragma unroll 8
      for (int c = lane; c < COUNT; c += 32) {
        int item = c / PER_LINE, byte = c % PER_LINE * GRAIN;
        if (item < items && item >= skip && byte < exist) move(place(item) + byte, at + item * stride + byte);
      }
    }
  }
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 stride, i64 items, i64 columns, int lane, int skip = 0) {
    each_piece(from, stride, items, columns, lane, [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); }, skip);
  }
};

// The rectangle of an array whose items touch along the axis, such as a transposed one: column after column, in pieces of GRAIN
// bytes that change places, so that lanes meet each bank once both ways.
template <class T, int GRAIN> struct Turned {
  static constexpr int PIECES = ITEMS * sizeof(T) / GRAIN, PER_PIECE = GRAIN / sizeof(T), BYTES = WIDTH * ITEMS * sizeof(T);
  static constexpr int AT_ONCE = 32 / PIECES, SAME_BANKS = max_of(1, 128 / (PIECES * GRAIN));
  static __device__ __forceinline__ int place(int column, int piece) {
    return (column * PIECES + (piece ^ (column / SAME_BANKS % PIECES))) * GRAIN;
  }
  typedef typename bits_of<GRAIN>::type Piece;
  // This column's items, piece by piece.
  static __device__ __forceinline__ void read(const char* shared, int column, T (&x)[ITEMS]) {
    Piece pieces[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) pieces[i] = *(const Piece*)(shared + place(column, i));
    memcpy(x, pieces, sizeof x);
  }
  static __device__ __forceinline__ void write(char* shared, int column, const T (&x)[ITEMS]) {
    Piece pieces[PIECES];
    memcpy(pieces, x, sizeof x);
#pragma unroll
    for (int i = 0; i < PIECES; i++) *(Piece*)(shared + place(column, i)) = pieces[i];
  }
  // Calls move(place in shared memory, address) for all pieces that exist, of an array that begins at `at`: neighbouring lanes
  // have neighbours in memory.
  template <class P, class F> static __device__ __forceinline__ void each_piece(P* at, i64 along, i64 across, i64 items, i64 columns, int lane, F&& move) {
    int piece = lane % PIECES, exist = piece * PER_PIECE < items ? (int)min(columns, (i64)WIDTH) : 0;
    at += piece * PER_PIECE * along + lane / PIECES * across;
#pragma unroll
    for (int c = 0; c < WIDTH; c += AT_ONCE, at = stepped(at, AT_ONCE * across))
      if (c + lane / PIECES < exist) move(place(c + lane / PIECES, piece), at);
  }
};

// Asks the second-level cache for a rectangle that a block will load soon, line by line: of at most MOST lines of MOST_BYTES.
template <int MOST, int MOST_BYTES> __device__ __forceinline__
void fetch_lines(const char* from, i64 stride, int items, int bytes, int lane) {
  if (SUBS > 1 && stride == bytes) {
    if (items > 0) fetch(from, items * bytes, lane);
    return;
  }
#pragma unroll
  for (int i = 0; i < MOST; i += 32)
#pragma unroll
    for (int b = 0; b < MOST_BYTES; b += 128)
      if (i + lane < items && b < bytes) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (i + lane) * stride + b) : "memory");
}

template <class T, int GRAIN, bool TURNED> struct PatchOf { typedef Patch<T, GRAIN> type; };
template <class T, int GRAIN> struct PatchOf<T, GRAIN, true> { typedef Turned<T, GRAIN> type; };
template <int I> using ColumnPatch = typename PatchOf<typename Input<I>::Load, Input<I>::grain, Input<I>::turned>::type;
typedef Patch<u8, HEADS_GRAIN> HeadPatch;
constexpr int WARP_BYTES = HEADS_AT + (SEGMENTED ? HeadPatch::BYTES : 0);

// A tile: its ticket, its place, and its first column.
struct Spot { i64 ticket; u64 row; i64 t, column; };

struct Shared {
  Spot spots[4];                         // of the tiles in flight, the one asked for, the one just left
  Element sums[2][WARPS][SERVED];        // of the warps of a tile and of the next
  Item prefixes[2][WARPS + 1][SERVED];   // of the warps; the last is the prefix of the next tile
#if SEGMENTED
  u32 heads[2][WARPS][SERVED];           // of each lane's run
#endif
};
static_assert(SHARED_BYTES == STAGES * WARPS * WARP_BYTES + sizeof(Shared) && NODE_WORDS == NODE, "launch.py counts otherwise");

// Named barriers, each in two kinds, for even and odd tiles, so that a warp that arrives may run ahead of one that waits.
//   PUBLISH   the sums of a tile are in shared memory, or there is no such tile: for the warp that publishes
//   LOOK_BACK the same, for the warp that looks back: it must never hold up the other, or blocks wait in a chain
//   PREFIXES  the prefixes of a tile's warps are there
//   TICKETS   a tile is written, the ticket of another is there, and the sums may be overwritten
enum { PUBLISH = 1, LOOK_BACK = 3, PREFIXES = 5, TICKETS = 7 };
template <int ID, int COUNT> __device__ __forceinline__ void arrive(int k) {
  __syncwarp();  // a warp arrives as one, with all that its lanes have written
  asm volatile("bar.arrive %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}
template <int ID, int COUNT> __device__ __forceinline__ void await(int k) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(ID + (k & 1)), "n"(32 * COUNT) : "memory");
}

// Tickets go along the columns first: between a tile and its upper neighbour lie as many tickets as there are sets of columns.
__device__ __forceinline__ Spot spot_of(const Params& p, i64 ticket) {
  u32 groups = (u32)p.column_groups, line = (u32)ticket / groups, group = (u32)ticket - line * groups;
  u32 row = line / (u32)p.tiles;
  return {ticket, row, line - row * (u32)p.tiles, (i64)group * WIDTH};
}

// Item j of the first column of an input, or of the heads.
template <int I> __device__ __forceinline__ const char* first_of(const Params& p, const Spot& at, i64 j) {
  const Strides& s = p.in_strides[I];
  return p.in[I] + row_offset(p, s, at.row) + j * s.along + at.column * p.in_column[I];
}
__device__ __forceinline__ const char* heads_of(const Params& p, const Spot& at, i64 j) {
  return p.heads + row_offset(p, p.heads_strides, at.row) + j * p.heads_strides.along + at.column * p.heads_column;
}

__device__ __forceinline__ ColumnTree tree_of(const Params& p, const Spot& at, int v, u32 epoch, int lane) {
  return {p, ((i64)at.row * p.column_groups + at.column / WIDTH) * VECTOR + v, epoch, lane};
}

// The block sums of a tile's warps, in place.
__device__ __forceinline__ void sum_warps(const Element (&sums)[WARPS][SERVED], int column, Element (&e)[WARPS]) {
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
    Spot at = s.spots[k & 3];
    if (at.ticket >= p.tickets) break;
    Element e[WARPS];
    sum_warps(s.sums[k & 1], 32 * v + lane, e);
    arrive<TICKETS, ALL>(k);
    if (p.tiles > 1) publish(tree_of(p, at, v, epoch, lane), at.t, e[WARPS - 1]);
  }
}

// The warps that look back. They take no tickets: while they waited for room for another tile, the next tile, which has long been
// summed, would wait for them. Advantages ran at .80 of a copy so, at .64 before (H200).
__device__ __forceinline__ void look_back_tiles(const Params& p, Shared& s, int v, int lane) {
  u32 epoch = p.control[2];
  int mine = 32 * v + lane;
  for (int k = 0;; k++) {
    await<LOOK_BACK, HALF>(k);
    Spot at = s.spots[k & 3];
    if (at.ticket >= p.tickets) break;
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
    arrive<TICKETS, ALL>(k);
  }
}

// The warps that read, sum and write.
struct Worker {
  const Params& p;
  Shared& s;
  char* memory;
  int warp, lane, sub = lane / LANES, own = lane % LANES;

  __device__ __forceinline__ char* patch(int k) const { return memory + ((k & 1) * WARPS + warp) * WARP_BYTES; }
  __device__ __forceinline__ i64 first(const Spot& at) const { return at.t * TILE + warp * LINES; }

  __device__ __forceinline__ void load(int k) const {
    Spot at = s.spots[k & 3];
    if (at.ticket < p.tickets) {
      i64 j = first(at), columns = min(p.columns - at.column, (i64)WIDTH);
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::at >= 0) {
          typedef ColumnPatch<i.value> Patch;
          constexpr int GRAIN = Input<i.value>::grain;
          const char* from = first_of<i.value>(p, at, j);
          char* shared = patch(k) + Input<i.value>::at;
          i64 along = p.in_strides[i.value].along;
          if constexpr (Input<i.value>::turned)
            Patch::each_piece(from, along, p.in_column[i.value], p.n - j, columns, lane,
                              [&](int place, const char* at) { copy_async<GRAIN>(shared + place, at); });
          else Patch::load(shared, from, along, p.n - j, columns, lane);
        }
      });
      if constexpr (SEGMENTED)
        if (p.heads_column)  // in a reverse scan the heads of the first items lie outside
          HeadPatch::load(patch(k) + HEADS_AT, heads_of(p, at, j), p.heads_strides.along, p.n - j, columns, lane, j < p.heads_first);
    }
    commit_copies();
    fetch_ahead(at.ticket + p.ahead);
  }
  // A tile that comes late keeps those below it waiting. So the loader of a tile asks the cache for a later one, but not for its
  // heads: a byte a line cost returns .07 of a copy (H200).
  __device__ __forceinline__ void fetch_ahead(i64 ticket) const {
    if (ticket >= p.tickets) return;
    Spot at = spot_of(p, ticket);
    i64 j = first(at);
    int items = (int)min(p.n - j, (i64)LINES), columns = (int)min(p.columns - at.column, (i64)WIDTH);
    each<INPUTS>([&](auto i) {
      constexpr int SIZE = sizeof(typename Input<i.value>::Load);
      const char* from = first_of<i.value>(p, at, j);
      if constexpr (Input<i.value>::turned) fetch_lines<WIDTH, LINES * SIZE>(from, p.in_column[i.value], columns, items * SIZE, lane);
      else if constexpr (Input<i.value>::at >= 0) fetch_lines<LINES, WIDTH * SIZE>(from, p.in_strides[i.value].along, items, columns * SIZE, lane);
    });
  }

  // This lane's run of column set v, as it is read.
  __device__ __forceinline__ void read(int k, int v, const Spot& at, Given (&given)[ITEMS]) const {
    each<INPUTS>([&](auto n) {
      typedef typename Input<n.value>::Load Load;
      typedef typename Input<n.value>::Value Value;
      if constexpr (Input<n.value>::still) {
        auto one = still_item<n.value>(p, at.row, min(at.column + 32 * v + own, p.columns - 1));
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = one;
      } else if constexpr (Input<n.value>::same) {
        i64 j = first(at) + sub * ITEMS;
        const char* from = first_of<n.value>(p, at, j);
#pragma unroll
        for (int i = 0; i < ITEMS; i++, from += p.in_strides[n.value].along)
          if (j + i < p.n) get<n.value>(given[i]) = convert<Value>(load_item<Load, Input<n.value>::grain>(from));
      } else if constexpr (Input<n.value>::turned) {
        Load raw[ITEMS];
        ColumnPatch<n.value>::read(patch(k) + Input<n.value>::at, 32 * v + lane, raw);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(raw[i]);
      } else {
        typedef ColumnPatch<n.value> Patch;
        const char* from = patch(k) + Input<n.value>::at + sub * Patch::RUN + (32 * v + own) * sizeof(Load);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) get<n.value>(given[i]) = convert<Value>(*(const Load*)(from + i * Patch::LINE));
      }
    });
  }

  // The run as it is combined, swept up; `swept` are its heads, swept up likewise.
  __device__ __forceinline__ void read(int k, int v, const Spot& at, Item (&x)[ITEMS], u32& swept) const {
    Given given[ITEMS];
    read(k, v, at, given);
    Indices index(p, first(at) + sub * ITEMS);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) x[i] = Map()(given[i], index[i]);
    up_sweep(x, swept);
  }

  // Bit i: a segment starts at item i of the run.
  __device__ __forceinline__ u32 heads_of_run(int k, int v, const Spot& at) const {
    u32 bits = 0;
    if constexpr (SEGMENTED) {
      i64 j = first(at);
      if (p.heads_column) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) bits |= (patch(k)[HEADS_AT + sub * HeadPatch::RUN + i * HeadPatch::LINE + 32 * v + own] != 0 ? 1u : 0u) << i;
      } else {  // one list for all columns
#pragma unroll
        for (int s = 0; s < SUBS; s++) {
          i64 i = j + s * ITEMS + lane;
          bool head = lane < ITEMS && i >= p.heads_first && i < p.n && heads_of(p, at, i)[0] != 0;
          u32 found = __ballot_sync(FULL, head);
          if (s == sub) bits = found;
        }
      }
      if (j + sub * ITEMS == 0) bits &= ~1u;  // a row starts its first segment anyway
    }
    return bits;
  }

  // The heads that `sum` has found are kept: a finish need not look at a byte for each once more.
  __device__ __forceinline__ void keep_heads(int k, int v, u32 heads) const {
#if SEGMENTED
    s.heads[k & 1][warp][32 * v + lane] = heads;
#endif
  }
  __device__ __forceinline__ u32 kept_heads(int k, int v) const {
#if SEGMENTED
    return s.heads[k & 1][warp][32 * v + lane];
#else
    return 0;
#endif
  }

  // The sweeps of warp.cuh over the runs of each column.
  __device__ __forceinline__ Element up_sweep_runs(Element e) const {
#pragma unroll
    for (int i = 0; i < log2_of(SUBS); i++)
      e = pick((~sub & ((2 << i) - 1)) == 0, combine(from_left(e, LANES << i), e), e);
    return e;
  }
  __device__ __forceinline__ void down_sweep_runs(Prefix& p, const Element& swept, const Item& start) const {
#pragma unroll
    for (int i = log2_of(SUBS) - 1; i >= 0; i--)
      fold_where(sub >> i & 1, p, from_lane(swept, (((sub >> i << i) - 1) * LANES + own) & 31), start);
  }

  __device__ __forceinline__ void sum(int k) const {
    Spot at = s.spots[k & 3];
    __syncwarp();  // every lane's copies of this tile have landed
    if (at.ticket >= p.tickets) return;
#pragma unroll 1
    for (int v = 0; v < VECTOR; v++) {
      Item x[ITEMS];
      u32 swept = heads_of_run(k, v, at);
      keep_heads(k, v, swept);
      read(k, v, at, x, swept);
      Element e = up_sweep_runs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1));
      if (sub == SUBS - 1) s.sums[k & 1][warp][32 * v + own] = e;
    }
  }

  // Results of runs one below another are written in the place of the items, and from there line by line.
  template <int O> __device__ __forceinline__ void write_runs(int k, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef Patch<Store, Output<O>::grain> Results;
    typedef typename bits_of<Output<O>::grain>::type piece;
    const Strides& st = p.out_strides[O];
    i64 j = first(at);
    char *to = p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * (i64)sizeof(Store), *shared = patch(k);
    __syncwarp();  // all lanes have read what lies there
#pragma unroll
    for (int i = 0; i < ITEMS; i++) *(Store*)(shared + sub * Results::RUN + i * Results::LINE + own * sizeof(Store)) = convert<Store>(get<O>(y[i]));
    __syncwarp();  // all lanes have written theirs
    Results::each_piece(to, st.along, p.n - j, p.columns - at.column, lane,
                        [&](int place, char* at) { *(piece*)at = *(const piece*)(shared + place); });
  }

  // Results that touch along the axis are turned in the place of the items.
  template <int O> __device__ __forceinline__ void write_turned(int k, const Spot& at, const Result (&y)[ITEMS]) const {
    typedef typename Output<O>::Store Store;
    typedef Turned<Store, Output<O>::grain> Results;
    static_assert(!Output<O>::turned || (VECTOR == 1 && SUBS == 1 && Results::BYTES <= WARP_BYTES));
    const Strides& st = p.out_strides[O];
    i64 j = first(at);
    char* to = p.out[O] + row_offset(p, st, at.row) + j * st.along + at.column * p.out_column[O];
    Store raw[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) raw[i] = convert<Store>(get<O>(y[i]));
    __syncwarp();  // all lanes have read what lies there
    Results::write(patch(k), lane, raw);
    __syncwarp();  // all lanes have written theirs
    typedef typename Results::Piece Piece;
    Results::each_piece(to, st.along, p.out_column[O], p.n - j, p.columns - at.column, lane,
                        [&](int place, char* at) { *(Piece*)at = *(const Piece*)(patch(k) + place); });
  }

  __device__ __forceinline__ void finish(int k, int v, const Spot& at) const {
    Item x[ITEMS];
    u32 heads_of_items = kept_heads(k, v), swept = heads_of_items;
    read(k, v, at, x, swept);
    i64 j = first(at) + sub * ITEMS, column = at.column + 32 * v + own;
    bool exists = column < p.columns;
    Item start = {};
    if (EXCLUSIVE || (SEGMENTED && INITIAL)) start = start_of(p, at.row, exists ? column : p.columns - 1);
    Prefix before = {s.prefixes[k & 1][warp][32 * v + own], INITIAL || at.t > 0 || warp > 0};
    Item next = s.prefixes[k & 1][warp + 1][32 * v + own];
    if constexpr (SUBS > 1) {
      down_sweep_runs(before, up_sweep_runs(element(x[ITEMS - 1], swept >> (ITEMS - 1) & 1)), start);
      Item following = from_lane(before.value, (lane + LANES) % 32);
      next = select(sub == SUBS - 1, next, following);
    }
    results(x, heads_of_items, swept, before, next, start);
    Given given[ITEMS];
    Result y[ITEMS];
    if constexpr (READS_AGAIN) read(k, v, at, given);
    Indices index(p, j);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) y[i] = Finish()(x[i], given[i], index[i]);
    each<OUTPUTS>([&](auto o) {
      typedef typename Output<o.value>::Store Store;
      if constexpr (Output<o.value>::turned) write_turned<o.value>(k, at, y);
      else if constexpr (!REDUCE && SUBS > 1 && Patch<Store, 1>::BYTES <= WARP_BYTES) write_runs<o.value>(k, at, y);
      else {
        constexpr int SIZE = sizeof(Store), GRAIN = Output<o.value>::grain < SIZE ? Output<o.value>::grain : SIZE;
        const Strides& st = p.out_strides[o.value];
        char* to = p.out[o.value] + row_offset(p, st, at.row) + column * (i64)SIZE;
        if constexpr (!REDUCE) to += j * st.along;
        int exist = exists ? (int)min(p.n - j, (i64)ITEMS) : 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
          Store item = convert<Store>(get<o.value>(y[i]));
          if (REDUCE ? exists && j + i == p.n - 1 : i < exist) store_item<Store, GRAIN>(to, item);
          if (!REDUCE) to += st.along;
        }
      }
    });
  }

  __device__ __forceinline__ void run() const {
    bool draws = warp == 0 && lane == 0;
    load(0); load(1);
    wait_copies<1>();
    sum(0);
    arrive<PUBLISH, HALF>(0);
    arrive<LOOK_BACK, HALF>(0);
    for (int k = 0;; k++) {
      Spot at = s.spots[k & 3];
      if (at.ticket >= p.tickets) break;
      wait_copies<0>();
      sum(k + 1);
      arrive<PUBLISH, HALF>(k + 1);
      arrive<LOOK_BACK, HALF>(k + 1);
      await<PREFIXES, HALF>(k);
      // The ticket comes while the tile is written.
      i64 next = draws ? take_ticket(p) : 0;
      if (!REDUCE || at.t + 1 == p.tiles) {
#pragma unroll 1
        for (int v = 0; v < VECTOR; v++) finish(k, v, at);
      }
      if (draws) s.spots[(k + 2) & 3] = spot_of(p, next);
      await<TICKETS, ALL>(k);  // and the stage is free
      load(k + 2);
    }
    if (draws) leave(p, p.control[2]);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) upsweep_columns(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  Shared& s = *(Shared*)(memory + STAGES * WARPS * WARP_BYTES);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {  // where there is a block for each tile, none takes two
    s.spots[0] = spot_of(p, take_ticket(p));
    s.spots[1] = spot_of(p, gridDim.x >= p.tickets ? p.tickets : take_ticket(p));
  }
  __syncthreads();
  if (warp < WARPS) Worker{p, s, memory, warp, lane}.run();
  else if (warp < WARPS + VECTOR) publish_tiles(p, s, warp - WARPS, lane);
  else look_back_tiles(p, s, warp - WARPS - VECTOR, lane);
}
