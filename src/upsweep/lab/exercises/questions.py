"""Questions to answer before a run does: each with the run that answers it, and the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from upsweep.lab.cases import case
from upsweep.lab.costs import counts
from upsweep.lab.networks import identify, laws
from upsweep.lab.provenance import provenance
from upsweep.lab.traces import Trace
from upsweep.lab.traffic import Banks, accesses, coalescing, divergence
from upsweep.textbook.formulas import bk_work, ks_work


@dataclass(frozen=True)
class Question:
    """A name in the starter file that stands for a blank, and what belongs there."""

    name: str
    answer: Callable[[], Any]
    """Computes it, by a run wherever there is one."""
    why: str


def _run(name: str, n: int, **given: Any) -> Trace:
    return case(name, n=n, **given).run()


def _degrees(name: str, n: int, model: Banks, text: str) -> list[int]:
    return [row.degree for row in accesses(_run(name, n), model) if row.text == text and row.kind == "load"]


def _parted(name: str, n: int, part: str) -> int:
    return sum(branch.divergent for branch in divergence(_run(name, n)) if part in branch.text)


def _complete(level: int) -> list[int]:
    """The words that become whole prefixes in a level of the reverse tree of 16 items, counted from 1."""
    states = [s.words for s in provenance(_run("brent-kung", 16)) if "xy[15]" in s.words][-4:]
    whole = [{k for k in range(16) if words[f"xy[{k}]"] == ((0, k),)} for words in states]
    return sorted(whole[level] - whole[level - 1])


def _sectors(name: str) -> int:
    return sum(row.sectors for row in coalescing(_run(name, 256)) if row.text.startswith("x["))


CONFLICTS = (
    Question("HALF_WARPS", lambda: _degrees("reduction", 64, Banks(16, group=16), "xy[left]"),
             "at stride s the threads read words 2s apart: 2s of 16 banks' period, until too few threads are left to collide"),
    Question("FULL_WARPS", lambda: _degrees("reduction", 64, Banks(32), "xy[left]"),
             "with 32 banks and whole warps the same words are asked for at once: stride 1 touches every other bank, twice"),
    Question("PADDED", lambda: counts(_run("blelloch-padded", 512)).degree,
             "one word of padding after every 32 keeps trees of up to 32 * 32 items free of conflicts"),
    Question("PADDED_FOR_16", lambda: counts(_run("blelloch-padded-16", 512)).degree,
             "the shift of 16 banks on a machine of 32 leaves some pairs in one bank"),
    Question("ODD_STRIDE", lambda: 1, "gcd(3, 32) = 1: an odd stride visits every bank once"),
)  # fmt: skip
COSTS = (
    Question("NAIVE_WORK", lambda: counts(_run("naive", 16)).work, "0 + 1 + ... + 15 = n (n - 1) / 2"),
    Question("KOGGE_STONE_WORK", lambda: counts(_run("kogge-stone", 16)).work, "15 + 14 + 12 + 8 = n log2 n - (n - 1)"),
    Question("KOGGE_STONE_STEPS", lambda: counts(_run("kogge-stone", 16)).steps, "a step for each doubling: log2 16"),
    Question("KOGGE_STONE_BARRIERS", lambda: counts(_run("kogge-stone", 16)).barriers, "two for each of its levels"),
    Question("BRENT_KUNG_WORK", lambda: counts(_run("brent-kung", 16)).work, "15 up, and 16 - 1 - log2 16 = 11 down"),
    Question("BRENT_KUNG_STEPS", lambda: counts(_run("brent-kung", 16)).steps, "log2 n up, log2 n - 1 down"),
    Question("BLELLOCH_SWAPS", lambda: counts(_run("blelloch", 16)).moves, "each node of the down-sweep swaps once: n - 1"),
    Question("RATIO_AT_1024", lambda: round(ks_work(1024) / 1023, 2), "9217 operations beside 1023 of one thread"),
)  # fmt: skip
BRANCHES = (
    Question("KOGGE_STONE", lambda: _parted("kogge-stone", 1024, "t >= stride") // 2,
             "only the first warp has threads on both sides of t >= stride, and only for strides 1, 2, 4, 8, 16"),
    Question("MODULO", lambda: _parted("reduction-modulo", 1024, "%"),
             "all 32 warps part while 2 * stride <= 32, five times, and afterwards each that has a thread at work: 160 + 31"),
    Question("NEIGHBOURS", lambda: _parted("reduction", 1024, "left < right"),
             "threads at work are neighbours: whole warps go idle together, until less than one warp is left"),
    Question("HALF_SPLIT_SECTORS", lambda: _sectors("blelloch"),
             "256 words of 4 bytes are 32 sectors of 32 bytes, each read once"),
    Question("INTERLEAVED_SECTORS", lambda: _sectors("blelloch-interleaved"),
             "2t and 2t + 1 are two loads, and each touches every sector: twice as many"),
)  # fmt: skip
COURSE = (
    Question("SEQUENTIAL_ADDITIONS", lambda: counts(_run("sequential", 16)).work, "y[0] = x[0] adds nothing: n - 1, not n"),
    Question("FIRST_LEVEL", lambda: _complete(1), "stride 4: x8..x11 meets x0..x7"),
    Question("SECOND_LEVEL", lambda: _complete(2), "stride 2: words 5, 9 and 13 meet the prefix two places to the left"),
    Question("FIRST_INDEX", lambda: (0 + 1) * 2 * 4 - 1, "thread 0 at stride 4: (t + 1) * 2 * stride - 1"),
    Question("INPUTS_AFTER_2_LEVELS", lambda: 4, "after k levels of Kogge-Stone a word holds at most 2^k inputs"),
    Question("ORDER_LOST", lambda: laws(_run("vector-reduction", 16)).commutative,
             "items half a vector apart are combined: x0 meets x8 before it meets x1"),
    Question("CYCLES_128_PADDED", lambda: 112, "48 + 8 * 8: the slide prints 106, which no rule gives"),
    Question("TWENTY_TIMES", lambda: round(ks_work(10**6) / (10**6 - 1), 2),
             "log2 of 10^6 is 19.93, the additions are 18.95 times as many"),
    Question("SNIR", lambda: identify(_run("brent-kung", 16)).deficiency, "26 operations and depth 6 against 2 * 16 - 2"),
    Question("LAUNCHES", lambda: len(_run("hierarchical", 16).kernels), "sections, their sums, uniform addition"),
    Question("GLOBAL_WORDS", lambda: 4, "scan-then-propagate reads x, writes y, reads y and writes y again"),
    Question("TIMES_BRENT_KUNG", lambda: round(ks_work(1024) / bk_work(1024), 1), "9217 / 2036"),
)  # fmt: skip
