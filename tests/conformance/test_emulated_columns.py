"""Ways of columns that few calls take have the oracle's bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import upsweep as up
from conformance.cases import Call
from conformance.check import wrong
from conformance.test_emulated_brought import turned_by
from portions import every
from upsweep.gpu.columns import Columns

KEPT = [
    Call("hash-u64", ((700, 7), 0)),
    Call("hash-u64", ((3, 300, 5), 1), reverse=True, exclusive=True, initial="rows"),
    Call("hash-u64", ((400, 37), 0), segments="lengths"),
    Call("hash-u64", ((300, 40), 0), segments="flags", reverse=True, initial="rows"),
    Call("logaddexp-bfloat16", ((900, 35), 0), exclusive=True),
    Call("add-float16", ((600, 64), 0), segments="lengths", reverse=True),
]
"""Stretches whose last lanes have no column, lines that begin anywhere and lines at sectors; sums twice as wide as items."""
GUARD = "if (WHOLE && 32 * v + own >= COLUMNS) return;"


@pytest.fixture
def costly(emulated, monkeypatch):
    """All operators count as costly, so that columns keep block sums, in the forms of large arrays."""
    for place in ("columns", "text"):
        monkeypatch.setattr(f"upsweep.gpu.{place}.costly", lambda plan: True)
    monkeypatch.setattr("upsweep.gpu.columns._fill", lambda choice: True)
    monkeypatch.setattr("upsweep.gpu.columns.for_one", lambda *given: None)
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    yield emulated
    emulated.forget()


@pytest.mark.parametrize("call", every(4, KEPT), ids=str)
def test_block_sums_in_the_place_of_items(costly, call):
    assert wrong(call, costly) is None
    assert any("upsweep_columns" in name for name in costly.gpu.loaded)


def test_a_lane_without_a_column_that_kept_sums_is_found(costly, monkeypatch):
    from upsweep.gpu import compile

    whole = compile.text
    assert GUARD in whole("columns", "")
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace(GUARD, ""))
    costly.forget()
    assert wrong(KEPT[0], costly)


STRIPS = [
    Call("hash-u64", ((6000, 2), 0), segments="lengths", exclusive=True, initial="rows"),
    Call("hash-u64", ((9000, 3), 0), reverse=True),
]


@pytest.mark.parametrize("call", every(2, STRIPS), ids=str)
def test_a_warp_folds_the_sums_of_its_strips(costly, monkeypatch, call):
    from upsweep.gpu import launch

    chosen = launch.choose

    def in_strips(*of):
        plan, choice = chosen(*of)
        if choice.kernel == "columns":
            choice = replace(choice, shape=replace(choice.shape, items=8, warps=2, strips=4, stages=2))
        return plan, choice

    monkeypatch.setattr(launch, "choose", in_strips)
    assert wrong(call, costly, draws=1) is None


MANY_TILES = [
    Call("hash-u64", ((3, 900, 37), 1)),
    Call("hash-u64", ((1100, 40), 0), reduce=True, reverse=True, initial="rows"),
    Call("hash-u64", ((2, 2500, 5), 1), exclusive=True, initial="rows"),
]


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("call", every(3, MANY_TILES), ids=str)
def test_the_last_tile_of_a_group_adds_the_sums_of_all(emulated, monkeypatch, call, stages):
    """Of groups of groups, too, whether a warp serves all stages or one."""
    from upsweep.gpu import launch

    chosen, levels = launch.choose, []

    def in_low_tiles(*of):
        plan, choice = chosen(*of)
        choice = replace(choice, shape=replace(choice.shape, items=2, warps=8, strips=1, stages=stages))
        levels.append(len(choice.levels()[0]))
        return plan, choice

    monkeypatch.setattr(launch, "choose", in_low_tiles)
    emulated.forget()
    assert wrong(call, emulated, draws=1) is None
    assert min(levels) > 1
    emulated.forget()


IN_ORDER = [
    Call("add-int8", ((400, 101), 0), order="sequential", inside="offset", segments="lengths"),
    Call("max-int8", ((3, 200, 150), 1), order="sequential"),
    Call("last-float32", ((150, 333), 0), order="sequential", reverse=True, exclusive=True, initial="rows"),
    Call("max-bfloat16", ((300, 70), 0), order="sequential", inside="offset"),
]


@pytest.mark.parametrize("call", every(4, IN_ORDER), ids=str)
def test_lines_that_begin_anywhere_are_swept_in_order_too(emulated, call, monkeypatch):
    """Where any order has these bits. No column is walked."""
    monkeypatch.setattr("upsweep.gpu.steps.WALKED", 32)
    emulated.forget()
    emulated.gpu.loaded.clear()
    assert wrong(call, emulated) is None
    assert "upsweep_columns" in emulated.gpu.loaded
    assert "upsweep_walk" not in emulated.gpu.loaded
    emulated.forget()


@pytest.mark.parametrize(("least", "kernel"), [(512, "columns"), (513, "walk")])
def test_long_lines_of_batches_are_swept_in_order_too(emulated, least, kernel, monkeypatch):
    """However many columns there are."""
    monkeypatch.setattr("upsweep.gpu.steps.WALKED", 32)
    monkeypatch.setattr("upsweep.gpu.steps.SWEPT", (least, 1 << 15))
    emulated.forget()
    emulated.gpu.loaded.clear()
    assert wrong(Call("max-int64", ((3, 200, 64), 1), order="sequential"), emulated) is None
    assert f"upsweep_{kernel}" in emulated.gpu.loaded
    emulated.forget()


LOOSE = [
    # With one multiprocessor and with two, so that the last block has fewer columns than the others.
    (Call("affine-float32-float32", ((2, 70, 333), 1), order="sequential"), 3),
    (Call("affine-float16-float16", ((150, 203), 0), order="sequential", reverse=True, exclusive=True), 1),
    (Call("add-float32", ((150, 333), 0), order="sequential", inside="offset", initial="rows"), 1),
    (Call("hash-u64", ((3, 75, 133), 1), order="sequential", segments="flags", reverse=True), 3),
    (Call("add-float16", ((2, 110, 299), 1), order="sequential", segments="lengths"), 2),
    (Call("logaddexp-float16", ((100, 77), 0), order="sequential", outside="offset", out="given"), 1),
    (Call("add-float16", ((150, 138), 0), order="sequential", reverse=True, initial="rows"), 1),
    (Call("add-complex64", ((70, 41), 0), order="sequential", segments="flags", initial="rows"), 1),
    # Along the tree.
    (Call("hash-identity", ((3, 175, 133), 1), segments="flags", reverse=True, exclusive=True), 3),
    (Call("affine-float32-float32", ((2, 470, 333), 1)), 3),
    (Call("affine-float16-float16", ((150, 203), 0), reverse=True, exclusive=True), 1),
    (Call("add-float32", ((150, 333), 0), inside="offset", initial="rows"), 1),
    (Call("add-float16", ((2, 410, 299), 1), segments="lengths"), 2),
    (
        Call("mul-float32", ((500, 177), 0), outside="offset", out="given", segments="flags", initial="rows"),
        1,
    ),
    (Call("affine-complex64-complex64", ((270, 41), 0), segments="line"), 1),
]
"""Calls, and how many multiprocessors they take."""


@pytest.mark.parametrize(
    ("call", "multiprocessors"), every(8, LOOSE), ids=lambda x: str(x) if isinstance(x, Call) else None
)
def test_lines_in_order_that_begin_anywhere_go_in_pieces(emulated, call, multiprocessors, monkeypatch):
    from upsweep.gpu.walk import Walk

    found, wanted = set(), Walk.spec
    monkeypatch.setattr(Walk, "spec", lambda self, plan: found.add(self.walking) or wanted(self, plan))
    monkeypatch.setattr("upsweep.gpu.shapes.walks.MULTIPROCESSORS", multiprocessors)
    monkeypatch.setattr("upsweep.gpu.shapes.walks.LOOSE_ROWS", 0)
    for name, size in {"LONG": 0, "HIGH": 1 << 20, "TREE_WALKERS": 1, "TREE_SHARE": 0}.items():
        monkeypatch.setattr(f"upsweep.gpu.shapes.walks.{name}", size)
    monkeypatch.setattr("upsweep.gpu.walk.variant_of", lambda *what: what)
    emulated.forget()
    assert wrong(call, emulated) is None
    assert found
    assert all(walking.loose and walking.walkers > 1 for walking in found)
    emulated.forget()


CHAINED = [
    Call("max-float32", ((1300, 5), 0), segments="lengths", exclusive=True, initial="rows"),
    Call("min-bfloat16", ((600, 70), 0), segments="flags", initial="scalar"),
    Call("add-int32", ((3, 500, 40), 1), reverse=True),
    Call("last-float32", ((700, 3), 0), segments="line"),
]


@pytest.mark.parametrize("call", every(2, CHAINED), ids=str)
def test_prefixes_one_after_the_other_where_any_order_has_their_bits(emulated, call, monkeypatch):
    """In lines that begin anywhere and in lines at sectors; where lanes share a column they go along the tree."""
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    emulated.gpu.loaded.clear()
    assert wrong(call, emulated) is None
    assert "upsweep_columns" in emulated.gpu.loaded
    emulated.forget()


SHAPED = [
    # One block of sixteen warps, three warps that walk batches, and eight that hold half the items.
    Call("min-int32", ((4200, 35), 0), segments="lengths"),
    Call("add-int16", ((6, 60, 40), 1)),
    Call("add-float32", ((130, 70), 0), segments="line", exclusive=True),
]


@pytest.mark.parametrize("call", every(3, SHAPED), ids=str)
def test_tiles_in_other_numbers_of_warps(emulated, call, monkeypatch):
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 0)
    emulated.forget()
    assert wrong(call, emulated) is None
    emulated.forget()


HELD = [
    Call("max-int8", ((3000, 7), 0), segments="lengths"),
    Call("min-int8", ((2500, 30), 0), segments="line", exclusive=True),
    Call("add-int8", ((2900, 5), 0), segments="line", reverse=True),
    Call("add-uint8", ((2100, 11), 0), segments="offsets", reverse=True, exclusive=True),
    Call("xor-bool", ((1500, 65), 0), segments="lengths"),
    Call("add-int8", ((700, 101), 0), segments="line"),
    # Tiles of six warps, which are no blocks of the tree.
    Call("add-uint8", ((1700, 101), 0), reverse=True),
    # Batches that begin at a word, but not at a piece of 16 bytes.
    Call("add-int8", ((3, 804, 7), 1), segments="lengths"),
    Call("max-int8", ((3, 802, 10), 1), reverse=True, exclusive=True),
    # Batches that begin within words.
    Call("max-int8", ((3, 805, 5), 1), exclusive=True, initial="scalar", segments="lengths"),
    Call("add-int8", ((3, 3073, 33), 1), reverse=True, segments="line"),
    Call("xor-bool", ((1, 9216, 5), 1), inside="offset", outside="offset", out="given"),
    # Items of two bytes, by halves of words.
    Call("max-int16", ((3, 1005, 3), 1), exclusive=True, initial="scalar", segments="lengths"),
    Call("add-int16", ((3, 1003, 17), 1), reverse=True, segments="line"),
    # Initial values that travel with the launch.
    Call("max-int8", ((3000, 7), 0), segments="lengths", initial="scalar"),
    Call("add-uint8", ((2100, 11), 0), segments="offsets", reverse=True, exclusive=True, initial="scalar"),
    Call("xor-bool", ((1500, 65), 0), exclusive=True, initial="scalar"),
]


@pytest.mark.parametrize("call", every(6, HELD), ids=str)
def test_lines_of_bytes_that_lanes_hold_whole(emulated, call, monkeypatch):
    """Segments start within runs of lines, and tiles and batches end within them."""
    from upsweep.gpu import columns

    found, wanted = set(), columns._are_flat
    monkeypatch.setattr(columns, "FLAT_LEAST", 0)
    monkeypatch.setattr(columns, "_are_flat", lambda *given: found.add(wanted(*given)) or wanted(*given))
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    assert wrong(call, emulated) is None
    assert True in found
    emulated.forget()


FULL = [
    Call("add-float32", ((700, 128), 0), exclusive=True, initial="rows"),
    Call("hash-u64", ((300, 96), 0), reverse=True, segments="flags"),
    Call("affine-float32-float32", ((600, 64), 0), segments="lengths"),
    Call("max-float64", ((3, 400, 64), 1), reverse=True, exclusive=True),
    Call("add-int8", ((500, 256), 0)),
    Call("add-float16", ((600, 64), 0), reverse=True),
    Call("max-bfloat16", ((400, 128), 0), segments="line"),
    Call("max-int8", ((500, 128), 0), initial="rows"),
]


@pytest.mark.parametrize(("call", "fill"), every(6, itertools.product(FULL, [False, True])), ids=str)
def test_lines_at_sectors_without_idle_lanes_go_one_by_one(emulated, call, fill, monkeypatch):
    """In two stages, and in the forms of large arrays."""
    from upsweep.gpu import lines

    found, wanted = set(), lines._are_full
    monkeypatch.setattr(lines, "_are_full", lambda *given: found.add(wanted(*given)) or wanted(*given))
    monkeypatch.setattr("upsweep.gpu.columns._fill", lambda choice: fill)
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    emulated.gpu.loaded.clear()
    assert wrong(call, emulated) is None
    assert found == {True}
    assert "upsweep_columns" in emulated.gpu.loaded
    emulated.forget()


LARGE = [
    (Call("add-float64", ((900, 24), 0), exclusive=True), (16, 8, 4)),
    (Call("max-float64", ((700, 31), 0), reverse=True, initial="rows"), (16, 8, 3)),
    (Call("affine-float32-float32", ((3, 300, 40), 1), reverse=True), (8, 16, 3)),
    (Call("add-complex64", ((300, 80), 0)), (16, 4, 2)),
    (Call("max-int64", ((500, 101), 0), exclusive=True), (8, 8, 3)),
    (Call("affine-float32-float32", ((400, 127), 0)), (16, 4, 3)),
    (Call("add-float32", ((500, 101), 0), reverse=True), (16, 8, 3)),
    (Call("add-float32", ((900, 19), 0), reverse=True, exclusive=True), (32, 8, 4)),
    (Call("affine-float16-float16", ((2300, 5), 0), reverse=True), (32, 8, 2)),
    (Call("affine-float16-float16", ((2, 1100, 12), 1), exclusive=True), (32, 8, 3)),
    (Call("max-float64", ((1500, 6), 0), exclusive=True), (16, 8, 4)),
    (Call("affine-float32-float32", ((3, 2500, 3), 1), reverse=True), (16, 16, 3)),
    (Call("affine-complex64-complex64", ((1300, 3), 0), reverse=True), (16, 8, 4)),
    (Call("add-float32", ((300, 204), 0), exclusive=True, initial="rows"), (16, 8, 3)),
]
"""Calls, with the items, warps and stages of their tiles. The last one has lines that begin at 16 bytes within sectors."""


@pytest.mark.parametrize(
    ("call", "form"), every(6, LARGE), ids=lambda x: str(x) if isinstance(x, Call) else None
)
def test_lines_in_the_forms_of_large_arrays(emulated, call, form, monkeypatch):
    from upsweep.gpu import columns

    found, wanted = set(), columns.Columns.spec
    monkeypatch.setattr(columns, "_fill", lambda choice: True)
    monkeypatch.setattr(columns, "LONG", 1)
    monkeypatch.setattr(columns, "for_one", lambda *given: None)
    monkeypatch.setattr(
        columns.Columns, "spec", lambda self, plan: found.add(self.shape) or wanted(self, plan)
    )
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    assert wrong(call, emulated) is None
    assert {(each.items, each.warps, each.stages) for each in found} == {form}
    emulated.forget()


STARTED = [
    Call("add-int8", ((300, 64), 0), initial="scalar"),
    Call("mul-bool", ((300, 36), 0), exclusive=True, initial="scalar"),
    Call("min-uint8", ((300, 101), 0), segments="lengths", initial="scalar", reverse=True),
    Call("max-int8", ((20, 64), 0), initial="scalar"),
    Call("add-uint8", ((300, 2), 0), initial="scalar"),
]


@pytest.mark.parametrize("call", every(6, STARTED), ids=str)
def test_columns_of_bytes_are_words_with_an_initial_value_in_each_byte(emulated, call, monkeypatch):
    from upsweep.gpu import bytewise

    words, wanted = [], bytewise._words
    monkeypatch.setattr(bytewise, "_words", lambda *given: words.append(given) or wanted(*given))
    emulated.forget()
    assert wrong(call, emulated) is None
    assert words
    emulated.forget()


GAPS = [
    Call("max-int8", ((700, 37), 0), inside="stepped", segments="lengths"),
    Call("add-uint8", ((301, 131), 0), inside="stepped", segments="line", reverse=True, exclusive=True),
    Call("min-int8", ((1300, 13), 0), inside="padded", segments="offsets"),
]
SKEWED = {
    "inputs": ("u1", (301, 70), 0, {}),
    "inputs backwards": ("u2", (301, 41), 0, {"reverse": True, "exclusive": True}),
    "results": ("u1", (41, 333), 1, {"exclusive": True}),
    "results backwards": ("u2", (70, 145), 1, {"reverse": True, "initial": 3}),
    "inputs within segments": ("u2", (333, 70), 0, {"segments": True, "exclusive": True}),
    "results within segments": ("u1", (43, 777), 1, {"segments": True, "reverse": True}),
}
"""Narrow items of Fortran's order that touch along the axis, in the input or in the results."""


@pytest.fixture
def skewed(emulated, monkeypatch) -> Callable[[str], bool]:
    """Whether such a scan has the right bits."""
    found, spec = [], Columns.spec
    monkeypatch.setattr(Columns, "spec", lambda made, plan: found.append(spec(made, plan)) or found[-1])

    def right(name: str) -> bool:
        dtype, shape, axis, forms = SKEWED[name]
        op, rng, forms = up.Operator(turned_by, 0, "turned"), np.random.default_rng(1), dict(forms)
        if forms.pop("segments", False):
            forms["segments"] = up.segments.flags(rng.random(shape[axis]) < 0.02)
        x = rng.integers(0, 1 << 16, shape).astype(dtype)
        lies = emulated.put(x.T.ravel().view(np.uint8)).view(dtype).reshape(shape[::-1]).T
        emulated.forget()
        got = up.scan(emulated.made(lies), op, axis=axis, **forms).get()
        emulated.forget()
        assert ("ITEMS_BACKWARDS" if forms.get("reverse") else "ITEMS_WITHIN") in found[0]
        return np.array_equal(got, up.scan(x, op, axis=axis, engine="numpy", **forms))

    return right


@pytest.mark.parametrize("name", every(3, SKEWED))
def test_narrow_items_that_touch_along_the_axis_are_turned_in_their_tile(skewed, name):
    assert skewed(name)


@pytest.mark.parametrize(
    ("name", "right", "fault"),
    every(
        2,
        [
            ("results", "if (last + b >= first) put(last + b);", ";"),
            ("inputs backwards", "from = BACK ? RUN - bytes : 0;", "from = 0;"),
        ],
    ),
)
def test_a_run_that_is_cut_short_is_found(skewed, name, right, fault, monkeypatch):
    from upsweep.gpu import compile

    text = compile.text
    assert right in text("columns", "")
    monkeypatch.setattr(compile, "text", lambda *what: text(*what).replace(right, fault))
    assert not skewed(name)


@pytest.mark.parametrize("call", every(4, GAPS), ids=str)
def test_bytes_that_would_go_one_by_one_are_brought_first(emulated, call, monkeypatch):
    monkeypatch.setattr("upsweep.gpu.columns.FLAT_LEAST", 0)
    monkeypatch.setattr("upsweep.gpu.shapes.bringing.LEAST", 0)
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    emulated.gpu.loaded.clear()
    assert wrong(call, emulated) is None
    assert {"upsweep_bring", "upsweep_columns"} <= set(emulated.gpu.loaded)
    emulated.forget()


CUT = {
    "twelve of thirteen": ("i1", (3, 3000, 13), "add", {"reverse": True, "exclusive": True}),
    "within segments": ("u1", (3, 3001, 13), "min", {"segments": True, "initial": 7}),
    "truths, reduced": ("?", (3, 3000, 9), "xor", {"reduce": True}),
    "twelve of thirteen, reduced": ("u1", (2, 3001, 13), "add", {"reduce": True, "initial": 3}),
}


@pytest.mark.parametrize("name", every(4, CUT))
def test_lines_of_bytes_with_gaps_go_as_words(emulated, name, monkeypatch):
    dtype, shape, op, forms = CUT[name]
    found, spec = set(), Columns.spec
    monkeypatch.setattr(Columns, "spec", lambda made, plan: found.add(made.layout.bytes) or spec(made, plan))
    monkeypatch.setattr("upsweep.gpu.batches.BATCHED_ROWS", 1 << 20)
    emulated.forget()
    rng, forms = np.random.default_rng(7), dict(forms)
    drawn = rng.integers(0, 2 if dtype == "?" else 200, shape).astype(dtype)
    lines = emulated.put(drawn.ravel().view(np.uint8)).view(dtype).reshape(shape)
    scan = up.reduce if forms.pop("reduce", False) else up.scan
    if forms.get("segments"):
        forms["segments"] = up.segments.flags(rng.random(shape[1]) < 0.05)
    got = scan(emulated.made(lines[..., 1:]), op, axis=1, **forms).get()
    assert np.array_equal(got, scan(drawn[..., 1:].copy(), op, axis=1, **forms))
    assert found == {shape[-1] - 1}
    emulated.forget()
