"""Each classic scan kernel once, in plain Python, to run on a GPU and to trace in the lab.

`KERNELS` is the one table of them: the lab, the tests and the docs read it. A kernel's first line names its algorithm
and its source. PMPP is Hwu, Kirk and El Hajj, "Programming Massively Parallel Processors"; the other sources are ECE569
module 37, Hwu's lecture 4.6, notes on scan kernels, and KAUST's CS380 lecture 24.

>>> print(KERNELS["brent-kung"])
brent-kung: Brent-Kung scan: reduction tree, then reverse tree (PMPP chapter 11, figures 11.5 to 11.7).
"""

from __future__ import annotations

from typing import Any

from upsweep.textbook import applications, circuits, grids, kogge_stone, sequential, trees
from upsweep.textbook.formulas import (
    ALL_BUT_ONE,
    BK_BARRIERS,
    BK_STEPS,
    BK_WORK,
    FULL_BARRIERS,
    FULL_STEPS,
    FULL_TREE,
    KS_WORK,
    LEVELS,
    NONE,
    ONE_A_LEVEL,
    TWO_A_LEVEL,
    harris_work,
    lf_work,
    log,
    matrix_work,
    sections_work,
    three_phase_work,
)
from upsweep.textbook.setups import (
    box_answer,
    box_sums,
    compaction,
    decoupled_look_back,
    domino,
    domino_dynamic,
    full_tree,
    half,
    hierarchical,
    histogram_answer,
    knowles,
    ladner_fischer,
    matrix,
    naive,
    one_thread,
    query_answer,
    radix_split,
    range_histogram,
    range_query,
    recurrence,
    recurrence_answer,
    reduce_then_scan,
    root,
    sections,
    segmented,
    split_answer,
    summed_area,
    summed_area_answer,
    three_phase,
    warp_shuffle,
    whole,
)
from upsweep.textbook.table import Formula, Kernel, Launch, Setup

__all__ = ["KERNELS", "Formula", "Kernel", "Launch", "Setup", "run"]


def run(name: str, x: Any, op: Any = "add", block: int | None = None) -> Any:
    """Run a textbook kernel on a GPU through numba-cuda and give its result as a NumPy array.

    Args:
        name: a name of `KERNELS`.
        x: a one-dimensional NumPy array.
        op: an operator, its name, or a function of two scalars.
        block: threads of a block; by default what one section of n items asks for.

    Raises:
        KeyError: there is no kernel of that name.
        EngineError: numba-cuda or an NVIDIA GPU is not here. `upsweep.lab.trace(name, x=x)` runs the kernel without a GPU.
    """
    from upsweep.textbook import gpu

    return gpu.run(named(name), x, op, block)


def named(name: str) -> Kernel:
    """The kernel of a name; a KeyError that lists all names where there is none."""
    if name not in KERNELS:
        raise KeyError(f"no textbook kernel is called {name!r}; there are {', '.join(KERNELS)}")
    return KERNELS[name]


_ROWS = [
    Kernel("sequential", sequential.sequential, one_thread(sequential.sequential), lambda n: 1,
           family="serial", contract="one thread", work=ALL_BUT_ONE, steps=ALL_BUT_ONE, barriers=NONE),
    Kernel("sequential-exclusive", sequential.sequential_exclusive, one_thread(sequential.sequential_exclusive), lambda n: 1,
           "exclusive", family="serial", contract="one thread", work=ALL_BUT_ONE, steps=ALL_BUT_ONE, barriers=NONE),
    Kernel("naive", sequential.naive, naive, whole, barriers=NONE, steps=ALL_BUT_ONE,
           work=Formula("n (n - 1) / 2", lambda n, b: n * (n - 1) // 2)),
    Kernel("kogge-stone", kogge_stone.kogge_stone, sections(kogge_stone.kogge_stone), whole,
           family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("kogge-stone-exclusive", kogge_stone.kogge_stone_exclusive, sections(kogge_stone.kogge_stone_exclusive), whole,
           "exclusive", family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("kogge-stone-double", kogge_stone.kogge_stone_double, sections(kogge_stone.kogge_stone_double), whole,
           family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=ONE_A_LEVEL),
    Kernel("kogge-stone-double-exclusive", kogge_stone.kogge_stone_double_exclusive,
           sections(kogge_stone.kogge_stone_double_exclusive), whole, "exclusive",
           family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=ONE_A_LEVEL),
    Kernel("kogge-stone-zero-padded", kogge_stone.kogge_stone_zero_padded,
           sections(kogge_stone.kogge_stone_zero_padded, words=lambda block, warp: 2 * block), whole,
           family="Kogge-Stone", work=Formula("n ceil(log2 n)", lambda n, b: n * log(n)), steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("warp-shuffle", kogge_stone.warp_shuffle, warp_shuffle, whole,
           contract="any n; a block of at most warp * warp threads", barriers=Formula("2", lambda n, b: 2),
           work=Formula("B W(S) + W(B) + (n - S), S = 32, B = ceil(n/S)", lambda n, b: sections_work(n, 32))),
    Kernel("reduction-modulo", trees.reduction_modulo, sections(trees.reduction_modulo, reduces=True), whole, "reduction",
           work=ALL_BUT_ONE, steps=LEVELS, barriers=LEVELS),
    Kernel("reduction", trees.reduction, sections(trees.reduction, 2, reduces=True), half, "reduction",
           contract="any n; two items a thread", work=ALL_BUT_ONE, steps=LEVELS,
           barriers=LEVELS),
    Kernel("vector-reduction", trees.vector_reduction, sections(trees.vector_reduction, 2, reduces=True), half, "reduction",
           contract="any n; two items a thread", needs="commutative", work=ALL_BUT_ONE, steps=LEVELS,
           barriers=LEVELS),
    Kernel("brent-kung", trees.brent_kung, sections(trees.brent_kung, 2), half,
           family="Brent-Kung", contract="any n; two items a thread", work=BK_WORK, steps=BK_STEPS, barriers=BK_BARRIERS),
    Kernel("blelloch", trees.blelloch, full_tree(trees.blelloch), half, "exclusive",
           family="Blelloch", contract="any n; two items a thread, a power of two of threads", work=FULL_TREE,
           steps=FULL_STEPS, barriers=FULL_BARRIERS),
    Kernel("blelloch-inclusive", trees.blelloch_inclusive, sections(trees.blelloch_inclusive, 2), half,
           family="Brent-Kung", contract="any n; two items a thread", work=BK_WORK, steps=BK_STEPS, barriers=BK_BARRIERS),
    Kernel("blelloch-interleaved", trees.blelloch_interleaved, full_tree(trees.blelloch_interleaved), half, "exclusive",
           family="Blelloch", contract="any n; two items a thread, a power of two of threads",
           work=FULL_TREE, steps=FULL_STEPS,
           barriers=Formula("2 log2 N", lambda n, b: FULL_BARRIERS.value(n, b) - 1)),
    Kernel("blelloch-padded", trees.blelloch_padded, full_tree(trees.blelloch_padded, 5), half, "exclusive",
           family="Blelloch", contract="any n; two items a thread, a power of two of threads",
           work=FULL_TREE, steps=FULL_STEPS, barriers=FULL_BARRIERS),
    Kernel("blelloch-padded-16", trees.blelloch_padded, full_tree(trees.blelloch_padded, 4), half, "exclusive",
           family="Blelloch", contract="as blelloch-padded, with the shift of 16 banks", work=FULL_TREE,
           steps=FULL_STEPS, barriers=FULL_BARRIERS,
           says="Blelloch's exclusive scan on indices padded for 16 banks, a + (a >> 4) (CS380 lecture 24)."),
    Kernel("sklansky", circuits.sklansky_scan, sections(circuits.sklansky_scan, 2), half, family="Sklansky",
           contract="any n; two items a thread", steps=LEVELS,
           work=Formula("(n/2) log2 n; for any n the ones in all of 0 to n - 1",
                        lambda n, b: sum(i.bit_count() for i in range(n))),
           barriers=Formula("ceil(log2 n) + 1", lambda n, b: log(n) + 1)),
    Kernel("han-carlson", circuits.han_carlson_scan, sections(circuits.han_carlson_scan, 2, SPARSITY=2), half,
           family="Han-Carlson", contract="any n; two items a thread",
           work=Formula("(n/2) log2 n", lambda n, b: harris_work(n, 1, 0), powers=True),
           steps=Formula("log2 n + 1", lambda n, b: min(log(n) + 1, max(2 * log(n) - 1, 0)), powers=True)),
    Kernel("han-carlson-4", circuits.han_carlson_scan, sections(circuits.han_carlson_scan, 2, SPARSITY=4), half,
           family="Han-Carlson 4", contract="any n; two items a thread",
           work=Formula("2(n - M) - 2 + M log2 M - M + 1, M = n/4", lambda n, b: harris_work(n, 2, 0), powers=True),
           says="Han and Carlson's scan, sparser: Kogge-Stone on every fourth item (Han and Carlson 1987)."),
    Kernel("harris", circuits.harris_scan, sections(circuits.harris_scan, 2, SPARSITY=2, FAN=2), half, family="Harris",
           contract="any n; two items a thread",
           work=Formula("M log2 M + M/2 + 1, M = n/2", lambda n, b: harris_work(n, 1, 1), powers=True),
           steps=Formula("log2 n + 1", lambda n, b: min(log(n) + 1, max(2 * log(n) - 1, 0)), powers=True)),
    Kernel("ladner-fischer", circuits.circuit_scan, ladner_fischer(0), whole, family="Ladner-Fischer P0",
           contract="any n; its nodes from a table",
           work=Formula("4n - F(5 + log2 n) + 1", lambda n, b: lf_work(n, 0), powers=True),
           says="Ladner and Fischer's P_0: the least depth, and fewer operations than Sklansky's (Ladner and Fischer 1980)."),
    Kernel("ladner-fischer-1", circuits.circuit_scan, ladner_fischer(1), whole, family="Ladner-Fischer P1",
           contract="any n; its nodes from a table",
           work=Formula("3n - F(4 + log2 n)", lambda n, b: lf_work(n, 1) if n > 1 else 0, powers=True),
           says="Ladner and Fischer's P_1: one level more than P_0, and fewer operations (Ladner and Fischer 1980)."),
    Kernel("knowles", circuits.knowles_scan, knowles, whole, family="Knowles", needs="idempotent", work=KS_WORK,
           steps=LEVELS, barriers=TWO_A_LEVEL, contract="any n; a power of two of threads"),
    Kernel("three-phase", grids.three_phase, three_phase, lambda n: min(root(n), 256),
           work=Formula("(n - T) + (T log2 T - (T - 1)) + (T - 1)(n/T - 1), T threads", three_phase_work,
                        powers=True, any_block=True),
           steps=Formula("2 (n/T - 1) + log2 T; for one thread n - 1", lambda n, b: (1 + (b > 1)) * (n // b - 1) + log(b),
                         powers=True, any_block=True)),
    Kernel("matrix", grids.matrix_scan, matrix, lambda n: min(root(n), 256),
           work=Formula("2 (n - T) + (T log2 T - (T - 1)) + (T - 1), T threads", matrix_work, powers=True, any_block=True),
           steps=Formula("2 (n/T - 1) + log2 T + 1", lambda n, b: 2 * (n // b - 1) + log(b) + (b > 1),
                         powers=True, any_block=True)),
    Kernel("hierarchical", grids.scan_sections, hierarchical, root,
           contract="any n up to block * 1024", work=Formula("B W(S) + W(B) + (n - S)", sections_work, any_block=True),
           says="Hierarchical scan: scan the sections, scan their sums, add (PMPP chapter 11, figures 11.9 and 11.10)."),
    Kernel("reduce-then-scan", trees.reduction, reduce_then_scan, root, contract="any n up to 2 * block * 1024",
           says="Reduce, then scan: sum the sections, scan the sums, scan each section from there (Merrill and Grimshaw 2009)."),
    Kernel("domino", grids.domino, domino, root, contract="any n; blocks start in order"),
    Kernel("domino-dynamic", grids.domino_dynamic, domino_dynamic, root,
           contract="any n; any order of blocks"),
    Kernel("decoupled-look-back", grids.decoupled_look_back, decoupled_look_back, root,
           contract="any n; any order of blocks"),
    Kernel("segmented", kogge_stone.segmented, segmented, whole, contract="any n of one block",
           barriers=TWO_A_LEVEL),
    Kernel("compaction", applications.compaction, compaction, whole, "application",
           contract="any n of one block", answer=lambda x: list(x)[::3]),
    Kernel("radix-split", applications.radix_split, radix_split, whole, "application",
           contract="any n of one block; integers", answer=split_answer),
    Kernel("range-histogram", applications.range_histogram, range_histogram, whole, "application",
           contract="any n; integers below 8, more than 8 threads", answer=histogram_answer),
    Kernel("range-query", applications.range_query, range_query, whole, "application",
           contract="any n; integers below 8, more than 8 threads", answer=query_answer),
    Kernel("summed-area-table", applications.scan_lines, summed_area, whole, "application",
           contract="any n, as a rectangle near to a square", answer=summed_area_answer),
    Kernel("box-sums", applications.box_sums, box_sums, whole, "application",
           contract="any n, as a rectangle near to a square; sums alone", answer=box_answer),
    Kernel("recurrence", applications.squares, recurrence, root, "application", contract="any n",
           answer=recurrence_answer),
]  # fmt: skip

KERNELS: dict[str, Kernel] = {row.name: row for row in _ROWS}
"""Every textbook kernel by its name."""
