"""Prefix circuits: families of wires and nodes, and kernels that run them.

A circuit is a list of levels; a level is a list of nodes (source, target) that all read before any of them writes:
`a[target] = op(a[source], a[target])`.
"""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from upsweep.textbook.dialect import BLOCK, FAN, SPARSITY, TILE, cuda, dtype, op

Levels = list[list[tuple[int, int]]]


# --- the families ---------------------------------------------------------------------------------------------------


def serial(n: int) -> Levels:
    """One node after the other: size n - 1, depth n - 1, and no deficiency."""
    return [[(i - 1, i)] for i in range(1, n)]


def sklansky(n: int) -> Levels:
    """Sklansky, "Conditional-sum addition logic" (1960): the least depth, with a fan-out of n/2 + 1."""
    return [[(i // d * d - 1, i) for i in range(n) if i & d] for d in _strides(n)]


def kogge_stone(n: int) -> Levels:
    """Kogge and Stone (1973): the least depth with a fan-out of 2; size n log2 n - n + 1."""
    return [[(i - d, i) for i in range(d, n)] for d in _strides(n)]


def brent_kung(n: int) -> Levels:
    """Brent and Kung, "A regular layout for parallel adders" (1982): size 2n - 2 - log2 n, depth 2 log2 n - 1 as issued."""
    return han_carlson(n, 1 << max(n - 1, 0).bit_length())


def han_carlson(n: int, sparsity: int = 2) -> Levels:
    """Han and Carlson (1987): Kogge-Stone on every `sparsity`-th wire between the outer levels of Brent-Kung.

    Where that leaves one warp's worth of wires, it is the hybrid of Sengupta, Lefohn and Owens (2006).
    """
    return harris(n, sparsity.bit_length() - 1, 0)


def harris(n: int, sparse: int, wide: int) -> Levels:
    """Harris, "A taxonomy of parallel prefix networks" (2003): his (l, f, t), with l = `sparse` and f = `wide`.

    It has l levels more than the least, a fan-out of 2^f + 1 and 2^t tracks, where l + f + t = log2 n - 1. The corners
    are Brent-Kung, Sklansky and Kogge-Stone; (1, 0, t) is Han-Carlson.
    """
    sparsity, fan = 1 << sparse, 1 << wide
    strides = _strides(min(sparsity, n))
    up = [[(i - d, i) for i in range(2 * d - 1, n, 2 * d)] for d in strides]
    inner = [
        [(sparsity * (s + 1) - 1, sparsity * (i + 1) - 1) for s, i in level]
        for level in _knowles_like(n // sparsity, fan)
    ]
    down = [[(i - d, i) for i in range(3 * d - 1, n, 2 * d)] for d in reversed(strides)]
    return [level for level in up + inner + down if level]


def _knowles_like(n: int, fan: int) -> Levels:
    """Sklansky within groups of `fan` wires, then Kogge-Stone over the groups: no input is taken twice."""
    return [
        [(i // g * g + g - d - 1, i) for i in range(n) if (i & d if d < fan else i >= d)]
        for d in _strides(n)
        for g in (min(d, fan),)
    ]


def ladner_fischer(n: int, k: int = 0) -> Levels:
    """Ladner and Fischer's P_k, "Parallel prefix computation" (1980): depth at most log2 n + k.

    Many texts on adders give their name to Sklansky's circuit; this is the one of the paper.
    """
    return _as_soon_as_possible(n, _ladner_fischer(range(n), k))


def _ladner_fischer(wires: Sequence[int], k: int) -> list[tuple[int, int]]:
    n = len(wires)
    if n < 2:
        return []
    if k == 0:
        half = (n + 1) // 2
        left, right = wires[:half], wires[half:]
        return _ladner_fischer(left, 1) + _ladner_fischer(right, 0) + [(left[-1], w) for w in right]
    pairs = [(wires[i], wires[i + 1]) for i in range(0, n - 1, 2)]
    return pairs + _ladner_fischer(wires[1::2], k - 1) + [(wires[i - 1], wires[i]) for i in range(2, n, 2)]


def knowles(n: int, fans: Sequence[int]) -> Levels:
    """Knowles, "A family of adders" (2001), with the fan-out of each level, last level first: [1, ..., 1] is Kogge-Stone.

    Any other choice combines some inputs twice, so it needs an idempotent operator, such as max or a carry.
    """
    return [[((i - d) | (f - 1), i) for i in range(d, n)] for d, f in zip(_strides(n), reversed(fans))]


def _strides(n: int) -> list[int]:
    return [1 << level for level in range(max(n - 1, 0).bit_length())]


def _as_soon_as_possible(n: int, nodes: list[tuple[int, int]]) -> Levels:
    """Nodes in levels: after what they read, and no wire overwritten before its last reader."""
    ready, read, levels = [0] * n, [0] * n, []
    for source, target in nodes:
        level = max(ready[source], ready[target], read[target] - 1)
        ready[target], read[source] = level + 1, max(read[source], level + 1)
        levels += [[] for _ in range(level + 1 - len(levels))]
        levels[level].append((source, target))
    return levels


def evaluate(levels: Levels, combine: Callable[[Any, Any], Any], x: Sequence[Any]) -> list[Any]:
    """The outputs of a circuit.

    >>> evaluate(ladner_fischer(8, 1), lambda a, b: a + b, [3, 1, 7, 0, 4, 1, 6, 3])
    [3, 4, 11, 11, 15, 16, 22, 25]
    """
    a = list(x)
    for level in levels:
        for (_, target), value in zip(level, [combine(a[s], a[t]) for s, t in level]):
            a[target] = value
    return a


# --- kernels --------------------------------------------------------------------------------------------------------


def sklansky_scan(x, y, n):
    """Sklansky's scan: every upper half takes the last sum of its lower half (Sklansky 1960)."""
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
        cuda.syncthreads()  # the sums of the level before; this level reads lower halves and writes upper ones
        source = t // stride * 2 * stride + stride - 1
        target = source + 1 + t % stride
        if target < items:
            xy[target] = op(xy[source], xy[target])
        stride *= 2
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if t < items:
        y[start + t] = xy[t]
    if t + BLOCK < items:
        y[start + t + BLOCK] = xy[t + BLOCK]


def han_carlson_scan(x, y, n):
    """Han and Carlson's scan: Kogge-Stone on every SPARSITY-th item (Han and Carlson 1987)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < SPARSITY:
        cuda.syncthreads()  # the sums of the level below
        index = (t + 1) * 2 * stride - 1
        if index < items:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    index = (t + 1) * SPARSITY - 1
    while stride < items:
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if index >= stride and index < items:
            temp = op(xy[index - stride], xy[index])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if index >= stride and index < items:
            xy[index] = temp
        stride *= 2
    stride = SPARSITY // 2
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


def harris_scan(x, y, n):
    """Harris's (1, 1, t): every SPARSITY-th item, a fan-out of FAN + 1, and so half the tracks of Han-Carlson (Harris 2003)."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    items = min(TILE, n - start)
    xy = cuda.shared.array(TILE, dtype)
    if t < items:
        xy[t] = x[start + t]
    if t + BLOCK < items:
        xy[t + BLOCK] = x[start + t + BLOCK]
    stride = 1
    while stride < SPARSITY:
        cuda.syncthreads()  # the sums of the level below
        index = (t + 1) * 2 * stride - 1
        if index < items:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    index = (t + 1) * SPARSITY - 1
    stride = 1  # in wires of the inner network, of which each thread has one
    while stride * SPARSITY < items:
        group = min(stride, FAN)
        source = (t // group * group + group - stride) * SPARSITY - 1
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        takes = index < items and ((stride < FAN and t // stride % 2 == 1) or (stride >= FAN and t >= stride))
        if takes:
            temp = op(xy[source], xy[index])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if takes:
            xy[index] = temp
        stride *= 2
    stride = SPARSITY // 2
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


def knowles_scan(x, y, fans, levels, n):
    """Knowles's scan: Kogge-Stone where `fan` neighbours share a source (Knowles 2001); for idempotent operators."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if i < n:
        xy[t] = x[i]
    stride = 1
    for level in range(levels):
        source = (t - stride) | (fans[level] - 1)
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if t >= stride and i < n:
            temp = op(xy[source], xy[t])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if t >= stride and i < n:
            xy[t] = temp
        stride *= 2
    if i < n:
        y[i] = xy[t]


def circuit_scan(x, y, sources, targets, starts, levels, n):
    """Any prefix circuit, from a table of its nodes: Ladner and Fischer's P_k (1980) among them."""
    t = cuda.threadIdx.x
    start = cuda.blockIdx.x * BLOCK
    items = min(BLOCK, n - start)
    xy = cuda.shared.array(BLOCK, dtype)
    if t < items:
        xy[t] = x[start + t]
    for level in range(levels):
        node = starts[level] + t
        takes = node < starts[level + 1] and targets[node] < items
        cuda.syncthreads()  # what the last level wrote, before this one reads it
        if takes:
            temp = op(xy[sources[node]], xy[targets[node]])
        cuda.syncthreads()  # all have read, before anyone overwrites
        if takes:
            xy[targets[node]] = temp
    cuda.syncthreads()  # all prefixes, before others' threads store them
    if t < items:
        y[start + t] = xy[t]
