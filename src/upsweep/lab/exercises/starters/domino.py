"""Exercise 12: the single pass (PMPP chapter 11, adjacent synchronisation and dynamic block index).

Each block waits for the flag of the block before it, adds the carry, and raises the next flag. As it stands it waits
forever on a GPU that holds two blocks at a time and starts the last ones first. Let a block take its number from
`counter` when it starts; counter[0] is 0 at first, flags and carries have one entry more than there are blocks, and no
flag is preset. The carry must be visible before the flag that announces it, on both sides.

Marks: values and no deadlock, no race, as many operations as the book's, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def domino(x, y, carries, flags, counter, n):
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        total = xy[min(BLOCK, n - bid * BLOCK) - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if i < n:
        if bid > 0:
            y[i] = op(before[0], xy[t])
        else:
            y[i] = xy[t]
