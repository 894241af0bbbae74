"""A scan on a GPU that is like an earlier one goes a shorter way, unless its arrays lie otherwise. No GPU is needed: the
launches are recorded.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

import upsweep as up
from upsweep import api, engine, recall
from upsweep.gpu import arrays, driver, launch
from upsweep.gpu.arrays import Kind, View


class DeviceArray:
    """An array that says it lies on a GPU, at an address of its own choice."""

    is_cuda = True

    def __init__(self, ptr, shape=(1000,), strides=None, dtype="f4"):
        self.dtype, self.shape = np.dtype(dtype), shape
        self.ptr, self.strides = ptr, strides or arrays.c_strides(shape, self.dtype.itemsize)
        self.nbytes = self.dtype.itemsize * int(np.prod(shape))


def likeness(x):
    return x.dtype, x.shape, x.strides


KIND = Kind(
    lambda x: View(x.ptr, x.shape, x.strides, x.dtype, 0, KIND, x),
    lambda like, shape, dtype: View(1 << 30, shape, arrays.c_strides(shape, dtype.itemsize), dtype, 0, KIND, None),
    lambda view: 7,
    likeness=engine.Likeness("cuda", likeness, likeness, lambda x: DeviceArray(1 << 31, x.shape, dtype=x.dtype)),
    pointer=lambda x: x.ptr,
)  # fmt: skip


class Context:
    def __init__(self, device): ...
    def __enter__(self): ...
    def __exit__(self, *_): ...


@pytest.fixture
def launched(monkeypatch):
    """The pointers of each call, and how often a call was checked."""
    calls, checked = [], []
    answers = {
        "architecture": 90,
        "attribute": 132,
        "blocks_per_multiprocessor": 3,
        "load": None,
        "on_device": Context,
    }
    for name, answer in answers.items():
        given = answer if name == "on_device" else lambda *_, answer=answer: answer
        monkeypatch.setattr(driver, name, given)
    monkeypatch.setattr(launch, "_workspace", lambda *_: None)
    monkeypatch.setattr(driver, "launch", lambda *call: calls.append(struct.unpack_from("<6Q", call[-1])[4:]))
    monkeypatch.setattr(engine, "load", lambda name: __import__("upsweep.gpu", fromlist=["gpu"]))
    monkeypatch.setattr(driver, "copy", lambda *_: None)
    monkeypatch.setattr(driver, "Memory", lambda *_: type("Memory", (), {"ptr": 1 << 40}))
    monkeypatch.setitem(arrays._viewers, DeviceArray, KIND.view)
    monkeypatch.setitem(engine.LIKENESS, DeviceArray, KIND.likeness)
    longer = api.execute
    monkeypatch.setattr(api, "execute", lambda *a, **k: checked.append(1) or longer(*a, **k))
    recall.known_scans.clear()
    launch._launches.clear()
    yield calls, checked
    recall.known_scans.clear()
    launch._launches.clear()
    launch._kernel.cache_clear()


@pytest.mark.parametrize(
    "scan", [up.scan, lambda x, out: up.prepared(x, out=out)(x, out)], ids=["scan", "prepared"]
)
def test_the_short_way(launched, scan):
    calls, checked = launched
    for at in (0, 4096, 12288):
        scan(DeviceArray(65536 + at), out=DeviceArray(1048576 + at))
    assert set(calls) == {(65536 + at, 1048576 + at) for at in (0, 4096, 12288)}
    assert len(checked) == 1


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (DeviceArray(65540), DeviceArray(1048576)),
        (DeviceArray(65536), DeviceArray(1048580)),
        (DeviceArray(65536), DeviceArray(65552)),
        (DeviceArray(65536, (999,)), DeviceArray(1048576, (999,))),
        (DeviceArray(65536, strides=(8,)), DeviceArray(1048576)),
        (DeviceArray(65536, dtype="i4"), DeviceArray(1048576, dtype="i4")),
    ],
    ids=["alignment read", "alignment written", "overlap", "length", "strides", "dtype"],
)
def test_the_long_way(launched, x, y):
    calls, checked = launched
    known = up.prepared(DeviceArray(65536), out=DeviceArray(1048576))
    known(x, y)
    assert len(checked) == 2
    assert calls[-1][1] == y.ptr


def test_in_place(launched):
    calls, checked = launched
    for at in (65536, 131072):
        up.scan(DeviceArray(at), out=DeviceArray(at))
    assert calls == [(65536, 65536), (131072, 131072)]
    assert len(checked) == 1


def test_tensors_on_the_host_stay_with_the_host(monkeypatch):
    """PyTorch's tensors lie on a GPU or on the host. A scan on a GPU makes their type known to the GPU's engine."""
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(engine.LIKENESS, torch.Tensor, arrays.TORCH.likeness)
    for _ in range(3):
        assert up.scan(torch.arange(5)).tolist() == [0, 1, 3, 6, 10]
