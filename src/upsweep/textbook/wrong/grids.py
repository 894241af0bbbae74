"""Scans of several blocks with mistakes, and applications of scans."""

# pyright: reportPossiblyUnboundVariable=false
from upsweep.textbook.dialect import BLOCK, WORDS, cuda, dtype, identity, op


def sums_of_exclusive(x, y, sums, n):
    """Block sums taken from the last word of an exclusive scan, which lacks the last input."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if t > 0:
        xy[t] = x[i - 1]
    else:
        xy[t] = identity
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    y[i] = op(xy[t], x[i])
    if t == cuda.blockDim.x - 1:
        sums[cuda.blockIdx.x] = xy[t]


def uniform_add_unguarded(y, scanned, n):
    """PMPP chapter 11, uniform addition as printed: block 0 reads S[-1], and nothing asks for i < n."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[i] = op(scanned[cuda.blockIdx.x - 1], y[i])


def domino_as_printed(x, y, carries, flags, n):
    """PMPP chapter 11, adjacent synchronisation as printed: block 0 waits, too, for a flag that somebody must preset."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        while cuda.atomic.add(flags, bid, 0) == 0:
            pass
        cuda.threadfence()
        before[0] = carries[bid]
        carries[bid + 1] = op(before[0], xy[BLOCK - 1])
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    y[i] = op(before[0], xy[t])


def domino_no_barrier(x, y, carries, flags, n):
    """A published solution: thread 0 reads the block's sum right after the loop, before the others have written it."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def domino_no_acquire(x, y, carries, flags, n):
    """The domino without the reader's fence: the carry is a plain load that may pass the flag before it."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def domino_no_release(x, y, carries, flags, n):
    """The domino without the writer's fence: the flag may be seen before the carry that it announces."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def sections_wait_for_neighbours(x, y, n):
    """A scan of two blocks that hopes its neighbour is done: blocks do not wait for each other by themselves."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    if t == 0 and i > 0:
        y[i] = op(y[i - 1], x[i])
    elif t == 0:
        y[i] = x[i]
    cuda.syncthreads()
    if t > 0:
        total = y[cuda.blockIdx.x * cuda.blockDim.x]
        for k in range(1, t + 1):
            total = op(total, x[cuda.blockIdx.x * cuda.blockDim.x + k])
        y[i] = total


def histogram_without_atomics(x, y, n):
    """A histogram that counts with `bins[v] += 1`: two threads that meet in a bin lose a count."""
    t = cuda.threadIdx.x
    bins = cuda.shared.array(WORDS, "int32")
    if t < WORDS:
        bins[t] = 0
    cuda.syncthreads()
    bins[x[t]] += 1
    cuda.syncthreads()
    if t < WORDS:
        y[t] = bins[t]


def range_query(x, lows, highs, y, n):
    """CS380 lecture 24: the items in bins A to B as pref[B] - pref[A], which leaves out bin A."""
    t = cuda.threadIdx.x
    y[t] = x[highs[t]] - x[lows[t]]
