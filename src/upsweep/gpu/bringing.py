"""Copies of arrays in another order of their dimensions: a scan of rows of one item is a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from upsweep.gpu.choice import Choice
from upsweep.gpu.layout import Layout
from upsweep.gpu.shapes import Chip, Shape, power_of_two
from upsweep.gpu.shapes.bringing import GAPS, MOST, NEAR, SHORT, TOGETHER, for_bringing, for_turning
from upsweep.gpu.text import declared
from upsweep.plan import Plan


@dataclass(frozen=True)
class Bring(Choice):
    """A block copies a tile of three dimensions, which are the last of the layout: `items` by `strips` by `lanes`."""

    m_near: bool = False
    """Whether neighbours along the middle one lie together in the array."""
    b_near: bool = False
    """The same of the last one."""
    turned: bool = False
    """Whether words of neighbouring lines are turned in registers."""
    kernel = "bring"

    @property
    def meets(self) -> bool:
        return False

    @property
    def tile(self) -> int:
        return prod(self.sides)

    @property
    def sides(self) -> tuple[int, int, int]:
        return self.shape.items, self.shape.strips, self.shape.lanes

    @property
    def tickets(self) -> int:
        *others, a, m, b = self.layout.dims
        return prod(others) * prod(-(-n // side) for n, side in zip((a, m, b), self.sides))

    def grid(self, resident: Callable[[], int]) -> int:
        return self.tickets

    @property
    def size(self) -> int:
        return self.layout.stores[0].size

    @property
    def grain(self) -> int:
        """The largest power of two that divides the address of every item."""
        source = self.layout.loads[0]
        return gcd(source.grain(self.size), source.behind or 16)

    @property
    def word(self) -> int:
        """Bytes that come at once."""
        return 16 if self.step and self.lines <= 2 else max(4, min(self.size, self.grain))

    @property
    def lines(self) -> int:
        _, m, b = self.sides
        return (1 if self.m_near else m) * (1 if self.b_near else b + 4 * self.turned)

    @property
    def line_words(self) -> int:
        """Words of a line, which begins anywhere in the first."""
        (a, m, b), (*_, in_a, in_m, in_b) = self.sides, self.layout.loads[0].rows
        near = ((a, in_a), (self.m_near * m, in_m), (self.b_near * b, in_b))
        span = sum(max(0, side - 1) * abs(step) for side, step in near) + self.size
        return -(-span // self.word) + (self.grain < self.word)

    @property
    def pitch(self) -> int:
        """Bytes from line to line in shared memory: lanes that read neighbours in the copy meet in no bank."""
        return (self.line_words | 1) * self.word

    @property
    def pads(self) -> int:
        """Bytes behind every 128 of a single line, so that lanes whose items lie a power of two apart meet in no bank."""
        return self.word if self.lines == 1 and self.grain >= self.size and not self.step else 0

    @property
    def step(self) -> int:
        """Pieces from one of a thread to its next, where those of the only run lie equally far apart in a line; else 0."""
        a, m, b = self.sides
        if a > 1 or not (self.m_near if self.m_run else self.b_near and m == 1):
            return 0
        period = b // gcd(b, self.at_once) if self.m_run else 1
        return self.threads // period * period

    @property
    def m_run(self) -> bool:
        """Whether neighbours along the middle dimension lie together in the copy."""
        *_, b = self.layout.dims
        *_, step, last = self.layout.stores[0].rows
        return self.shape.lanes == b and step == b * (last if b > 1 else self.size)

    @property
    def in_words(self) -> bool:
        """Whether narrow items are put together to words of the copy."""
        *_, b = self.layout.dims
        copy = self.layout.stores[0]
        together = self.m_run if b == 1 else copy.rows[-1] == self.size
        return self.size < 4 and copy.grain(self.size) == self.size and together

    @property
    def even(self) -> bool:
        """Whether runs begin and end at such words."""
        (_, m, b), copy = self.sides, self.layout.stores[0]
        apart = self.layout.dims[: -2 if self.m_run else -1]
        begins = [step for n, step in zip(apart, copy.rows) if n > 1]
        run = (m if self.m_run else 1) * b * self.size
        return gcd(copy.phase + copy.offset, run, *begins) % 4 == 0

    @property
    def at_once(self) -> int:
        """Items of the copy that a thread stores at once."""
        return 4 // self.size if self.in_words else 1

    @property
    def pieces(self) -> int:
        """Of a run: one that begins within a word has more."""
        _, m, b = self.sides
        more = 0 if self.even else 2 * (self.at_once - 1)
        return ((m if self.m_run else 1) * b + more) // self.at_once

    @property
    def line_lanes(self) -> int:
        """Lanes that bring a line. The costs are some instructions for a line and some for a word."""
        least = min(power_of_two(self.line_words), TOGETHER // self.word)
        return min(
            (least << k for k in range((self.threads // least).bit_length())),
            key=lambda lanes: (
                -(-self.lines * lanes // self.threads) * (12 + 3 * -(-self.line_words // lanes))
            ),
        )

    @property
    def run_step(self) -> int:
        """Runs from one to the next of a thread, which begin at the same place within a word."""
        a, m, _ = self.sides
        alike, pieces = 1 if self.even else self.at_once, self.pieces * (1 if self.m_run else m)

        def cost(step: int) -> int:
            return -(-pieces * step // self.threads) * (15 * self.at_once + 10 + 10 * -(-a // step))

        return min(range(alike, max(a, alike) + 1, alike), key=cost)

    @property
    def tile_bytes(self) -> int:
        skews = (self.lines - 1) // 32 * 4 if self.size < 4 else 0
        line = self.line_words * self.word
        return (self.lines - 1) * self.pitch + skews + line + line // 128 * self.pads

    def shared_bytes(self, plan: Plan) -> int:
        return self.tile_bytes

    def spec(self, plan: Plan) -> str:
        layout = self.layout
        (source,), (copy,) = layout.loads, layout.stores
        numbers = {
            "DIMS": len(layout.dims), "THREADS": self.threads, "ITEM_BYTES": self.size,
            "TILE_A": self.shape.items, "TILE_M": self.shape.strips,
            "TILE_B": self.shape.lanes, "IN_A": source.rows[-3], "IN_M": source.rows[-2] * self.m_near,
            "IN_B": source.rows[-1] * self.b_near, "BEHIND": source.behind, "GRAIN": self.grain, "WORD": self.word,
            "LINE_WORDS": self.line_words, "LINE_LANES": self.line_lanes,
            "PITCH": self.pitch, "PADS": self.pads, "AT_ONCE": self.at_once, "PIECES": self.pieces, "RUN_STEP": self.run_step,
            "STEP": self.step,
        }  # fmt: skip
        truths = {
            "M_NEAR": self.m_near, "B_NEAR": self.b_near, "M_RUN": self.m_run, "IN_WORDS": self.in_words,
            "EVEN_RUNS": self.even or not self.in_words, "TURNED": self.turned,
        }  # fmt: skip
        return declared(plan, layout, numbers, truths, [{}], [{"grain": copy.grain(copy.size)}])


def choose(plan: Plan, layout: Layout, chip: Chip) -> Bring | None:
    """The choice for a copy, or None for other scans and for copies of small tiles."""
    if not is_copy(plan, layout):
        return None
    return next((made for made in tiled(layout, chip) if made.shared_bytes(plan) <= MOST), None)


def tiled(layout: Layout, chip: Chip) -> Iterator[Bring]:
    """The choices for such an array and such results, of large tiles first."""
    (source,), (copy,) = layout.loads, layout.stores
    nearest = min(map(abs, source.rows))
    apart = nearest > max(NEAR, GAPS * source.size)
    sides = _sides(layout, apart)
    extents = a, m, b = [1 if i is None else layout.dims[i] for i in sides]
    others = sorted(set(range(len(layout.dims))) - set(sides), key=lambda i: -abs(copy.rows[i]))
    pick = [*others, *[0 if i is None else i for i in sides]]
    tiles = layout.with_rows([*[layout.dims[i] for i in others], *extents], pick)
    shape = for_turning(a, b) if _turns(tiles) else None
    if shape is not None:
        yield Bring(shape, tiles, chip=chip, turned=True)
    for shape in for_bringing(a, m, b, copy.size, copy.size if apart else max(copy.size, nearest)):
        near = _near(tiles, shape)
        made = Bring(shape, tiles, chip=chip, m_near=1 in near, b_near=2 in near)
        if (shape.items > 1 and 0 not in near) or made.tickets >= 1 << 31:
            return
        yield made


def _turns(tiles: Layout) -> bool:
    """Whether lines of bytes that touch, in two sides, become runs of such bytes."""
    (source,), (copy,) = tiles.loads, tiles.stores
    return source.rows[-3] == source.size == copy.rows[-1] == 1 and tiles.dims[-2] == 1


def _sides(layout: Layout, apart: bool) -> list[int | None]:
    """The dimensions of a tile: that in which the array's neighbours lie, unless all items lie `apart`, one between, and that in
    which the copy's lie. Where neighbours are few, the one between has the neighbours' neighbours of the copy, or of the array.
    """
    (source,), (copy,) = layout.loads, layout.stores
    dims = range(len(layout.dims))
    b = min(dims, key=lambda i: abs(copy.rows[i]))
    a = min(dims, key=lambda i: (abs(source.rows[i]), i != b))
    reach_a, reach_b = (layout.dims[i] * abs(x.rows[i]) for i, x in ((a, source), (b, copy)))
    of_source, of_copy = _behind(layout, source.rows, a, GAPS), _behind(layout, copy.rows, b, 1)
    following = min((i for i in dims if i not in (a, b)), key=lambda i: abs(copy.rows[i]), default=None)
    if apart:
        return [None, following if a == b else a, b]
    if a == b:
        m = following if of_copy is None else of_copy
        if reach_b < SHORT and of_copy is None and of_source == m:
            return [m, None, b]
        return [None if reach_b >= SHORT or of_source == m else of_source, m, b]
    found = [(reach_b, of_copy), (reach_a, of_source)]
    short = sorted((reach, m) for reach, m in found if reach < SHORT and m is not None)
    m = short[0][1] if short else following if max(reach_a, reach_b) < SHORT else None
    return [None if m == a else a, m, None if m == b else b]


def _behind(layout: Layout, rows: Sequence[int], i: int, gaps: int) -> int | None:
    """The dimension whose neighbours lie where those of dimension i end, or so little farther."""
    reach = layout.dims[i] * abs(rows[i])
    near = [j for j in range(len(rows)) if j != i and reach <= abs(rows[j]) <= gaps * reach]
    return min(near, key=lambda j: abs(rows[j]), default=None)


def _near(tiles: Layout, shape: Shape) -> list[int]:
    """The sides of a tile whose neighbours lie together in the array."""
    (source,) = tiles.loads
    *_, a, m, b = tiles.dims
    found, reach = [], max(source.size, NEAR // GAPS)
    sides = zip(range(3), (a, m, b), (shape.items, shape.strips, shape.lanes), map(abs, source.rows[-3:]))
    for k, n, side, step in sorted(sides, key=lambda side: side[-1]):
        if n == 1:
            continue
        if step > GAPS * reach:
            break
        found.append(k)
        if side < n:
            break
        reach = max(reach, step * n)
    return found


def is_copy(plan: Plan, layout: Layout) -> bool:
    """Whether a scan of rows of one item is a copy."""
    whole = plan.n == 1 and bool(layout.dims) and plan.loads == plan.accumulators == plan.stores
    plain = not (plan.reduce or plan.exclusive or plan.initial or plan.segmented)
    alone = plan.map is None and plan.finish is None and len(plan.loads) == 1
    return whole and plain and alone and not layout.loads[0].told
