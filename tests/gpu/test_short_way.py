"""A scan on a GPU that is like an earlier one goes a shorter way, unless its arrays lie otherwise. No GPU is needed: the
launches are recorded.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import struct
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

import upsweep as up
from driver_functions import CONTEXT, Functions
from upsweep import engine, recall, short_way
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
    lambda like, shape, dtype: KIND.view(DeviceArray(1 << 31, shape, dtype=dtype)),
    lambda view: 7,
    likeness=engine.Likeness(
        likeness, {"cuda": engine.Way(lambda like, shape, dtype: lambda _: DeviceArray(1 << 31, shape, dtype=dtype))}
    ),
    pointer=lambda x: x.ptr,
)  # fmt: skip


WORK = SimpleNamespace(place=(1 << 35, 1 << 36, 1 << 37, 99))


class Context:
    def __init__(self, device): ...
    def __enter__(self): ...
    def __exit__(self, *_): ...


def parameters(handle):
    """The bytes of the parameters of the launch of a kernel."""
    one = next(x for x in launch._launches.values() if x.kernel == handle)
    return handle, one.packer.size + len(one.values) + 16 * len(one.told) + len(one.frozen)


@pytest.fixture
def functions(monkeypatch):
    """The driver's functions for the C part."""
    made = Functions(parameters)
    made.patch(monkeypatch)
    return made


@pytest.fixture(params=["C", "Python"])
def launched(request, monkeypatch, functions):
    """The parameters of each launch, and how often a call was checked."""
    calls, checked, kernels = [], [], itertools.count(1)
    if request.param == "Python":
        monkeypatch.setattr(short_way, "part", None)
    elif short_way.part is None:
        pytest.skip("the C part was not built")
    answers = {
        "architecture": 90,
        "attribute": 132,
        "blocks_per_multiprocessor": 3,
        "on_device": Context,
    }
    for name, answer in answers.items():
        given = answer if name == "on_device" else lambda *_, answer=answer: answer
        monkeypatch.setattr(driver, name, given)
    monkeypatch.setattr(driver, "is_current", lambda device: True)
    monkeypatch.setattr(driver, "capturing", lambda stream: False)
    monkeypatch.setattr(driver, "load", lambda *_: next(kernels))
    monkeypatch.setattr(launch, "workspace", lambda *_: WORK)
    monkeypatch.setattr(again, "workspace", lambda *_, device: WORK)
    monkeypatch.setattr(compile, "cubin", lambda *_: b"")
    for name in ("launch", "launch_early"):
        monkeypatch.setattr(driver, name, lambda *call: calls.append(call[-1]))
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
def test_the_short_way_launches_what_the_long_way_does(form, launched, monkeypatch):
    """The same kernels, with other numbers, and arrays in other places, of another alignment the last."""
    (_, checked), calls = launched, []
    for name in ("launch", "launch_early"):
        monkeypatch.setattr(driver, name, lambda *call: calls.append(call))
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
    # Once more, where the C part has found them.
    calls.clear()
    for each in given * 3:
        call(*each)
    assert calls == short * 3


@pytest.mark.parametrize("written", [65536, 65552, 131072, 131088, 262144])
def test_a_second_input_under_what_is_written(written, launched):
    _, checked = launched
    for at in (1 << 20, written, 1 << 20):
        up.scan((DeviceArray(65536), DeviceArray(131072), 0.5), map=scaled, out=DeviceArray(at))
    assert len(checked) == 1 + (written in (65552, 131088))


in_c = pytest.mark.parametrize("launched", ["C"], indirect=True)


@in_c
@pytest.mark.parametrize("form", [form for form in FORMS if form != "flags"])
def test_the_third_call_runs_in_c(form, launched, found):
    """The first is checked, the second is remembered."""
    x, y, z = [DeviceArray(65536 * k) for k in (1, 2, 3)]
    for count in range(4):
        FORMS[form](x, y, z, 1)
        assert len(found) == max(0, count - 1)


@in_c
def test_results_that_the_c_part_makes(launched, found):
    calls, _ = launched
    for k in range(4):
        y = up.scan(DeviceArray(65536 + 4096 * k))
        assert (type(y), y.ptr, y.shape) == (DeviceArray, 1 << 31, (1000,))
        assert places(calls[-1]) == (65536 + 4096 * k, 1 << 31)
        pair = up.reduce((DeviceArray(65536), DeviceArray(131072)), "affine")
        assert [one.shape for one in pair] == [(), ()]
    assert len(found) == 4


@in_c
@pytest.mark.parametrize("other", [{"dtype": "i4"}, {"shape": (999,)}, {"strides": (8,)}, {"device": 1}])
def test_arrays_of_another_likeness_are_not_found(other, launched, found):
    x, y = DeviceArray(65536), DeviceArray(1 << 20)
    for _ in range(3):
        up.scan(x, out=y)
    assert len(found) == 1
    with contextlib.suppress(ValueError, TypeError, up.EngineError):
        up.scan(DeviceArray(65536, **other), out=y)
    with contextlib.suppress(ValueError, TypeError, up.EngineError):
        up.scan(x, out=DeviceArray(1 << 20, **other))
    # In place is another call.
    up.scan(y, out=y)
    assert len(found) == 1


@in_c
def test_no_likeness_is_asked_for_in_c_before_a_call_was_learnt(launched, found, monkeypatch):
    x, y, asked = DeviceArray(65536), DeviceArray(1 << 20), []
    counting = KIND.likeness._replace(of=lambda x: asked.append(x) or likeness(x))
    monkeypatch.setitem(engine.LIKENESS, DeviceArray, counting)
    counts = []
    for _ in range(4):
        up.scan(x, out=y)
        counts.append(len(asked))
        asked.clear()
    # In Python, in Python and as it is learnt, in C.
    assert counts == [2, 4, 2, 2]
    assert len(found) == 2


@in_c
def test_a_workspace_is_asked_for_at_each_launch(launched, functions, monkeypatch):
    """Another stream, or a recording of one, has another."""
    calls, _ = launched
    x, y, asked = DeviceArray(65536, (1 << 20,)), DeviceArray(1 << 30, (1 << 20,)), []

    def workspace(arrivals, nodes, stream, device):
        asked.append((arrivals, nodes, stream, device))
        return SimpleNamespace(place=(len(asked), 2, 3, 4))

    monkeypatch.setattr(again, "workspace", workspace)
    recall.forget()
    up.scan(x, out=y)
    for k in range(1, 5):
        up.scan(x, out=y)
        assert struct.unpack_from("<4Q", calls[-1]) == (k, 2, 3, 4)
    assert len(asked) == 4
    assert {one[2:] for one in asked} == {(7, 0)}


@in_c
def test_errors_of_the_driver(launched, found, monkeypatch):
    calls, _ = launched
    x, y = DeviceArray(65536), DeviceArray(1 << 20)
    for _ in range(3):
        up.scan(x, out=y)

    def refused(*_):
        raise up.EngineError("CUDA: out of resources")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "launch", refused)
        for _ in range(2):
            with pytest.raises(up.EngineError, match="out of resources"):
                up.scan(x, out=y)
    before = len(calls)
    up.scan(x, out=y)
    assert len(calls) == before + 1
    assert len(found) == 2


@in_c
def test_the_context_of_the_arrays_is_current_meanwhile(launched, functions, monkeypatch):
    x, y, during = DeviceArray(65536), DeviceArray(1 << 20), []
    for _ in range(3):
        up.scan(x, out=y)
    assert functions.made_current == []
    monkeypatch.setattr(driver, "launch", lambda *_: during.append(functions.context))
    for before in (0, 8192):
        functions.context = before
        up.scan(x, out=y)
        assert functions.context == before
    assert during == [CONTEXT] * 2
    assert functions.made_current == [CONTEXT, 0, CONTEXT, 8192]


@in_c
def test_other_threads_run_during_a_launch(launched, monkeypatch):
    """The driver may wait until another thread has run Python."""
    x, y, ran = DeviceArray(65536), DeviceArray(1 << 20), threading.Event()
    for _ in range(3):
        up.scan(x, out=y)
    monkeypatch.setattr(driver, "launch", lambda *_: threading.Thread(target=ran.set).start() or ran.wait(60))
    up.scan(x, out=y)
    assert ran.is_set()


@in_c
def test_several_threads(launched, monkeypatch):
    """Each launches on its own arrays, while what is known is forgotten."""
    seen, wrong = threading.local(), []
    monkeypatch.setattr(driver, "launch", lambda *call: setattr(seen, "last", places(call[-1])))

    def work(k):
        for i in range(300):
            at = (65536 + 4096 * k + 4 * (i % 3), (1 << 20) + 4096 * k)
            up.scan(DeviceArray(at[0]), out=DeviceArray(at[1]))
            if seen.last != at:
                wrong.append((seen.last, at))
            if i % 50 == k:
                recall.forget()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@in_c
def test_nothing_is_kept_or_given_back_too_often(launched, functions, monkeypatch):
    x, y, z, work = (
        DeviceArray(65536),
        DeviceArray(131072),
        DeviceArray(1 << 20),
        SimpleNamespace(place=WORK.place),
    )
    held = [x, y, z, work, work.place, DeviceArray, KIND.pointer, KIND.stream, KIND.likeness.of]
    monkeypatch.setattr(again, "workspace", lambda *_, device: work)
    recall.forget()
    monkeypatch.setattr(driver, "launch", lambda *_: None)

    def refused(*_):
        raise up.EngineError("refused")

    def counts():
        gc.collect()
        return [sys.getrefcount(each) for each in held]

    def turn():
        for _ in range(4):
            up.scan(x)
            up.scan(x, out=z)
            up.scan(z, out=z)
            up.linear_recurrence(x, y, initial=1.5, out=z)
            up.linear_recurrence(x, x)
            up.reduce((x, y), "affine")
            # They overlap.
            up.scan(x, out=DeviceArray(65552))
        with monkeypatch.context() as patch:
            patch.setattr(driver, "launch", refused)
            for _ in range(4):
                with pytest.raises(up.EngineError, match="refused"):
                    up.scan(x, out=z)

    for _ in range(3):
        turn()
    before = counts()
    for k in range(50):
        turn()
        if k % 10 == 0:
            recall.forget()
    turn()
    assert max(abs(after - then) for then, after in zip(before, counts())) < 50


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
