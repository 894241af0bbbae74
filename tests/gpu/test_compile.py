"""Every kernel and class of dtype compiles without a GPU, and the hot ones keep their registers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from cubins import bounds, frames
from cuda.bindings import nvrtc

import upsweep as up
from gpu_plans import Case, Fused, chosen, fused
from portions import every
from test_pairs import DTYPES
from upsweep import advantages
from upsweep import cache as disk
from upsweep.device_functions import numba_cuda
from upsweep.dtypes import accumulator, fits
from upsweep.function import Function
from upsweep.gpu import compile, driver, functions, launch
from upsweep.gpu.choice import Choice
from upsweep.gpu.functions import Linked, memory_type, value_type
from upsweep.gpu.view import View
from upsweep.operator import Operator, segmented
from upsweep.operators import ADJOINT, PRODUCTS, ops
from upsweep.plan import Plan

HALF = 1.5
LONG = (1 << 26,)
_PRODUCTS = Function(PRODUCTS.fn, 1, (np.dtype("f4"),) * 3)
HOT = {
    "f4": (ops.ADD, ["f4"], LONG, 0, {}),
    "i4": (ops.ADD, ["i4"], LONG, 0, {}),
    "f8": (ops.ADD, ["f8"], LONG, 0, {}),
    "i2": (ops.ADD, ["i2"], LONG, 0, {}),
    "f2": (ops.ADD, ["f2"], LONG, 0, {}),
    "i1": (ops.ADD, ["i1"], LONG, 0, {}),
    "max": (ops.MAX, ["f4"], LONG, 0, {}),
    "logaddexp": (ops.LOGADDEXP, ["f4"], LONG, 0, {}),
    "recurrence": (ops.AFFINE, ["f4", "f4"], LONG, 0, {"kept": 1}),
    "segments": (ops.ADD, ["f4"], LONG, 0, {"segmented": True}),
    "reverse": (ops.ADD, ["f4"], LONG, 0, {"reverse": True}),
    "reverse recurrence": (ops.AFFINE, ["f4", "f4"], LONG, 0, {"reverse": True, "kept": 1}),
    "exclusive": (ops.ADD, ["f4"], LONG, 0, {"exclusive": True}),
    "rows": (ops.ADD, ["f4"], (4096, 256), 1, {}),
    "whole rows": (ops.AFFINE, ["f4", "f4"], (12288, 5000), 1, {"kept": 1}),
    "uneven rows": (ops.ADD, ["f4"], (4096, 5003), 1, {}),
    "long rows": (ops.AFFINE, ["f4", "f4"], (4096, 9000), 1, {"kept": 1}),
    "columns": (ops.ADD, ["f4"], (65536, 4096), 0, {}),
    "columns of pairs": (ops.AFFINE, ["f4", "f4"], (65536, 2048), 0, {"kept": 1}),
    "few columns of a tree": (ops.ADD, ["f4"], (1 << 25, 8), 0, {}),
    "odd columns": (ops.ADD, ["f4"], (1 << 19, 333), 0, {}),
    "copy of turned bytes": (ops.ADD, ["u1"], (20342, 3611, 1), 2, {"transposed": True}),
    "copy of few neighbours": (ops.ADD, ["u2"], (7, 180499, 180, 1), 3, {"transposed": True}),
    "copy of wide items": (ops.ADD, ["c16"], (11, 4000, 60, 1), 3, {"transposed": True}),
    "odd columns of halves": (ops.ADD, ["f2"], (1 << 19, 333), 0, {}),
    "columns from rows": (ops.ADD, ["f4"], (16384, 16384), 0, {"transposed": True}),
    "rows from columns": (ops.ADD, ["f4"], (16384, 16384), 1, {"transposed": True}),
    "columns from rows of halves": (ops.MAX, ["f2"], (16384, 16383), 0, {"transposed": True}),
    "few columns from rows": (ops.MAX, ["f8"], (1 << 20, 3), 0, {"transposed": True}),
    "short rows across": (ops.ADD, ["f4"], (9, 1 << 20, 4), 2, {"transposed": True}),
    "short rows of bytes across": (ops.ADD, ["u1"], (8, 1 << 20, 13), 2, {"transposed": True}),
    "crosswise": (ops.ADD, ["f4"], (256, 1000, 256), 1, {"transposed": True}),
    "crosswise halves": (ops.ADD, ["f2"], (256, 1000, 512), 1, {"transposed": True, "exclusive": True}),
    "crosswise bytes": (ops.ADD, ["i1"], (256, 1000, 1024), 1, {"transposed": True}),
    "crosswise pairs": (ops.AFFINE, ["f4", "f4"], (256, 1000, 256), 1, {"transposed": True, "kept": 1}),
    "crosswise in order": (
        ops.ADD,
        ["i1"],
        (256, 1000, 1024),
        1,
        {"transposed": True, "order": "sequential"},
    ),
    "crosswise reduced": (ops.ADD, ["f4"], (256, 1000, 256), 1, {"transposed": True, "reduce": True}),
    "few crosswise": (ops.ADD, ["f4"], (64, 4096, 64), 1, {"transposed": True}),
    "few crosswise bytes": (ops.ADD, ["i1"], (64, 4096, 64), 1, {"transposed": True}),
    "few crosswise pairs": (ops.AFFINE, ["f4", "f4"], (64, 4096, 64), 1, {"transposed": True, "kept": 1}),
    "few neighbours step by step": (ops.ADD, ["c8"], (9, 20, 20000), 1, {"transposed": True}),
    "few columns both ways": (ops.ADD, ["f4"], (16, 100_000, 9), 1, {"transposed": True}),
    "forty items in a lane": (ops.ADD, ["f4"], (60, 40, 10240), 1, {"segmented": True, "listed": True}),
    "recurrences of eight bytes in few columns": (ops.AFFINE, ["f8", "f8"], (1 << 22, 5), 0, {"kept": 1}),
    "short rows": (ops.ADD, ["f4"], (1 << 25, 8), 1, {}),
    "uneven short rows": (ops.ADD, ["f4"], (1 << 23, 33), 1, {}),
    "uneven rows of bytes": (ops.ADD, ["i1"], (1 << 20, 200), 1, {}),
    "rows of three": (ops.ADD, ["f4"], (1 << 25, 3), 1, {}),
    "batches": (ops.ADD, ["f4"], (160_000, 64, 8), 1, {}),
    "long batches": (ops.ADD, ["f2"], (50_000, 200, 7), 1, {}),
    "few rows": (ops.ADD, ["f4"], (1 << 18,), 0, {}),
    "more rows": (ops.AFFINE, ["f4", "f4"], (1 << 20,), 0, {"kept": 1}),
    "truths": (ops.OR, ["?"], LONG, 0, {}),
    "reduce": (ops.ADD, ["f4"], (65536, 4096), 1, {"reduce": True}),
    "reduce of halves": (ops.MAX, ["f2"], (4096, 16384), 1, {"reduce": True, "reverse": True}),
    "reduce by blocks": (ops.ADD, ["f4"], (1 << 23,), 0, {"reduce": True}),
    "reduce of rows of halves": (ops.MAX, ["f2"], (9847, 5467), 1, {"reduce": True}),
    "uneven": (ops.ADD, ["f4"], LONG, 0, {"phase": 4}),
    "an axis in many registers": (ops.ADD, ["f4"], (100, 1 << 20), 0, {}),
    "bytes of columns": (ops.ADD, ["i1"], (1 << 20, 1024), 0, {}),
    "narrow": (ops.ADD, ["float8_e4m3fn"], LONG, 0, {}),
    "a short axis": (ops.ADD, ["f4"], (16, 1 << 22), 0, {}),
    "walk": (ops.AFFINE, ["f4", "f4"], (8, 4096, 1536), 1, {"kept": 1, "order": "sequential"}),
    "walk of halves": (ops.AFFINE, ["f2", "f2"], (8, 4096, 1536), 1, {"kept": 1, "order": "sequential"}),
    "few columns": (ops.AFFINE, ["f2", "f2"], (2, 65536, 1024), 1, {"kept": 1, "order": "sequential"}),
    "odd columns in order": (ops.ADD, ["i1"], (512, 2048, 101), 1, {"order": "sequential"}),
    "lines in order": (ops.AFFINE, ["f4", "f4"], (8, 4096, 1535), 1, {"kept": 1, "order": "sequential"}),
    "lines along the tree": (ops.AFFINE, ["bfloat16", "bfloat16"], (880, 20841), 0, {"kept": 1}),
    "walk along rows": (ops.AFFINE, ["f4", "f4"], (8, 1536, 4096), 2, {"kept": 1, "order": "sequential"}),
    "gradients": (
        ADJOINT,
        ["f4", "f4", "f4"],
        (8, 4096, 1536),
        1,
        {"order": "sequential", "reverse": True, "finish": _PRODUCTS, "ahead": 2, "initial": True},
    ),
    "walk of segments": (ops.MAX, ["f8"], (4096, 3000), 0, {"segmented": True, "order": "sequential"}),
    "pitched columns": (ops.ADD, ["f4"], (1 << 18, 1023), 0, {"pitch": 1024, "phase": 4}),
    "pitched columns of halves": (ops.ADD, ["f2"], (1 << 18, 1023), 0, {"pitch": 1024, "phase": 2}),
    "few pitched columns": (ops.ADD, ["f2"], (1 << 23, 7), 0, {"pitch": 8}),
    "columns of one tile": (ops.ADD, ["f4"], (640, 200, 1024), 1, {}),
    "bytes of two columns": (ops.ADD, ["i1"], (1 << 26, 2), 0, {}),
    "bytes in segments": (ops.ADD, ["i1"], LONG, 0, {"segmented": True}),
}
OTHERS = {
    "affine": (ops.AFFINE, ["f4", "f4"], LONG, 0, {}),
    "everything": (
        ops.ADD,
        ["f4"],
        LONG,
        0,
        {"reverse": True, "exclusive": True, "initial": True, "segmented": True},
    ),
    "bool": (ops.ADD, ["?"], LONG, 0, {}),
    "f8 e4m3": (ops.ADD, ["float8_e4m3fn"], LONG, 0, {}),
    "f8 e5m2": (ops.LAST, ["float8_e5m2"], (4096, 1000), 1, {"segmented": True}),
    "last": (ops.LAST, ["c8"], LONG, 0, {}),
    "c16": (ops.MUL, ["c16"], LONG, 0, {}),
    "argmax": (ops.ARGMAX, ["f4", "i8"], LONG, 0, {}),
    "logaddexp of f8": (ops.LOGADDEXP, ["f8"], (9, 77), 1, {}),
    "reduce by tiles": (ops.ADD, ["f4"], LONG, 0, {"reduce": True}),
    "reduce of columns": (ops.ADD, ["f8"], (1000, 1000), 0, {"reduce": True}),
    "everything in order": (
        ops.ARGMAX,
        ["f4", "i8"],
        (50, 1537, 77),
        1,
        {"reverse": True, "initial": True, "segmented": True, "order": "sequential"},
    ),
    "everything in order along rows": (
        ops.ADD,
        ["i1"],
        (1537, 770),
        1,
        {"reverse": True, "exclusive": True, "initial": True, "segmented": True, "order": "sequential"},
    ),
    "a short axis that lies anywhere": (ops.ADD, ["f4"], (5, 64), 0, {"phase": 13}),
    "in order anywhere": (ops.AFFINE, ["f8", "f8"], (50, 64), 0, {"phase": 3, "order": "sequential"}),
    "reduce in order": (ops.MUL, ["c16"], (1537, 77), 0, {"reduce": True, "order": "sequential"}),
    "three columns": (ops.ADD, ["f4"], (1 << 25, 3), 0, {}),
    "fifty columns": (ops.ADD, ["f4"], (1 << 20, 50), 0, {}),
    "columns of bytes": (ops.ADD, ["i1"], (3000, 1000), 0, {"segmented": True}),
}


ONE, TWO = np.float32(1), np.float32(2)
SQUARE, LAST = (lambda x: x * x), (lambda p: p[1])
EMA = lambda a, x: (ONE - a, a * x)  # noqa: E731
FUSED = {
    "squares": Fused("add", "f4", LONG, 0, SQUARE),
    "drawdown": Fused("max", "f4", LONG, 0, finish=lambda p, x: (p - x) / p),
    "an average": Fused("affine", "f4: f4", LONG, 0, EMA, LAST),
    "averages of columns": Fused("affine", "f4: f4", (65536, 4096), 0, EMA, LAST),
    "averages of rows": Fused("affine", "f4- f4", (65536, 4096), 1, EMA, LAST),
    "averages of a short axis": Fused("affine", "f4- f4", (16, 1 << 22), 0, EMA, LAST),
    "averages of long rows": Fused("affine", "f4: f4", (65536, 40960), 1, EMA, LAST),
    "averages in order": Fused("affine", "f4: f4", (8, 4096, 1536), 1, EMA, LAST, {"order": "sequential"}),
    "weights": Fused("add", "f4 f4|", (65536, 4096), 1, lambda x, w: x * w),
    "weights of columns": Fused("add", "f4 f4|", (65536, 4096), 0, lambda x, w: x * w, lambda p, x, w: p - x),
    "averages from the first": Fused(
        "affine", "f4 f4:", (65536, 4096), 0, lambda x, a, i: (ONE - a, x if i == 0 else a * x), LAST
    ),
    "variance": Fused("add", "f4", LONG, 0, SQUARE, lambda p, x, i: p / np.float32(i + 1) - x * x),
    "rewards": Fused("affine", "f4 ? f4:", LONG, 0, lambda r, d, g: (g * np.float32(not d), r), LAST, {"reverse": True}),
    "returns from a value": Fused(
        "affine", "bfloat16 f4: f4- i4:", (8, 4096, 1536), 1, lambda r, a, more, last, i: (a, r + more if i == last else r), LAST,
        {"reverse": True, "segmented": True}, "bfloat16",
    ),
    "advantages": Fused(
        "affine", "f4 f4 f4: f4: f4- ?- i4:", (4096, 16384), 0, advantages._worth, advantages._advantage,
        {"reverse": True, "exclusive": True, "segmented": True},
    ),
    "advantages of values that follow": Fused(
        "affine", "f4 f4 f4: f4: f4 ?", (4096, 16384), 0, advantages._surprise, LAST, {"reverse": True, "segmented": True},
    ),
    "a short axis of squares": Fused("add", "f4", (16, 1 << 22), 0, SQUARE, lambda p, x, i: p - x),
    "sum of squares": Fused("add", "f4", LONG, 0, SQUARE, None, {"reducing": True}),
    "three results": Fused("min", "i2 u1-", (40, 3000), 1, lambda x, y: x * y, lambda p, x, y: (p > x, p, y / TWO)),
}  # fmt: skip


@pytest.mark.parametrize("name", every(12, FUSED))
def test_maps_keep_their_registers(name, no_device_needed):
    plan, choice = fused(FUSED[name])
    assert max(frames(_made(plan, choice, 90))) <= FRAMES.get((name, 90), 0), f"{name} spills"


def cubin(case: Case, arch: int) -> bytes:
    return _made(*chosen(case, arch), arch)


def _made(plan: Plan, choice: Choice, arch: int) -> bytes:
    return compile.made(compile.text(choice.kernel, choice.spec(plan)), functions.linked(plan), arch)


def on_some_chips(names: Iterable[str], more: Sequence[int] = ()) -> list[Any]:
    """Each of these kernels on each chip. Every run compiles a twelfth of them for one chip each: half for sm_90, a quarter for
    sm_80, and a quarter for sm_100. The slow tests compile all, and so does `make registers`.
    """
    taken = {name: (80, 90, 100, 90)[k % 4] for k, name in enumerate([*names][::12])}
    return [
        pytest.param(name, arch, marks=() if arch == taken.get(name) else pytest.mark.slow)
        for name in names
        for arch in (80, 90, 100, *more)
    ]


def compiles(kernel: str, spec: str, arch: int, whole: bool) -> bool:
    """Whether a kernel compiles: to machine code, or without ptxas, which takes nine tenths of the time."""
    return len(compile._compile(compile.text(kernel, spec), arch, linked=not whole)) > 1000


WHOLE = pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["code for ptxas", "machine code"]
)


def _linked(op: Operator, names: Sequence[Any]) -> Linked:
    parts = tuple(map(np.dtype, names))
    return Linked("upsweep_operator", op, (parts, parts), parts)


FRAMES = {
    ("rows from columns", 86): 8,
    ("rows from columns", 89): 8,
    ("narrow", 100): 8,
    ("columns from rows", 90): 24,
    ("rows from columns", 90): 24,
    ("weights of columns", 90): 24,
    ("few pitched columns", 80): 16,
}
"""Bytes of local memory that these kernels are known to use. With 24 bytes, columns from rows ran at .918 of a copy and rows from
columns at .884 on an H200, and with none at .916 and .884.
"""
FRAMES_OF = {(13, 0): {("uneven", 100): 8, ("f2", 100): 8}}
"""The same by the version of the compiler. CUDA 13.0's puts eight bytes aside in two kernels: in the uneven one it is an
address that a block needs once, when it leaves.
"""


@pytest.mark.parametrize(("name", "arch"), on_some_chips(HOT, (86, 89, 120)))
def test_hot_kernels_keep_their_registers_and_may_be_launched(name, arch):
    plan, choice = chosen(HOT[name], arch)
    code = _made(plan, choice, arch)
    assert bounds(code) == {f"upsweep_{choice.kernel}": choice.threads}
    found = frames(code)
    assert found, "the cubin names no frame"
    most = (FRAMES | FRAMES_OF.get(nvrtc.nvrtcVersion()[1:], {})).get((name, arch), 0)
    assert max(found) <= most, f"{name} spills {max(found)} bytes a thread to local memory on sm_{arch}"


@WHOLE
@pytest.mark.parametrize("name", OTHERS)
def test_the_other_kernels_compile(name, whole):
    plan, choice = chosen(OTHERS[name], 90)
    assert compiles(choice.kernel, choice.spec(plan), 90, whole)


def test_an_operator_is_built_in_whatever_its_name():
    renamed = Operator(ops.LOGADDEXP.special["f4"].fn, -np.inf, name="soft maximum")
    assert cubin((renamed, ["f4"], (9, 77), 1, {}), 90)[:4] == b"\x7fELF"


def test_an_operator_whose_array_changed_is_refused():
    table = np.array([1.0])
    op = Operator(lambda a, b: a + b * table[0])
    table[0] = 2
    with pytest.raises(up.OperatorError, match="changed"):
        compile.cubin("tiles", "", [_linked(op, ["f4"])], 90)


def test_machine_code_on_disk_is_named_by_all_that_makes_it(monkeypatch):
    op, other = Operator(lambda a, b: a + b * 2), Operator(lambda a, b: a + b * 3)
    names = [
        compile._digest("text", [_linked(op, ["f4"])], 90),
        compile._digest("text", [_linked(other, ["f4"])], 90),
        compile._digest("text", [_linked(op, ["f8"])], 90),
        compile._digest("text", [], 90),
    ]
    for what, value in (("SCHEMA", -1), ("_LINK_FLAGS", ("-lto",)), ("_FLAGS", ("--std=c++20",))):
        with monkeypatch.context() as patch:
            patch.setattr(compile, what, value)
            names.append(compile._digest("text", [_linked(op, ["f4"])], 90))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "fault", [lambda code: code[:-9], lambda code: code[:40] + b"?" + code[41:], lambda code: b""]
)
def test_a_file_that_is_cut_off_or_another_one_counts_as_missing(fault, monkeypatch, tmp_path):
    monkeypatch.setenv("UPSWEEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile, "made", lambda *given: b"the code")
    path, other = tmp_path / "a.cubin", tmp_path / "b.cubin"
    disk.write(path, b"machine code" * 9)
    assert disk.read(path) == b"machine code" * 9
    other.write_bytes(path.read_bytes())
    path.write_bytes(fault(path.read_bytes()))
    assert disk.read(path) is disk.read(other) is None
    for _ in range(2):
        assert compile.cubin("alike", "", (), 90) == b"the code"
        (kept,) = {*tmp_path.glob("*.cubin")} - {path, other}
        kept.write_bytes(fault(kept.read_bytes()))


def _twice(x):
    return x + x


def test_every_conversion():
    loads = {(memory_type(x), value_type(accumulator(d))) for x in DTYPES for d in DTYPES if fits(x, d)}
    stores = {(value_type(accumulator(d)), memory_type(y)) for d in DTYPES for y in DTYPES if fits(d, y)}
    entries = [
        f'extern "C" __global__ void convert{i}(const {x}* x, {y}* y) {{ *y = convert<{y}>(*x); }}'
        for i, (x, y) in enumerate(sorted(loads | stores))
    ]
    heads = [(compile.KERNELS / name).read_text() for name in ("narrow.cuh", "prelude.cuh")]
    text = "\n".join((*heads, *entries)).replace("#pragma once", "").replace('#include "narrow.cuh"', "")
    assert len(compile._compile(text, 90, linked=False)) > 1000


@pytest.mark.parametrize("fn", [
    lambda a, b: min(a + b, 1e30),
    lambda a, b: a * HALF + math.exp(b) * math.pi,
    lambda a, b: _twice(a) ** 2 + (b if b > 0.1 else 0.0),
    lambda a, b: np.maximum(a, 0.5) + b / 3,
])  # fmt: skip
def test_numbers_of_pythons_are_computed_in_float32(fn, no_device_needed, monkeypatch):
    texts, compiled = [], numba_cuda().compile

    def as_text(function, signature, **options):
        texts.append(compiled(function, signature, **{**options, "output": "ptx"})[0])
        return b"", None

    monkeypatch.setattr(numba_cuda(), "compile", as_text)
    functions.python_ltoir(_linked(Operator(fn), ["f4"]), 90)
    assert ".f32" in texts[0]
    assert "f64" not in texts[0]


def test_a_python_operator_may_call_functions(no_device_needed):
    f32, truth, scope = np.dtype(np.float32), np.dtype(bool), {}
    exec("def twice(b): return b * 2\ndef op(a, b, *, f=2): return a + twice(b) * f", scope)
    for op, dtypes in (
        (Operator(lambda a, b: _twice(a) + b), (f32,)),
        (Operator(scope["op"]), (f32,)),
        (Operator(lambda a, b: a**b - np.power(b, a)), (np.dtype(np.int32),)),
        (Operator(lambda a, b: np.clip(a, b, np.where(a > b, 1, 2)) + np.sign(np.mod(a, b))), (f32,)),
        (Operator(lambda a, b: a / b), (np.dtype(np.complex64),)),
        (segmented(ops.LOGADDEXP.special["f4"], 1, seeded=True), (np.dtype(np.uint16), f32, f32)),
        (segmented(ops.AFFINE, 2, seeded=True), (np.dtype(np.uint16), f32, f32, f32, f32)),
        # An operator that only hands truths on.
        (segmented(ops.LAST, 1, seeded=True), (np.dtype(np.uint16), truth, truth)),
    ):
        assert len(functions.python_ltoir(_linked(op, dtypes), 90)) > 1000


def test_scans_of_other_lengths_load_no_kernel_again(monkeypatch):
    loaded = []
    answers = {"architecture": 90, "attribute": 132, "blocks_per_multiprocessor": 3}
    for name, answer in answers.items():
        monkeypatch.setattr(driver, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(driver, "load", lambda code, *_: loaded.append(code))
    launch._kernel.cache_clear()
    f = np.dtype("f4")
    for n in (1 << 25, (1 << 25) + 5, 1 << 26, 40_000, 50_001):
        view = View(0, (n,), (4,), f, 0, None, None)
        made = launch._prepare(Plan(ops.ADD, (f,), (f,), (f,), (n,), 0), [view], [view], (), None, 0)
        assert made.plan.n == n
    launch._kernel.cache_clear()
    # One length that fills the machine, and one that does not.
    assert len(loaded) == 2
