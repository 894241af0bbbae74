"""Exercise 6: the tail (PMPP chapter 11, figure 11.7; CS380 lecture 24, "non-power-of-two").

Brent-Kung with two items a thread, for sections that are full. With 13 items it reads past the end of x, writes past the
end of y, and adds words that nobody has written. Guard it, so that it is right for every n. No word may be read that has
not been written, not even where the answer does not depend on it.

Marks: values, no race and no wild access, 2n - 2 - log2 n operations at most, bank conflicts as before.
"""

from upsweep.textbook.dialect import BLOCK, TILE, cuda, dtype, op


def tail_guard(x, y, n):
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[start + t]
    xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < TILE:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    stride //= 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < TILE:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride //= 2
    cuda.syncthreads()
    y[start + t] = xy[t]
    y[start + t + BLOCK] = xy[t + BLOCK]
