"""The part of a long list of cases that each run of the tests takes. The slow tests take the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
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


def meeting(rows: Sequence[Sequence[str]], strength: int) -> set[int]:
    """The places of rows of a product in which so many values meet that meet in any row."""
    columns = [{value: k for k, value in enumerate(dict.fromkeys(column))} for column in zip(*rows)]
    varied = [(at, places) for at, places in enumerate(columns) if len(places) > 1]
    if len(varied) <= strength:
        return set(range(len(rows)))
    longest = max(len(places) for _, places in varied)

    def diagonal(k: int) -> int:
        """0 for rows of which few have two values in common."""
        return sum(places[rows[k][at]] for at, places in varied) % longest

    met, taken = set(), set()
    for k in sorted(range(len(rows)), key=diagonal):
        found = set(combinations([(at, rows[k][at]) for at, _ in varied], strength))
        if not found <= met:
            met |= found
            taken.add(k)
    return taken
