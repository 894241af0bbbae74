"""Exercise 10: three phases (PMPP chapter 11, figure 11.8).

Each thread owns ITEMS neighbouring items. Phase 1: it scans them by itself. Phase 2: the last items of all sections are
scanned by Kogge and Stone. Phase 3 is yours: every section but the first lacks what came before it, except in its last
item, which phase 2 has finished.

Marks: values, no race, (n - T) + (T log2 T - (T - 1)) + (T - 1)(n/T - 1) operations with T threads, bank conflicts as in
the phases that are given.
"""

from upsweep.textbook.dialect import BLOCK, ITEMS, TILE, cuda, dtype, op


def three_phase(x, y, n):
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    for k in range(t, items, BLOCK):
        xy[k] = x[start + k]
    first = t * ITEMS
    last = min(first + ITEMS, items) - 1
    cuda.syncthreads()
    for k in range(first + 1, last + 1):
        xy[k] = op(xy[k - 1], xy[k])
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and first < items:
            temp = op(xy[first + ITEMS - 1 - stride * ITEMS], xy[last])
        cuda.syncthreads()
        if t >= stride and first < items:
            xy[last] = temp
        stride *= 2
    # here goes phase 3
    cuda.syncthreads()
    for k in range(t, items, BLOCK):
        y[start + k] = xy[k]
