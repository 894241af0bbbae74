// Elements: an element is an item and, in segmented scans, whether a segment starts in it; a prefix is the fold of elements from
// the left. Segments are the lifted operator of Schwartz (1980): (f1,v1)+(f2,v2) = (f1|f2, f2 ? v2 : v1+v2).
#pragma once
#include "operators.cuh"
#include "spec.cuh"

__device__ __forceinline__ Item op(const Item& a, const Item& b) { return Op()(a, b); }

#if SEGMENTED
struct Element { Item value; u32 head; };
__device__ __forceinline__ Element element(const Item& v, bool head) { return {v, head}; }
__device__ __forceinline__ bool head_of(const Element& e) { return e.head != 0; }
#else
struct Element { Item value; };
__device__ __forceinline__ Element element(const Item& v, bool) { return {v}; }
__device__ __forceinline__ bool head_of(const Element&) { return false; }
#endif

// The operator, or a call of the one copy of it: a costly one fills the instruction cache where it is written out for warps
// that come by now and then. logaddexp ran at .56 of a copy with a look-back that calls, at .51 without (H200). A SPARING warp
// branches around what none of its lanes wants: that pays for items whose folds take long. A ROLLED sweep has one copy of the
// operator in a loop over its steps.
enum How { INLINE, CALLED, SPARING, ROLLED };
static __device__ __noinline__ Item op_called(Item a, Item b) { return op(a, b); }
template <How HOW> __device__ __forceinline__ Item op_in(const Item& a, const Item& b) {
  if constexpr (HOW == CALLED) return op_called(a, b);
  else return op(a, b);
}

template <How HOW = INLINE> __device__ __forceinline__ Element combine(const Element& a, const Element& b) {
  Item both = op_in<HOW>(a.value, b.value);  // without a branch: lanes differ in their heads
  return element(select(head_of(b), b.value, both), head_of(a) || head_of(b));
}

// Nothing folded yet (`some` is false) only at the start of a row that has no initial value.
struct Prefix { Item value; bool some; };

// Folds an element where `wanted`, without a branch, for lanes that differ.
__device__ __forceinline__ void fold_where(bool wanted, Prefix& p, const Element& e, const Item& start) {
  bool anew = SEGMENTED && head_of(e);
  Item both = op(INITIAL ? select(anew, start, p.value) : p.value, e.value);
  if (!INITIAL) both = select(p.some && !anew, both, e.value);
  p.value = select(wanted, both, p.value);
  p.some |= wanted;
}

// The same of all lanes. A costly operator is taken though a lane has nothing folded yet: behind a branch, operations that do not wait
// for each other would.
template <How HOW = INLINE> __device__ __forceinline__ void fold(Prefix& p, const Element& e, const Item& start) {
  if constexpr (COSTLY && HOW == INLINE) return fold_where(true, p, e, start);
  bool anew = SEGMENTED && head_of(e);
  if (INITIAL) p.value = op_in<HOW>(select(anew, start, p.value), e.value);
  else if (p.some) { Item both = op_in<HOW>(p.value, e.value); p.value = select(anew, e.value, both); }
  else p.value = e.value;
  p.some = true;
}
