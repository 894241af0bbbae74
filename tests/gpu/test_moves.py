"""The kernels that move data compile without a GPU and keep their registers; a CUDA graph holds a compaction."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from cubins import frames
from test_compile import on_some_chips

from upsweep import apps, dtypes
from upsweep.gpu import automata, compile, links, one_pass, repeating, selecting, sorting
from upsweep.gpu.functions import memory_type

SELECTS = {
    **{f"pack {size}": selecting.Select(key, size) for size, key in one_pass.RAW.items()},
    "partition": selecting.Select("u32", 4, rest=True),
    "where": selecting.Select("u8", 1, values=False, places=True),
    **{
        f"runs of {name}": selecting.Select(memory_type(np.dtype(name)), np.dtype(name).itemsize, runs=True, lengths=lengths)
        for name in ("int32", "float64", "complex128", "bool", "float16")
        for lengths in (False, True)
    },
}  # fmt: skip


def sort(name: str, value: int) -> sorting.Sort:
    dtype = dtypes.named(name)
    known = dtypes.row(dtype)
    above = sorting.nan_above(dtype) if known.order == "float" else 0
    return sorting.Sort(dtype.itemsize, known.order, above, value > 1, value, 8 if value == 8 else 4)


SORTS = {
    f"{name} with {value}": sort(name, value)
    for name, value in [
        ("int32", 0), ("float32", 0), ("int64", 0), ("float64", 0), ("int32", 4), ("int64", 4), ("float64", 8),
        ("uint8", 0), ("bool", 4), ("float16", 0), ("int16", 2), ("bfloat16", 1), ("float8_e4m3fn", 0),
    ]
}  # fmt: skip
SPECS = {
    **{f"select: {name}": ("select", select.spec) for name, select in SELECTS.items()},
    "select: pack anywhere": ("select", selecting.Select("u64", 8).spec | {"EVEN": False}),
    **{f"sort: {name}": ("sort", made.spec) for name, made in SORTS.items()},
    "count": ("count", repeating.counting("i32")),
    "repeat": ("repeat", repeating.spec(np.dtype("int64"), "u32")),
    "repeat by few": ("repeat", repeating.spec(np.dtype("uint8"), "uint4", even=False)),
    "owners": ("repeat", repeating.spec(np.dtype("int32"), None)),
    "automaton": ("automaton", automata.spec(apps.python_lexer())),
    "links": ("links", links.spec(np.dtype("int64"))),
    "links of 4 bytes": ("links", links.spec(np.dtype("int32"))),
}


def moved(name: str, arch: int) -> bytes:
    """Machine code of a kernel."""
    module, spec = SPECS[name]
    return compile._compile(compile.text(module, one_pass.text(tuple(spec.items()))), arch, linked=False)


@pytest.mark.parametrize(("name", "arch"), on_some_chips(SPECS))
def test_moves_compile_and_keep_their_registers(name, arch):
    words = max(frames(moved(name, arch))) // 4
    assert words <= 8, "some may wait in memory while a block looks back"


@pytest.mark.parametrize("size", [1, 4, 8])
def test_nothing_that_a_compaction_loads_waits_in_memory(size):
    spec = selecting.Select(one_pass.RAW[size], size).spec
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


@pytest.mark.parametrize("lag", [1, 2, 7, 1000])
def test_a_tile_is_written_any_number_of_tickets_after_it_was_counted(cuda, monkeypatch, lag):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(selecting, "LAG", 2 * lag)
    x = torch.randint(0, 4, (3_000_001,), device="cuda", dtype=torch.int32)
    assert torch.equal(apps.compact(x[1:], lambda v: v < 2), x[1:][x[1:] < 2])
    values, lengths = apps.run_length_encode(x)
    for got, want in zip((values, lengths), torch.unique_consecutive(x, return_counts=True), strict=True):
        assert torch.equal(got, want)
