"""Mistakes with arrays on a GPU raise what they raise with NumPy's arrays, before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from test_errors import MISTAKES
from upsweep.segments import Segments


class There:
    """NumPy's arrays as a device's, in memory that they share as they do here."""

    def __init__(self, emulated) -> None:
        self.device, self.memories = emulated, {}

    def array(self, x):
        if isinstance(x, tuple):
            return tuple(map(self.array, x))
        if isinstance(x, Segments):
            return Segments(x.spelling, self.array(x.values))
        if type(x) is not np.ndarray or x.dtype.kind not in "biufc":
            return x
        whole = x
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        raw = np.frombuffer(whole.tobytes(), np.uint8)
        _, memory = self.memories.setdefault(id(whole), (raw, self.device.put(raw)))
        seen = np.ndarray(x.shape, x.dtype, memory, x.ctypes.data - whole.ctypes.data, x.strides)
        seen.flags.writeable = x.flags.writeable
        return self.device.made(seen)

    def calling(self, function):
        def call(*given, **named):
            return function(*map(self.array, given), **{name: self.array(x) for name, x in named.items()})

        return call


OTHER = {
    "initial=array": "initial of float64 does not fit",
    "a=array.* int64": "an operand of float64 does not fit",
    "of another byte order": "does not scan >f8",
    "out of object cannot hold": "NumPy's",
    "segments= of type ndarray may mean": "segments= of type Array may mean",
    "must be an array": "must be an array|no GPU array",
}
"""The words of mistakes that a device's arrays are told of in their own way."""


@pytest.mark.parametrize(("kind", "says", "call"), MISTAKES, ids=[says for _, says, _ in MISTAKES])
def test_a_mistake_is_told_before_anything_is_written(emulated, monkeypatch, kind, says, call):
    there = There(emulated)
    for name in ("scan", "reduce", "linear_recurrence"):
        monkeypatch.setattr(up, name, there.calling(getattr(up, name)))
    with pytest.raises((kind, up.EngineError), match=OTHER.get(says, says)) as caught:
        call()
    assert caught.type is kind or says in OTHER
    assert all(np.array_equal(raw, memory) for raw, memory in there.memories.values())


def test_a_scan_of_truths_starts_from_a_truth(emulated):
    x = emulated.value(np.array([True, False]))
    with pytest.raises(up.DTypeError, match=r"initial of int32 does not fit .* bool: convert it first"):
        up.scan(x, "or", initial=emulated.value(np.array(2, np.int32)))


@pytest.mark.parametrize(("wide", "dtype"), [("i8", "i4"), ("u4", "i4"), ("i8", "u8"), ("i2", "i1")])
def test_a_scan_of_integers_starts_from_one_that_its_dtype_holds(emulated, wide, dtype):
    """The host looks at the number; one on a device would wrap, and the largest so far would be another."""
    x = emulated.value(np.array([1, 2], dtype))
    with pytest.raises(
        up.DTypeError, match=r"initial of u?int\d+ does not fit .* u?int\d+: convert it first"
    ):
        up.scan(x, "max", initial=emulated.value(np.array(3, wide)))
