// What is combined: an element is an item and, in segmented scans, whether a segment starts in it; a prefix is the fold
// of elements from the left. Segments are the lifted operator of Schwartz (1980): (f1,v1)+(f2,v2) = (f1|f2, f2 ? v2 : v1+v2).
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

__device__ __forceinline__ Element combine(const Element& a, const Element& b) {
  if (head_of(b)) return b;
  return element(op(a.value, b.value), head_of(a));
}

// Nothing folded yet (`some` is false) only at the start of a row that has no initial value.
struct Prefix { Item value; bool some; };

__device__ __forceinline__ void fold(Prefix& p, const Element& e, const Item& start) {
  if (SEGMENTED && head_of(e)) { p.value = INITIAL ? op(start, e.value) : e.value; p.some = true; return; }
  p.value = INITIAL || p.some ? op(p.value, e.value) : e.value;
  p.some = true;
}
