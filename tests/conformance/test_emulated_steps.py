"""Scans of rows that are walked step by step or scanned whole, tile by tile, have the bits of a scan of the same items laid
plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import upsweep as up
from conformance.test_emulated_brought import turned_by
from portions import every
from upsweep.gpu import compile

HASH = up.Operator(turned_by, 0, "turned")


class Walk(NamedTuple):
    """A scan of an array whose first and last dimension lie the other way, or that is cut out of longer lines."""

    op: Any
    dtype: str
    shape: tuple[int, ...]
    forms: dict[str, Any]
    lies: str = "turned"
    axis: int = 1
    kernel: str = "stepwise"


def short(op: Any, dtype: str, shape: tuple[int, ...], **forms: Any) -> Walk:
    """A scan along the last axis, of which a tile has whole rows."""
    return Walk(op, dtype, shape, forms, "turned", len(shape) - 1, "shortwise")


WALKS = {
    "backwards": Walk(HASH, "u4", (5, 12, 100, 35), {"reverse": True, "initial": 1}),
    "as many levels as a counter has": Walk(HASH, "u4", (5, 32, 40, 35), {"exclusive": True}),
    "segments across levels": Walk(HASH, "u4", (5, 17, 40, 35), {"exclusive": True, "segments": 0.2}),
    "segments with an initial value": Walk(HASH, "u8", (7, 13, 60, 16), {"segments": 0.2, "initial": 3}),
    "bytes one by one": Walk(HASH, "u1", (3, 9, 2002, 2), {"order": "sequential"}, "cut"),
    "words of bytes that begin within words": Walk(
        "min", "u1", (3, 9, 2002, 2), {"segments": 0.2, "exclusive": True, "reverse": True}, "cut"
    ),
    "words of halves": Walk("max", "i2", (5, 12, 200, 35), {"reverse": True, "initial": 1}),
    "truths": Walk("xor", "?", (15, 5, 194, 28), {}),
    "in order": Walk("add", "f4", (7, 70, 30, 16), {"order": "sequential"}),
    "halves one by one": Walk("max", "f2", (7, 7, 300, 16), {"segments": 0.3}),
    "short rows": short(HASH, "u4", (4, 3, 170, 6)),
    "short rows backwards": short(HASH, "u4", (9, 170, 4), reverse=True, exclusive=True),
    "short rows of bytes": short(HASH, "u1", (5, 301, 13), exclusive=True),
    "short rows in segments": short(HASH, "u1", (6, 2, 171, 5), segments=0.3, initial=3),
    "short rows of words of bytes": short("add", "u1", (8, 2, 133, 13), segments=0.3, exclusive=True),
    "short rows of words of halves": short("max", "i2", (6, 300, 5), reverse=True, initial=1),
    "short rows of words of bytes that fill no words": short("max", "u1", (4, 70, 31), reverse=True),
    "short rows of truths": short("or", "?", (4, 801, 5), reverse=True),
    "short rows in order": short("add", "f4", (3, 301, 20), order="sequential"),
    "short rows of halves": short("add", "f2", (6, 301, 9)),
}


@pytest.fixture
def walked(emulated, monkeypatch) -> Callable[[Walk], bool]:
    """Whether a walk has the right bits; few tiles are enough."""
    for kernel in ("stepwise", "shortwise"):
        monkeypatch.setattr(f"upsweep.gpu.{kernel}.STEPPED_LEAST", 1)

    def right(walk: Walk) -> bool:
        rng = np.random.default_rng(1)
        first, *between, last = walk.shape
        cut = walk.lies == "cut"
        shape = (first, *between, last + 1) if cut else (last, *between, first)
        drawn = rng.integers(0, 2 if walk.dtype == "?" else 199, shape).astype(walk.dtype)
        items = emulated.put(drawn.ravel().view(np.uint8)).view(walk.dtype).reshape(shape)
        x, forms = items[..., 1:] if cut else items.swapaxes(0, -1), dict(walk.forms)
        if "segments" in forms:
            forms["segments"] = up.segments.flags(rng.random(walk.shape[walk.axis]) < forms["segments"])
        emulated.forget()
        emulated.gpu.loaded.clear()
        got = up.scan(emulated.made(x), walk.op, axis=walk.axis, **forms).get()
        assert emulated.gpu.loaded == {f"upsweep_{walk.kernel}"}
        emulated.forget()
        return np.array_equal(got, up.scan(np.ascontiguousarray(x), walk.op, axis=walk.axis, **forms))

    return right


@pytest.mark.parametrize("name", every(5, WALKS))
def test_rows_are_walked_step_by_step(walked, name):
    assert walked(WALKS[name])


@pytest.mark.parametrize(
    ("name", "right", "fault"),
    every(
        3,
        [
            ("backwards", "op(sums[l][e], x[e])", "op(x[e], sums[l][e])"),
            ("segments across levels", "head |= heads >> l & 1;", ""),
            ("words of bytes that begin within words", "own.line[v] + moved &", "own.line[v] &"),
            ("short rows backwards", "FLIP ? LENGTH - 1 - k : k", "k"),
            ("short rows of bytes", "8 * (at & 3)", "0"),
        ],
    ),
)
def test_a_fault_is_found(walked, name, right, fault, monkeypatch):
    text = compile.text
    assert right in text(WALKS[name].kernel, "")
    monkeypatch.setattr(compile, "text", lambda *what: text(*what).replace(right, fault))
    assert not walked(WALKS[name])
