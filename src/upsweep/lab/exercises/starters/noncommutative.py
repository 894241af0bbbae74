"""Exercise 9: an operator that does not commute (all trees of the sources).

`XY[index] += XY[index - stride]` puts the later items on the left. For sums nobody notices; for matrices, strings or
recurrences the result is wrong. Keep the network as it is, and let the earlier items stand on the left everywhere.

Marks: values (of strings put together), no race, no more operations than before, bank conflicts as before.
"""

from upsweep.textbook.dialect import BLOCK, TILE, cuda, dtype, op


def noncommutative(x, y, n):
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < items:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < items:
            xy[index] = op(xy[index], xy[index - stride])
        stride *= 2
    stride //= 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < items:
            xy[index + stride] = op(xy[index + stride], xy[index])
        stride //= 2
    cuda.syncthreads()
    if t < items:
        y[start + t] = xy[t]
    if t + BLOCK < items:
        y[start + t + BLOCK] = xy[t + BLOCK]
