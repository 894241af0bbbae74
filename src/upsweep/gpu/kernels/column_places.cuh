// What a warp of columns keeps in shared memory: the rectangle of each array, and heads.
#include "column_loose.cuh"

template <class T, int GRAIN, int PITCH, int PHASE, int LIES> struct PatchOf { typedef Loose<T, PITCH, PHASE> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, COLUMNS_NEAR> { typedef Patch<T, GRAIN> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, ITEMS_NEAR> { typedef Turned<T, GRAIN> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, ITEMS_WITHIN> { typedef Skewed<T, false> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, ITEMS_BACKWARDS> { typedef Skewed<T, true> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, SIDE_NEAR> { typedef Square<T, GRAIN, false> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_NEAR> { typedef Square<T, GRAIN, true> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_KEPT> { typedef Square<T, GRAIN, true, true> type; };
template <class T, int GRAIN, int PHASE> struct PatchOf<T, GRAIN, 0, PHASE, CROSS_BYTES> { typedef Square<T, GRAIN, true, true, sizeof(T)> type; };
template <class T, int GRAIN, int PITCH, int PHASE> struct PatchOf<T, GRAIN, PITCH, PHASE, SIDE_WHOLE> { typedef Stretches<T, GRAIN, PITCH, false> type; };
template <class T, int GRAIN, int PITCH, int PHASE> struct PatchOf<T, GRAIN, PITCH, PHASE, CROSS_WHOLE> { typedef Stretches<T, GRAIN, PITCH, true> type; };
template <int I> using ColumnPatch =
  typename PatchOf<typename Input<I>::Load, Input<I>::grain, Input<I>::pitch, Input<I>::begin, Input<I>::lies>::type;
template <int O> using ResultPatch =
  typename PatchOf<typename Output<O>::Store, Output<O>::grain, Output<O>::pitch, Output<O>::begin, Output<O>::lies>::type;
// Whether the items of a column are neighbours.
constexpr bool items_touch(int lies) { return lies >= ITEMS_NEAR && lies <= ITEMS_BACKWARDS; }
typedef typename PatchOf<u8, HEADS_GRAIN, HEADS_PITCH, HEADS_BEGIN, COLUMNS_NEAR>::type HeadPatch;

// One list of heads for all columns, in words as they lie in memory: the heads of a warp's items.
constexpr bool HEADS_LISTED = SEGMENTED && !HEADS_APART && HEADS_MODE == SHIFTED;
struct HeadList {
  static constexpr int BYTES = (HEIGHT + 6 + 15) / 16 * 16;

  // The lowest address of these heads; `from` is the first one's.
  static __device__ __forceinline__ const char* low(const char* from) { return HEADS_FLIP ? from - (HEIGHT - 1) : from; }
  // Copies the words that have a head of one of so many `items`; the first may have none (`skip`).
  static __device__ __forceinline__ void load(char* shared, const char* from, i64 items, bool skip, int lane) {
    const int last = (int)min(items, (i64)HEIGHT) - 1;
    const char *begin = (const char*)((u64)low(from) & ~3ull);
    const char *least = HEADS_FLIP ? from - last : from + skip, *most = HEADS_FLIP ? from - skip : from + last;
#pragma unroll
    for (int c = lane; c < HEIGHT / 4 + 2; c += 32)
      if (begin + 4 * c + 3 >= least && begin + 4 * c <= most) copy_async<4>(shared + 4 * c, begin + 4 * c);
  }
  // Whether a segment starts at item i.
  static __device__ __forceinline__ bool head(const char* shared, const char* from, int i) {
    return shared[((u64)low(from) & 3) + (HEADS_FLIP ? HEIGHT - 1 - i : i)] != 0;
  }
  // The heads of a run as bits, each lane those of its own: fewer instructions than votes, where a warp has several runs:
  // eight columns of bytes ran at .50 of a copy, so at .58 (H200).
  static constexpr bool BY_LANES = ITEMS % 4 == 0 && 4 * SUBS >= ITEMS;
  static __device__ __forceinline__ u32 of_run(const char* shared, const char* from, int run) {
    const u32* words = (const u32*)(shared + (HEADS_FLIP ? HEIGHT - (run + 1) * ITEMS : run * ITEMS));
    u32 bits = 0, above = words[ITEMS / 4];
#pragma unroll
    for (int i = ITEMS / 4 - 1; i >= 0; i--) {
      const u32 word = words[i];
      bits = __funnelshift_l(bytes_set(__funnelshift_r(word, above, (u32)(u64)low(from) % 4 * 8)), bits, 4);
      above = word;
    }
    return HEADS_FLIP ? __brev(bits) >> 32 - ITEMS : bits;
  }
};

// The same list as bits, in words of 32, where a warp's items begin with a word.
struct BitList {
  static constexpr int BYTES = (HEIGHT / 8 + 15) / 16 * 16;

  // Copies the words of these heads from item j on, of `n` in all.
  static __device__ __forceinline__ void load(char* shared, const char* heads, i64 j, i64 n, int lane) {
#pragma unroll
    for (int c = lane; c < HEIGHT / 32; c += 32)
      if (j + 32 * c < n) copy_async<4>(shared + 4 * c, heads + j / 8 + 4 * c);
  }
  // The heads of a run.
  static __device__ __forceinline__ u32 of_run(const char* shared, int run) {
    return ((const typename bits_of<ITEMS == 32 ? 4 : ITEMS == 16 ? 2 : 1>::type*)shared)[run];
  }
};
constexpr int HEADS_BYTES = HEADS_APART ? HeadPatch::BYTES : HEADS_BITS ? BitList::BYTES : HEADS_LISTED ? HeadList::BYTES : 0;
constexpr int WARP_BYTES = HEADS_AT + HEADS_BYTES;
