"""Filters as sections in series, all at once: a tile of a row goes through every section while it lies in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from upsweep.gpu import driver
from upsweep.gpu.arrays import view
from upsweep.gpu.functions import memory_type
from upsweep.gpu.one_pass import empty, kernel, stream_of
from upsweep.gpu.view import View
from upsweep.gpu.workspaces import workspace


class Shape(NamedTuple):
    """How a block takes a tile."""

    run: int
    """Items of a lane."""
    warps: int
    strips: int
    """Of a warp, each a run for every lane."""
    blocks: int
    """Of a multiprocessor."""
    near: int
    """Groups of 32 tiles, of which a tile makes the sums from those of their tiles."""

    @property
    def tile(self) -> int:
        return 32 * self.run * self.warps * self.strips


SHAPES = [Shape(16, 4, 2, 5, 2), Shape(16, 8, 2, 3, 2)]
"""The first for rows that it takes in one tile, the other one for all longer rows."""
MOST = 4
"""Sections of one launch."""
POWERS, LEVELS = 32, 4
"""Powers of a pole that a launch brings with it, and levels of sums: of tiles, of 32 tiles, of 1024 ..."""
_WORDS = 4
"""Words of a sum of complex numbers."""


def cascade(sections: Sequence[Any], dtype: str, order: str) -> Callable[[Any], Any]:
    """The function of x that gives the results of sections: see `upsweep.moves.Cascades.cascade`."""
    return lambda x: _results(sections, x, dtype, order)


def _results(sections: Sequence[Any], x: Any, dtype: str, order: str) -> Any:
    """The results, in `dtype`, of sections one after the other along the last axis of x.

    None but for rows in the order of the tree, whose items touch and which lie equally far apart, where that is faster than a
    scan for each section.
    """
    seen = view(x)
    pitch, n = _pitch(seen), seen.shape[-1]
    shape = next((s for s in SHAPES if n <= s.tile), SHAPES[-1])
    if order != "tree" or not sections or pitch is None or not pays(sections, n, shape):
        return None
    for k in range(0, len(sections), MOST):
        some = sections[k : k + MOST]
        numbers = [v for s in some for v in (s.pole.real, s.pole.imag, s.now, *s.before)]
        y = empty(seen, seen.shape, np.dtype(dtype if k + MOST >= len(sections) else "float64"))
        _launch(seen, pitch, y, shape, pack(f"{len(numbers)}d", *numbers))
        seen, pitch = y, n
    return seen.owner


def pays(sections: Sequence[Any], n: int, shape: Shape) -> bool:
    """Whether rows of n items take less time so than by a scan for each section, as far as there are levels for their tiles.

    By this and by scans, of a copy (float64, H200): eight sections of one row of 2^26 .25 and .17, of 4096 rows of 2^14 .31 and
    .15; a pair of poles in rows of 2^12 .80 and .67, of 2^14 .64 and .55, of 2^17 .61 and .67, of 2^11 .48 and .65; one real
    pole in rows of 2^14 .70 and .78.
    """
    if n >> 5 * LEVELS >= shape.tile:
        return False
    if len(sections) > 1:
        return 2 * n >= shape.tile
    return sections[0].pole.imag != 0 and 4 * n >= 3 * shape.tile and n <= 2 * SHAPES[-1].tile


def _launch(x: View, pitch: int, y: View, shape: Shape, numbers: bytes) -> None:
    count, rows, n = len(numbers) // 40, prod(x.shape[:-1]), x.shape[-1]
    if not rows:
        return
    tiles = -(-n // shape.tile)
    sizes = [tiles >> 5 * level for level in range(LEVELS)]
    first = [count * rows * sum(sizes[:level]) for level in range(LEVELS + 1)]
    words, arrivals = _WORDS * first[-1] if tiles > 1 else 0, first[-1] - first[1]
    room = 8 * shape.tile // shape.run * (shape.run + 1)
    ready = kernel("cascade", "upsweep_cascade", spec(x.dtype, y.dtype, shape), x.device, room)
    with driver.on_device(x.device):
        stream = stream_of(x)
        work = workspace(arrivals, words, stream, x.device)
        given = [
            work.control, work.arrivals, work.nodes, work.node_words, x.ptr, y.ptr, n, pitch, n, tiles, rows * tiles,
            *first[:-1], *sizes, count, words,
        ]  # fmt: skip
        # Complex numbers begin at a multiple of 16 bytes.
        parameter = pack(f"<{len(given)}q8x", *given) + _table(numbers)
        driver.launch(ready.loaded, rows * tiles, 32 * shape.warps, ready.shared, stream, parameter)


def spec(load: np.dtype, store: np.dtype, shape: Shape) -> dict[str, Any]:
    """The constants of the kernel for items of these dtypes."""
    return {
        "LOAD": memory_type(load), "STORE": memory_type(store), "RUN": shape.run, "WARPS": shape.warps,
        "STRIPS": shape.strips, "BLOCKS": shape.blocks, "NEAR": shape.near, "TILE_LEVEL": shape.tile.bit_length() - 1,
    }  # fmt: skip


def _pitch(x: View) -> int | None:
    """How many items lie between the starts of two rows; None where items are apart, or rows not equally far."""
    size = x.dtype.itemsize
    if x.ptr % size or not x.shape[-1] or (x.strides[-1] != size and x.shape[-1] > 1):
        return None
    rows = [(n, s) for n, s in zip(x.shape[:-1], x.strides[:-1]) if n != 1]
    if any(s % size for _, s in rows) or any(s != n * t for (_, s), (n, t) in pairwise(rows)):
        return None
    return rows[-1][1] // size if rows else 0


@lru_cache(256)
def _table(numbers: bytes) -> bytes:
    """The sections as the kernel reads them, each with the powers of its pole. Sections are told by their bits: numbers that are
    equal may differ in the sign of a zero."""
    words: list[float] = []
    for k in range(0, len(numbers) // 8, 5):
        re, im, *by = unpack("5d", numbers[8 * k : 8 * k + 40])
        pair = im != 0
        words += [*by, float(pair)]
        for _ in range(POWERS):
            words += [re, im]
            re, im = (re * re - im * im, re * im + im * re) if pair else (re * re, 0.0)
    return pack(f"<{len(words)}d", *words).ljust(8 * MOST * (4 + 2 * POWERS), b"\0")
