"""Scans of more items than threads, and of more items than one block."""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from upsweep.textbook.dialect import BLOCK, ITEMS, TILE, WORDS, cuda, dtype, op


def three_phase(x, y, n):
    """Three-phase scan, ITEMS neighbours a thread (PMPP chapter 11, figure 11.8): scan each section, the last items, add."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    for k in range(t, items, BLOCK):
        xy[k] = x[start + k]
    first = t * ITEMS
    last = min(first + ITEMS, items) - 1
    cuda.syncthreads()  # the whole tile, before the sections are scanned
    for k in range(first + 1, last + 1):
        xy[k] = op(xy[k - 1], xy[k])
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # the last items of the level before
        if t >= stride and first < items:
            temp = op(xy[first + ITEMS - 1 - stride * ITEMS], xy[last])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and first < items:
            xy[last] = temp
        stride *= 2
    cuda.syncthreads()  # the prefixes at the ends of all sections
    if t > 0:
        for k in range(first, last):
            xy[k] = op(xy[first - 1], xy[k])
    cuda.syncthreads()  # all prefixes, before others' threads store them
    for k in range(t, items, BLOCK):
        y[start + k] = xy[k]


def matrix_scan(x, y, n):
    """Matrix scan: each thread reduces a row, then scans it again from its prefix (Dotsenko et al. 2008; also called raking).

    Rows of ITEMS lie an odd number of words apart, so that a column, one word of each thread, lies in as many banks.
    """
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    pitch = ITEMS | 1
    xy = cuda.shared.array(WORDS, dtype)
    sums = cuda.shared.array(BLOCK, dtype)
    for k in range(t, items, BLOCK):
        xy[k // ITEMS * pitch + k % ITEMS] = x[start + k]
    row = t * pitch
    width = min(ITEMS, items - t * ITEMS)
    cuda.syncthreads()  # the whole tile, before rows are reduced
    if width > 0:
        total = xy[row]
        for k in range(row + 1, row + width):
            total = op(total, xy[k])
        sums[t] = total
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # the sums of the level before
        if t >= stride and width > 0:
            temp = op(sums[t - stride], sums[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and width > 0:
            sums[t] = temp
        stride *= 2
    cuda.syncthreads()  # the prefixes at the ends of all rows
    if t > 0 and width > 0:
        xy[row] = op(sums[t - 1], xy[row])
    for k in range(row + 1, row + width):
        xy[k] = op(xy[k - 1], xy[k])
    cuda.syncthreads()  # all prefixes, before others' threads store them
    for k in range(t, items, BLOCK):
        y[start + k] = xy[k // ITEMS * pitch + k % ITEMS]


def scan_sections(x, y, sums, n):
    """Hierarchical scan, first kernel: each block scans its section and leaves its sum (PMPP chapter 11, figure 11.9)."""
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
    if i < n and (t == cuda.blockDim.x - 1 or i == n - 1):
        sums[cuda.blockIdx.x] = xy[t]


def uniform_add(y, scanned, n):
    """Hierarchical scan, third kernel: each block adds the sum of all before it (PMPP chapter 11, figure 11.10)."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n and cuda.blockIdx.x > 0:
        y[i] = op(scanned[cuda.blockIdx.x - 1], y[i])


def scan_with_carry(x, y, scanned, n):
    """Reduce-then-scan, third kernel: scan the section again, now knowing what came before (Merrill and Grimshaw 2009)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    if t == 0 and cuda.blockIdx.x > 0:
        xy[0] = op(scanned[cuda.blockIdx.x - 1], xy[0])
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


def domino(x, y, carries, flags, n):
    """Single-pass scan, block after block (PMPP chapter 11, adjacent synchronisation; Yan, Long and Zhang 2013).

    Right only where blocks start in the order of their numbers: see `domino_dynamic`.
    """
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()  # the sum of the block, before thread 0 takes it
    if t == 0:
        total = xy[min(BLOCK, n - bid * BLOCK) - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()  # the flag, before the carry that it announces
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()  # the carry, before the flag that announces it
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()  # what came before, for all threads
    if i < n:
        if bid > 0:
            y[i] = op(before[0], xy[t])
        else:
            y[i] = xy[t]


def domino_dynamic(x, y, carries, flags, counter, n):
    """Single-pass scan whose blocks take their numbers as they start (PMPP chapter 11, dynamic block index).

    So no block waits for one that starts later: no order of issue and no residency can deadlock.
    """
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    number = cuda.shared.array(1, "int32")
    if t == 0:
        number[0] = cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()  # the block's number, for all threads
    bid = number[0]
    i = bid * BLOCK + t
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()  # the sum of the block, before thread 0 takes it
    if t == 0:
        total = xy[min(BLOCK, n - bid * BLOCK) - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()  # the flag, before the carry that it announces
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()  # the carry, before the flag that announces it
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()  # what came before, for all threads
    if i < n:
        if bid > 0:
            y[i] = op(before[0], xy[t])
        else:
            y[i] = xy[t]


def decoupled_look_back(x, y, sums, prefixes, flags, counter, n):
    """Decoupled look-back: a block adds the sums of those before it until one has its prefix (Merrill and Garland 2016).

    A flag is 1 where the block's sum stands, 2 where its prefix does. Sums do not wait for anyone, so no chain forms.
    """
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    number = cuda.shared.array(1, "int32")
    if t == 0:
        number[0] = cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()  # the block's number, for all threads
    bid = number[0]
    i = bid * BLOCK + t
    if i < n:
        xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()  # the sum of the block, before thread 0 takes it
    if t == 0:
        total = xy[min(BLOCK, n - bid * BLOCK) - 1]
        if bid > 0:
            sums[bid] = total
            cuda.threadfence()  # the sum, before the flag that announces it
            cuda.atomic.add(flags, bid, 1)
            look = bid
            flag = 1
            while flag == 1:
                look -= 1
                while cuda.atomic.add(flags, look, 0) == 0:
                    pass
                flag = cuda.atomic.add(flags, look, 0)
                cuda.threadfence()  # the flag, before the value that it announces
                value = sums[look] if flag == 1 else prefixes[look]
                if look < bid - 1:
                    value = op(value, before[0])
                before[0] = value
            total = op(before[0], total)
        prefixes[bid] = total
        cuda.threadfence()  # the prefix, before the flag that announces it
        if bid > 0:
            cuda.atomic.add(flags, bid, 1)
        else:
            cuda.atomic.add(flags, bid, 2)
    cuda.syncthreads()  # what came before, for all threads
    if i < n:
        if bid > 0:
            y[i] = op(before[0], xy[t])
        else:
            y[i] = xy[t]
