"""Exercise 8: remove the bank conflict (CS380 lecture 24, "avoiding bank conflicts").

At stride s the threads of a warp touch words 2s apart, so that gcd(2s, 32) of them want the same bank. Give every index a
gap after each 32 words, a + (a >> LOG_BANKS), wherever xy is touched; the array has room for it: WORDS is
n + (n >> LOG_BANKS). The answer does not change, and no access may conflict any more.

Marks: values, no race, as many operations as before, no bank conflict.
"""

from upsweep.textbook.dialect import BLOCK, LOG_BANKS, TILE, WORDS, cuda, dtype, identity, op


def bank_conflict(x, y, n):
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    xy = cuda.shared.array(WORDS, dtype)
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
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            xy[right] = op(xy[left], xy[right])
        stride *= 2
    if t == 0:
        xy[TILE - 1] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            total = xy[left]
            xy[left] = xy[right]
            xy[right] = op(xy[right], total)
    cuda.syncthreads()
    if start + t < n:
        y[start + t] = xy[t]
    if start + t + BLOCK < n:
        y[start + t + BLOCK] = xy[t + BLOCK]
