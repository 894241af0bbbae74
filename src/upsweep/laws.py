"""Probing an operator for the laws that it promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from upsweep.operator import Operator
from upsweep.operators import as_operator


class LawError(ValueError):
    """An operator breaks a law that it promises; the message holds the counter-example."""


def check(
    op: Operator | str | Callable[[Any, Any], Any], samples: Sequence[Any], *, rtol: float = 0.0
) -> None:
    """Probe an operator on all triples of some samples (the first 20,000): raises a LawError with a counter-example.

    Associativity `(a⊕b)⊕c = a⊕(b⊕c)` is probed always, the identity and commutativity where the operator promises
    them. Passing is no proof: no finite number of samples proves a law.

    Args:
        op: as in `scan`.
        samples: scalars, or tuples of scalars for an operator on tuples; mixed signs and sizes show most.
        rtol: the relative difference that rounding may make; floating-point addition itself needs about 1e-6.

    >>> import upsweep as up
    >>> up.check("add", [1, 2, -5])
    >>> up.check(lambda a, b: a - b, [1, 2, -5])
    Traceback (most recent call last):
        ...
    upsweep.laws.LawError: <lambda> is not associative: (1 ⊕ 1) ⊕ 1 = -1, but 1 ⊕ (1 ⊕ 1) = 1
    """
    op = as_operator(op)
    fn = op.fn
    for a, b, c in islice(product(samples, repeat=3), 20_000):
        left, right = fn(fn(a, b), c), fn(a, fn(b, c))
        if not _same(left, right, rtol):
            raise LawError(
                f"{op} is not associative: ({a} ⊕ {b}) ⊕ {c} = {left}, but {a} ⊕ ({b} ⊕ {c}) = {right}"
            )
    if op.identity is not None and not callable(op.identity):
        for a in samples:
            for got, text in (
                (fn(op.identity, a), f"{op.identity} ⊕ {a}"),
                (fn(a, op.identity), f"{a} ⊕ {op.identity}"),
            ):
                if not _same(got, a, rtol):
                    raise LawError(f"{op.identity} is not the identity of {op}: {text} = {got}")
    if op.commutative:
        for a, b in islice(product(samples, repeat=2), 20_000):
            if not _same(fn(a, b), fn(b, a), rtol):
                raise LawError(f"{op} is not commutative: {a} ⊕ {b} = {fn(a, b)}, but {b} ⊕ {a} = {fn(b, a)}")


def _same(a: Any, b: Any, rtol: float) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_same(p, q, rtol) for p, q in zip(a, b))
    return bool(a == b or (a != a and b != b) or (rtol and np.isclose(a, b, rtol=rtol, atol=0)))
