"""The dtypes that a function gives, found without data: the function runs on one item, once for each path through its
questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.function import Function
from upsweep.numpy_engine.functions import adopted
from upsweep.numpy_engine.operators import said_by
from upsweep.numpy_engine.typed import ANSWER, Columns, Value, data_of, kind_of, operand
from upsweep.operator import uncompilable
from upsweep.scalars.rules import dtype_of, joined, weak

PATHS, QUESTIONS = 256, 64
"""The most paths that are taken, and the most questions on each that are answered both ways: a loop asks a question at every
turn.
"""
ENDLESS = 10_000
"""A path with so many questions does not end."""


@lru_cache(1024)
def results_of(function: Function, arguments: tuple[tuple[np.dtype, ...], ...]) -> tuple[np.dtype, ...]:
    """The dtypes of a function's results for arguments of these dtypes: of each argument one, or one a component. Where paths
    differ, the dtype is one that holds the results of all of them.
    """
    fn = adopted(function.fn)
    found: list[Columns] = []
    errors: list[Exception] = []
    for sample in (1, 0):

        def run(sample: int = sample) -> Columns:
            items = [[np.full(1, sample, d) for d in argument] for argument in arguments]
            return _parts(fn(*map(operand, items)))

        with np.errstate(all="ignore"):
            for path in _paths(run):
                (errors if isinstance(path, Exception) else found).append(path)  # type: ignore[arg-type]
        if found:
            break
    if not found:
        raise uncompilable(function, said_by(errors[0])) from errors[0]
    counts = {len(parts) for parts in found}
    if len(counts) > 1:
        raise uncompilable(function, f"it returns {min(counts)} values or {max(counts)}")
    return tuple(_common(parts) for parts in zip(*found))


def _parts(result: Any) -> Columns:
    """One value, or the values of a tuple."""
    if isinstance(result, tuple) and len(result) < 2:
        raise TypeError("a function returns a value, or a tuple of at least two")
    parts = list(result) if isinstance(result, tuple) else [result]
    for part in parts:
        if data_of(part).dtype.kind not in "biufc":
            raise TypeError(f"{part!r} is not a number")
    return parts


def _common(parts: Sequence[Any]) -> np.dtype:
    """The dtype for the results of all paths. Numbers of Python take the dtype of the others, if it can hold them."""
    kinds = [kind_of(x) for x in parts]
    common = dtype_of(joined(*kinds))
    if common.kind not in "iu":
        return common
    if wholes := [x.dtype for x in parts if isinstance(x, Value) and x.pythons]:
        common = np.result_type(*wholes, *[k for k in kinds if not weak(k)])
    lowest = np.iinfo(common) if common.kind in "iu" else None
    if lowest and any(isinstance(x, int) and not lowest.min <= x <= lowest.max for x in parts):
        return np.result_type(common, np.int64)
    return common


def _paths(run: Callable[[], Any]) -> Iterator[Any]:
    """The results, or the exception, of `run` on each path through its questions: the first path answers yes, each next one
    turns the last yes into no.
    """
    script: list[bool] = []
    for _ in range(PATHS):
        given: list[bool] = []

        def answer(data: Any, given: list[bool] = given, script: list[bool] = script) -> bool:
            given.append(script[len(given)] if len(given) < len(script) else len(given) < QUESTIONS)
            if len(given) > ENDLESS:
                raise RecursionError("it does not end")
            return given[-1]

        token = ANSWER.set(answer)
        try:
            yield run()
        except Exception as error:
            yield error
        finally:
            ANSWER.reset(token)
        while given and not given[-1]:
            given.pop()
        if not given:
            return
        script = [*given[:-1], False]
