"""Long reductions are cut into blocks of the tree: NumPy runs the parts, which give the bits of the whole. No GPU is needed."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

import upsweep as up
from table import CASES
from upsweep import numpy_engine
from upsweep.gpu import launch, reduction, steps
from upsweep.gpu.shapes import reductions
from upsweep.gpu.view import View
from upsweep.operator import Operator
from upsweep.plan import Plan

HASH = CASES["hash-u64"]
OP = Operator(HASH.op.fn, np.uint64(0))


def view(x: np.ndarray) -> View:
    return View(x.ctypes.data, x.shape, x.strides, x.dtype, 0, None, x)


def array(v: View) -> np.ndarray:
    """The memory of a view."""
    low, high = v.extent()
    memory = np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)
    return np.ndarray(v.shape, v.dtype, memory, v.ptr - low, v.strides)


@pytest.fixture
def calls(monkeypatch):
    """NumPy runs the plans."""
    ran = []

    def run(plan, xs, ys, initial, heads):
        ran.append(plan)
        arrays = [[array(v) for v in views] for views in (xs, ys, initial or ())]
        numpy_engine.run(plan, arrays[0], arrays[1], arrays[2] if initial else None, None)

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setattr(reductions, "BLOCK", (1 << 12, 512))
    monkeypatch.setattr(reductions, "for_even_reduction", lambda largest, read: 32)
    monkeypatch.setattr(steps, "scratch", lambda like, nbytes: view(np.full(nbytes, 0xA5, np.uint8)))
    reduction._parts.cache_clear()
    yield ran
    reduction._parts.cache_clear()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "parts"),
    [
        ((1024,), 0, 2), ((1029,), 0, 3), ((3, 1029), 1, 3), ((2, 2, 1000), 2, 3),
        ((1024, 40), 0, 2), ((1029, 40), 0, 3), ((2, 70, 3, 16), 1, 3),
    ],
)  # fmt: skip
def test_the_parts_give_the_bits_of_the_whole(calls, shape, axis, parts, initial, reverse):
    (x,) = HASH.draw(shape)
    u8 = np.dtype(np.uint64)
    plan = Plan(OP, (u8,), (u8,), (u8,), shape, axis, reduce=True, reverse=reverse, initial=initial)
    start = np.arange(1, 1 + plan.rows, dtype=u8).reshape(plan.row_shape) if initial else None
    want = up.reduce(x, OP, axis=axis, reverse=reverse, initial=start, engine="numpy")
    got = np.zeros(plan.row_shape, u8)
    steps.run(plan, [view(x)], [view(got)], None if start is None else [view(start)], None)
    np.testing.assert_array_equal(got, want)
    assert len(calls) == parts


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((4, 2000), {"order": "sequential"}), ((4, 2000), {"reduce": False}), ((4, 2000), {"axis": 0}),
        ((2000, 15), {"axis": 0}), ((2000, 40), {"axis": 0, "order": "sequential"}),
    ],
)  # fmt: skip
def test_what_is_not_cut(calls, shape, how):
    u8 = np.dtype(np.uint64)
    (x,) = HASH.draw(shape)
    plan = Plan(OP, (u8,), (u8,), (u8,), x.shape, **{"axis": 1, "reduce": True, **how})
    got = np.zeros(plan.row_shape if plan.reduce else plan.shape, u8)
    steps.run(plan, [view(x)], [view(got)], None, None)
    assert calls == [plan]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("skip", "items", "parts"), [(0, 1 << 12, 2), (0, 4099, 3), (1, 4099, 1)])
def test_narrow_items_are_cut_from_16_bytes_on(calls, skip, items, parts, reverse):
    u1 = np.dtype(np.uint8)
    # In reverse the blocks start behind the last item.
    room = np.arange(4200).astype(u1)
    first = -room.ctypes.data % 16 + skip + (-items % 16 if reverse else 0)
    x = room[first:][:items]
    plan = Plan(up.ops.ADD, (u1,), (u1,), (u1,), x.shape, 0, reduce=True, reverse=reverse)
    got = np.zeros((), u1)
    steps.run(plan, [view(x)], [view(got)], None, None)
    assert len(calls) == parts
    assert got == x.sum(dtype=u1)
