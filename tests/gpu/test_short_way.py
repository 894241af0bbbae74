"""A scan on a GPU that is like an earlier one goes a shorter way, unless its arrays lie otherwise. No GPU is needed: the
launches are recorded.
"""

from __future__ import annotations

import gc
import struct
import weakref

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

import upsweep as up
from upsweep import engine, recall
from upsweep.gpu import again, arrays, compile, driver, launch
from upsweep.gpu.arrays import Kind
from upsweep.gpu.view import View, c_strides
from upsweep.host import TORCH_LIKENESS


class DeviceArray:
    """An array that says it lies on a GPU, at an address of its own choice."""

    is_cuda = True

    def __init__(self, ptr, shape=(1000,), strides=None, dtype="f4", device=0):
        self.device = device
        self.dtype, self.shape = np.dtype(dtype), shape
        self.ptr, self.strides = ptr, strides or c_strides(shape, self.dtype.itemsize)
        self.nbytes = self.dtype.itemsize * int(np.prod(shape))


def places(parameter):
    """Where the array begins that is read, and the one that is written."""
    return struct.unpack_from("<6Q", parameter)[4:]


def likeness(x):
    return x.dtype, x.shape, x.strides, x.device


KIND = Kind(
    lambda x: View(x.ptr, x.shape, x.strides, x.dtype, x.device, KIND, x),
    lambda like, shape, dtype: View(1 << 30, shape, c_strides(shape, dtype.itemsize), dtype, 0, KIND, None),
    lambda view: 7,
    likeness=engine.Likeness(
        likeness, {"cuda": engine.Way(lambda like, shape, dtype: lambda _: DeviceArray(1 << 31, shape, dtype=dtype))}
    ),
    pointer=lambda x: x.ptr,
)  # fmt: skip


class Context:
    def __init__(self, device): ...
    def __enter__(self): ...
    def __exit__(self, *_): ...


@pytest.fixture
def launched(monkeypatch):
    """The parameters of each launch, and how often a call was checked."""
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
    monkeypatch.setattr(driver, "is_current", lambda device: True)
    monkeypatch.setattr(launch, "workspace", lambda *_: None)
    monkeypatch.setattr(compile, "cubin", lambda *_: b"")
    monkeypatch.setattr(driver, "launch", lambda *call: calls.append(call[-1]))
    monkeypatch.setattr(engine, "load", lambda name: __import__("upsweep.gpu", fromlist=["gpu"]))
    monkeypatch.setattr(driver, "copy", lambda *_: None)
    monkeypatch.setattr(driver, "fill_bytes", lambda *_: None)
    monkeypatch.setattr(driver, "Memory", lambda *_: type("Memory", (), {"ptr": 1 << 40}))
    monkeypatch.setitem(arrays._viewers, DeviceArray, KIND.view)
    monkeypatch.setitem(engine.LIKENESS, DeviceArray, KIND.likeness)
    longer = recall.execute
    monkeypatch.setattr(recall, "execute", lambda *a, **k: checked.append(1) or longer(*a, **k))
    recall.forget()
    launch._launches.clear()
    yield calls, checked
    recall.forget()
    launch._launches.clear()
    launch._kernel.cache_clear()
    launch._small.cache_clear()


@pytest.mark.parametrize(
    "scan", [up.scan, lambda x, out: up.prepared(x, out=out)(x, out)], ids=["scan", "prepared"]
)
def test_the_short_way(launched, scan):
    calls, checked = launched
    for at in (0, 4096, 12288):
        scan(DeviceArray(65536 + at), out=DeviceArray(1048576 + at))
    assert {places(call) for call in calls} == {(65536 + at, 1048576 + at) for at in (0, 4096, 12288)}
    assert len(checked) == 1


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (DeviceArray(65536), DeviceArray(65552)),
        (DeviceArray(65536, (999,)), DeviceArray(1048576, (999,))),
        (DeviceArray(65536, strides=(8,)), DeviceArray(1048576)),
        (DeviceArray(65536, dtype="i4"), DeviceArray(1048576, dtype="i4")),
    ],
    ids=["overlap", "length", "strides", "dtype"],
)
def test_the_long_way(launched, x, y):
    calls, checked = launched
    known = up.prepared(DeviceArray(65536), out=DeviceArray(1048576))
    known(x, y)
    assert len(checked) == 2
    assert places(calls[-1])[1] == y.ptr


def test_few_alignments_are_remembered(launched, monkeypatch):
    monkeypatch.setattr(again, "_MOST", 2)
    calls, checked = launched
    for at in (0, 4, 8, 12, 0):
        up.scan(DeviceArray(65536 + at), out=DeviceArray(1048576))
    assert [places(call)[0] for call in calls] == [65536 + at for at in (0, 4, 8, 12, 0)]
    assert len(checked) == 1


def test_a_remembered_call_keeps_no_array_alive(launched):
    x, y, keys = DeviceArray(65536), DeviceArray(1048576), DeviceArray(131072)
    gone = [weakref.ref(array) for array in (x, y, keys)]
    up.scan(x, out=y, segments=up.segments.keys(keys))
    del x, y, keys
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


@pytest.mark.parametrize("known", [False, True])
def test_arrays_on_two_gpus_are_refused(launched, known):
    calls, _ = launched
    x, y = DeviceArray(65536), DeviceArray(1048576)
    far, ends = DeviceArray(131072, device=1), DeviceArray(131072, (3,), dtype="i8", device=1)
    if known:
        up.scan(x, out=y)
        up.linear_recurrence(x, x, out=y)
        up.scan(x, segments=up.segments.keys(x), out=y)
        up.scan(x, segments=up.segments.offsets(DeviceArray(131072, (3,), dtype="i8")), out=y)
    before = len(calls)
    for scan in (
        lambda: up.scan(x, out=far), lambda: up.linear_recurrence(far, x, out=y), lambda: up.linear_recurrence(x, far, out=y),
        lambda: up.scan((x, far), map=lambda a, b: a * b, out=y),
        lambda: up.scan(x, segments=up.segments.keys(far), out=y), lambda: up.scan(x, segments=up.segments.offsets(ends), out=y),
    ):  # fmt: skip
        with pytest.raises(up.EngineError, match=r"on GPU [01] and on GPU [01]: bring them to one"):
            scan()
    assert len(calls) == before


def test_in_place(launched):
    calls, checked = launched
    for at in (65536, 131072):
        up.scan(DeviceArray(at), out=DeviceArray(at))
    assert [places(call) for call in calls] == [(65536, 65536), (131072, 131072)]
    assert len(checked) == 1


def scaled(x, y, factor):
    return x * y * factor


def flags(ptr, made):
    return made(DeviceArray(ptr, dtype="?"))


FORMS = {
    "map": lambda x, y, z, i: up.scan((x, y, i + 0.5), map=scaled, out=z),
    "broadcast": lambda x, y, z, i: up.scan((x, DeviceArray(y.ptr, (1,)), i), map=scaled, out=z),
    "numpy's number": lambda x, y, z, i: up.scan((x, y, np.float32(i)), map=scaled, out=z),
    "finish": lambda x, y, z, i: up.scan(x, "max", finish=lambda p, x: p - x, out=z),
    "initial": lambda x, y, z, i: up.scan(x, initial=i, out=z),
    "initial of rows": lambda x, y, z, i: up.scan(
        DeviceArray(x.ptr, (10, 100)), axis=1, initial=DeviceArray(y.ptr, (10,)), out=DeviceArray(z.ptr, (10, 100))
    ),
    "reversed": lambda x, y, z, i: up.scan((x, y, i), "add", map=scaled, reverse=True, out=z),
    "recurrence": lambda x, y, z, i: up.linear_recurrence(x, y, initial=i - 1.5, out=z),
    "flags": lambda x, y, z, i: up.scan(x, segments=flags(y.ptr, up.segments.flags), out=z),
    "ends in reverse": lambda x, y, z, i: up.scan(x, segments=flags(y.ptr, up.segments.ends), reverse=True, out=z),
    "reduce": lambda x, y, z, i: up.reduce(
        (x, y), "affine", initial=(i, 0), out=(DeviceArray(z.ptr, ()), DeviceArray(z.ptr + 16, ()))
    ),
    "in order": lambda x, y, z, i: up.scan(
        DeviceArray(x.ptr, (100, 10)), axis=0, order="sequential", out=DeviceArray(z.ptr, (100, 10))
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_short_way_launches_what_the_long_way_does(form, launched):
    """With other numbers, and arrays in other places, of another alignment the last."""
    calls, checked = launched
    call = FORMS[form]
    given = [[DeviceArray(65536 * k + 4096 * i) for k in (1, 2, 3)] + [i] for i in range(3)]
    given.append([DeviceArray(65536 * k + 4 * k) for k in (1, 2, 3)] + [3])
    for each in given:
        call(*each)
    assert len(checked) == 1
    short, calls[:] = list(calls), []
    for each in given:
        recall.forget()
        call(*each)
    assert short == calls
    assert len(set(calls)) == 4


@pytest.mark.parametrize("written", [65536, 65552, 131072, 131088, 262144])
def test_a_second_input_under_what_is_written(written, launched):
    _, checked = launched
    for at in (1 << 20, written, 1 << 20):
        up.scan((DeviceArray(65536), DeviceArray(131072), 0.5), map=scaled, out=DeviceArray(at))
    assert len(checked) == 1 + (written in (65552, 131088))


def test_tensors_on_the_host_stay_with_the_host(monkeypatch):
    """PyTorch's tensors lie on a GPU or on the host. A scan on a GPU makes their type known to the GPU's engine."""
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(engine.LIKENESS, torch.Tensor, arrays.TORCH.likeness)
    for _ in range(3):
        assert up.scan(torch.arange(5)).tolist() == [0, 1, 3, 6, 10]


@pytest.mark.parametrize(("shape", "dtype"), [((4, 3), "f4"), ((3,), "i8"), ((), "f4"), ((0, 3), "f8")])
def test_results_of_a_known_call_lie_in_order(shape, dtype):
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 4).T
    arrays.TORCH.view(x)
    dtype = np.dtype(dtype)
    y = TORCH_LIKENESS.ways["cuda"].maker(x, shape, dtype)(x)
    assert (tuple(y.shape), y.dtype, y.device) == (shape, arrays._TORCH_OF[dtype], x.device)
    assert y.is_contiguous()
