"""The C part runs remembered calls of NumPy's arrays, with the results, the types and the errors of the long way."""

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import recall, short_way

pytestmark = pytest.mark.usefixtures("found")
X = np.random.default_rng(5).integers(0, 50, (6, 5, 24))
DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "m8[s]", "m8[ns]"]
LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "turned": lambda x: x.transpose(1, 2, 0),
    "reversed": lambda x: x[::-1, :, ::-1],
    "gaps": lambda x: x[:, ::2, ::3],
    "row": lambda x: x[1, 2],
    "column": lambda x: x[:, 1, 3],
    "one": lambda x: x[1, 2, :1],
    "broadcast": lambda x: np.broadcast_to(x[0, 0], (4, 24)),
    "5-D": lambda x: x.reshape(3, 2, 5, 4, 6),
}


class Subclass(np.ndarray):
    pass


def the_long_way(call, *given, **how):
    """A call that the C part does not see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(short_way, "part", None)
        patch.setattr(recall, "known_calls", {})
        return call(*given, **how)


def same(got, want):
    """Whether results are alike in all that a user can see."""
    assert type(got) is type(want)
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            same(a, b)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()
    if isinstance(want, np.ndarray):
        assert got.strides == want.strides
        assert str(got.flags) == str(want.flags)


def thrice(call, found, times=1):
    """The result of a call that was checked, remembered and then found."""
    for _ in range(2):
        call()
    assert not found
    y = call()
    assert len(found) == times
    found.clear()
    return y


@pytest.mark.parametrize(
    ("dtype", "layout"),
    every(
        12,
        [
            (dtype, layout)
            for k, dtype in enumerate(DTYPES)
            for layout in (LAYOUTS if dtype in ("i1", "c16") else ["C", list(LAYOUTS)[1 + k % 9]])
        ],
    ),
)
def test_results_of_every_dtype_and_layout(dtype, layout, found):
    """The C part knows sizes and strides: the smallest and the largest items lie in every way, the others in two."""
    x = LAYOUTS[layout](X.astype(dtype))
    many = x.ndim > 4
    for how in ({}, {"reverse": True}, {"exclusive": True}, {"order": "sequential"}):
        got = up.scan(x, axis=-1, **how) if many else thrice(lambda: up.scan(x, axis=-1, **how), found)  # noqa: B023
        same(got, the_long_way(up.scan, x, axis=-1, **how))
    assert not found
    if not many:
        same(thrice(lambda: up.reduce(x, axis=0), found), the_long_way(up.reduce, x, axis=0))


@pytest.mark.parametrize(
    "function",
    every(2, [up.cumulative_sum, up.cumulative_prod, up.cummax, up.cummin]),
    ids=lambda f: f.__name__,
)
def test_named_scans(function, found):
    for dtype in ("i2", "f4"):
        x = X[0, 0].astype(dtype)
        same(thrice(lambda: function(x), found), the_long_way(function, x))  # noqa: B023


def test_bfloat16(found):
    x = X[0].astype(pytest.importorskip("ml_dtypes").bfloat16)
    same(thrice(lambda: up.scan(x, axis=1), found), the_long_way(up.scan, x, axis=1))
    same(thrice(lambda: up.reduce(x[0]), found), the_long_way(up.reduce, x[0]))


def test_tuples(found):
    a, b = X[0, 0] / 64, X[1, 0] / 8
    same(thrice(lambda: up.scan((a, b), "affine"), found), the_long_way(up.scan, (a, b), "affine"))
    same(thrice(lambda: up.scan((a,)), found), the_long_way(up.scan, (a,)))
    same(thrice(lambda: up.reduce((a, b), "affine"), found), the_long_way(up.reduce, (a, b), "affine"))
    for order in ("tree", "sequential"):
        want = the_long_way(up.linear_recurrence, a, b, order=order)
        same(thrice(lambda: up.linear_recurrence(a, b, order=order), found), want)  # noqa: B023
    out = np.zeros_like(a), np.zeros_like(b)
    assert thrice(lambda: up.scan((a, b), "affine", out=out), found) is out
    same(out, the_long_way(up.scan, (a, b), "affine"))
    # A tuple of one array is no array, and a subclass is another type.
    same(thrice(lambda: up.scan(a), found), the_long_way(up.scan, a))
    other = a.view(Subclass), b
    for _ in range(4):
        same(up.scan(other, "affine"), the_long_way(up.scan, other, "affine"))
    assert not found
    with pytest.raises(up.ShapeError):
        up.scan((a, b), "affine", out=out[0])
    one = np.zeros_like(a)
    assert thrice(lambda: up.scan(a, out=one), found) is one


def test_out(found):
    x = X[0].astype("f4")
    want = the_long_way(up.scan, x, axis=0)
    for layout in (
        np.zeros_like,
        lambda x: np.zeros_like(x, order="F"),
        lambda x: np.zeros((10, 48), "f4")[::2, ::2],
    ):
        out = layout(x)
        assert thrice(lambda: up.scan(x, axis=0, out=out), found) is out  # noqa: B023
        np.testing.assert_array_equal(out, want)
    y = x.copy()
    for _ in range(4):
        y[...] = x
        assert up.scan(y, axis=0, out=y) is y
        np.testing.assert_array_equal(y, want)
    assert len(found) == 4
    found.clear()
    total = np.zeros((), "f4")
    assert thrice(lambda: up.reduce(x[0], out=total), found) is total


def test_prepared(found):
    x, y = X[0, 0].astype("f8"), np.zeros(24)
    running = up.prepared(x)
    for count in range(3):
        same(running(x), np.cumsum(x))
        assert len(found) == count
    found.clear()
    for _ in range(3):
        assert running(x, y) is y
    assert len(found) == 1
    # They are the calls of `scan`.
    same(up.scan(x, up.ops.ADD), np.cumsum(x))
    assert up.scan(x, up.ops.ADD, out=y) is y
    assert len(found) == 3
    with up.set_threads(1):
        running(x)
    assert len(found) == 3


STRANGE = {
    "subclass": lambda x: x.view(Subclass),
    "masked": lambda x: np.ma.array(x),
    "byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "no dimension": lambda x: x[0].reshape(()),
    "no items": lambda x: x[:0],
    "list": lambda x: x.tolist(),
    "number": lambda x: x[0],
    "objects": lambda x: x.astype(object),
    "texts": lambda x: x.astype("U3"),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
}


def outcome(call, *given):
    """The result of a call, or its error."""
    try:
        return call(*given)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", STRANGE)
def test_other_arrays_go_the_long_way(kind, found):
    x = STRANGE[kind](X[0, 0].astype("f8"))
    want = outcome(the_long_way, up.scan, x)
    for _ in range(4):
        got = outcome(up.scan, x)
        np.testing.assert_equal(got, want)
        assert type(got) is type(want)
    # An array that is only read may be read-only, and a list becomes an array before.
    assert len(found) == 2 * (kind in ("read-only", "list"))


def test_structured_arrays_go_the_long_way(found):
    x = np.zeros(24, [("a", "f4"), ("b", "f4")])
    x["a"], x["b"] = X[0, 0] / 64, X[1, 0]
    for _ in range(4):
        same(up.scan(x, "affine"), the_long_way(up.scan, x, "affine"))
    x.dtype.names = ("b", "a")
    assert up.scan(x, "affine").dtype.names == ("b", "a")
    assert not found


def test_arrays_of_another_likeness_are_not_taken_for_a_known_one(found):
    """Each differs in one thing from a call that is found."""
    x, y = X[0].astype("f4"), np.zeros((5, 24), "f4")
    known = {"axis": 1, "out": y}
    thrice(lambda: up.scan(x, **known), found)
    others = [
        (x, {"axis": 0}), (x, {"reverse": True}), (x, {"exclusive": True}), (x, {"op": "max"}), (x, {"order": "sequential"}),
        (x, {"initial": 3}), (x, {"threads": 1}), (x, {"engine": "numpy"}), (x, {"map": lambda v: v + 1}),
        (x, {"finish": lambda v: v + 1}), (x, {"segments": up.segments.lengths([20, 4])}), (x, {"dtype": "f4"}),
        (x, {"out": None}), (x, {"out": np.zeros((24, 5), "f4").T}), (x.astype("i4"), {"out": None}), (x[:, ::-1], {}),
        (np.asfortranarray(x), {}), (x, {"op": up.Operator(lambda a, b: a + 2 * b)}),
    ]  # fmt: skip
    for a, how in others:
        y[...] = 0
        given = {"op": "add", **known, **how}
        got = up.scan(a, **given)
        assert not found, how
        np.testing.assert_array_equal(got, the_long_way(up.scan, a, **{**given, "out": None}))
    for wrong in (y[:, :12], y[:4], y[None], y[..., None], np.zeros((5, 24), "i4")):
        with pytest.raises((up.OutputError, up.DTypeError, up.ShapeError)):
            up.scan(x, axis=1, out=wrong)
    with up.set_threads(1):
        up.scan(x, **known)
        assert not found
    y.flags.writeable = False
    with pytest.raises(up.OutputError):
        up.scan(x, **known)
    assert not found
    y.flags.writeable = True
    up.scan(x, **known)
    assert len(found) == 1


def test_a_dtype_that_is_equal_and_another_object(found):
    x = X[0, 0].astype("f4")
    want = the_long_way(up.scan, x)
    for dtype in (np.dtype("f4", metadata={"unit": "m"}), pickle.loads(pickle.dumps(np.dtype("f4")))):
        for _ in range(4):
            for y in (up.scan(x), up.scan(x.view(dtype))):
                np.testing.assert_array_equal(y, want)
    assert found


def test_functions_that_change_are_looked_at(found):
    x, weight = np.ones(9), 1.0
    held = up.Operator(lambda a, b: a + b * weight)
    for _ in range(4):
        assert up.scan(x, lambda a, b: a + b * weight)[1] == 2
        assert up.scan(x, held)[1] == 2
        assert up.scan(x, map=lambda v: v * weight)[1] == 2
        assert up.scan(x, finish=lambda v: v * weight)[1] == 2
    known = len(found)
    assert known >= 6
    weight = 3.0
    assert up.scan(x, lambda a, b: a + b * weight)[1] == 4
    assert up.scan(x, map=lambda v: v * weight)[1] == 6
    assert up.scan(x, finish=lambda v: v * weight)[1] == 6
    with pytest.raises(up.OperatorError, match="changed"):
        up.scan(x, held)
    assert len(found) == known


def test_maps_of_several_arrays(found):
    x, y = X[0].astype("f4"), X[0, 0].astype("i4")
    how = {"axis": 1, "map": lambda a, b: a * b, "finish": lambda p, a, b: (p, p > a)}
    same(thrice(lambda: up.scan((x, y), **how), found), the_long_way(up.scan, (x, y), **how))
    same(thrice(lambda: up.scan((x, 2.5), **how), found), the_long_way(up.scan, (x, 2.5), **how))
    same(up.scan((x, -1e9), **how), the_long_way(up.scan, (x, -1e9), **how))
    assert len(found) == 1
    # A number of another type is another call, and one that float32 does not hold is a mistake.
    same(up.scan((x, 2), **how), the_long_way(up.scan, (x, 2), **how))
    with pytest.raises(up.DTypeError):
        up.scan((x, 1e39), **how)
    assert len(found) == 1


TOLD = {
    "flags": [
        np.arange(24) % 7 == 3,
        (np.arange(24) % 5 == 0).astype("i8"),
        (np.arange(24) % 3).astype("u1"),
    ],
    "ends": [np.arange(24) % 7 == 3, (np.arange(24) % 5 == 0).astype("i2")[::-1], np.zeros(24, "?")],
    "keys": [
        np.arange(24) // 5,
        np.array([1.5, 2, np.nan, np.nan, 0.0, -0.0] * 4),
        np.repeat(np.arange(12, dtype="u8"), 2),
    ],
    "offsets": [
        np.array([0, 3, 3, 24]),
        np.array([0, 0, 24, 24], "i4"),
        np.array([0, 9, 5, 9, 24, 9], "i1")[::2],
    ],
    "lengths": [np.array([3, 0, 21]), np.array([24], "i2"), np.array([0, 9, 0, 15, 0])],
    "groups": [np.arange(24) % 5, np.tile(np.arange(12, dtype="u8") << 60, 4)[::2], np.arange(24) % 3 == 0],
}


@pytest.mark.parametrize(("spelling", "reverse"), every(3, itertools.product(TOLD, [False, True])))
def test_segments(spelling, reverse, found):
    for marks in TOLD[spelling]:
        for x, how in (
            (X[0, 0], {}),
            (X[0] / 7, {"axis": 1, "exclusive": True}),
            (X[0, 1] * 2, {"initial": 5}),
        ):
            call = {**how, "reverse": reverse, "segments": getattr(up.segments, spelling)(marks)}
            recall.forget()
            same(thrice(lambda: up.scan(x, **call), found), the_long_way(up.scan, x, **call))  # noqa: B023
            out = np.zeros_like(x)
            assert thrice(lambda: up.scan(x, out=out, **call), found) is out  # noqa: B023
            same(out, the_long_way(up.scan, x, **call))


def test_flags_of_each_row_and_over_the_result(found):
    x = X[0].astype("u1")
    flags = x % 3 == 0
    for reverse in (False, True):
        call = {"axis": 1, "reverse": reverse, "segments": up.segments.flags(flags)}
        want = the_long_way(up.scan, x, **call)
        for _ in range(4):
            same(up.scan(x, **call), want)
        # What is turned in Python is unknown to the C part.
        assert len(found) == 2 * (not reverse)
        found.clear()
    for told, by in itertools.product((x[0] % 3 == 0, x[0] // 9), range(2)):
        memory = np.zeros(30, "u1")
        for _ in range(4):
            memory[by : by + 24] = told
            call = {
                "segments": up.segments.keys(memory[by : by + 24])
                if told.dtype != "?"
                else up.segments.flags(told)
            }
            want = the_long_way(up.scan, x[0], **call)
            np.testing.assert_array_equal(up.scan(x[0], out=memory[:24], **call), want)


WRONG = {
    "offsets": [
        [0, 9, 3, 24],
        [0, 3, 23],
        [1, 3, 24],
        [0, 3, 25, 24],
        [],
        [24],
        [0],
        [-1, 24],
        [0, -3, 24],
        [0, 2**40, 24],
    ],
    "lengths": [[24, 1], [23], [], [25, -1], [-1, 25], [2**62, 2**62, 2**62, 2**62, 24], [0], [3, 30, -9]],
}


@pytest.mark.parametrize("spelling", WRONG)
def test_segments_of_another_content(spelling, found):
    """Neither length nor content is in the likeness of offsets and lengths; both are looked at."""
    x, told = X[0, 0] / 3, getattr(up.segments, spelling)
    thrice(lambda: up.scan(x, segments=told(np.array([0, 24]))), found)
    for wrong in WRONG[spelling]:
        given = told(np.array(wrong, np.int64))
        out = np.full(24, 7.0)
        with pytest.raises(up.SegmentError) as here:
            up.scan(x, segments=given, out=out)
        with pytest.raises(up.SegmentError) as there:
            the_long_way(up.scan, x, segments=given)
        assert str(here.value) == str(there.value)
        assert (out == 7).all()
        with pytest.raises(up.SegmentError):
            up.scan(x, segments=given)
    assert not found
    cuts = [0, 1, 1, 24] if spelling == "offsets" else [1, 0, 23]
    same(up.scan(x, segments=told(np.array(cuts))), the_long_way(up.scan, x, segments=told(cuts)))
    assert len(found) == 1
    for other in (np.array([[0, 24]]), np.array([0.0, 24.0]), np.array(24)):
        with pytest.raises(up.SegmentError):
            up.scan(x, segments=told(other))
    assert len(found) == 1


def test_keys_and_flags_of_another_kind(found):
    x, keys = X[0, 0] / 3, np.arange(24) // 5
    thrice(lambda: up.scan(x, segments=up.segments.keys(keys)), found)
    same(
        up.scan(x, segments=up.segments.ends(keys)), the_long_way(up.scan, x, segments=up.segments.ends(keys))
    )
    for other in (keys[:23], np.arange(25), keys[None]):
        with pytest.raises(up.SegmentError):
            up.scan(x, segments=up.segments.keys(other))
    assert not found
    for other in (
        keys.astype("U2"),
        keys.astype(object),
        keys.astype("f2"),
        keys.astype("M8[s]"),
        keys.astype(">i8"),
        keys > 2,
    ):
        want = the_long_way(up.scan, x, segments=up.segments.keys(other))
        for _ in range(4):
            same(up.scan(x, segments=up.segments.keys(other)), want)
    assert not found


NUMBERS = [
    (1.5, -2.5),
    (np.float32(1), np.float32(9)),
    (3, -4),
    (np.int8(3), np.int8(4)),
    (True, False),
    (float("nan"), 0.1),
]


@pytest.mark.parametrize("dtype", every(2, ["f8", "f4", "i8", "c16"]))
def test_numbers(dtype, found):
    x, rows = X[0, 0].astype(dtype), X[0].astype(dtype)
    for known, other in NUMBERS:
        if dtype == "i8" and isinstance(known, (float, np.floating)):
            continue
        for call in (
            lambda v: up.scan(x, initial=v), lambda v: up.reduce(x, initial=v), lambda v: up.linear_recurrence(v, x),
            lambda v: up.linear_recurrence(x, x, initial=v), lambda v: up.linear_recurrence(v, x, initial=v),
            lambda v: up.scan((x, x), "affine", initial=(v, 2)), lambda v: up.linear_recurrence(v, rows, axis=0),
        ):  # fmt: skip
            recall.forget()
            thrice(lambda: call(known), found)  # noqa: B023
            same(call(other), the_long_way(call, other))
            assert len(found) == 1
            found.clear()


def test_numbers_that_need_a_check(found):
    x = X[0, 0].astype("i1")
    thrice(lambda: up.scan(x, initial=3), found)
    for wrong in (128, -129, 2**70):
        with pytest.raises(up.DTypeError):
            up.scan(x, initial=wrong)
    assert not found
    y = X[0, 0].astype("f4")
    thrice(lambda: up.scan(y, initial=3.0), found)
    with pytest.raises(up.DTypeError):
        up.scan(y, initial=1e39)
    assert up.scan(y, initial=float("inf"))[0] == np.inf
    assert len(found) == 1


def test_starts_of_each_row(found):
    x, start = X[0].astype("f4"), X[1, :, 0].astype("f4")
    for how in ({}, {"segments": up.segments.offsets(np.array([0, 5, 24]))}):
        same(
            thrice(lambda: up.scan(x, axis=1, initial=start, **how), found),  # noqa: B023
            the_long_way(up.scan, x, axis=1, initial=start, **how),
        )
    for other in (start[:4], start[None], X[1, :, 0] / 3, start > 9, start[:, None]):
        want = outcome(the_long_way, lambda: up.scan(x, axis=1, initial=other))  # noqa: B023
        np.testing.assert_equal(outcome(lambda: up.scan(x, axis=1, initial=other)), want)  # noqa: B023
    assert not found
    narrow = start.astype("f2")
    want = the_long_way(up.scan, x, axis=1, initial=narrow)
    same(thrice(lambda: up.scan(x, axis=1, initial=narrow), found), want)
    # A result over the start goes the long way.
    rows = X[0].astype("f4")
    for _ in range(4):
        rows[:] = x
        want = the_long_way(up.reduce, x, axis=0, initial=x[1])
        np.testing.assert_array_equal(up.reduce(rows, axis=0, initial=rows[1], out=rows[1]), want)


@pytest.mark.parametrize("by", [0, 1, 7, 24, 30])
def test_memory_that_overlaps_goes_the_long_way(by, found):
    memory = np.zeros(200)
    x, want = X[0, 0].astype("f8"), the_long_way(up.scan, X[0, 0].astype("f8"))
    thrice(lambda: up.scan(x, out=np.zeros(24)), found)
    for _ in range(3):
        memory[:24] = x
        up.scan(memory[:24], out=memory[by : by + 24])
        np.testing.assert_array_equal(memory[by : by + 24], want)
    assert len(found) == (3 if by in (0, 24, 30) else 0)


def test_more_kinds_of_calls_than_there_is_room_for():
    for _ in range(3):
        for n, dtype in itertools.product(range(1, 700), ("f8", "i8")):
            assert up.scan(np.ones(n, dtype))[-1] == n


def test_without_the_c_part():
    command = """
import sys
sys.modules["upsweep._short_way"] = None
import numpy as np, upsweep as up
from upsweep import short_way
assert short_way.part is None
x = np.arange(9)
for _ in range(4):
    assert up.scan(x, out=np.zeros(9, int)).tolist() == np.cumsum(x).tolist()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", command], check=True)
