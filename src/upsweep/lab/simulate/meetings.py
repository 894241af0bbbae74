"""Threads that meet: at barriers of a block or of the whole grid, and in the shuffles and votes of a warp."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from upsweep.lab.simulate.threads import WARP, Block, Thread, knowledge
from upsweep.lab.simulate.undefined import Undefined

if TYPE_CHECKING:
    from upsweep.lab.simulate.machine import Simulator


def meet_block(sim: Simulator, block: Block, waiting: list[Thread]) -> None:
    """All threads of a block that are left wait at a barrier."""
    sim.now = waiting[0]
    if len({t.line for t in waiting}) > 1:
        lines = ", ".join(map(str, sorted({t.line for t in waiting})))
        sim.found(
            "divergent barrier",
            sim.now.line,
            f"threads of one block wait at different barriers, lines {lines}",
        )
    if len(waiting) < math.prod(sim.shape):
        gone = math.prod(sim.shape) - len(waiting)
        sim.found(
            "divergent barrier",
            sim.now.line,
            f"{gone} threads of the block have left, and {len(waiting)} wait",
        )
    block.epoch += 1
    together = knowledge(waiting)
    asked = [t.waits for t in waiting if t.waits is not None]
    values = [bool(one.value) for one in asked if one.name]
    votes = {"count": sum(values), "and": int(all(values)), "or": int(any(values))}
    for t, one in zip(waiting, asked):
        t.known, t.sends, t.waits = together, votes.get(one.name), None


def meet_grid(sim: Simulator, active: list[Block]) -> None:
    """All threads of the grid wait for each other."""
    sim.grid_epoch += 1
    for t in (t for block in active for t in block.threads):
        t.waits = None


def meet_warps(sim: Simulator, block: Block) -> None:
    """Where the threads that a mask names have all come to one shuffle, vote or barrier of their warp, they go on."""
    if not any(t.waits is not None and t.waits.kind == "warp" for t in block.threads):
        return
    groups: dict[tuple[int, str, int], list[Thread]] = {}
    warps: dict[int, list[Thread]] = {}
    for t in block.threads:
        warps.setdefault(t.number // WARP, []).append(t)
        if t.waits is not None and t.waits.kind == "warp":
            groups.setdefault((t.number // WARP, t.waits.name, t.waits.mask), []).append(t)
    for (warp, name, mask), here in groups.items():
        named = [t for t in warps[warp] if mask >> t.number % WARP & 1]
        absent = [t for t in named if t not in here]
        if any(t.waits is None or t.waits.kind == "turn" for t in absent):
            continue
        sim.now = here[0]
        if any(not mask >> t.number % WARP & 1 for t in here):
            text = f"the mask {mask:#x} of this {name} does not name every thread that comes to it"
            sim.found("wrong mask", sim.now.line, text)
        if absent:
            text = f"the mask {mask:#x} names threads that never come to this {name}"
            sim.found("divergent shuffle", sim.now.line, text)
        # The other meetings move values, and order no memory.
        if name == "syncwarp":
            together = knowledge(here)
            together |= {(block.number, t.number): t.stamp.clock for t in here}
            for t in here:
                t.known = together
                t.ticks()
        answers = [_exchanged(sim, t, here) for t in here]
        for t, answer in zip(here, answers):
            t.sends, t.waits = answer, None


def _exchanged(sim: Simulator, t: Thread, here: list[Thread]) -> Any:
    """The value that a thread gets from the meeting that all of `here` have come to."""
    asked = t.waits
    assert asked is not None
    by_lane = {u.number % WARP: u.waits.value for u in here if u.waits is not None}
    lane, name, by = t.number % WARP, asked.name, asked.by
    if name.startswith("shfl"):
        steps = {"shfl_up_sync": lane - by, "shfl_down_sync": lane + by, "shfl_xor_sync": lane ^ by}
        source = steps.get(name, by % WARP)
        # A thread that asks past the end of its warp keeps its own value.
        alone = not 0 <= source < WARP
        if alone or source in by_lane:
            return by_lane.get(source, asked.value)
        return Undefined(partial(_undefined, sim, t.line, name, source, asked.value))
    flags = [bool(v) for v in by_lane.values()]
    if name == "match_any_sync":
        return sum(1 << k for k, v in by_lane.items() if v == asked.value)
    if name == "match_all_sync":
        same = all(v == asked.value for v in by_lane.values())
        return (sum(1 << k for k in by_lane) if same else 0, same)
    return {"ballot_sync": sum(1 << k for k, v in by_lane.items() if v), "all_sync": all(flags), "any_sync": any(flags),
            "eq_sync": len(set(flags)) == 1}.get(name)  # fmt: skip


def _undefined(sim: Simulator, line: int, name: str, lane: int, value: Any) -> Any:
    text = f"what this {name} gives from lane {lane} is used, and lane {lane} does not take part"
    sim.found("undefined shuffle", line, text)
    return value
