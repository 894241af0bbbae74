"""Scans of arrays that are brought into another order first have the bits of a scan of the same items."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep.gpu import alike, alike_lines, brought, columns, compile

SQUARES = {
    "pieces of two bytes": ("u2", (17, 300, 19)),
    "pieces of four bytes one way": ("u2", (24, 150, 22)),
    "pieces of eight bytes": ("u2", (20, 3, 150, 36)),
    "lanes without a column within segments": ("u4", (33, 150, 9)),
    "pieces of four bytes within segments": ("u4", (33, 150, 28)),
}
"""Arrays that lie in Fortran's order, so that columns are a rectangle."""
AMONG = {"bytes": ("u1", (40, 150, 7)), "halves": ("u2", (20, 200, 5)), "words": ("u4", (33, 120, 3))}
"""Lines of few neighbours, that lie with the first two dimensions in the other order."""


def turned_by(a, b):
    return (a << 3) + (a >> 5) ^ b


@pytest.fixture
def long(emulated, monkeypatch):
    """All arrays are long enough to be brought."""
    monkeypatch.setattr("upsweep.gpu.shapes.bringing.LEAST", 0)
    monkeypatch.setattr("upsweep.gpu.shapes.bringing.SQUARE_LEAST", 0)
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    brought._moves_of.cache_clear()
    emulated.gpu.loaded.clear()
    yield emulated
    emulated.forget()
    brought._moves_of.cache_clear()


def same(emulated, x: np.ndarray, lies: np.ndarray, axis: int, **forms) -> bool:
    """Whether a scan of `lies`, which has the items of x, is that of x. The operator is neither associative nor commutative."""
    op = up.Operator(turned_by, 0, "turned")
    got = up.scan(emulated.made(lies), op, axis=axis, **forms)
    return np.array_equal(got.get(), up.scan(x, op, axis=axis, engine="numpy", **forms))


def fortran(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(x)


@pytest.mark.parametrize("name", every(4, SQUARES))
@pytest.mark.parametrize(
    "forms", every(4, [{"reverse": True, "exclusive": True}, {}]), ids=["backwards", "forwards"]
)
def test_rectangles_whose_pieces_are_small_are_brought(long, name, forms):
    dtype, shape = SQUARES[name]
    axis, rng = len(shape) - 2, np.random.default_rng(1)
    x = rng.integers(0, 1 << 16, shape, dtype)
    given = {"segments": up.segments.flags(rng.random(shape[axis]) < 0.1)} if "segments" in name else {}
    assert same(long, x, fortran(x), axis, **forms, **given)
    assert {"upsweep_bring", "upsweep_columns"} <= long.gpu.loaded


@pytest.mark.parametrize(
    ("dtype", "shape", "axis"), every(2, [("u1", (301, 35), 0), ("u2", (35, 301), 1), ("u1", (35, 301), 1)])
)
def test_narrow_rows_along_memory_are_scanned_there(long, dtype, shape, axis):
    """Inputs or results are brought, in which rows lie across. A flag for each item lies as results do."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, shape, dtype)
    assert same(long, x, fortran(x), axis, segments=up.segments.flags(rng.random(shape[axis]) < 0.1))
    assert "upsweep_bring" in long.gpu.loaded
    assert "upsweep_columns" not in long.gpu.loaded
    assert same(long, x, fortran(x), axis, segments=up.segments.flags(rng.random(shape) < 0.1))
    assert ("upsweep_columns" in long.gpu.loaded) == (axis == 0)


STRETCHES = {
    "backwards": ("u4", (16, 700, 9), {"reverse": True}),
    "of eight bytes within segments": ("u8", (6, 301, 11), {"segments": 0.05}),
    "exclusive, with an initial value": ("u4", (9, 701, 5), {"exclusive": True, "initial": 5}),
    "among other rows": ("u4", (2, 7, 300, 9), {}),
}
"""Few columns that lie along one dimension in the array, and along another in the results: all are in one tile."""


@pytest.mark.parametrize("name", every(4, STRETCHES))
def test_stretches_of_few_columns_are_turned_in_one_tile(long, name, monkeypatch):
    dtype, shape, forms = STRETCHES[name]
    found, spec = set(), columns.Columns.spec
    monkeypatch.setattr(
        columns.Columns, "spec", lambda made, plan: found.add(made.shape.stretch) or spec(made, plan)
    )
    rng, forms = np.random.default_rng(6), dict(forms)
    x = rng.integers(0, 1 << 30, shape, dtype)
    if "segments" in forms:
        forms["segments"] = up.segments.flags(rng.random(shape[-2]) < forms["segments"])
    assert same(long, x, np.ascontiguousarray(x.swapaxes(-1, -3)).swapaxes(-1, -3), len(shape) - 2, **forms)
    assert found == {shape[-1] * shape[-3]}


BESIDE = {
    "three of eight bytes": ("u8", (1301, 3), {}),
    "five backwards": ("u4", (2203, 5), {"reverse": True, "exclusive": True}),
    "twelve within segments": ("u4", (1501, 12), {"segments": 0.05, "initial": 3}),
    "two among others": ("u8", (3, 901, 2), {"reverse": True}),
    "a tile cut short": ("u4", (101, 7), {}),
}
"""Few rows that lie each by itself in the array, and one beside another in the results."""


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
@pytest.mark.parametrize("name", every(3, BESIDE))
def test_few_rows_beside_each_other_are_in_one_tile(long, name, there, monkeypatch):
    dtype, shape, forms = BESIDE[name]
    monkeypatch.setattr("upsweep.gpu.crosswise.LEAST", 0)
    found, spec = set(), columns.Columns.spec
    monkeypatch.setattr(
        columns.Columns, "spec", lambda made, plan: found.add(made.shape.stretch) or spec(made, plan)
    )
    rng, forms, axis = np.random.default_rng(6), dict(forms), len(shape) - 2
    x = rng.integers(0, 1 << 30, shape, dtype)
    if "segments" in forms:
        forms["segments"] = up.segments.flags(rng.random(shape[axis]) < forms["segments"])
    lines = long.put(np.zeros(x.nbytes, np.uint8)).view(dtype).reshape(*shape[:-2], *shape[:-3:-1])
    apart = lines.swapaxes(-1, -2)
    apart[...] = x if there else 7
    op, out = up.Operator(turned_by, 0, "turned"), {} if there else {"out": long.made(apart)}
    got = up.scan(long.made(apart if there else x), op, axis=axis, **forms, **out)
    assert np.array_equal(got.get(), up.scan(x, op, axis=axis, engine="numpy", **forms))
    assert found == {shape[-1]}


def test_a_run_in_the_place_of_another_is_found(long, monkeypatch):
    text, right = compile.text, "byte / BYTES_RUN * PAD"
    assert right in text("columns", "")
    monkeypatch.setattr(compile, "text", lambda *what: text(*what).replace(right, "0"))
    monkeypatch.setattr("upsweep.gpu.crosswise.LEAST", 0)
    x = np.random.default_rng(6).integers(0, 1 << 30, (1301, 3), np.uint64)
    assert not same(long, x, fortran(x), 0)


def test_results_in_the_stretch_of_others_are_found(long, monkeypatch):
    text, right = compile.text, "side * STEP + line * SIZE"
    assert right in text("columns", "")
    monkeypatch.setattr(
        compile, "text", lambda *what: text(*what).replace(right, "side * STEP + (line ^ 1) * SIZE")
    )
    x = np.random.default_rng(6).integers(0, 1 << 30, (9, 700, 16), np.uint32)
    assert not same(long, x, fortran(x), 1, reverse=True)


def test_a_rectangle_of_whole_pieces_is_turned_in_its_tile(long):
    x = np.random.default_rng(1).integers(0, 1 << 16, (24, 150, 32), np.uint16)
    assert same(long, x, fortran(x), 1)
    assert "upsweep_bring" not in long.gpu.loaded


@pytest.mark.parametrize("name", every(4, AMONG))
@pytest.mark.parametrize("segmented", every(4, [True, False]), ids=["segments", "whole"])
def test_few_neighbours_in_both_orders_are_brought(long, name, segmented):
    dtype, shape = AMONG[name]
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, shape, dtype)
    lies = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    flags = rng.random(shape[1]) < 0.1
    given = {"segments": up.segments.flags(flags)} if segmented else {}
    assert same(long, x, lies, 1, reverse=segmented, **given)
    assert {"upsweep_bring", "upsweep_columns"} <= long.gpu.loaded


def test_few_wide_neighbours_in_both_orders_stay_where_they_lie(long):
    x = np.random.default_rng(2).integers(0, 1 << 60, (33, 120, 3), np.uint64)
    assert same(long, x, np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1), 1)
    assert "upsweep_bring" not in long.gpu.loaded


@pytest.mark.parametrize(("n", "axis"), every(2, [(3, 1), (5, 0), (17, 1), (8, 0)]))
def test_short_rows_are_turned_by_their_lanes(long, monkeypatch, n, axis):
    monkeypatch.setattr("upsweep.gpu.short.TURNED_LEAST", 0)
    x = np.random.default_rng(4).integers(0, 1 << 16, (n, 1030), np.uint16)
    x = x.T if axis else x
    segments = up.segments.flags(np.arange(n) % 3 == 1)
    assert same(long, x, fortran(x), axis, segments=segments, reverse=n == 3)
    assert long.gpu.loaded == {"upsweep_short"}


ALIKE = {
    "columns between": ((3, 37, 4, 9), (0, 2), {"reverse": True}),
    "reduced": ((4, 50, 3), (0,), {"reduce": True}),
    "initial of each column": ((4, 50, 3), (0,), {"initial": True, "exclusive": True}),
    "segments of their own": ((4, 50, 3), (0,), {"segments": True}),
}
"""Shapes, the dimensions along which all rows read the same items, and forms."""


@pytest.mark.parametrize("name", ALIKE)
def test_rows_that_are_alike_are_scanned_once(long, name, monkeypatch):
    shape, along, forms = ALIKE[name]
    made, copied = [], alike.copied
    monkeypatch.setattr(alike, "ALIKE", 0)
    monkeypatch.setattr(alike_lines, "LINES", 0)
    monkeypatch.setattr(alike, "copied", lambda *arrays: made.append(1) or copied(*arrays))
    rng, forms = np.random.default_rng(3), dict(forms)
    one = [1 if d in along else n for d, n in enumerate(shape)]
    op, scan = up.Operator(turned_by, 0, "turned"), up.reduce if forms.pop("reduce", False) else up.scan
    starts = (
        {"initial": np.broadcast_to(np.arange(3, dtype="u2"), (4, 3))} if forms.pop("initial", False) else {}
    )
    there = {name: long.made(values) for name, values in starts.items()}
    if "segments" in forms:
        forms["segments"] = up.segments.flags(rng.random(shape) < 0.2)
    # The second call is one that is known.
    for _ in range(2):
        x = np.broadcast_to(rng.integers(0, 1 << 16, one, np.uint16), shape)
        got = scan(long.made(x), op, axis=1, **forms, **there)
        assert np.array_equal(got.get(), scan(x.copy(), op, axis=1, engine="numpy", **forms, **starts))
    assert len(made) >= len(along) if "segments" not in forms else not made
