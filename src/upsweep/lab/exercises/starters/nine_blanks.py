"""Exercise 13: nine blanks (ECE569 module 37, the template of "version 2").

Kogge and Stone's scan with nothing left in it but its shape. Fill all nine: what counts within a block, what counts through
all blocks, who may load, from where, how long the loop runs, who combines, with which neighbour, what is kept, and how the
stride grows. Every block scans its own section.

Marks: values, no race, n log2 n - (n - 1) operations, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def nine_blanks(x, y, n):
    t = ...
    i = ...
    xy = cuda.shared.array(BLOCK, dtype)
    if ...:
        xy[t] = ...
    stride = 1
    while stride < ...:
        cuda.syncthreads()
        if ...:
            temp = op(..., xy[t])
        cuda.syncthreads()
        if t >= stride and i < n:
            xy[t] = ...
        stride *= ...
    if i < n:
        y[i] = xy[t]
