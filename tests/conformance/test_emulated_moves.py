"""The kernels of applications give NumPy's results on a machine without a GPU, in blocks that take turns."""

from __future__ import annotations

import numpy as np
import pytest

from portions import every
from upsweep.apps import moving
from upsweep.dtypes import named
from upsweep.gpu import compile, driver, flagged, kept, moves
from upsweep.gpu.arrays import view

RNG = np.random.default_rng(3)
BLOCK = (256, 2, 1)
"""A small shape of a block that sorts."""


@pytest.fixture
def sorting(emulated, monkeypatch):
    """The engine's sorts, by one block of the emulator or by all three."""
    from upsweep.gpu import sorting

    monkeypatch.setattr(sorting, "SMALL", {512: BLOCK, 3 * 512: BLOCK})
    sorting._sort_of.cache_clear()
    yield sorting
    sorting._sort_of.cache_clear()


def keys(name, n):
    """All bits of a key vary, or those of one byte."""
    x = RNG.integers(0, 256, n * np.dtype(name).itemsize, np.uint8).view(name)
    yield np.where(np.isnan(x), np.nan, x).astype(name) if x.dtype.kind == "f" else x
    yield RNG.integers(0, 5, n).astype(name)


@pytest.mark.parametrize(
    ("name", "n"),
    every(4, [("int16", 512), ("int16", 513), ("float32", 1100), ("uint8", 1536), ("int64", 1535)]),
)
def test_few_keys_are_sorted_in_one_launch(emulated, sorting, name, n):
    values = np.arange(n)[::-1].copy()
    for x in keys(name, n):
        order = np.argsort(x, kind="stable")
        given = emulated.value(x)
        got, moved = sorting.radix_sort(given, emulated.value(values), falling=False)
        np.testing.assert_array_equal(emulated.host(got), x[order])
        np.testing.assert_array_equal(emulated.host(moved), values[order])
        np.testing.assert_array_equal(emulated.host(sorting.argsort(given, falling=False)), order)
    assert emulated.gpu.loaded == {"upsweep_small"}


def test_blocks_that_do_not_meet_are_found(emulated, sorting, monkeypatch):
    whole = compile.text
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace("meet(p, moves);", ""))
    x = next(keys("int16", 1536))
    got = emulated.host(sorting.radix_sort(emulated.value(x), None, falling=False)[0])
    assert (got != np.sort(x)).any()


@pytest.mark.parametrize("tiles", every(2, ["few", "many"]))
def test_a_selection_keeps_what_numpy_keeps(emulated, monkeypatch, tiles):
    """A result of at most a sixteenth lies in memory of that size. All shares are selected by the same kernels."""
    if tiles == "many":
        monkeypatch.setattr(kept, "SHAPES", {1: (32, 32, 16, 5), 4: (32, 16, 4, 5)})
        monkeypatch.setattr(kept, "WRITES", {True: 1024, False: 2048})
    for share in (0, 0.01, 0.06, 0.07, 1):
        check_selections(emulated, share)


def check_selections(emulated, share):
    n = 20_001
    keep, x = RNG.random(n + 3)[3:] < share, RNG.integers(0, 99, n).astype(np.int32)
    runs = np.cumsum(keep, dtype=np.int32)
    heads = np.flatnonzero(np.diff(runs, prepend=-1))
    for how, given, flags, wanted in (
        (kept.Select("u8", 1, values=False, places=True), None, keep, [np.flatnonzero(keep)]),
        (kept.Select("u32", 4, places=True), x, keep, [x[keep], np.flatnonzero(keep)]),
        (kept.Select("u32", 4, rest=True), x, keep, [np.concatenate([x[keep], x[~keep]])]),
        (kept.Select("i32", 4, runs=True, lengths=True), runs, None, [runs[heads], np.diff(heads, append=n)]),
    ):  # fmt: skip
        count, made = selected(emulated, how, given, flags)
        assert count == (len(heads) if how.runs else keep.sum())
        few = count <= n // kept.FEW and not how.rest
        for got, want in zip(made, wanted, strict=True):
            assert got.shape[0] == (n // kept.FEW if few else n)
            np.testing.assert_array_equal(emulated.host(got)[: len(want)], want)


def selected(emulated, how, *given):
    """The number of kept items, and the memory that begins with them."""
    seen = [None if v is None else view(emulated.value(v)) for v in given]
    like = next(v for v in seen if v is not None).owner
    return kept.Selection(how, *seen).kept(like, tuple(0 if v is None else v.ptr for v in seen))


@pytest.fixture
def three_blocks(emulated, monkeypatch):
    """Flags in shared memory of the emulator's three blocks, which run at once."""
    room = {"MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 60_000}
    monkeypatch.setattr(driver, "attribute", lambda device, name: room.get(name, 3))
    monkeypatch.setattr(flagged, "MOST", 0)
    monkeypatch.setattr(flagged, "THREADS", 64)
    monkeypatch.setattr(flagged, "BLOCKS", 1)
    flagged.course.cache_clear()
    yield emulated
    flagged.course.cache_clear()


WHERE = kept.Select("u8", 1, values=False, places=True)


@pytest.mark.parametrize("share", every(4, [0, 0.01, 0.06, 0.07, 0.5, 1, "in one place"]))
def test_flags_are_read_once_in_one_launch(three_blocks, share):
    for n, at in ((1, 3), (2047, 1), (2049, 0), (20_001, 5), (33_000, 0)):
        keep = RNG.random(n) < share if share != "in one place" else np.arange(n) // (n // 3 + 1) == 1
        flags, x = placed(three_blocks, keep, at), RNG.random(2 * n).view(np.complex128)
        items = placed(three_blocks, x, 16)
        count, made = kept.Selection(WHERE, None, view(flags)).kept(flags, (0, flags.ptr))
        assert count == keep.sum()
        np.testing.assert_array_equal(three_blocks.host(made[0])[:count], np.flatnonzero(keep))
        wide = kept.Selection(kept.Select("uint4", 16), view(items), view(flags))
        count, made = wide.kept(items, (items.ptr, flags.ptr))
        assert count == keep.sum()
        np.testing.assert_array_equal(three_blocks.host(made[0])[:count], x[keep])
    assert three_blocks.gpu.loaded == {"upsweep_flagged"}


def test_places_for_which_there_is_no_room_are_not_written(three_blocks):
    keep, room = RNG.random(9000) < 0.4, three_blocks.value(np.full(1000, -7))
    flags, count = three_blocks.value(keep), three_blocks.value(np.zeros(1, np.int64))
    kept.Selection(WHERE, None, view(flags)).into(flags, (0, flags.ptr), [999, 0, room.ptr, 0], count.ptr)
    assert three_blocks.host(count) == keep.sum()
    np.testing.assert_array_equal(three_blocks.host(room), [*np.flatnonzero(keep)[:999], -7])


def test_blocks_that_do_not_wait_for_counts_are_found(three_blocks, monkeypatch):
    whole, waiting = compile.text, " while ((u32)(w >> 32) != epoch);"
    monkeypatch.setattr(
        compile,
        "text",
        lambda *what: whole(*what).replace(
            f"do w = read_count(nodes + b);{waiting}", "w = read_count(nodes + b);"
        ),
    )
    keep = RNG.random(20_001) < 0.3
    count, made = selected(three_blocks, WHERE, None, keep)
    assert count != keep.sum() or (three_blocks.host(made[0])[:count] != np.flatnonzero(keep)).any()


def test_flags_that_do_not_fit_into_shared_memory_go_by_two_launches(three_blocks):
    keep = RNG.random(1_500_000) < 0.001
    assert flagged.course("u8", False, True, len(keep), 0, 0) is None


@pytest.mark.parametrize("move", every(4, ["where", "pack", "runs", "unique"]))
def test_arrays_like_earlier_ones_are_not_checked_again(emulated, monkeypatch, move):
    """Wherever they lie, unless an item lies at no multiple of its size. The engine is told of an array once more then."""
    monkeypatch.setattr(moving, "known_moves", {})
    n, checked, way = 300, [], getattr(moves, move)

    def first(*arrays):
        checked.append(arrays)
        return way(*arrays)

    for turn, at in enumerate([0, 8, 4, 6, 12]):
        flags, x = RNG.random(n) < 0.3, RNG.integers(0, 3, n).astype(np.int32)
        heads = np.flatnonzero(np.diff(x, prepend=-1))
        given, wanted = {
            "where": ([flags], [np.flatnonzero(flags)]),
            "pack": ([x, flags], [x[flags]]),
            "unique": ([x], [x[heads]]),
            "runs": ([x], [x[heads], np.diff(heads, append=n)]),
        }[move]
        made = moving.recalled(move, first, *(placed(emulated, v, at) for v in given))
        for got, want in zip(made if move == "runs" else [made], wanted, strict=True):
            np.testing.assert_array_equal(emulated.host(got), want)
        assert len(checked) == 1 + (move != "where" and turn >= 3)


@pytest.mark.parametrize("name", every(6, ["bfloat16", "float8_e4m3fn", "float16"]))
def test_narrow_floats_that_lie_apart_are_moved(emulated, name):
    x = np.repeat(RNG.integers(0, 9, 300), 2).astype("f4").astype(named(name))
    got, counts = moves.runs(emulated.made(emulated.value(x).held[::2]))
    heads = np.flatnonzero(np.diff(x[::2].astype("f4"), prepend=-1))
    assert emulated.host(got).tobytes() == x[::2][heads].tobytes()
    np.testing.assert_array_equal(emulated.host(counts), np.diff(heads, append=300))


@pytest.mark.parametrize("bins", every(2, [7, 5000]))
def test_a_histogram_says_how_many_items_lie_in_its_bins(emulated, bins):
    x = RNG.integers(-2, bins + 2, 3001).astype(np.int32)
    counts, total = moves.count(emulated.value(x), bins)
    within = x[(x >= 0) & (x < bins)]
    np.testing.assert_array_equal(emulated.host(counts), np.bincount(within, minlength=bins))
    assert total == len(within)


def test_runs_are_written_out(emulated):
    x, counts = RNG.integers(0, 99, 700), RNG.integers(0, 9, 700)
    given = emulated.value(x), emulated.value(counts)
    np.testing.assert_array_equal(emulated.host(moves.repeat(*given, None)), np.repeat(x, counts))
    owners, places = moves.owners(given[1], None)
    owner = np.repeat(np.arange(700), counts)
    np.testing.assert_array_equal(emulated.host(owners), owner)
    np.testing.assert_array_equal(
        emulated.host(places), np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    )


@pytest.mark.parametrize("at", every(2, [0, 4]))
def test_runs_are_written_into_given_memory(emulated, at):
    """Nobody waits for their number. Behind the last item, and where a count is negative, nothing is written."""
    x, counts = RNG.integers(0, 99, 2100).astype(np.int32), RNG.integers(0, 9, 2100)
    want = np.repeat(x, counts)
    for room in (0, 1, 5000, len(want), len(want) + 9000):
        out = placed(emulated, np.full(room, -7, np.int32), at)
        count = moves.fill(emulated.value(x), emulated.value(counts), out)
        assert emulated.host(count) == len(want)
        written = np.append(want, np.full(max(0, room - len(want)), -7))
        np.testing.assert_array_equal(emulated.host(out), written[:room])
    counts[1500] = -3
    out = placed(emulated, np.full(5000, -7, np.int32), at)
    assert emulated.host(moves.fill(emulated.value(x), emulated.value(counts), out)) < 0
    assert (emulated.host(out) == -7).all()


def placed(emulated, x, at):
    """An array that lies so many bytes behind a multiple of 16."""
    memory = emulated.put(np.frombuffer(bytes(at) + x.tobytes(), np.uint8))
    return emulated.made(memory[at:].view(x.dtype))
