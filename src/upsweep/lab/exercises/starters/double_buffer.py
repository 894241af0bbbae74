"""Exercise 5: the double buffer (GPU Gems 3, listing 39-2).

An exclusive scan between two buffers, one barrier a level. It is printed like this in a well-known book, and it gives
wrong sums: ask which half of `temp` holds the sums of the level before. One line is wrong.

Marks: values, no race, n log2 n - (n - 1) operations, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, identity, op


def double_buffer(x, y, n):
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    temp = cuda.shared.array((2, BLOCK), dtype)
    pout, pin = 0, 1
    if i < n:
        if t > 0:
            temp[pout, t] = x[i - 1]
        else:
            temp[pout, t] = identity
    offset = 1
    while offset < cuda.blockDim.x:
        pout, pin = pin, pout
        cuda.syncthreads()
        if i < n:
            if t >= offset:
                temp[pout, t] = op(temp[pin, t - offset], temp[pout, t])
            else:
                temp[pout, t] = temp[pin, t]
        offset *= 2
    if i < n:
        y[i] = temp[pout, t]
