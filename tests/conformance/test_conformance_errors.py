"""One mistake, one exception, one message, from every engine that works in this machine's memory."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from test_errors import MISTAKES, X
from upsweep import engine as engines

MORE = [
    (
        up.OperatorError,
        r"returns \(float64, float64\) where float64",
        lambda: up.scan(X, lambda a, b: (a, b)),
    ),
    (
        up.OperatorError,
        r"returns float64 where \(float64, float64\)",
        lambda: up.scan((X, X), lambda a, b: a[0]),
    ),
    (up.OperatorError, "returns complex128 for items of float64", lambda: up.scan(X, lambda a, b: a * 1j)),
    (up.ShapeError, "initial has shape", lambda: up.reduce(X.reshape(2, 3), axis=1, initial=X)),
    (up.OutputError, "has shape", lambda: up.reduce(X.reshape(2, 3), axis=1, out=np.zeros((2, 3)))),
]


@pytest.mark.parametrize(
    ("kind", "says", "call"), [*MISTAKES, *MORE], ids=[says for _, says, _ in [*MISTAKES, *MORE]]
)
def test_engines_say_the_same(kind, says, call, monkeypatch):
    said = set()
    for name in (name for name, row in engines.ENGINES.items() if row.place == "host"):
        monkeypatch.setattr(engines, "_first_of", lambda place, name=name: name)
        with pytest.raises(kind, match=says) as caught:
            call()
        said.add((caught.type, str(caught.value)))
    assert len(said) == 1, said
