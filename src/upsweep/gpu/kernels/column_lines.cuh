// Lines of so few bytes that a lane holds RUN words of them, lines that lie one behind another from one word's begin to another's.
// They are combined as they lie, each word with the four bytes that lie one line before it. Operators on bytes allow any order.
#include "column_moves.cuh"

// BACK: the lines lie backwards, and all is as in a mirror.
template <int BYTES, bool BACK> struct HeldLines {
  // Lines begin at a word again after PERIOD words. Of the WIDE words of a line the last has some bytes too many.
  static constexpr int WIDE = (BYTES + 3) / 4, MORE = 4 * WIDE - BYTES, PERIOD = BYTES % 2 ? BYTES : BYTES / 2, RUN = LINES / 32 * BYTES / 4;
  static constexpr int STEP = WIDE | 1, STRIP = 32 * STEP;  // between what the lanes keep, and between strips

  static __device__ __forceinline__ u32 both(u32 a, u32 b) { return op(Item{a}, Item{b}).head; }
  // Word i of a run, or of several, in shared memory.
  static __device__ __forceinline__ u32* word(u32* run, int i) { return BACK ? run - i : run + i; }
  // The word some bytes behind the begin of `a`, which `b` follows.
  static __device__ __forceinline__ u32 word_of(u32 a, u32 b, int bytes) {
    return BACK ? __funnelshift_l(b, a, 8 * bytes) : __funnelshift_r(a, b, 8 * bytes);
  }
  static __device__ __forceinline__ u32 word_at(const u32* w, int byte) {
    return byte % 4 ? word_of(w[byte / 4], w[byte / 4 + 1], byte % 4) : w[byte / 4];
  }

  // A lane's items become their prefixes within its run.
  static __device__ __forceinline__ void sum_run(u32* run) {
    u32 w[WIDE + PERIOD];  // the words before, and those of a period
#pragma unroll
    for (int i = 0; i < WIDE; i++) w[i] = NEUTRAL;
#pragma unroll 1
    for (int begin = 0; begin < RUN; begin += PERIOD, run = word(run, PERIOD)) {
#pragma unroll
      for (int i = 0; i < PERIOD; i++) w[WIDE + i] = convert<u32>(*(const Input<0>::Load*)word(run, i));
#pragma unroll
      for (int i = 0; i < PERIOD; i++) *word(run, i) = w[WIDE + i] = both(word_at(w, 4 * (WIDE + i) - BYTES), w[WIDE + i]);
#pragma unroll
      for (int i = 0; i < WIDE; i++) w[i] = w[PERIOD + i];
    }
  }

  // The sum of all runs, by the lanes that have the last of SUBS shares of them: a lane has a word of the lines. Each run's `kept`
  // becomes the sum of those before it.
  static __device__ __forceinline__ Element sum_runs(u32* runs, u32* kept, int sub, int own) {
    Item sums[LANES + 1] = {{NEUTRAL}};
    const int from = min(own, WIDE - 1), last = (sub * LANES + 1) * RUN - WIDE + from;
#pragma unroll
    for (int i = 0; i < LANES; i++) {
      u32 first = *word(runs, last + i * RUN), second = from < WIDE - 1 ? *word(runs, last + i * RUN + 1) : 0;
      sums[i + 1] = op(sums[i], Item{word_of(first, second, MORE)});
    }
    Element sum = up_sweep_subs(element(sums[LANES], false), sub);
    Prefix before = {{NEUTRAL}, true};
    down_sweep_subs(before, sub, sum, own, {});
#pragma unroll
    for (int i = 0; i < LANES; i++)
      if (own < WIDE) kept[(sub * LANES + i) * STEP + own] = both(before.value.head, sums[i].head);
    return sum;
  }

  // From these prefixes to the results: `kept` is the sum of the runs before, `before` the prefix of the first of them, if it has
  // one.
  static __device__ __forceinline__ void finish_run(u32* run, const u32* kept, const Item* before, bool some) {
    u32 line[WIDE + 1];  // the line before the run, and its first bytes once more
#pragma unroll
    for (int i = 0; i < WIDE; i++) line[i] = both(some ? before[i].head : NEUTRAL, kept[i]);
    line[WIDE] = word_at(line, MORE);
    line[WIDE - 1] = word_of(BACK ? line[WIDE - 1] >> 8 * MORE : line[WIDE - 1] << 8 * MORE, line[0], MORE);
    u32 w[WIDE + PERIOD];
#pragma unroll
    for (int i = 0; i < WIDE; i++) w[i] = NEUTRAL;
#pragma unroll 1
    for (int begin = 0; begin < RUN; begin += PERIOD, run = word(run, PERIOD)) {
#pragma unroll
      for (int i = 0; i < PERIOD; i++) w[WIDE + i] = *word(run, i);
#pragma unroll
      for (int i = 0; i < PERIOD; i++) *word(run, i) = both(word_at(line, 4 * i % BYTES), EXCLUSIVE ? word_at(w, 4 * (WIDE + i) - BYTES) : w[WIDE + i]);
#pragma unroll
      for (int i = 0; i < WIDE; i++) w[i] = w[PERIOD + i];
    }
  }
};
typedef HeldLines<(FLAT ? LINE_BYTES : 8), (Input<0>::pitch < 0)> Held;
