"""Applications whose calls are remembered as scans are: a call like an earlier one is not checked again.

An application is a plan and the function that the plan gives. The plan checks the operands, and settles all that depends on their
likeness alone; the function looks at their values. Calls of NumPy's arrays and of numbers that are like an earlier one begin with
the function.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from upsweep import api, cores, recall
from upsweep.apps.kinds import enter, given_back
from upsweep.segments import Segments


class Planned(NamedTuple):
    """The part of a call that a plan is given."""

    xp: Any
    """The array namespace that it computes with."""
    given: tuple[Any, ...]
    """The operands, as the caller passed them."""
    views: tuple[Any, ...]
    """The operands; arrays as `enter` shows them."""
    segments: Segments | None

    def scan(self) -> Callable[..., Any]:
        """`upsweep.scan`, for a place where the arrays of every run are like those of the first: they have dtypes, shapes and
        strides that follow from those of the operands."""
        return recall.Scan() if self.xp is np else api.scan


def called(
    plan: Callable[..., Any], arrays: tuple[Any, ...], others: tuple[Any, ...], segments: Segments | None,
    *settings: Any, labels: bool = True,
) -> Any:  # fmt: skip
    """The result of the function that `plan(call, *settings)` gives, of the arrays, the other operands and the segments. `labels`
    are those of `enter`.

    Operands are alike by types, dtypes, shapes and strides, settings by their values.
    """
    operands, like = (*arrays, *others), None
    if _REMEMBERED.issuperset(map(type, operands)):
        like = (
            plan, recall.seen(operands), None if segments is None else recall.seen_segments(segments), settings,
            tuple(map(type, settings)), cores.setting,
        )  # fmt: skip
        run: Any = recall.known(like)
        if run is not None:
            return given_back(run(*operands, segments))
    xp, views, give = enter(*arrays, labels=labels)
    call = Planned(xp, operands, (*views, *others), segments)
    run = plan(call, *settings)
    y = give(run(*call.views, segments))
    if like is not None and all(view is array for view, array in zip(views, arrays)):
        # A list of segments may differ from the next one.
        with suppress(TypeError):
            recall.keep(like, run)
    return y


_REMEMBERED = {np.ndarray, type(None), *recall.NUMBERS}
