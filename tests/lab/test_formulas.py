"""What kernels cost is what the textbooks say, in closed form.

Every size up to 128, every power of two up to 4096, and sizes between them; `UPSWEEP_EVERY_SIZE=1` runs all of them.
"""

import os

import pytest

from upsweep import lab
from upsweep.lab.counts import Banks, accesses, steps
from upsweep.textbook import KERNELS, bk_work, fibonacci, ks_work, sections_work, three_phase_work

EVERY = bool(os.environ.get("UPSWEEP_EVERY_SIZE"))
SIZES = range(1, 4097) if EVERY else [*range(1, 129), 256, 257, 500, 512, 1000, 1024, 1025, 2048, 3001, 4096]
WITH_FORMULAS = [name for name, row in KERNELS.items() if row.work or row.steps or row.barriers]
SLOW = {"naive": 512, "sequential": 4096}
"""The naive scan makes n * n / 2 additions."""


def one_section(name, n):
    """The block that scans n items at once, larger than hardware's where the formula speaks of all n."""
    row = KERNELS[name]
    if name in ("hierarchical", "three-phase", "sequential", "sequential-exclusive", "warp-shuffle"):
        return row.block(n)
    return max(-(-n // 2), 1) if "two items" in row.contract else n


@pytest.mark.parametrize("name", WITH_FORMULAS)
def test_closed_forms(name):
    row = KERNELS[name]
    for n in SIZES:
        if n > SLOW.get(name, 4096) or ("of one block" in row.contract and n > 1024):
            continue
        if (name == "warp-shuffle" and n > 1024) or (name == "hierarchical" and n % row.block(n)):
            continue
        block = one_section(name, n)
        wanted = {
            what: f.value(n, block)
            for what in ("work", "steps", "barriers")
            if (f := getattr(row, what)) and f.holds(n)
        }
        if not wanted:
            continue
        t = lab.trace(name, n=n, block=block)
        got = {"work": int(t.at("op").sum()), "steps": steps(t) if "steps" in wanted else None,
               "barriers": max(b.epoch for b in t.machine.blocks)}  # fmt: skip
        assert {what: got[what] for what in wanted} == wanted, f"{name}, n = {n}"


def test_round_numbers():
    """The sources' own examples."""
    assert ks_work(16) == 49
    assert bk_work(16) == 26
    assert ks_work(1 << 20) / ((1 << 20) - 1) == pytest.approx(19.0, abs=1e-3)
    assert ks_work(1024) / 1023 == pytest.approx(9.01, abs=5e-3)
    assert three_phase_work(1024, 64) == 2226
    assert sections_work(1 << 20, 1024) == 10_494_977
    assert [fibonacci(k) for k in range(1, 9)] == [1, 1, 2, 3, 5, 8, 13, 21]
    t = lab.trace("three-phase", n=1024, block=64)
    assert (t.counts().work, t.counts().steps) == (2226, 36)
    assert lab.trace("reduction", n=16).counts().work == 15


def test_traffic():
    """Global words: scan-then-propagate moves 4n, reduce-then-scan 3n, a single pass 2n, each with some for the sums."""
    n, block = 1024, 32
    for name, words in (("hierarchical", 4), ("reduce-then-scan", 3), ("domino", 2)):
        moved = 8 * sum(
            row.sectors for row in lab.trace(name, n=n, block=block).coalescing()
        )  # words of 4 bytes
        assert words * n - 2 * block <= moved <= words * n + 3 * 8 * n // block, name
    assert 8 * sum(row.sectors for row in lab.trace("kogge-stone", n=n).coalescing()) == 2 * n


@pytest.mark.parametrize("n", [8, 64, 256])
def test_moves(n):
    """Double buffering copies n - 1 words; Blelloch's down-sweep swaps n - 1 times, the root's identity among them."""
    assert lab.trace("kogge-stone-double", n=n).counts().moves == n - 1
    t = lab.trace("blelloch", n=n)
    swaps = [s for s, site in enumerate(t.sites) if site.kind == "store" and "right - stride" in site.text]
    assert sum(int((t.site == s).sum()) for s in swaps) == n - 1


@pytest.mark.parametrize("threads", [64, 256, 1024])
def test_divergence_of_kogge_stone(threads):
    """Only warp 0 parts, and only while the stride is below a warp: log2(warp) times at each branch."""
    branches = [
        b
        for b in lab.trace("kogge-stone", n=threads).divergence(warp=32)
        if "stride" in b.text and "and" in b.text
    ]
    assert [b.divergent for b in branches] == [5, 5]
    assert all(b.issued == threads // 32 * (threads.bit_length() - 1) for b in branches)


def test_divergence_of_reductions():
    """Modulo indices part in every warp while the stride is below a warp; neighbouring threads only at the very end."""
    modulo = [b for b in lab.trace("reduction-modulo", n=1024).divergence() if "%" in b.text]
    close = [b for b in lab.trace("reduction", n=1024).divergence() if "left < right" in b.text]
    assert sum(b.divergent for b in modulo) > 5 * 30
    assert sum(b.divergent for b in close) == 5


def test_coalescing():
    half = {row.text: row for row in lab.trace("blelloch", n=256).coalescing()}
    neighbours = {row.text: row for row in lab.trace("blelloch-interleaved", n=256).coalescing()}
    assert all(row.efficiency == 1 for row in half.values())
    assert all(row.efficiency == 0.5 for row in neighbours.values())


def test_interleaved_loads_conflict():
    for name, degree in (("blelloch", 1), ("blelloch-interleaved", 2)):
        first = next(row for row in accesses(lab.trace(name, n=64), Banks(32)))
        assert first.degree == degree
