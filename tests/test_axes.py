"""Axes, strides, alignment and order change nothing in the bits."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upsweep as up
from oracle import oracle
from table import CASES, hashing, rows_of
from upsweep.cpu import cuts, rows

HASH = CASES["hash-u64"]


def by_rows(x, axis, **how):
    """The oracle, row by row."""
    y = np.empty(x.shape, x.dtype)
    target = np.moveaxis(y, axis, -1)
    rows = [oracle(hashing, (np.ascontiguousarray(row),), **how)[0] for row in rows_of(x, axis)]
    target[...] = np.array(rows, x.dtype).reshape(target.shape)
    return y


SHAPES = [
    (1, 1),
    (7, 5),
    (300, 3),
    (3, 300),
    (64, 257),
    (65, 256),
    (5000, 2),
    (2, 3, 4),
    (5, 64, 9),
    (4, 1, 70),
    (0, 3),
    (3, 0),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_axis_and_order(shape):
    (x,) = HASH.draw(shape)
    for axis in range(-1, len(shape) - 1):
        for order in "CF":
            got = up.scan(np.asarray(x, order=order), HASH.op, axis=axis)
            np.testing.assert_array_equal(
                got, by_rows(x, axis % len(shape)), err_msg=f"axis={axis} order={order}"
            )


@pytest.fixture
def seen_rows(monkeypatch, tuned):
    """How the rows of scans lie that are planned in the test."""
    tuned()
    seen = []
    rows_of = rows.rows_of
    monkeypatch.setattr(cuts, "rows_of", lambda *given: seen.append(rows_of(*given)) or seen[-1])
    return seen


@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (20, 1, 15), (15, 20, 1)], ids=str)
def test_rows_of_one_item_are_scanned_side_by_side(shape, seen_rows):
    (x,) = HASH.draw(shape)
    for axis in (d for d, n in enumerate(shape) if n == 1):
        for lying in (x, np.asarray(x, order="F"), np.flip(x), np.repeat(x, 2, -1)[..., ::2]):
            np.testing.assert_array_equal(up.scan(lying, HASH.op, axis=axis), lying)
            np.testing.assert_array_equal(
                up.scan(lying, HASH.op, axis=axis, initial=np.uint64(5)),
                by_rows(lying, axis, initial=np.uint64(5)),
            )
    assert seen_rows
    assert all(lie.inner is not None for lie in seen_rows)


def test_few_neighbours_are_not_the_rows_that_are_scanned_side_by_side(seen_rows):
    (x,) = HASH.draw((2, 3, 300))
    y = np.full(x.shape, 77, x.dtype)
    up.scan(np.asarray(x, order="F"), HASH.op, axis=0, out=y)
    np.testing.assert_array_equal(y, by_rows(x, 0))
    assert {lie.side_by_side for lie in seen_rows} == {300}


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_results_lie_as_those_of_numpy(engine):
    (x,) = HASH.draw((4, 5, 6))
    for order in permutations(range(3)):
        for lying in (
            x.transpose(order).copy().transpose(np.argsort(order)),
            x[:, ::-1, ::2].transpose(order),
        ):
            # The second call is a known one.
            for _ in range(2):
                got = up.scan(lying, HASH.op, axis=1, engine=engine)
                assert got.strides == np.cumsum(lying, axis=1).strides
                np.testing.assert_array_equal(got, by_rows(lying, 1))


@pytest.mark.parametrize("name", ["hash-u64", "add-i8"])
def test_results_that_lie_the_other_way(name):
    case = CASES[name]
    for shape in ((1030, 70), (40, 100)):
        (x,) = case.draw(shape)
        for exclusive in (False, True):
            start = case.draw(shape[1:], 3)[0] if exclusive else None
            (want,) = oracle(case.arrays, (x,), exclusive=exclusive, initial=start)
            y = np.full(shape[::-1], 77, x.dtype).T
            up.scan(x, case.op, axis=0, out=y, exclusive=exclusive, initial=start)
            assert y.tobytes() == want.tobytes(), (shape, "columns to rows")
            z = np.full(shape, 77, x.dtype).T
            up.scan(x.T.copy(), case.op, axis=1, out=z, exclusive=exclusive, initial=start)
            assert z.T.tobytes() == want.tobytes(), (shape, "rows to columns")


def unaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)
    y = raw[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


LAYOUTS = {
    "negative": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "every other": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "unaligned": unaligned,
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "field": lambda x: np.rec.fromarrays([np.zeros(x.shape, "u1"), x], names="a,b")["b"],
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_in_and_out(layout, axis):
    (x,) = HASH.draw((130, 70))
    x = LAYOUTS[layout](x)
    x.flags.writeable = False
    want = by_rows(x.astype("u8"), axis)
    np.testing.assert_array_equal(up.scan(x, HASH.op, axis=axis), want)
    np.testing.assert_array_equal(
        up.scan(x, HASH.op, axis=axis, reverse=True), by_rows(x.astype("u8"), axis, reverse=True)
    )
    np.testing.assert_array_equal(up.reduce(x, HASH.op, axis=axis), np.take(want, -1, axis))
    if layout not in ("broadcast", "swapped bytes"):
        out = LAYOUTS[layout](np.full((130, 70), 77, "u8"))
        up.scan(x, HASH.op, axis=axis, out=out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_initial_may_differ_by_row(axis):
    (x,) = HASH.draw((3, 70, 5))
    initial = np.arange(x.size // x.shape[axis], dtype="u8").reshape(x.shape[:axis] + x.shape[axis + 1 :])
    got = up.scan(x, HASH.op, axis=axis, initial=initial)
    for row, first, want in zip(rows_of(got, axis), initial.ravel(), rows_of(x, axis)):
        np.testing.assert_array_equal(row, oracle(hashing, (want,), initial=first)[0])


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 2, 64])
@pytest.mark.parametrize("reverse", [False, True])
def test_out_may_overlap_the_input(shift, reverse):
    (x,) = HASH.draw(10_000)
    memory = np.zeros(20_000, "u8")
    source, target = memory[5_000:15_000], memory[5_000 + shift : 15_000 + shift]
    source[:] = x
    up.scan(source, HASH.op, out=target, reverse=reverse)
    np.testing.assert_array_equal(target, oracle(hashing, (x,), reverse=reverse)[0])


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *[((2, n), 1) for n in (1, 4095, 4096, 4097, 200_000)],
        *[((n, 40), 0) for n in (1, 3, 15, 16, 17, 300)],
    ],
    ids=str,
)
@pytest.mark.parametrize("exclusive", [False, True])
def test_nothing_is_written_beside_the_results(shape, axis, exclusive):
    (x,) = HASH.draw(shape)
    memory = np.full((shape[0] + 2, shape[1] + 2), 77, "u8")
    inside = (slice(1, -1), slice(1, -1))
    up.scan(x, HASH.op, axis=axis, exclusive=exclusive, initial=np.uint64(5), out=memory[inside], threads=3)
    want = np.full_like(memory, 77)
    want[inside] = by_rows(x, axis, exclusive=exclusive, initial=np.uint64(5))
    np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("exclusive", [False, True])
def test_components_may_change_places(exclusive):
    a, b = (np.random.default_rng(seed).random(70_000) for seed in (0, 1))
    want = up.scan((a, b), "affine", exclusive=exclusive)
    up.scan((a, b), "affine", exclusive=exclusive, out=(b, a), threads=3)
    np.testing.assert_array_equal((b, a), want)


@settings(max_examples=50)
@given(st.data())
def test_any_view(data):
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank)))
    (x,) = HASH.draw(tuple(3 * s for s in shape))
    cut = tuple(
        slice(None, None, step)
        for step in data.draw(st.lists(st.sampled_from([1, 2, 3, -1, -2]), min_size=rank, max_size=rank))
    )
    x = x[cut].transpose(data.draw(st.permutations(range(rank))))
    axis = data.draw(st.integers(0, rank - 1))
    how = {
        "exclusive": data.draw(st.booleans()),
        "reverse": data.draw(st.booleans()),
        "initial": np.uint64(9),
    }
    np.testing.assert_array_equal(up.scan(x, HASH.op, axis=axis, **how), by_rows(x, axis, **how))


def mixed(a, b):
    """Neither commutative nor associative."""
    return a * np.int16(31) + (a ^ b)


@pytest.mark.parametrize("n", [33, 100, 129, 200, 999, 3001])
def test_rows_of_narrow_items_begin_at_any_byte_of_a_gpu(cuda, n):
    """A piece of 16 bytes may belong to two rows, to two warps, or to memory that is not the call's."""
    cp = pytest.importorskip("cupy")
    rng = np.random.default_rng(n)
    for op, dtype, at in (("add", "i1", 1), ("or", "?", 3), ("max", "i1", 7), (mixed, "i2", 2)):
        x = rng.integers(-3, 4, (8200 if n < 129 else 1031, n)).astype(dtype)
        want = up.scan(x, op, axis=1)
        for places in ((1, 3), (1, 1)):
            memory = [cp.full(x.nbytes + 80, 0x77, "u1") for _ in range(2)]
            place = [cp.ndarray(x.shape, dtype, memptr=m.data + 16 + k * at) for k, m in zip(places, memory)]
            place[0].set(x)
            up.scan(place[0], op, axis=1, out=place[1])
            got, first = memory[1].get(), 16 + places[1] * at
            assert got[first : first + x.nbytes].tobytes() == want.tobytes(), (op, places)
            assert (np.delete(got, slice(first, first + x.nbytes)) == 0x77).all(), (op, places)


@pytest.mark.parametrize("n", [3, 33, 100, 200])
def test_rows_that_lie_a_little_apart_on_a_gpu(cuda, n):
    cp = pytest.importorskip("cupy")
    rng = np.random.default_rng(n)
    for op, dtype, gap in (
        ("add", "i1", 1),
        ("add", "f4", 4),
        (mixed, "i2", 3),
        (mixed, "i2", 1),
        ("add", "e", 2),
    ):
        x = rng.integers(-3, 4, (8200, n + gap)).astype(dtype)
        want = up.scan(x[:, :n], op, axis=1, reverse=gap == 3)
        for beside in (0, 1):
            room = cp.full((8200, n + beside), 77, dtype)
            up.scan(cp.asarray(x)[:, :n], op, axis=1, reverse=gap == 3, out=room[:, :n])
            got = room.get()
            assert got[:, :n].tobytes() == want.tobytes(), (op, dtype, beside)
            assert (got[:, n:] == 77).all(), (op, dtype, beside)
