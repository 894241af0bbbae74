"""The kernel of columns, rows whose neighbours in memory belong to other rows, and the tiles that fit them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from upsweep.gpu import functions, params
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import any_order, costly, light, turned_piece, words, words_read
from upsweep.gpu.layout import Lane, Layout, patched, turned
from upsweep.gpu.lines import are_loose, are_stretch, are_uneven, go_by_lines, grain_of, lie_apart, scanned
from upsweep.gpu.shapes import ROWS, SEVERAL, WARPS, Chip, Shape
from upsweep.gpu.shapes.column_stages import (
    LISTED_MOST,
    LONG,
    for_costly,
    for_listed,
    for_marked,
    for_stages,
    for_wide,
)
from upsweep.gpu.shapes.columns import (
    COSTLY_BLOCKS,
    COSTLY_LOW,
    FEW_TILES,
    FLAT,
    FLAT_LEAST,
    LEAST_ITEMS,
    LINES_OF_ONE,
    LITTLE,
    MANY,
    STILL_STAGES,
    STRETCHED,
    STRETCHED_HALVES,
    TURNED_WARPS,
    WASTE,
    for_columns,
    for_flat,
    for_loose,
    for_lower,
    for_one,
    for_skewed,
    for_stretch,
    for_turned,
    for_uneven,
)
from upsweep.gpu.sharing import (
    begin,
    element_of,
    heads_of_lines,
    is_skewed,
    item_of,
    patches,
    pitch,
    places_of_lines,
    results_of_lines,
    rounded_up,
)
from upsweep.operator import identity_of
from upsweep.plan import Plan


class Columns(Choice):
    """A lane holds items of a column; where columns are few, several lanes share one; warps are stacked along the axis."""

    kernel = "columns"

    @property
    def radix(self) -> int:
        return 8 * 32 // self.shape.lanes

    @property
    def width(self) -> int:
        return self.shape.lanes * self.shape.vector

    @property
    def column_groups(self) -> int:
        return -(-self.columns // self.side)

    @property
    def side(self) -> int:
        """Columns of a line of a tile."""
        shape = self.shape
        return (
            shape.stretch // shape.cross
            if shape.cross and shape.stretch
            else self.width // max(1, shape.cross)
        )

    @property
    def across(self) -> bool:
        return True

    @property
    def within(self) -> bool:
        """Whether lanes hold whole lines that begin within words."""
        return self.shape.flat and not all(_begins_at_words(self.shape, x) for x in self.layout.arrays())

    @property
    def tiles(self) -> int:
        return -(-self.layout.n // self.tile)

    @property
    def tile(self) -> int:
        return self.shape.items * self.shape.warps * self.shape.strips * (32 // self.shape.lanes)

    @property
    def node_items(self) -> int:
        return self.shape.lanes

    @property
    def threads(self) -> int:
        return 32 * (self.shape.warps + self.shape.stages * self.shape.vector)

    def shared_bytes(self, plan: Plan) -> int:
        stages, warps = self.shape.stages, self.shape.warps
        parts = warps * self.shape.strips
        heads = self.layout.heads
        flags = 0 if heads is None else heads_of_lines(self.shape, heads, self.bits)
        own = results_of_lines(plan, self.layout, self.shape)[-1]
        lines = warps * (stages * (self._patches(plan)[-1] + flags) + own)
        (element, align), (item, item_align) = element_of(plan), item_of(plan)
        align = max(align, item_align, 8)
        sums = rounded_up(4 * 24, align) + stages * parts * self.width * element
        kept_parts = warps + (not (plan.exclusive or self._chained(plan)))
        prefixes = rounded_up(rounded_up(sums, item_align) + stages * kept_parts * self.width * item, 4)
        kept = 1 if self.shape.flat else 32 * self.shape.vector
        return lines + rounded_up(prefixes + stages * parts * kept * 4 * plan.segmented, align)

    def reads_bits(self, plan: Plan) -> bool:
        words = self.shape.items in (8, 16, 32) and self.tile // self.shape.warps % 32 == 0
        return words and not self.shape.flat and self.columns <= LISTED_MOST

    def places(self, plan: Plan) -> tuple[list[int], list[int], int]:
        *inputs, heads = self._patches(plan)
        return inputs, places_of_lines(plan, self.layout, self.shape), heads

    def spec(self, plan: Plan) -> str:
        words = self.layout.bytes or any(x.woven for x in self.layout.loads)
        (neutral,) = (identity_of(plan.op, plan.accumulators) or (0,)) if words else (0,)
        numbers = (
            f"constexpr bool FLAT = {str(self.shape.flat).lower()}, WITHIN = {str(self.within).lower()};\n"
            f"constexpr bool KEPT = {str(self._keeps(plan)).lower()};\n"
            f"constexpr bool CHAINED = {str(self._chained(plan)).lower()};\n"
            f"constexpr bool SPLIT = {str(self._lower(plan) > 0).lower()};\n"
            f"constexpr int CROSS = {self.shape.cross}, SIDE = {self.side};\n"
            f"constexpr unsigned NEUTRAL = {neutral}u;\n"
            f"constexpr int RESULT_BYTES = {results_of_lines(plan, self.layout, self.shape)[-1]};"
        )
        return f"{numbers}\n{super().spec(plan)}"

    def _chained(self, plan: Plan) -> bool:
        """Whether items become prefixes one after the other. Lanes that share a column would sum runs first, and spill."""
        return any_order(plan) and (self.shape.lanes == 32 or self.shape.flat)

    def _keeps(self, plan: Plan) -> bool:
        """Whether block sums take the place of items, which are as wide or half as wide, so that items of a costly operator are
        not swept up twice."""
        (x, *others), size = self.layout.loads, plan.loads[0].itemsize
        lines = patched(x) and not (turned(x) or others or self.shape.cross) and x.size == size
        fitting = plan.loads == plan.accumulators or plan.accumulators[0].itemsize == 2 * size
        return lines and fitting and plan.map is plan.finish is None and not plan.reduce and costly(plan)

    def _lower(self, plan: Plan) -> int:
        """Bytes of the lower halves of a warp's block sums that are twice as wide as items."""
        size, shape = plan.loads[0].itemsize, self.shape
        halves = self._keeps(plan) and plan.accumulators[0].itemsize > size
        return halves * shape.vector * shape.strips * (shape.items // 2 - (shape.lanes == 32)) * 32 * size

    def _patches(self, plan: Plan) -> list[int]:
        """The places of a warp's inputs, and behind them and the lower halves of sums the place of its heads."""
        *inputs, end = patches(self.layout, self.shape)
        return [*inputs, end + self._lower(plan)]

    def moved(self, plan: Plan, x: Lane, at: int, read: bool) -> dict[str, Any]:
        loose, sums = patched(x) and at >= 0, not read and x is self.layout.stores[-1]
        grain = self._grain_read(x) if read else self._grain_written(plan, x, at)
        return {
            "at": at, "lies": self._lies(plan, x, read), "grain": grain, "pitch": pitch(self.shape, x) if loose else 0,
            "begin": begin(self.shape, x), "run": plan.run if sums else 1, "line": plan.line if sums else 1,
        }  # fmt: skip

    def _lies(self, plan: Plan, x: Lane, read: bool) -> str:
        """Along what neighbours lie: a Lies of kernels/prelude.cuh."""
        if is_skewed(self.layout, self.shape, x):
            return "ITEMS_WITHIN" if x.along > 0 else "ITEMS_BACKWARDS"
        if not self.shape.cross or x.rows[-1] == 0:
            return "ITEMS_NEAR" if turned(x) else "COLUMNS_NEAR"
        if self.shape.stretch:
            return "SIDE_WHOLE" if x.rows[-1] == x.size else "CROSS_WHOLE"
        if x.rows[-1] == x.size:
            return "SIDE_NEAR"
        if read or self.shape.apart:
            return "CROSS_NEAR"
        return "CROSS_BYTES" if self._split(plan) > 1 else "CROSS_KEPT"

    def _split(self, plan: Plan) -> int:
        """The columns of a word, where these are apart again in the results."""
        return params.stored(plan)[0].itemsize // self.layout.stores[0].size

    def grain_of_square(self, x: Lane, split: int = 1) -> int:
        cross, (*rows, line, column) = self.shape.cross, x.rows
        if self.shape.stretch:
            high = self.shape.items
            lowest = x.offset + (high - 1) * min(0, x.along)
            far = line // cross if column == x.size else column
            return replace(x, offset=lowest, along=high * x.along, rows=(*rows, far)).grain()
        if column == x.size:
            return replace(x, rows=(*rows, line // cross)).grain(
                self.width // cross * x.size, self.columns * x.size
            )
        return replace(x, rows=(*rows, column // split)).grain(cross * x.size, self.crosswise * x.size)

    def _grain_read(self, x: Lane) -> int:
        if self.shape.cross and patched(x):
            return self.grain_of_square(x)
        if not patched(x):
            return x.grain(x.size)
        if turned(x):
            return turned_piece(self.layout, x, self.shape.items)
        return x.grain_of_lines(self.width, self.columns)

    def _grain_written(self, plan: Plan, x: Lane, at: int) -> int:
        shape = self.shape
        if shape.cross:
            return self.grain_of_square(x, self._split(plan))
        if plan.reduce:
            return x.grain(x.size)
        if turned(x):
            return turned_piece(self.layout, x, shape.items)
        gathered = shape.lanes < 32 or (shape.vector == shape.strips == 1 and x.size < 4)
        return x.grain_of_lines(self.width, self.columns) if at >= 0 or gathered else x.grain(x.size)


def choose(plan: Plan, layout: Layout, columns: int, chip: Chip) -> Columns:
    """Tiles of columns: one for each column where it would fill others badly, or lower ones."""
    made = _in_tiles(plan, layout, columns, chip)
    if made.shape.flat or any(map(turned, layout.arrays())):
        return made
    one = _one(plan, made)
    if one is not None or made.shape.lanes < 32 or not light(plan):
        return one or made
    return _busy(plan, _lower(made, words(plan, layout)))


def _one(plan: Plan, made: Columns) -> Columns | None:
    """One tile for each column, where such tiles are as many as they should be, and as many warps work at once."""
    shape = for_one(made.shape, made.layout.n, words(plan, made.layout))
    if shape is None or not (_fill(made) or _lines(made) >= LINES_OF_ONE):
        return None
    one = replace(made, shape=shape)
    blocks = min(shape.blocks, made.chip.shared // one.shared_bytes(plan))
    busy = blocks * shape.warps >= made.blocks(plan) * made.shape.warps
    if WASTE * one.tile > made.tiles * made.tile or not (blocks >= min(2, shape.blocks) or (busy and blocks)):
        return None
    return replace(one, shape=replace(shape, blocks=blocks))


def _lower(made: Columns, item: int) -> Columns:
    """Tiles of half the height, and of half of that, where fewer of their lines lie behind the columns' ends."""
    while (found := for_lower(made.shape, item)) is not None:
        shape, least = found
        low = replace(made, shape=shape)
        if least * low.tiles * low.tile > made.tiles * made.tile:
            break
        made = low
    return made


def _busy(plan: Plan, made: Columns) -> Columns:
    """The same tiles in twice the warps, which hold half the items each, where few work on a multiprocessor."""
    while made.shape.stages == 2 and made.shape.items > LEAST_ITEMS and _are_idle(plan, made):
        shape = replace(made.shape, items=made.shape.items // 2, warps=2 * made.shape.warps)
        more = replace(made, shape=shape)
        if more.shared_bytes(plan) > made.chip.shared or more.blocks(plan) < made.blocks(plan):
            break
        made = more
    return made


def _are_idle(plan: Plan, made: Columns) -> bool:
    """Whether few warps work on a multiprocessor."""
    shape, busy = made.shape, made.blocks(plan) * made.shape.warps
    by_lines = shape.loose and not shape.stretch and not plan.reduce
    return busy < WARPS or (busy == WARPS and by_lines and made.tickets <= FEW_TILES)


def _in_tiles(plan: Plan, layout: Layout, columns: int, chip: Chip) -> Columns:
    """Lines as wide as the smallest input wants them, unless that input is little beside others; and as many warps as pay, if all
    inputs fit into shared memory.
    """
    reading = [x.size for x in layout.loads if patched(x)]
    sizes = reading or [x.size for x in scanned(plan, layout)]
    line = min((size for size in sizes if LITTLE * size > max(sizes)), default=4)
    warps, item, again = WARPS, words(plan, layout), functions.reads_again(plan)
    wide = item > 2 and not again
    pair = sum(x.size for x in layout.moving()) if [d.itemsize for d in plan.accumulators] == [4, 4] else 0
    loose, alone = are_loose(plan, layout), item == 1 and not plan.segmented
    # Two thirds of the warps work where tiles have more stages: too few for operators of many instructions.
    single = light(plan) and item <= 2 and not plan.segmented
    listed = light(plan) and layout.heads is not None and layout.heads.rows[-1] == 0 and not plan.reduce
    turning = [x for x in (*layout.moving(), *layout.stores) if turned(x)]
    dear = costly(plan)
    narrow = dear and not plan.reduce and max(sizes) == 2
    if turning or (narrow and layout.n <= COSTLY_LOW):
        line = 4

    for shape in for_flat(layout.bytes) if loose and layout.bytes % 4 else ():
        made = Columns(shape, layout, columns, chip)
        if _are_flat(plan, layout) and made.fits(plan):
            return made
    size = 0 if layout.bytes else sum(sizes)
    apart = loose and lie_apart(plan, layout, True)
    dense = loose and not apart and are_stretch(plan, layout, columns, STRETCHED_HALVES)
    narrow_apart = apart and plan.segmented and set(sizes) == {2}
    stretched = loose and are_stretch(plan, layout, columns, STRETCHED_HALVES if narrow_apart else STRETCHED)
    halves = single and item == 2 and set(sizes) == {2}
    while True:
        shape = for_columns(
            layout.n,
            columns,
            item,
            words_read(layout),
            line,
            warps,
            again,
            pair,
            plan.segmented,
            plan.sums,
            item == 2 and not plan.reduce,
        )
        if dear and (narrow or line >= 4) and shape.warps == WARPS:
            shape = replace(shape, blocks=min(COSTLY_BLOCKS, shape.blocks))
        staged, uneven = single and not turning, False
        if alone and turning:
            piece = min(max(4, turned_piece(layout, x, SEVERAL)) // x.size for x in turning)
            shape = for_turned(shape, min(sizes), piece)
        elif stretched and not (wide and go_by_lines(layout, columns)):
            # Results apart take half as much as the inputs of two stages; without inputs tiles are twice as high.
            taken = sum(sizes) * 3 // 2 if apart else sum(sizes)
            taken = taken if reading else max(1, taken // 2)
            shape = for_stretch(
                shape,
                layout.n,
                columns,
                taken,
                alone and not (apart or narrow),
                wide,
                item > MANY,
                layout.bytes > 0,
                halves,
                (max(sizes) == 8 and not plan.reduce)
                or (plan.segmented and max(sizes) < 4 and shape.lanes < 32),
                chip.shared,
            )
        elif shape.lanes == 32 and are_uneven(layout):
            grain = grain_of(layout, 64 * shape.vector, columns)
            if loose and (grain < 4 or (item == 1 and grain < 16)):
                shape = for_loose(shape, columns, 4 if narrow else line, item > MANY)
            elif item == 1 and grain >= 4 and shape.vector <= 2 and not (plan.reduce or plan.segmented):
                shape, uneven = for_uneven(shape), size == 4
                if narrow:
                    shape = replace(shape, blocks=COSTLY_BLOCKS)
            staged = staged and (shape.loose or uneven)
        if _share_sectors(plan, layout, shape):
            shape = for_skewed(shape, layout.n)
        pieces = [turned_piece(layout, x, shape.items) for x in layout.stores if turned(x)]
        if pieces and min(pieces) < 16 and min(sizes) >= 4:
            shape = replace(shape, blocks=min(TURNED_WARPS // shape.warps, shape.blocks))
        if shape.loose:
            shape = replace(shape, apart=lie_apart(plan, layout, shape.stretch > 0))
            if not reading and shape.stretch:
                shape = replace(shape, stages=STILL_STAGES, blocks=min(2, shape.blocks))
        # Lines of reductions that begin at sectors take as long in more stages.
        staged = staged and (shape.loose or not plan.reduce)
        tiles = Columns(shape, layout, columns, chip).tiles
        long = not plan.reduce and tiles >= LONG
        forms = for_stages(shape, columns, size, dense, uneven, halves, long) if staged else ()
        if dear and not (plan.reduce or turning):
            forms = for_costly(shape, layout.n)
        if wide and shape.stretch and light(plan) and not turning:
            forms = for_wide(shape)
        if listed and sizes == [4] and item == 1 and not (turning or (layout.bytes and shape.apart)):
            forms = for_listed(shape, columns)
        few = plan.segmented and light(plan) and item <= 2 and not plan.reduce
        marked = for_marked(shape, layout.n) if few else None
        if marked is not None:
            made = Columns(marked, layout, columns, chip)
            if made.fits(plan):
                return made
        for more in forms:
            made = Columns(more, layout, columns, chip)
            if made.threads <= 1024 and made.fits(plan) and _fill(made):
                return made
        made = Columns(shape, layout, columns, chip)
        # Tiles of several strips are no higher than lets two share a multiprocessor.
        while made.shape.strips > 1 and made.blocks(plan) < min(2, shape.blocks):
            made = replace(made, shape=replace(made.shape, strips=made.shape.strips // 2))
        if made.shared_bytes(plan) <= chip.shared - 4096 or not (shape.loose or shape.warps > 1):
            return made
        if line < 4:
            line *= 2
        elif warps > 1:
            warps //= 2
        else:
            loose = stretched = dense = False


def _share_sectors(plan: Plan, layout: Layout, shape: Shape) -> bool:
    """Whether an input of two bytes touches along the axis and begins within words, and results lie across and begin within
    sectors."""
    skewed = [x.size for x in layout.moving() if is_skewed(layout, shape, x)]
    stores = scanned(plan, layout)
    across = bool(stores) and not any(map(turned, stores))
    return across and skewed == [2] and any(p % 32 for y in stores for p in (y.along, *y.rows[:-1]))


def _lines(choice: Columns) -> int:
    """The tiles beside each other."""
    return -(-choice.columns // choice.width) * prod(choice.layout.dims[:-1])


def _fill(choice: Columns) -> bool:
    """Whether there are tiles enough for the largest GPUs: half as many where a block has a multiprocessor to itself."""
    return choice.tiles * _lines(choice) >= ROWS // (1 + (choice.shape.blocks == 1))


def _are_flat(plan: Plan, layout: Layout) -> bool:
    """Whether lanes may hold whole lines of bytes, as they lie: these are short, and one behind another."""
    many = layout.n * prod(layout.dims[:-1]) * layout.bytes >= FLAT_LEAST
    listed = layout.heads is None or (layout.heads.rows[-1] == 0 and abs(layout.heads.along) == 1)
    return (
        many
        and listed
        and not lie_apart(plan, layout, True)
        and are_stretch(plan, layout, layout.dims[-1], FLAT)
    )


def _begins_at_words(shape: Shape, x: Lane) -> bool:
    """Whether the lines of every warp begin at a word."""
    lines = 32 // shape.lanes * shape.strips * shape.items
    lowest = x.phase + x.offset + (lines - 1) * min(0, x.along)
    return all(place % 4 == 0 for place in (lowest, lines * x.along, *x.rows[:-1]))
