"""The costs of kernels are those of the textbooks, in closed form.

Every size up to 64, powers of two up to 4096 with their neighbours, and sizes between them; `UPSWEEP_EVERY_SIZE=1` runs all of
them.
"""

import os
from itertools import accumulate

import pytest
from lanes import tally

from portions import every
from upsweep import lab
from upsweep.lab.cases import case
from upsweep.lab.traffic import Banks, accesses
from upsweep.textbook import KERNELS
from upsweep.textbook.formulas import bk_work, fibonacci, ks_work, sections_work, three_phase_work

EVERY = bool(os.environ.get("UPSWEEP_EVERY_SIZE"))
SIZES = (
    range(1, 4097)
    if EVERY
    else [*range(1, 66), 100, 127, 128, 129, 200, 255, 256, 257, 512, 513, 600, 1024, 2048, 3343, 4095, 4096]
)
WITH_FORMULAS = [name for name, row in KERNELS.items() if row.work or row.steps or row.barriers]
BY_ONE_THREAD = ("sequential", "sequential-exclusive")
SLOW = (*BY_ONE_THREAD, "naive")
LARGEST = {"sequential": 128, "sequential-exclusive": 128, "naive": 1024, "warp-shuffle": 1024}
"""The loops of one thread are slow to count: beyond these sizes, powers of two alone are run. A block of warps scans at most
1024 items.
"""


def one_section(name, n):
    """The block that scans n items at once. It is larger than hardware's where the formula is about any n."""
    row = KERNELS[name]
    if name in ("hierarchical", "three-phase", "matrix", "warp-shuffle", *BY_ONE_THREAD):
        return row.block(n)
    return max(-(-n // 2), 1) if "two items" in row.contract else n


@pytest.mark.parametrize("name", every(4, WITH_FORMULAS))
def test_closed_forms(name):
    row = KERNELS[name]
    for n in SIZES:
        block = one_section(name, n)
        forms = {what: getattr(row, what) for what in ("work", "steps", "barriers")}
        wanted = {what: form.value(n, block) for what, form in forms.items() if form and form.holds(n)}
        slow = n > LARGEST.get(name, 4096) and (name not in SLOW or n & (n - 1))
        if not wanted or slow or (name == "hierarchical" and n % block):
            continue
        got, _ = tally(case(name, n=n, block=block))
        assert {what: getattr(got, what) for what in wanted} == wanted, f"{name}, n = {n}"


@pytest.mark.parametrize("name", every(4, KERNELS))
def test_the_fast_count_is_the_tracers(name):
    """Lanes under a mask and threads one by one count the same and compute the same.

    Lanes run one block after the other, so nobody waits: what blocks do while they wait is not counted.
    """
    varies = ("steps", "work", "global_loads", "shared_loads", "shared_stores")
    waits = "domino" in name or name == "recurrence"
    left_out = varies if "look-back" in name else ("steps",) if waits else ()
    for n in (1, 2, 7, 16, 33, 100):
        one = case(name, n=n, warp=8)
        t = one.run()
        counts, result = tally(one)
        exact = {what: count for what, count in vars(counts).items() if what not in left_out}
        assert exact == {what: getattr(lab.counts(t), what) for what in exact}
        assert result == t.values


def test_threads_that_a_loop_was_not_for():
    """Thread 0 has no third phase, yet all 32 threads of a warp store together."""
    stores = [
        row for row in accesses(lab.trace("three-phase", n=1024)) if row.line > 0 and row.text == "xy[k]"
    ][-32:]
    assert [(row.kind, row.requests, row.wavefronts) for row in stores] == [("load", 1, 1)] * 32


def test_large_scans():
    for name in ("hierarchical", "domino-dynamic", "reduce-then-scan", "decoupled-look-back"):
        assert tally(case(name, n=5000))[1] == list(accumulate(range(1, 5001)))


@pytest.mark.parametrize("name", KERNELS)
def test_verdicts(name):
    """The formula that the page shows beside each count."""
    row = KERNELS[name]
    for n in (8, 16, 19):
        verdicts = lab.formulas(lab.trace(name, n=n))
        assert all(verdict.ok for verdict in verdicts), verdicts
        forms = [form for form in (row.work, row.steps, row.barriers) if form and form.holds(n)]
        assert [verdict.formula for verdict in verdicts] == [form.text for form in forms]


@pytest.mark.parametrize("name", every(4, WITH_FORMULAS))
def test_formulas_speak_of_no_launch_that_they_do_not_count(name):
    """More threads than items, items in several sections, and warps of another size have other costs."""
    for n in (1, 7, 8, 16, 19):
        for block in (1, 3, 8, 32):
            for warp in (4, 32):
                try:
                    verdicts = lab.formulas(lab.trace(name, n=n, block=block, warp=warp))
                except ValueError:  # such a block breaks the kernel's contract
                    continue
                assert all(verdict.ok for verdict in verdicts), (n, block, warp, verdicts)
    both = lab.formulas(lab.trace("three-phase", n=64, block=16))
    assert [verdict.wanted for verdict in both] == [142, 10]


def test_round_numbers():
    """The examples of the sources."""
    assert ks_work(16) == 49
    assert bk_work(16) == 26
    assert ks_work(1 << 20) / ((1 << 20) - 1) == pytest.approx(19.0, abs=1e-3)
    assert ks_work(1024) / 1023 == pytest.approx(9.01, abs=5e-3)
    assert three_phase_work(1024, 64) == 2226
    assert sections_work(1 << 20, 1024) == 10_494_977
    of_brent_kung = 512 * bk_work(2048) + bk_work(512) + (1 << 20) - 2048
    assert (of_brent_kung, round(of_brent_kung / ((1 << 20) - 1), 2)) == (3_138_037, 2.99)
    assert [lab.counts(lab.trace(name, n=32)).steps for name in ("kogge-stone", "brent-kung")] == [5, 9]
    assert [fibonacci(k) for k in range(1, 9)] == [1, 1, 2, 3, 5, 8, 13, 21]
    t = lab.trace("three-phase", n=1024, block=64)
    assert (lab.counts(t).work, lab.counts(t).steps) == (2226, 36)
    assert lab.counts(lab.trace("reduction", n=16)).work == 15


def test_the_root_of_the_up_sweep_is_needed_by_nobody():
    """Blelloch's up-sweep ends with a total, which the next line clears: for n > 1, 2 (n - 1) - 1 operations would do."""
    for n in (2, 16, 64):
        t = lab.trace("blelloch", n=n)
        used = (
            set(t.machine.left)
            | set(t.machine.right)
            | {getattr(word, "node", -1) for word in t.result.words}
        )
        unused = [k for k, left in enumerate(t.machine.left) if left >= 0 and k not in used]
        assert [t.intervals[k] for k in unused] == [((0, n - 1),)]


def test_traffic():
    """Global words: scan-then-propagate moves 4n, reduce-then-scan 3n, a single pass 2n, each with some for the sums."""
    n, block = 1024, 32
    for name, words in (("hierarchical", 4), ("reduce-then-scan", 3), ("domino", 2)):
        # Words of 4 bytes.
        moved = 8 * sum(row.sectors for row in lab.coalescing(lab.trace(name, n=n, block=block)))
        assert words * n - 2 * block <= moved <= words * n + 3 * 8 * n // block, name
    assert 8 * sum(row.sectors for row in lab.coalescing(lab.trace("kogge-stone", n=n))) == 2 * n


@pytest.mark.parametrize("n", [8, 64, 256])
def test_moves(n):
    """Double buffering copies n - 1 words. Blelloch's down-sweep swaps n - 1 times, the root's identity included."""
    assert lab.counts(lab.trace("kogge-stone-double", n=n)).moves == n - 1
    t = lab.trace("blelloch", n=n)
    swaps = [s for s, site in enumerate(t.sites) if site.kind == "store" and "right - stride" in site.text]
    assert sum(int((t.site == s).sum()) for s in swaps) == n - 1


@pytest.mark.parametrize("threads", [64, 256, 1024])
def test_divergence_of_kogge_stone(threads):
    """Only warp 0 parts, and only while the stride is below a warp: log2(warp) times at each branch."""
    branches = [
        b
        for b in lab.divergence(lab.trace("kogge-stone", n=threads), warp=32)
        if "stride" in b.text and "and" in b.text
    ]
    assert [b.divergent for b in branches] == [5, 5]
    assert all(b.arrivals == threads // 32 * (threads.bit_length() - 1) for b in branches)


def test_divergence_of_reductions():
    """Modulo indices part in every warp while the stride is below a warp; neighbouring threads only at the very end."""
    modulo = [b for b in lab.divergence(lab.trace("reduction-modulo", n=1024)) if "%" in b.text]
    close = [b for b in lab.divergence(lab.trace("reduction", n=1024)) if "left < right" in b.text]
    assert sum(b.divergent for b in modulo) > 5 * 30
    assert sum(b.divergent for b in close) == 5


def test_coalescing():
    half = {row.text: row for row in lab.coalescing(lab.trace("blelloch", n=256))}
    neighbours = {row.text: row for row in lab.coalescing(lab.trace("blelloch-interleaved", n=256))}
    assert all(row.efficiency == 1 for row in half.values())
    assert all(row.efficiency == 0.5 for row in neighbours.values())


def test_interleaved_loads_conflict():
    for name, degree in (("blelloch", 1), ("blelloch-interleaved", 2)):
        first = next(row for row in accesses(lab.trace(name, n=64), Banks(32)))
        assert first.degree == degree
