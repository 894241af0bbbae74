"""Exercise 19: the split of radix sort (Blelloch 1990; GPU Gems 3, chapter 39).

Items whose bit is 0 go to the front, items whose bit is 1 behind them, each in their order: sorting by one bit, and so, bit
after bit, by all of them. The exclusive scan of the zeros is given, and the number of all zeros. Write the last lines.

Marks: values, no race and no wild access, no more operations than the scan, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda


def split_by_a_bit(x, y, bit, n):
    t = cuda.threadIdx.x
    zeros = cuda.shared.array(BLOCK, "int32")
    total = cuda.shared.array(1, "int32")
    if t > 0 and t < n:
        zeros[t] = 1 - ((x[t - 1] >> bit) & 1)
    else:
        zeros[t] = 0
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = zeros[t - stride] + zeros[t]
        cuda.syncthreads()
        if t >= stride:
            zeros[t] = temp
        stride *= 2
    if t == n - 1:
        total[0] = zeros[t] + 1 - ((x[t] >> bit) & 1)
    # here goes the scatter
