// A tile of bytes whose lines lie along A and whose runs lie along B, turned in registers. A lane has words of four lines and makes a
// word of each of four runs of them. A run begins anywhere within a word, so that a word of the copy is put together from those of two
// lanes: the last lane's four lines are those of the next tile.
#include "params.cuh"

struct ByteLines {
  const char *memory, *source;  // where the first line lies
  i64 apart;                    // bytes from line to line of the source

  __device__ __forceinline__ const u32* words(u32 line) const { return (const u32*)(memory + line * PITCH + line / 32 * 4); }
  __device__ __forceinline__ u32 phase(u32 line) const { return (u32)(u64)(source + line * apart) & 3; }
};

// `to` is where the tile's first run begins, `apart` the bytes from run to run. `begins`: the copy's runs begin with those of the tile.
__device__ __forceinline__ void write_turned(const ByteLines& lines, char* to, i64 apart, int some_a, int some_b, bool begins) {
  constexpr int EACH = 8, ALL = TILE_B + 4;  // runs at once, and lines
  const u32 lane = threadIdx.x % 32;
  const u32* from[4];
  u32 bits[4];
#pragma unroll
  for (int v = 0; v < 4; v++) {
    from[v] = lines.words(4 * lane + v);
    bits[v] = GRAIN < 4 ? 8 * lines.phase(4 * lane + v) : 0;
  }
  // Writes this lane's word of a run. SURE: the run has words for all lanes, and none begins with it.
  auto put = [&](auto sure, char* run, u32 word) {
    const int ahead = EVEN_RUNS ? 0 : -(int)(u64)run & 3, first = 4 * lane + ahead;  // bytes before the first whole word
    const u32 whole = EVEN_RUNS ? word : __funnelshift_r(word, __shfl_down_sync(0xffffffffu, word, 1), 8 * ahead);
    if (lane < 31) {
      if (sure.value || first + 4 <= some_b) *(u32*)(run + first) = whole;
      else each<4>([&](auto v) { if (first + v.value < some_b) run[first + v.value] = whole >> 8 * v.value; });
    }
    if (!sure.value && begins && lane == 0) each<4>([&](auto v) { if (v.value < ahead) run[v.value] = word >> 8 * v.value; });
  };
  const bool inside = some_b == ALL && (EVEN_RUNS || !begins);
#pragma unroll 1
  for (int a = threadIdx.x / 32 * EACH; a < some_a; a += THREADS / 32 * EACH) {
    u32 w[2][4];
#pragma unroll
    for (int v = 0; v < 4; v++) {
      const u32* x = from[v] + a / 4;
      w[0][v] = GRAIN < 4 ? __funnelshift_r(x[0], x[1], bits[v]) : x[0];
      w[1][v] = GRAIN < 4 ? __funnelshift_r(x[1], x[2], bits[v]) : x[1];
    }
    turn_bytes(w[0]);
    turn_bytes(w[1]);
    char* run = to + a * apart;
    if (inside && a + EACH <= some_a) each<EACH>([&](auto k) { put(Int<1>{}, run + k.value * apart, w[k.value / 4][k.value % 4]); });
    else each<EACH>([&](auto k) { if (a + k.value < some_a) put(Int<0>{}, run + k.value * apart, w[k.value / 4][k.value % 4]); });
  }
}
