"""One operator for strings and carries: of two signs the later one that says anything."""

from __future__ import annotations

from upsweep.operator import Operator


def _later(a, b):
    return b if b != 0 else a


LAST_NONZERO = Operator(_later, 0, "last non-zero")
