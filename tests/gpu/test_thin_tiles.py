"""Gradients of half precision along rows: a thread takes twice the items, where rows fill such tiles."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from cubins import frames

from gpu_plans import Fused, fused
from upsweep.adjoint import RULES
from upsweep.gpu import compile, functions
from upsweep.gpu.choice import Choice
from upsweep.plan import Plan


def gradients(name: str, shape: tuple[int, ...], arch: int = 90) -> tuple[Plan, Choice]:
    rule, inputs = RULES["tree"], f"{name} {name} {name} f4: i4:"
    flags = {"exclusive": True, "reverse": True}
    case = Fused(rule.op, inputs, shape, 2, rule.enter, rule.leave_from, flags, f"{name} {name}")
    return fused(case, arch)


@pytest.mark.parametrize(
    ("name", "shape", "tile"),
    [
        ("bfloat16", (8, 1536, 4096), (16, 4, 2)),
        ("f2", (64, 64, 16384), (16, 8, 2)),
        # Rows that fill three tiles of 8192 badly, and items of twice the bytes.
        ("bfloat16", (8, 1536, 17000), (8, 8, 2)),
        ("f4", (8, 1536, 4096), (8, 8, 2)),
    ],
)
def test_the_items_of_a_thread(name, shape, tile):
    plan, choice = gradients(name, shape)
    assert choice.kernel == "tiles"
    assert (choice.shape.items, choice.shape.warps, choice.shape.strips) == tile
    assert choice.shared_bytes(plan) * choice.shape.blocks <= choice.chip.shared


@pytest.mark.parametrize(("rows", "blocks"), [(64, 2), (2, 2), (1, 1)])
def test_few_long_rows_share_a_multiprocessor(rows, blocks):
    plan, choice = gradients("bfloat16", (1, rows, 1 << 24))
    assert (choice.shape.items, choice.shape.warps, choice.shape.strips) == (16, 8, 2)
    assert choice.shape.blocks == blocks
    assert choice.shared_bytes(plan) * blocks <= choice.chip.shared


@pytest.mark.parametrize(
    ("arch", "n"),
    [
        (86, 4096),
        (90, 8192),
        pytest.param(86, 8192, marks=pytest.mark.slow),
        pytest.param(90, 4096, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_spilled(arch, n):
    plan, choice = gradients("bfloat16", (8, 1536, n), arch)
    code = compile.made(compile.text(choice.kernel, choice.spec(plan)), functions.linked(plan), arch)
    assert choice.shared_bytes(plan) <= choice.chip.shared
    assert max(frames(code)) == 0
