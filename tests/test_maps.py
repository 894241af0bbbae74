"""What conformance leaves open of maps and finishes: numbers as parameters, dtypes, groups, streams, and which arguments a
function gets.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from portions import every
from table import P, Q, R
from upsweep import execution, recall

ENGINES = ["numpy", "cpu"]
RNG = np.random.default_rng(5)


def hashing(a, b):
    """Not associative: equal results mean equal trees."""
    x = a * P
    return ((x << np.uint64(7)) | (x >> np.uint64(57))) ^ (b * Q + R)


def lifted(x):
    return np.uint64(x) * P


def placed(p, x, i):
    return p ^ np.uint64(i), x + np.int16(i)


def placed_arrays(p, x, i):
    return p ^ i.astype("u8"), x + i.astype("i2")


def averaged(x, a):
    return 1 - a, a * x


def second(p):
    return p[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_another_number_is_another_argument_of_the_same_plan(engine, monkeypatch):
    x = RNG.normal(size=500).astype("f4")
    plans = []
    planned = execution.plan_of
    monkeypatch.setattr(execution, "plan_of", lambda *given: plans.append(planned(*given)) or plans[-1])
    for a in (0.1, 0.25, np.float32(0.5)):
        recall.forget()
        got = up.scan((x, a), "affine", map=averaged, finish=second, engine=engine)
        weight = np.float32(a)
        steps = up.scan((np.full_like(x, 1 - weight), weight * x), "affine", engine=engine)[1]
        np.testing.assert_array_equal(got, steps)
        assert got.dtype == np.float32
    fused = [plan for plan, _ in plans if plan.map]
    assert len(fused) == 3
    assert all(plan is fused[0] for plan in fused)


@pytest.mark.parametrize("engine", ENGINES)
def test_inputs_broadcast_as_they_are(engine, monkeypatch):
    seen = []
    on = execution.engines.load(engine)
    run = on.run
    monkeypatch.setattr(on, "run", lambda plan, xs, *more: seen.extend(xs) or run(plan, xs, *more))
    x, y, z = RNG.normal(size=(3, 1, 50)), np.arange(4.0)[:, None], np.float64(2)
    got = up.scan((x, y, z), axis=1, map=lambda x, y, z: x * y + z, engine=engine)
    monkeypatch.undo()
    np.testing.assert_array_equal(got, up.scan(np.broadcast_to(x * y + z, (3, 4, 50)), axis=1))
    assert [v.strides for v in seen] == [(400, 0, 8), (0, 8, 0), (0, 0, 0)]
    assert np.may_share_memory(seen[0], x)
    assert np.may_share_memory(seen[1], y)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flip", [False, True])
def test_integers_in_rows_side_by_side(engine, flip):
    """Without a map the CPU engine scans several such rows straight through at a time."""
    x, w = RNG.integers(-9, 9, (9, 300)), RNG.integers(-9, 9, 300)
    given, how = (x.T, w[:, None]) if flip else (x, w), {"axis": 0 if flip else 1, "engine": engine}
    sums = np.cumsum(x * w, 1)
    results = {
        "map": (sums, up.scan(given, map=lambda x, w: x * w, **how)),
        "finish": (np.cumsum(x, 1) * 2, up.scan(given[0], finish=lambda p: p * 2, **how)),
        "both": (sums + x, up.scan(given, map=lambda x, w: x * w, finish=lambda p, x, w: p + x, **how)),
    }
    for name, (want, got) in results.items():
        np.testing.assert_array_equal(got, want.T if flip else want, name)
    got = up.reduce(given, map=lambda x, w: x * w, **how)
    np.testing.assert_array_equal(got, sums[:, -1])


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("shape", [(4, 1030), (600, 1030)])
def test_weights_of_columns_may_lie_apart_on_a_gpu(cuda, shape, step):
    """One weight for each column, where weights are not neighbours in memory."""
    torch = pytest.importorskip("torch")
    x = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    weights = torch.randint(0, 256, (shape[1] * step,), dtype=torch.uint8, device="cuda")[::step]
    how = {"axis": 0, "map": lambda x, w: x * 3 + w, "exclusive": True, "initial": 134}
    got = up.scan((x, weights), "xor", **how)
    want = up.scan((x.cpu().numpy(), weights.cpu().numpy()), "xor", **how)
    np.testing.assert_array_equal(got.cpu().numpy(), want)


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_list_for_all_columns_may_lie_anywhere_on_a_gpu(cuda, at):
    """Weights of the items along an axis, at addresses that are no multiples of their size."""
    cp = pytest.importorskip("cupy")
    x = np.arange(700 * 40).reshape(700, 40) % 7
    weights = np.arange(700) * 0x0123456789ABCD
    memory = cp.full((700, 8 + at), 0x77, "u1")
    memory[:, at:] = cp.asarray(weights).view("u1").reshape(700, 8)
    apart = cp.ndarray((700, 1), "i8", memory.data + at, strides=(8 + at, 8))
    how = {"axis": 0, "map": lambda x, w: x * 3 + w}
    np.testing.assert_array_equal(
        up.scan((cp.asarray(x), apart), **how).get(), up.scan((x, weights[:, None]), **how)
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_dtypes_are_what_the_functions_give(engine):
    def of(x, **how):
        got = up.scan(x, engine=engine, **how)
        return [y.dtype.str[1:] for y in (got if isinstance(got, tuple) else (got,))]

    x = np.array([3, -1, 2], "i2")
    assert of(x, map=lambda v: v > 0, op="or") == ["b1"]
    assert of(x, map=lambda v: v if v > 0 else 0.5) == ["f8"]
    assert of(x.astype("f4"), map=lambda v: v if v > 0 else 0.5) == ["f4"]
    assert of(x, map=lambda v: v * v, dtype="i8") == ["i8"]
    assert of(x, finish=lambda p, v, i: (p / np.float32(2), p, i, p == v)) == ["f4", "i2", "i8", "b1"]
    assert of((x, 2.5), map=lambda v, a: v * a) == ["f8"]
    assert of((x, 7), map=lambda v, a: v * a) == ["i2"]
    half = np.array([0.1, 0.2], "f2")
    assert of(half, map=lambda v: v * v) == ["f4"]
    assert of(half, finish=lambda p: p) == ["f4"]
    assert of(np.array([1, 2], "m8[s]"), finish=lambda p, t: p + t) == ["i8"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_narrow_floats_are_rounded_once_at_the_end(engine, dtype):
    x = RNG.normal(size=300).astype(dtype)
    out = np.zeros(300, dtype)
    up.scan(
        x, map=lambda v: v * np.float32(0.1), finish=lambda p: p * np.float32(0.3), out=out, engine=engine
    )
    sums = up.scan(x.astype("f4") * np.float32(0.1))
    np.testing.assert_array_equal(out, (sums * np.float32(0.3)).astype(dtype))


@pytest.mark.parametrize("engine", ENGINES)
def test_results_may_take_the_place_of_inputs(engine):
    x, y = RNG.normal(size=(2, 5000))
    want = up.scan((x, y), map=lambda x, y: x - y, finish=lambda p, x, y: (p + y, p - x), engine=engine)
    given = x.copy(), y.copy()
    up.scan(
        given, map=lambda x, y: x - y, finish=lambda p, x, y: (p + y, p - x), out=given[::-1], engine=engine
    )
    np.testing.assert_array_equal(given[::-1], want)


@pytest.mark.parametrize("reverse", [False, True])
def test_tiles_of_a_long_row_know_where_they_are(reverse):
    x = RNG.integers(0, 100, 600_017).astype("i2")
    prefixes = up.scan(x.astype("u8") * P, hashing, reverse=reverse, threads=1)
    for threads in (1, 3):
        got = up.scan((x, np.int64(0)), hashing, map=lambda x, z: np.uint64(x) * P, finish=lambda p, x, z, i: p ^ np.uint64(i),
                      reverse=reverse, threads=threads)  # fmt: skip
        np.testing.assert_array_equal(got, prefixes ^ np.arange(600_017, dtype="u8"))


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_groups_in_any_order(order, reverse, exclusive):
    x, keys = RNG.integers(0, 100, (2, 3000)).astype("i2"), RNG.integers(0, 7, 3000)
    how = {"axis": 1, "order": order, "reverse": reverse, "exclusive": exclusive, "initial": np.uint64(3)}
    how["segments"] = up.segments.groups(keys)
    prefixes = up.scan(x.astype("u8") * P, hashing, **how)
    got = up.scan(x, hashing, map=lifted, finish=placed, **how)
    np.testing.assert_array_equal(got[0], placed_arrays(prefixes, x, np.arange(3000))[0])
    np.testing.assert_array_equal(got[1], placed_arrays(prefixes, x, np.arange(3000))[1])


@pytest.mark.parametrize(
    ("how", "segmented"),
    every(
        4,
        [
            ({"order": "sequential"}, True),
            ({}, True),
            ({"exclusive": True, "initial": np.uint64(4)}, False),
            ({"order": "sequential"}, False),
            ({}, False),
            ({"exclusive": True, "initial": np.uint64(4)}, True),
        ],
    ),
    ids=str,
)
def test_a_stream_goes_on_with_its_index(how, segmented):
    x = RNG.integers(0, 100, (3000, 2)).astype("i2")
    heads = RNG.random((3000, 2)) < 0.01
    cuts = [100, 101, 101, 1500]

    def of(part):
        return {"segments": up.segments.flags(part)} if segmented else {}

    want = up.scan(x, hashing, axis=0, map=lifted, finish=placed, **how, **of(heads))
    stream = up.Stream(hashing, axis=0, map=lifted, finish=placed, **how)
    parts = [stream.push(c, **of(h)) for c, h in zip(np.split(x, cuts), np.split(heads, cuts))]
    for got, w in zip(map(np.concatenate, zip(*parts)), want):
        np.testing.assert_array_equal(got, w)
    out = np.zeros((3000, 2), "u8"), np.zeros((3000, 2), "i2")
    again = up.Stream(hashing, axis=0, map=lifted, finish=placed, **how)
    assert again.push(x, out=out, **of(heads)) is out
    np.testing.assert_array_equal(out[0], want[0])


def test_a_stream_of_halves_finishes_before_it_rounds():
    x = RNG.random(3000).astype("f2")
    stream = up.Stream(finish=lambda p, v: p * v)
    parts = [stream.push(c) for c in np.split(x, [77, 1000])]
    np.testing.assert_array_equal(np.concatenate(parts), up.scan(x, finish=lambda p, v: p * v))


def lifted_there(x, i):
    return np.uint64(x) * P + np.uint64(i)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_map_may_know_where_its_item_is(engine, order, reverse):
    x, keys = RNG.integers(0, 100, (2, 3000)).astype("i2"), RNG.integers(0, 7, 3000)
    there = x.astype("u8") * P + np.arange(3000, dtype="u8")
    how = {"axis": 1, "order": order, "reverse": reverse, "initial": np.uint64(3), "engine": engine}
    for segments in (None, up.segments.lengths([1000, 2000]), up.segments.groups(keys)):
        want = up.scan(there, hashing, segments=segments, **how)
        np.testing.assert_array_equal(up.scan(x, hashing, map=lifted_there, segments=segments, **how), want)
        want = up.reduce(there, hashing, segments=segments, **how)
        np.testing.assert_array_equal(up.reduce(x, hashing, map=lifted_there, segments=segments, **how), want)


def test_the_index_of_a_stream_goes_on_in_its_map():
    x = RNG.integers(0, 100, (3000, 2)).astype("i2")
    stream = up.Stream(hashing, axis=0, map=lifted_there, finish=lambda p, x, i: p + np.uint64(i))
    parts = [stream.push(c) for c in np.split(x, [100, 101, 101, 1500])]
    places = np.arange(3000, dtype="u8")[:, None]
    want = up.scan(x.astype("u8") * P + places, hashing, axis=0) + places
    np.testing.assert_array_equal(np.concatenate(parts), want)


@pytest.mark.parametrize("engine", ENGINES)
def test_reductions(engine):
    x = RNG.normal(size=(30, 5))
    squares = up.reduce(x, axis=0, map=lambda v: v * v, finish=np.sqrt, engine=engine)
    np.testing.assert_array_equal(squares, np.sqrt(up.reduce(x * x, axis=0)))
    nothing = up.reduce(
        x[:0], axis=0, map=lambda v: v * v, finish=lambda p: p + 2, initial=x[0], engine=engine
    )
    np.testing.assert_array_equal(nothing, x[0] + 2)
    assert up.reduce(x[:0], axis=0, finish=lambda p: p + 2, engine=engine).tolist() == [2.0] * 5


def test_a_parameter_with_a_default_counts_as_none():
    x = np.arange(5.0)
    np.testing.assert_array_equal(up.scan(x, finish=lambda p, scale=3.0: p * scale), 3 * np.cumsum(x))
    np.testing.assert_array_equal(up.scan(x, map=lambda v, scale=3.0: v * scale), np.cumsum(3 * x))


def test_a_path_that_the_data_do_not_take_counts_for_the_dtype():
    x = np.arange(5, dtype="i4")
    assert up.scan(x, map=lambda v: v if v < 1000 else 0.5 * v).dtype == np.float64
    looped = up.scan(x, map=lambda v: _halved(v), finish=lambda p: p)
    assert looped.tolist() == [0, 0, 1, 2, 4]


def _halved(v):
    count = 0
    while v > 1:
        v //= 2
        count += 1
    return count
