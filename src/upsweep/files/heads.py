"""Where segments of a file start, chunk by chunk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep.engine import choose, grouping
from upsweep.files.arrays import ARRAYS, FileError, along_axis
from upsweep.host import labelled, offsets, view
from upsweep.segments import EACH, Segments, check_form, checked, flags


@dataclass(frozen=True)
class Heads:
    """Where segments start, 1-D along the scanned axis; values may lie in a file."""

    spelling: str
    values: np.ndarray

    @classmethod
    def of(cls, segments: Segments | None, column: np.ndarray | None, n: int) -> Heads | None:
        """Segments of n items as a user names them: an array, a file of one, or the flags that a table's column has become."""
        if segments is None:
            return None
        if column is not None:
            return cls("flags", column)
        values = segments.values
        if isinstance(values, (str, os.PathLike)):
            if columns_of(segments):
                raise FileError(f"an array has no column {values}: pass a .npy or .zarr file or an array")
            values = along_axis(values)
        # Missing ones are refused.
        values = view(values) if labelled.has(values) else np.asarray(values)
        told = Segments(segments.spelling, values)
        if told.spelling in EACH:
            check_form(told.spelling, told.values, (n,), n)
            return cls(told.spelling, told.values)
        return cls("offsets", offsets(told, (n,), 0))

    def whole(self) -> Segments:
        return Segments(self.spelling, self.values)

    def between(self, start: int, stop: int, turned: int) -> Segments:
        """Flags of the items `[start, stop)` in the order of the walk: from the end where `turned` is the axis' length."""
        if not turned:
            return flags(self._forward(start, stop))
        # Walked from the end, a segment starts at the item before the next one's head.
        behind = self._forward(turned - stop + 1, min(turned - start + 1, turned))[::-1]
        return flags(behind if start else np.append(True, behind))

    def _forward(self, start: int, stop: int) -> np.ndarray:
        values = self.values
        if self.spelling == "flags":
            flags = values[start:stop] != 0
        elif self.spelling in ("ends", "keys"):
            flags = np.ones(stop - start, bool)
            first = max(start, 1)
            before = values[first - 1 : stop - 1]
            flags[first - start :] = before != (0 if self.spelling == "ends" else values[first:stop])
        else:
            flags = np.zeros(stop - start, bool)
            low, high = np.searchsorted(values, (start, stop))
            flags[values[low:high] - start] = True
        if not start:
            flags[:1] = True
        return flags


def coded(segments: Any) -> Segments | None:
    """The argument `segments=`; keys of groups that tables' libraries hold as the numbers of their groups. NumPy would make
    floats of integers some of which are missing."""
    segments = checked(segments)
    if segments is None or segments.spelling != "groups":
        return segments
    keys = [grouping(choose(())).codes_of((k,), len(k))[0] if labelled.has(k) else k for k in segments.values]
    return Segments("groups", tuple(keys))


def columns_of(segments: Segments | None) -> tuple[str, ...]:
    """The columns of a table that say where segments start, or whose rows make a group."""
    if not segments:
        return ()
    named = segments.values if segments.spelling == "groups" else (segments.values,)
    return tuple(name for name in named if isinstance(name, str) and not name.endswith(ARRAYS))
