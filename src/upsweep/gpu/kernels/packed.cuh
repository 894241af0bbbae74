// Sums of bytes, four to a register. Bytes wrap, so their sum is the same in every order, as are operators on bits and maxima. A thread
// therefore need not walk the tree inside its own run. One add at a time took 15 instructions an item and .64 of a copy (H200).
#pragma once
#include "region.cuh"
#include "warp.cuh"

// The operator on the bytes (BYTEWISE): it has no carry from byte to byte, or the carry is left out (ADDS). Bits of booleans are
// 0 and 1. Minima and maxima compare halves of words by their upper bytes. What lanes hand each other of them is TURNED, so that it
// is the largest of numbers without a sign.
enum { NONE, ADDS, ORS, ANDS, XORS, MAXS, MINS };
typedef typename Component<0>::Acc Byte;
constexpr bool BITS = BYTEWISE == ORS || BYTEWISE == ANDS || BYTEWISE == XORS, MOST = BYTEWISE == MAXS || BYTEWISE == MINS;
constexpr u32 TURNED = MOST ? (BYTEWISE == MINS ? 0xff : 0) ^ (same<Byte, i8> ? 0x80 : 0) : 0;
constexpr bool PACKED = BYTEWISE != NONE && ITEMS >= 16;

// Words of a run. The functions below are also compiled for other types, and never called for them.
constexpr int PACKED_WORDS = max_of(max_of(LoadSlab<0, 32, ITEMS>::RUN, StoreSlab<0, 32, ITEMS>::RUN) / 4, 1);
typedef u32 Packed[PACKED_WORDS];

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

// Makes the first bytes neutral, fewer than 16.
__device__ __forceinline__ void leave_out(Packed& w, int bytes) {
#pragma unroll
  for (int i = 0; i < 4 && i < PACKED_WORDS; i++) {
    const int here = min(max(bytes - 4 * i, 0), 4);
    const u32 out = (u32)((1ull << 8 * here) - 1);
    w[i] = (w[i] & ~out) | (EMPTY & out);
  }
}

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
    const u32 last = carry, inclusive = scan_word(w[i], carry);
    w[i] = EXCLUSIVE ? __byte_perm(last, inclusive, 0x6540) : inclusive;
  }
}

// Of segments: bit k of `heads` says that one starts at item k. The bytes of the four items of word i whose bits are set.
__device__ __forceinline__ u32 bytes_of(u32 bits, int i) { return ((bits >> 4 * i & 15) * 0x00204081u & 0x01010101u) * 0xffu; }
__device__ __forceinline__ u32 keep_bytes(u32 word, u32 kept) { return (word & kept) | (EMPTY & ~kept); }
__device__ __forceinline__ u32 join_bytes(u32 a, u32 b) {
  if constexpr (BITS) return join_bits(a, b);
  else if constexpr (MOST) return __byte_perm(join_halves(a << 8, b << 8), join_halves(a, b), 0x7351);
  else return AddBytes()(a, b);
}

// The sum of the run from its last head on.
__device__ __forceinline__ u32 sum_last_segment(const Packed& w, u32 heads) {
  const u32 since = FULL << (31 - __clz(heads | 1));
  Packed last;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) last[i] = keep_bytes(w[i], bytes_of(since, i));
  return sum_bytes(last);
}

// Prefixes within segments, of a run that follows `before`: over pairs, over four, and from the word before, where no head lies
// between.
__device__ __forceinline__ void scan_segments(Packed& w, u32 heads, u32 before) {
  u32 carry = ((before ^ TURNED) & 0xff) * 0x01010101u;
#pragma unroll
  for (int i = 0; i < PACKED_WORDS; i++) {
    const u32 one = ~bytes_of(heads, i), two = one & (one << 8 | 0xff), all = two & (two << 16 | 0xffff), last = carry;
    u32 sums = join_bytes(keep_bytes(w[i] << 8, one & 0xffffff00u), w[i]);
    sums = join_bytes(keep_bytes(sums << 16, two & 0xffff0000u), sums);
    sums = join_bytes(keep_bytes(carry, all), sums);
    carry = __byte_perm(sums, 0, 0x3333);
    w[i] = EXCLUSIVE ? keep_bytes(__byte_perm(last, sums, 0x6540), one) : sums;
  }
}

// The sum of all lanes; in aligned groups of LANES lanes the sum up to this one, and from these the sum of those before it.
__device__ __forceinline__ u32 sum_lanes(u32 sum) {
  return BYTEWISE == ADDS ? __reduce_add_sync(FULL, sum) : MOST ? __reduce_max_sync(FULL, sum) : BYTEWISE == ORS ? __reduce_or_sync(FULL, sum)
       : BYTEWISE == ANDS ? __reduce_and_sync(FULL, sum) : __reduce_xor_sync(FULL, sum);
}
template <int LANES = 32> __device__ __forceinline__ u32 sum_to(u32 sum, int lane) {
#pragma unroll
  for (int d = 1; d < LANES; d *= 2) {
    u32 left = __shfl_up_sync(FULL, sum, d);
    if (lane >= d) sum = join(left, sum);
  }
  return sum;
}
__device__ __forceinline__ u32 before_lane(u32 sums, int lane) {
  sums = __shfl_up_sync(FULL, sums, 1);
  return lane ? sums : NEUTRAL;
}

__device__ __forceinline__ Element byte_element(u32 sum, bool head = false) {
  Item item;
  get<0>(item) = convert<typename Component<0>::Acc>(sum ^ TURNED);
  return element(item, head);
}
__device__ __forceinline__ Element last_segment(const Packed& w, u32 heads) {
  return byte_element(sum_last_segment(w, heads), heads != 0);
}
__device__ __forceinline__ u32 byte_of(const Prefix& p) { return p.some ? convert<u32>(p.value.head) & 0xff ^ TURNED : NEUTRAL; }
