"""A gallery of mistakes: the kernels of `wrong/`, with a description of what is wrong in each.

`MISTAKES` is the table: the lab must find exactly what `finds` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from upsweep.textbook import grids, kogge_stone, trees
from upsweep.textbook.table import Launch, Setup
from upsweep.textbook.wrong.grids import (
    domino_as_printed,
    domino_no_acquire,
    domino_no_barrier,
    domino_no_release,
    histogram_without_atomics,
    range_query,
    sections_wait_for_neighbours,
    sums_of_exclusive,
    uniform_add_unguarded,
)
from upsweep.textbook.wrong.kogge_stone import (
    early_return,
    figure_11_3,
    gpu_gems_double_buffer,
    kogge_stone_divergent,
    kogge_stone_in_place,
    kogge_stone_no_first_barrier,
    kogge_stone_no_second_barrier,
    notes_double_buffer,
)
from upsweep.textbook.wrong.trees import (
    blelloch_whole_stride,
    blelloch_wrong_swap,
    brent_kung_literal,
    hwu_epilogue,
    hwu_reduction,
    padded_as_printed,
    padded_with_barrier,
    padded_with_doubling,
    reduction_one_level_more,
    wrong_order,
    zero_conflict_macro,
)


@dataclass(frozen=True)
class Mistake:
    """One row of the gallery."""

    name: str
    function: Callable[..., None]
    setup: Setup
    n: int
    finds: frozenset[str]
    """The kinds of findings of the lab's check: all of these, and no other."""
    says: str
    """The mistake, and where it was printed."""
    instead: str
    """The kernel of the table that does it right."""
    result: str = "inclusive"
    also: str = ""
    """The fault that another question than the check shows: `idle barrier`, `bank conflict`, or a law."""
    needs: str = ""
    schedule: tuple[tuple[str, Any], ...] = ()
    """The residency and the order of issue that show it."""
    x: tuple[Any, ...] | None = None
    answer: Callable[[Sequence[Any]], list[Any]] | None = None


_TABLE = (3, 8, 4, 7, 12, 15, 19, 20)
"""Prefixes of a histogram, for the range query."""


def _one(kernel: Callable[..., None], n: int, block: int, tile: int | None = None, words: int | None = None,
            y: int | None = None,
         args: tuple[str | int, ...] | None = None, shared: int = 0, log_banks: int = 5) -> Setup:  # fmt: skip
    names = {"BLOCK": block, "TILE": tile or n, "WORDS": words or tile or n, "LOG_BANKS": log_banks}
    launch = Launch(kernel, 1, block, args or ("x", "y", n), names, shared)
    return Setup((launch,), {"y": n if y is None else y}, n)


def _domino(kernel: Callable[..., None], n: int = 16, block: int = 4, spare: int = 1) -> Setup:
    blocks = n // block
    launch = Launch(kernel, blocks, block, ("x", "y", "carries", "flags", n), {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + spare, "flags": [0] * (blocks + spare)}, n)


def _three(first: Callable[..., None], last: Callable[..., None], n: int, block: int = 4) -> Setup:
    blocks = -(-n // block)
    launches = (
        Launch(first, blocks, block, ("x", "y", "sums", n), {"BLOCK": block}),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(last, blocks, block, ("y", "scanned", n), {"BLOCK": block}),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def _found(text: str) -> frozenset[str]:
    return frozenset(filter(None, (kind.strip() for kind in text.split(","))))


_ROWS = [
    Mistake("ks-in-place", kogge_stone_in_place, _one(kogge_stone_in_place, 8, 8), 8, _found("race, wrong value"),
            "a thread overwrites its word while the one to its right still needs it (notes on scan kernels, in words)",
            "kogge-stone"),
    Mistake("ks-no-first-barrier", kogge_stone_no_first_barrier, _one(kogge_stone_no_first_barrier, 8, 8), 8,
            _found("race"), "a level reads what the level before may not have written", "kogge-stone"),
    Mistake("ks-no-second-barrier", kogge_stone_no_second_barrier, _one(kogge_stone_no_second_barrier, 8, 8), 8,
            _found("race, wrong value"), "a thread overwrites a word that another has yet to read", "kogge-stone"),
    Mistake("ks-divergent-barrier", kogge_stone_divergent, _one(kogge_stone_divergent, 8, 8), 8,
            _found("divergent barrier"), "not all threads of the block come to the barrier", "kogge-stone"),
    Mistake("early-return", early_return, _one(early_return, 6, 8, 8), 6, _found("divergent barrier"),
            "threads that have left never come to the barrier", "kogge-stone"),
    Mistake("figure-11-3", figure_11_3, _one(figure_11_3, 13, 16, 16), 13, _found(""),
            "right for sums as printed: XY[t] + XY[t - stride] puts the later items first, and 0 stands for the identity "
            "(PMPP chapter 11, figure 11.3)", "kogge-stone", also="commutative", needs="commutative"),
    Mistake("ks-small-section", figure_11_3, Setup((Launch(figure_11_3, 1, 8, ("x", "y", 8), {"BLOCK": 6}),), {"y": 8}, 8), 8,
            _found("out of bounds, wrong value"), "SECTION_SIZE and blockDim are two names for one number: where the first is "
            "smaller, XY[threadIdx.x] overlaps what lies behind XY (PMPP chapter 11, figure 11.3)", "kogge-stone",
            needs="commutative"),
    Mistake("gems-double-buffer", gpu_gems_double_buffer, _one(gpu_gems_double_buffer, 8, 8), 8,
            _found("uninitialised, wrong value"), "`temp[pout*n+thid] +=` adds to the half written two levels ago (GPU Gems 3)",
            "kogge-stone-double-exclusive", "exclusive"),
    Mistake("notes-no-guard", notes_double_buffer, _one(notes_double_buffer, 13, 16, args=("y", "x"), shared=32), 13,
            _found("out of bounds"), "no n and no guard: 13 inputs, 16 threads, three read past the end", "kogge-stone-double"),
    Mistake("notes-half-memory", notes_double_buffer, _one(notes_double_buffer, 8, 8, args=("y", "x"), shared=8), 8,
            _found("out of bounds, wrong value"), "two buffers need 2n words of dynamic shared memory, and get n",
            "kogge-stone-double"),
    Mistake("notes-last-barrier", notes_double_buffer, _one(notes_double_buffer, 16, 16, args=("y", "x"), shared=32), 16,
            _found(""), "the barrier after the last level separates nothing: each thread reads its own word",
            "kogge-stone-double", also="idle barrier"),
    Mistake("hwu-reduction", hwu_reduction, _one(hwu_reduction, 16, 8, y=1), 16, _found("race, uninitialised, wrong value"),
            "the barrier stands after the addition: nothing orders the load before the first one", "reduction", "reduction"),
    Mistake("hwu-epilogue", hwu_epilogue, _one(hwu_epilogue, 16, 8), 16, _found("never written"),
            "one store for two items a thread: the second half of the result is never written", "brent-kung"),
    Mistake("one-level-more", reduction_one_level_more, _one(reduction_one_level_more, 16, 16, y=1), 16, _found(""),
            "`stride <= blockDim.x` with one item a thread: the last level does nothing but wait", "reduction-modulo",
            "reduction", also="idle barrier"),
    Mistake("bk-tail", brent_kung_literal, _one(brent_kung_literal, 13, 8, 16), 13, _found("uninitialised"),
            "no else for the tail: words past the end are read though nobody wrote them; any block sum is garbage",
            "brent-kung"),
    Mistake("bk-not-a-power", brent_kung_literal, _one(brent_kung_literal, 12, 6), 12, _found("wrong value"),
            "the section must be a power of two: 6 threads leave wrong prefixes", "brent-kung"),
    Mistake("bk-small-section", brent_kung_literal, _one(brent_kung_literal, 16, 8, 8), 16,
            _found("out of bounds, wrong value"), "SECTION_SIZE must be 2 * blockDim", "brent-kung"),
    Mistake("wrong-order", wrong_order, _one(wrong_order, 8, 4), 8, _found("wrong value"),
            "`XY[index] += XY[index - stride]` puts the later operand first: right for addition, wrong for matrices",
            "brent-kung", also="commutative"),
    Mistake("wrong-swap", blelloch_wrong_swap, _one(blelloch_wrong_swap, 8, 4), 8, _found("wrong value"),
            "in Blelloch's swap the prefix must stay on the left", "blelloch", "exclusive", also="commutative"),
    Mistake("whole-stride", blelloch_whole_stride, _one(blelloch_whole_stride, 8, 4), 8,
            _found("out of bounds, wrong value, race"), "the down-sweep reaches `stride` elements away instead of half of that",
            "blelloch", "exclusive"),
    Mistake("padded-as-printed", padded_as_printed, _one(padded_as_printed, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("race, uninitialised, wrong value"), "no `s *= 2` and no barrier", "blelloch-padded", "reduction"),
    Mistake("padded-with-doubling", padded_with_doubling, _one(padded_with_doubling, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("race, uninitialised, out of bounds, wrong value"), "with `s *= 2`, but still no barrier", "blelloch-padded",
            "reduction"),
    Mistake("padded-with-barrier", padded_with_barrier, _one(padded_with_barrier, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("out of bounds"), "right answer, wrong program: `thid <= d` works on words past the end", "blelloch-padded",
            "reduction"),
    Mistake("padded-no-room", trees.blelloch_padded, Setup((Launch(trees.blelloch_padded, 1, 32, ("x", "y", 64),
            {"BLOCK": 32, "TILE": 64, "WORDS": 64, "LOG_BANKS": 5}),), {"y": 64}, 64), 64,
            _found("out of bounds, wrong value"), "padding needs n + (n >> log2 banks) words; the slides never ask for them",
            "blelloch-padded", "exclusive"),
    Mistake("padded-for-16-banks", trees.blelloch_padded, Setup((Launch(trees.blelloch_padded, 1, 64, ("x", "y", 128),
            {"BLOCK": 64, "TILE": 128, "WORDS": 136, "LOG_BANKS": 4}),), {"y": 128}, 128), 128, _found(""),
            "the shift of 16 banks on a machine of 32 leaves two-way conflicts", "blelloch-padded", "exclusive",
            also="bank conflict"),
    Mistake("zero-conflict-macro", zero_conflict_macro, _one(zero_conflict_macro, 64, 32, y=1), 64, _found(""),
            "GPU Gems 3's macro is zero for every index, + binding tighter than >>: no padding at all", "blelloch-padded",
            "reduction", also="bank conflict"),
    Mistake("sums-of-exclusive", sums_of_exclusive, _three(sums_of_exclusive, grids.uniform_add, 16), 16, _found("wrong value"),
            "the last word of an exclusive scan lacks the last input: it is not the sum of the block", "hierarchical"),
    Mistake("uniform-add-unguarded", uniform_add_unguarded, _three(grids.scan_sections, uniform_add_unguarded, 14), 14,
            _found("out of bounds, wrong value"), "block 0 reads S[-1], and threads past the end write", "hierarchical"),
    Mistake("domino-no-preset", domino_as_printed, _domino(domino_as_printed), 16, _found("deadlock"),
            "block 0 waits for flags[0], which nobody presets", "domino"),
    Mistake("domino-short-arrays", grids.domino, _domino(grids.domino, spare=0), 16, _found("out of bounds"),
            "the last block writes one past its number: the arrays need gridDim + 1 entries", "domino"),
    Mistake("domino-no-barrier", domino_no_barrier, _domino(domino_no_barrier), 16, _found("race, wrong value"),
            "thread 0 reads the block's sum before the others have written it", "domino"),
    Mistake("domino-no-acquire", domino_no_acquire, _domino(domino_no_acquire), 16, _found("race"),
            "no fence between seeing the flag and reading the carry", "domino"),
    Mistake("domino-no-release", domino_no_release, _domino(domino_no_release), 16, _found("race"),
            "no fence between writing the carry and raising the flag", "domino"),
    Mistake("domino-out-of-order", grids.domino, _domino(grids.domino), 16, _found("deadlock"),
            "static block numbers, blocks issued backwards, two held at once: each waits for one that cannot start",
            "domino-dynamic", schedule=(("resident", 2), ("issue", "descending"))),
    Mistake("hopeful-neighbours", sections_wait_for_neighbours, Setup((Launch(sections_wait_for_neighbours, 2, 4,
            ("x", "y", 8), {"BLOCK": 4}),), {"y": 8}, 8), 8, _found("race, uninitialised, wrong value"),
            "a block reads what another writes, and nothing orders the two", "domino"),
    Mistake("histogram-without-atomics", histogram_without_atomics, _one(histogram_without_atomics, 16, 16, words=8, y=8), 16,
            _found("race"), "`bins[v] += 1` reads and writes in two steps", "range-histogram", "application",
            x=tuple(k * k % 8 for k in range(16)), answer=lambda x: [list(x).count(b) for b in range(8)]),
    Mistake("range-query-short", range_query, Setup((Launch(range_query, 1, 2, ("x", "lows", "highs", "y", 8)),),
            {"lows": [1, 4], "highs": [6, 5], "y": 2}, 8), 8, _found("wrong value"),
            "pref[B] - pref[A] leaves out bin A: inclusive prefixes need pref[B] - pref[A - 1]", "range-query",
            "application", x=_TABLE, answer=lambda x: [x[6] - x[0], x[5] - x[3]]),
]  # fmt: skip

MISTAKES: dict[str, Mistake] = {row.name: row for row in _ROWS}
"""Every mistake by its name."""

NOT_KERNELS = {
    "the notes' powers": "the notes lost their superscripts (2n-1 stands for 2^n - 1) and leave XY[14] out of the last level",
    "the order of floats": "a tree adds floats in another order than a loop: compare with a tolerance, or with the same tree",
    "ECE569's template": 'ECE569 module 37 says "identify element" for identity, and its template holds a stray `XY{`',
}
"""Traps of the sources that no run can show."""
