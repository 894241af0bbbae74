"""What scans are for, as CS380 lecture 24 shows it: compaction, range histograms, summed-area tables, recurrences."""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from upsweep.textbook.dialect import BLOCK, WORDS, cuda, dtype, op


def compaction(x, flags, y, n):
    """Compaction: scan the flags exclusively, scatter what is kept (CS380 lecture 24, "parallel data compaction")."""
    t = cuda.threadIdx.x
    kept = cuda.shared.array(BLOCK, "int32")
    if t > 0 and t < n:
        kept[t] = flags[t - 1]
    else:
        kept[t] = 0
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride:
            temp = kept[t - stride] + kept[t]
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride:
            kept[t] = temp
        stride *= 2
    if t < n and flags[t] != 0:
        y[kept[t]] = x[t]


def radix_split(x, y, bit, n):
    """Radix sort's split: items whose bit is 0 before those whose bit is 1, each in their order (Blelloch 1990; GPU Gems 3).

    The exclusive scan of the zeros says where a zero goes; a one goes behind all zeros and the ones before it.
    """
    t = cuda.threadIdx.x
    zeros = cuda.shared.array(BLOCK, "int32")
    total = cuda.shared.array(1, "int32")
    if t > 0 and t < n:
        zeros[t] = 1 - ((x[t - 1] >> bit) & 1)
    else:
        zeros[t] = 0
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride:
            temp = zeros[t - stride] + zeros[t]
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride:
            zeros[t] = temp
        stride *= 2
    if t == n - 1:
        total[0] = zeros[t] + (1 - ((x[t] >> bit) & 1))
    cuda.syncthreads()  # how many zeros there are, for all threads
    if t < n:
        if (x[t] >> bit) & 1 == 0:
            y[zeros[t]] = x[t]
        else:
            y[total[0] + t - zeros[t]] = x[t]


def range_histogram(x, y, n):
    """Range histogram: count, then scan the counts; any range is one difference (CS380 lecture 24, "range histogram").

    With inclusive prefixes, bins A to B hold y[B] - y[A - 1] items; the slide's y[B] - y[A] leaves bin A out.
    """
    t = cuda.threadIdx.x
    bins = cuda.shared.array(WORDS, "int32")
    for k in range(t, WORDS, BLOCK):
        bins[k] = 0
    cuda.syncthreads()  # empty bins, before anyone counts
    for k in range(t, n, BLOCK):
        cuda.atomic.add(bins, x[k], 1)
    stride = 1
    while stride < WORDS:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and t < WORDS:
            temp = bins[t - stride] + bins[t]
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and t < WORDS:
            bins[t] = temp
        stride *= 2
    if t < WORDS:
        y[t] = bins[t]


def range_query(prefixes, lows, highs, y, n):
    """Range query: how many items lie in bins low to high, by two reads whatever the range (CS380 lecture 24, corrected)."""
    i = cuda.grid(1)
    if i < n:
        count = prefixes[highs[i]]
        if lows[i] > 0:
            count = count - prefixes[lows[i] - 1]
        y[i] = count


def scan_lines(x, y, length, step, lead):
    """Summed-area table, one direction: block b scans the line of items b*lead + k*step (CS380 lecture 24; Crow 1984)."""
    t = cuda.threadIdx.x
    place = cuda.blockIdx.x * lead + t * step
    line = cuda.shared.array(BLOCK, dtype)
    if t < length:
        line[t] = x[place]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and t < length:
            temp = op(line[t - stride], line[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and t < length:
            line[t] = temp
        stride *= 2
    if t < length:
        y[place] = line[t]


def box_sums(table, tops, lefts, bottoms, rights, width, y, n):
    """Sums of boxes, by four reads of a summed-area table: A - B - C + D (CS380 lecture 24; Crow 1984)."""
    i = cuda.grid(1)
    if i < n:
        above = tops[i] * width - width
        below = bottoms[i] * width
        total = table[below + rights[i]]
        if tops[i] > 0:
            total = total - table[above + rights[i]]
        if lefts[i] > 0:
            side = table[below + lefts[i] - 1]
            if tops[i] > 0:
                side = side - table[above + lefts[i] - 1]
            total = total - side
        y[i] = total


def squares(x, terms, n):
    """A recurrence made a scan: `out[j] = out[j-1] + f(j)` is the scan of all f(j), here squares (CS380 lecture 24)."""
    i = cuda.grid(1)
    if i < n:
        terms[i] = x[i] * x[i]
