"""The look-back of the kernels, digit by digit, on the CPU: which nodes exist, and that they fold to the canonical tree.

The kernels run the same steps (lookback.cuh in radix 32, column_lookback.cuh in radix 8); elements are intervals of tiles
here, which refuse to join unless they touch.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from upsweep.gpu import layout
from upsweep.gpu.shapes import Shape
from upsweep.tree import blocks

SIZES = [1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 32767, 32768, 32769, 1 << 20]


def choice(kernel: str, tiles: int) -> layout.Choice:
    shape = Shape(32, 8, 3)
    items = 256 if kernel == "columns" else 8192
    made = layout.Choice(kernel, shape, layout.Layout(items * tiles, (), (), (), (), None))
    assert made.tiles == tiles
    return made


def published(level: int, i: int, bits: int, tiles: int) -> bool:
    """Whether publish() stores the sum of this node: a later tile must ask for it."""
    return (i + 1) << (bits * level) < tiles


def group(first: int, count: int, level: int, bits: int, tiles: int) -> list[tuple[int, int]]:
    assert all(published(level, first + k, bits, tiles) for k in range(count)), (
        "waits for a sum that nobody publishes"
    )
    return [((first + k) << (bits * level), (first + k + 1) << (bits * level)) for k in range(count)]


def fold(prefix: list[tuple[int, int]], siblings: list[tuple[int, int]], m: int) -> list[tuple[int, int]]:
    """The first m siblings in canonical blocks, each the sum of neighbours that touch."""
    made = list(prefix)
    for start, size in blocks(0, m):
        chosen = siblings[start : start + size]
        assert all(a[1] == b[0] for a, b in pairwise(chosen))
        made.append((chosen[0][0], chosen[-1][1]))
    return made


def look_back(t: int, tiles: int, levels: int, bits: int):
    """The blocks of tiles that the prefix of t and the prefix of t + 1 are folded from."""
    radix = 1 << bits
    digit = [t >> (bits * level) & (radix - 1) for level in range(levels)]
    sums, turn = (t, t + 1), 0
    while turn + 1 < levels and digit[turn] == radix - 1:
        first = t >> (bits * turn) & -radix
        whole = [*group(first, radix - 1, turn, bits, tiles), sums]
        sums, turn = (whole[0][0], whole[-1][1]), turn + 1
    prefix: list[tuple[int, int]] = []
    following: list[tuple[int, int]] = []
    for level in reversed(range(levels)):
        siblings = group(t >> (bits * level) & -radix, digit[level], level, bits, tiles)
        if level == turn:
            following = fold(prefix, [*siblings, sums], digit[level] + 1)
        prefix = fold(prefix, siblings, digit[level])
    return prefix, following


@pytest.mark.parametrize(("kernel", "bits"), [("tiles", 5), ("columns", 3)])
@pytest.mark.parametrize("tiles", SIZES)
def test_prefixes_are_the_canonical_blocks(kernel, bits, tiles):
    levels = len(choice(kernel, tiles).levels()[1])
    near = {t for s in SIZES for t in range(s - 3, s + 3)} | set(range(300)) | {tiles - 1}
    drawn = set(np.random.default_rng(tiles).integers(0, tiles, 2000).tolist())
    for t in sorted(t for t in near | drawn if 0 <= t < tiles):
        if tiles == 1:
            continue
        for count, found in zip((t, t + 1), look_back(t, tiles, levels, bits)):
            assert found == [(first, first + size) for first, size in blocks(0, count)]


@pytest.mark.parametrize(("kernel", "bits"), [("tiles", 5), ("columns", 3)])
@pytest.mark.parametrize("tiles", SIZES[1:])
def test_nodes_of_all_levels_lie_apart(kernel, bits, tiles):
    made = choice(kernel, tiles)
    first, sizes, nodes = made.levels()
    assert sizes == [-(-tiles >> (bits * level)) for level in range(len(sizes))]
    assert first == [sum(sizes[:level]) for level in range(len(sizes))]
    assert nodes == sum(sizes)
    assert len(sizes) <= layout.LEVELS
    assert tiles < 1 << (bits * len(sizes))
