"""An array in a file, cut into blocks that are read and written in one go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod


@dataclass(frozen=True)
class Grid:
    """Blocks of an array in C order, each contiguous in the file: dimensions before `split` are walked index by index,
    `split` in steps, and those behind it are whole. Rows are scanned together: all blocks along the axis.

    >>> grid = Grid.of((2, 300, 5), 1, 8, 4000)
    >>> [(rows[0].start, along.start, along.stop) for rows, along in grid.blocks()][:4]
    [(0, 0, 64), (0, 64, 128), (0, 128, 192), (0, 192, 256)]
    """

    shape: tuple[int, ...]
    axis: int
    split: int
    step: int

    @classmethod
    def of(
        cls, shape: tuple[int, ...], axis: int, itemsize: int, room: int, *chunks: tuple[int, ...] | None
    ) -> Grid:
        """Blocks of at most `room` bytes where an item allows it; of whole chunks where the file has chunks."""
        inner = [prod(shape[k + 1 :]) * itemsize for k in range(len(shape))]
        split = next(k for k, size in enumerate(inner) if size <= room or k == len(shape) - 1)
        # A stream takes aligned blocks of a power of two whole.
        step = 1 << max(0, (room // max(1, inner[split])).bit_length() - 1)
        for own in chunks:
            if own:
                step = max(own[split], step // own[split] * own[split])
        return cls(shape, axis, split, step)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether a block holds whole rows."""
        return self.axis > self.split

    def blocks(self) -> Iterator[tuple[tuple[slice, ...], slice]]:
        """Each block as its rows (the slice along the axis being whole) and its part of the axis."""
        if not self.size:
            return
        every = slice(0, self.shape[self.axis])
        cuts = [[every] if k == self.axis else self._cuts(k) for k in range(len(self.shape))]
        for rows in product(*cuts):
            for along in self._cuts(self.axis):
                yield rows, along

    def items(self, rows: tuple[slice, ...], along: slice) -> int:
        sizes = [s.stop - s.start for s in rows]
        return prod(sizes) // sizes[self.axis] * (along.stop - along.start)

    def _cuts(self, k: int) -> list[slice]:
        n = self.shape[k]
        step = 1 if k < self.split else self.step if k == self.split else n
        return [slice(i, min(i + step, n)) for i in range(0, n, step)]
