"""One launch of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from upsweep.gpu.marks import Marks
from upsweep.gpu.view import View
from upsweep.plan import Plan


class Step(NamedTuple):
    """A plan, and the arrays that it runs on."""

    plan: Plan
    xs: Sequence[View]
    ys: Sequence[View | None]
    initial: Sequence[View] | None
    heads: View | Marks | None
