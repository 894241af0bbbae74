"""Kogge and Stone's scan in its many spellings: every thread adds at every level, at twice the distance."""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from upsweep.textbook.dialect import BLOCK, WARP, WORDS, cuda, dtype, identity, op

ALL = 0xFFFFFFFF
"""The mask of a whole warp."""


def kogge_stone(x, y, n):
    """Kogge-Stone scan, one buffer and two barriers a level (PMPP chapter 11, figure 11.3)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    if i < n:
        y[i] = xy[t]


def kogge_stone_exclusive(x, y, n):
    """Kogge-Stone exclusive scan by a shifted load (PMPP chapter 11, figure 11.4 and the text beside it)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        if t > 0:
            xy[t] = x[i - 1]
        else:
            xy[t] = identity
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    if i < n:
        y[i] = xy[t]


def kogge_stone_double(x, y, n):
    """Kogge-Stone scan between two buffers, one barrier a level (notes on scan kernels; CS380 lecture 24, T0 and T1)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array((2, BLOCK), dtype)
    source, target = 0, 1
    if i < n:
        xy[source, t] = x[i]
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()  # the source is complete, and nobody reads the target any more
        if i < n:
            if t >= stride:
                xy[target, t] = op(xy[source, t - stride], xy[source, t])
            else:
                xy[target, t] = xy[source, t]
        source, target = target, source
        stride *= 2
    if i < n:
        y[i] = xy[source, t]


def kogge_stone_double_exclusive(x, y, n):
    """Kogge-Stone exclusive scan between two buffers (CS380 lecture 24, "a first attempt": shift right, T0 and T1)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array((2, BLOCK), dtype)
    source, target = 0, 1
    if i < n:
        if t > 0:
            xy[source, t] = x[i - 1]
        else:
            xy[source, t] = identity
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()  # the source is complete, and nobody reads the target any more
        if i < n:
            if t >= stride:
                xy[target, t] = op(xy[source, t - stride], xy[source, t])
            else:
                xy[target, t] = xy[source, t]
        source, target = target, source
        stride *= 2
    if i < n:
        y[i] = xy[source, t]


def kogge_stone_zero_padded(x, y, n):
    """Kogge-Stone scan behind a row of identities, without a branch (CUDA samples, scan: scan1Inclusive)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(WORDS, dtype)
    place = t + cuda.blockDim.x
    xy[t] = identity
    if i < n:
        xy[place] = x[i]
    else:
        xy[place] = identity
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        temp = op(xy[place - stride], xy[place])
        cuda.syncthreads()  # all have read, before anyone overwrites
        xy[place] = temp
        stride *= 2
    if i < n:
        y[i] = xy[place]


def segmented(x, heads, y, n):
    """Segmented scan: Kogge-Stone on pairs of a value and a flag, begun anew at every head (Sengupta, Harris, Zhang, Owens 2007).

    A word's flag says that its value begins at a head, so that nothing before it is to be added.
    """
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    begun = cuda.shared.array(BLOCK, "int32")
    if t < n:
        xy[t] = x[t]
        begun[t] = heads[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and t < n:
            temp = xy[t]
            flag = begun[t]
            if flag == 0:
                temp = op(xy[t - stride], temp)
                flag = begun[t - stride]
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and t < n:
            xy[t] = temp
            begun[t] = flag
        stride *= 2
    if t < n:
        y[t] = xy[t]


def warp_shuffle(x, y, n):
    """Kogge-Stone by shuffles in every warp, then over the sums of the warps (CUDA samples, shfl_scan; PMPP 5e)."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    lane = t % WARP
    warp = t // WARP
    warps = (BLOCK + WARP - 1) // WARP
    sums = cuda.shared.array(WORDS, dtype)
    value = x[min(i, n - 1)]  # threads past the end carry something that nobody asks for
    delta = 1
    while delta < WARP:
        earlier = cuda.shfl_up_sync(ALL, value, delta)
        if lane >= delta:
            value = op(earlier, value)
        delta *= 2
    if lane == WARP - 1 or t == BLOCK - 1:
        sums[warp] = value
    cuda.syncthreads()  # the sums of all warps, before the first warp scans them
    if warp == 0:
        total = value  # lanes past the last warp carry something that nobody asks for
        if lane < warps:
            total = sums[lane]
        delta = 1
        while delta < WARP:
            earlier = cuda.shfl_up_sync(ALL, total, delta)
            if lane >= delta and lane < warps:
                total = op(earlier, total)
            delta *= 2
        if lane < warps:
            sums[lane] = total
    cuda.syncthreads()  # the scanned sums, before the warps take theirs
    if warp > 0:
        value = op(sums[warp - 1], value)
    if i < n:
        y[i] = value
