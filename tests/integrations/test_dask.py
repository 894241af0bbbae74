"""Dask: the bits of one machine, whatever the chunks; on a cluster, also when a worker dies half way."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import upsweep as up
from portions import parts
from table import CASES
from upsweep import cores

da = pytest.importorskip("dask.array")
ud = pytest.importorskip("upsweep.dask")

HASH = CASES["hash-u64"]


@pytest.mark.parametrize("chunks", [2000, 64, 77, ((1, 1, 998, 1000),), ((0, 500, 0, 1500),)], ids=str)
@pytest.mark.parametrize(
    "keywords",
    [{}, {"reverse": True}, {"exclusive": True, "initial": np.uint64(3)}],
    ids=["in", "back", "ex"],
)
def test_any_chunks(chunks, keywords):
    (x,) = HASH.draw(2000)
    got = ud.scan(da.from_array(x, chunks=chunks), HASH.op, **keywords)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.compute(), up.scan(x, HASH.op, **keywords, engine="numpy"))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_tuples_and_starts(axis):
    rng = np.random.default_rng(0)
    a, b, start = rng.random((10, 30)), rng.random((10, 30)), rng.random(30 if axis == 0 else 10)
    first = (np.ones(start.shape), start)
    parts = da.from_array(a, chunks=(4, 7)), da.from_array(b, chunks=(3, 30))
    got = ud.scan(parts, "affine", axis=axis, initial=first)
    expected = up.scan((a, b), "affine", axis=axis, initial=first, engine="numpy")
    for g, e in zip(got, expected):
        np.testing.assert_array_equal(g.compute(), e)


def test_dtypes_promote_as_numpys_do():
    x = np.random.default_rng(0).integers(-100, 100, 500, np.int8)
    got = ud.cumulative_sum(da.from_array(x, chunks=33))
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got.compute(), up.cumulative_sum(x))
    np.testing.assert_array_equal(
        ud.cumulative_prod(da.from_array(x, chunks=33)).compute(), up.cumulative_prod(x)
    )


WEIGHTS, DONE = da.full(6, 0.5, chunks=4), da.zeros(6, dtype=bool, chunks=4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ud.scan(x),
        lambda x: ud.cummax(x, reverse=True),
        lambda x: ud.scan(x, reverse=True, segments=up.segments.ends(DONE)),
        lambda x: ud.ema(x, WEIGHTS),
        lambda x: ud.ema(x, 0.5, segments=up.segments.flags(DONE)),
        lambda x: ud.discounted_sum(x, WEIGHTS, DONE),
        lambda x: ud.discounted_sum(x, 0.5, DONE, initial=3.0),
    ],
)
def test_results_have_the_chunks_of_the_input(call):
    # As of a selection: some chunks have no items left. Of such an array Dask's own x[::-1] is empty.
    x = da.arange(6, dtype=float, chunks=((2, 0, 2, 0, 2),))
    assert call(x).chunks == x.chunks
    np.testing.assert_array_equal(call(x).compute(), call(x.rechunk(-1)).compute())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: up.scan(x, initial=2.0, exclusive=True, segments=up.segments.keys(np.array([3]))),
        lambda x: up.ema(x, halflife=1.0, times=np.array([3.0])),
        lambda x: up.ema(x[:, None], halflife=1.0, times=x, axis=0),
        lambda x: up.reduce(x, segments=up.segments.lengths([0, 1, 0])),
    ],
)
def test_one_item_beside_chunks_that_have_none(call):
    x = np.array([5.0])
    np.testing.assert_array_equal(call(da.from_array(x, chunks=((0, 1, 0, 0),))).compute(), call(x))


_GAPS = {"axis": 0, "initial": 2.0}


@pytest.mark.parametrize(
    "call",
    [
        lambda x, weights, marks: up.linear_recurrence(weights, x, axis=0),
        lambda x, weights, marks: up.ema(x, weights, axis=0),
        lambda x, weights, marks: up.ema(x[:1], halflife=weights, axis=0),
        lambda x, weights, marks: up.discounted_sum(x, weights, marks, **_GAPS),
        lambda x, weights, marks: up.reduce(x[:0], segments=up.segments.keys(marks[:0, 1]), axis=0),
    ],
)
def test_chunks_without_items_beside_the_data(call):
    rng = np.random.default_rng(9)
    x, weights, marks = rng.normal(size=(6, 4)), rng.random((1, 4)), rng.integers(0, 2, (6, 4)).astype(bool)
    lazy = [
        da.from_array(given).rechunk(chunks)
        for given, chunks in ((x, -1), (weights, ((0, 1), (4, 0))), (marks, ((2, 0, 4, 0), (0, 4, 0))))
    ]
    np.testing.assert_array_equal(call(*lazy).compute(), call(x, weights, marks))


@pytest.mark.parametrize("spelling", ["flags", "ends", "keys"])
def test_one_mark_behind_a_chunk_that_has_none(spelling):
    marks = getattr(up.segments, spelling)(da.from_array(np.ones(1, int)).rechunk(((0, 1),)))
    assert up.scan(da.ones(1), segments=marks).compute().tolist() == [1.0]


def test_no_items():
    x, start = np.empty((0, 3)), np.arange(3.0)
    lazy = da.from_array(x)
    np.testing.assert_array_equal(ud.reduce(lazy, axis=0, initial=da.from_array(start)).compute(), start)
    keys = up.segments.keys(da.zeros(0, chunks=1))
    assert ud.scan(lazy, axis=0, segments=keys).compute().shape == (0, 3)
    with pytest.raises(up.SegmentError, match="cover 0 to 2"):
        ud.scan(lazy, axis=0, segments=up.segments.lengths([2]))


def test_results_have_this_machines_order_of_bytes():
    x = np.random.default_rng(0).standard_normal(40).astype(">f8")
    chunks = da.from_array(x, chunks=7)
    for function in (up.scan, lambda x: up.ema(x, 0.5), lambda x: up.discounted_sum(x, 0.5)):
        got, want = function(chunks), function(x)
        assert got.dtype == got.compute().dtype == want.dtype == np.float64
        np.testing.assert_array_equal(got.compute(), want)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("function", ["cumulative_sum", "cumulative_prod"])
def test_an_initial_joins_the_first_chunk(function, axis):
    x = np.random.default_rng(0).normal(size=(9, 12)).astype(np.float32)
    got = getattr(ud, function)(da.from_array(x, chunks=(4, 5)), axis=axis, include_initial=True)
    assert got.chunks == (((5, 4, 1), (5, 5, 2)) if axis == 0 else ((4, 4, 1), (6, 5, 2)))
    expected = getattr(up, function)(x, axis=axis, include_initial=True)
    np.testing.assert_array_equal(got.compute(), expected, strict=True)


def test_two_tasks_a_chunk_and_a_shallow_tree():
    x = da.zeros(64 * 8, chunks=8, dtype=np.uint64)
    graph = dict(ud.scan(x, HASH.op).__dask_graph__())
    ours = [k for k in graph if str(k[0]).startswith("upsweep")]
    for kind, most in (("upsweep-sums", 64), ("upsweep-scan", 64), ("upsweep-join", 2 * 64)):
        assert sum(str(k[0]).startswith(kind) for k in ours) <= most
    depth: dict = {}

    def measure(key):
        if key not in depth:
            depth[key] = 1 + max((measure(k) for k in graph[key].dependencies if k in graph), default=0)
        return depth[key]

    assert max(map(measure, ours)) <= 2 * 6 + 4


def test_errors():
    x = da.zeros((4, 4), chunks=2)
    with pytest.raises(up.ShapeError, match="axis"):
        ud.scan(x)
    with pytest.raises(up.OperatorError, match="identity"):
        ud.scan(da.zeros(4, dtype=np.uint64), HASH.op, exclusive=True)
    with pytest.raises(up.OperatorError, match="tuple of 2"):
        ud.scan(da.zeros(4), "affine")
    with pytest.raises(up.ShapeError, match="compute_chunk_sizes"):
        ud.scan(x.ravel()[x.ravel() > 0])


def held(block, folder, block_id=None):
    """All blocks but two wait until a worker has died."""
    (folder / f"block {block_id}").touch()
    while len(list(folder.iterdir())) > 2 and not (folder / "died").exists():
        time.sleep(0.01)
    return block


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_dies_half_way(tmp_path):
    distributed = pytest.importorskip("distributed")
    (x,) = HASH.draw(4000)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = client.run(os.getpid)
        slow = da.from_array(x, chunks=200).map_blocks(held, tmp_path, meta=x[:0])
        future = client.compute(ud.scan(slow, HASH.op))
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.01)
        assert not future.done()
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        (tmp_path / "died").touch()
        got = future.result(timeout=300)
    np.testing.assert_array_equal(got, up.scan(x, HASH.op, engine="numpy"))


@pytest.mark.dear
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"exclusive": True}], ids=str)
@pytest.mark.parametrize("initial", [None, np.uint64(7)])
def test_segments_go_on_from_chunk_to_chunk(keywords, initial):
    (x,), rng = HASH.draw(600), np.random.default_rng(4)
    if keywords.get("exclusive") and initial is None:
        pytest.skip("it has no identity")
    x, flags = x.reshape(300, 2), rng.random((300, 2)) < 0.05
    lazy = da.from_array(x, chunks=(37, 1))
    for told, held in (
        (up.segments.flags(da.from_array(flags, chunks=50)), up.segments.flags(flags)),
        (up.segments.ends(da.from_array(flags, chunks=50)), up.segments.ends(flags)),
        (up.segments.keys(da.from_array(flags, chunks=50)), up.segments.keys(flags)),
        (up.segments.keys(da.from_array(flags[:, 0], chunks=50)), up.segments.keys(flags[:, 0])),
        *[(s, s) for s in (up.segments.lengths([7, 0, 200, 93]), up.segments.offsets([0, 40, 300]))],
    ):
        how = {"axis": 0, "initial": initial, **keywords}
        got = ud.scan(lazy, HASH.op, segments=told, **how)
        assert got.chunks == lazy.chunks
        np.testing.assert_array_equal(
            got.compute(), up.scan(x, HASH.op, segments=held, **how, engine="numpy")
        )
    sums = ud.cumulative_sum(lazy, axis=0, segments=told)
    np.testing.assert_array_equal(sums.compute(), up.cumulative_sum(x, axis=0, segments=held))


def test_what_dasks_threads_run_takes_one_thread_each():
    with up.set_threads(None):
        here = cores.wanted()
    told = (
        da.ones(4, chunks=1)
        .map_blocks(lambda x: np.full_like(x, cores.wanted()))
        .compute(scheduler="threads")
    )
    assert told.tolist() == [1, 1, 1, 1]
    assert cores.wanted() == here


def test_a_thread_that_its_pool_does_not_list_yet(monkeypatch):
    class Listed(set):
        def add(self, thread):
            pass

    monkeypatch.setattr(cores, "cores", lambda: 2)
    threaded = pytest.importorskip("dask.threaded")
    with threaded.ContextAwareThreadPoolExecutor(1) as pool:
        pool._threads = Listed()
        assert pool.submit(cores.wanted).result() == 2
        monkeypatch.setattr(threaded, "default_pool", pool)
        assert pool.submit(cores.wanted).result() == 1


@pytest.mark.parametrize(
    "keywords", [{}, {"reverse": True}, {"exclusive": True, "initial": np.arange(5, 9, dtype="u8")}]
)
def test_groups_in_any_order(keywords):
    (x,), rng = HASH.draw(1200), np.random.default_rng(5)
    x, shop, day = x.reshape(300, 4), rng.choice(["a", "b", "c"], 300), rng.integers(0, 9, 300)
    lazy = da.from_array(x, chunks=(77, 3))
    expected = up.scan(x, HASH.op, axis=0, segments=up.segments.groups(shop, day), **keywords, engine="numpy")
    told = up.segments.groups(shop, da.from_array(day, chunks=50))
    got = up.scan(lazy, HASH.op, axis=0, segments=told, **keywords)
    assert got.chunks == lazy.chunks
    np.testing.assert_array_equal(got.compute(), expected, strict=True)
    # Along the other axis the rows are whole as they are.
    across = up.scan(lazy.rechunk((77, 4)), HASH.op, axis=1, segments=up.segments.groups([1, 2, 1, 2]))
    np.testing.assert_array_equal(
        across.compute(),
        up.scan(x, HASH.op, axis=1, segments=up.segments.groups([1, 2, 1, 2]), engine="numpy"),
    )


@parts(3)
def test_groups_of_tuples_and_in_other_functions(part):
    rng = np.random.default_rng(6)
    a, b = rng.random((2, 60, 3)).astype(np.float16)
    months, times = up.segments.groups(rng.integers(0, 5, 60)), np.sort(rng.random(60))
    la, lb = da.from_array(a, chunks=(7, 2)), da.from_array(b, chunks=(20, 3))
    for got, expected in zip(
        up.scan((la, lb), "argmax", axis=0, segments=months),
        up.scan((a, b), "argmax", axis=0, segments=months, engine="numpy"),
    ):
        np.testing.assert_array_equal(got.compute(), expected, strict=True)
    for function in (
        lambda a, b: up.ema(b, halflife=0.5, times=times, axis=0, segments=months),
        lambda a, b: up.cumulative_sum(b, axis=0, segments=months),
        lambda a, b: up.linear_recurrence(a, b, axis=0, segments=months, initial=np.arange(3.0)),
        lambda a, b: up.reduce(b, "max", axis=0, segments=months),
        lambda a, b: up.ema(b, 0.25, axis=0, segments=months),
        lambda a, b: up.reduce(b, axis=0, reverse=True, segments=months),
    )[part::3]:
        np.testing.assert_array_equal(function(la, lb).compute(), function(a, b), strict=True)


def test_errors_of_groups():
    x = da.zeros(6, chunks=4)
    with pytest.raises(up.SegmentError, match="pass 6 of them"):
        up.scan(x, segments=up.segments.groups([1, 2]))
    with pytest.raises(up.ShapeError, match="compute_chunk_sizes"):
        up.scan(x[x > 0], segments=up.segments.groups([1, 2]))
