"""What the CUDA engine chooses for a scan: which kernel, and tiles that fit the machine and the tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from gpu_plans import chosen
from upsweep.gpu import shapes
from upsweep.operator import Operator
from upsweep.operators import ops

CHOICES = [
    # dtypes, shape, axis, kernel, whether warps share a row, whether a block goes through whole rows
    (["f4"], (1 << 28,), 0, "tiles", False, False),
    (["f4"], (3, 10**8), 1, "tiles", False, False),
    (["f4"], (1, 1 << 31), 1, "tiles", False, False),
    (["f4"], (10**6, 256), 1, "rows", False, False),
    (["f4"], (65536, 4096), 1, "rows", True, False),
    (["f4", "f4"], (12288, 5000), 1, "rows", True, False),
    (["f4"], (500, 4096), 1, "tiles", False, False),
    (["i1"], (65536, 16384), 1, "tiles", False, False),
    (["f4"], (4096, 65536), 1, "tiles", False, False),
    (["f4"], (16384, 16500), 1, "tiles", False, True),
    (["i2"], (16000, 33000), 1, "tiles", False, True),
    (["f4"], (500, 16500), 1, "tiles", False, False),
    (["f4"], (65536, 4096), 0, "columns", False, False),
    (["f4"], (1 << 20, 256), 0, "columns", False, False),
    (["f4"], (8, 4096, 64), 1, "columns", False, False),
]


@pytest.mark.parametrize(("dtypes", "shape", "axis", "kernel", "together", "carry"), CHOICES)
def test_the_kernel_follows_the_shape(dtypes, shape, axis, kernel, together, carry):
    op = ops.AFFINE if len(dtypes) == 2 else ops.ADD
    _, choice = chosen((op, dtypes, shape, axis, {}))
    assert (choice.kernel, choice.shape.together, choice.shape.carry) == (kernel, together, carry)


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
    assert choice.shared_bytes(plan) <= shapes.SHARED_MEMORY - 4096
    assert choice.threads <= 1024
    if choice.kernel == "tiles":  # tiles, parts and runs are blocks of the tree
        assert choice.tile & (choice.tile - 1) == 0
        assert shape.warps * shape.strips <= 32
        assert not shape.carry or (rows >= 1024 and choice.tiles > 1)
    else:
        assert n <= choice.tile


@pytest.mark.parametrize("names", [["f4", "i8", "u1"], ["u1"] * 8, ["c16", "u1"], ["f8"] * 8])
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_columns_of_any_components_fit(names, order):
    op = Operator(lambda a, b: b, name="last")
    for rows in (64, 5000, 200_000):
        plan, choice = chosen((op, names, (300, rows), 0, {"order": order}))
        assert choice.kernel in ("columns", "walk")
        assert choice.shared_bytes(plan) <= shapes.SHARED_MEMORY - 2048
