"""order="sequential" is the loop, bit for bit, wherever a sequence is cut, packed or batched."""

import pickle

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from table import CASES

HASH = CASES["hash-u64"]
HASHING = up.Operator(HASH.op.fn, np.uint64(9), name="hash")
# A shape and an axis, and how the memory lies.
LAYOUTS = {
    "one row": ((1000,), 0, lambda x: x),
    "columns": ((70, 37), 0, lambda x: x),
    "rows": ((37, 70), 1, lambda x: x),
    "between": ((3, 40, 21), 1, lambda x: x),
    "transposed": ((40, 30), 0, lambda x: np.asfortranarray(x)),
    "every second": ((80, 40), 0, lambda x: np.repeat(x, 2, axis=1)[:, ::2]),
    "backwards": ((50, 9), 0, lambda x: x[::-1, ::-1]),
    "one item": ((5, 1, 7), 1, lambda x: x),
}


def loop(combine, xs, axis, **how):
    return oracle(combine, xs, axis=axis, order="sequential", **how)


def same(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("name", every(3, LAYOUTS))
def test_every_form_is_the_loop(name):
    shape, axis, laid = LAYOUTS[name]
    rng = np.random.default_rng(7)
    (x,) = HASH.draw(shape)
    x = laid(x)
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    one_d, full = rng.random(x.shape[axis]) < 0.2, rng.random(x.shape) < 0.2
    starts = rng.integers(0, 2**63, rows).astype("u8")
    for reverse in (False, True):
        for heads in (None, one_d, full):
            flags = None if heads is None else up.segments.flags(heads)
            for exclusive in (False, True):
                for initial in (None, (np.uint64(5),), (starts,)):
                    out = np.full(x.shape, 0xDEAD, x.dtype)
                    up.scan(
                        x, HASHING, axis=axis, order="sequential", reverse=reverse, exclusive=exclusive, segments=flags,
                        initial=None if initial is None else initial[0], out=out,
                    )  # fmt: skip
                    (want,) = loop(
                        HASH.arrays, [x], axis, reverse=reverse, exclusive=exclusive, heads=heads, initial=initial,
                        identity=(np.uint64(9),),
                    )  # fmt: skip
                    same(out, want)
                    if not exclusive and heads is None:
                        last = up.reduce(x, HASHING, axis=axis, order="sequential", reverse=reverse,
                                         initial=None if initial is None else initial[0])  # fmt: skip
                        same(np.asarray(last), np.take(want, 0 if reverse else -1, axis))


def test_columns_with_code_of_their_own_are_the_loop(tuned):
    """Code for the strides of columns that lie side by side, which only large arrays have."""
    tuned(OWN_CODE_BYTES=0)
    rng = np.random.default_rng(8)
    (x,) = HASH.draw((3, 40, 21))
    starts, one_d = rng.integers(0, 2**63, (3, 21)).astype("u8"), rng.random(40) < 0.2
    for how in ({}, {"exclusive": True, "initial": starts}, {"heads": one_d, "reverse": True}):
        flags = {"segments": up.segments.flags(one_d)} if "heads" in how else {}
        out, given = np.full(x.shape, 0xDEAD, x.dtype), {k: v for k, v in how.items() if k != "heads"}
        up.scan(x, HASHING, axis=1, order="sequential", out=out, **given, **flags)
        start = {"initial": (starts,)} if "initial" in how else {}
        (want,) = loop(HASH.arrays, [x], 1, identity=(np.uint64(9),), **{**how, **start})
        same(out, want)
    (want,) = loop(HASH.arrays, [x], 1)
    same(up.reduce(x, HASHING, axis=1, order="sequential"), want[:, -1])
    y = rng.standard_normal((40, 33)).astype("f4")
    same(up.scan(y, axis=0, order="sequential"), np.add.accumulate(y, 0))


@pytest.mark.dear
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("initial", [False, True])
def test_one_item_a_row_goes_the_way_of_the_loop(initial, exclusive, tuned):
    """A step of a model: every order gives the same bits."""
    tuned(OWN_CODE_BYTES=0)
    a, b = np.random.default_rng(8).random((2, 5, 1, 21))
    start = np.random.default_rng(9).random((2, 5, 21))
    for starts in (start, np.asfortranarray(start), start[:, 0, 0]):
        first = (starts[0], starts[1]) if initial else None
        got = up.scan((a, b), "affine", axis=1, initial=first, exclusive=exclusive, threads=1)
        wide = [np.broadcast_to(s if s.ndim else s[()], (5, 21)) for s in starts] if initial else [1.0, 0.0]
        want = [wide[0] * a[:, 0], a[:, 0] * wide[1] + b[:, 0]]
        for y, w in zip(got, wide if exclusive else want):
            same(y[:, 0], np.broadcast_to(w, (5, 21)).copy())


@pytest.mark.parametrize("dtype", every(4, ["i1", "u2", "i4", "i8", "f4", "f8", "c8"]))
def test_sums_are_numpys_accumulate(dtype):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((6, 40, 9)) * 50).astype(dtype)
    for axis in range(3):
        same(up.scan(x, axis=axis, order="sequential"), np.add.accumulate(x, axis, dtype))


def test_half_precision_sums_in_float32_and_rounds_at_the_store():
    x = np.random.default_rng(2).standard_normal((300, 33)).astype("f2")
    want = np.add.accumulate(x.astype("f4"), 0).astype("f2")
    same(up.scan(x, axis=0, order="sequential"), want)


def test_a_recurrence_is_the_loop_that_one_would_write():
    rng = np.random.default_rng(3)
    a, b = rng.random((4, 90, 65), np.float32), rng.standard_normal((4, 90, 65), np.float32)
    for given in (a, np.float32(0.7), a[0, 0], a[:1, :, :1]):
        h, whole = rng.random((4, 65), np.float32), np.broadcast_to(given, b.shape)
        got = up.linear_recurrence(given, b, axis=1, initial=h, order="sequential")
        for t in range(90):
            h = whole[:, t] * h + b[:, t]
            same(got[:, t].copy(), h)


def test_many_threads_and_strips_change_nothing(monkeypatch):
    from upsweep.cpu import strips, tuning

    monkeypatch.setattr(tuning, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(tuning, "STRIP", 16)
    strips._launch.cache_clear()
    (x,) = HASH.draw((5, 60, 333))
    for axis in range(3):
        same(up.scan(x, HASHING, axis=axis, order="sequential", threads=3), loop(HASH.arrays, [x], axis)[0])
    strips._launch.cache_clear()


def test_both_directions_share_their_code(monkeypatch):
    """But where a map says what an item is by its index."""
    from upsweep.cpu import strips

    asked, walk = [], strips.walk
    monkeypatch.setattr(strips, "walk", lambda *what: asked.append(walk(*what).what) or walk(*what))
    strips._launch.cache_clear()
    x = np.arange(1201.0)
    for how in ({}, {"map": lambda x, i: x * i}):
        for reverse in (False, True):
            got = up.scan(x, order="sequential", reverse=reverse, **how)
            items = (x * x if how else x)[:: -1 if reverse else 1]
            same(got, np.add.accumulate(items)[:: -1 if reverse else 1])
    assert asked[0] == asked[1]
    assert len(set(asked[1:])) == 3
    strips._launch.cache_clear()


def test_a_sequence_may_be_cut_anywhere():
    rng = np.random.default_rng(4)
    a, b = rng.random((200, 17), np.float32), rng.standard_normal((200, 17), np.float32)
    whole = up.linear_recurrence(a, b, axis=0, order="sequential")
    for cut in (1, 63, 199):
        first = up.linear_recurrence(a[:cut], b[:cut], axis=0, order="sequential")
        rest = up.linear_recurrence(a[cut:], b[cut:], axis=0, initial=first[-1], order="sequential")
        same(np.concatenate([first, rest]), whole)
    state = np.zeros((1, 17), np.float32)
    # One step at a time, on the state in place.
    for t in range(200):
        up.linear_recurrence(
            a[t : t + 1], b[t : t + 1], axis=0, initial=state[0], out=state, order="sequential"
        )
        same(state[0].copy(), whole[t])


def test_packing_and_batches_change_nothing():
    rng = np.random.default_rng(5)
    lengths = [5, 1, 90, 33]
    x = rng.standard_normal((sum(lengths), 20)).astype("f4")
    packed = up.scan(x, axis=0, segments=up.segments.lengths(lengths), order="sequential")
    start = 0
    for length in lengths:
        alone = up.scan(np.ascontiguousarray(x[start : start + length, 3]), order="sequential")
        same(packed[start : start + length, 3].copy(), alone)
        start += length


@pytest.mark.parametrize("dtype", ["u8", "f2"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_streams_go_on_from_their_state(dtype, exclusive):
    (x,) = HASH.draw((300, 5))
    x = x if dtype == "u8" else np.random.default_rng(6).standard_normal((300, 5)).astype(dtype)
    op, how = HASHING if dtype == "u8" else "add", {"axis": 0, "exclusive": exclusive, "order": "sequential"}
    heads = np.random.default_rng(8).random(300) < 0.05
    # Halves have sums of float32 between chunks, with segments or without.
    for segmented in (False, True) if dtype == "u8" else (False,):
        whole = up.scan(x, op, segments=up.segments.flags(heads) if segmented else None, **how)
        stream, parts = up.Stream(op, **how), []
        for start, stop in ((0, 1), (1, 40), (40, 40), (40, 171), (171, 300)):
            flags = up.segments.flags(heads[start:stop]) if segmented else None
            parts.append(stream.push(x[start:stop], segments=flags))
            stream = up.Stream(op, **how, state=pickle.loads(pickle.dumps(stream.state)))
        same(np.concatenate(parts), whole)


def test_tuples_go_in_order_too():
    case = CASES["join-i64"]
    xs = case.draw(500)
    got = up.scan(xs, case.op, order="sequential")
    for g, w in zip(got, loop(case.arrays, xs, 0)):
        same(g, w)


def test_an_order_that_is_none():
    with pytest.raises(ValueError, match="order='fast': pass one of 'tree', 'sequential'"):
        up.scan([1, 2], order="fast")


@pytest.mark.parametrize("dtype", every(3, ["f4", "f2", "i1"]))
def test_many_rows_at_once_are_each_row_alone(dtype):
    rng = np.random.default_rng(3)
    x, a = ((rng.random((19, 45)) * 3).astype(dtype) for _ in range(2))
    last = up.Operator(lambda p, q: p * 0.5 + q) if dtype != "i1" else up.Operator(lambda p, q: 3 * p - q)
    calls = (
        lambda x, a, **how: up.scan(x, last, order="sequential", **how),
        lambda x, a, **how: up.scan(x, last, order="sequential", exclusive=True, initial=1, **how),
        lambda x, a, **how: up.scan(x, last, order="sequential", reverse=True, **how),
        lambda x, a, **how: up.reduce(x, last, order="sequential", **how),
        lambda x, a, **how: up.scan(
            (x, a),
            last,
            map=lambda x, a: x - a,
            finish=lambda p, x, a, i: p + a * i,
            order="sequential",
            **how,
        ),
    )
    for k, call in enumerate(calls):
        whole = call(x, a, axis=1)
        alone = [call(x[r], a[r], axis=0) for r in range(len(x))]
        assert whole.tobytes() == np.array(alone, whole.dtype).tobytes(), k
