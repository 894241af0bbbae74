// Sums of bytes, four to a register. Bytes wrap, so their sum is the same in every order, as are operators on bits and maxima. A thread
// therefore need not walk the tree inside its own run. One add at a time took 15 instructions an item and .64 of a copy (H200).
#pragma once
#include "region.cuh"
#include "warp.cuh"

// The operator on the bytes (BYTEWISE): it has no carry from byte to byte, or the carry is left out (ADDS). Bits of booleans are
// 0 and 1. Minima and maxima compare halves of words by their upper bytes. The words that lanes hand each other of them are TURNED, so
// that the largest of numbers without a sign is wanted.
enum { NONE, ADDS, ORS, ANDS, XORS, MAXS, MINS };
typedef typename Component<0>::Acc Byte;
constexpr bool BITS = BYTEWISE == ORS || BYTEWISE == ANDS || BYTEWISE == XORS, MOST = BYTEWISE == MAXS || BYTEWISE == MINS;
constexpr u32 TURNED = MOST ? (BYTEWISE == MINS ? 0xff : 0) ^ (same<Byte, i8> ? 0x80 : 0) : 0;
constexpr bool PACKED = BYTEWISE != NONE && ITEMS >= 16;

// Words of a run. The functions below are also compiled for other types, and never called for them.
constexpr int PACKED_WORDS = max_of(StoreSlab<0, 32, ITEMS>::RUN / 4, 1);
typedef u32 Packed[PACKED_WORDS];
// Whether the bytes of each word lie backwards as they are read, and as they are written.
constexpr bool BACK_IN = LoadSlab<0, 32, ITEMS>::BACKWARDS, BACK_OUT = StoreSlab<0, 32, ITEMS>::BACKWARDS;
// Whether rows are cut where pieces of memory end.
constexpr bool PIECES_CUT = PACKED && Input<0>::mode == PLACED;
__device__ __forceinline__ u32 in_order(u32 word, bool backwards) { return backwards ? __byte_perm(word, 0, 0x0123) : word; }

// Booleans in memory may be any byte: those that are not 0 become 1.
__device__ __forceinline__ void normalize(Packed& w) {
  if constexpr (same<Byte, bool> || same<typename Input<0>::Load, b8>) {
#pragma unroll
    for (int i = 0; i < PACKED_WORDS; i++) w[i] = (((w[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w[i]) >> 7 & 0x01010101u;
  }
}

__device__ __forceinline__ u32 join_bits(u32 a, u32 b) { return BYTEWISE == ORS ? a | b : BYTEWISE == ANDS ? a & b : a ^ b; }
// The operator on sums, and on two halves of a word.
__device__ __forceinline__ u32 join(u32 a, u32 b) { return BYTEWISE == ADDS ? a + b : MOST ? max(a, b) : join_bits(a, b); }
__device__ __forceinline__ u32 join_halves(u32 a, u32 b) {
  if constexpr (same<Byte, i8>) return BYTEWISE == MINS ? __vmins2(a, b) : __vmaxs2(a, b);
  else return BYTEWISE == MINS ? __vminu2(a, b) : __vmaxu2(a, b);
}
// The values that change nothing: of sums that lanes hand each other, and of words.
constexpr u32 NEUTRAL = BYTEWISE != ANDS ? 0 : same<Byte, bool> ? 0x01010101u : 0xffffffffu, EMPTY = MOST ? TURNED * 0x01010101u : NEUTRAL;

__device__ __forceinline__ u32 sum_bytes(const Packed& w) {
  if constexpr (MOST) {
    u32 odd = EMPTY, even = EMPTY;
#pragma unroll
    for (int i = 0; i < PACKED_WORDS; i++) { odd = join_halves(odd, w[i]); even = join_halves(even, w[i] << 8); }
    const u32 both = join_halves(odd, even);
    return join_halves(both, both << 16) >> 24 ^ TURNED;
  }
  u32 sum = NEUTRAL;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) sum = BYTEWISE == ADDS ? __dp4a(w[i], 0x01010101u, sum) : join_bits(sum, w[i]);
  if constexpr (BITS) {
    sum = join_bits(sum, sum >> 16);
    sum = join_bits(sum, sum >> 8) & 0xff;
  }
  return sum;
}

// Prefixes of the four bytes of a word, which follow `carry`; it becomes the last of them. Sums and maxima go in two lanes of 16 bits:
// items 0 and 2, and items 1 and 3; a maximum in their upper bytes, whatever lies below.
__device__ __forceinline__ u32 scan_word(u32 word, u32& carry) {
  u32 inclusive;
  if constexpr (BITS) {
    u32 two = join_bits(word, __byte_perm(word, NEUTRAL, 0x2104)), four = join_bits(two, __byte_perm(two, NEUTRAL, 0x1044));
    inclusive = join_bits(four, carry);
    carry = __byte_perm(inclusive, 0, 0x3333);
  } else if constexpr (MOST) {
    u32 pair = join_halves(word << 8, word), before = __byte_perm(pair, carry, 0x1054);
    u32 first = join_halves(join_halves(word << 8, before), carry), second = join_halves(join_halves(pair, before), carry);
    inclusive = __byte_perm(first, second, 0x7351);
    carry = __byte_perm(second, 0, 0x3333);
  } else {
    u32 even = __byte_perm(word, 0, 0x4240), odd = __byte_perm(word, 0, 0x4341), pair = even + odd;
    u32 first = even + (pair << 16) + carry, second = pair + (pair << 16) + carry;
    inclusive = __byte_perm(first, second, 0x6240);
    carry = __byte_perm(second, 0, 0x4242);
  }
  return inclusive;
}

__device__ __forceinline__ void scan_bytes(Packed& w, u32 before) {
  u32 carry = MOST ? ((before ^ TURNED) & 0xff) * 0x01010101u : (before & 0xff) * (BITS ? 0x01010101u : 0x00010001u);
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) {
    const u32 last = carry, inclusive = scan_word(in_order(w[i], BACK_IN), carry);
    w[i] = in_order(EXCLUSIVE ? __byte_perm(last, inclusive, 0x6540) : inclusive, BACK_OUT);
  }
}

__device__ __forceinline__ Element byte_element(u32 sum, bool head = false) {
  Item item;
  get<0>(item) = convert<typename Component<0>::Acc>(sum ^ TURNED);
  return element(item, head);
}
__device__ __forceinline__ u32 byte_of(const Prefix& p) { return p.some ? convert<u32>(p.value.head) & 0xff ^ TURNED : NEUTRAL; }

// Of segments: bit k of the heads of a run says that one starts at item k.
typedef HeadsOfRun<ITEMS> Heads;
constexpr int HEAD_WORDS = sizeof(Heads) / 4;
__device__ __forceinline__ bool any_head(const Heads& heads) {
  u32 any = 0;
#pragma unroll
  for (int q = 0; q < HEAD_WORDS; q++) any |= heads.w[q];
  return any != 0;
}
// Eight of them from a place on.
__device__ __forceinline__ u32 eight(const Heads& heads, int at) {
  const u32 low = heads.w[at / 32 % HEAD_WORDS], high = heads.w[(at / 32 + 1) % HEAD_WORDS];
  return __funnelshift_r(low, high, at % 32) & 0xff;
}
// 0xff for each byte whose highest bit is set.
__device__ __forceinline__ u32 filled(u32 bits) {
  u32 r;
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(r) : "r"(bits));
  return r;
}
// 0xff for each byte of a word as it is read from one on, which may lie behind its last.
__device__ __forceinline__ u32 bytes_from(int byte) {
  u32 r, bit = max(8 * byte, 0);
  if constexpr (BACK_IN) asm("shr.b32 %0, %1, %2;" : "=r"(r) : "r"(FULL), "r"(bit));
  else asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(FULL), "r"(bit));
  return r;
}
__device__ __forceinline__ u32 keep_bytes(u32 word, u32 kept, u32 others = EMPTY) { return (word & kept) | (others & ~kept); }
// Makes the first bytes neutral, fewer than 16.
__device__ __forceinline__ void leave_out(Packed& w, int bytes) {
#pragma unroll
  for (int i = 0; i < 4 && i < PACKED_WORDS; i++) {
    const int here = min(max(bytes - 4 * i, 0), 4);
    w[i] = keep_bytes(w[i], bytes_from(here));
  }
}

// The run as it is read; bytes of the first piece that lie before a row are neutral.
template <class S> __device__ __forceinline__ void read_run(const S& slab, const Row& r, i64 j, Packed& w) {
  typedef typename Input<0>::Load Load;
  if constexpr (is_spaced<Load>) {
    u32 words[S::RUN / 4];
    slab.read_packed(r, j, words);
#pragma unroll
    for (int i = 0; i < PACKED_WORDS; i++) w[i] = second_bytes(Load{}, words[2 * i + BACK_IN], words[2 * i + !BACK_IN]);
  } else slab.read_packed(r, j, w);
  if (PIECES_CUT && j == 0 && slab.lane == 0) leave_out(w, in_piece(r.base, BACK_IN));
}

__device__ __forceinline__ u32 join_bytes(u32 a, u32 b) {
  if constexpr (BITS) return join_bits(a, b);
  else if constexpr (MOST) return __byte_perm(join_halves(a << 8, b << 8), join_halves(a, b), 0x7351);
  else return AddBytes()(a, b);
}

// The sum of the run from its last head on.
__device__ __forceinline__ u32 sum_last_segment(const Packed& w, const Heads& heads) {
  int head = 31 - __clz(heads.w[0]);
#pragma unroll
  for (int q = 1; q < HEAD_WORDS; q++) head = heads.w[q] ? 32 * q + 31 - __clz(heads.w[q]) : head;
  Packed last;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) last[i] = keep_bytes(w[i], bytes_from(head - 4 * i));
  return sum_bytes(last);
}

// A run in four quarters, one in each byte of its words, so that one operation on words combines an item of each with the item before
// it. Bytes in their order are combined in pairs, in fours, and with the word before: twice the instructions.
struct Quarters {
  static constexpr int PART = PACKED ? PACKED_WORDS / 4 : 1;
  u32 w[PART][4], open[4 * PART];  // the items; 0xff where no segment starts
  u32 sums, free;  // of each quarter's last segment, with the quarters before; 0xff where none starts up to the quarter's end

  __device__ __forceinline__ u32& item(int k) { return w[k / 4][BACK_IN ? 3 - k % 4 : k % 4]; }

  __device__ __forceinline__ Quarters(const Packed& run, const Heads& heads) {
    u32 starts = 0, last = EMPTY, one = FULL;
#pragma unroll
    for (int i = 0; i < PART; i++) {
#pragma unroll
      for (int b = 0; b < 4; b++) w[i][b] = run[(b * PART + i) % PACKED_WORDS];
      turn_bytes(w[i]);
    }
#pragma unroll
    for (int k = 0; k < 4 * PART; k++) {
      if (k % 8 == 0) {
        starts = 0;
#pragma unroll
        for (int b = 0; b < 4; b++) starts |= eight(heads, b * 4 * PART + k) << 8 * b;
      }
      open[k] = ~filled(starts << (7 - k % 8));
      one &= open[k];
      last = item(k) = join_bytes(keep_bytes(last, open[k]), item(k));
    }
    const u32 two = one & (one << 8 | 0xff);
    free = two & (two << 16 | 0xffff);
    sums = join_bytes(keep_bytes(last << 8, one & 0xffffff00u), last);
    sums = join_bytes(keep_bytes(sums << 16, two & 0xffff0000u), sums);
  }
  __device__ __forceinline__ u32 last_segment() const { return sums >> 24 ^ TURNED; }
  __device__ __forceinline__ bool headed() const { return free >> 24 == 0; }

  // The prefixes of the run, which follows `before`; segments start from `start`.
  __device__ __forceinline__ void finish(u32 before, u32 start, Packed& run) {
    const u32 anew = (start ^ TURNED) * 0x01010101u, carry = ((before ^ TURNED) & 0xff) * 0x01010101u;
    const u32 behind = __byte_perm(carry, join_bytes(keep_bytes(carry, free, anew), sums), 0x6540);  // the quarters before
    u32 none = FULL, last = behind;
#pragma unroll
    for (int k = 0; k < 4 * PART; k++) {
      none &= open[k];
      const u32 inclusive = join_bytes(keep_bytes(behind, none, anew), item(k));
      item(k) = EXCLUSIVE ? keep_bytes(last, open[k], anew) : inclusive;
      last = inclusive;
    }
#pragma unroll
    for (int i = 0; i < PART; i++) {
      u32 words[4];
#pragma unroll
      for (int b = 0; b < 4; b++) words[b] = w[i][BACK_IN == BACK_OUT ? b : 3 - b];
      turn_bytes(words);
#pragma unroll
      for (int b = 0; b < 4; b++) run[(b * PART + i) % PACKED_WORDS] = words[b];
    }
  }
};

// The sum of all lanes.
__device__ __forceinline__ u32 sum_lanes(u32 sum) {
  return BYTEWISE == ADDS ? __reduce_add_sync(FULL, sum) : MOST ? __reduce_max_sync(FULL, sum) : BYTEWISE == ORS ? __reduce_or_sync(FULL, sum)
       : BYTEWISE == ANDS ? __reduce_and_sync(FULL, sum) : __reduce_xor_sync(FULL, sum);
}
// The lane in which the last segment of lanes begins: bit l of `heads` says that one starts in the run of lane l.
__device__ __forceinline__ int last_lane(u32 heads) { return max(31 - __clz(heads), 0); }

// In aligned groups of LANES lanes: the sums up to each lane of the segment that it is in, and the lanes in which segments start.
template <int LANES = 32> struct ByteSums {
  u32 sums, heads;
  int lane;

  __device__ __forceinline__ ByteSums(u32 sum, bool head, int lane) : sums(sum), heads(0), lane(lane) {
    int reach = lane;  // lanes before this one in the same segment
    if constexpr (SEGMENTED) {
      heads = __ballot_sync(FULL, head);
      if (LANES < 32) heads = heads >> threadIdx.x % 32 / LANES * LANES & ((1u << LANES % 32) - 1);
      reach -= last_lane(heads & ((2u << lane) - 1));
    }
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
      u32 left = __shfl_up_sync(FULL, sums, d);
      if (reach >= d) sums = join(left, sums);
    }
  }
  __device__ __forceinline__ Element last() const { return byte_element(sums, heads != 0); }
  // The prefix of this lane, of a group with the prefix `before`; segments start from `start`.
  __device__ __forceinline__ u32 before(const Prefix& before, u32 start) const {
    const u32 left = __shfl_up_sync(FULL, sums, 1);
    const bool anew = (heads & ((1u << lane) - 1)) != 0;
    return join(anew ? start : byte_of(before), lane ? left : NEUTRAL);
  }
};
// What segments start from, but for the first of a row.
__device__ __forceinline__ u32 byte_of(const Item& start) { return INITIAL ? convert<u32>(start.head) & 0xff ^ TURNED : NEUTRAL & 0xff; }
