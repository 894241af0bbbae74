"""One exception for each kind of mistake. Its message says what was given and what to pass, and nothing is written before it."""

import subprocess
import sys
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pytest

import upsweep as up

X = np.arange(6.0)
READ_ONLY = np.zeros(6)
READ_ONLY.flags.writeable = False


def no_identity(a, b):
    return a + b


def importing(a, b):
    import math

    return math.gcd(a, b)


def scanning(a, b):
    return up.scan([a, b])[1]


MISTAKES = [
    (up.ShapeError, "2 dimensions", lambda: up.scan(np.zeros((2, 3)))),
    (up.ShapeError, "axis=2 is out of range", lambda: up.scan(X, axis=2)),
    (up.ShapeError, r"not an integer: .*upsweep\.xarray", lambda: up.scan(X, axis="rows")),
    (up.ShapeError, "0-dimensional", lambda: up.scan(np.float64(3))),
    (up.ShapeError, "one shape", lambda: up.scan((X, X[1:]), "affine")),
    (up.ShapeError, "empty tuple", lambda: up.scan(())),
    (up.ShapeError, "tuple of 2", lambda: up.scan((X, X), "affine", initial=3)),
    (up.ShapeError, "initial has shape", lambda: up.scan(X, initial=np.zeros(6))),
    (up.DTypeError, "text .<U1. cannot be scanned.*astype", lambda: up.scan(["a", "b"])),
    (up.EngineError, "NoneType is no array: pass an array, or a list", lambda: up.scan(None)),
    (up.EngineError, "NoneType is no array", lambda: up.apps.radix_sort(None)),
    (up.EngineError, "several lengths.*segments.lengths", lambda: up.scan([[1, 2], [3]])),
    (up.DTypeError, "cannot be scanned as dtype=int64", lambda: up.scan(X, dtype=int)),
    (up.DTypeError, "nothing is scanned as dtype=object: pass", lambda: up.scan(X, dtype=object)),
    (up.DTypeError, "names 2 dtypes", lambda: up.scan(X, dtype=("f4", "f4"))),
    (up.DTypeError, "initial=array", lambda: up.scan(np.arange(3), initial=np.array(1.5))),
    (up.DTypeError, "initial=inf is no value of int64", lambda: up.scan([3, 1, 2], "min", initial=np.inf)),
    (up.DTypeError, "initial=0.5 is no value of int64", lambda: up.scan([3, 1, 2], initial=0.5)),
    (up.DTypeError, "initial=nan", lambda: up.scan([3, 1, 2], initial=float("nan"))),
    (up.DTypeError, "initial=300 is no value of int8", lambda: up.scan(X.astype("i1"), initial=300)),
    (up.DTypeError, "initial=-1 is no value of uint64", lambda: up.scan(X.astype("u8"), initial=-1)),
    (up.DTypeError, "initial=1e.300 is no value of float32", lambda: up.scan(X.astype("f4"), initial=1e300)),
    (up.DTypeError, "initial=1j.*'complex128'", lambda: up.scan(X, initial=1j)),
    (up.DTypeError, "initial='0' .* pass one that is$", lambda: up.scan(X, initial="0")),
    (up.DTypeError, "initial=2 is no value of bool", lambda: up.scan(X > 0, initial=2)),
    (up.DTypeError, "initial=.*'s'", lambda: up.scan(X.astype("m8[m]"), initial=np.timedelta64(1, "s"))),
    (
        up.DTypeError,
        "no value of timedelta64.s.",
        lambda: up.scan(X.astype("m8[s]"), initial=timedelta(0, 1.5)),
    ),
    (up.DTypeError, "no value of timedelta64.s.,.*is$", lambda: up.scan(X.astype("m8[s]"), initial=2**63)),
    (
        up.DTypeError,
        "no value of datetime64.D.",
        lambda: up.scan(X.astype("M8[D]"), "max", initial=datetime(2026, 1, 1, 12)),
    ),
    (up.DTypeError, "no value of bool", lambda: up.scan(X > 0, initial=2**70)),
    (up.DTypeError, "initial={} is no value of bool", lambda: up.scan(X > 0, initial={})),
    (up.DTypeError, "a=0.5 is no value of int64", lambda: up.linear_recurrence(0.5, np.array([1, 2, 3]))),
    (up.DTypeError, "a=0.5j is no value of float64.*'complex128'", lambda: up.linear_recurrence(0.5j, X)),
    (up.DTypeError, "a=array.* int64", lambda: up.linear_recurrence(X[:1], np.arange(6))),
    (up.DTypeError, "a of float64 does not fit b's int64", lambda: up.linear_recurrence(X, np.arange(6))),
    (up.OutputError, "out has shape", lambda: up.scan(X, out=np.zeros(5))),
    (up.OutputError, "cannot hold", lambda: up.scan(X, out=np.zeros(6, int))),
    (up.OutputError, "read-only", lambda: up.scan(X, out=READ_ONLY)),
    (up.OutputError, "of another byte order", lambda: up.scan(X, out=np.zeros(6, ">f8"))),
    (
        up.OutputError,
        "items of out share memory",
        lambda: up.scan(X, out=np.lib.stride_tricks.as_strided(X, strides=(0,))),
    ),
    (
        up.OutputError,
        "items of out share memory",
        lambda: up.scan(np.ones((3, 4)), axis=1, out=np.lib.stride_tricks.as_strided(X, (3, 4), (8, 8))),
    ),
    (up.OutputError, "two arrays of out share memory", lambda: up.scan((X, X), "affine", out=(X, X))),
    (
        up.OutputError,
        "two arrays of out share memory",
        lambda: up.scan((X[:4], X[:4]), "affine", out=(X[:4], X[2:])),
    ),
    (up.OutputError, "out of object cannot hold", lambda: up.scan(X, out=np.zeros(6, object))),
    (
        up.OutputError,
        "out of .* cannot hold a result of complex",
        lambda: up.scan(X * 1j, out=np.zeros(6, "G")),
    ),
    (up.OutputError, "must be an array", lambda: up.scan(X, out=[0] * 6)),
    (up.OutputError, "must be an array", lambda: up.scan(X, out=range(6))),
    (up.OutputError, "must be an array", lambda: up.scan(X, out=((0.0,) * 6,))),
    (up.OutputError, "must be an array", lambda: up.reduce(X.astype("f4"), out=np.float32(0))),
    (up.OutputError, "must be an array", lambda: up.reduce(X * 1j, out=0j)),
    (up.OutputError, "must be an array", lambda: up.reduce(X, out=np.float64(0))),
    (up.OutputError, "must be an array", lambda: up.reduce(X > 0, "or", out=True)),
    (up.OperatorError, "no operator is called 'floor'; there are add", lambda: up.scan(X, "floor")),
    (up.OperatorError, "'cumsum': it is 'add' here; there are", lambda: up.scan(X, "cumsum")),
    (up.OperatorError, "'maximum': it is 'max' here; there are", lambda: up.scan(X, "maximum")),
    (
        up.OperatorError,
        "xor is not defined for float64; it takes booleans, integers$",
        lambda: up.scan(X, "xor"),
    ),
    (
        up.OperatorError,
        r"not defined for datetime64\[s\]; .*timedelta64$",
        lambda: up.scan(X.astype("M8[s]")),
    ),
    (up.EngineError, "'x.npy' is a text and no array: .*scan_file", lambda: up.scan("x.npy")),
    (
        up.EngineError,
        "'k' is a text and no array: .*column",
        lambda: up.scan(X, segments=up.segments.groups("k")),
    ),
    (up.OperatorError, "tuple of 2 arrays", lambda: up.scan(X, "affine")),
    (up.OperatorError, "takes one array", lambda: up.scan((X, X), "add")),
    (up.OperatorError, "needs an identity", lambda: up.scan(X, no_identity, exclusive=True)),
    (up.OperatorError, "needs an identity", lambda: up.reduce(X[:0], no_identity)),
    (up.OperatorError, "function of two operands", lambda: up.scan(X, 3)),
    (
        up.OperatorError,
        "returns float64 for items of int64",
        lambda: up.scan(np.arange(3), lambda a, b: a * 0.5),
    ),
    (up.OperatorError, "NameError", lambda: up.scan(X, lambda a, b: nowhere(a))),  # noqa: F821
    (up.OperatorError, "cannot be compiled in", lambda: up.scan(X, lambda a, b, table={}: a)),
    (up.OperatorError, "np.sin takes 1 operand", lambda: up.scan(X, np.sin)),
    (up.OperatorError, "map and finish must be functions, got 'square'", lambda: up.scan(X, map="square")),
    (
        up.OperatorError,
        "3 parameters without a default, where 1 or 2 are given",
        lambda: up.scan(X, map=lambda x, y, i: x),
    ),
    (up.OperatorError, "3 parameters .* where 1 are given", lambda: up.reduce(X, finish=lambda p, x, i: p)),
    (up.OperatorError, "4 parameters .* 1 or 2 or 3", lambda: up.scan(X, finish=lambda p, x, i, j: p)),
    (
        up.OperatorError,
        "affine takes a tuple of 2 arrays, got 1",
        lambda: up.scan(X, "affine", map=lambda x: x),
    ),
    (up.OperatorError, "add takes one array, got a tuple", lambda: up.scan(X, map=lambda x: (x, x))),
    (up.OperatorError, "a tuple of at least two", lambda: up.scan(X, map=lambda x: (x,))),
    (up.OperatorError, "returns 1 values or 2", lambda: up.scan(X, map=lambda x: x if x > 0 else (x, x))),
    (up.OperatorError, "is not a number", lambda: up.scan(X, map=lambda x: "high")),
    (
        up.OperatorError,
        "function <lambda> cannot be compiled: NameError",
        lambda: up.scan(X, map=lambda x: nowhere),  # noqa: F821
    ),
    (
        up.OperatorError,
        "xor is not defined for float64",
        lambda: up.scan(X.astype(int), "xor", map=lambda x: x / 2),
    ),
    (up.OperatorError, "needs an identity", lambda: up.scan(X, no_identity, map=lambda x: x, exclusive=True)),
    (up.ShapeError, "broadcast to one shape", lambda: up.scan((X, X[1:]), map=lambda x, y: x + y)),
    (up.ShapeError, "pass at most 32", lambda: up.scan((X,) * 33, map=lambda *xs: xs[0])),
    (up.ShapeError, "numbers alone", lambda: up.scan((1, 2.0), map=lambda x, y: x + y)),
    (
        up.OutputError,
        "cannot hold a result of float64",
        lambda: up.scan(X, finish=lambda p: p, out=np.zeros(6, int)),
    ),
    (up.ShapeError, "one for each component", lambda: up.scan(X, finish=lambda p: (p, p), out=X)),
    (
        up.DTypeError,
        "a number=-1 is no value of uint8",
        lambda: up.scan((X.astype("u1"), -1), map=lambda x, y: x),
    ),
    (up.OperatorError, "logical_and is not defined for float64", lambda: up.scan(X, np.logical_and)),
    (up.EngineError, "x.filled", lambda: up.scan(np.ma.array(X, mask=X > 3))),
    (up.EngineError, "x.filled", lambda: up.scan(X, initial=np.ma.array(1.0))),
    (up.EngineError, "no engine is called", lambda: up.scan(X, engine="tpu")),
    (up.SegmentError, "cover 0 to 5", lambda: up.scan(X, segments=up.segments.offsets([0, 5]))),
    (up.SegmentError, "must not fall", lambda: up.scan(X, segments=up.segments.offsets([0, 5, 4, 6]))),
    (up.SegmentError, "negative length", lambda: up.scan(X, segments=up.segments.lengths([7, -1]))),
    (up.SegmentError, "flags have shape", lambda: up.scan(X, segments=up.segments.flags([1, 0]))),
    (up.SegmentError, "booleans or integers", lambda: up.scan(X, segments=up.segments.flags(X))),
    (up.SegmentError, r"flags.*offsets.*lengths.*keys", lambda: up.scan(X, segments=[0, 1])),
    (up.SegmentError, "segments= of type ndarray may mean", lambda: up.scan(X, segments=X)),
    (up.SegmentError, r"flags.*offsets.*lengths.*keys", lambda: up.Stream().push(X, segments=X)),
    (up.ShapeError, r"axis=\[0\] is not an integer", lambda: up.scan(X, axis=[0])),
    (ValueError, r"order=\['tree'\]", lambda: up.scan(X, order=["tree"])),
    (ValueError, "exclusive='no': pass True or False", lambda: up.scan(X, exclusive="no")),
    (ValueError, "reverse=-1: pass True or False", lambda: up.reduce(X, reverse=-1)),
    (ValueError, "threads=0", lambda: up.scan(X, threads=0)),
    (AttributeError, "'cumsum': it is 'cumulative_sum' here", lambda: up.cumsum(X)),
    (AttributeError, "module 'upsweep' has no attribute 'sums'$", lambda: up.sums(X)),
    (up.OperatorError, "two operands, and <lambda> has 1 param", lambda: up.scan(X, lambda a: a)),
    (up.OperatorError, "two operands, and <lambda> has 3 param", lambda: up.scan(X, lambda a, b, c: a)),
    (
        up.OperatorError,
        "partial cannot be compiled in; use a function.* name of an op",
        lambda: up.scan(X, partial(max)),
    ),
    (TypeError, r"grid is a number .* trace\(kernel, x=items\)", lambda: up.lab.trace("blelloch", [3, 1])),
    (KeyError, "no textbook kernel is called 'brent'", lambda: up.textbook.run("brent", X)),
]

COMPILING = [
    (up.OperatorError, r"matmul takes arrays", lambda: up.scan(X, np.matmul)),
    (up.OperatorError, r"upsweep\.api\.scan, which an operator calls, uses", lambda: up.scan(X, scanning)),
    (up.OperatorError, "can neither print", lambda: up.scan(np.arange(3), lambda a, b: print(a) or a + b)),
    (up.OperatorError, "nor draw random", lambda: up.scan(X, lambda a, b: a + b * np.random.random())),  # noqa: NPY002
    (up.OperatorError, "IMPORT_NAME", lambda: up.scan(np.arange(3), importing)),
    (up.OperatorError, "sum cannot be compiled: invalid number", lambda: up.scan(np.arange(3), np.sum)),
    (
        up.OperatorError,
        "sum cannot.*; pass a function of two numbers, or the name",
        lambda: up.scan(X, np.sum),
    ),
    (
        up.OperatorError,
        r"compiled: Type of variable .* \(\d+\)$",
        lambda: up.scan(X, map=lambda x: (y := x * 2) + y),
    ),
    (up.OperatorError, "cannot be compiled: .*float16", lambda: up.scan(X, map=lambda x: x * np.float16(2))),
    (up.OperatorError, r"compiled: Cannot bind .*'\(a\)'", lambda: up.scan(X, up.Operator(lambda a: a))),
    (
        up.OperatorError,
        r"there is no concatenate\(.*\): scalars have",
        lambda: up.scan(X, lambda a, b: np.concatenate((a, b))),
    ),
    (
        up.OperatorError,
        r"there is no getitem\(.*\): scalars have",
        lambda: up.scan(X, lambda a, b: a[0] + b[0]),
    ),
]
"""What an engine that compiles operators cannot take."""


@pytest.mark.parametrize(
    ("kind", "says", "call"), [*MISTAKES, *COMPILING], ids=[says for _, says, _ in [*MISTAKES, *COMPILING]]
)
def test_mistake(kind, says, call):
    with pytest.raises(kind, match=says):
        call()


def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path):
    for name in ("ml_dtypes", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        up.DTypeError, match="bfloat16 needs a package that is not here: pip install ml_dtypes"
    ):
        up.scan(X, dtype="bfloat16")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(up.FileError, match=r"t\.csv needs a package that is not here: pip install pyarrow"):
        up.scan_file(tmp_path / "t.csv", tmp_path / "u.csv", columns=["a"])


def test_a_textbook_kernel_asks_for_a_gpu(monkeypatch):
    monkeypatch.setattr("numba.cuda.is_available", lambda: False)
    with pytest.raises(up.EngineError, match=r"no NVIDIA GPU here: upsweep\.lab\.trace"):
        up.textbook.run("blelloch", X)


def test_naming_a_room_imports_it():
    code = "import sys, upsweep as up; print(up.textbook.KERNELS['blelloch'].name, up.apps.ema([2.0], 0.5))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["blelloch", "[2.]"]


def test_nothing_is_written_before_a_check_fails():
    out = np.full(6, 77.0)
    for bad in ({"op": "xor"}, {"axis": 3}, {"initial": np.zeros(4)}, {"segments": up.segments.lengths([2])}):
        with pytest.raises((TypeError, ValueError)):
            up.scan(X, out=out, **bad)
        np.testing.assert_array_equal(out, 77)


def test_check_finds_a_counter_example():
    up.check("add", [1, -2, 3])
    up.check(up.ops.AFFINE, [(2, 3), (-1, 4), (0, 1)])
    with pytest.raises(up.LawError, match="not associative"):
        up.check(lambda a, b: a - b, [1, 2])
    with pytest.raises(up.LawError, match="identity"):
        up.check(up.Operator(lambda a, b: a * b, identity=0), [1, 2])
    with pytest.raises(up.LawError, match="not commutative"):
        up.check(up.Operator(lambda a, b: b, commutative=True), [1, 2])


def test_what_stands_before_is_converted_where_nothing_is_lost():
    seconds = np.array([1, 2], "m8[s]")
    assert up.scan(seconds, initial=np.timedelta64(1, "m")).tolist() == [
        timedelta(seconds=s) for s in (61, 63)
    ]
    assert up.scan(seconds, initial=timedelta(minutes=1)).tolist() == [timedelta(seconds=s) for s in (61, 63)]
    assert np.isnat(up.scan(seconds, initial=np.timedelta64("NaT"))).all()
    assert up.scan(np.array([3, 1], "u1"), "min", initial=2.0).tolist() == [2, 1]
    assert up.scan(np.array([3, 1], "u1"), initial=np.int64(2)).tolist() == [5, 6]
    assert up.scan(np.zeros(1, "u8"), "max", initial=2**64 - 1).tolist() == [2**64 - 1]
    assert up.scan(X, "min", initial=np.inf).tolist() == np.minimum.accumulate(X).tolist()
    assert up.linear_recurrence(2.0, np.array([1, 2, 3])).tolist() == [1, 4, 11]
