"""The settings that a page in a file holds, as nobody traces further ones there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from upsweep.lab.page.dials import ISSUE, PADDING, RESIDENT, SCHEDULES, Dials, pads
from upsweep.lab.page.items import EXAMPLE, OPERATORS
from upsweep.lab.page.played import built, payload, places
from upsweep.lab.reading import Spot
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

SIZES = (8, 13, 16, 32, 64, 256)


def grid(start: Dials, wide: bool) -> Iterator[Dials]:
    """The variants of one kernel that an offline page holds: one dial away from its opening; `wide` adds the large ones."""
    kernel = start.kernel
    yield start
    if kernel in MISTAKES:
        return
    made = built(start)
    texts = {k.source.name: k for k in made.run().kernels}
    for name, kernel_text in texts.items():
        yield from (
            replace(start, without=(Spot(name, line),)) for line in places(kernel_text, start)["barriers"]
        )
    if "flags" in made.setup.buffers:
        yield replace(start, resident=2, issue="descending")
    sizes = SIZES if wide else (8, 256 if kernel == "brent-kung" else 13)
    yield from (replace(start, n=n) for n in sizes if n != start.n)
    if not wide:
        return
    if kernel not in KERNELS or KERNELS[kernel].answer is None:
        yield from (replace(start, x=EXAMPLE, n=n) for n in (8, start.n))
        yield from (replace(start, op=op) for op in OPERATORS if op not in (start.op, "own"))
        blocks = {payload(start)["dials"]["block"] // k for k in (2, 4)}
        yield from (
            replace(start, block=block) for block in sorted(blocks) if _possible(replace(start, block=block))
        )
    yield from (replace(start, schedule=schedule) for schedule in SCHEDULES[1:])
    if pads(kernel):
        yield from (replace(start, padding=padding) for padding in PADDING[1:])
    if "flags" in made.setup.buffers:
        some = ((resident, issue) for issue in ISSUE for resident in RESIDENT)
        yield from (
            replace(start, resident=r, issue=i)
            for r, i in some
            if (r, i) not in ((None, "ascending"), (2, "descending"))
        )
    for name, kernel_text in texts.items():
        yield from (replace(start, before=(Spot(name, line),)) for line in places(kernel_text, start)["free"])


def _possible(dials: Dials) -> bool:
    """Whether a kernel takes this block at all; one thread's kernels, for instance, take no other."""
    if dials.block is None or dials.block < 1 or dials.source:
        return False
    contract = KERNELS[dials.kernel].contract
    return contract != "one thread" and "one block" not in contract
