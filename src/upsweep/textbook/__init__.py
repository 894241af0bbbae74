"""Each classic scan kernel once, in plain Python, to run on a GPU and to trace in the lab.

`KERNELS` is the one table of them: the lab, the tests and the docs read it. A kernel's first line names its algorithm
and its source. PMPP is Hwu, Kirk and El Hajj, "Programming Massively Parallel Processors"; the other sources are ECE569
module 37, Hwu's lecture 4.6, notes on scan kernels, and KAUST's CS380 lecture 24.

>>> print(KERNELS["brent-kung"])
brent-kung: Brent-Kung scan: reduction tree, then reverse tree (PMPP chapter 11, figures 11.5 to 11.7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from upsweep.textbook import applications, circuits, grids, kogge_stone, sequential, trees
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
        ImportError: where numba-cuda is not installed.
    """
    from upsweep.textbook import gpu

    return gpu.run(KERNELS[name], x, op, block)


# --- setups: from n, the threads of a block and of a warp, to launches ---------------------------------------------------


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _power(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _log(n: int) -> int:
    return max(n - 1, 0).bit_length()


def _sections(
    kernel: Callable[..., None],
    items: int = 1,
    words: Callable[[int, int], int] | None = None,
    reduces: bool = False,
    **names: int,
) -> Callable[[int, int, int], Setup]:
    """Every block scans its own section of `items` items a thread."""

    def setup(n: int, block: int, warp: int) -> Setup:
        tile = (
            min(items * block, n) if items == 2 else items * block
        )  # one section of n items has no spare words
        sizes = {
            "BLOCK": block,
            "TILE": tile,
            "WARP": warp,
            "WORDS": words(block, warp) if words else tile,
            **names,
        }
        grid = _ceil(n, tile)
        return Setup(
            (Launch(kernel, grid, block, ("x", "y", n), sizes),), {"y": grid if reduces else n}, tile
        )

    return setup


def _one_thread(kernel: Callable[..., None]) -> Callable[[int, int, int], Setup]:
    return lambda n, block, warp: Setup((Launch(kernel, 1, 1, ("x", "y", n)),), {"y": n}, n)


def _naive(n: int, block: int, warp: int) -> Setup:
    return Setup((Launch(sequential.naive, _ceil(n, block), block, ("x", "y", n)),), {"y": n}, n)


def _full_tree(kernel: Callable[..., None], log_banks: int = 0) -> Callable[[int, int, int], Setup]:
    """Blelloch's trees: a tile is a power of two, filled up with identities."""

    def setup(n: int, block: int, warp: int) -> Setup:
        tile = 2 * _power(block)
        words = tile + (tile >> log_banks) if log_banks else tile
        sizes = {"BLOCK": tile // 2, "TILE": tile, "WORDS": words, "LOG_BANKS": log_banks}
        return Setup((Launch(kernel, _ceil(n, tile), tile // 2, ("x", "y", n), sizes),), {"y": n}, tile)

    return setup


def _warp_shuffle(n: int, block: int, warp: int) -> Setup:
    sections = _sections(
        kogge_stone.warp_shuffle, words=_ceil
    )  # a word for each warp, which one warp can scan
    return sections(n, min(block, warp * warp), warp)


def _knowles(n: int, block: int, warp: int) -> Setup:
    fans = [1 << level for level in range(_log(block))]  # Sklansky's fan-out, on Kogge and Stone's nodes
    launch = Launch(
        circuits.knowles_scan, _ceil(n, block), block, ("x", "y", "fans", len(fans), n), {"BLOCK": block}
    )
    return Setup((launch,), {"y": n, "fans": fans or [1]}, block)


def circuit(levels: circuits.Levels, n: int) -> Setup:
    """The setup that runs any circuit on n items, from the table of its nodes."""
    nodes = [node for level in levels for node in level] or [(0, 0)]
    starts = [0]
    for level in levels:
        starts.append(starts[-1] + len(level))
    sources, targets = [s for s, _ in nodes], [t for _, t in nodes]
    launch = Launch(
        circuits.circuit_scan, 1, n, ("x", "y", "sources", "targets", "starts", len(levels), n), {"TILE": n}
    )
    return Setup((launch,), {"y": n, "sources": sources, "targets": targets, "starts": starts}, n)


def _ladner_fischer(k: int) -> Callable[[int, int, int], Setup]:
    return lambda n, block, warp: circuit(circuits.ladner_fischer(n, k), n)


def _three_phase(n: int, block: int, warp: int) -> Setup:
    items = _ceil(n, block) if n <= 4096 else 8  # what fits into shared memory also with eight bytes an item
    names = {"BLOCK": block, "ITEMS": items, "TILE": items * block}
    launch = Launch(grids.three_phase, _ceil(n, items * block), block, ("x", "y", n), names)
    return Setup((launch,), {"y": n}, items * block)


def _hierarchical(n: int, block: int, warp: int) -> Setup:
    blocks, names = _ceil(n, block), {"BLOCK": block}
    launches = (
        Launch(grids.scan_sections, blocks, block, ("x", "y", "sums", n), names),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(grids.uniform_add, blocks, block, ("y", "scanned", n), names),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def _reduce_then_scan(n: int, block: int, warp: int) -> Setup:
    blocks, names = _ceil(n, 2 * block), {"BLOCK": block, "TILE": 2 * block}
    launches = (
        Launch(trees.reduction, blocks, block, ("x", "sums", n), names),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(grids.scan_with_carry, blocks, block, ("x", "y", "scanned", n), names),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def _domino(n: int, block: int, warp: int) -> Setup:
    blocks = _ceil(n, block)
    launch = Launch(grids.domino, blocks, block, ("x", "y", "carries", "flags", n), {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + 1, "flags": [0] * (blocks + 1)}, n)


def _domino_dynamic(n: int, block: int, warp: int) -> Setup:
    blocks = _ceil(n, block)
    args = ("x", "y", "carries", "flags", "counter", n)
    launch = Launch(grids.domino_dynamic, blocks, block, args, {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + 1, "flags": [0] * (blocks + 1), "counter": [0]}, n)


def every_third(n: int) -> list[int]:
    """The flags that the table's compaction keeps."""
    return [int(i % 3 == 0) for i in range(n)]


def _compaction(n: int, block: int, warp: int) -> Setup:
    flags = every_third(n)
    launch = Launch(applications.compaction, 1, n, ("x", "flags", "y", n), {"BLOCK": n})
    return Setup((launch,), {"flags": flags, "y": sum(flags)}, n)


BINS = 8


def _range_histogram(n: int, block: int, warp: int) -> Setup:
    launch = Launch(
        applications.range_histogram,
        1,
        max(block, BINS),
        ("x", "y", n),
        {"BLOCK": max(block, BINS), "WORDS": BINS},
    )
    return Setup((launch,), {"y": BINS}, n)


def _histogram_answer(x: Sequence[Any]) -> list[int]:
    return [sum(int(v) <= b for v in x) for b in range(BINS)]


def width(n: int) -> int:
    """The table's summed-area table is as near to a square as n allows."""
    return max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)


def _summed_area(n: int, block: int, warp: int) -> Setup:
    w = width(n)
    h = n // w
    launches = (
        Launch(applications.scan_lines, h, w, ("x", "rows", w, 1, w), {"BLOCK": w}),
        Launch(applications.scan_lines, w, h, ("rows", "y", h, w, 1), {"BLOCK": h}),
    )
    return Setup(launches, {"rows": n, "y": n}, n)


def _summed_area_answer(x: Sequence[Any]) -> list[Any]:
    w, table = width(len(x)), []
    for i in range(len(x)):
        r, c = divmod(i, w)
        table.append(sum(x[a * w + b] for a in range(r + 1) for b in range(c + 1)))
    return table


def _recurrence(n: int, block: int, warp: int) -> Setup:
    launches = (
        Launch(applications.squares, _ceil(n, block), block, ("x", "terms", n)),
        Launch(kogge_stone.kogge_stone, 1, n, ("terms", "y", n), {"BLOCK": n}),
    )
    return Setup(launches, {"terms": n, "y": n}, n)


def _recurrence_answer(x: Sequence[Any]) -> list[Any]:
    total, out = 0, []
    for v in x:
        total = total + v * v
        out.append(total)
    return out


# --- formulas ---------------------------------------------------------------------------------------------------------


def ks_work(n: int) -> int:
    """Kogge-Stone's additions, for any n: the sum of n - 2^d over the levels."""
    return sum(n - (1 << d) for d in range(_log(n)))


def bk_work(n: int) -> int:
    """Brent-Kung's additions, for any n: n minus the ones of n going up, n minus the digits of n coming down."""
    return 2 * n - n.bit_count() - n.bit_length()


KS_WORK = Formula("n log2 n - (n - 1); for any n the sum of n - 2^d", lambda n, b: ks_work(n))
LEVELS = Formula("ceil(log2 n)", lambda n, b: _log(n))
TWO_A_LEVEL = Formula("2 ceil(log2 n)", lambda n, b: 2 * _log(n))
ONE_A_LEVEL = Formula(
    "ceil(log2 n); the notes' own code has one more, which is redundant", lambda n, b: _log(n)
)
BK_WORK = Formula("2n - 2 - log2 n; for any n 2n - ones(n) - digits(n)", lambda n, b: bk_work(n))
BK_STEPS = Formula("2 log2 n - 1", lambda n, b: 2 * _log(n) - 1 if n > 1 else 0, powers=True)
BK_BARRIERS = Formula("2 log2 n", lambda n, b: 2 * _log(n) if n > 1 else 1, powers=True)
ALL_BUT_ONE = Formula("n - 1", lambda n, b: n - 1)
NONE = Formula("0", lambda n, b: 0)
FULL_TREE = Formula("2 (N - 1), N the power of two that holds n", lambda n, b: 2 * (2 * _power(b) - 1))
FULL_STEPS = Formula("2 log2 N", lambda n, b: 2 * _log(2 * _power(b)))
FULL_BARRIERS = Formula("2 log2 N + 1", lambda n, b: 2 * _log(2 * _power(b)) + 1)


def hc_work(n: int, sparsity: int) -> int:
    """Han-Carlson's additions on a power of two of items."""
    sp, m = _log(sparsity), n // sparsity
    return 2 * (n - m) - sp + ks_work(m)


def lf_work(n: int, k: int) -> int:
    """Ladner and Fischer's size of P_k on a power of two of items, F the Fibonacci numbers."""
    levels = _log(n)
    return 2 * n + (2 * n >> k) - fibonacci(5 + levels - k) - k + 1


def fibonacci(k: int) -> int:
    """The k-th Fibonacci number, from F(1) = F(2) = 1."""
    a, b = 0, 1
    for _ in range(k):
        a, b = b, a + b
    return a


def sections_work(n: int, section: int) -> int:
    """B W(S) + W(B) + (n - S): sections of Kogge-Stone, Kogge-Stone over their sums, and one addition for each other item."""
    full, rest = divmod(n, min(section, n))
    section = min(section, n)
    return full * ks_work(section) + ks_work(rest) + ks_work(_ceil(n, section)) + max(n - section, 0)


def three_phase_work(n: int, threads: int) -> int:
    """(n - T) + (T log2 T - (T - 1)) + (T - 1)(n/T - 1), where T divides n."""
    return (n - threads) + ks_work(threads) + (threads - 1) * (n // threads - 1)


# --- the table --------------------------------------------------------------------------------------------------------


def _whole(n: int) -> int:
    return min(n, 1024)


def _half(n: int) -> int:
    return max(min(_ceil(n, 2), 1024), 1)


def _root(n: int) -> int:
    """For kernels of many blocks: about the square root of n, so that a small picture shows several."""
    return min(1 << ((_log(n) + 1) // 2), 1024)


_ROWS = [
    Kernel("sequential", sequential.sequential, _one_thread(sequential.sequential), lambda n: 1, covers="a1",
           family="serial", contract="one thread", work=ALL_BUT_ONE, steps=ALL_BUT_ONE, barriers=NONE),
    Kernel("sequential-exclusive", sequential.sequential_exclusive, _one_thread(sequential.sequential_exclusive), lambda n: 1,
           "exclusive", covers="a2", family="serial", contract="one thread", work=ALL_BUT_ONE, steps=ALL_BUT_ONE, barriers=NONE),
    Kernel("naive", sequential.naive, _naive, _whole, covers="a3", barriers=NONE, steps=ALL_BUT_ONE,
           work=Formula("n (n - 1) / 2", lambda n, b: n * (n - 1) // 2)),
    Kernel("kogge-stone", kogge_stone.kogge_stone, _sections(kogge_stone.kogge_stone), _whole, covers="a4 a21 k1 k4",
           family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("kogge-stone-exclusive", kogge_stone.kogge_stone_exclusive, _sections(kogge_stone.kogge_stone_exclusive), _whole,
           "exclusive", covers="a5 k3", family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("kogge-stone-double", kogge_stone.kogge_stone_double, _sections(kogge_stone.kogge_stone_double), _whole,
           covers="a4 k2", family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=ONE_A_LEVEL),
    Kernel("kogge-stone-double-exclusive", kogge_stone.kogge_stone_double_exclusive,
           _sections(kogge_stone.kogge_stone_double_exclusive), _whole, "exclusive", covers="a4 a5 k2",
           family="Kogge-Stone", work=KS_WORK, steps=LEVELS, barriers=ONE_A_LEVEL),
    Kernel("kogge-stone-zero-padded", kogge_stone.kogge_stone_zero_padded,
           _sections(kogge_stone.kogge_stone_zero_padded, words=lambda block, warp: 2 * block), _whole, covers="a4",
           family="Kogge-Stone", work=Formula("n ceil(log2 n)", lambda n, b: n * _log(n)), steps=LEVELS, barriers=TWO_A_LEVEL),
    Kernel("warp-shuffle", kogge_stone.warp_shuffle, _warp_shuffle, _whole, covers="a14",
           contract="any n; a block of at most warp * warp threads", barriers=Formula("2", lambda n, b: 2),
           work=Formula("B W(S) + W(B) + (n - S), S = 32, B = ceil(n/S)", lambda n, b: sections_work(n, 32))),
    Kernel("reduction-modulo", trees.reduction_modulo, _sections(trees.reduction_modulo, reduces=True), _whole, "reduction",
           covers="a6 k5", work=ALL_BUT_ONE, steps=LEVELS, barriers=LEVELS),
    Kernel("reduction", trees.reduction, _sections(trees.reduction, 2, reduces=True), _half, "reduction", covers="a7 k6 k8",
           contract="any n; two items a thread", work=ALL_BUT_ONE, steps=LEVELS,
           barriers=LEVELS),
    Kernel("vector-reduction", trees.vector_reduction, _sections(trees.vector_reduction, 2, reduces=True), _half, "reduction",
           covers="a12", contract="any n; two items a thread", needs="commutative", work=ALL_BUT_ONE, steps=LEVELS,
           barriers=LEVELS),
    Kernel("brent-kung", trees.brent_kung, _sections(trees.brent_kung, 2), _half, covers="a7 a8 a9 k7 k8",
           family="Brent-Kung", contract="any n; two items a thread", work=BK_WORK, steps=BK_STEPS, barriers=BK_BARRIERS),
    Kernel("blelloch", trees.blelloch, _full_tree(trees.blelloch), _half, "exclusive", covers="a10 k9 k10",
           family="Blelloch", contract="any n; two items a thread, a power of two of threads", work=FULL_TREE,
           steps=FULL_STEPS, barriers=FULL_BARRIERS),
    Kernel("blelloch-inclusive", trees.blelloch_inclusive, _sections(trees.blelloch_inclusive, 2), _half, covers="a11",
           family="Brent-Kung", contract="any n; two items a thread", work=BK_WORK, steps=BK_STEPS, barriers=BK_BARRIERS),
    Kernel("blelloch-interleaved", trees.blelloch_interleaved, _full_tree(trees.blelloch_interleaved), _half, "exclusive",
           covers="a10 k9", family="Blelloch", contract="any n; two items a thread, a power of two of threads",
           work=FULL_TREE, steps=FULL_STEPS,
           barriers=Formula("2 log2 N", lambda n, b: FULL_BARRIERS.value(n, b) - 1)),
    Kernel("blelloch-padded", trees.blelloch_padded, _full_tree(trees.blelloch_padded, 5), _half, "exclusive",
           covers="a10 k10 k11", family="Blelloch", contract="any n; two items a thread, a power of two of threads",
           work=FULL_TREE, steps=FULL_STEPS, barriers=FULL_BARRIERS),
    Kernel("blelloch-padded-16", trees.blelloch_padded, _full_tree(trees.blelloch_padded, 4), _half, "exclusive",
           covers="k10 k11", family="Blelloch", contract="as blelloch-padded, with the shift of 16 banks", work=FULL_TREE,
           steps=FULL_STEPS, barriers=FULL_BARRIERS),
    Kernel("sklansky", circuits.sklansky_scan, _sections(circuits.sklansky_scan, 2), _half, family="Sklansky",
           contract="any n; two items a thread", steps=LEVELS,
           work=Formula("(n/2) log2 n; for any n the ones in all of 0 to n - 1",
                        lambda n, b: sum(i.bit_count() for i in range(n))),
           barriers=Formula("ceil(log2 n) + 1", lambda n, b: _log(n) + 1)),
    Kernel("han-carlson", circuits.han_carlson_scan, _sections(circuits.han_carlson_scan, 2, SPARSITY=2), _half,
           family="Han-Carlson", contract="any n; two items a thread",
           work=Formula("(n/2) log2 n", lambda n, b: hc_work(n, 2) if n > 1 else 0, powers=True),
           steps=Formula("log2 n + 1", lambda n, b: min(_log(n) + 1, max(2 * _log(n) - 1, 0)), powers=True)),
    Kernel("han-carlson-4", circuits.han_carlson_scan, _sections(circuits.han_carlson_scan, 2, SPARSITY=4), _half,
           family="Han-Carlson 4", contract="any n; two items a thread",
           work=Formula("2(n - M) - 2 + M log2 M - M + 1, M = n/4", lambda n, b: hc_work(n, min(n, 4)), powers=True)),
    Kernel("ladner-fischer", circuits.circuit_scan, _ladner_fischer(0), _whole, family="Ladner-Fischer P0",
           contract="any n of one block; its nodes from a table",
           work=Formula("4n - F(5 + log2 n) + 1", lambda n, b: lf_work(n, 0), powers=True)),
    Kernel("ladner-fischer-1", circuits.circuit_scan, _ladner_fischer(1), _whole, family="Ladner-Fischer P1",
           contract="any n of one block; its nodes from a table",
           work=Formula("3n - F(4 + log2 n)", lambda n, b: lf_work(n, 1) if n > 1 else 0, powers=True)),
    Kernel("knowles", circuits.knowles_scan, _knowles, _whole, family="Knowles", needs="idempotent", work=KS_WORK,
           steps=LEVELS, barriers=TWO_A_LEVEL, contract="any n; a power of two of threads"),
    Kernel("three-phase", grids.three_phase, _three_phase, lambda n: min(_root(n), 256), covers="a13",
           work=Formula("(n - T) + (T log2 T - (T - 1)) + (T - 1)(n/T - 1), T threads", three_phase_work, powers=True),
           steps=Formula("2 (n/T - 1) + log2 T", lambda n, b: 2 * (n // b - 1) + _log(b), powers=True)),
    Kernel("hierarchical", grids.scan_sections, _hierarchical, _root, covers="a14 k12",
           contract="any n up to block * 1024", work=Formula("B W(S) + W(B) + (n - S)", sections_work)),
    Kernel("reduce-then-scan", trees.reduction, _reduce_then_scan, _root, covers="a14", contract="any n up to 2 * block * 1024"),
    Kernel("domino", grids.domino, _domino, _root, covers="a15 k12", contract="any n; blocks start in order"),
    Kernel("domino-dynamic", grids.domino_dynamic, _domino_dynamic, _root, covers="a15 a16 k12",
           contract="any n; any order of blocks"),
    Kernel("compaction", applications.compaction, _compaction, _whole, "application", covers="a17",
           contract="any n of one block", answer=lambda x: list(x)[::3]),
    Kernel("range-histogram", applications.range_histogram, _range_histogram, _whole, "application", covers="a18",
           contract="any n; integers below 8, more than 8 threads", answer=_histogram_answer),
    Kernel("summed-area-table", applications.scan_lines, _summed_area, _whole, "application", covers="a19",
           contract="any n, as a rectangle near to a square", needs="commutative", answer=_summed_area_answer),
    Kernel("recurrence", applications.squares, _recurrence, _whole, "application", covers="a20", contract="any n of one block",
           answer=_recurrence_answer),
]  # fmt: skip

KERNELS: dict[str, Kernel] = {row.name: row for row in _ROWS}
"""Every textbook kernel by its name."""
