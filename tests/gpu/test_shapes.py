"""The CUDA engine's choices for a scan: which kernel, and tiles that fit the machine and the tree."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from gpu_plans import Fused, apart, chosen, fused
from upsweep.adjoint import RULES
from upsweep.dtypes import named
from upsweep.engine import EngineError
from upsweep.function import Function
from upsweep.gpu import compile, driver, launch, shapes, sweeps
from upsweep.gpu.choice import tickets_ahead
from upsweep.gpu.layout import arrange
from upsweep.gpu.marks import Marks
from upsweep.gpu.sharing import places_of_lines, room_of
from upsweep.gpu.view import View, c_strides
from upsweep.gpu.walk import Walk
from upsweep.operator import Operator, identity_of
from upsweep.operators import on_words, ops
from upsweep.plan import Plan

CHOICES = [
    # dtypes, shape, axis, kernel, whether warps share a row, whether a block goes through whole rows.
    (["f4"], (1 << 28,), 0, "tiles", False, False),
    (["f4"], (3, 10**8), 1, "tiles", False, False),
    (["f4"], (1, 1 << 31), 1, "tiles", False, False),
    (["f4"], (10**6, 256), 1, "rows", False, False),
    (["f4"], (65536, 4096), 1, "rows", True, False),
    (["f4", "f4"], (12288, 5000), 1, "rows", True, False),
    (["f4"], (500, 4096), 1, "rows", True, False),
    (["f4"], (4096,), 0, "rows", True, False),
    (["f4"], (1 << 21,), 0, "rows", True, False),
    (["f4"], (1 << 22,), 0, "tiles", False, False),
    (["f4"], (200, 16384), 1, "rows", True, False),
    (["i1"], (65536, 16384), 1, "rows", True, False),
    (["i1"], (65536, 28672), 1, "rows", True, False),
    (["i1"], (65536, 32768), 1, "tiles", False, False),
    (["i1"], (65536, 36000), 1, "rows", True, False),
    (["f4"], (4096, 65536), 1, "tiles", False, False),
    (["f4"], (16384, 16500), 1, "tiles", False, True),
    (["i2"], (2000, 8709), 1, "rows", True, False),
    (["i2"], (16000, 33000), 1, "tiles", False, True),
    (["f4"], (500, 16500), 1, "tiles", False, False),
    (["f4"], (65536, 4096), 0, "columns", False, False),
    (["f4"], (1 << 20, 256), 0, "columns", False, False),
    (["f4"], (8, 4096, 64), 1, "columns", False, False),
    (["f4"], (1 << 20, 8), 0, "columns", False, False),
    (["f4"], (1 << 20, 3), 0, "columns", False, False),
    (["i4"], (1 << 20, 2), 0, "columns", False, False),
    (["f4"], (1 << 20, 2), 0, "rows", True, False),
    (["i4"], (5000, 2, 2), 1, "batches", False, False),
    (["f4"], (4000, 2, 2), 1, "rows", False, False),
    (["f4"], (50_000, 200, 7), 1, "batches", False, False),
    (["f4"], (50_000, 600, 12), 1, "columns", False, False),
    (["f4"], (50_000, 512, 16), 1, "batches", False, False),
    (["f4"], (50_000, 900, 7), 1, "columns", False, False),
    (["f4"], (50_000, 20, 129), 1, "short", False, False),
    (["f4"], (1 << 20, 3), 1, "short", False, False),
    (["f4"], (1 << 20, 4), 1, "rows", False, False),
    (["f4"], (5000, 3), 1, "rows", False, False),
    (["f4"], (1 << 20, 129), 1, "rows", False, False),
    (["f4"], (100, 100, 26843), 1, "short", False, False),
    (["f8"], (64, 1000), 0, "short", False, False),
    (["f8"], (65, 1000), 0, "columns", False, False),
]


def test_rows_in_segments_that_leave_tiles_empty_go_in_half_tiles():
    """Also where room for heads comes on top."""
    for flags in ({}, {"segmented": True}):
        _, whole = chosen((ops.ADD, ["i2"], (2000, 1 << 20), 1, flags))
        _, half = chosen((ops.ADD, ["i2"], (2000, 17000), 1, flags))
        assert half.shape.carry
        assert 2 * half.tile == whole.tile
    _, held = chosen((ops.ADD, ["i2"], (2000, 8709), 1, {"segmented": True, "listed": True}))
    assert (held.kernel, held.shape.warps) == ("rows", 9)


@pytest.mark.parametrize(("dtypes", "shape", "axis", "kernel", "together", "carry"), CHOICES)
def test_the_kernel_follows_the_shape(dtypes, shape, axis, kernel, together, carry):
    op = ops.AFFINE if len(dtypes) == 2 else ops.ADD
    _, choice = chosen((op, dtypes, shape, axis, {}))
    assert (choice.kernel, choice.shape.together, choice.shape.carry) == (kernel, together, carry)


@pytest.mark.parametrize(
    ("dtype", "shape", "kernel", "grid"),
    [
        ("f4", (1 << 23,), "rows", 1024), ("f4", ((1 << 23) + 1,), "rows", 513), ("c8", (61, 45399), "rows", 61 * 23),
        ("f2", (516, 31364), "rows", 516 * 8), ("f2", (50, 131073), "rows", 50 * 17), ("f2", (1 << 27,), "tiles", 0),
        ("f8", (1 << 26,), "tiles", 0), ("i1", (1 << 24,), "rows", 1024),
    ],
)  # fmt: skip
def test_rows_are_reduced_by_several_blocks_each(dtype, shape, kernel, grid):
    """Up to a number of bytes. Of scans tiles hand sums to each other; costly operators would wait for their last block."""
    case = (ops.ADD, [dtype], shape, len(shape) - 1, {"reduce": True})
    _, choice = chosen(case)
    assert choice.kernel == kernel
    if grid:
        assert (choice.grid(lambda: 0), len(choice.levels()[0])) == (grid, 1)
        assert chosen((*case[:4], {}))[1].kernel == "tiles"


@pytest.mark.parametrize(
    ("dtype", "shape", "arch", "stages"),
    [
        ("f4", (1 << 20, 256), 90, 3),
        ("f4", (1 << 23, 24), 90, 4),
        ("f2", (1 << 20, 201), 90, 3),
        ("f2", (1 << 20, 65), 90, 2),
        ("f4", (1 << 20, 130), 90, 2),
        ("f8", (1 << 20, 333), 90, 2),
        ("f4", (1 << 14, 256), 90, 2),
        ("f4", (1 << 20, 256), 80, 2),
        ("f4", (1 << 22, 13), 90, 4),
        ("i4", (1 << 25, 2), 90, 3),
        ("f2", (1 << 20, 255), 90, 2),
        ("i1", (1 << 22, 1024), 90, 3),
        ("logaddexp f4", (1 << 20, 256), 90, 3),
    ],
)
def test_many_tiles_of_columns_have_more_stages_where_they_fit(dtype, shape, arch, stages):
    """Few tiles leave the GPU empty, a GPU with less shared memory has no room, and a costly operator keeps its warps."""
    *costly, dtype = dtype.split()
    op = ops.LOGADDEXP if costly else ops.ADD
    assert chosen((op, [dtype], shape, 0, {}), arch)[1].shape.stages == stages


@pytest.mark.parametrize(
    ("case", "form"),
    [
        # Half the height, where fewer lines lie behind the ends of columns.
        ((ops.AFFINE, ["bfloat16", "bfloat16"], (880, 4001), 0, {"kept": 1, "alone": True}), (16, 8, 2, 7)),
        # Twice the warps with half the items, where few would work.
        ((ops.AFFINE, ["f4", "f4"], (20519, 105), 0, {"kept": 1}), (8, 8, 1, 321)),
        # A tile a column in one block of as many warps; of few columns lower ones.
        ((ops.AFFINE, ["f8", "f8"], (141, 10447), 0, {"kept": 1}), (16, 9, 1, 1)),
        ((ops.AFFINE, ["f8", "f8"], (141, 8000), 0, {"kept": 1}), (16, 4, 3, 3)),
        # Stretches within segments.
        ((ops.MIN, ["f4"], (193646, 39), 0, {"segmented": True, "listed": True}), (32, 16, 1, 379)),
        # Items of two words in columns that lanes share, or in tiles as high as columns.
        ((ops.MAX, ["f8"], (76, 16124, 2), 1, {}), (16, 8, 2, 8)),
        ((ops.ADD, ["f8"], (87, 22156), 0, {}), (16, 6, 3, 1)),
        # Results that are turned in small pieces.
        ((ops.ADD, ["f4"], (3299, 1141), 1, {"transposed": True}), (32, 8, 2, 5)),
    ],
)
def test_tiles_of_columns_waste_neither_lines_nor_warps_nor_registers(case, form):
    plan, choice = chosen(case)
    shape = choice.shape
    assert (choice.kernel, shape.items, shape.warps, choice.blocks(plan), choice.tiles) == ("columns", *form)


@pytest.mark.parametrize(("name", "columns"), [("f8", 2), ("bfloat16", 5)])
def test_few_columns_that_share_one_number_a_step_are_columns(name, columns):
    _, choice = chosen((ops.AFFINE, [name] * 2, (1 << 20, columns), 0, {"kept": 1, "alone": True}))
    # Numbers that lie along the axis are no rows, each by itself.
    assert (choice.kernel, choice.shape.cross) == ("columns", 0)


@pytest.mark.parametrize(("n", "columns", "warps"), [(100, 44, 3), (49, 39, 4), (20, 129, 8)])
def test_odd_numbers_of_warps_walk_batches_where_they_are_fewer(n, columns, warps):
    _, choice = chosen((ops.ADD, ["f4"], (50_000, n, columns), 1, {}))
    assert choice.shape.warps == warps


@pytest.mark.parametrize(("n", "sets", "tiles"), [(1 << 16, 2, 128), (900, 2, 2), (300, 1, 1)])
def test_halves_of_costly_operators_lie_in_wide_lines_unless_a_tile_holds_a_column(n, sets, tiles):
    _, choice = chosen((ops.LOGADDEXP, ["f2"], (n, 1 << 15), 0, {}))
    assert (choice.shape.vector, choice.tiles) == (sets, tiles)


@pytest.mark.parametrize(("dtype", "blocks"), [("f4", (2, 3)), ("f8", (2, 2))])
def test_costly_words_within_segments_share_a_multiprocessor_by_three_where_flags_are_bits(dtype, blocks):
    plan, choice = chosen((ops.LOGADDEXP, [dtype], (1 << 26,), 0, {"segmented": True}))
    assert tuple(replace(choice, bits=bits).blocks(plan) for bits in (False, True)) == blocks


@pytest.mark.parametrize(
    ("dtype", "columns", "form"),
    [
        ("f4", 333, (16, 8, 3)),
        ("f4", 3001, (8, 16, 2)),
        ("f2", 101, (16, 16, 3)),
        ("f2", 127, (32, 8, 3)),
        ("f2", 3001, (8, 16, 2)),
        ("i1", 999, (16, 8, 3)),
        ("i1", 778, (8, 16, 2)),
        ("i1", 333, (32, 8, 2)),
    ],
)
def test_lines_that_begin_anywhere_share_a_block_by_their_width(dtype, columns, form):
    """Twice the warps of half the items, where shared memory and the look-back allow."""
    shape = chosen((ops.ADD, [dtype], (1 << 20, columns), 0, {}))[1].shape
    assert (shape.items, shape.warps, shape.stages) == form
    shape = chosen((ops.ADD, ["f4"], (1 << 20, 17), 0, {"segmented": True, "listed": True}))[1].shape
    assert (shape.blocks, shape.strips, shape.stages) == (2, 1, 3)


@pytest.mark.parametrize(
    ("dtypes", "shape", "flags", "kernel"),
    [
        (["f4"], (4096, 8192), {}, "sums"),
        (["f4"], (4096, 8192), {"reverse": True, "initial": True}, "sums"),
        (["f4", "i8"], (4096, 2048), {}, "sums"),
        (["i1"], (4096, 32768), {}, "sums"),
        (["f4"], (4096, 8192), {"phase": 4}, "rows"),
        (["f4"], (4096, 8191), {}, "rows"),
        (["f4"], (4096, 8192), {"segmented": True}, "rows"),
        (["f4"], (100, 8192), {}, "rows"),
    ],
)  # fmt: skip
def test_rows_that_are_blocks_of_the_tree_are_summed_and_not_scanned(dtypes, shape, flags, kernel):
    op = ops.ARGMAX if len(dtypes) == 2 else ops.ADD
    _, choice = chosen((op, dtypes, shape, 1, {"reduce": True, **flags}))
    assert choice.kernel == kernel


@pytest.mark.parametrize(("name", "turned"), [("u1", True), ("u2", False), ("u4", False), ("c16", False)])
@pytest.mark.parametrize("shape", [(20342, 3611, 1), (3611, 20342, 1), (538, 44657, 1), (7, 9001, 654, 1)])
def test_a_transposed_copy_is_brought_tile_by_tile(name, turned, shape):
    _, choice = chosen((ops.ADD, [name], shape, len(shape) - 1, {"transposed": True}))
    assert choice.kernel == "bring"
    assert choice.turned == (turned and len(shape) == 3)


@pytest.mark.parametrize("arch", [80, 86, 90])
@pytest.mark.parametrize(
    ("dtype", "shape", "axis", "turned", "stretch"),
    [
        ("f4", (65536, 8192), 0, False, False),
        ("f4", (806109, 333), 0, True, False),
        ("f4", (2, 65536, 1024), 1, True, False),
        ("f8", (2, 65536, 1024), 1, False, False),
        ("i1", (512, 2048, 101), 1, False, True),
        ("f4", (256, 1000, 1001), 1, False, True),
        ("bfloat16", (256, 1001, 1001), 1, False, False),
        ("bfloat16", (31, 6405, 1098), 1, False, False),
        ("f4", (1000, 40001), 0, False, False),
        ("c16", (256, 1000, 1001), 1, False, False),
    ],
)
def test_columns_in_order_move_as_their_lines_lie(dtype, shape, axis, turned, stretch, arch):
    """Lines that begin at 16 bytes are copied, of many columns also those that begin anywhere. Others go by way of registers, or
    whole rows of lines as one stretch."""
    plan, choice = chosen((ops.ADD, [dtype], shape, axis, {"order": "sequential"}), arch)
    assert isinstance(choice, Walk)
    walking = choice.walking
    assert (walking.turned, walking.stretch) == (turned, stretch)
    assert choice.shared_bytes(plan) * walking.walks <= choice.chip.shared
    assert walking.stages > 1
    assert walking.stages % walking.servers == 0
    assert not stretch or choice.width >= shape[-1] == choice.columns


@pytest.mark.parametrize(
    ("dtype", "shape", "width", "threads"),
    [
        ("f4", (8, 16384, 64), 8, 352),
        ("bfloat16", (8, 16384, 64), 16, 352),
        ("f4", (2, 65536, 1024), 16, 352),
        ("f4", (4, 8192, 333), 16, 352),
        ("f4", (1, 8192, 3001), 32, 160),
        ("f4", (8, 8192, 333), 32, 160),
    ],
)
def test_few_rows_are_walked_by_many_warps_that_share_no_scheduler(dtype, shape, width, threads):
    plan, choice = chosen((ops.AFFINE, [dtype] * 2, shape, 1, {"kept": 1, "order": "sequential"}))
    assert isinstance(choice, Walk)
    assert (choice.width, choice.threads) == (width, threads)
    assert choice.walking.steps % (2 * choice.walking.items * choice.walking.row_lanes) == 0
    assert choice.shared_bytes(plan) * choice.walking.walks <= choice.chip.shared


@pytest.mark.parametrize(
    ("op", "dtypes", "shape", "stage"),
    [
        (ops.ADD, ["f4"], (1, 16384, 4096), 4096),
        (ops.ADD, ["f4"], (8, 4096, 1536), 4096),
        (ops.ADD, ["f4"], (32, 2048, 4096), 16384),
        (ops.ADD, ["f8"], (1, 16384, 3072), 4096),
        (ops.ADD, ["f8"], (2, 65536, 1024), 8192),
        (ops.ADD, ["bfloat16"], (64, 512, 2048), 16384),
        (ops.AFFINE, ["f4", "f4"], (32, 2048, 4096), 8192),
    ],
)
def test_stages_of_one_array_have_bytes_of_their_own(op, dtypes, shape, stage):
    _, choice = chosen((op, dtypes, shape, 1, {"order": "sequential", "kept": len(dtypes) - 1}))
    assert isinstance(choice, Walk)
    assert choice.width * choice.walking.steps * sum(named(d).itemsize for d in dtypes) == stage


@pytest.mark.parametrize("arch", [80, 86, 90])
@pytest.mark.parametrize(
    ("case", "walkers"),
    [
        ((ops.AFFINE, ["f4", "f4"], (8, 4096, 1535), 1, {"kept": 1, "order": "sequential"}), 3),
        ((ops.AFFINE, ["f4", "f4"], (8, 4096, 1535), 1, {"kept": 1}), 3),
        ((ops.AFFINE, ["bfloat16", "bfloat16"], (880, 20841), 0, {"kept": 1, "alone": True}), 5),
        ((ops.ADD, ["f8"], (700, 33001), 0, {"segmented": True, "listed": True}), 8),
        ((ops.ADD, ["f8"], (700, 33001), 0, {"order": "sequential", "segmented": True}), 3),
        # Lines at 16 bytes, one narrow array, few columns, few items, blocks that leave multiprocessors idle.
        ((ops.AFFINE, ["f4", "f4"], (8, 4096, 1536), 1, {"kept": 1}), 0),
        ((ops.ADD, ["f4"], (8, 4096, 1535), 1, {}), 0),
        ((ops.AFFINE, ["f4", "f4"], (20000, 8001), 0, {"kept": 1}), 0),
        ((ops.AFFINE, ["f4", "f4"], (300, 20001), 0, {"kept": 1}), 0),
        ((ops.AFFINE, ["f4", "f4"], (48, 9000, 333), 1, {"kept": 1}), 0),
    ],
)
def test_many_odd_columns_are_walked_in_wide_lines(case, walkers, arch):
    plan, choice = chosen(case, arch)
    walking = choice.walking if isinstance(choice, Walk) and choice.walking.loose else None
    assert (walking.walkers if walking else 0) == walkers
    if walking:
        assert walking.tree == (plan.order == "tree")
        assert walking.stages >= max(2, walking.team)
        assert choice.shared_bytes(plan) * walking.walks <= choice.chip.shared
        assert choice.threads <= 1024


@pytest.mark.parametrize("arch", [80, 86, 90])
@pytest.mark.parametrize(("name", "loose"), [("bfloat16", True), ("f4", False)])
def test_gradients_of_half_precision_move_in_pieces_wherever_lines_begin(name, loose, arch):
    rule, shape = RULES["tree"], (8, 4096, 333)
    flags = {"exclusive": True, "reverse": True}
    inputs, stores = f"{name} {name} {name} f4: i4:", f"{name} {name}"
    case = Fused(rule.op, inputs, shape, 1, rule.enter, rule.leave_from, flags, stores)
    plan, choice = fused(case, arch)
    assert choice.shape.loose is loose
    assert choice.shared_bytes(plan) <= choice.chip.shared


@pytest.mark.parametrize("factor", ["f4:", "f4-", "f4|"])
@pytest.mark.parametrize(
    ("shape", "axis", "order", "kernel"),
    [
        ((1 << 26,), 0, "tree", "tiles"),
        ((65536, 4096), 1, "tree", "rows"),
        ((65536, 4096), 0, "tree", "columns"),
        ((8, 4096, 64), 1, "tree", "columns"),
        ((16, 1 << 20), 0, "tree", "short"),
        ((8, 4096, 1536), 1, "sequential", "walk"),
        ((65536, 4096), 1, "sequential", "walk"),
    ],
)
def test_an_input_that_does_not_move_is_not_staged(factor, shape, axis, order, kernel):
    """A number, one item a row and one row for all: the kernel is the one that an array gets."""
    plan, choice = fused(Fused("affine", f"{factor} f4", shape, axis, flags={"order": order}))
    assert choice.kernel == kernel
    assert [x.still for x in choice.layout.loads] == [factor != "f4|", False]
    if kernel in ("tiles", "rows"):
        assert [at >= 0 for at in choice.room(plan).inputs] == [factor == "f4|", True]


@given(
    inputs=st.lists(st.sampled_from(["f4", "f8", "i2", "?", "f4:", "f8-", "i2|"]), min_size=1, max_size=4),
    components=st.lists(st.sampled_from(["f4", "f8", "u1"]), min_size=1, max_size=3),
    outputs=st.lists(st.sampled_from(["f4", "f8", "u1", "c16"]), min_size=1, max_size=3),
    segmented=st.booleans(),
    again=st.booleans(),
)
def test_what_is_in_shared_memory_at_one_time_lies_apart(inputs, components, outputs, segmented, again):
    one = np.dtype("f4")
    as_map = Function(lambda *xs: xs, len(inputs), tuple(map(np.dtype, components)))
    as_finish = Function(lambda *xs: xs, 1 + again * len(inputs), tuple(map(np.dtype, outputs)))
    _, choice = fused(Fused("add", "f4 " + " ".join(inputs), (3, 100_000), 1, lambda *xs: xs[0]))
    layout = replace(
        choice.layout,
        stores=tuple([replace(choice.layout.loads[0], size=np.dtype(d).itemsize) for d in outputs]),
    )
    computed = tuple([np.dtype(d) for d in components])
    loads = (one, *[np.dtype(name.rstrip(":-|")) for name in inputs])
    plan = Plan(
        Operator(lambda a, b: a), loads, computed, as_finish.results, (3, 100_000), 1, segmented=segmented, map=as_map,
        finish=as_finish,
    )  # fmt: skip
    room, items = room_of(plan, layout, 512), 512
    read = [(at, x.size) for at, x in zip(room.inputs, layout.loads) if at >= 0]
    sums = [(at, d.itemsize) for at, d in zip(room.sums, computed) if at >= 0]
    written = list(zip(room.outputs, [np.dtype(d).itemsize for d in outputs]))
    assert len(sums) in (0, len(computed)) or min(room.sums) < 0
    if again:
        assert not sums
    for together in (read, sums, written):
        ends = sorted((at, at + items * size + 16) for at, size in together)
        assert all(end <= start for (_, end), (start, _) in pairwise(ends))
        assert all(end <= room.heads for _, end in ends)
    assert room.area == room.heads + segmented * (items + 16)


@given(
    n=st.integers(1, 1 << 22),
    rows=st.sampled_from([1, 3, 1023, 1024, 50_000]),
    dtypes=st.sampled_from(["i1", "i2", "f2", "f4", "f8", "c16", "f4 f4", "f8 f8", "c16 c16"]),
    segmented=st.booleans(),
    costly=st.booleans(),
)
def test_every_tile_fits_a_multiprocessor_and_the_tree(n, rows, dtypes, segmented, costly):
    names = dtypes.split()
    op = (
        ops.AFFINE
        if len(names) == 2
        else ops.LOGADDEXP
        if costly and np.dtype(names[0]).kind == "f"
        else ops.ADD
    )
    plan, choice = chosen((op, names, (rows, n), 1, {"segmented": segmented}))
    shape = choice.shape
    assert choice.shared_bytes(plan) <= shapes.CHIPS[90].shared - 4096
    assert choice.threads <= 1024
    # Tiles, parts and runs are blocks of the tree.
    if choice.kernel == "tiles":
        assert choice.tile & (choice.tile - 1) == 0
        assert shape.warps * shape.strips <= 32
        assert not shape.carry or (rows >= 1024 and choice.tiles > 1)
    else:
        assert n <= choice.tile * (32 if choice.meets else 1)
    # A part that is handed on is a block of the tree.
    if shape.cluster > 1 or choice.meets:
        assert (
            all(x & (x - 1) == 0 for x in (choice.tile, shape.warps, shape.cluster))
            or choice.kernel == "tiles"
        )


@pytest.mark.parametrize("arch", [80, 86, 90, 120])
@pytest.mark.parametrize("names", [["f4"], ["f8"] * 8, ["c16", "c16"]])
@pytest.mark.parametrize("shape", [(5000,), (1 << 20,), (1 << 24,), (4096, 9000), (3000, 300)])
@pytest.mark.parametrize("axis", [0, 1])
def test_every_kernel_fits_every_architecture(arch, names, shape, axis):
    if axis < len(shape):
        plan, choice = chosen((Operator(lambda a, b: b, name="last"), names, shape, axis, {}), arch)
        assert choice.shared_bytes(plan) <= shapes.chip(arch).shared
        assert choice.shape.cluster <= shapes.chip(arch).cluster


@pytest.mark.parametrize(
    ("op", "flags", "kernel"),
    [
        (ops.ADD, {}, "short"),
        (ops.ADD, {"segmented": True}, "columns"),
        (ops.LOGADDEXP, {}, "columns"),
        (Operator(lambda a, b: a + b + a * b), {}, "columns"),
    ],
)
def test_a_lane_holds_as_many_items_as_flags_and_code_allow(op, flags, kernel):
    assert [chosen((op, ["f4"], (n, 5000), 0, flags))[1].kernel for n in (32, 33, 128)] == [
        "short",
        kernel,
        kernel,
    ]


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "axis", "flags", "joined"),
    [
        (ops.ADD, "i1", (500, 1000), 0, {}, True),
        (ops.XOR, "u1", (3, 500, 64), 1, {"reverse": True, "exclusive": True}, True),
        (ops.AND, "u1", (100, 4000), 0, {"reduce": True}, True),
        (ops.ADD, "i1", (500, 1000), 0, {"phase": 4}, True),
        (ops.ADD, "i1", (500, 1000), 0, {"phase": 2}, True),
        (ops.ADD, "i1", (500, 80), 0, {"phase": 2}, True),
        (ops.ADD, "i1", (500, 1002), 0, {}, True),
        (ops.ADD, "i1", (500, 1002), 0, {"reduce": True}, False),
        (ops.ADD, "i1", (500, 1002), 0, {"phase": 1}, True),
        (ops.MAX, "i1", (500, 333), 0, {"pitch": 334}, True),
        (ops.ADD, "i1", (5000, 65), 0, {}, False),
        (ops.ADD, "i1", (100_000, 65), 0, {}, True),
        (ops.ADD, "i1", (100_000, 65), 0, {"phase": 2}, False),
        (ops.ADD, "i1", (500, 1000), 1, {}, False),
        (ops.ADD, "i1", (500, 1000), 0, {"initial": True}, False),
        (ops.ADD, "i1", (500, 1000), 0, {"segmented": True}, False),
        (ops.MIN, "i1", (3, 5001, 77), 1, {"segmented": True, "listed": True}, True),
        (ops.MIN, "i1", (3, 5001, 75), 1, {"segmented": True, "listed": True}, False),
        (ops.MAX, "i1", (500, 1000), 0, {"exclusive": True}, True),
        (ops.MIN, "u1", (500, 999), 0, {}, True),
        (ops.MUL, "i1", (500, 1000), 0, {}, False),
        (ops.OR, "?", (500, 999), 0, {"reverse": True}, True),
        (ops.MAX, "?", (500, 1000), 0, {}, True),
        (ops.AND, "?", (500, 1000), 0, {"exclusive": True}, False),
        (ops.ADD, "i2", (500, 1000), 0, {}, False),
    ],
)
def test_bytes_of_columns_are_words_where_no_carry_runs_over(op, dtype, shape, axis, flags, joined):
    plan, choice = chosen((op, [dtype], shape, axis, flags))
    size = 4 if joined else np.dtype(dtype).itemsize
    assert {x.size for x in choice.layout.arrays()} == {d.itemsize for d in plan.loads} == {size}
    if joined:
        assert choice.layout.dims[-1] == -(-shape[-1] // 4)
        assert choice.layout.bytes == (shape[-1] if shape[-1] % 4 or flags.get("phase", 0) % 4 else 0)
        assert choice.layout.truths == (dtype == "?")


@pytest.mark.parametrize(
    ("step", "behind", "joined"),
    [(2, 0, True), (2, 1, True), (4, 3, True), (8, 0, False), (3, 0, False)],
)
def test_bytes_that_lie_apart_are_words_where_pieces_of_sixteen_bytes_hold_them(step, behind, joined):
    plan, choice = apart(ops.MAX, "i1", (500, 300), step, behind)
    (x,) = choice.layout.loads
    assert (x.woven, plan.loads[0].itemsize) == ((True, 4) if joined else (False, 1))
    assert not joined or (x.size, x.behind, choice.layout.dims) == (4 * step, behind, (75,))


@pytest.mark.parametrize(
    ("op", "dtype", "flags", "joined"),
    [
        (ops.ADD, "f4", {}, True),
        (ops.ADD, "f8", {"reverse": True, "exclusive": True}, True),
        (ops.ADD, "f4", {"reduce": True}, True),
        (ops.MAX, "f4", {}, False),
        (ops.ADD, "i4", {}, False),
        (ops.ADD, "f4", {"initial": True}, False),
        (ops.ADD, "f4", {"segmented": True}, False),
        (ops.ADD, "f4", {"phase": 4}, False),
        (ops.ADD, "f4", {"order": "sequential"}, False),
    ],
)
def test_sums_of_two_columns_of_floats_are_those_of_complex_numbers(op, dtype, flags, joined):
    plan, choice = chosen((op, [dtype], (1 << 22, 2), 0, flags))
    assert (plan.accumulators[0].kind == "c") == joined
    assert not joined or choice.kernel == ("rows" if plan.reduce else "tiles")


def test_batches_of_few_lines_have_a_kernel_for_their_number():
    specs = [
        choice.spec(plan)
        for plan, choice in (chosen((ops.ADD, ["i1"], (50_000, n, 3), 1, {})) for n in (7, 40))
    ]
    assert ["LENGTH = 7;" in specs[0], "LENGTH = 0;" in specs[1]] == [True, True]


@pytest.mark.parametrize(
    ("columns", "word", "kernel"), [(2, "u2", "tiles"), (4, "u4", "tiles"), (8, "u4", "columns")]
)
def test_bytes_of_a_word_of_columns_are_items_of_a_row(columns, word, kernel):
    plan, choice = chosen((ops.ADD, ["i1"], (1 << 26, columns), 0, {}))
    assert (plan.loads, plan.stores, choice.kernel) == ((np.dtype(word),), (np.dtype(word),), kernel)


@pytest.mark.parametrize(
    ("dtype", "shape", "flags", "stretch"),
    [
        ("f4", (1 << 18, 1023), {"pitch": 1024, "phase": 4}, 0),
        ("bfloat16", (1 << 18, 333), {"pitch": 334}, 0),
        ("i1", (1 << 20, 333), {"pitch": 334}, 84),
        ("i1", (1 << 20, 100), {"pitch": 101}, 25),
        ("bfloat16", (1 << 22, 7), {"pitch": 8, "phase": 2}, 7),
    ],
)
@pytest.mark.parametrize("arch", [80, 86, 90])
def test_results_lie_apart_where_no_input_lies_as_they_do(dtype, shape, flags, stretch, arch):
    """Lines that are read a little apart come as one stretch, and lines that begin anywhere in pieces."""
    plan, choice = chosen((ops.ADD, [dtype], shape, 0, flags), arch)
    assert choice.kernel == "columns"
    assert (choice.shape.apart, choice.layout.bytes > 0) == (True, dtype == "i1")
    assert arch == 86 or choice.shape.stretch == stretch
    assert choice.shared_bytes(plan) <= choice.chip.shared
    assert not chosen((ops.ADD, [dtype], shape, 0, {}), arch)[1].shape.apart


@pytest.mark.parametrize(
    ("dtype", "shape", "axis", "warps"),
    [
        ("f4", (640, 200, 1024), 1, 7),
        ("bfloat16", (104, 315, 1024), 1, 10),
        ("f4", (134, 1_000_000), 0, 5),
        ("f4", (640, 256, 1024), 1, 8),
        ("f4", (640, 288, 1024), 1, 10),
        # Half the items, within segments.
        ("f4", (900, 70, 999), 1, 5),
        # Tiles that a column fills, few columns, and columns too long for a tile.
        ("f4", (640, 512, 1024), 1, None),
        ("f4", (200, 1024), 0, None),
        ("f4", (640, 600, 1024), 1, None),
    ],
)
def test_a_tile_is_as_high_as_its_columns_where_others_were_half_empty(dtype, shape, axis, warps):
    n = shape[axis]
    plan, choice = chosen((ops.ADD, [dtype], shape, axis, {"segmented": n < 99, "listed": True}))
    tile = choice.tile
    assert choice.shape.warps == warps if warps else choice.shape.warps & (choice.shape.warps - 1) == 0
    assert not warps or n <= tile < 1.25 * n
    assert not warps or n < tile or warps & (warps - 1) == 0
    assert choice.shape.blocks * choice.shared_bytes(plan) <= choice.chip.shared


@pytest.mark.parametrize("name", ["add", "min", "max"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_each_part_of_a_word_is_computed_by_itself(name, dtype):
    dtype = np.dtype(dtype)
    op = on_words(getattr(ops, name.upper()), dtype)
    assert op is not None
    a, b = (x.ravel() for x in np.meshgrid(*[np.arange(256, dtype=np.uint8)] * 2))
    identity = np.full(1, identity_of(op, [np.dtype(np.uint32)])[0], np.uint32)
    for x, y in ((a, b), (b, a)):
        made = op.fn(x.view(np.uint32), y.view(np.uint32)).view(dtype)
        by = {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
        assert (made == by(x.view(dtype), y.view(dtype))).all()
        assert (op.fn(identity, x.view(np.uint32)) == x.view(np.uint32)).all()


@pytest.mark.parametrize(
    ("dtypes", "apart"),
    [(("?", "i8"), True), (("u1", "f4"), True), (("i4", "i8"), False), (("f4", "f4"), False)],
)
def test_results_that_are_much_wider_have_a_place_of_their_own(dtypes, apart):
    load, store = map(np.dtype, dtypes)
    plan = Plan(ops.ADD, (load,), (store,), (store,), (1 << 26,), 0)
    arranged = arrange(plan, [((load.itemsize,), 0)], [((store.itemsize,), 0)], [], None)
    choice = sweeps.choose(plan, arranged, shapes.chip(90))
    room, items = choice.room(plan), 32 * choice.shape.items
    own = choice.shape.warps * -(-(items * store.itemsize + 16) // 128) * 128
    assert room.area == items * (load if apart else store).itemsize + 16
    assert (room.own > 0) == apart
    stages = 2 * choice.shape.warps * choice.shape.strips * -(-room.area // 128) * 128
    assert choice.shared_bytes(plan) == stages + apart * own


@pytest.mark.parametrize(("phase", "gap"), [(0, 0), (8, 16)])
def test_lanes_meet_each_bank_once_where_no_array_is_shifted(phase, gap):
    mix = Operator(lambda a, b: (a[0] + b[1], a[1] * b[2], a[2] + b[0], a[3] * b[3]))
    plan, choice = chosen((mix, ["f8"] * 4, (1 << 26,), 0, {"phase": phase}))
    size = 8 * 32 * choice.shape.items + gap
    assert choice.room(plan).inputs == choice.room(plan).outputs == [0, size, 2 * size, 3 * size]
    assert gap or size % 128 == 0


@pytest.mark.parametrize(
    ("dtype", "shape", "phase", "axis", "pieces"),
    [("f4", (4096, 4096), 0, 0, 16), ("f4", (4096, 4096), 8, 0, 8), ("f4", (4098, 4096), 0, 0, 8), ("f8", (4097, 4096), 0, 0, 8),
     ("i1", (4096, 4096), 0, 0, 16), ("i1", (4100, 4096), 0, 0, 4), ("f4", (4096, 4096), 0, 1, 16),
     ("f4", (4096, 4098), 0, 1, 8)],
)  # fmt: skip
def test_turned_rows_are_moved_in_the_largest_pieces_that_begin_and_end_them(
    dtype, shape, phase, axis, pieces
):
    plan, choice = chosen((ops.MAX, [dtype], shape, axis, {"transposed": True, "phase": phase}))
    (moved,) = re.findall(
        r"template <> struct \w+put<0> .*lies = ITEMS_NEAR; static constexpr int grain = (\d+)",
        choice.spec(plan),
    )
    assert int(moved) == pieces


@pytest.mark.parametrize(
    ("dtype", "side", "flags", "items"),
    [("f4", 4096, {}, 32), ("i2", 4096, {}, 64), ("i1", 4096, {}, 64), ("i1", 4096, {"exclusive": True}, 64),
     ("f8", 4096, {}, 16),
     ("i2", 4098, {}, 64), ("i2", 4097, {}, 64), ("i1", 4097, {}, 64), ("i2", 4096, {"reverse": True}, 64)],
)  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
def test_turned_rows_come_by_128_bytes_where_lanes_hold_them(dtype, side, flags, items, axis):
    plan, choice = chosen((ops.MAX, [dtype], (side, side), axis, {"transposed": True, **flags}))
    assert (choice.kernel, choice.shape.items) == ("columns", items)
    grains = re.findall(r"lies = ITEMS_NEAR; static constexpr int grain = (\d+)", choice.spec(plan))
    assert all(items * np.dtype(dtype).itemsize <= 32 * int(grain) for grain in grains)
    assert choice.shared_bytes(plan) <= shapes.chip(90).shared


@pytest.mark.parametrize(
    ("shape", "axis", "flags", "bits"),
    [
        ((1 << 24,), 0, {}, True),
        ((1 << 24,), 0, {"exclusive": True}, True),
        ((1 << 24,), 0, {"reverse": True}, True),
        ((4000,), 0, {}, False),
        ((5000, 30), 0, {}, True),
        ((5000, 30), 0, {"reverse": True}, True),
        ((5000, 300), 0, {}, False),
        ((5000, 300), 1, {}, True),
        ((5000, 300), 1, {"reverse": True}, True),
    ],
)
def test_segments_that_nobody_wrote_down_are_bits_where_kernels_read_them(
    shape, axis, flags, bits, monkeypatch
):
    answers = {"architecture": 90, "attribute": 132, "blocks_per_multiprocessor": 3, "load": None}
    for name, answer in answers.items():
        monkeypatch.setattr(driver, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(compile, "cubin", lambda *_: b"")
    f4, x = np.dtype("f4"), View(0, shape, c_strides(shape, 4), np.dtype("f4"), 0, None, None)
    plan = Plan(ops.ADD, (f4,), (f4,), (f4,), shape, axis, segmented=True, **flags)
    marks = Marks(x, shape[axis], lambda *_: None, given=False)
    launch._kernel.cache_clear()
    assert launch._prepare(plan, [x], [x], (), marks, 0).bits == bits
    assert not launch._prepare(
        plan, [x], [x], (), View(0, shape[:1], (1,), np.dtype("?"), 0, None, None), 0
    ).bits
    launch._kernel.cache_clear()


@pytest.mark.parametrize("columns", [2, 5, 8, 17, 31, 32, 40])
@pytest.mark.parametrize("n", [4096, 100_000, 1 << 26])
def test_few_columns_share_a_warp(columns, n):
    _, choice = chosen((ops.ADD, ["f4"], (n, columns), 0, {"segmented": True}))
    assert choice.kernel == "columns"
    assert choice.width >= min(columns, 32)
    assert choice.column_groups == 1
    assert choice.tile * choice.width <= 2 * n * columns


@pytest.mark.parametrize(
    ("columns", "flags", "stretch"),
    [
        (2, {}, 0),
        (3, {}, 3),
        (8, {}, 0),
        (12, {}, 12),
        (33, {}, 33),
        (56, {}, 56),
        (64, {}, 0),
        (128, {}, 0),
        (128, {"segmented": True}, 0),
        (136, {}, 0),
        (33, {"phase": 4}, 0),
        (33, {"reverse": True}, 33),
        (33, {"reduce": True}, 33),
        (33, {"segmented": True}, 33),
    ],
)
def test_lines_of_few_columns_are_one_stretch(columns, flags, stretch):
    plan, choice = chosen((ops.ADD, ["f4"], (1 << 20, columns), 0, flags))
    assert choice.shape.stretch == stretch
    assert choice.column_groups == (1 if stretch else -(-columns // 32))
    assert choice.shared_bytes(plan) <= shapes.chip(90).shared


@pytest.mark.parametrize("dtypes", [["f4"], ["f8"], ["f2", "f2"]])
def test_stretches_in_more_stages_have_all_the_blocks_of_their_shape(dtypes):
    for columns in range(3, 129):
        plan, choice = chosen((ops.AFFINE if dtypes[1:] else ops.ADD, dtypes, (1 << 21, columns), 0, {}))
        blocks, stages = choice.shape.blocks, choice.shape.stages
        assert stages == 2 or choice.blocks(plan) == blocks
        assert stages == 2 or columns not in range(17, 32) or blocks == 2


@pytest.mark.parametrize("arch", sorted(shapes.CHIPS))
@pytest.mark.parametrize("columns", [5, 6, 7, 13, 33, 65, 66, 98, 127])
def test_lanes_hold_whole_lines_of_bytes_in_an_odd_number_of_words(columns, arch):
    plan, choice = chosen((ops.ADD, ["i1"], (1 << 22, columns), 0, {"exclusive": True}), arch)
    shape = choice.shape
    assert choice.shared_bytes(plan) <= shapes.chip(arch).shared
    if arch == 90 or shape.flat:
        bytes_of_a_lane = shape.items * (32 // shape.lanes) * columns // 32
        assert bytes_of_a_lane % 8 == 4
        assert choice.column_groups == 1


@pytest.mark.parametrize(
    ("dtype", "columns", "flags", "vector", "loose"),
    [
        ("f4", 333, {}, 4, True),
        ("f4", 4096, {"phase": 4}, 4, True),
        ("f4", 4096, {"phase": 8}, 4, True),
        ("f8", 4096, {"phase": 8}, 1, False),
        ("f4", 336, {}, 1, False),
        ("f4", 333, {"segmented": True}, 2, True),
        ("f8", 333, {}, 1, False),
        ("i2", 1000, {}, 4, False),
        ("i2", 1008, {}, 2, False),
        ("i2", 333, {}, 11, True),
        ("i1", 333, {}, 4, True),
        ("i1", 333, {"phase": 1}, 4, True),
    ],
)  # fmt: skip
def test_lines_that_begin_within_sectors_are_wide(dtype, columns, flags, vector, loose):
    plan, choice = chosen((ops.MUL, [dtype], (1 << 16, columns), 0, flags))
    assert choice.shape.vector == vector
    assert choice.shape.loose == loose
    assert not loose or places_of_lines(plan, choice.layout, choice.shape)[0] >= 0
    assert choice.shared_bytes(plan) <= shapes.chip(90).shared


@pytest.mark.parametrize(
    ("dtype", "n", "vector"),
    [("f4", 2, 6), ("f4", 3, 4), ("f4", 7, 4), ("i1", 3, 16), ("i1", 4, 12), ("f8", 3, 2), ("f4", 33, 1), ("i2", 127, 1)],
)  # fmt: skip
def test_a_lane_takes_short_rows_that_lie_one_behind_another(dtype, n, vector):
    plan, choice = chosen((ops.ADD, [dtype], (1 << 20, n), 1, {}))
    assert (choice.kernel, choice.shape.vector) == ("short", vector)
    assert choice.shape.items >= n
    assert choice.grid(lambda: 1) * choice.width >= 1 << 20
    assert choice.shared_bytes(plan) == choice.width * n * np.dtype(dtype).itemsize + 16


@pytest.mark.parametrize(
    ("op", "rows", "n", "flags", "kernel", "lanes", "items"),
    [
        (ops.ADD, 4000, 33, {}, "rows", 1, 48),
        (ops.ADD, 4000, 200, {}, "rows", 2, 112),
        (ops.ADD, 4000, 999, {}, "rows", 16, 64),
        (ops.ADD, 4000, 3001, {}, "rows", 32, 96),
        (ops.ADD, 4000, 5003, {}, "rows", 2 * 32, 80),
        (ops.ADD, 500, 999, {}, "rows", 4 * 32, 8),
        (ops.ADD, 9000, 100, {"reverse": True}, "short", 32, 128),
        (ops.ADD, 4000, 100, {"reverse": True}, "rows", 8, 16),
        (ops.MAX, 4000, 999, {}, "rows", 16, 64),
        (ops.MAX, 4000, 1010, {}, "rows", 16, 80),
        (ops.MAX, 4000, 1010, {"reverse": True}, "rows", 16, 80),
        (ops.MAX, 4000, 1010, {"phase": 1}, "rows", 16, 64),
        (ops.MUL, 4000, 999, {}, "rows", 32, 32),
    ],
)
def test_rows_of_bytes_are_cut_anywhere_where_the_operator_is_free_of_the_tree(
    op, rows, n, flags, kernel, lanes, items
):
    plan, choice = chosen((op, ["i1"], (rows, n), 1, flags))
    shape = choice.shape
    together = shape.warps if shape.together else 1
    assert (choice.kernel, shape.lanes * together, shape.items) == (kernel, lanes, items)
    assert choice.shared_bytes(plan) <= shapes.chip(90).shared


@pytest.mark.parametrize(
    ("dtype", "n", "pitch", "kernel", "lanes", "mode"),
    [
        ("f4", 100, 101, "short", 32, None),
        ("f4", 100, 104, "rows", 4, "EVEN"),
        ("f4", 100, 105, "rows", 8, "SHIFTED"),
        ("f4", 3, 4, "short", 32, None),
        ("f4", 31, 32, "rows", 1, "EVEN"),
        ("f8", 3, 5, "short", 32, None),
        ("f8", 3, 6, "rows", 1, "ALIGNED"),
        ("i2", 200, 208, "rows", 8, "EVEN"),
        ("i2", 200, 207, "rows", 8, "LOOSE"),
        ("i2", 200, 209, "rows", 8, "SHIFTED"),
        ("i1", 100, 101, "rows", 1, "LOOSE"),
        ("i1", 100, 117, "rows", 8, "SHIFTED"),
    ],
)
def test_rows_that_lie_a_little_apart_are_read_as_if_they_touched(dtype, n, pitch, kernel, lanes, mode):
    plan, choice = chosen((ops.ADD, [dtype], (1 << 20, n), 1, {"pitch": pitch}))
    assert (choice.kernel, choice.shape.lanes) == (kernel, lanes)
    assert mode is None or re.search(r"Input<0> .* mode = (\w+)", choice.spec(plan))[1] == mode
    assert choice.shared_bytes(plan) <= shapes.chip(90).shared


@pytest.mark.parametrize(
    ("shape", "pitch", "apart"),
    [
        ((1 << 20, 300), 301, 1),
        ((1 << 20, 300), 300, 0),
        ((1 << 20, 300), 320, 1),
        ((4096, 5003), 5004, 1),
        ((1 << 20, 33), 34, 1),
    ],
)
def test_the_cache_is_asked_for_the_ends_of_rows_of_results_that_touch_no_other(shape, pitch, apart):
    plan = chosen((ops.ADD, ["f4"], shape, 1, {}))[0]
    results = c_strides((shape[0], pitch), 4)
    arranged = arrange(plan, [(c_strides(shape, 4), 0)], [(results, 0)], [], None)
    _, choice = launch.choose(plan, arranged, shapes.chip(90))
    assert int(re.search(r"Output<0> .* apart = (\d)", choice.spec(plan))[1]) == apart


@pytest.mark.parametrize(("rows", "warps"), [(1, 4), (100, 4), (528, 4), (529, 8)])
def test_few_rows_take_several_warps_each(rows, warps):
    _, choice = chosen((ops.ADD, ["f4"], (rows, 1000), 1, {}))
    assert (choice.shape.warps, choice.shape.together) == (warps, rows <= 528)


@pytest.mark.parametrize("arch", [80, 86, 90])
@pytest.mark.parametrize("dtype", ["i1", "f4", "f8", "c16"])
@pytest.mark.parametrize(
    ("n", "columns"), [(7, 3), (33, 65), (64, 5), (128, 128), (300, 3), (300, 100), (900, 7)]
)
def test_batches_fill_half_of_a_multiprocessor_at_most_and_none_is_left(n, columns, dtype, arch):
    plan, choice = chosen((ops.ADD, [dtype], (20_001, n, columns), 1, {}), arch)
    if choice.kernel != "batches":
        assert n * columns * np.dtype(dtype).itemsize > shapes.chip(arch).shared // 64
        return
    assert 2 * choice.shared_bytes(plan) <= shapes.chip(arch).shared
    assert choice.grid(lambda: 1) * (choice.threads // choice.columns) * choice.shape.vector >= 20_001


@pytest.mark.parametrize(
    ("strides", "phase", "size", "behind"),
    [
        ((4000, 8), 0, 8, 0),
        ((4000, 8), 4, 8, 4),
        ((4000, 16), 8, 16, 8),
        ((4004, 8), 0, 4, 0),
        ((4000, 12), 0, 4, 0),
        ((4000, 8), 2, 4, 0),
        ((8, 4000), 0, 8, 0),
        ((4, 16), 0, 4, 0),
    ],
)
def test_neighbours_with_a_gap_are_larger_items_that_begin_at_multiples_of_their_size(
    strides, phase, size, behind
):
    f4 = np.dtype("f4")
    plan = Plan(ops.ADD, (f4,), (f4,), (f4,), (250, 250), 0)
    x = arrange(plan, [(strides, phase)], [(c_strides((250, 250), 4), 0)], [], None).loads[0]
    assert (x.size, x.behind) == (size, behind)
    assert (x.phase + x.offset) % size == (0 if size > 4 else phase % size)


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "items", "warps"),
    [
        (ops.ADD, "f2", (20000, 500), 16, 16), (ops.ADD, "f2", (1 << 18, 500), 32, 8), (ops.MAX, "i4", (60000, 100), 32, 4),
        (ops.MAX, "u1", (807, 25806), 16, 8),
    ],
)  # fmt: skip
def test_few_tiles_of_lines_that_begin_anywhere_go_in_more_warps(op, dtype, shape, items, warps):
    """Not so a stretch, or many tiles."""
    _, choice = chosen((op, [dtype], shape, 0, {}))
    assert (choice.shape.items, choice.shape.warps) == (items, warps)


@pytest.mark.parametrize(("grid", "ahead"), [(132, True), (396, False)])
def test_no_tile_is_asked_for_ahead_where_blocks_load_most_at_once(grid, ahead):
    """Two stages of 396 blocks hold 672 tiles of columns; and no tiles of rows, which are asked for ahead."""
    columns, rows = (
        chosen((ops.MIN, ["i8"], (918, 2686), 0, {})),
        chosen((ops.ADD, ["i2"], (1 << 20,), 0, {})),
    )
    assert columns[1].tickets == 672
    assert (tickets_ahead(*columns, grid) < 672) == ahead
    assert tickets_ahead(*rows, grid) > 0


def test_a_column_of_as_many_tiles_as_tickets_count():
    plan, choice = chosen((ops.MAX, ["i1"], ((1 << 43) - 2048, 32), 0, {}))
    assert choice.tiles == (1 << 32) - 1
    assert launch._freeze(plan, choice, 1)
    plan, choice = chosen((ops.MAX, ["i1"], (1 << 43, 32), 0, {}))
    with pytest.raises(EngineError, match="counts to 2"):
        launch._freeze(plan, choice, 1)


@pytest.mark.parametrize("names", [["f4", "i8", "u1"], ["u1"] * 8, ["c16", "u1"], ["f8"] * 8])
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_columns_of_any_components_fit(names, order):
    op = Operator(lambda a, b: b, name="last")
    for rows in (64, 5000, 200_000):
        plan, choice = chosen((op, names, (300, rows), 0, {"order": order}))
        assert choice.kernel in ("columns", "walk")
        assert choice.shared_bytes(plan) <= shapes.CHIPS[90].shared - 2048


def test_dimensions_that_share_an_input_lie_as_the_results_do():
    """Their step in the input is 0, and they are not the innermost for that."""
    plan, _ = chosen((ops.MAX, ["u1"], (680, 44, 2668), 1, {}))
    shape = plan.shape
    made = arrange(plan, [((0, shape[2], 1), 0)], [(c_strides(shape, 1), 0)], [], None)
    assert made.dims == (680, 2668)
