"""Exercise 11: more items than a block (PMPP chapter 11, figures 11.9 and 11.10).

Three launches: `scan_sections` scans each block's section and leaves its sum in sums; a second kernel, which is there
already, scans the sums inclusively into scanned; `uniform_add` gives every item what came before its block. The second
function is printed like this in the book. Who comes before block 0? And what of the last block, if it is not full?

Marks: values, no race and no wild access, B W(S) + W(B) + (n - S) operations, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, cuda, dtype, op


def scan_sections(x, y, sums, n):
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
        cuda.syncthreads()
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    if i < n:
        y[i] = xy[t]
    if t == cuda.blockDim.x - 1:
        sums[cuda.blockIdx.x] = xy[t]


def uniform_add(y, scanned, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[i] = op(scanned[cuda.blockIdx.x - 1], y[i])
