"""The launches of the random calls of the GPU's sweeps, planned without a GPU."""

from __future__ import annotations

import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from upsweep.dtypes import named
from upsweep.gpu import driver, launch, shapes, steps
from upsweep.gpu.layout import arrange
from upsweep.gpu.shapes.bringing import LEAST
from upsweep.gpu.step import Step
from upsweep.gpu.view import View, c_strides
from upsweep.operators import as_operator
from upsweep.planning import plan_of

# The folder holds a distributed.py, which would hide Dask's package from other tests.
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(Path(__file__).parents[2] / "benchmarks"), *sys.path])
    from draws import GPU, Call, drawn, laid

NAMES = {
    "f4": "float32", "f8": "float64", "bf16": "bfloat16", "f2": "float16", "c8": "complex64", "?": "bool", "i1": "int8",
    "u1": "uint8", "i2": "int16", "i4": "int32", "i8": "int64",
}  # fmt: skip


def at(place: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> View:
    return View(place << 40, shape, strides, dtype, 0, None, None)


def launches(call: Call) -> list[Step]:
    """Those of a call that is no recurrence."""
    dtype, forms = named(NAMES[call.dtype]), dict(call.forms)
    whole, seen = laid(call)
    items = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), whole, c_strides(whole, 1))
    strides = np.broadcast_to(seen(items), call.shape).strides
    start = [View(0, (), (), dtype, 0, None, None, value=1)] if forms.pop("initial", False) else None
    more = {"initial": start is not None, "segmented": bool(call.segments), "reducing": call.kind == "reduce"}
    plan, _ = plan_of(as_operator(call.op), (dtype,), (call.shape,), call.axis, **forms, **more)
    to = plan.row_shape if plan.reduce else call.shape
    n = call.shape[call.axis]
    step = Step(
        plan,
        [at(1, call.shape, tuple(s * dtype.itemsize for s in strides), dtype)],
        [at(2, to, c_strides(to, dtype.itemsize), dtype)],
        start,
        at(3, (n,), (1,), np.dtype(bool)) if call.segments else None,
    )
    return steps.steps(step, lambda nbytes: at(4, (nbytes,), (1,), np.dtype(np.uint8)))


@cache
def kernel(plan: Any, xs: Any, ys: Any, starts: Any, heads: Any) -> str:
    return launch.choose(plan, arrange(plan, xs, ys, starts, heads), shapes.chip(90))[1].kernel


@pytest.mark.parametrize("seed", [1, 2])
def test_no_large_copy_goes_item_by_item(seed, monkeypatch):
    monkeypatch.setattr(driver, "architecture", lambda device: 90)
    seen = set()
    for call in drawn(seed, 200, GPU):
        if call.kind == "recurrence":
            continue
        for step in launches(call):
            (x,), plan = step.xs, step.plan
            if plan.n > 1 or prod(x.shape) * x.dtype.itemsize < LEAST:
                continue
            places = [tuple(v.place for v in views) for views in (step.xs, step.ys, step.initial or ())]
            seen.add(found := kernel(plan, *places, step.heads and step.heads.place))
            assert found != "rows", call
    assert "bring" in seen
