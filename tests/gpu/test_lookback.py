"""The look-back of the kernels, digit by digit, on the CPU: which nodes exist, and that they fold to the canonical tree.

The kernels run the same steps (lookback.cuh in radix 32, column_lookback.cuh in radix 8 times the
lanes of a column). The elements here are intervals of
tiles, which refuse to join unless they touch.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from upsweep.gpu import columns, layout, params, sweeps
from upsweep.gpu.choice import Choice
from upsweep.gpu.shapes import Shape
from upsweep.tree import blocks

SIZES = [1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 32767, 32768, 32769, 1 << 20]


KINDS = {"tiles": sweeps.Tiles, "columns": columns.Columns}


def choice(kernel: str, tiles: int, bits: int = 3) -> Choice:
    lanes = 32 >> (bits - 3) if kernel == "columns" else 32
    shape = Shape(32, 8, 3, lanes=lanes)
    items = 256 * 32 // lanes if kernel == "columns" else 8192
    made = KINDS[kernel](shape, layout.Layout(items * tiles, (), (), (), (), None))
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
    """The first m siblings in canonical blocks. Each is the sum of neighbours that touch."""
    made = list(prefix)
    for start, size in blocks(0, m):
        chosen = siblings[start : start + size]
        assert all(a[1] == b[0] for a, b in pairwise(chosen))
        made.append((chosen[0][0], chosen[-1][1]))
    return made


def joined(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    assert left[1] == right[0]
    return left[0], right[1]


def fold_lanes(
    prefix: list[tuple[int, int]], siblings: list[tuple[int, int]], m: int
) -> list[tuple[int, int]]:
    """The same with the shuffles of up_sweep<16> and down_sweep<32> in warp.cuh, where lanes without a sibling hold any value."""
    lanes = [*siblings, *[None] * (32 - len(siblings))]
    for s in range(4):
        pairs = [(lanes[max(lane - (1 << s), 0)], lanes[lane]) for lane in range(32)]
        ends = [not ~lane & (2 << s) - 1 for lane in range(32)]
        lanes = [
            own if not end else joined(left, own) if left and own else None
            for end, (left, own) in zip(ends, pairs)
        ]
    found = [lanes[((m >> s) << s) - 1] for s in range(4, -1, -1) if m >> s & 1]
    assert all(found)
    return prefix + [block for block in found if block]


def sums_of(groups: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """The exchange of sums_of() in lookback.cuh: lane l ends with the sum of the siblings whose number is l modulo theirs."""
    e = [list(lanes) for lanes in groups]
    for s in range(5):
        pairs = list(zip(e[0::2], e[1::2])) if len(e) > 1 else [(e[0], e[0])]
        made = []
        for pair in pairs:
            lanes = []
            for lane in range(32):
                right = lane >> s & 1
                kept, got = pair[right][lane], pair[right][lane ^ 1 << s]
                lanes.append(joined(got, kept) if right else joined(kept, got))
            made.append(lanes)
        e = made
    return e[0]


def near_rows(t: int, tiles: int, levels: int, near: int) -> dict[int, list[tuple[int, int]]]:
    """fold_simple() in lookback.cuh: the siblings on levels 1 and 2. The latest of them is taken from the sums of tiles."""
    digit = [t >> (5 * level) & 31 for level in range(3)]
    number, beside = t >> 5, min(digit[1], near)
    turned = levels > 2 and digit[1] < 16 and digit[2] > 0
    before = near - beside if turned else 0
    # An interval that joins any other, and fits nowhere.
    unread = [(0, 0)] * 32
    tiles_of = []
    for j in range(near):
        back = ((number - 1 - j) & (near - 1)) + 1
        asked = back <= beside + before
        tiles_of.append(group((number - back) * 32, 32, 0, 5, tiles) if asked else unread)
    latest = sums_of(tiles_of) if near else []
    rows = {1: group(number & -32, digit[1] - beside, 1, 5, tiles) + latest[digit[1] - beside : digit[1]]}
    if levels > 2:
        rows[2] = group(t >> 10 & -32, digit[2] - turned, 2, 5, tiles)
        if turned:
            ended = group((number & -32) - 32, 32 - before, 1, 5, tiles) + latest[32 - before :]
            rows[2].append(reduce(joined, ended))
    return rows


def look_back(kernel: str, t: int, tiles: int, levels: int, bits: int, near: int | None):
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
    rows = near_rows(t, tiles, levels, near) if near is not None and levels > 1 and turn == 0 else {}
    folded = fold_lanes if kernel == "tiles" else fold
    for level in reversed(range(levels)):
        siblings = rows.get(level) or group(t >> (bits * level) & -radix, digit[level], level, bits, tiles)
        if level == turn:
            following = folded(prefix, [*siblings, sums], digit[level] + 1)
        prefix = folded(prefix, siblings, digit[level])
    return prefix, following


@pytest.mark.parametrize(
    ("kernel", "bits", "near"),
    [
        ("tiles", 5, None),
        ("tiles", 5, 0),
        ("tiles", 5, 2),
        ("tiles", 5, 4),
        ("columns", 3, None),
        ("columns", 5, None),
        ("columns", 7, None),
    ],
)
@pytest.mark.parametrize("tiles", SIZES)
def test_prefixes_are_the_canonical_blocks(kernel, bits, near, tiles):
    levels = len(choice(kernel, tiles, bits).levels()[1])
    borders = {t for s in SIZES for t in range(s - 3, s + 3)} | set(range(300)) | {tiles - 1}
    drawn = set(np.random.default_rng(tiles).integers(0, tiles, 100).tolist())
    for t in sorted(t for t in borders | drawn if 0 <= t < tiles):
        if tiles == 1:
            continue
        for count, found in zip((t, t + 1), look_back(kernel, t, tiles, levels, bits, near)):
            assert found == [(first, first + size) for first, size in blocks(0, count)]


@pytest.mark.parametrize(("kernel", "bits"), [("tiles", 5), ("columns", 3), ("columns", 5), ("columns", 7)])
@pytest.mark.parametrize("tiles", SIZES[1:])
def test_nodes_of_all_levels_lie_apart(kernel, bits, tiles):
    made = choice(kernel, tiles, bits)
    first, sizes, nodes = made.levels()
    assert sizes == [-(-tiles >> (bits * level)) for level in range(len(sizes))]
    assert first == [sum(sizes[:level]) for level in range(len(sizes))]
    assert nodes == sum(sizes)
    assert len(sizes) <= params.LEVELS
    assert tiles < 1 << (bits * len(sizes))
