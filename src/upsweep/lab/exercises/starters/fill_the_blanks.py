"""Exercise 1: fill the blanks (ECE569 module 37, "version 2").

Kogge and Stone's scan in one shared array. At every level each thread with t >= stride adds the partial sum that lies
`stride` places to its left. Replace every ... so that y[i] = x[0] + ... + x[i] within the block. Keep the two barriers
where they are, and find out what each of them separates.

Marks: values, no race, n log2 n - (n - 1) operations, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def fill_the_blanks(x, y, n):
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if t >= stride and i < n:
            temp = op(..., xy[t])
        cuda.syncthreads()
        if t >= stride and i < n:
            xy[t] = ...
        stride *= 2
    if i < n:
        y[i] = xy[t]
