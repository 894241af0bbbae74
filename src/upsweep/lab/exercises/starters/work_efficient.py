"""Exercise 7: fewer operations (PMPP chapter 11, figures 11.5 to 11.7).

The reduction tree is done: word 2^k m - 1 holds the sum of 2^k items. Write the reverse tree, which hands those sums to
the words between them: from the largest stride down, word `index` is a finished prefix, and `index + stride` lacks it.
All of it takes 2n - 2 - log2 n operations, where Kogge and Stone take n log2 n - (n - 1).

Marks: values, no race, 2n - 2 - log2 n operations, bank conflicts as in the tree that is given.
"""

from upsweep.textbook.dialect import BLOCK, TILE, cuda, dtype, op


def work_efficient(x, y, n):
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
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    # here goes the reverse tree
    cuda.syncthreads()
    if t < items:
        y[start + t] = xy[t]
    if t + BLOCK < items:
        y[start + t + BLOCK] = xy[t + BLOCK]
