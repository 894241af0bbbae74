// Lines of so few bytes that a lane holds RUN words of them, lines that lie one behind another.
// They are combined as they lie, each word with the four bytes that lie one line before it. Operators on bytes allow any order.
// Where segments start at lines, bytes of these lines have NEUTRAL before them, or the initial value.
// Where lines begin WITHIN words, a sum moves a lane's run to the word that it begins in, and a finish moves it back: `shift` bytes.
#include "column_moves.cuh"

// BACK: the lines lie backwards, and all is as in a mirror.
template <int BYTES, bool BACK> struct HeldLines {
  // Lines begin at a word again after PERIOD words. Of the WIDE words of a line the last has some bytes too many.
  static constexpr int WIDE = (BYTES + 3) / 4, MORE = 4 * WIDE - BYTES, PERIOD = BYTES % 2 ? BYTES : BYTES / 2, RUN = LINES / 32 * BYTES / 4;
  static constexpr int EACH = 4 * PERIOD / BYTES, HIGH = LINES / 32;  // lines of a period, and of a run
  static constexpr int STEP = WIDE | 1, STRIP = 32 * STEP;  // between what the lanes keep, and between strips

  static __device__ __forceinline__ u32 both(u32 a, u32 b) { return op(Item{a}, Item{b}).head; }
  // Word i of a run, or of several, in shared memory.
  static __device__ __forceinline__ u32* word(u32* run, int i) { return BACK ? run - i : run + i; }
  // The word some bytes behind the begin of `a`, which `b` follows.
  static __device__ __forceinline__ u32 word_of(u32 a, u32 b, int bytes) {
    return BACK ? __funnelshift_l(b, a, 8 * bytes) : __funnelshift_r(a, b, 8 * bytes);
  }
  // The word that ends some bytes behind the begin of `b`, which follows `a`.
  static __device__ __forceinline__ u32 word_until(u32 a, u32 b, int bytes) {
    return BACK ? __funnelshift_r(b, a, 8 * bytes) : __funnelshift_l(a, b, 8 * bytes);
  }
  static __device__ __forceinline__ u32 word_at(const u32* w, int byte) {
    return byte % 4 ? word_of(w[byte / 4], w[byte / 4 + 1], byte % 4) : w[byte / 4];
  }

  // A word that stands before word i of a period: bytes of `anew` in the lines whose bits are set.
  static __device__ __forceinline__ u32 before(const u32 (&lines)[EACH + 1], int i, u32 word, u32 anew = NEUTRAL) {
    if (!SEGMENTED) return word;
    const int line = 4 * i / BYTES, split = BYTES * (line + 1) - 4 * i;
    const u32 first = split >= 4 ? ~0u : BACK ? ~0u << 8 * (4 - split) : ~0u >> 8 * (4 - split);
    const u32 bits = (lines[line] & first) | (lines[line + 1] & ~first);
    return (word & ~bits) | (anew & bits);
  }

  static __device__ __forceinline__ u32 read(u32* at) { return convert<u32>(*(const Input<0>::Load*)at); }

  // A lane's items become their prefixes within its run. Whether a segment starts in it, by head(line).
  template <class H> static __device__ __forceinline__ bool sum_run(u32* run, int shift, H&& head) {
    u32 w[WIDE + PERIOD];  // the words before, and those of a period
    u32 next = 0, behind = 0;  // the first word of this run, and of the next
    if (WITHIN) {
      next = read(run);
      if (shift > 0) behind = read(word(run, RUN));
      __syncwarp();  // all lanes have read the words that others write
    }
    u32 heads[EACH + 1] = {}, some = 0;
#pragma unroll
    for (int i = 0; i < WIDE; i++) w[i] = NEUTRAL;
#pragma unroll 1
    for (int begin = 0, line = 0; begin < RUN; begin += PERIOD, line += EACH, run = word(run, PERIOD)) {
#pragma unroll
      for (int l = 0; l < EACH; l++) some |= heads[l] = head(line + l) ? ~0u : 0;
#pragma unroll
      for (int i = 0; i < PERIOD; i++) {
        if (WITHIN) {
          const u32 first = next;
          next = i + 1 < PERIOD || begin + PERIOD < RUN ? read(word(run, i + 1)) : behind;
          w[WIDE + i] = word_of(first, next, shift);
        } else w[WIDE + i] = read(word(run, i));
      }
#pragma unroll
      for (int i = 0; i < PERIOD; i++)
        *word(run, i) = w[WIDE + i] = both(before(heads, i, word_at(w, 4 * (WIDE + i) - BYTES)), w[WIDE + i]);
#pragma unroll
      for (int i = 0; i < WIDE; i++) w[i] = w[PERIOD + i];
    }
    return some != 0;
  }

  // The sum of all runs, by the lanes that have the last of SUBS shares of them: a lane has a word of the lines. Each run's `kept`
  // becomes the sum of those before it. Bit r of `starts`: a segment starts in run r.
  static __device__ __forceinline__ Element sum_runs(u32* runs, u32* kept, int sub, int own, u32 starts) {
    Item sums[LANES + 1] = {{NEUTRAL}};
    starts = starts >> sub * LANES & ~0u >> (32 - LANES);
    const int from = min(own, WIDE - 1), last = (sub * LANES + 1) * RUN - WIDE + from;
#pragma unroll
    for (int i = 0; i < LANES; i++) {
      u32 first = *word(runs, last + i * RUN), second = from < WIDE - 1 ? *word(runs, last + i * RUN + 1) : 0;
      Item last = {word_of(first, second, MORE)};
      sums[i + 1] = select(SEGMENTED && (starts >> i & 1), last, op(sums[i], last));
    }
    Element sum = up_sweep_subs(element(sums[LANES], starts != 0), sub);
    Prefix before = {{NEUTRAL}, true};
    down_sweep_subs(before, sub, sum, own, {NEUTRAL});
#pragma unroll
    for (int i = 0; i < LANES; i++) {
      const bool anew = SEGMENTED && (starts & ((1u << i) - 1)) != 0;
      if (own < WIDE) kept[(sub * LANES + i) * STEP + own] = anew ? sums[i].head : both(before.value.head, sums[i].head);
    }
    return sum;
  }

  // From these prefixes to the results: `kept` is the sum of the runs before, `prefix` that of the first of them, if it has one, by
  // head(line). Segments start from `start`.
  template <class H> static __device__ __forceinline__ void finish_run(u32* run, int shift, const u32* kept, const Item* prefix, bool some,
                                                                       u32 start, H&& head) {
    u32 line[WIDE + 1];  // the line before the run, and its first bytes once more
    u32 heads[EACH + 1] = {}, behind[EACH + 1] = {}, seen = 0;  // the lines that segments start in, and those behind the first of them
#pragma unroll
    for (int i = 0; i < WIDE; i++) line[i] = both(some ? prefix[i].head : start, kept[i]);
    line[WIDE] = word_at(line, MORE);
    line[WIDE - 1] = word_of(BACK ? line[WIDE - 1] >> 8 * MORE : line[WIDE - 1] << 8 * MORE, line[0], MORE);
    u32 w[WIDE + PERIOD], last = 0;
#pragma unroll
    for (int i = 0; i < WIDE; i++) w[i] = NEUTRAL;
#pragma unroll 1
    for (int begin = 0, first = 0; begin < RUN; begin += PERIOD, first += EACH, run = word(run, PERIOD)) {
#pragma unroll
      for (int l = 0; l < EACH; l++) behind[l] = seen |= heads[l] = head(first + l) ? ~0u : 0;
#pragma unroll
      for (int i = 0; i < PERIOD; i++) w[WIDE + i] = *word(run, i);
#pragma unroll
      for (int i = 0; i < PERIOD; i++) {
        const u32 made = both(before(behind, i, word_at(line, 4 * i % BYTES), start),
                              EXCLUSIVE ? before(heads, i, word_at(w, 4 * (WIDE + i) - BYTES)) : w[WIDE + i]);
        *word(run, i) = WITHIN ? word_until(last, made, shift) : made;
        last = made;
      }
#pragma unroll
      for (int i = 0; i < WIDE; i++) w[i] = w[PERIOD + i];
    }
    if (WITHIN) {
      __syncwarp();  // all lanes have written the words that others' runs end in
      if (shift > 0) *run = (*run & ~word_until(~0u, 0, shift)) | word_until(last, 0, shift);
    }
  }
};
static_assert(!WITHIN || STRIPS == 1, "a finish writes into the word that the next lane begins in, and no next strip");
typedef HeldLines<(FLAT ? LINE_BYTES : 8), (Input<0>::pitch < 0)> Held;
