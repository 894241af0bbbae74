"""The figures that the sources print, beside the runs of their kernels; and the figures that no run gives."""

from __future__ import annotations

from upsweep.lab.cases import case
from upsweep.lab.intervals import Intervals
from upsweep.lab.provenance import provenance
from upsweep.lab.traffic import Banks, accesses

PRINTED_CYCLES = {64: (102, 36, 84), 128: (186, 48, 106), 512: (570, 120, 304)}
"""Cycles of the reduction tree by its leaves, in CS380's lecture 24: with conflicts, ideal, padded."""

HALF_WARPS = Banks(16, group=16)
"""The machine that the lecture counts on: 16 banks, and each access is served for half a warp at a time."""
OVERHEAD = 8
"""The cycles that the lecture charges for a padded address, for each warp that issues a level."""


def cycles(leaves: int) -> tuple[int, int, int]:
    """Cycles of the reduction tree as CS380 lecture 24 counts them: with conflicts, ideal, padded.

    Two reads and a write for each warp that issues a level, two half-warps each, times the worst conflict; the padded
    tree pays for its addresses.

    >>> cycles(64), cycles(512)
    ((102, 36, 84), (570, 120, 304))
    """
    trace = case("reduction", n=leaves).run()
    plain, padded = (
        [row for row in accesses(trace, model) if "left" in row.text or "right" in row.text]
        for model in (HALF_WARPS, Banks(16, group=16, padding=4))
    )
    groups = trace.case.warp // HALF_WARPS.group
    ideal = sum(row.requests * groups for row in plain)
    address = OVERHEAD * sum(row.requests for row in plain if row.kind == "store")
    return sum(row.cycles for row in plain), ideal, sum(row.cycles for row in padded) + address


def figure_11_6() -> list[dict[int, Intervals]]:
    """PMPP figure 11.6: the inputs that each word of 16 is made of, after the reduction tree and after each level of the
    reverse tree.
    """
    states = provenance(case("brent-kung", n=16).run())
    words = [{k: state.words[f"xy[{k}]"] for k in range(16)} for state in states if "xy[15]" in state.words]
    return words[-4:]
