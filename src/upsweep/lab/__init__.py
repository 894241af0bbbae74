"""The lab: run a kernel on values that remember, draw it, count it, and find what is wrong with it.

>>> from upsweep import lab
>>> t = lab.trace("brent-kung", n=16)
>>> lab.check(t)
nothing is wrong
>>> lab.identify(t).text
'Brent-Kung 16: size 26, depth 6 (7 levels as issued), fan-out 2, deficiency 2'

A trace is data. What it cost, what is wrong with it, what it looks like: each is a function of it, listed in `__all__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsweep.lab.cases import case, empty
from upsweep.lab.checks import check
from upsweep.lab.costs import counts, formulas
from upsweep.lab.draw import network, tables
from upsweep.lab.films import film
from upsweep.lab.networks import compare, identify, laws
from upsweep.lab.play import to_dict
from upsweep.lab.provenance import provenance
from upsweep.lab.reading import KernelError
from upsweep.lab.schedule import Schedule
from upsweep.lab.sync import barriers
from upsweep.lab.traces import Case, Trace, of_run
from upsweep.lab.traffic import Banks, accesses, coalescing, divergence

__all__ = [
    "Banks", "Case", "KernelError", "Schedule", "Trace", "accesses", "barriers", "check", "coalescing", "compare", "counts",
    "divergence", "empty", "film", "formulas", "html", "identify", "laws", "network", "provenance", "tables", "to_dict", "trace",
]  # fmt: skip


def trace(kernel: Callable[..., None] | str, grid: int | None = None, block: int | None = None, args: Sequence[Any] | None = None,
          *, schedule: str | Sequence[int] = "ascending", resident: int | None = None,
          issue: str | Sequence[int] = "ascending", **given: Any) -> Trace:  # fmt: skip
    """Run a kernel and remember everything that it did.

    `trace("brent-kung", n=16)` runs a kernel of the textbook. `trace(my_kernel, grid, block, (x, y, n))` runs your own,
    a function or its source text, on these arguments: arrays, numbers, and `lab.empty(n)` for memory that nobody has
    written. The first array holds the items of the scan. Without arguments, `trace(my_kernel, n=16)` takes a kernel
    of (x, y, n) and one block of n threads.

    Args:
        kernel: a name in `upsweep.textbook.KERNELS` or in its gallery of mistakes, a function in the dialect of
            numba.cuda, or its text.
        grid: blocks.
        block: threads of a block.
        args: what the kernel is launched with.
        schedule: the order in which threads run: `ascending`, `descending`, `lockstep` (an access at a time),
            `random-<seed>`, or a list of the threads that go first.
        resident: how many blocks are held at once; None for all of them.
        issue: the order in which blocks start: `ascending`, `descending`, or a list.
        **given: `n`, the number of items; `x`, the items; `op`, an operator, its name or a function; `identity`;
            `warp`, the threads of a warp; `itemsize`, the bytes of an item; `shared`, words of dynamic shared memory;
            `like`, the name of the textbook kernel whose launch your kernel takes over; `expect`, what its result must
            be: `inclusive`, `exclusive` or `reduction`; and the values of names such as BLOCK and TILE.

    Raises:
        KernelError: where the kernel uses Python that no GPU kernel has; it names the line.

    >>> from upsweep import lab
    >>> lab.trace("kogge-stone", x=[3, 1, 7, 0, 4]).values
    [3, 4, 11, 11, 15]
    """
    made = case(kernel, grid, block, args, **given)
    usual = (schedule, resident, issue) == ("ascending", None, "ascending")
    return (made if usual else replace(made, schedule=Schedule(schedule, resident, issue))).run()


@of_run
def html(trace: Trace, path: str | Path | None = None) -> str:
    """A run as a page of its own, to be stepped through in a browser without network; also written to `path`.

    Raises:
        ValueError: where there are more events than a browser plays without stuttering.

    >>> from upsweep import lab
    >>> lab.html(lab.trace("kogge-stone", n=4))[:15]
    '<!doctype html>'
    """
    # Nothing else here needs the page and its exercises.
    from upsweep.lab.page.html import of_trace

    text = of_trace(trace)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
