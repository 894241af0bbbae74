"""Compaction, sorting, counting and allocation against NumPy, with the engine's moves and by scan and scatter alone."""

from __future__ import annotations

import itertools
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upsweep as up
from upsweep import apps
from upsweep.cpu import sorting
from upsweep.cpu.chunked import CHUNK

RNG = np.random.default_rng(6)
DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
# The last has two chunks of a move.
SIZES = [0, 1, 2, 5, 1000, 2**19 + 3]


def same(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.tobytes() != want.tobytes():
        np.testing.assert_array_equal(
            got.view(np.uint8) if got.ndim == 1 else got, want.view(np.uint8) if got.ndim == 1 else want
        )


def numbers(dtype, n, kind="random"):
    """Test data: every bit pattern is likely, so floats include NaNs, infinities and both zeros."""
    dtype = np.dtype(dtype)
    if kind == "equal":
        return np.ones(n, dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, n).astype(bool)
    x = RNG.integers(0, 256, n * dtype.itemsize, dtype=np.uint8).view(dtype)
    if kind == "few":
        x = np.resize(
            RNG.permutation(np.array([0.0, -0.0, np.nan, -np.nan, np.inf, 1]).astype(dtype))
            if dtype.kind == "f"
            else x[:3],
            n,
        )
    return np.sort(x)[::-1] if kind == "falling" else x


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 1.0])
def test_compaction_is_boolean_indexing(apps, n, share):
    keep = RNG.random(n) < share
    for dtype in filter(apps.takes, ("int8", "float32", "complex128", "datetime64[s]", "U3")):
        x = np.arange(n).astype(dtype)
        same(apps.compact(x, keep), x[keep])
    y, kept = apps.partition(x := np.arange(n), keep)
    assert kept == keep.sum()
    same(y, np.concatenate([x[keep], x[~keep]]))
    same(apps.where(keep), np.flatnonzero(keep))
    same(apps.compact(np.stack([x, -x], 1), keep), np.stack([x, -x], 1)[keep])
    same(apps.compact(np.repeat(x, 2)[::2][::-1], keep[::-1]), x[::-1][keep[::-1]])


@pytest.mark.parametrize("n", [1, 500, 20_000])
@pytest.mark.parametrize("descending", [False, True])
def test_zeros_of_both_signs_and_nans_keep_their_order(apps, n, descending):
    for dtype in ("float32", "float64"):
        x = RNG.choice(np.array([0.0, -0.0, 1, -1, np.nan, -np.nan], dtype), n)
        # NaNs equal each other, and come last, or first where the order falls.
        ranks = [(-2 if descending else 2) if v != v else (-v if descending else v) for v in x.tolist()]
        order = np.array(sorted(range(n), key=ranks.__getitem__), np.int64)
        same(apps.radix_sort(x, descending=descending), x[order])
        same(apps.argsort(x, descending=descending), order)
        keys, places = apps.radix_sort(x, np.arange(n), descending=descending)
        same(keys, x[order])
        same(places, order)


@pytest.mark.parametrize("n", [100, 20_003])
def test_any_byte_but_zero_is_true(n):
    """Bytes that are viewed as booleans need be neither 0 nor 1."""
    x, raw = np.arange(n), RNG.choice(np.array([0, 0, 0, 1, 2, 4, 6, 16, 128, 254, 255], np.uint8), n)
    kept, others = x[raw != 0], x[raw == 0]
    keep = raw.view(bool)
    np.testing.assert_array_equal(up.apps.compact(x, keep), kept)
    np.testing.assert_array_equal(up.apps.where(keep), kept)
    items, count = up.apps.partition(x, keep)
    np.testing.assert_array_equal(items, [*kept, *others])
    assert count == len(kept)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_a_size_known_beforehand_takes_what_fits(apps, n, dtype):
    keep, x = RNG.random(n) < 0.5, RNG.integers(0, 3, n).astype(dtype)
    heads = np.append(np.ones(min(n, 1), bool), x[1:] != x[:-1])
    starts, starting = np.flatnonzero(heads), heads * 2
    for size in (0, 1, n // 3, n + 5):
        for result, want in [
            (apps.compact(x, keep, size=size), x[keep]),
            (apps.where(keep, size=size), np.flatnonzero(keep)),
            (apps.unique_consecutive(x, size=size), x[heads]),
            (apps.run_length_encode(x, size=size)[::2], x[heads]),
            (apps.run_length_encode(x, size=size)[1:], np.diff(starts, append=n)),
            (apps.run_length_decode(x, starting, size=size), np.repeat(x, starting)),
        ]:
            got, count = result
            same(got, np.append(want, np.zeros(size, want.dtype))[:size])
            assert count == len(want)
            assert np.asarray(count).dtype == np.int64


def test_a_size_known_beforehand_where_results_are_copied():
    """JAX's arrays cannot be written to: they are made of what NumPy has written."""
    jnp = pytest.importorskip("jax.numpy")
    x, keep = jnp.asarray([5, 5, 2, 7]), jnp.asarray([True, False, True, True])
    for (*got, count), *wanted in [
        (apps.compact(x, keep, size=4), [5, 2, 7, 0]),
        (apps.where(keep, size=4), [0, 2, 3, 0]),
        (apps.unique_consecutive(x, size=2), [5, 2]),
        (apps.run_length_encode(x, size=4), [5, 2, 7, 0], [2, 1, 1, 0]),
        (apps.run_length_decode(x, keep * 1, size=4), [5, 2, 7, 0]),
    ]:
        assert [y.tolist() for y in got] == wanted
        assert int(count) == 3


@pytest.mark.parametrize("n", SIZES)
def test_a_function_says_what_is_kept(apps, n):
    for dtype in ("int8", "float32", "float64"):
        x, y = (RNG.integers(-9, 9, n).astype(dtype) for _ in range(2))
        same(apps.compact(x, lambda v: v > 2), x[x > 2])
        for got, want in zip(apps.compact((x, y), lambda a, b: a > b), (x[x > y], y[x > y]), strict=True):
            same(got, want)
        got, count = apps.compact(x, lambda v: v % 2 == 1, size=n)
        assert count == np.count_nonzero(x % 2 == 1)
        same(got[:count], x[x % 2 == 1])


def test_several_arrays_keep_the_same(apps):
    keep, x = RNG.random(1000) < 0.5, np.arange(1000)
    for got, want in zip(
        apps.compact((x, np.stack([x, -x], 1)), keep), (x, np.stack([x, -x], 1)), strict=True
    ):
        same(got, want[keep])


def test_what_is_kept_goes_into_out():
    keep, x = RNG.random(1000) < 0.5, np.arange(1000)
    out = np.full(700, -1)
    got, count = apps.compact(x, keep, out=out)
    assert got is out
    assert count == keep.sum()
    same(out, np.append(x[keep], np.full(700, -1))[:700])
    out[:] = -1
    got, count = apps.run_length_decode(x, keep * 1, out=out[5:])
    assert count == keep.sum()
    assert got.base is out
    same(out, np.concatenate([np.full(5, -1), x[keep], np.full(700, -1)])[:700])
    for call in (
        lambda: apps.run_length_decode(np.ones((1000, 2)), keep * 1, size=3),
        lambda: apps.compact(x, keep, out=np.zeros((1, 1000), int)),
        lambda: apps.compact(np.ones((1000, 2)), keep, size=3),
        lambda: apps.where(keep, size=3, out=out),
    ):
        with pytest.raises(up.ShapeError):
            call()
    with pytest.raises(up.DTypeError):
        apps.where(keep, out=np.zeros(1000))


def test_a_chunk_writes_nothing_beyond_its_own(apps):
    n = 1 << 20
    keep = np.zeros(n, bool)
    keep[np.arange(0, n, 1 << 17)] = True
    for _ in range(20):
        same(apps.compact(np.arange(n), keep), np.flatnonzero(keep))


@pytest.mark.parametrize("longest", [1, 3, 9, 20_000])
def test_runs_are_measured_across_chunks_of_threads(longest):
    rng = np.random.default_rng(longest)
    for n in (4096, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 9):
        lengths = rng.integers(1, longest + 1, n)
        lengths = lengths[: np.searchsorted(lengths.cumsum(), n) + 1]
        lengths[-1] -= lengths.sum() - n
        x = np.repeat(np.arange(len(lengths)) % 3, lengths)
        values, measured = apps.run_length_encode(x)
        np.testing.assert_array_equal(values, np.arange(len(lengths)) % 3)
        np.testing.assert_array_equal(measured, lengths)


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, float("nan")]), max_size=30))
def test_runs_are_those_of_groupby(apps, items):
    x = np.array(items, float)
    runs = [(k, len(list(g))) for k, g in itertools.groupby(items, key=lambda v: object() if v != v else v)]
    values, lengths = apps.run_length_encode(x)
    assert lengths.tolist() == [size for _, size in runs]
    assert lengths.dtype == np.int64
    same(apps.unique_consecutive(x), values)
    same(apps.run_length_decode(values, lengths), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "float16", "datetime64[s]"])
def test_runs_cross_chunks(apps, dtype):
    if not apps.takes(dtype):
        return
    lengths = np.array([3, 150_000, 1, 1, 400_000, 7, 131_072])
    x = np.repeat(np.arange(7) % 2, lengths).astype(dtype)
    if x.dtype.kind in "fM":
        x[[0, 1, 131_071, 131_072, -1]] = "NaT" if x.dtype.kind == "M" else np.nan
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    for _ in range(3):
        same(apps.unique_consecutive(x), x[starts])
        values, found = apps.run_length_encode(x)
        same(values, x[starts])
        same(found, np.diff(starts, append=len(x)))
    same(
        apps.partition(x, lengths.repeat(lengths) > 9)[0],
        x[np.argsort(lengths.repeat(lengths) <= 9, kind="stable")],
    )


@pytest.mark.parametrize("n", [4095, 4096, 4097, 8191, 8192, 8193, 70_000, 1_000_003])
def test_tiles_of_a_gpu_meet(apps, n):
    keep, x = RNG.random(n) < 0.3, RNG.integers(-(2**31), 2**31, n).astype(np.int32)
    same(apps.compact(x, keep), x[keep])
    same(apps.partition(x, keep)[0], np.concatenate([x[keep], x[~keep]]))
    runs = np.repeat(x[: n // 3 + 1], RNG.integers(1, 6, n // 3 + 1))[:n]
    starts = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
    values, lengths = apps.run_length_encode(runs)
    same(values, runs[starts])
    same(lengths, np.diff(starts, append=len(runs)))
    same(apps.run_length_decode(values, lengths), runs)
    same(apps.argsort(x >> 20), np.argsort(x >> 20, kind="stable"))


@pytest.mark.parametrize("n", SIZES)
def test_decoding_is_numpys_repeat(apps, n):
    for high in (1, 2, 9):
        lengths = RNG.integers(0, high, n)
        for x in (np.arange(n, dtype=np.int16), np.arange(2 * n).reshape(n, 2)):
            same(apps.run_length_decode(x, lengths), np.repeat(x, lengths, axis=0))


def test_one_long_run_among_empty_ones(apps):
    lengths = np.zeros(1001, np.int64)
    lengths[500] = 400_000
    owner, rank = apps.expand(lengths)
    same(owner, np.full(400_000, 500))
    same(rank, np.arange(400_000))


def test_counts_that_fit_a_byte_and_counts_that_do_not(apps):
    lengths = RNG.integers(0, 3, 40_000)
    lengths[10_000:12_000] = RNG.integers(250, 260, 2000)
    lengths[[5000, 39_999]] = 256, 70_000
    owner, rank = apps.expand(lengths)
    same(owner, np.repeat(np.arange(40_000), lengths))
    same(rank, np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths))
    same(apps.run_length_decode(np.arange(40_000.0), lengths), np.repeat(np.arange(40_000.0), lengths))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), max_size=20))
def test_each_item_has_its_owner(apps, counts):
    sizes = np.array(counts, np.int32)
    offsets, (owner, rank) = apps.allocate(sizes), apps.expand(sizes)
    assert offsets.tolist() == [sum(counts[:k]) for k in range(len(counts) + 1)]
    assert list(zip(owner.tolist(), rank.tolist())) == [
        (s, r) for s, c in enumerate(counts) for r in range(c)
    ]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_keys_that_fill_a_word_and_keys_that_leave_room_for_their_places(dtype):
    """A thousand places take 10 bits, and the sign one: the widest keys that fit differ by less than 2 ** 53."""
    for low in (np.iinfo(dtype).min, 2**40, np.iinfo(dtype).max - 2**53):
        for width in (2**53 - 1, 2**53):
            x = RNG.integers(0, 300, 1000).astype("u8") * (width // 300) + (low % 2**64)
            x[[3, 700]], x[500:510] = (low + width) % 2**64, low % 2**64
            x = x.view(dtype)
            for falling in (False, True):
                # Places behind equal keys tell one order from another.
                want = (
                    len(x) - 1 - x[::-1].argsort(kind="stable")[::-1] if falling else x.argsort(kind="stable")
                )
                np.testing.assert_array_equal(apps.argsort(x, descending=falling), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["random", "equal", "few", "falling"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_sorts_are_numpys_stable_sort_to_the_bit(apps, dtype, kind):
    for n in (0, 1, 2, 3, *((1000, 300_001) if apps.moves else (300, 2000))):
        x = numbers(dtype, n, kind)
        order = np.argsort(x, kind="stable")
        same(apps.argsort(x), order)
        same(apps.radix_sort(x), np.sort(x, kind="stable"))
        keys, values = apps.radix_sort(x, np.arange(n))
        same(keys, x[order])
        same(values, order)
        falling = len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]
        same(apps.argsort(x, descending=True), falling)
        same(apps.radix_sort(x, descending=True), x[falling])
    if dtype not in ("int8", "uint32"):
        # Every round scans all items: the most of them for one dtype.
        x = x if kind == "random" and dtype == "float32" else x[:30_000]
        same(apps.quicksort(x), np.sort(x, kind="stable"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [17, 1000, 9000])
def test_a_sort_keeps_zeros_of_both_signs(dtype, n, monkeypatch):
    """Where NumPy sorts in vectors, a zero that is negative may come back positive."""
    monkeypatch.setattr(sorting, "_numpy_is_faster", lambda dtype: True)
    rng = np.random.default_rng(n)
    for _ in range(20):
        x = (rng.integers(-3, 4, n) / 4).astype(dtype)
        x[rng.integers(n)] = -0.0
        for falling in (False, True):
            want = x[np.argsort(-x if falling else x, kind="stable")]
            assert apps.radix_sort(x, descending=falling).tobytes() == want.tobytes()


def test_orders_that_numpy_finds_in_vectors_are_stable(monkeypatch):
    """Of keys of which none equals another: ties, zeros of both signs and NaNs go another way."""
    monkeypatch.setattr(sorting, "_numpy_is_faster", lambda dtype: True)
    different = np.random.default_rng(3).permutation(3000) - 1500.5
    for places, key in (
        ([], 0),
        ([7, 2900], 4.0),
        ([5, 2000], np.nan),
        ([70, 2000], 0.0),
        (range(3000), 1.0),
    ):
        x = different.copy()
        x[list(places)] = key
        x[list(places)[:1]] *= -1 if key == 0 else 1
        for falling in (False, True):
            want = np.argsort(-x if falling else x, kind="stable")
            if falling:
                nans = np.flatnonzero(np.isnan(x))
                want = np.concatenate([nans, want[~np.isin(want, nans)]])
            np.testing.assert_array_equal(apps.argsort(x, descending=falling), want, strict=True)


@pytest.mark.parametrize("dtype", ["u1", "i4", "f8", "m8[s]"])
def test_an_item_that_is_sorted_alone_has_no_stride_below_zero(dtype):
    # PyTorch refuses such an array.
    for made in (apps.radix_sort(np.ones(1, dtype), descending=falling) for falling in (False, True)):
        assert made.strides == (made.itemsize,)


def test_times_and_views_sort(apps):
    if not apps.takes("M8[ns]"):
        pytest.skip("no times in this library")
    x = RNG.integers(-(2**62), 2**62, 1000).astype("M8[ns]")
    x[::7] = "NaT"
    same(apps.radix_sort(x), np.sort(x, kind="stable"))
    same(apps.argsort(x[::-3]), np.argsort(x[::-3], kind="stable"))
    kept = x.copy()
    apps.radix_sort(x)
    same(x, kept)


@pytest.mark.parametrize(
    "make", [np.arange, lambda n: np.arange(n)[::-1].copy(), lambda n: np.arange(n) % 2, np.zeros]
)
def test_quicksort_of_adversarial_input_takes_few_rounds(make, monkeypatch):
    from upsweep.apps import sorting

    rounds = []
    split = sorting._split
    monkeypatch.setattr(sorting, "_split", lambda *args: (rounds.append(1), split(*args))[1])
    x = make(4000)
    same(apps.quicksort(x), np.sort(x))
    assert len(rounds) < 60


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("n", SIZES)
def test_counts_are_bincounts(apps, dtype, n):
    if not apps.takes(dtype):
        pytest.skip("this library only stores these")
    x = RNG.integers(0, 100, n).astype(dtype)
    same(apps.histogram(x, 101), np.bincount(x.astype(np.int64), minlength=101))
    if n:
        same(apps.histogram(x[None, ::-1], 100), np.bincount(x.astype(np.int64), minlength=100))


def test_ranges_count_both_ends(apps):
    x = np.repeat(np.arange(6), [4, 5, 10, 3, 1, 7])
    h = apps.RangeHistogram(x, 6)
    for a, b in itertools.combinations_with_replacement(range(6), 2):
        assert h.count(a, b) == sum(1 for v in x if a <= v <= b)
    assert h.count([1, 0], [2, 5]).tolist() == [15, 30]
    for a, b in [(-1, 2), (0, 6), (3, 2)]:
        with pytest.raises(IndexError, match="first <= last"):
            h.count(a, b)


def test_bins_of_narrow_integers_are_counted_to_the_last():
    """The bin behind the last one is more than the dtype holds."""
    for dtype in (np.uint8, np.int8):
        bins = np.iinfo(dtype).max + 1
        h = up.apps.RangeHistogram(np.arange(bins), bins)
        assert h.count(dtype(0), dtype(bins - 1)) == bins
        assert h.count(np.array([3], dtype), np.array([bins - 1], dtype)).tolist() == [bins - 3]
    assert h.count([], []).tolist() == []
    with pytest.raises(up.DTypeError, match="bins are integers"):
        h.count(0.0, 3.0)


@pytest.mark.parametrize("dtype", [object, [("word", object)]])
def test_objects_are_moved_and_counted_by_python(dtype):
    words = np.array(["a", "a", None, "b"], object).astype(dtype)
    keep = np.array([False, True, True, False])
    np.testing.assert_array_equal(up.apps.compact(words, keep), words[keep])
    np.testing.assert_array_equal(
        up.apps.partition(words, keep)[0], np.concatenate([words[keep], words[~keep]])
    )
    np.testing.assert_array_equal(up.apps.unique_consecutive(words), words[[0, 2, 3]])
    np.testing.assert_array_equal(up.apps.run_length_decode(words, [2, 0, 1, 0]), words[[0, 0, 2]])
    thing = object()
    held = sys.getrefcount(thing)
    things = np.array([thing] * 5, object)
    made = [up.apps.compact(things, things != 0), up.apps.run_length_decode(things, [3] * 5)]
    assert sys.getrefcount(thing) == held + 5 + 5 + 15
    del made, things
    assert sys.getrefcount(thing) == held


@pytest.mark.parametrize(
    "out", [[0, 0], (0, 0), range(2), np.zeros(2, ">i8"), np.broadcast_to(np.int64(0), (2,))]
)
def test_an_out_that_cannot_be_written_to_is_refused(out):
    """Results would go into a copy of it."""
    for call in (up.apps.unique_consecutive, lambda x, out: up.apps.compact(x, x > 0, out=out)):
        with pytest.raises(up.OutputError, match="copy"):
            call(np.arange(3), out=out)


def test_mistakes_are_named():
    for call, error in [
        (lambda: apps.compact([1, 2], [True]), up.ShapeError),
        (lambda: apps.compact([1, 2], [1, 0]), up.DTypeError),
        (lambda: apps.where([[True]]), up.ShapeError),
        (lambda: apps.compact((np.ones(2), np.ones(3)), lambda a, b: a > b), up.ShapeError),
        (lambda: apps.compact((np.ones(2), np.ones(2)), np.ones(2, bool), size=2), up.ShapeError),
        (lambda: apps.unique_consecutive(3), up.ShapeError),
        (lambda: apps.run_length_decode([1, 2], [1, -1]), up.ShapeError),
        (lambda: apps.run_length_decode([1, 2, 3], [2**63 - 1, 2**63 - 1, 5]), up.ShapeError),
        (lambda: apps.expand(np.array([2**63, 2**63 + 3], np.uint64)), up.ShapeError),
        (lambda: apps.run_length_decode([1, 2], [1]), up.ShapeError),
        (lambda: apps.expand([0.5]), up.DTypeError),
        (lambda: apps.radix_sort([[1]]), up.ShapeError),
        (lambda: apps.radix_sort([1j]), up.DTypeError),
        (lambda: apps.radix_sort([1, 2], [1]), up.ShapeError),
        (lambda: apps.histogram([1.5], 3), up.DTypeError),
        (lambda: apps.histogram(np.ones(2, ml_dtypes.bfloat16), 3), up.DTypeError),
        (lambda: apps.allocate(np.ones(2, ml_dtypes.bfloat16)), up.DTypeError),
        (lambda: apps.compress(np.ones(2, ml_dtypes.bfloat16)), up.DTypeError),
        (lambda: apps.carry_lookahead_add(*np.ones((2, 2), ml_dtypes.bfloat16)), up.DTypeError),
        (lambda: apps.histogram([1, 3], 3), ValueError),
        (lambda: apps.histogram([-1], 3), ValueError),
    ]:
        with pytest.raises(error):
            call()
