"""Segments of rows that are not written down yet: a scan says whether it reads them as bytes or as bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from upsweep.gpu.view import View


@dataclass(frozen=True)
class Marks:
    """One list for all rows: as bytes that are not zero where a segment starts, or as bits in words of 32."""

    flags: Callable[[], View]
    bits: Callable[[], View]
    place: ClassVar[tuple[tuple[int, ...], int]] = ((1,), 0)
    """The strides and the phase of a list of bytes."""


def _unwritten() -> View:
    raise AssertionError("marks of no call")


UNKNOWN = Marks(_unwritten, _unwritten)
"""The marks of calls to come."""


def flags_of(heads: View | Marks) -> View:
    """Segments as bytes."""
    return heads.flags() if isinstance(heads, Marks) else heads
