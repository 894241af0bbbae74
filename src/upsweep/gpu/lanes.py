"""Whether a lane has rows to itself: short axes in registers, batches of few columns, scans in order walked item by item, or
many odd columns walked run by run."""

from __future__ import annotations

from upsweep.gpu import batches
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import any_order, light, words
from upsweep.gpu.layout import Layout
from upsweep.gpu.shapes import LINE, Chip
from upsweep.gpu.shapes.short import fits_short
from upsweep.gpu.short import are_dense, are_turned, dense, short
from upsweep.gpu.walk import along_tree, walk
from upsweep.plan import Plan


def choose(plan: Plan, layout: Layout, chip: Chip) -> Choice | None:
    """The kernel of a scan that gives its rows to lanes, or None where many lanes sweep the tree: also in order where any order
    has these bits, if lines would not come as they lie. docs/dev/gpu-notes.md has what that gains."""
    across = _are_neighbours(layout)
    fits = fits_short(layout.n, words(plan, layout), plan.segmented, layout.listed, light(plan))
    if plan.ahead is None and (made := batches.choose(plan, layout, chip)) is not None:
        return made
    if across and plan.ahead is None and fits:
        return short(plan, layout, chip)
    if plan.ahead is None and fits and (are_dense(plan, layout) or are_turned(plan, layout)):
        return dense(plan, layout, chip)
    if plan.order == "tree":
        return along_tree(plan, layout, chip) if across else None
    lines = across and any(abs(x.along) != x.size for x in layout.arrays() if x.along)
    walked = walk(plan, layout, lines, chip)
    return walked if walked.by_lines or not any_order(plan) else None


def _are_neighbours(layout: Layout) -> bool:
    """Whether the innermost rows are neighbours in memory: in the results, and in the inputs, unless these are the same for
    all rows.
    """
    if not layout.dims:
        return False
    loads, stores = layout.loads, layout.stores
    near = all(x.rows[-1] in (0, x.size) for x in loads) and all(x.rows[-1] == x.size for x in stores)
    heads = layout.heads is None or layout.heads.rows[-1] in (0, 1)
    return near and heads and layout.dims[-1] * min(x.size for x in stores) >= LINE
