"""The kernels of layers compile without a GPU, and keep their states in registers."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from cubins import frames
from cuda.bindings import nvrtc
from test_compile import WHOLE, compiles

from upsweep.dtypes import named
from upsweep.gpu import compile
from upsweep.gpu.layers import gated_layers, selective_scans
from upsweep.gpu.layers.words import grain_of
from upsweep.gpu.view import View

GRAINS = {"float32": 16, "bfloat16": 8, "float16": 8}
ARRAYS = {"rg_lru": 3, "min_gru": 2, "hgrn": 2}
GATED = ["gated", "gated_back", "gated_step"]
ASIDE = {((13, 0), "gated_back", "rg_lru", False): 8}
"""Bytes of local memory that a version of the compiler puts aside."""
SELECTIVE = ["selective", "selective_back", "selective_step"]


def spilled(kernel: str, spec: str, arch: int) -> int:
    return max(frames(compile.made(compile.text(kernel, spec), (), arch)))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("dtype", "crowd"),
    [
        ("bfloat16", 4),
        pytest.param("float32", 1, marks=SLOW),
        pytest.param("float32", 4, marks=SLOW),
        pytest.param("bfloat16", 1, marks=SLOW),
    ],
)
@pytest.mark.parametrize("kernel", SELECTIVE)
def test_selective_scans_keep_their_registers(kernel, dtype, crowd):
    spec = selective_scans.spec_of(kernel, named(dtype), 16, GRAINS[dtype], 16, crowd)[0]
    assert spilled(kernel, spec, 90) == 0


@pytest.mark.parametrize(
    ("kernel", "layer", "few"),
    [
        pytest.param(kernel, layer, few, marks=() if (k + 2 * j) % 4 == few else SLOW)
        for k, kernel in enumerate(GATED)
        for j, layer in enumerate(gated_layers.LAYERS)
        for few in (False, True)
    ],
)
def test_gated_layers_keep_their_registers(kernel, layer, few):
    spec, _, _ = gated_layers.spec_of(kernel, layer, named("bfloat16"), 8, ARRAYS[layer], few)
    assert spilled(kernel, spec, 90) <= ASIDE.get((nvrtc.nvrtcVersion()[1:], kernel, layer, few), 0)


@pytest.mark.parametrize("way", ["gated_lanes", "gated_back_lanes"])
@pytest.mark.parametrize("piece", gated_layers.LANES)
def test_lanes_that_walk_alone_keep_their_registers(way, piece):
    spec, _, memory = gated_layers.spec_of(way, "rg_lru", named("bfloat16"), piece, 3, False)
    assert spilled(way, spec, 90) == 0
    assert gated_layers.LANES[piece].blocks * (memory + 1024) <= 228 << 10


@pytest.mark.parametrize("room", [99 << 10, 163 << 10, 227 << 10])
@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("name", sorted({name for name, _ in gated_layers.SERVING}))
def test_shared_memory_holds_the_warps_that_serve(name, size, room):
    """Of layers with the fewest arrays and the most, for as many blocks as the table says, on processors of all sizes."""
    dtype = {2: "float16", 4: "float32", 8: "float64"}[size]
    for few, (layer, arrays) in product((False, True), ARRAYS.items()):
        spec, threads, memory = gated_layers.spec_of(name, layer, named(dtype), size, arrays, few, room)
        blocks = int(re.search(r"BLOCKS = (\d+)", spec)[1])
        assert threads >= 32 * 3, "the walk asks for a second tile before it has done with the first"
        assert blocks * (memory + 1024) <= room + 1024


@pytest.mark.parametrize(("room", "teams"), [(99 << 10, 1), (163 << 10, 2)])
def test_a_block_walks_as_many_groups_back_as_shared_memory_holds(room, teams):
    _, threads, memory, found = selective_scans.spec_of(
        "selective_back", named("bfloat16"), 16, 8, 16, 4, room
    )
    assert (found, threads) == (teams, 128 * teams)
    assert memory <= room


@WHOLE
@pytest.mark.parametrize(("arch", "size"), [(80, 4), (90, 8), (100, 2)])
def test_layers_compile_for_pieces_of_any_size(arch, size, whole):
    """Plans for channels that begin anywhere, for every number of states, and for the widest dtype."""
    dtype = {2: "float16", 4: "float32", 8: "float64"}[size]
    for kernel, layer in zip(GATED, gated_layers.LAYERS):
        spec, _, _ = gated_layers.spec_of(kernel, layer, named(dtype), size, ARRAYS[layer], False)
        assert compiles(kernel, spec, arch, whole)
    for kernel, states in zip(SELECTIVE, (5, 12, 24)):
        spec = selective_scans.spec_of(kernel, named(dtype), states if size < 8 else 5, size, size, 1)[0]
        assert compiles(kernel, spec, arch, whole)


@pytest.mark.parametrize(
    ("at", "wide", "grain"), [(0, 64, 16), (8, 64, 8), (0, 66, 4), (2, 64, 2), (0, 33, 2)]
)
def test_pieces_begin_where_every_line_does(at, wide, grain):
    """bfloat16 at an address, and lines of so many channels."""
    x = View(4096 + at, (2, 5, wide), (10 * wide, 2 * wide, 2), np.dtype("u2"), 0, None, None)
    assert grain_of([x]) == grain
