"""Segments of rows that are not written down yet: a scan says whether it reads them as bytes or as bits, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from upsweep.gpu import driver
from upsweep.gpu.arrays import scratch
from upsweep.gpu.view import View


@dataclass(frozen=True)
class Marks:
    """One list for all rows: as bytes that are not zero where a segment starts, or as bits in words of 32."""

    values: View
    """Keys, or where segments start."""
    n: int
    """The items of a row."""
    write: Callable[[int, int, bool, bool, int, int], None]
    """Writes the list of values that begin at an address to another address, on a stream of a device: as bytes that lie as the
    items do, or as bits in the order of a scan, which may be a reverse one."""
    given: bool
    """Whether the values are an array of the user's, so that the next list is one of other values that lie alike."""
    place: ClassVar[tuple[tuple[int, ...], int]] = ((1,), 0)
    """The strides and the phase of a list of bytes."""

    @property
    def ptr(self) -> int:
        return self.values.ptr

    @property
    def kind(self) -> Any:
        return self.values.kind

    @property
    def owner(self) -> Any:
        """The array that a later call gives in place of this one, or nothing where a later call makes marks of its own."""
        return self.values.owner if self.given else None

    def nbytes(self, bits: bool) -> int:
        return -(-self.n // 32) * 4 if bits else self.n

    def written(self, bits: bool = False, reverse: bool = False) -> View:
        """The list, in memory of its own."""
        made = scratch(self.values, self.nbytes(bits))
        assert made.kind is not None
        with driver.on_device(made.device):
            self.write(self.values.ptr, made.ptr, bits, reverse, made.kind.stream(made), made.device)
        return made


def flags_of(heads: View | Marks) -> View:
    """Segments as bytes."""
    return heads.written() if isinstance(heads, Marks) else heads
