"""Every bit is the oracle's, for every length, number of threads, tile and chunk of the CPU engine. `conformance/` has the
operators, dtypes, forms and layouts of every engine.
"""

import itertools

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from table import BORDERS, CASES
from upsweep.cpu import launch, tuning

THREADS = (1, 2, 3, 7)


@pytest.fixture
def many_threads(tuned):
    """Threads and tiles start at a few items already."""
    tuned(PARALLEL_BYTES=0)


def run(case, xs, **how):
    """A scan into poisoned outputs."""
    outs = tuple(np.full_like(x, 77) for x in xs)
    one = len(xs) == 1
    up.scan(xs[0] if one else xs, case.op, out=outs[0] if one else outs, **how)
    return outs


def agree(got, want, note=""):
    for g, w in zip(got, want, strict=True):
        if g.tobytes() != w.tobytes():
            np.testing.assert_array_equal(
                g.view(np.uint8).reshape(-1), np.ascontiguousarray(w).view(np.uint8), err_msg=note
            )


@pytest.mark.parametrize("name", ["hash-u64", "add-f32", "add-f64", "add-i32"])
def test_every_length_to_300(name):
    case = CASES[name]
    xs = case.draw(300)
    want = oracle(case.arrays, xs)
    for n in range(301):
        agree(run(case, tuple(x[:n] for x in xs)), tuple(w[:n] for w in want), f"n={n}")


@pytest.mark.parametrize(
    ("name", "threads"), every(3, itertools.product(["hash-u64", "add-f32", "add-f64", "add-i32"], THREADS))
)
def test_around_powers_of_two(name, threads, many_threads):
    case = CASES[name]
    xs = case.draw(2**22 + 1)
    want = oracle(case.arrays, xs)
    rng = np.random.default_rng(threads)
    lengths = [2**k + d for k in range(9, 23) for d in (-1, 0, 1)] + rng.integers(301, 2**22, 6).tolist()
    for n in lengths:
        agree(run(case, tuple(x[:n] for x in xs), threads=threads), tuple(w[:n] for w in want), f"n={n}")


@pytest.mark.parametrize("name", ["hash-u64", "join-i64", "add-f32"])
@pytest.mark.parametrize("tile", [1, 1 << 16, 1 << 17, 1 << 20])
def test_every_tile_size(tile, name, many_threads, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr(tuning, "ROWS", tuning.ROWS._replace(tile=tile))
    monkeypatch.setattr(tuning, "COLUMNS", tuning.COLUMNS._replace(tile=tile))
    xs = case.draw(300_001)
    want = oracle(case.arrays, xs)
    for threads in THREADS:
        agree(run(case, xs, threads=threads), want, f"threads={threads}")
    xs = case.draw((40_001, 3), 1)
    got = up.scan(xs if len(xs) > 1 else xs[0], case.op, axis=0, threads=3)
    for column in range(3):
        ys = got if len(xs) > 1 else (got,)
        agree([y[:, column].copy() for y in ys], oracle(case.arrays, [x[:, column] for x in xs]))


def test_a_tile_has_no_more_items_than_a_chunk_can(many_threads, monkeypatch):
    case = CASES["join-i64"]
    monkeypatch.setattr(tuning, "ROWS", tuning.ROWS._replace(tile=1 << 22))
    xs = case.draw(2**21 + 5)
    agree(run(case, xs, threads=2), oracle(case.arrays, xs))


@pytest.mark.parametrize("chunk", [16, 64, 1024, 16384])
def test_every_chunk_size(chunk, many_threads, monkeypatch):
    case = CASES["hash-u64"]
    monkeypatch.setattr(tuning, "ROWS", tuning.ROWS._replace(chunk=chunk, tile=8 * chunk * 4))
    xs = case.draw(100_003)
    for n in (1, chunk - 1, chunk, chunk + 1, 5 * chunk + 3, 100_003):
        part = tuple(x[:n] for x in xs)
        agree(run(case, part, threads=3), oracle(case.arrays, part), f"n={n}")


@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_of_whole_spans(exclusive):
    """Of 1024 items; the first is swept by another way, and what is behind the last."""
    case = CASES["hash-u64"]
    xs = case.draw(9 * 1024 + 5)
    start = tuple(x.dtype.type(3) for x in xs)
    for n in (1023, 1024, 1025, 2 * 1024, 5 * 1024 + 1, 9 * 1024 + 5):
        part = tuple(x[:n] for x in xs)
        for initial in (None, start) if not exclusive else (start,):
            form = (
                {"exclusive": exclusive} if initial is None else {"exclusive": exclusive, "initial": initial}
            )
            given = form if initial is None else form | {"initial": initial[0]}
            agree(run(case, part, threads=1, **given), oracle(case.arrays, part, **form), f"n={n} {form}")


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_whose_runs_are_swept_up_again(exclusive, initial, many_threads, monkeypatch):
    """One thread keeps no block sums of the runs of large rows."""
    monkeypatch.setattr(tuning, "FAR_BYTES", 0)
    monkeypatch.setattr(tuning, "ROWS", tuning.ROWS._replace(chunk=512))
    case = CASES["affine-f32"]
    xs = case.draw(5_003)
    start = tuple(part[0] for part in case.draw(1, 3)) if exclusive or initial else None
    for n in (1, 15, 16, 17, 128, 1000, 1023, 1024, 1025, 5_003):
        part = tuple(x[:n] for x in xs)
        how = {"exclusive": exclusive, "initial": start}
        agree(run(case, part, threads=1, **how), oracle(case.arrays, part, **how), f"n={n}")


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", ["hash-u64", "add-f32", "add-i8", "affine-f32"])
def test_past_the_cache(name, exclusive, many_threads, monkeypatch):
    """Large results are written by stores that go around the cache, at any alignment."""
    monkeypatch.setattr(tuning, "STREAM_BYTES", 0)
    case = CASES[name]
    xs = case.draw(20_011)
    start = tuple(part[0] for part in case.draw(1, 3)) if exclusive else None
    how = {"exclusive": exclusive, "initial": start and (start if len(xs) > 1 else start[0])}
    wants = oracle(case.arrays, xs, **how)
    for first in range(9):
        rooms = [np.full(len(x) + 64, 77, x.dtype) for x in xs]
        outs = tuple(room[first : first + len(x)] for room, x in zip(rooms, xs))
        one = len(xs) == 1
        up.scan(xs[0] if one else xs, case.op, out=outs[0] if one else outs, threads=2, **how)
        agree(outs, wants, f"from item {first}")
        for room, x in zip(rooms, xs):
            assert (room[:first] == 77).all()
            assert (room[first + len(x) :] == 77).all()


def test_a_result_that_nobody_wants_is_not_written(many_threads, monkeypatch):
    """Of a recurrence's two components one is handed out."""
    case = CASES["affine-f32"]
    a, b = case.draw(140_011)
    (_, want) = oracle(case.arrays, (a, b))
    for bytes_ in (0, 1 << 30):
        monkeypatch.setattr(tuning, "STREAM_BYTES", bytes_)
        launch._launch.cache_clear()
        for threads in THREADS:
            h = np.full_like(b, 77)
            with up.set_threads(threads):
                up.linear_recurrence(a, b, out=h)
            agree((h,), (want,), f"threads={threads}")


@pytest.mark.parametrize("name", ["hash-u64", "add-f32"])
def test_panels_past_the_cache(name, many_threads, monkeypatch):
    monkeypatch.setattr(tuning, "STREAM_BYTES", 0)
    case = CASES[name]
    (x,) = case.draw((70, 33), 1)
    got = up.scan(x, case.op, axis=0, threads=2)
    for column in range(33):
        agree((got[:, column].copy(),), oracle(case.arrays, (x[:, column],)))


@pytest.mark.parametrize("rows", [31, 32, 83])
@pytest.mark.parametrize("n", [511, 512, 1023, 1024, 1500])
@pytest.mark.parametrize("name", ["hash-u64", "add-f32"])
def test_rows_side_by_side_or_by_themselves(name, n, rows, tuned):
    """How long rows are scanned side by side hangs on their number, and on what is called for lines of them."""
    tuned(PARALLEL_BYTES=0, SHORT_DENSE=1500)
    case = CASES[name]
    (x,) = case.draw((rows, n), 1)
    want = np.stack([oracle(case.arrays, (row,))[0] for row in x])
    for threads in THREADS:
        got = up.scan(x, case.op, axis=1, threads=threads)
        agree((got,), (want,), f"threads={threads}")
        got = up.scan(x, case.op, axis=1, map=lambda item: item, threads=threads)
        agree((got,), (want,), f"a map, threads={threads}")


@pytest.mark.parametrize("near", [1 << 10, 1 << 17])
@pytest.mark.parametrize("name", ["hash-u64", "add-f32", "add-i32"])
def test_columns_that_share_cache_lines(name, near, many_threads, monkeypatch):
    """The tiles of such operators wait for each other, also in one thread."""
    monkeypatch.setattr(tuning, "NEAR_BYTES", near)
    case = CASES[name]
    for columns in (2, 3, 7):
        (x,) = case.draw((9_001, columns), 1)
        how = {"exclusive": name != "hash-u64", "reverse": columns == 3}
        # Through a map, columns are scanned one by one.
        mapped = {**how, "map": (lambda v: v) if columns == 3 else None}
        want = [
            oracle(case.arrays, (x[:, k].copy(),), identity=case.identity, **how)[0] for k in range(columns)
        ]
        for threads in (1, 2, 3):
            y = np.full_like(x, 77)
            up.scan(x, case.op, axis=0, out=y, threads=threads, **mapped)
            agree((y.T.ravel(),), (np.concatenate(want),), f"{columns} columns, threads={threads}")
        assert up.reduce(x, case.op, axis=0).tolist() == [
            oracle(case.arrays, (c.copy(),))[0][-1] for c in x.T
        ]


@pytest.mark.parametrize("name", ["hash-u64", "add-i8", "add-f32"])
def test_short_rows(name):
    case = CASES[name]
    for n in range(1, 41):
        (x,) = case.draw((37, n), 1)
        y, room = np.full_like(x, 77), np.full((37, n + 3), 77, x.dtype)
        up.scan(x, case.op, axis=1, out=y)
        up.scan(x, case.op, axis=1, out=room[:, :n])
        want = np.concatenate([oracle(case.arrays, (row.copy(),))[0] for row in x])
        agree((y.ravel(), room[:, :n].ravel()), (want, want), f"n={n}")
        assert (room[:, n:] == 77).all()


def test_results_repeat(many_threads):
    case = CASES["add-f32"]
    xs = case.draw(1_000_003)
    first = run(case, xs, threads=7)
    for _ in range(20):
        agree(run(case, xs, threads=7), first)


@pytest.mark.parametrize("n", BORDERS)
def test_the_last_prefix_is_the_reduction(n):
    (x,) = CASES["hash-u64"].draw(n)
    assert up.reduce(x, CASES["hash-u64"].op) == oracle(CASES["hash-u64"].arrays, (x,))[0][-1]


def test_error_grows_with_the_logarithm():
    x = np.ones(2**25, np.float32)
    assert up.scan(x)[-1] == 2**25
    assert np.cumsum(x)[-1] == 2**24


@pytest.mark.parametrize("threads", [1, 2])
def test_columns_of_pairs_that_lie_apart(threads):
    """Columns of a large array that are walked beside each other, in tiles of one chunk."""
    rng = np.random.default_rng(5)
    values = rng.integers(-30_000, 30_000, (1 << 17, 8)).astype("i2")[:, ::2]
    places = rng.integers(-(2**31), 2**31 - 1, values.shape).astype("i4")
    made = up.scan((values, places), "argmin", axis=0, threads=threads, engine="cpu")
    for got, want in zip(made, up.scan((values, places), "argmin", axis=0, engine="numpy")):
        np.testing.assert_array_equal(got, want)
