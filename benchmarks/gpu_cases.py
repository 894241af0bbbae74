"""All scans that the GPU engine is measured by, as data: each with its goal and its peer in PyTorch.

A case goes through the public functions, as a user's call does. The unit of a figure is a device copy of the bytes that the
scan must move: the bytes it reads, the bytes it writes, and the segments as they are spelt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

import upsweep as up
from upsweep.dtypes import named
from upsweep.operators import variant_of

G = 1 << 30
NAMES = {
    "f4": torch.float32, "f8": torch.float64, "f2": torch.float16, "bf16": torch.bfloat16, "i1": torch.int8,
    "u1": torch.uint8, "i2": torch.int16, "i4": torch.int32, "i8": torch.int64, "?": torch.bool,
    "c8": torch.complex64, "c16": torch.complex128, "e4m3": torch.float8_e4m3fn,
}  # fmt: skip


class Case(NamedTuple):
    """One scan. `at` says how its arrays lie in memory, `segments` how its segments are spelt."""

    name: str
    op: Any
    dtypes: str
    shape: tuple[int, ...]
    axis: int = 0
    goal: float = 0.85
    at: str = ""
    segments: str = ""
    forms: Mapping[str, Any] = MappingProxyType({})
    reduce: bool = False
    result: str = ""
    """The dtype of the result, where it differs from the input's."""


class Small(NamedTuple):
    """A scan of float32 whose time is measured in a CUDA graph, in microseconds."""

    name: str
    shape: tuple[int, ...]
    goal: float


# --- Python operators that are no built-in one in disguise ------------------------------------------------------------


def interest(a: Any, b: Any) -> Any:
    return a + b + a * b


def best(a: Any, b: Any) -> Any:
    """The sum, and the largest sum of a beginning."""
    return a[0] + b[0], max(a[1], a[0] + b[1])


def spread(a: Any, b: Any) -> Any:
    """The number of items, their mean, their squared distances from the mean."""
    n, gap = a[0] + b[0], b[1] - a[1]
    share = b[0] / n
    return n, a[1] + gap * share, a[2] + b[2] + gap * gap * a[0] * share


def matrix(a: Any, b: Any) -> Any:
    return (
        a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
    )  # fmt: skip


def motion(a: Any, b: Any) -> Any:
    """Steps `x -> M x + v` of a state of two numbers."""
    return (
        b[0] * a[0] + b[1] * a[2], b[0] * a[1] + b[1] * a[3],
        b[2] * a[0] + b[3] * a[2], b[2] * a[1] + b[3] * a[3],
        b[0] * a[4] + b[1] * a[5] + b[4], b[2] * a[4] + b[3] * a[5] + b[5],
    )  # fmt: skip


def complex_matrix(a: Any, b: Any) -> Any:
    """Matrices of two by two complex numbers, all real parts first."""
    p, q, r, s, t, u, v, w = a
    c, d, e, f, g, h, i, j = b
    return (
        p * c - t * g + q * e - u * i, p * d - t * h + q * f - u * j,
        r * c - v * g + s * e - w * i, r * d - v * h + s * f - w * j,
        p * g + t * c + q * i + u * e, p * h + t * d + q * j + u * f,
        r * g + v * c + s * i + w * e, r * h + v * d + s * j + w * f,
    )  # fmt: skip


ONE = np.float32(1)


def average(a: Any, x: Any) -> Any:
    return ONE - a, a * x


def returns(reward: Any, end: Any, discount: Any) -> Any:
    return discount * np.float32(not end), reward


def last(prefix: Any) -> Any:
    return prefix[1]


# --- the table --------------------------------------------------------------------------------------------------------


def _size(dtype: str) -> int:
    return NAMES[dtype].itemsize


def _cases() -> list[Case]:
    def one(dtype: str) -> tuple[int]:
        return (G // _size(dtype),)

    long, f4 = (G // 4,), "f4"
    goals = {"f8": 0.9, "i8": 0.9, "i2": 0.92, "f2": 0.92, "f4": 0.93, "i4": 0.93}
    made = [Case(f"add {d}", "add", d, one(d), goal=goals.get(d, 0.85)) for d in
            ("f4", "i4", "f8", "i8", "i2", "f2", "bf16", "i1", "u1", "c8", "c16", "e4m3")]  # fmt: skip
    made += [
        Case("max f4", "max", f4, long, goal=0.93),
        Case("max bf16", "max", "bf16", one("bf16")),
        Case("mul f8", "mul", "f8", one("f8"), goal=0.9),
        Case("or bool", "or", "?", one("?")),
        Case("xor i4", "xor", "i4", long, goal=0.93),
        Case("bool to i8", "add", "?", (G // 8,), result="i8"),
        Case("i4 to i8", "add", "i4", (G // 8,), result="i8"),
        Case("logaddexp f4", "logaddexp", f4, long, goal=0.65),
        Case("add f4 exclusive", "add", f4, long, goal=0.93, forms={"exclusive": True}),
        Case("add f4 reverse", "add", f4, long, goal=0.93, forms={"reverse": True}),
        Case("add f4 initial", "add", f4, long, goal=0.93, forms={"initial": 3}),
        Case("add f8 reverse exclusive", "add", "f8", one("f8"), forms={"reverse": True, "exclusive": True}),
        Case("reduce f4", "add", f4, long, goal=0.97, reduce=True),
        Case("reduce f8", "add", "f8", one("f8"), goal=0.97, reduce=True),
        Case("reduce bf16 max", "max", "bf16", one("bf16"), goal=0.97, reduce=True),
        Case("reduce rows of 4096", "add", f4, (65536, 4096), 1, 0.97, reduce=True),
        Case("reduce 65536x4096 axis 0", "add", f4, (65536, 4096), 0, 0.97, reduce=True),
        Case("affine f4 one row", "affine", "f4 f4", (G // 8,), goal=0.9),
        Case("affine f4 12288x4096", "affine", "f4 f4", (12288, 4096), 1, 0.9),
        Case("affine f4 12288x5000", "affine", "f4 f4", (12288, 5000), 1, 0.9),
        Case("argmax f4", "argmax", "f4 i8", (G // 16,)),
        Case("add i1 2^32 items", "add", "i1", (1 << 32,)),
        Case("add i1 2^32 + 3 items", "add", "i1", ((1 << 32) + 3,)),
        Case("add f4 10^8 items", "add", f4, (10**8,)),
        Case("add f4 10^8 + 7 items", "add", f4, (10**8 + 7,)),
        Case("add f4 3 rows of 10^8", "add", f4, (3, 10**8), 1),
    ]
    for n in (3, 8, 32, 64, 100, 256, 1000, 4096, 16500, 65536, 1 << 20):
        made.append(Case(f"add f4 rows of {n}", "add", f4, (G // 4 // n, n), 1))
    for n, columns in ((8, 1 << 25), (32, 1 << 23), (100, 2684354), (4096, 65536), (65536, 4096), (1 << 20, 256),
                       (1 << 23, 32), (1 << 24, 16), (1 << 25, 8), (1 << 26, 4), (1 << 27, 2), (11184810, 24),
                       (806109, 333)):  # fmt: skip
        made.append(Case(f"add f4 {n}x{columns} axis 0", "add", f4, (n, columns)))
    made += [
        Case("add f8 262144x512 axis 0", "add", "f8", (1 << 18, 512)),
        Case("add i1 1048576x1024 axis 0", "add", "i1", (1 << 20, 1024)),
        Case("add bf16 65536x8192 axis 0", "add", "bf16", (65536, 8192)),
        Case("add f4 100x100x26843 axis 1", "add", f4, (100, 100, 26843), 1),
        Case("add f4 256x1000x1000 axis 1", "add", f4, (256, 1000, 1000), 1),
        Case("add f4 256x1000x1000 axis 2", "add", f4, (256, 1000, 1000), 2),
        Case("add f4 x[1:] into y[1:]", "add", f4, long, at="from 1"),
        Case("add f4 x[1:] into y[:-1]", "add", f4, long, at="from 1 to 0"),
        Case("add i2 x[3:] into y[:-3]", "add", "i2", one("i2"), at="from 3 to 0"),
        Case("add f4 x[::2]", "add", f4, (G // 8,), at="step 2"),
        Case("add f4 transposed input axis 0", "add", f4, (16384, 16384), at="transposed"),
        Case("add f4 transposed input axis 1", "add", f4, (16384, 16384), 1, at="transposed"),
        Case("add f4 a row broadcast", "add", f4, (16384, 16384), 1, at="broadcast"),
    ]
    # Odd shapes, of 2^28 bytes each way: lines and rows that begin at any byte.
    for op, dtype, columns in (("add", "i1", 7), ("add", "i1", 65), ("add", "i1", 333), ("max", "i1", 333), ("or", "?", 999),
                               ("add", "bf16", 13), ("add", "bf16", 101), ("add", "bf16", 333),
                               ("add", f4, 3001)):  # fmt: skip
        n = G // 4 // _size(dtype) // columns
        made.append(Case(f"{op} {dtype} {n}x{columns} axis 0", op, dtype, (n, columns)))
    for dtype, n in (("i1", 200), ("i1", 999), ("bf16", 1001), ("e4m3", 999)):
        made.append(Case(f"add {dtype} rows of {n}", "add", dtype, (G // 4 // _size(dtype) // n, n), 1))
    for dtype, n in (("i1", 1000), ("bf16", 100), (f4, 100)):
        name, rows = f"add {dtype} rows of {n}, one item apart", G // 4 // _size(dtype) // n
        made.append(Case(name, "add", dtype, (rows, n), 1, at="apart"))
    for dtype in (f4, "bf16", "i1"):
        name, shape = f"add {dtype} 512x2048x101 axis 1 in order", (512, 2048, 101)
        made.append(Case(name, "add", dtype, shape, 1, forms={"order": "sequential"}))
    for axis in (0, 1):
        name = f"add bf16 transposed input axis {axis}"
        made.append(Case(name, "add", "bf16", (16384, 8192), axis, at="transposed"))
    made.append(
        Case("add f4 201527x333 axis 0, flags of each", "add", f4, (201527, 333), segments="flags of rows")
    )
    for spelling in ("flags", "keys", "lengths", "offsets"):
        made.append(Case(f"add f4 segments by {spelling}", "add", f4, long, segments=spelling))
    made += [
        Case("add f4 rows of 4096, their flags", "add", f4, (65536, 4096), 1, segments="flags of rows"),
        Case("affine f4 segments by flags", "affine", "f4 f4", (G // 8,), segments="flags"),
        Case(
            "recurrence 8x4096x1536 in order",
            "affine",
            "f4 f4",
            (8, 4096, 1536),
            1,
            forms={"order": "sequential"},
        ),
    ]
    # Batches of few columns, as of features over time; neighbours with a gap between them; segments that columns or rows share.
    for dtype, n, columns in ((f4, 7, 3), (f4, 33, 65), (f4, 64, 2), (f4, 300, 2), (f4, 600, 12), (f4, 1000, 5),
                              ("bf16", 200, 7), ("bf16", 512, 16), ("i1", 50, 8), ("i1", 7, 3), ("i8", 33, 65)):  # fmt: skip
        batches = G // 4 // _size(dtype) // n // columns
        made.append(
            Case(f"add {dtype} {batches}x{n}x{columns} axis 1", "add", dtype, (batches, n, columns), 1)
        )
    for dtype, n, columns, axis in ((f4, 262144, 256, 0), ("bf16", 131072, 1024, 0), ("i1", 894784, 300, 0),
                                    (f4, 1 << 20, 64, 1), (f4, 13421, 5000, 1)):  # fmt: skip
        name = f"add {dtype} {n}x{columns} x[:, ::2] axis {axis}"
        made.append(Case(name, "add", dtype, (n, columns), axis, at="step 2"))
    for n, columns, axis, spelling in ((1 << 24, 4, 0, "keys"), (1 << 19, 128, 0, "keys"), (65536, 1024, 0, "offsets"),
                                       (16384, 4096, 0, "lengths"), (1677721, 40, 1, "keys"), (223696, 300, 1, "offsets")):  # fmt: skip
        name = f"add f4 {n}x{columns} axis {axis}, {spelling} of all"
        made.append(Case(name, "add", f4, (n, columns), axis, segments=spelling))
    # Dimensions in another order than those of the results: the axis lies between two others in both.
    for dtype, rows, reduce in ((f4, 1, False), ("bf16", 2, False), ("i1", 4, False), (f4, 1, True)):
        shape = (256, 1000, 256 * rows)
        name = f"{'reduce' if reduce else 'add'} {dtype} {'x'.join(map(str, shape))} axis 1, transposed input"
        made.append(
            Case(name, "add", dtype, shape, 1, 0.97 if reduce else 0.85, at="transposed", reduce=reduce)
        )
    made += [
        Case("max f8 2^19x64 axis 0 in order", "max", "f8", (1 << 19, 64), forms={"order": "sequential"}),
        Case("affine f8 16384x4096 axis 0", "affine", "f8 f8", (16384, 4096)),
        Case("reduce bf16 rows of 24", "add", "bf16", (5592405, 24), 1, 0.97, reduce=True),
        Case("reduce f4 rows of 20000", "add", f4, (13421, 20000), 1, 0.97, reduce=True),
        Case("reduce bf16 rows of 17000", "add", "bf16", (15790, 17000), 1, 0.97, reduce=True),
    ]
    long_rows, state = (65536, 4096), {"map": average, "finish": last}
    variance = {"map": lambda x: x * x, "finish": lambda p, x, i: p / np.float32(i + 1) - x * x}
    made += [
        Case("squares f4", "add", f4, long, forms={"map": lambda x: x * x}),
        Case("differences f4", "add", f4, long, forms={"finish": lambda p, x: p - x}),
        Case("drawdown f4", "max", f4, long, forms={"finish": lambda p, x: (p - x) / p}),
        Case("variance f4", "add", f4, long, forms=variance),
        Case("average f4", "affine", "0.25 f4", long, forms=state),
        Case("averages f4 65536x4096 axis 1", "affine", "0.25 f4", long_rows, 1, forms=state),
        Case("averages f4 65536x4096 axis 0", "affine", "0.25 f4", long_rows, forms=state),
        Case(
            "averages f4 axis 0 in order",
            "affine",
            "0.25 f4",
            long_rows,
            forms={**state, "order": "sequential"},
        ),
        Case(
            "rewards f4, ends ?",
            "affine",
            "f4 ? 0.99",
            long,
            forms={"map": returns, "finish": last, "reverse": True},
        ),
    ]
    for fn, count in ((interest, 1), (best, 2), (spread, 3), (matrix, 4), (motion, 6), (complex_matrix, 8)):
        for dtype in ("f4", "f8"):
            name = f"python, {count} of {dtype}"
            made.append(
                Case(name, fn, " ".join([dtype] * count), (G // 2 // _size(dtype) // count,), goal=0.8)
            )
    return made


CASES = _cases()
SMALL = [
    *(Small(f"2^{k} items", (1 << k,), goal) for k, goal in
      ((8, 2.5), (10, 2.5), (12, 2.5), (14, 2.5), (16, 3.5), (18, 5.0), (20, 6.5), (22, 12.5))),
    *(Small(f"{rows} rows of {n}", (rows, n), goal) for rows, n, goal in
      ((100, 1000, 2.5), (64, 4096, 3.5), (16, 65536, 6.5), (200, 16384, 12.5))),
]  # fmt: skip


# --- arrays, calls, peers ---------------------------------------------------------------------------------------------


def drawn(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    kind = NAMES[dtype]
    if dtype == "e4m3":
        return torch.rand(shape, device="cuda").to(kind)
    if kind.is_floating_point or kind.is_complex:
        return torch.rand(shape, device="cuda", dtype=kind).sub_(0.5)
    if dtype == "?":
        return torch.rand(shape, device="cuda") < 1e-6
    return torch.randint(-100 if dtype != "u1" else 0, 100, shape, device="cuda", dtype=kind)


def laid(case: Case, dtype: str, result: bool) -> torch.Tensor:
    """An array of the case's shape, laid out in memory as the case says."""
    shape, words = case.shape, case.at.split()
    if words[:1] == ["from"]:
        skip = int(words[1])
        first = int(words[-1]) if result else skip
        return drawn(dtype, (shape[0] + skip,))[first : first + shape[0]]
    if case.at == "apart":
        return drawn(dtype, (*shape[:-1], shape[-1] + 1))[..., :-1]
    if not result and case.at == "step 2":
        return drawn(dtype, (*shape[:-1], 2 * shape[-1]))[..., ::2]
    if not result and case.at == "transposed":
        return drawn(dtype, shape[::-1]).permute(*range(len(shape))[::-1])
    if not result and case.at == "broadcast":
        return drawn(dtype, (1, shape[1])).expand(shape)
    return drawn(dtype, shape)


def spelt(case: Case) -> tuple[Any, int]:
    """The segments of the case, of a hundred items each on average, and their bytes."""
    if not case.segments:
        return None, 0
    n = case.shape[case.axis]
    where = torch.rand(case.shape if case.segments == "flags of rows" else (n,), device="cuda") < 0.01
    starts = torch.nonzero(where.flatten()).flatten() if case.segments in ("lengths", "offsets") else where
    ends = [torch.zeros(1, device="cuda", dtype=torch.int64), starts, torch.full((1,), n, device="cuda")]
    values = {
        "flags": lambda: where, "flags of rows": lambda: where, "keys": lambda: torch.cumsum(where, 0, dtype=torch.int32),
        "offsets": lambda: torch.cat(ends), "lengths": lambda: torch.diff(torch.cat(ends)),
    }[case.segments]()  # fmt: skip
    spelling = case.segments.split()[0]
    return getattr(up.segments, spelling)(values), values.nbytes


@cache
def _operator(fn: Any) -> Any:
    return fn if isinstance(fn, str) else up.Operator(fn)


class Ready(NamedTuple):
    """A case with arrays: its call, the bytes that the call must move, and PyTorch's call where PyTorch has one."""

    run: Callable[[], Any]
    moved: int
    torch: Callable[[], Any] | None


def ready(case: Case) -> Ready:
    dtypes = case.dtypes.split()
    fused = "map" in case.forms or "finish" in case.forms
    xs = tuple(np.float32(d) if d[0].isdigit() else laid(case, d, False) for d in dtypes)
    segments, moved = spelt(case)
    kept = [d if case.op != "affine" or i == 1 else None for i, d in enumerate(dtypes)]
    rows = tuple(n for d, n in enumerate(case.shape) if d != case.axis) if case.reduce else case.shape
    forms: dict[str, Any] = dict(case.forms)
    if case.result:
        forms["dtype"] = case.result
        ys = (drawn(case.result, rows),)
    else:
        ys = tuple(laid(case._replace(shape=rows), d, True) for d in (["f4"] if fused else kept) if d)
    moved += sum(y.nbytes for y in ys)
    for x in (x for x in xs if isinstance(x, torch.Tensor)):
        step = 2 if case.at == "step 2" else 1
        moved += step * (x.nbytes if case.at != "broadcast" else x[0].nbytes)
    out = ys if len(ys) > 1 else ys[0]
    if case.op == "affine" and not fused:
        forms |= {} if segments is None else {"segments": segments}
        return Ready(lambda: up.linear_recurrence(*xs, axis=case.axis, out=ys[0], **forms), moved, None)
    x = xs if len(xs) > 1 else xs[0]
    op = _operator(case.op)
    # A function that equals a built-in operator would run as that operator.
    if callable(case.op):
        assert variant_of(op, [named(d) for d in dtypes]) is None, case.name
    if case.reduce:
        return Ready(
            lambda: up.reduce(x, op, axis=case.axis, out=out, **forms), moved, _by_torch(case, x, out)
        )
    return Ready(
        lambda: up.scan(x, op, axis=case.axis, out=out, segments=segments, **forms),
        moved,
        _by_torch(case, x, out),
    )


def _by_torch(case: Case, x: Any, out: Any) -> Callable[[], Any] | None:
    if case.segments or case.forms or not isinstance(case.op, str) or case.dtypes in ("e4m3", "f4 i8"):
        return None
    axis = case.axis
    # One thread for each column takes seconds.
    if axis + 1 < len(case.shape) and case.shape[axis] > 1 << 20:
        return None
    # PyTorch's cumsum of 2^32 bytes ended in an illegal memory access, and the whole table ended with it.
    if prod(case.shape) >= 1 << 31:
        return None
    if case.reduce:
        by = {"add": lambda: torch.sum(x, axis, out=out), "max": lambda: torch.amax(x, axis, out=out)}
    else:
        by = {
            "add": lambda: torch.cumsum(x, axis, dtype=out.dtype, out=out),
            "mul": lambda: torch.cumprod(x, axis, out=out),
            "logaddexp": lambda: torch.logcumsumexp(x, axis, out=out),
        }
    return by.get(case.op)
