"""Reductions of rows by several blocks, and by the warp that has the last item, in the CUDA engine's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.cases import Call
from conformance.check import wrong
from portions import every, parts

# A block of two warps holds 1024 items: of a row of 33 blocks and of two whole groups of 32, of three rows of some blocks each.
GROUPED = [
    Call("hash-u64", ((33_000,), 0), reduce=True, inside="offset", initial="scalar"),
    Call("hash-u64", ((65_536,), 0), reduce=True, reverse=True),
    Call("hash-u64", ((65_537,), 0), reduce=True),
    Call("add-float32", ((2, 33 * 2048 - 1), 1), reduce=True, inside="offset"),
    Call("hash-u64", ((3, 3073), 1), reduce=True, initial="rows", inside="padded"),
]
# A block for each row.
WHOLE = [
    Call("hash-u64", ((65, 1100), 1), reduce=True, initial="rows", reverse=True),
    Call("hash-u64", ((64, 1024), 1), reduce=True, inside="padded"),
    Call("add-float16", ((66, 1601), 1), reduce=True),
]


@pytest.fixture
def by_blocks(emulated, monkeypatch):
    """Blocks of two warps, from the smallest rows on."""
    from upsweep.gpu.shapes import rows

    monkeypatch.setattr(rows, "FEW_BYTES", 0)
    monkeypatch.setattr(rows, "WARPS", 2)
    monkeypatch.setattr(rows, "BLOCKS_OF_FEW", 0)
    emulated.forget()
    yield emulated
    emulated.forget()


@parts(4)
def test_reductions_by_several_blocks_have_the_oracles_bits(by_blocks, part):
    for call in (*GROUPED, *WHOLE)[part::4]:
        by_blocks.gpu.loaded.clear()
        by_blocks.gpu.rng = np.random.default_rng(1)
        assert wrong(call, by_blocks, draws=2) is None, call
        assert set(by_blocks.gpu.loaded) == {"upsweep_rows"}


def test_clusters_that_are_not_the_last_of_a_row_wait_for_none(emulated):
    call = Call("hash2-u64", ((16_400,), 0), reduce=True, reverse=True, initial="scalar")
    assert wrong(call, emulated) is None
    assert max(emulated.gpu.clusters) > 1


FAULTS = [
    ("t + 1 == (u32)p.tiles", "t + 2 == (u32)p.tiles", GROUPED[4]),
    ("g < t / 32; g += WARPS", "g + 1 < t / 32; g += WARPS", GROUPED[2]),
    ("narrow<32>(sums, t / 32, lane, start, before, after);", "", GROUPED[0]),
    ("lane < place && (", "lane + 1 < place && (", GROUPED[4]),
    ("p.n > j + PART", "p.n >= j + PART", GROUPED[1]),
    ("p.n <= j ||", "p.n <= j + 1 ||", GROUPED[2]),
    ("    up_sweep(x, swept);\n  }", "  }", WHOLE[0]),
]


@pytest.mark.parametrize(("right", "planted", "call"), every(4, FAULTS))
def test_faults_of_such_reductions_are_found(by_blocks, right, planted, call, monkeypatch):
    from upsweep.gpu import compile

    whole = compile.text
    assert right in whole("rows", "")
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace(right, planted))
    by_blocks.forget()
    assert any(wrong(call, by_blocks) for _ in range(5))
