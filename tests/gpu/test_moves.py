"""The kernels that move data compile without a GPU and keep their registers; a CUDA graph holds a compaction."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from cubins import frames
from test_compile import on_some_chips

from upsweep import apps, dtypes
from upsweep.gpu import (
    automata,
    boxes,
    cascades,
    codes,
    compile,
    flagged,
    groups,
    kept,
    links,
    one_pass,
    repeating,
    sorting,
)
from upsweep.gpu.functions import memory_type

SELECTS = {
    **{f"pack {size}": kept.Select(key, size) for size, key in one_pass.RAW.items()},
    "partition": kept.Select("u32", 4, rest=True),
    "found": kept.Select("u8", 1, places=True),
    "where": kept.Select("u8", 1, values=False, places=True),
    **{
        f"runs of {name}{', lengths' * lengths}": kept.Select(
            memory_type(np.dtype(name)), np.dtype(name).itemsize, runs=True, lengths=lengths
        )
        for name in ("int32", "float64", "complex128", "uint8", "bool", "float16")
        for lengths in (False, True)
    },
}  # fmt: skip


def sort(name: str, value: int, few: int = 0) -> sorting.Sort:
    dtype = dtypes.named(name)
    known = dtypes.row(dtype)
    above = sorting.nan_above(dtype) if known.order == "float" else 0
    return sorting.Sort(dtype.itemsize, known.order, above, value > 1, value, 8 if value == 8 else 4, few)


SORTS = {
    f"{name} with {value}": sort(name, value)
    for name, value in [
        ("int32", 0), ("float32", 0), ("int64", 0), ("float64", 0), ("int32", 4), ("int64", 4), ("float64", 8),
        ("uint8", 0), ("bool", 4), ("float16", 0), ("int16", 2), ("bfloat16", 1), ("float8_e4m3fn", 0),
    ]
}  # fmt: skip
SMALL_SORTS = {
    f"{few} {name} with {value}": sort(name, value, few)
    for few, name, value in [(1024, "int64", 4), (8192, "float64", 0), (8192, "int32", 4), (4096, "uint8", 1),
                              (1 << 18, "int32", 4), (1 << 18, "float64", 0), (1 << 17, "int32", 4), (1 << 17, "uint8", 1)]
}  # fmt: skip
SPECS = {
    **{f"select: {name}": ("select", select.spec) for name, select in SELECTS.items()},
    "select: pack anywhere": ("select", kept.Select("u64", 8).spec | {"EVEN": False}),
    **{f"sort: {name}": ("sort", made.spec) for name, made in SORTS.items()},
    **{f"sort of few: {name}": ("sort_small", made.spec) for name, made in SMALL_SORTS.items()},
    "places of flags": ("flagged", flagged.spec("u8", values=False, places=True)),
    "items of 16 bytes by flags": ("flagged", flagged.spec("uint4", values=True, places=False)),
    "codes": ("codes", codes.spec(512, False)),
    "count": ("count", repeating.counting("i32", 4, True)),
    "count many": ("count", repeating.counting("i64", 8, False)),
    "repeat": ("repeat", repeating.spec(np.dtype("int64"), 4)),
    "repeat to odd places": ("repeat", repeating.spec(np.dtype("int64"), 4, touching=False)),
    "repeat by few": ("repeat", repeating.spec(np.dtype("uint8"), 16, even=False)),
    "sums of counts": ("repeat_sums", repeating.spec(np.dtype("int64"), 0)),
    "owners": ("repeat", repeating.spec(np.dtype("int32"), 0)),
    "automaton": ("automaton", automata.spec(apps.python_lexer())),
    **{
        f"cascade of {name}, tiles of {shape.tile}": (
            "cascade",
            cascades.spec(np.dtype(name), np.dtype(name), shape),
        )
        for name in ("float32", "float64")
        for shape in cascades.SHAPES
    },
    "boxes": ("boxes", boxes.spec("i64", 2)),
    "boxes of complex sums": ("boxes", boxes.spec("c128", 3)),
    "links": ("links", links.spec(np.dtype("int64"))),
    "links of 4 bytes": ("links", links.spec(np.dtype("int32"))),
    **{
        f"starts of groups by {key}": ("group_heads", {"KEY": key, "THREADS": groups.THREADS})
        for key in ("f64", "bf16")
    },
    **{
        name: (name, {"LENGTHS": groups.LENGTHS, "THREADS": groups.THREADS})
        for name in ("group_rows", "group_places")
    },
    "carry": ("carry", {"WORD": "u64", "WORDS": 2, "DIMS": 3, "THREADS": groups.THREADS}),
    **{
        f"select from few: {name}": ("select_few", SELECTS[name].spec)
        for name in ("where", "partition", "runs of float64, lengths", "runs of complex128, lengths")
    },
}


def moved(name: str, arch: int) -> bytes:
    """Machine code of a kernel."""
    module, spec = SPECS[name]
    return compile._compile(compile.text(module, one_pass.text(tuple(spec.items()))), arch, linked=False)


TWINS = {f"select: runs of {kind}" for kind in ("int32", "complex128", "uint8")}
TWINS |= {f"select: runs of {kind}, lengths" for kind in ("float64", "bool", "float16")}
"""The slow tests alone compile these: each value is selected with lengths or without them, and values of its size both ways."""
FIRST = [name for name in SPECS if name not in TWINS]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        *on_some_chips(FIRST),
        *[
            pytest.param(name, arch, marks=pytest.mark.slow)
            for name in sorted(TWINS)
            for arch in (80, 90, 100)
        ],
    ],
)
def test_moves_compile_and_keep_their_registers(name, arch):
    # Tiles of 8192 items of a filter win even so, by fewer tiles (docs/dev/gpu-notes.md).
    most = 32 if name.startswith("cascade") else 8
    words = max(frames(moved(name, arch))) // 4
    assert words <= most, "some may wait in memory while a block looks back"


ALONE = ["mark", "changes", "changes_bits", "repeat_sums", "repeat"]
ALONE += ["group_heads", "group_rows", "group_places", "carry"]


@pytest.mark.parametrize("name", ALONE)
def test_a_kernel_that_a_call_launches_alone_is_compiled_alone(name):
    assert compile.text(name, "").count("__global__") == 1


def test_all_kernels_that_read_segments_wait_until_these_are_marked():
    texts = {name: compile.text(name, "") for name, parts in compile._PARTS.items() if " params.cuh" in parts}
    reading = {name for name, text in texts.items() if "p.heads" in text}
    assert reading == {name for name, text in texts.items() if "  await_marks();" in text}
    assert "tiles" in reading


@pytest.mark.parametrize("size", [1, 4, 8])
def test_nothing_that_a_compaction_loads_waits_in_memory(size):
    spec = kept.Select(one_pass.RAW[size], size).spec
    text = compile.text("select", one_pass.text(tuple(spec.items())))
    assert max(frames(compile._compile(text, 90, linked=False))) == 0


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
)
def test_what_lies_above_is_nan(name):
    dtype = dtypes.named(name)
    above = sorting.nan_above(dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        last, next_ = np.array([above, above + 1], f"u{dtype.itemsize}").view(dtype).astype(float)
    assert not np.isnan(last)
    assert np.isnan(next_)


def test_a_graph_holds_a_compaction(cuda):
    torch = pytest.importorskip("torch")
    x, keep = torch.arange(100_000, device="cuda"), torch.zeros(100_000, dtype=torch.bool, device="cuda")
    # The kernel was compiled before.
    apps.compact(x, keep, size=50_000)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept, count = apps.compact(x, keep, size=50_000)
    for share in (0.3, 0.0, 0.8):
        keep.copy_(torch.rand(len(keep), device="cuda") < share)
        graph.replay()
        want = x[keep][:50_000]
        assert int(count) == int(keep.sum())
        assert torch.equal(kept[: len(want)], want)
        assert not kept[len(want) :].any()


def test_a_graph_holds_places_of_flags(cuda):
    """Its blocks meet in memory that the graph owns, beside calls of the same stream."""
    torch = pytest.importorskip("torch")
    keep = torch.zeros(1_000_000, dtype=torch.bool, device="cuda")
    out = torch.zeros(300_000, dtype=torch.int64, device="cuda")
    apps.where(keep, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, count = apps.where(keep, out=out)
    for share in (0.1, 0.0, 0.8, 0.2):
        keep.copy_(torch.rand(len(keep), device="cuda") < share)
        graph.replay()
        want = apps.where(keep)
        graph.replay()
        assert torch.equal(want, keep.nonzero()[:, 0])
        assert int(count) == len(want)
        assert torch.equal(out[: len(want)], want[: len(out)])


def test_a_graph_holds_repetitions(cuda):
    torch = pytest.importorskip("torch")
    x, lengths = torch.arange(100_000, device="cuda"), torch.ones(100_000, dtype=torch.int64, device="cuda")
    out = torch.zeros(300_000, dtype=torch.int64, device="cuda")
    apps.run_length_decode(x, lengths, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, count = apps.run_length_decode(x, lengths, out=out)
    for most in (1, 5, 9, 2):
        lengths.copy_(torch.randint(0, most, (len(x),), device="cuda"))
        out.fill_(-1)
        graph.replay()
        want = torch.repeat_interleave(x, lengths)
        assert int(count) == len(want)
        assert torch.equal(out[: len(want)], want[: len(out)])
        assert (out[len(want) :] == -1).all()


def test_tiles_that_keep_few_stand_beside_tiles_that_keep_many(cuda):
    torch = pytest.importorskip("torch")
    # Runs of one, of six and of thousands of items, a few tiles of each, and a tile of each size in every group.
    lengths = torch.tensor(
        [1] * 30_000 + [6] * 10_000 + [4096] * 30 + [1] * 4096 + [2] * 4096, device="cuda"
    ).repeat(6)
    x = torch.arange(len(lengths), device="cuda", dtype=torch.int32).repeat_interleave(lengths)
    for off in (0, 1):
        for got, want in zip(
            apps.run_length_encode(x[off:]),
            torch.unique_consecutive(x[off:], return_counts=True),
            strict=True,
        ):
            assert torch.equal(got, want)
        assert torch.equal(apps.unique_consecutive(x[off:]), torch.unique_consecutive(x[off:]))
        room = torch.full((100_000,), -7, device="cuda", dtype=torch.int32)
        _, count = apps.unique_consecutive(x[off:], out=room[:99_999])
        assert torch.equal(room[:-1], torch.unique_consecutive(x[off:])[:99_999])
        assert room[-1] == -7
        assert int(count) == len(torch.unique_consecutive(x[off:]))


@pytest.mark.parametrize("n", [n + more for n in sorting.SMALL for more in (0, 1)])
def test_few_keys_are_sorted_in_one_launch(cuda, n):
    torch = pytest.importorskip("torch")
    for keys in (torch.randint(-9, 9, (n,), device="cuda"), torch.randn(n, device="cuda")):
        for falling in (False, True):
            want, order = torch.sort(keys, stable=True, descending=falling)
            got, places = apps.radix_sort(keys, torch.arange(n, device="cuda"), descending=falling)
            assert torch.equal(got, want)
            assert torch.equal(places, order)
            assert torch.equal(apps.argsort(keys, descending=falling), order)


def test_a_sort_leaves_out_the_passes_that_move_nothing(cuda):
    torch = pytest.importorskip("torch")
    places = torch.randperm(50_000, device="cuda")
    for name in ("int32", "int64", "float32"):
        size = np.dtype(name).itemsize
        for several in (0, 1, 2, 5, 8, 2**size - 2):
            # Each of several bytes is another one in a single key, or in all keys.
            for many in (1, len(places)):
                bytes = torch.zeros((len(places), size), dtype=torch.uint8, device="cuda")
                for byte in range(size):
                    if several >> byte & 1:
                        bytes[places[byte : byte + many], byte] = torch.randint(
                            1, 127, (1,), device="cuda"
                        ).byte()
                        bytes[places[byte + 7 : byte + many // 2], byte] = 3
                x = bytes.reshape(-1).view(getattr(torch, name))
                for descending in (False, True):
                    want, order = torch.sort(x, stable=True, descending=descending)
                    assert torch.equal(apps.radix_sort(x, descending=descending), want)
                    assert torch.equal(apps.argsort(x, descending=descending), order)
                    keys, values = apps.radix_sort(x, places, descending=descending)
                    assert torch.equal(keys, want)
                    assert torch.equal(values, places[order])


@pytest.mark.parametrize("name", ["uint8", "int16", "int32", "int64"])
def test_bins_are_counted_wherever_there_is_room(cuda, name):
    torch = pytest.importorskip("torch")
    most = torch.iinfo(getattr(torch, name)).max
    for bins in (min(bins, most) for bins in (10, 16_384, 20_000, 58_112, 58_113, 1_000_003)):
        for n in (1, 1023, 300_001):
            for x in (
                torch.randint(0, bins, (n + 3,)),
                torch.full((n + 3,), bins - 1),
                torch.arange(n + 3) * bins // (n + 3),
            ):
                x = x.to("cuda", getattr(torch, name))
                # Places at odd addresses, and items that lie in no bin.
                for part in (x, x[1:], x[3:]):
                    assert torch.equal(apps.histogram(part, bins), torch.bincount(part, minlength=bins))
                for stray in (bins, -1) if name != "uint8" else (bins,):
                    outside = x.clone()
                    outside[n // 2] = stray
                    with pytest.raises(ValueError, match="do not all lie"):
                        apps.histogram(outside, bins)
