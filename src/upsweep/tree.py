"""The canonical tree: one definition of a scan that every engine answers to, bit for bit.

`prefix(k)` of `x[0..k)` cuts `[0, k)` into the aligned power-of-two blocks that the binary form of k names, largest
first, reduces each block by the balanced binary tree over it, and folds the block sums from the left. Brent and Kung,
"A regular layout for parallel adders" (1982), compute exactly these values, and so does Blelloch's down-sweep. Sklansky's
circuit (1960) and Kogge and Stone's (1973) do not: of seven items Sklansky makes (x0..x3)((x4 x5) x6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Combine = Callable[[Any, Any], Any]


def prefixes(op: Combine, x: Sequence[Any]) -> list[Any]:
    """All inclusive prefixes of `x`: the oracle, Brent-Kung's two sweeps on any length.

    >>> prefixes(lambda a, b: a + b, [3, 1, 7, 0, 4, 1, 6, 3])
    [3, 4, 11, 11, 15, 16, 22, 25]
    >>> prefixes(lambda a, b: f"({a}{b})", "abcdefg")
    ['a', '(ab)', '((ab)c)', '((ab)(cd))', '(((ab)(cd))e)', '(((ab)(cd))(ef))', '((((ab)(cd))(ef))g)']
    """
    a, n, d = list(x), len(x), 1
    while d < n:
        for k in range(2 * d - 1, n, 2 * d):
            a[k] = op(a[k - d], a[k])
        d *= 2
    while d > 1:
        d //= 2
        for k in range(3 * d - 1, n, 2 * d):
            a[k] = op(a[k - d], a[k])
    return a


def block_sum(op: Combine, x: Sequence[Any]) -> Any:
    """The balanced binary tree over a power of two of items.

    >>> block_sum(lambda a, b: f"({a}{b})", "abcd")
    '((ab)(cd))'
    """
    if len(x) == 1:
        return x[0]
    half = len(x) // 2
    return op(block_sum(op, x[:half]), block_sum(op, x[half:]))


def blocks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The aligned power-of-two blocks `(first, size)` that tile `[start, stop)`, from left to right.

    >>> list(blocks(0, 11))
    [(0, 8), (8, 2), (10, 1)]
    >>> list(blocks(3, 16))
    [(3, 1), (4, 4), (8, 8)]
    """
    while start < stop:
        size = 1 << ((stop - start).bit_length() - 1)
        aligned = start & -start
        if aligned:
            size = min(size, aligned)
        yield start, size
        start += size


@dataclass
class Carry:
    """The sums of everything scanned so far: a binary counter of aligned block sums.

    `sums` holds one block sum for each set bit of `count`, largest block first. It is all that chunks, shards and
    streams need to hand on to keep the bits of one call: never more than 64 values, whatever the length.

    >>> c = Carry()
    >>> for letter in "abcdefg":
    ...     c = c.push(lambda a, b: f"({a}{b})", 1, letter)
    >>> c.count, c.sums
    (7, ['((ab)(cd))', '(ef)', 'g'])
    >>> c.prefix(lambda a, b: f"({a}{b})")
    '((((ab)(cd))(ef))g)'
    """

    count: int = 0
    sums: list[Any] = field(default_factory=list)

    @property
    def parts(self) -> int:
        """The components of a block sum; 0 where there is none."""
        return len(self.sums[0]) if self.sums else 0

    def push(self, op: Combine, size: int, block: Any) -> Carry:
        """This carry with the sum of the next aligned block of `size` items taken in."""
        if size & (size - 1) or self.count % size:
            raise ValueError(f"a block of {size} items is not aligned at item {self.count}")
        sums, bit = list(self.sums), size
        while self.count & bit:
            block = op(sums.pop(), block)
            bit *= 2
        return Carry(self.count + size, [*sums, block])

    def prefix(self, op: Combine, initial: Any = None) -> Any:
        """`prefix(count)`: the block sums folded from the left, starting from `initial`; None where there is nothing."""
        total = initial
        for block in self.sums:
            total = block if total is None else op(total, block)
        return total
