"""A Python function of plain arithmetic, written as C++: the kernel is then compiled in one go, without numba-cuda.

The function runs on values that write down what is done with them, once for each of its paths. NumPy's rules say in which dtype
an operation computes. Where a compiler that gives each name one type on all paths could find another dtype, or where anything but
arithmetic is met, the function is `Unwritten`, and numba-cuda's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsweep.gpu.written.functions import made_over
from upsweep.gpu.written.values import Question, Unwritten, Writer
from upsweep.scalars.rules import joined

PATHS = 32
"""The most paths of a function that are written."""


def written(
    fn: Callable[..., Any],
    operands: Sequence[Sequence[tuple[np.dtype, str]]],
    results: Sequence[tuple[np.dtype, str]],
) -> str:
    """The lines of C++ that give the results of a function of these operands, a value or a tuple each: dtypes, and the
    variables that hold them. Unwritten, where the function is not plain arithmetic.
    """
    writer = Writer([dtype for dtype, _ in results])
    try:
        text = _paths(made_over(fn), operands, [place for _, place in results], writer, [])
    except Exception as error:
        # The compiler tells the function's own errors in its words.
        raise Unwritten from error
    for kinds, wanted in zip(writer.results, writer.wanted):
        if len(kinds) > 1 and joined(*kinds) != wanted:
            raise Unwritten
    return text


def _paths(
    fn: Any, operands: Any, places: Sequence[str], writer: Writer, answers: list[bool], known: int = 0
) -> str:
    """The lines from the first one that is not `known`, of all paths that begin with these answers."""
    writer.answers, writer.asked, writer.lines = answers, 0, []
    try:
        ends = writer.path(fn, operands)
    except Question as question:
        lines = writer.lines
        yes, no = (
            _paths(fn, operands, places, writer, [*answers, told], len(lines)) for told in (True, False)
        )
        return " ".join([*lines[known:], f"if ({question.condition}) {{ {yes} }} else {{ {no} }}"])
    writer.paths += 1
    if writer.paths > PATHS:
        raise Unwritten
    return " ".join(
        [*writer.lines[known:], *(f"{place} = {end};" for place, end in zip(places, ends, strict=True))]
    )
