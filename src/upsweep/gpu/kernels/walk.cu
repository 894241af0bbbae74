// Scans in order: y[i] = y[i-1] + x[i], one item after the other, a lane a row. One warp walks 32 * VECTOR rows. SERVERS other
// warps bring its items through a ring of stages in shared memory and take the results away. So the walking warp waits for
// arithmetic only, and few rows keep the memory busy.
#include "params.cuh"
#include "memory.cuh"
#include "ring.cuh"

constexpr int WIDTH = 32 * VECTOR;

// N items that lie side by side, at an address that is a multiple of their size or of 16.
template <int N, class T> __device__ __forceinline__ void load_run(const char* from, T* to) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename bits_of<BYTES>::type piece;
#pragma unroll
  for (int b = 0; b < N * sizeof(T); b += BYTES) { piece x = *(const piece*)(from + b); memcpy((char*)to + b, &x, BYTES); }
}
template <int N, class T> __device__ __forceinline__ void store_run(char* to, const T* from) {
  constexpr int BYTES = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  typedef typename bits_of<BYTES>::type piece;
#pragma unroll
  for (int b = 0; b < N * sizeof(T); b += BYTES) { piece x; memcpy(&x, (const char*)from + b, BYTES); *(piece*)(to + b) = x; }
}

// 16 bytes of a line whose neighbours are soon wanted by this block or the next.
__device__ __forceinline__ void copy_lines(char* to, const char* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// A piece on its way to shared memory. A piece of less than 4 bytes goes through a register, in an order that the compiler
// chooses, so that many pieces are on their way at once.
template <int BYTES> __device__ __forceinline__ void copy_piece(char* to, const char* from) {
  if constexpr (BYTES == 16) copy_lines(to, from);
  else if constexpr (BYTES >= 4) copy_async<BYTES>(to, from);
  else {
    unsigned short x;
    if constexpr (BYTES == 2) asm("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(from));
    else asm("{ .reg .u16 x; ld.global.u8 x, [%1]; mov.u16 %0, x; }" : "=h"(x) : "l"(from));
    *(typename bits_of<BYTES>::type*)to = x;
  }
}

// The start of the rows of a block. ACROSS: the first of them; otherwise each lane knows its own row.
struct Lines {
  char* base;
  __device__ __forceinline__ char* of(int row) const { return ACROSS ? base : (char*)__shfl_sync(~0u, (u64)base, row); }
};

// The place of an array in a stage: STEPS items of WIDTH rows, from byte AT on.
//   ACROSS   item after item, neighbours are rows
//   else     row after row, 16 bytes further apart than they are long, so that 16-byte reads of all lanes meet each bank once
//   SAME     one row of items serves all
//   FLIP     16 bytes hold their items last first, as memory does where the scan goes backwards
// GRAIN bytes are copied at once; along rows, 16 bytes or an item.
template <class T, int AT, bool SAME, bool FLIP, int GRAIN> struct Patch {
  static constexpr int SIZE = sizeof(T), LINE = ACROSS ? WIDTH * SIZE : STEPS * SIZE + 16;
  static constexpr int UNIT = 16 / SIZE;  // items of 16 bytes

  // Items [i, i + N) of this lane's rows.
  template <int N> static __device__ __forceinline__ void read(const char* stage, int lane, int i, T (&x)[N][VECTOR]) {
    stage += AT;
    if constexpr (SAME) {
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) x[k][v] = *(const T*)(stage + (i + k) * SIZE);
    } else if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < N; k++) load_run<VECTOR>(stage + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
      constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
      for (int k = 0; k < N; k += RUN) {
        T run[RUN];
        load_run<RUN>(stage + lane * LINE + place<RUN>(i + k), run);
#pragma unroll
        for (int r = 0; r < RUN; r++) x[k + r][0] = run[FLIP ? RUN - 1 - r : r];
      }
    }
  }
  template <int N> static __device__ __forceinline__ void write(char* stage, int lane, int i, const T (&x)[N][VECTOR]) {
    stage += AT;
    if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < N; k++) store_run<VECTOR>(stage + (i + k) * LINE + lane * VECTOR * SIZE, x[k]);
    } else {
      constexpr int RUN = N < UNIT ? N : UNIT;
#pragma unroll
      for (int k = 0; k < N; k += RUN) {
        T run[RUN];
#pragma unroll
        for (int r = 0; r < RUN; r++) run[FLIP ? RUN - 1 - r : r] = x[k + r][0];
        store_run<RUN>(stage + lane * LINE + place<RUN>(i + k), run);
      }
    }
  }

  // Calls f(which, address in memory, place in the stage, bytes) for each piece of the items [j + skip, j + m), lane after
  // lane. WHOLE: all STEPS items of WIDTH rows. Lanes keep their place in a line and go from line to line.
  static constexpr int PER_LINE = ACROSS ? LINE / GRAIN : GRAIN == 16 ? STEPS / UNIT : STEPS;
  static constexpr int LINES = 32 / PER_LINE;                                // that a warp copies at once
  static constexpr int PIECES = (ACROSS ? STEPS : WIDTH) * PER_LINE, COUNT = (PIECES + 31) / 32;  // of a warp, of a lane
  template <bool WHOLE, class F>
  static __device__ __forceinline__ void each_piece(const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip, F&& f) {
    if constexpr (SAME) {
#pragma unroll
      for (int k = 0; k < (STEPS + 31) / 32; k++) {
        int i = k * 32 + lane;
        if (i < m && i >= skip) f(k, at.base + (j + i) * along, AT + i * SIZE, Int<SIZE>{});
      }
    } else if constexpr (ACROSS && LINES > 0) {
      int first = lane / PER_LINE, byte = lane % PER_LINE * GRAIN;
      int exist = byte < rows * SIZE ? m : 0;
      char* from = at.base + (j + first) * along + byte;
#pragma unroll
      for (int k = 0; k < COUNT; k++, from += LINES * along) {
        int i = k * LINES + first;
        if (WHOLE || (i < exist && i >= skip)) f(k, from, AT + i * LINE + byte, Int<GRAIN>{});
      }
    } else if constexpr (ACROSS) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        int i = (k * 32 + lane) / PER_LINE, byte = (k * 32 + lane) % PER_LINE * GRAIN;
        if (WHOLE || (i < m && i >= skip && byte < rows * SIZE)) f(k, at.base + (j + i) * along + byte, AT + i * LINE + byte, Int<GRAIN>{});
      }
    } else {
      constexpr int ITEMS = STEPS / PER_LINE;
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        int row = (k * 32 + lane) / PER_LINE, i = (k * 32 + lane) % PER_LINE * ITEMS;
        char* from = at.of(row) + (j + i) * along;
        if (WHOLE || (row < rows && i + ITEMS <= m && i >= skip)) f(k, from - (FLIP ? 16 - SIZE : 0), AT + row * LINE + i * SIZE, Int<ITEMS * SIZE>{});
      }
    }
  }
  // The rest of rows that end within 16 bytes.
  template <class F> static __device__ __forceinline__ void each_end(const Lines& at, i64 along, i64 j, int m, int rows, int lane, F&& f) {
    if constexpr (!ACROSS && !SAME && PER_LINE < STEPS) {
      const int whole = m / UNIT * UNIT;
      char* from = at.of(lane) + (j + whole) * along;
      if (lane < rows)
        for (int i = whole; i < m; i++, from += along) f(0, from, AT + lane * LINE + (FLIP ? 2 * whole + UNIT - 1 - i : i) * SIZE, Int<SIZE>{});
    }
  }
  static __device__ __forceinline__ void bring(char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane, int skip = 0) {
    auto copy = [&](int, const char* from, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) copy_piece<PIECE>(stage + place + b, from + b);
    };
    if (PIECES % 32 == 0 && m == STEPS && rows == WIDTH && !skip) each_piece<true>(at, along, j, m, rows, lane, 0, copy);
    else { each_piece<false>(at, along, j, m, rows, lane, skip, copy); each_end(at, along, j, m, rows, lane, copy); }
  }
  static __device__ __forceinline__ void take(const char* stage, const Lines& at, i64 along, i64 j, int m, int rows, int lane) {
    auto copy = [&](int, char* to, int place, auto bytes) {
      constexpr int BYTES = bytes.value, PIECE = BYTES < GRAIN ? BYTES : GRAIN;
      typedef typename bits_of<PIECE>::type piece;
#pragma unroll
      for (int b = 0; b < BYTES; b += PIECE) *(piece*)(to + b) = *(const piece*)(stage + place + b);
    };
    if (PIECES % 32 == 0 && m == STEPS && rows == WIDTH) {
      if constexpr (GRAIN == 16 && COUNT <= 16) {  // all are read before the first is stored
        uint4 part[COUNT];
        each_piece<true>(at, along, j, m, rows, lane, 0, [&](int k, char*, int place, auto) { part[k] = *(const uint4*)(stage + place); });
        each_piece<true>(at, along, j, m, rows, lane, 0, [&](int k, char* to, int, auto) { store_streaming(to, part[k]); });
      } else {
        each_piece<true>(at, along, j, m, rows, lane, 0, copy);
      }
    } else {
      each_piece<false>(at, along, j, m, rows, lane, 0, copy);
      each_end(at, along, j, m, rows, lane, copy);
    }
  }

 private:
  template <int RUN> static __device__ __forceinline__ int place(int i) {
    return FLIP ? (i / UNIT + 1) * 16 - (i % UNIT + RUN) * SIZE : i * SIZE;
  }
};

template <int I> using In = Patch<typename Input<I>::Load, Input<I>::at, Input<I>::alone, Input<I>::flip, Input<I>::grain>;
template <int O> using Out = Patch<typename Output<O>::Store, Output<O>::at, false, Output<O>::flip, Output<O>::grain>;
typedef Patch<u8, HEADS_AT, HEADS_SAME, HEADS_FLIP, HEADS_GRAIN> Heads;

// The rows of a block. ACROSS: columns [column, column + count) of a row of rows; otherwise rows [row, row + count).
struct Rows { u64 row; i64 column; int count; };
__device__ __forceinline__ Rows rows_of(const Params& p, i64 block) {
  if (!ACROSS) return {(u64)block * WIDTH, 0, (int)min(p.rows - block * WIDTH, (i64)WIDTH)};
  i64 column = block % p.column_groups * WIDTH;
  return {(u64)(block / p.column_groups), column, (int)min(p.columns - column, (i64)WIDTH)};
}
__device__ __forceinline__ Lines lines_of(const Params& p, char* array, const Strides& s, const Rows& rows, i64 column_stride, int lane) {
  u64 row = ACROSS ? rows.row : rows.row + min(lane, rows.count - 1);
  return {array + row_offset(p, s, row) + rows.column * column_stride};
}

// The warps that bring items and take results away: warp w every chunk whose number leaves w by SERVERS, which divides STAGES.
__device__ __forceinline__ void serve(const Params& p, const Rows& rows, Ring& ring, char* memory, int warp, int lane) {
  Lines in[INPUTS], out[OUTPUTS], heads{};
  each<INPUTS>([&](auto i) {
    if constexpr (!Input<i.value>::still)
      in[i.value] = lines_of(p, p.in[i.value], p.in_strides[i.value], rows, Input<i.value>::alone ? 0 : In<i.value>::SIZE, lane);
  });
  each<OUTPUTS>([&](auto o) { out[o.value] = lines_of(p, p.out[o.value], p.out_strides[o.value], rows, Out<o.value>::SIZE, lane); });
  if (SEGMENTED) heads = lines_of(p, p.heads, p.heads_strides, rows, p.heads_column, lane);
  i64 chunks = (p.n + STEPS - 1) / STEPS;
  u32 parity = 1;
  int s = warp;
  for (i64 k = warp; k < chunks + STAGES; k += SERVERS) {
    char* stage = memory + s * STAGE_BYTES;
    if (k >= STAGES && k - STAGES < chunks) {
      barrier_wait(&ring.done[s], parity);
      i64 j = (k - STAGES) * STEPS;
      int m = (int)min(p.n - j, (i64)STEPS);
      if constexpr (!REDUCE)
        each<OUTPUTS>([&](auto o) { Out<o.value>::take(stage, out[o.value], p.out_strides[o.value].along, j, m, rows.count, lane); });
      __syncwarp();  // results have been read before anything lands on them
    }
    if (k < chunks) {
      i64 j = k * STEPS;
      int m = (int)min(p.n - j, (i64)STEPS);
      each<INPUTS>([&](auto i) {
        int exist = i.value == AHEAD && j + m == p.n ? m - 1 : m;
        if constexpr (!Input<i.value>::still) In<i.value>::bring(stage, in[i.value], p.in_strides[i.value].along, j, exist, rows.count, lane);
      });
      // In a reverse scan the head of the first item lies outside, and heads come one by one. That item starts a segment in any
      // case.
      if (SEGMENTED) Heads::bring(stage, heads, p.heads_strides.along, j, m, rows.count, lane, HEADS_GRAIN == 1 && j < p.heads_first);
      barrier_arrive_with_copies(&ring.full[s]);
      barrier_arrive(&ring.full[s]);
    }
    s += SERVERS;
    if (s >= STAGES) { s -= STAGES; parity ^= 1; }
  }
}

// --- the warp that walks ------------------------------------------------------------------------------------------------

struct Walker {
  const Params& p;
  const Rows& rows;
  int lane;
  Item start[VECTOR];
  Prefix state[VECTOR];
  Given still[VECTOR];  // of which the inputs that serve whole rows are read

  // One step of one row: the results for the item.
  __device__ __forceinline__ Result step(int v, const Given& x, bool head, i64 j) {
    Item before = SEGMENTED ? select(head, start[v], state[v].value) : state[v].value;
    fold(state[v], element(Map()(x, index_of(p, j)), head), start[v]);
    return Finish()(EXCLUSIVE ? before : state[v].value, x, index_of(p, j));
  }

  template <int N> __device__ __forceinline__ void read(const char* stage, int i, Given (&x)[N][VECTOR], bool (&head)[N][VECTOR]) const {
    each<INPUTS>([&](auto n) {
      typename Input<n.value>::Load part[N][VECTOR];
      if constexpr (!Input<n.value>::still) In<n.value>::template read<N>(stage, lane, i, part);
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
          if constexpr (Input<n.value>::still) get<n.value>(x[k][v]) = get<n.value>(still[v]);
          else get<n.value>(x[k][v]) = convert<typename Input<n.value>::Value>(part[k][v]);
        }
    });
    if constexpr (SEGMENTED) {
      u8 flag[N][VECTOR];
      Heads::read<N>(stage, lane, i, flag);
#pragma unroll
      for (int k = 0; k < N; k++)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) head[k][v] = flag[k][v] != 0;
    }
  }
  template <int N> __device__ __forceinline__ void write(char* stage, int i, const Result (&y)[N][VECTOR]) const {
    if constexpr (!REDUCE)
      each<OUTPUTS>([&](auto o) {
        typename Output<o.value>::Store part[N][VECTOR];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
          for (int v = 0; v < VECTOR; v++) part[k][v] = convert<typename Output<o.value>::Store>(get<o.value>(y[k][v]));
        Out<o.value>::template write<N>(stage, lane, i, part);
      });
  }

  // N items: the items of the next step are read before these are worked on, and before results are written in their place.
  template <int N> __device__ __forceinline__ void walk(char* stage, i64 j, int i, const Given (&x)[N][VECTOR], const bool (&head)[N][VECTOR]) {
    Result y[N][VECTOR];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < VECTOR; v++) y[k][v] = step(v, x[k][v], SEGMENTED && head[k][v], j + i + k);
    write<N>(stage, i, y);
  }
  // A stage whose first items have been read. It reads the first items of the next stage, which may have to land first.
  __device__ __forceinline__ void walk_stage(char* stage, i64 j, char* next, u64* full, u32 parity, Given (&x)[2][ITEMS][VECTOR], bool (&head)[2][ITEMS][VECTOR]) {
#pragma unroll
    for (int i = 0; i < STEPS; i += ITEMS) {
      int now = i / ITEMS % 2;
      if (i + ITEMS < STEPS) read<ITEMS>(stage, i + ITEMS, x[now ^ 1], head[now ^ 1]);
      else if (next) { barrier_wait(full, parity); read<ITEMS>(next, 0, x[now ^ 1], head[now ^ 1]); }
      walk<ITEMS>(stage, j, i, x[now], head[now]);
    }
  }
  __device__ __forceinline__ void walk_some(char* stage, i64 j, int m) {
#pragma unroll 1
    for (int i = 0; i < m; i++) {
      Given x[1][VECTOR]; bool head[1][VECTOR];
      read<1>(stage, i, x, head);
      if (AHEAD >= 0 && j + i == p.n - 1)  // nothing lies behind it
#pragma unroll
        for (int v = 0; v < VECTOR; v++)
          each<INPUTS>([&](auto c) { if constexpr (c.value == AHEAD) get<c.value>(x[0][v]) = get<c.value>(start[v]); });
      if (SEGMENTED && j + i == 0)
#pragma unroll
        for (int v = 0; v < VECTOR; v++) head[0][v] = false;
      walk<1>(stage, j, i, x, head);
    }
  }

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = min(lane * VECTOR + v, rows.count - 1);
      start[v] = {};
      if (INITIAL || EXCLUSIVE || AHEAD >= 0) start[v] = ACROSS ? start_of(p, rows.row, rows.column + at) : start_of(p, rows.row + at, 0);
      state[v] = {start[v], INITIAL};
      each<INPUTS>([&](auto i) {
        if constexpr (Input<i.value>::still)
          get<i.value>(still[v]) = ACROSS ? still_item<i.value>(p, rows.row, rows.column + at) : still_item<i.value>(p, rows.row + at);
      });
    }
  }
  __device__ __forceinline__ void run(Ring& ring, char* memory) {
    static_assert(STEPS / ITEMS % 2 == 0 && STAGES % SERVERS == 0 && STAGES > 1, "lanes.py counts otherwise");
    begin();
    Turn turn;
    i64 j = 0;
    walk_slowly(ring, memory, turn, j);  // nothing may stand before the first item
#pragma unroll
    for (int v = 0; v < VECTOR; v++) state[v].some = true;
    constexpr int REST = AHEAD >= 0;  // the last item is not one of many
    if (j + STEPS + REST <= p.n) {
      Given x[2][ITEMS][VECTOR]; bool head[2][ITEMS][VECTOR];
      barrier_wait(&ring.full[turn.stage], turn.parity);
      read<ITEMS>(memory + turn.stage * STAGE_BYTES, 0, x[0], head[0]);
      for (; j + STEPS + REST <= p.n; j += STEPS) {
        Turn now = turn;
        turn.next();
        char* next = j + 2 * STEPS + REST <= p.n ? memory + turn.stage * STAGE_BYTES : nullptr;
        walk_stage(memory + now.stage * STAGE_BYTES, j, next, &ring.full[turn.stage], turn.parity, x, head);
        barrier_arrive(&ring.done[now.stage]);
      }
    }
    if (j < p.n) walk_slowly(ring, memory, turn, j);
    if (REDUCE) end();
  }
  __device__ __forceinline__ void walk_slowly(Ring& ring, char* memory, Turn& turn, i64& j) {
    barrier_wait(&ring.full[turn.stage], turn.parity);
    walk_some(memory + turn.stage * STAGE_BYTES, j, (int)min(p.n - j, (i64)STEPS));
    barrier_arrive(&ring.done[turn.stage]);
    turn.next();
    j += STEPS;
  }
  __device__ __forceinline__ void end() const {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
      int at = lane * VECTOR + v;
      if (at >= rows.count) continue;
      Result y = Finish()(state[v].value, {}, 0);
      each<OUTPUTS>([&](auto o) {
        typedef typename Output<o.value>::Store Store;
        char* to = p.out[o.value] + row_offset(p, p.out_strides[o.value], ACROSS ? rows.row : rows.row + at);
        if (ACROSS) to += (rows.column + at) * (i64)sizeof(Store);
        store_item<Store, Output<o.value>::reduced_grain>(to, convert<Store>(get<o.value>(y)));
      });
    }
  }
};

extern "C" __global__ void __launch_bounds__(32 + 32 * SERVERS, BLOCKS) upsweep_walk(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Ring ring;
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  Rows rows = rows_of(p, blockIdx.x);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) Walker{p, rows, lane}.run(ring, memory);
  else serve(p, rows, ring, memory, warp - 1, lane);
}
