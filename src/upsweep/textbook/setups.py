"""How each kernel is launched: from n and the threads of a block and of a warp to launches and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from upsweep.textbook import applications, circuits, grids, kogge_stone, sequential, trees
from upsweep.textbook.formulas import ceil, log, power
from upsweep.textbook.table import Launch, Setup

# --- the block that one section of n items asks for -------------------------------------------------------------------


def whole(n: int) -> int:
    """A thread for each item."""
    return min(n, 1024)


def half(n: int) -> int:
    """A thread for two items."""
    return max(min(ceil(n, 2), 1024), 1)


def root(n: int) -> int:
    """For kernels of many blocks: about the square root of n, so that a small picture shows several."""
    return min(1 << ((log(n) + 1) // 2), 1024)


# --- launches ---------------------------------------------------------------------------------------------------------


def sections(
    kernel: Callable[..., None],
    items: int = 1,
    words: Callable[[int, int], int] | None = None,
    reduces: bool = False,
    **names: int,
) -> Callable[[int, int, int], Setup]:
    """Every block scans its own section of `items` items a thread."""

    def setup(n: int, block: int, warp: int) -> Setup:
        # One section of n items has no spare words.
        tile = min(items * block, n) if items == 2 else items * block
        sizes = {
            "BLOCK": block,
            "TILE": tile,
            "WARP": warp,
            "WORDS": words(block, warp) if words else tile,
            **names,
        }
        grid = ceil(n, tile)
        return Setup(
            (Launch(kernel, grid, block, ("x", "y", n), sizes),), {"y": grid if reduces else n}, tile
        )

    return setup


def one_thread(kernel: Callable[..., None]) -> Callable[[int, int, int], Setup]:
    return lambda n, block, warp: Setup((Launch(kernel, 1, 1, ("x", "y", n)),), {"y": n}, n)


def naive(n: int, block: int, warp: int) -> Setup:
    return Setup((Launch(sequential.naive, ceil(n, block), block, ("x", "y", n)),), {"y": n}, n)


def full_tree(kernel: Callable[..., None], log_banks: int = 0) -> Callable[[int, int, int], Setup]:
    """Blelloch's trees: a tile is a power of two, filled up with identities."""

    def setup(n: int, block: int, warp: int) -> Setup:
        tile = 2 * power(block)
        sizes = {"BLOCK": tile // 2, "TILE": tile, **(padding(tile, log_banks) if log_banks else {})}
        return Setup((Launch(kernel, ceil(n, tile), tile // 2, ("x", "y", n), sizes),), {"y": n}, tile)

    return setup


def padding(tile: int, log_banks: int) -> dict[str, int]:
    """The sizes of a kernel that pads its indices: a + (a >> log_banks)."""
    return {"LOG_BANKS": log_banks, "WORDS": tile + (tile >> log_banks)}


def warp_shuffle(n: int, block: int, warp: int) -> Setup:
    # A word for each warp, which one warp can scan.
    every = sections(kogge_stone.warp_shuffle, words=ceil)
    return every(n, min(block, warp * warp), warp)


def knowles(n: int, block: int, warp: int) -> Setup:
    # Sklansky's fan-out, on Kogge and Stone's nodes.
    fans = [1 << level for level in range(log(block))]
    launch = Launch(
        circuits.knowles_scan, ceil(n, block), block, ("x", "y", "fans", len(fans), n), {"BLOCK": block}
    )
    return Setup((launch,), {"y": n, "fans": fans or [1]}, block)


def circuit(levels: circuits.Levels, n: int, block: int) -> Setup:
    """The setup that runs any circuit of as many wires as a block has threads, from the table of its nodes."""
    nodes = [node for level in levels for node in level] or [(0, 0)]
    starts = [0]
    for level in levels:
        starts.append(starts[-1] + len(level))
    sources, targets = [s for s, _ in nodes], [t for _, t in nodes]
    args = ("x", "y", "sources", "targets", "starts", len(levels), n)
    launch = Launch(circuits.circuit_scan, ceil(n, block), block, args, {"BLOCK": block})
    return Setup((launch,), {"y": n, "sources": sources, "targets": targets, "starts": starts}, block)


def ladner_fischer(k: int) -> Callable[[int, int, int], Setup]:
    return lambda n, block, warp: circuit(circuits.ladner_fischer(block, k), n, block)


def three_phase(n: int, block: int, warp: int) -> Setup:
    # This many items of eight bytes fit into shared memory.
    items = ceil(n, block) if n <= 4096 else 8
    names = {"BLOCK": block, "ITEMS": items, "TILE": items * block}
    launch = Launch(grids.three_phase, ceil(n, items * block), block, ("x", "y", n), names)
    return Setup((launch,), {"y": n}, items * block)


def matrix(n: int, block: int, warp: int) -> Setup:
    made = three_phase(n, block, warp)
    (one,) = made.launches
    words = block * (one.names["ITEMS"] | 1)
    launch = replace(one, kernel=grids.matrix_scan, names={**one.names, "WORDS": words})
    return replace(made, launches=(launch,))


def hierarchical(n: int, block: int, warp: int) -> Setup:
    blocks, names = ceil(n, block), {"BLOCK": block}
    launches = (
        Launch(grids.scan_sections, blocks, block, ("x", "y", "sums", n), names),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(grids.uniform_add, blocks, block, ("y", "scanned", n), names),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def reduce_then_scan(n: int, block: int, warp: int) -> Setup:
    blocks, names = ceil(n, 2 * block), {"BLOCK": block, "TILE": 2 * block}
    launches = (
        Launch(trees.reduction, blocks, block, ("x", "sums", n), names),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(grids.scan_with_carry, blocks, block, ("x", "y", "scanned", n), names),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def domino(n: int, block: int, warp: int) -> Setup:
    blocks = ceil(n, block)
    launch = Launch(grids.domino, blocks, block, ("x", "y", "carries", "flags", n), {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + 1, "flags": [0] * (blocks + 1)}, n)


def domino_dynamic(n: int, block: int, warp: int) -> Setup:
    blocks = ceil(n, block)
    args = ("x", "y", "carries", "flags", "counter", n)
    launch = Launch(grids.domino_dynamic, blocks, block, args, {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + 1, "flags": [0] * (blocks + 1), "counter": [0]}, n)


def decoupled_look_back(n: int, block: int, warp: int) -> Setup:
    blocks = ceil(n, block)
    args = ("x", "y", "sums", "prefixes", "flags", "counter", n)
    launch = Launch(grids.decoupled_look_back, blocks, block, args, {"BLOCK": block})
    buffers = {"y": n, "sums": blocks, "prefixes": blocks, "flags": [0] * blocks, "counter": [0]}
    return Setup((launch,), buffers, n)


def every_third(n: int) -> list[int]:
    """The flags of what the table's compaction keeps, and of where its segments begin."""
    return [int(i % 3 == 0) for i in range(n)]


def segmented(n: int, block: int, warp: int) -> Setup:
    launch = Launch(kogge_stone.segmented, 1, n, ("x", "heads", "y", n), {"BLOCK": n})
    return Setup((launch,), {"y": n, "heads": every_third(n)}, 3)


def compaction(n: int, block: int, warp: int) -> Setup:
    flags = every_third(n)
    launch = Launch(applications.compaction, 1, n, ("x", "flags", "y", n), {"BLOCK": n})
    return Setup((launch,), {"flags": flags, "y": sum(flags)}, n)


def bit(n: int) -> int:
    """The bit by which n items are split: runs of several sizes show several."""
    return 2 * (n % 2)


def radix_split(n: int, block: int, warp: int) -> Setup:
    launch = Launch(applications.radix_split, 1, n, ("x", "y", bit(n), n), {"BLOCK": n})
    return Setup((launch,), {"y": n}, n)


def split_answer(x: Sequence[Any]) -> list[Any]:
    return sorted(x, key=lambda v: (v >> bit(len(x))) & 1)


BINS = 8


def range_histogram(n: int, block: int, warp: int) -> Setup:
    launch = Launch(
        applications.range_histogram,
        1,
        max(block, BINS),
        ("x", "y", n),
        {"BLOCK": max(block, BINS), "WORDS": BINS},
    )
    return Setup((launch,), {"y": BINS}, n)


def histogram_answer(x: Sequence[Any]) -> list[int]:
    return [sum(int(v) <= b for v in x) for b in range(BINS)]


QUERIES = {"lows": [0, 0, 1, 3, 5, 6], "highs": [7, 0, 4, 3, 7, 6]}


def range_query(n: int, block: int, warp: int) -> Setup:
    made = range_histogram(n, block, warp)
    (count,) = made.launches
    asked = len(QUERIES["lows"])
    # More threads than questions, as in any launch: those beyond must not write.
    ask = Launch(applications.range_query, 1, power(asked), ("bins", "lows", "highs", "y", asked))
    launches = (replace(count, args=("x", "bins", n)), ask)
    return Setup(launches, {"bins": BINS, **QUERIES, "y": asked}, n)


def query_answer(x: Sequence[Any]) -> list[int]:
    return [sum(low <= int(v) <= high for v in x) for low, high in zip(*QUERIES.values())]


def width(n: int) -> int:
    """The table's summed-area table is as near to a square as n allows."""
    return max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)


def summed_area(n: int, block: int, warp: int) -> Setup:
    w = width(n)
    h = n // w
    launches = (
        Launch(applications.scan_lines, h, w, ("x", "rows", w, 1, w), {"BLOCK": w}),
        Launch(applications.scan_lines, w, h, ("rows", "y", h, w, 1), {"BLOCK": h}),
    )
    return Setup(launches, {"rows": n, "y": n}, n, {"x": w, "rows": w, "y": w})


def summed_area_answer(x: Sequence[Any]) -> list[Any]:
    w, table = width(len(x)), []
    for i in range(len(x)):
        r, c = divmod(i, w)
        table.append(sum(x[a * w + b] for a in range(r + 1) for b in range(c + 1)))
    return table


def boxes(n: int) -> list[tuple[int, int, int, int]]:
    """Top, left, bottom, right of the table's boxes: every corner's item, the middle, and all of it."""
    w = width(n)
    last, right = n // w - 1, w - 1
    middle = (last // 3, right // 3, last - last // 3, right - right // 3)
    return [
        (0, 0, 0, 0),
        (0, right, 0, right),
        (last, 0, last, 0),
        (last, right, last, right),
        middle,
        (0, 0, last, right),
    ]


def box_sums(n: int, block: int, warp: int) -> Setup:
    made, asked = summed_area(n, block, warp), boxes(n)
    across, down = made.launches
    corners = dict(zip(("tops", "lefts", "bottoms", "rights"), map(list, zip(*asked))))
    ask = Launch(applications.box_sums, 1, power(len(asked)), ("table", *corners, width(n), "y", len(asked)))
    launches = (across, replace(down, args=("rows", "table", *down.args[2:])), ask)
    wide: dict[str, int] = {name: width(n) for name in ("x", "rows", "table")}
    return Setup(launches, {"rows": n, "table": n, **corners, "y": len(asked)}, n, wide)


def box_answer(x: Sequence[Any]) -> list[Any]:
    w = width(len(x))
    return [
        sum(x[r * w + c] for r in range(top, bottom + 1) for c in range(left, right + 1))
        for top, left, bottom, right in boxes(len(x))
    ]


def recurrence(n: int, block: int, warp: int) -> Setup:
    made = domino_dynamic(n, block, warp)
    (scan,) = made.launches
    squares = Launch(applications.squares, scan.grid, block, ("x", "terms", n))
    launches = (squares, replace(scan, args=("terms", *scan.args[1:])))
    return replace(made, launches=launches, buffers={"terms": n, **made.buffers})


def recurrence_answer(x: Sequence[Any]) -> list[Any]:
    total, out = 0, []
    for v in x:
        total = total + v * v
        out.append(total)
    return out
