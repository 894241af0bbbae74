"""Trees with mistakes: Brent and Kung's scan, Blelloch's, reductions."""

# pyright: reportPossiblyUnboundVariable=false
from upsweep.textbook.dialect import BLOCK, LOG_BANKS, TILE, WORDS, cuda, dtype, identity, op


def hwu_reduction(x, y, n):
    """Hwu's lecture 4.6, reduction: the barrier stands after the addition, so nothing waits for the load."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < 2 * BLOCK:
        index = (t + 1) * stride * 2 - 1
        if index < 2 * BLOCK:
            xy[index] = op(xy[index - stride], xy[index])
        stride = stride * 2
        cuda.syncthreads()
    if t == 0:
        y[0] = xy[TILE - 1]


def hwu_epilogue(x, y, n):
    """Hwu's lecture 4.6, whole scan: two items a thread are loaded and scanned, and one is stored."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < 2 * BLOCK:
        cuda.syncthreads()
        index = (t + 1) * stride * 2 - 1
        if index < 2 * BLOCK:
            xy[index] = op(xy[index - stride], xy[index])
        stride = stride * 2
    stride = BLOCK // 2
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * stride * 2 - 1
        if index + stride < 2 * BLOCK:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride = stride // 2
    cuda.syncthreads()
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    if i < n:
        y[i] = xy[t]


def reduction_one_level_more(x, y, n):
    """PMPP chapter 11, reduction with modulo indices: `stride <= blockDim.x` runs a last level that adds nothing."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    xy[t] = x[t]
    stride = 1
    while stride <= cuda.blockDim.x:
        cuda.syncthreads()
        if (t + 1) % (2 * stride) == 0:
            xy[t] = op(xy[t - stride], xy[t])
        stride *= 2
    if t == BLOCK - 1:
        y[0] = xy[t]


def brent_kung_literal(x, y, n):
    """PMPP chapter 11, figure 11.7 as printed: no else for the tail, and sections of 2 * blockDim, a power of two."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    i = 2 * cuda.blockIdx.x * cuda.blockDim.x + t
    if i < n:
        xy[t] = x[i]
    if i + cuda.blockDim.x < n:
        xy[t + cuda.blockDim.x] = x[i + cuda.blockDim.x]
    stride = 1
    while stride <= cuda.blockDim.x:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < TILE:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    stride = TILE // 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < TILE:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride //= 2
    cuda.syncthreads()
    if i < n:
        y[i] = xy[t]
    if i + cuda.blockDim.x < n:
        y[i + cuda.blockDim.x] = xy[t + cuda.blockDim.x]


def wrong_order(x, y, n):
    """Brent-Kung with `XY[index] += XY[index - stride]` taken at its word: the later operand comes first."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < TILE:
            xy[index] += xy[index - stride]
        stride *= 2
    stride = TILE // 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < TILE:
            xy[index + stride] += xy[index]
        stride //= 2
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def blelloch_wrong_swap(x, y, n):
    """Blelloch's down-sweep that adds the prefix on the right."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:
        xy[TILE - 1] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(total, xy[right])
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def blelloch_whole_stride(x, y, n):
    """CS380 lecture 24, down-sweep: one slide sets the value `stride` elements away; half of that is right."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:
        xy[TILE - 1] = identity
    while stride > 1:
        cuda.syncthreads()
        right = (t + 1) * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(xy[right], total)
        stride //= 2
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def padded_as_printed(x, y, n):
    """CS380 lecture 24, padded tree as printed: no doubling of s, no barrier, and `<=` for `<`."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def padded_with_doubling(x, y, n):
    """CS380 lecture 24, padded tree with `s *= 2` put in: races are left."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        s *= 2
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def padded_with_barrier(x, y, n):
    """CS380 lecture 24, padded tree with its barrier, too: the answer is right, and one thread a level works past the end."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        cuda.syncthreads()
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        s *= 2
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def zero_conflict_macro(x, y, n):
    """A reduction padded by GPU Gems 3's "zero conflict" macro, whose precedence makes every offset zero."""
    t = cuda.threadIdx.x
    temp = cuda.shared.array(TILE, dtype)
    temp[t] = x[t]
    temp[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            left += left >> min(5 + left, 31) >> 10  # (n) >> LOG_NUM_BANKS + (n) >> (2 * LOG_NUM_BANKS)
            right += right >> min(5 + right, 31) >> 10
            temp[right] = op(temp[left], temp[right])
        stride *= 2
    if t == 0:
        y[0] = temp[TILE - 1]
