"""Exercise 18: compaction (CS380 lecture 24, "parallel data compaction").

Keep the items whose flag is 1, in their order: y[k] is the k-th of them. The scan of the flags is given, and it is
inclusive. Where does item t go? Who must not write at all?

Marks: values, no race and no wild access, no more operations than the scan, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda


def compact(x, flags, y, n):
    t = cuda.threadIdx.x
    kept = cuda.shared.array(BLOCK, "int32")
    if t < n:
        kept[t] = flags[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = kept[t - stride] + kept[t]
        cuda.syncthreads()
        if t >= stride:
            kept[t] = temp
        stride *= 2
    y[kept[t]] = x[t]
