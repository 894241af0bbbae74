"""Scans on trees: a sweep up that reduces, and a sweep down that hands the prefixes out."""

from __future__ import annotations

from upsweep.textbook.dialect import BLOCK, LOG_BANKS, TILE, WORDS, cuda, dtype, identity, op


def reduction_modulo(x, y, n):
    """Reduction tree with modulo indices, divergent on purpose (PMPP chapter 11, reduction step of Brent-Kung, first form).

    On a length that is no power of two the last thread stands in for the right end of its block.
    """
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    items = min(BLOCK, n - cuda.blockIdx.x * BLOCK)
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < items:
        cuda.syncthreads()  # the sums of the level below
        if t == items - 1 or (t < items and (t + 1) % (2 * stride) == 0):
            left = t - t % (2 * stride) + stride - 1
            if left < t:
                xy[t] = op(xy[left], xy[t])
        stride *= 2
    if t == items - 1:
        y[cuda.blockIdx.x] = xy[t]


def reduction(x, y, n):
    """Reduction tree by neighbouring threads (PMPP chapter 11, second form; Hwu, lecture 4.6)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < items:
        cuda.syncthreads()  # the sums of the level below
        left = (t + 1) * 2 * stride - 1 - stride
        right = min(left + stride, items - 1)
        if left < right:
            xy[right] = op(xy[left], xy[right])
        stride *= 2
    if t == 0:  # who also wrote the root
        y[cuda.blockIdx.x] = xy[items - 1]


def vector_reduction(x, y, n):
    """Vector reduction: no divergence, no bank conflicts, but the order is lost (CS380 lecture 24; notes on scan kernels).

    Items half a vector apart are combined, so the operator must be commutative.
    """
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    while items > 1:
        half = (items + 1) // 2
        cuda.syncthreads()  # the vector of the level before
        if t + half < items:
            xy[t] = op(xy[t], xy[t + half])
        items = half
    if t == 0:
        y[cuda.blockIdx.x] = xy[0]


def brent_kung(x, y, n):
    """Brent-Kung scan: reduction tree, then reverse tree (PMPP chapter 11, figures 11.5 to 11.7)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < items:
        cuda.syncthreads()  # the sums of the level below
        index = (t + 1) * 2 * stride - 1
        if index < items:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    stride //= 4
    while stride > 0:
        cuda.syncthreads()  # the prefixes of the level above
        index = (t + 1) * 2 * stride - 1
        if index + stride < items:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride //= 2
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if t < items:
        y[start + t] = xy[t]
    if t + BLOCK < items:
        y[start + t + BLOCK] = xy[t + BLOCK]


def blelloch(x, y, n):
    """Blelloch's exclusive scan: up-sweep, clear the root, down-sweep that adds and swaps (CS380 lecture 24, variant 1).

    TILE is a power of two; words past the end hold the identity. In the swap the prefix stays on the left.
    """
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    xy = cuda.shared.array(TILE, dtype)
    if start + t < n:
        xy[t] = x[start + t]
    else:
        xy[t] = identity
    if start + t + BLOCK < n:
        xy[t + BLOCK] = x[start + t + BLOCK]
    else:
        xy[t + BLOCK] = identity
    stride = 1
    while stride < TILE:
        cuda.syncthreads()  # the sums of the level below
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:  # who also wrote the root
        xy[TILE - 1] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()  # the prefixes of the level above
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(xy[right], total)
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if start + t < n:
        y[start + t] = xy[t]
    if start + t + BLOCK < n:
        y[start + t + BLOCK] = xy[t + BLOCK]


def blelloch_inclusive(x, y, n):
    """Blelloch's inclusive scan: the down-sweep hands sums to the right (CS380 lecture 24, variant 2), which is Brent-Kung."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()  # the sums of the level below
        right = (t + 1) * 2 * stride - 1
        if right < items:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    stride //= 2
    while stride > 1:
        stride //= 2
        cuda.syncthreads()  # the prefixes of the level above
        left = (t + 1) * 2 * stride - 1
        if left + stride < items:
            xy[left + stride] = op(xy[left], xy[left + stride])
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if t < items:
        y[start + t] = xy[t]
    if t + BLOCK < items:
        y[start + t + BLOCK] = xy[t + BLOCK]


def blelloch_interleaved(x, y, n):
    """Blelloch's exclusive scan with neighbouring loads, 2t and 2t + 1: two-way conflicts (CS380 lecture 24; GPU Gems 3)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    xy = cuda.shared.array(TILE, dtype)
    if start + 2 * t < n:
        xy[2 * t] = x[start + 2 * t]
    else:
        xy[2 * t] = identity
    if start + 2 * t + 1 < n:
        xy[2 * t + 1] = x[start + 2 * t + 1]
    else:
        xy[2 * t + 1] = identity
    stride = 1
    while stride < TILE:
        cuda.syncthreads()  # the sums of the level below
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:  # who also wrote the root
        xy[TILE - 1] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()  # the prefixes of the level above
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(xy[right], total)
    if start + 2 * t < n:
        y[start + 2 * t] = xy[2 * t]
    if start + 2 * t + 1 < n:
        y[start + 2 * t + 1] = xy[2 * t + 1]


def blelloch_padded(x, y, n):
    """Blelloch's exclusive scan on padded indices a + (a >> log2 banks) (CS380 lecture 24, "avoiding bank conflicts").

    One level of padding keeps the whole tree free of conflicts for up to banks * banks items.
    """
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    xy = cuda.shared.array(WORDS, dtype)
    low = t + (t >> LOG_BANKS)
    high = t + BLOCK + ((t + BLOCK) >> LOG_BANKS)
    if start + t < n:
        xy[low] = x[start + t]
    else:
        xy[low] = identity
    if start + t + BLOCK < n:
        xy[high] = x[start + t + BLOCK]
    else:
        xy[high] = identity
    stride = 1
    while stride < TILE:
        cuda.syncthreads()  # the sums of the level below
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            left += left >> LOG_BANKS
            right += right >> LOG_BANKS
            xy[right] = op(xy[left], xy[right])
        stride *= 2
    if t == 0:  # who also wrote the root
        xy[TILE - 1 + ((TILE - 1) >> LOG_BANKS)] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()  # the prefixes of the level above
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            left += left >> LOG_BANKS
            right += right >> LOG_BANKS
            total = xy[left]
            xy[left] = xy[right]
            xy[right] = op(xy[right], total)
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if start + t < n:
        y[start + t] = xy[low]
    if start + t + BLOCK < n:
        y[start + t + BLOCK] = xy[high]
