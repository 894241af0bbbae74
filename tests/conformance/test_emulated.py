"""The CUDA engine's own kernels give the oracle's bits on a machine without a GPU: `emulator` runs their PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest

import upsweep as up
from conformance.cases import Call
from conformance.check import wrong
from conformance.memory import place
from oracle import oracle
from portions import every, parts
from upsweep.adjoint import gradients_at_once, recurrence_gradients
from upsweep.arithmetic import affine_arrays
from upsweep.dtypes import named

LONG, ROWS, COLUMNS = ((140_001,), 0), ((5, 4097), 1), ((4097, 33), 0)
HOPPER, AMPERE = 90, 80
CALLS = {
    "rows": [
        Call("hash-u64", ((7, 300), 1), reverse=True, segments="flags"),
        # Two columns of floats are a row of complex numbers.
        Call("add-float32", ((70_001, 2), 0), reverse=True, exclusive=True),
        Call("hash-identity", ROWS, exclusive=True, inside="padded"),
        Call("add-float64", ((3, 700, 2), 1), segments="line"),
        Call("add-int8", ((3, 4, 70), 2), initial="rows", outside="offset", out="given"),
        # Reductions with more results than inputs that move.
        Call("max-uint64", ((700,), 0), reduce=True, inside="broadcast"),
        Call("fused-both", ((64,), 0), reduce=True, shared="number"),
    ],
    "tiles": [
        Call(
            "hash-u64",
            LONG,
            segments="lengths",
            reverse=True,
            initial="scalar",
            inside="offset",
            out="in place",
        )
    ],
    "columns": [
        Call("hash-u64", COLUMNS, segments="line"),
        # A list of heads for all columns, which begins within a word, also backwards.
        Call("hash-u64", ((600, 64), 0), segments="lengths", reverse=True, exclusive=True, initial="rows"),
        # Lines of results with a gap between them, which begin at the same remainders by 16 bytes as those that are read.
        Call("hash-u64", ((40, 36), 0), outside="padded", out="given"),
        Call("hash-u64", ((400, 20), 0), outside="padded", out="given", segments="flags"),
        # Columns with a gap between them.
        Call("hash-u64", ((300, 40), 0), inside="stepped"),
        Call("add-int8", ((300, 33), 0), inside="stepped", dtype="wider"),
        # The same of bytes, four of which are a word.
        Call("max-int8", ((700, 300), 0), inside="stepped", exclusive=True),
        Call("add-int8", ((300, 300), 0), inside="stepped", reverse=True, segments="line"),
        # Of two bytes, which are no words where there are gaps.
        Call("xor-uint16", ((3, 70, 4), 1), inside="stepped", segments="offsets"),
        # Rows of lines that begin at any remainder by 16 bytes.
        Call("add-float32", ((3, 1367, 5), 1), initial="rows"),
    ],
    "short": [
        Call("hash-u64", ((16, 300), 0), exclusive=True, initial="rows"),
        Call("add-int8", ((8200, 2), 1), outside="padded", out="given"),
        Call("add-int8", ((8200, 7), 1), outside="padded", out="given"),
        Call("add-int16", ((8200, 31), 1), inside="padded", outside="padded", out="given", reverse=True),
        # An item that serves all rows beside rows of known length, and of any.
        Call("affine-float32-float32", ((8200, 9), 1), out="last", shared="number"),
        Call("affine-float32-float32", ((8200, 22), 1), out="last", shared="item", order="sequential"),
    ],
    "batches": [
        # One run a column; several, the last of which is short; batches that lie apart in shared memory.
        Call("hash-u64", ((1030, 20, 8), 1), reverse=True, exclusive=True, initial="rows"),
        Call("hash-u64", ((4200, 64, 2), 1), reverse=True),
        Call("hash-u64", ((900, 129, 10), 1), segments="flags"),
        # Results of another size, a map and a finish, a reduction, a loop.
        Call("add-int8", ((3000, 7, 3), 1), dtype="wider"),
        Call("fused-both", ((1030, 20, 8), 1), segments="line"),
        Call("fused-pairs", ((1030, 20, 8), 1), reduce=True),
        Call("affine-float32-float32", ((1030, 50, 8), 1), order="sequential", inside="offset", out="given"),
    ],
    "walk": [
        Call("hash-u64", ((300, 2000), 0), order="sequential", initial="rows"),
        Call("hash-u64", ((50, 2000), 0), order="sequential", segments="flags", reverse=True),
        Call("affine-float32-float32", ((40, 3), 0), order="sequential", out="wide"),
        # Fewer columns than a warp has lanes, each brought by several lanes.
        Call("affine-float32-float32", ((100, 33), 0), order="sequential"),
        Call("add-float16", ((2, 100, 64), 1), order="sequential", segments="flags"),
        # Serving warps map and finish: a map and a finish that read again, and a reduction.
        Call("fused-both", ((70, 33), 0), order="sequential", exclusive=True, initial="rows"),
        Call("fused-pairs", ((70, 33), 0), order="sequential", reduce=True),
    ],
}


@pytest.mark.parametrize(
    ("emulated", "kernel"),
    # With clusters of blocks, a row is of a million items before tiles take it.
    [(AMPERE if kernel == "tiles" else HOPPER, kernel) for kernel in CALLS],
    indirect=["emulated"],
)
@parts(6)
def test_a_kernel_has_the_oracles_bits(emulated, kernel, part):
    calls = CALLS[kernel][part::6]
    # test_known_calls.py has calls of each kind again; here the kernel runs again once, where it may have left something.
    for call, draws in zip(calls, (2, *[1] * len(calls))):
        emulated.gpu.loaded.clear()
        assert wrong(call, emulated, draws) is None, call
        assert f"upsweep_{kernel}" in emulated.gpu.loaded


CLUSTERED = [
    Call("hash-identity", ((2, 2050), 1), exclusive=True, segments="line"),
    # Clusters look back.
    Call("hash2-u64", ((16_400,), 0), reverse=True, segments="lengths", initial="scalar", out="in place"),
]


def test_clusters_of_blocks_have_the_oracles_bits(emulated):
    for call in CLUSTERED:
        emulated.gpu.clusters.clear()
        assert wrong(call, emulated) is None, call
        assert max(emulated.gpu.clusters) > 1


@pytest.mark.parametrize("lost", every(2, ["all its blocks have started", "all sums are there"]))
def test_a_barrier_that_a_cluster_lost_is_found(emulated, lost, monkeypatch):
    from upsweep.gpu import compile

    whole = compile.text
    monkeypatch.setattr(
        compile, "text", lambda *what: re.sub(rf"await_cluster\(\); *// {lost}", "", whole(*what))
    )
    emulated.forget()
    assert any(wrong(CLUSTERED[0], emulated) for _ in range(5))
    emulated.forget()


LATE = {
    "columns": Call("add-float32", ((4097, 5), 0), initial="rows"),
    "tiles": Call("hash-u64", ((5000,), 0), reverse=True, segments="line"),
}


@pytest.mark.parametrize("kernel", every(2, LATE))
def test_a_block_may_begin_when_others_have_done_their_tiles(emulated, kernel, monkeypatch):
    """So it is on a GPU that has other work. There is room for a block for each tile."""
    from upsweep.gpu.shapes import rows

    monkeypatch.setattr(rows, "FEW_BYTES", 0)
    emulated.forget()
    for seed in range(8):
        emulated.gpu.rng = np.random.default_rng(seed)
        assert wrong(LATE[kernel], emulated, draws=1) is None, seed
    assert f"upsweep_{kernel}" in emulated.gpu.loaded


PIECES = [
    # Few columns in the last block, and steps behind the last whole stage.
    Call("affine-float16-float16", ((150, 100), 0), order="sequential", reverse=True, initial="rows"),
    Call("add-bfloat16", ((150, 64), 0), order="sequential", exclusive=True, segments="flags"),
    Call("add-float16", ((2, 150, 64), 1), order="sequential", segments="line"),
    Call("add-float16", ((150, 66), 0), order="sequential"),
]


@parts(3)
def test_lanes_that_move_several_columns_at_once_have_the_oracles_bits(emulated, monkeypatch, part):
    from upsweep.gpu import walk
    from upsweep.gpu.shapes import walks

    found, wanted = set(), walks.for_pieces
    monkeypatch.setattr(walks, "ROOM", 0)
    monkeypatch.setattr(walk, "for_pieces", lambda *given: found.add(wanted(*given)) or wanted(*given))
    emulated.forget()
    for call in PIECES[part::3]:
        assert wrong(call, emulated, 1) is None, call
    emulated.forget()
    assert found == {2}


@pytest.mark.parametrize(("known", "columns"), every(2, [("ROOM", 68), ("LOOSE_ROWS", 69)]))
def test_gradients_in_order_move_several_columns_at_once(emulated, monkeypatch, known, columns):
    """The finish reads items again. Also in lines that begin anywhere, and otherwise in each array."""
    from upsweep.gpu.shapes import walks

    monkeypatch.setattr(walks, known, 0)
    emulated.forget()
    g, a, h = np.random.default_rng(3).uniform(-1, 1, (3, 70, columns)).astype("f2")
    got = recurrence_gradients(*map(emulated.value, (g, a, h)), axis=0)
    for made, want in zip(got, recurrence_gradients(g, a, h, axis=0)):
        assert emulated.host(made).tobytes() == want.tobytes()
    emulated.forget()


NARROW = [
    Call("add-float8_e4m3fn", ((7, 300), 1), exclusive=True, segments="flags"),
    Call("mul-float8_e5m2", ((3000, 5), 0), reverse=True, out="in place"),
    Call("add-float8_e4m3fn", ((300, 33), 0), order="sequential", initial="rows"),
]


@pytest.mark.parametrize("emulated", [AMPERE, HOPPER], indirect=True)
@parts(6)
def test_floats_of_eight_bits_have_the_oracles_bits(emulated, part):
    """By integer arithmetic, and by the instructions of later chips."""
    for call in NARROW[part::6]:
        assert wrong(call, emulated, draws=1) is None, call


GATHERED = [
    # More tiles than the look-back has in a group.
    Call("four-f32", ((140_001,), 0), exclusive=True, reverse=True, initial="scalar"),
    Call("four-f32", ((3, 9001), 1), out="in place"),
    Call("add-float8_e4m3fn", ((40_001,), 0), exclusive=True),
    # Costly operators, whose sums are kept, also of halves, and whose groups of lanes may have heads.
    Call("logaddexp-float32", ((3, 9001), 1), segments="flags", exclusive=True, reverse=True),
    Call("logaddexp-bfloat16", ((9001,), 0), segments="lengths", initial="scalar"),
]


@parts(5)
def test_lanes_whose_sums_a_serving_warp_sweeps_have_the_oracles_bits(emulated, monkeypatch, part):
    from upsweep.gpu.shapes import rows, tiles

    monkeypatch.setattr(rows, "FEW_BYTES", 0)
    monkeypatch.setattr(tiles, "SMALL", 0)
    emulated.forget()
    for call in GATHERED[part::5]:
        assert wrong(call, emulated, draws=1) is None, call
    assert "upsweep_tiles" in emulated.gpu.loaded
    emulated.forget()


@pytest.mark.parametrize("dtype", every(2, ["f8", "f4"]))
def test_logaddexp_at_its_far_end_and_of_no_numbers(emulated, dtype):
    near = [87, 86.99999, 708, np.nextafter(708, 0), np.nextafter(708, 1e3), -87, -708, 1e38, 1e-40, 3.5]
    few = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *near], dtype)
    pairs = np.stack(np.meshgrid(few, few), -1).reshape(-1, 2)
    want = up.scan(pairs, "logaddexp", axis=1)
    got = emulated.host(up.scan(emulated.value(pairs), "logaddexp", axis=1))
    assert np.where(np.isnan(got), np.nan, got).tobytes() == np.where(np.isnan(want), np.nan, want).tobytes()


STAGED = [
    Call("hash-u64", ((4097, 40), 0), exclusive=True, initial="rows"),
    Call("add-float32", ((2500, 8), 0), reverse=True, out="in place"),
    Call("add-float32", ((1300, 333), 0), exclusive=True, initial="rows"),
    Call("add-float32", ((4000, 13), 0), reverse=True),
    Call("add-int32", ((4097, 50), 0), reverse=True),
    Call("add-int16", ((1500, 333), 0)),
    Call("last-float32", ((20_001, 2), 0), exclusive=True, initial="rows"),
    # Lanes hold whole lines of bytes.
    Call("add-int8", ((9001, 65), 0)),
    Call("max-int8", ((3, 9600, 7), 1), reverse=True, exclusive=True, out="in place"),
    # Tiles as high as a column, of a number of warps that is no power of two.
    Call("hash-u64", ((134, 300), 0), exclusive=True, initial="rows"),
    Call("hash-u64", ((2, 270, 40), 1), segments="flags", reverse=True),
    Call("hash-u64", ((134, 300), 0), reduce=True),
    # Results that lie otherwise than the inputs: lines a little apart, and lines that begin at other bytes.
    Call("hash-u64", ((700, 33), 0), inside="padded", segments="flags"),
    Call("add-float32", ((1100, 333), 0), inside="padded", reverse=True),
    Call("add-float16", ((1100, 7), 0), inside="padded", exclusive=True, initial="rows"),
    Call("add-int8", ((1100, 333), 0), inside="padded", reverse=True),
    Call("add-int8", ((600, 101), 0), dtype="wider"),
    Call("affine-float32-float32", ((600, 101), 0), inside="padded"),
    # One list of segments for all columns, as bits and as bytes.
    Call("hash-u64", ((700, 40), 0), segments="lengths", exclusive=True, initial="rows"),
    Call("hash-u64", ((1100, 128), 0), segments="line", reverse=True),
    Call("add-float32", ((9000, 4), 0), segments="lengths"),
    Call("add-float32", ((600, 101), 0), segments="lengths", initial="scalar"),
]
"""Columns in each form of tiles that many columns take."""


@parts(8)
def test_columns_of_more_stages_have_the_oracles_bits(emulated, monkeypatch, part):
    from upsweep.gpu import columns, shapes

    stages = []

    def counted(choice):
        stages.append(choice.shape.stages)
        return True

    # The memory of a chip on which they all fit.
    monkeypatch.setattr(shapes, "chip", lambda arch: shapes.CHIPS[90])
    monkeypatch.setattr(columns, "_fill", counted)
    monkeypatch.setattr(columns, "light", lambda plan: True)
    monkeypatch.setattr(columns, "FLAT_LEAST", 0)
    emulated.forget()
    for call in STAGED[part::8]:
        assert wrong(call, emulated, draws=1) is None, call
    assert part or 3 in stages


CROSSWISE = [
    # Several tiles along the axis, of two levels of sums; sides that rectangles do not divide.
    Call("hash-u64", ((9, 600, 21), 1), inside="fortran", exclusive=True, initial="rows"),
    # One more dimension beside; neighbours of the result before those of the input.
    Call("hash-u64", ((5, 3, 100, 40), 2), inside="fortran", outside="offset", out="given", initial="scalar"),
    Call(
        "hash-u64",
        ((20, 150, 36), 1),
        inside="fortran",
        outside="padded",
        out="given",
        reverse=True,
        segments="lengths",
    ),
    Call("add-float32", ((18, 130, 40), 1), inside="plain", outside="fortran", out="given", reverse=True),
    Call("add-float16", ((36, 300, 18), 1), inside="fortran", reverse=True, exclusive=True),
    # Bytes four at a time.
    Call("add-int8", ((64, 130, 35), 1), inside="fortran", reverse=True),
    Call("max-int8", ((72, 130, 40), 1), inside="fortran", exclusive=True),
    Call("xor-bool", ((32, 130, 37), 1), inside="fortran"),
    # Results of another size have places of their own.
    Call("add-int16", ((19, 130, 40), 1), inside="fortran", dtype="wider"),
    # A short axis; several arrays.
    Call("hash-u64", ((20, 11, 36), 1), inside="fortran", exclusive=True, initial="rows"),
    Call("hash2-u64", ((9, 70, 21), 1), inside="fortran", reverse=True),
    Call("fused-both", ((20, 130, 36), 1), inside="fortran", initial="rows"),
]
"""Neighbours in the inputs and neighbours in the results lie along two dimensions beside the axis."""


@pytest.fixture
def crosswise(monkeypatch):
    """The shapes of tiles whose columns are rectangles."""
    from upsweep.gpu import crosswise

    made, choose = [], crosswise.choose

    def counted(*given):
        found = choose(*given)
        made.extend([found[1].shape] if found else [])
        return found

    monkeypatch.setattr(crosswise, "choose", counted)
    return made


OF_OTHER_SIZES = CROSSWISE[-2:]
"""Several arrays: with less shared memory, tiles are smaller. All else of `CROSSWISE` is the same code on both chips."""


@pytest.mark.parametrize(
    ("emulated", "calls"),
    [(HOPPER, CROSSWISE), (AMPERE, OF_OTHER_SIZES)],
    indirect=["emulated"],
    ids=["sm_90", "sm_80"],
)
@parts(3)
def test_rectangles_of_columns_have_the_oracles_bits(emulated, calls, crosswise, part):
    for call in calls[part::3]:
        crosswise.clear()
        assert wrong(call, emulated, draws=1) is None, call
        assert crosswise, call


WALKED = [
    # Several levels of the counter; sides that rectangles do not divide.
    Call("hash-u64", ((20, 150, 36), 1), inside="fortran", exclusive=True, initial="rows"),
    Call("hash-u64", ((6, 3, 67, 40), 2), inside="fortran", outside="offset", out="given", initial="scalar"),
    Call("hash-u64", ((18, 40, 20), 1), inside="fortran", outside="padded", out="given", reverse=True),
    Call("hash-u64", ((20, 64, 36), 1), inside="fortran", order="sequential", exclusive=True, initial="rows"),
    Call("hash2-u64", ((10, 70, 21), 1), inside="fortran", reverse=True),
    Call("add-float32", ((36, 5, 39), 1), inside="fortran"),
    Call("add-float16", ((40, 100, 18), 1), inside="fortran", reverse=True, exclusive=True),
    # Bytes four at a time, and one by one; results of another size.
    Call("add-int8", ((64, 45, 35), 1), inside="fortran", reverse=True),
    Call("max-int8", ((80, 30, 41), 1), inside="fortran", exclusive=True),
    Call("xor-bool", ((32, 50, 37), 1), inside="fortran"),
    Call("mul-int8", ((48, 20, 37), 1), inside="fortran"),
    Call("add-int16", ((24, 50, 40), 1), inside="fortran", dtype="wider"),
    Call("hash-u64", ((17, 150, 70), 1), inside="plain", reduce=True, initial="rows"),
    Call("hash-u64", ((34, 131, 11), 1), inside="fortran", reduce=True, initial="scalar", order="sequential"),
    Call("add-int8", ((208, 130, 11), 1), inside="fortran", reduce=True),
    Call("max-int8", ((9, 150, 272), 1), inside="plain", reduce=True, reverse=True),
]
"""Blocks walk rectangles of columns down the axis."""


@parts(6)
def test_walked_rectangles_have_the_oracles_bits(emulated, monkeypatch, part):
    from upsweep.gpu.shapes import crosswise

    few = {size: (lines, 0) for size, (lines, _) in crosswise.WALKED.items()}
    monkeypatch.setattr(crosswise, "WALKED", few)
    monkeypatch.setattr(crosswise, "WALKED_WIDE", {4: (64, 0)})
    monkeypatch.setattr(crosswise, "REDUCED", (8, 0))
    for call in WALKED[part::6]:
        emulated.gpu.loaded.clear()
        assert wrong(call, emulated, draws=1) is None, call
        assert emulated.gpu.loaded == {"upsweep_crosswise"}, call


def test_results_of_a_reduction_lie_anywhere_beside_even_lines(emulated):
    call = Call("hash-u64", ((16, 130, 36), 1), inside="fortran", reduce=True, initial="rows")
    assert wrong(call, emulated, draws=1) is None
    assert emulated.gpu.loaded == {"upsweep_columns"}


@pytest.mark.parametrize("turned", every(2, [0, 1]))
def test_inputs_of_a_rectangle_may_lie_both_ways(emulated, crosswise, turned):
    rng = np.random.default_rng(5)
    given = [rng.uniform(-1, 1, (20, 130, 36)).astype("f4") for _ in range(2)]
    want = up.linear_recurrence(*given, axis=1, reverse=True)
    seen = []
    for i, x in enumerate(given):
        at = place("fortran" if i == turned else "plain", x.shape, x.dtype, True)
        memory = emulated.put(np.zeros(at.nbytes, np.uint8))
        at.on(memory)[...] = x
        seen.append(emulated.array(memory, at))
    got = up.linear_recurrence(*seen, axis=1, reverse=True, out=emulated.value(np.zeros_like(want)))
    assert emulated.host(got).tobytes() == want.tobytes()
    assert crosswise


@pytest.mark.parametrize(
    ("shape", "axis", "kernel"),
    every(
        2,
        [
            ((3000, 4), 0, "rows"),
            ((9000, 20, 8), 1, "batches"),
            ((30, 4000), 0, "short"),
            ((300, 400), 0, "columns"),
            ((300, 7), 0, "columns"),
        ],
    ),
)
@pytest.mark.parametrize("emulated", [AMPERE], indirect=True)
def test_truths_may_be_any_byte(emulated, shape, axis, kernel):
    """As in a view of bytes as truths: those that are not 0 are true. Bytes of neighbouring columns are words."""
    x = np.where(np.random.default_rng(4).random(shape) < 0.01, 6, 0).astype("u1")
    got = up.scan(emulated.value(x.view(np.bool_)), "or", axis=axis)
    assert f"upsweep_{kernel}" in emulated.gpu.loaded
    assert emulated.host(got).tobytes() == np.logical_or.accumulate(x != 0, axis).tobytes()


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_gradients_of_packed_sequences_have_the_oracles_bits(emulated, order):
    """Of half precision in odd columns: computed in float32, rounded once."""
    rng = np.random.default_rng(1)
    g, a, h = (rng.uniform(-1, 1, (260, 35)).astype("f2") for _ in range(3))
    heads = rng.random(260) < 0.05
    heads[0] = True
    given = map(emulated.value, (g, a, h, np.zeros((), "f4"), heads[:, None]))
    segments = up.segments.flags(emulated.value(heads))
    got = gradients_at_once(*given, axis=0, reverse=False, order=order, segments=segments)
    g, a, h = (x.astype("f4") for x in (g, a, h))
    how = {"reverse": True, "heads": heads, "order": order}
    if order == "tree":
        s = g + oracle(affine_arrays, [a, a * g], exclusive=True, identity=(1, 0), **how)[1]
    else:
        s = oracle(lambda x, y: (y[0] + x[1] * x[0], y[1]), [g, a], **how)[0]
    for made, want in zip(got, (s * np.where(heads[:, None], np.float32(0), h), s)):
        assert emulated.host(made).tobytes() == want.astype("f2").tobytes()


NUMBERS = {
    "rows": ("bfloat16", (5, 300), 1, "tree"),
    "columns": ("float16", (260, 35), 0, "tree"),
    "short": ("bfloat16", (16, 300), 0, "tree"),
    "walk": ("float8_e4m3fn", (70, 35), 0, "sequential"),
}


@pytest.mark.parametrize("kernel", every(4, NUMBERS))
def test_a_number_keeps_its_digits_beside_half_precision(emulated, kernel):
    half, shape, axis, order = NUMBERS[kernel]
    b = (np.random.default_rng(2).normal(size=shape) / 4).astype(named(half))
    wide, x = b.astype("f4"), emulated.value(b)
    for a, how in ((0.999, {}), (np.float32(0.999), {"reverse": True, "initial": 0.3})):
        got = emulated.host(up.linear_recurrence(a, x, axis=axis, order=order, **how))
        want = up.linear_recurrence(a, wide, axis=axis, order=order, **how)
        assert got.tobytes() == want.astype(b.dtype).tobytes()
    assert f"upsweep_{kernel}" in emulated.gpu.loaded


@pytest.mark.parametrize("lost", every(2, [r"bar\.sync[^;]*;", r"bar\.warp\.sync[^;]*;"]))
def test_a_lost_barrier_is_found(emulated, lost, monkeypatch):
    from emulator import device

    whole = device.ptx
    monkeypatch.setattr(device.compile, "cubin", lambda *what: re.sub(lost.encode(), b"", whole(*what)))
    emulated.forget()
    call = Call("add-uint32", ((4097,), 0), segments="line", exclusive=True)
    assert any(wrong(call, emulated) for _ in range(5))
    emulated.forget()


def test_an_address_that_is_no_multiple_of_the_size_is_found(emulated, monkeypatch):
    """For which a GPU ends the launch."""
    from emulator.warps import Misaligned
    from upsweep.gpu.view import View

    monkeypatch.setattr(View, "place", property(lambda view: (view.strides, 0)))
    emulated.forget()
    with pytest.raises(Misaligned):
        wrong(Call("hash-u64", ((8, 256), 1), inside="offset"), emulated, 1)
    emulated.forget()


SLOPES = {
    "columns": ("max", "float32", (260, 35), 0, "tree"),
    "rows": ("logaddexp", "bfloat16", (5, 300), 1, "tree"),
    "walk": ("logaddexp", "float32", (70, 35), 0, "sequential"),
    "short": ("mul", "float16", (7, 300), 0, "tree"),
}


@pytest.mark.parametrize("kernel", every(2, SLOPES))
def test_gradients_of_scans_have_the_bits_of_the_cpu_engine(emulated, kernel):
    """Each by one scan, whose map and finish find the slopes of an item."""
    slopes = pytest.importorskip("upsweep.torch.slopes")
    from upsweep.arguments import number_of
    from upsweep.dtypes import accumulator

    op, name, shape, axis, order = SLOPES[kernel]
    dtype, rng = named(name), np.random.default_rng(4)
    g, x, y = (rng.uniform(-1, 1, shape).astype("f4").astype(dtype) for _ in range(3))
    computed = slopes.torch.float32
    if slopes.SLOPES[computed][op].earlier:
        way, more = slopes._way_from(op, computed, order, True, False), (0.0, number_of(0))
    else:
        way, more = slopes._way(op, computed, order, False), ()
    how = {
        "map": way.enter, "finish": way.leave, "axis": axis, "exclusive": way.exclusive, "reverse": True, "order": order,
        "dtype": accumulator(dtype),
    }  # fmt: skip
    want = up.scan((g, x, y, *more), way.op, out=np.empty_like(x), **how)
    out = emulated.value(np.empty_like(x))
    up.scan((*map(emulated.value, (g, x, y)), *more), way.op, out=out, **how)
    assert emulated.host(out).tobytes() == want.tobytes()
    assert f"upsweep_{kernel}" in emulated.gpu.loaded
