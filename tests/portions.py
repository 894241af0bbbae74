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


def met(rows: Sequence[Sequence[str]], name: str, dear: bool) -> set[int]:
    """The places of the rows of a product that each run takes: two, or an eighth of the longest list. Each value of shorter lists
    stands in one of them. Which values of a longer list do, the name decides: another test meets those that this one leaves out.
    In `tests/integrations`, whose tests also go over devices, a list alone counts as a product. Of a `dear` test each run takes
    one case.
    """
    unmet = {(at, value) for row in rows for at, value in enumerate(row)}
    lists = [set(column) for column in zip(*rows)]
    if (
        not dear
        and sum(len(values) > 1 for values in lists) < 2
        and not name.startswith("tests/integrations/")
    ):
        return set(range(len(rows)))
    left = Random(name).sample(range(len(rows)), len(rows))
    taken: set[int] = set()
    most = 1 if dear else max(2, max(map(len, lists)) // 8)
    while unmet and len(taken) < most:
        best = max(left, key=lambda k: len(unmet.intersection(enumerate(rows[k]))))
        unmet.difference_update(enumerate(rows[best]))
        taken.add(best)
    return taken
