"""Exercise 21: a summed-area table (CS380 lecture 24; Crow 1984).

A table in two dimensions is scanned along its rows, and the result along its columns, by one kernel launched twice: line b
begins at item b * lead, and its items lie `step` apart. Word (r, c) then holds the sum of all items above it and to its left.
The page draws x, rows and y as tables. This kernel scans rows only, whatever it is asked for.

Marks: values, no race, as many operations as two Kogge-Stone scans, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def summed_area(x, y, length, step, lead):
    t = cuda.threadIdx.x
    place = cuda.blockIdx.x * length + t
    line = cuda.shared.array(BLOCK, dtype)
    if t < length:
        line[t] = x[place]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and t < length:
            temp = op(line[t - stride], line[t])
        cuda.syncthreads()
        if t >= stride and t < length:
            line[t] = temp
        stride *= 2
    if t < length:
        y[place] = line[t]
