"""Exercise 3: the missing barrier (notes on scan kernels, "write after read").

This kernel is right when threads happen to run in one order and wrong when they run in another. One barrier is
missing. Find the two lines that race, and separate them, without slowing anything else down.

Marks: values, no race, no needless barrier, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def missing_barrier(x, y, n):
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    if i < n:
        y[i] = xy[t]
