// Sections of a filter in series, of rows whose items lie side by side. A tile stays in shared memory while it goes through all
// sections, so that memory is read and written once; each section looks back by itself, over the sums of the tiles before.
#include "section_sums.cuh"

constexpr int LANE = log2_of(RUN), PART = LANE + 5;                    // the levels of the sums of a lane, and of a warp's strip
constexpr int STRIP = 32 * RUN, PARTS = WARPS * STRIPS, PITCH = RUN + 1;  // a run begins in the bank behind that of its neighbour
static_assert(TILE_LEVEL == PART + log2_of(PARTS) && WARPS > 2, "cascades.py counts otherwise");

struct Shared {
  Joined joined;
  c128 sums[PARTS];
  c128 near[NEAR];  // sums of groups
  Before<c128> before[PARTS];
};

struct Tile {
  const Params& p;
  Shared& s;
  f64* items;      // of the tile
  i64 row, t;
  int warp, lane;

  __device__ __forceinline__ f64* strip(int i) const { return items + (warp * STRIPS + i) * 32 * PITCH; }
  __device__ __forceinline__ i64 first(int i) const { return (t * PARTS + warp * STRIPS + i) * STRIP; }
  static __device__ __forceinline__ int place(int j) { return j / RUN * PITCH + j % RUN; }

  __device__ __forceinline__ void load() const {
    const LOAD* from = p.in + row * p.in_row;
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++) {
      LOAD x[RUN];
#pragma unroll
      for (int k = 0; k < RUN; k++) {
        const i64 j = first(i) + k * 32 + lane;
        if (j < p.n) x[k] = from[j]; else x[k] = {};
      }
#pragma unroll
      for (int k = 0; k < RUN; k++) strip(i)[place(k * 32 + lane)] = convert<f64>(x[k]);
    }
    __syncwarp();
  }
  __device__ __forceinline__ void store() const {
    STORE* to = p.out + row * p.out_row;
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++)
#pragma unroll
      for (int k = 0; k < RUN; k++) {
        const i64 j = first(i) + k * 32 + lane;
        if (j < p.n) to[j] = convert<STORE>(strip(i)[place(k * 32 + lane)]);
      }
  }

  __device__ __forceinline__ void read_run(int i, f64 (&x)[RUN]) const {
#pragma unroll
    for (int k = 0; k < RUN; k++) x[k] = strip(i)[lane * PITCH + k];
  }

  template <class V> __device__ __forceinline__ void through(const Section& by, int number) const {
    V swept[STRIPS];
    f64 x[RUN];
    // Loops over strips are loops, as the text of both fills the instruction cache.
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++) {
      read_run(i, x);
      const V sums = up_sweep<32>(sum_of<LANE, V>(x, 0, by), lane, by, LANE);
      if (lane == 31) (V&)s.sums[warp * STRIPS + i] = sums;
#pragma unroll
      for (int k = 0; k < STRIPS; k++) swept[k] = select(k == i, sums, swept[k]);
    }
    __syncthreads();  // the sums of all strips are there
    const Sums<V> sums{p, by, row * p.sections + number, t, s.joined.epoch, lane};
    V parts;
    typename Sums<V>::Siblings siblings;
    if (warp < 2) parts = up_sweep<PARTS>((V&)s.sums[lane % PARTS], lane, by, PART);
    if (warp == 0) siblings = sums.siblings();
    else if (warp == 1) sums.publish(from_lane(parts, PARTS - 1));
    else
#pragma unroll 1
      for (int j = warp - 2; j < sums.beside(); j += WARPS - 2) (V&)s.near[j] = sums.near(j);
    __syncthreads();  // the sums of near groups are there
    if (warp == 0) {
      Before<V> b = sums.before(siblings, s.near);
      down_sweep<PARTS>(b, lane % PARTS, parts, by, PART);
      if (lane < PARTS) (Before<V>&)s.before[lane] = b;
    }
    __syncthreads();  // the states before all strips are there
#pragma unroll 1
    for (int i = 0; i < STRIPS; i++) {
      Before<V> b = (Before<V>&)s.before[warp * STRIPS + i];
      V sums = swept[0];
#pragma unroll
      for (int k = 1; k < STRIPS; k++) sums = select(k == i, swept[k], sums);
      down_sweep<32>(b, lane, sums, by, LANE);
      read_run(i, x);
      finish<LANE>(x, 0, by, b);
#pragma unroll
      for (int k = 0; k < RUN; k++) strip(i)[lane * PITCH + k] = x[k];
    }
  }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) upsweep_cascade(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  __shared__ Shared s;
  if (threadIdx.x == 0) s.joined = join(p, p.tickets, p.used);
  __syncthreads();
  const i64 ticket = s.joined.ticket, row = ticket / p.tiles;
  const Tile tile{p, s, (f64*)memory, row, ticket - row * p.tiles, (int)threadIdx.x / 32, (int)threadIdx.x % 32};
  tile.load();
#pragma unroll 1
  for (int k = 0; k < p.sections; k++) {
    const Section& by = p.section[k];
    if (by.pair) tile.through<c128>(by, k);
    else tile.through<f64>(by, k);
  }
  tile.store();
}
