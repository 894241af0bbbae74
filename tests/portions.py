"""The part of a long list of cases that each run of the tests takes. The slow tests take the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Cases for `parametrize`: the first, and every `step`-th behind it; all others are slow."""
    return [case if k % step == 0 else _slow(case) for k, case in enumerate(cases)]


def parts(count: int) -> Any:
    """Runs a test on `part`s of a list, each of which is `cases[part::count]`; all but the first are slow."""
    return pytest.mark.parametrize("part", every(count, range(count)))


def _slow(case: Any) -> Any:
    # A named tuple is one value.
    values = case if type(case) is tuple else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)


MOST = 6
"""So many cases of a product are in each run."""


def met(rows: Sequence[Sequence[str]], name: str) -> set[int]:
    """The places of rows of a product in which each value stands once. Long lists have more values than are taken: which ones
    are, the name decides, so that another test meets those that this one leaves out.
    """
    unmet = {(at, value) for row in rows for at, value in enumerate(row)}
    varied = sum(len(set(column)) > 1 for column in zip(*rows))
    if varied < 2:
        return set(range(len(rows)))
    left = Random(name).sample(range(len(rows)), len(rows))
    taken: set[int] = set()
    while unmet and len(taken) < MOST:
        best = max(left, key=lambda k: len(unmet.intersection(enumerate(rows[k]))))
        unmet.difference_update(enumerate(rows[best]))
        taken.add(best)
    return taken
