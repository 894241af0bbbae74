"""The cost of a kernel: work, steps, barriers, and its formulas. `traffic` has the costs that warps make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from upsweep.lab.traces import Trace, of_run
from upsweep.lab.traffic import TODAY, Banks, accesses
from upsweep.textbook import KERNELS


@dataclass(frozen=True)
class Counts:
    """The cost of a run, all launches together."""

    work: int
    """Applications of the operator."""
    steps: int
    """Operator instructions issued one after the other, as if all warps ran at once."""
    barriers: int
    """The most that any block passed, added over the launches."""
    shared_loads: int
    shared_stores: int
    global_loads: int
    global_stores: int
    atomics: int
    shuffles: int
    moves: int
    """Stores to shared memory of values that the same thread had loaded from there: copies. A swap counts one."""
    requests: int
    """Warp instructions that touch shared memory."""
    wavefronts: int
    """The rounds that these instructions take under the model of banks."""
    degree: int
    """The worst bank conflict; 1 is none."""
    waits: int
    """Times that a spinning thread asked in vain, under the schedule that was run."""

    def __str__(self) -> str:
        return "\n".join(f"{name.replace('_', ' '):>14} {value}" for name, value in vars(self).items())


@of_run
def counts(trace: Trace, model: Banks = TODAY) -> Counts:
    """The costs of a trace under a model of the banks.

    >>> from upsweep import lab
    >>> costs = lab.counts(lab.trace("brent-kung", n=16))
    >>> costs.work, costs.steps, costs.barriers
    (26, 7, 8)
    """
    rows = accesses(trace, model)
    loads, stores, shared = trace.at("load"), trace.at("store"), trace.space == 2
    return Counts(
        int(trace.at("op").sum()), steps(trace), _barriers(trace),
        int((loads & shared).sum()), int((stores & shared).sum()),
        int((loads & ~shared).sum()), int((stores & ~shared).sum()),
        int(trace.at("atomic").sum()), int(trace.at("shuffle").sum()), _moves(trace),
        sum(r.requests for r in rows), sum(r.wavefronts for r in rows), max((r.degree for r in rows), default=1),
        trace.machine.waits,
    )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A count beside its closed form."""

    what: str
    formula: str
    wanted: int
    got: int

    @property
    def ok(self) -> bool:
        return self.wanted == self.got


@of_run
def formulas(trace: Trace) -> list[Verdict]:
    """The counts of a textbook kernel beside what its formulas say, where they speak of this n and this launch.

    >>> from upsweep import lab
    >>> [(v.what, v.formula, v.wanted, v.got) for v in lab.formulas(lab.trace("sequential", n=16))]
    [('work', 'n - 1', 15, 15), ('steps', 'n - 1', 15, 15), ('barriers', '0', 0, 0)]
    """
    row = KERNELS.get(trace.case.name)
    launches = trace.case.setup.launches
    # The formulas count one section.
    if row is None or (trace.case.setup.tile < trace.n and launches[0].grid > 1):
        return []
    block, asked = launches[0].block, row.setup(trace.n, row.block(trace.n), 32).launches[0]
    as_asked = block == asked.block and launches[0].names.get("WARP") == asked.names.get("WARP")
    got = {"work": int(trace.at("op").sum()), "steps": steps(trace), "barriers": _barriers(trace)}
    forms = {what: getattr(row, what) for what in got}
    return [
        Verdict(what, form.text, form.value(trace.n, block), got[what])
        for what, form in forms.items()
        if form is not None
        and form.holds(trace.n)
        and (as_asked or (form.any_block and trace.n % block == 0))
    ]


def steps(trace: Trace) -> int:
    """Operator instructions that are issued one after the other, as if all warps and all blocks ran at once.

    The longest chain of them: a block issues its own in order, a place in the source in one step being one of them, and
    a block that takes what another made comes after it. So it is never less than the depth of the network.
    """
    ops = np.flatnonzero(trace.at("op"))
    ops = ops[np.argsort(trace.step[ops], kind="stable")]
    columns = (trace.launch, trace.block, trace.step, trace.site, trace.thread, trace.node)
    often: dict[tuple[int, int, int, int], int] = {}
    instructions: dict[tuple[int, int, int, int, int], list[int]] = {}
    for launch, block, step, site, thread, node in zip(*(c[ops].tolist() for c in columns)):
        turn = often[block, step, site, thread] = often.get((block, step, site, thread), 0) + 1
        instructions.setdefault((launch, block, step, site, turn), []).append(node)
    machine, made = trace.machine, dict[int, int]()
    reached: dict[int, int] = {}
    launched, begin = 0, 0
    for (launch, block, *_), nodes in instructions.items():
        if launch != launched:
            launched, begin = launch, max(reached.values(), default=0)
        taken = [
            made.get(k, 0) for node in nodes if node >= 0 for k in (machine.left[node], machine.right[node])
        ]
        reached[block] = 1 + max([begin, reached.get(block, 0), *taken])
        made.update((node, reached[block]) for node in nodes)
    return max(reached.values(), default=0)


def _barriers(trace: Trace) -> int:
    most: dict[int, int] = {}
    for block in trace.machine.blocks:
        most[block.launch] = max(most.get(block.launch, 0), block.epoch)
    return sum(most.values())


def _moves(trace: Trace) -> int:
    shared = np.flatnonzero((trace.space == 2) & trace.at("load", "store") & (trace.node >= 0))
    columns = (trace.block, trace.thread, trace.node, trace.at("load"))
    seen: set[tuple[int, int, int]] = set()
    moves = 0
    for block, thread, node, loads in zip(*(c[shared].tolist() for c in columns)):
        if loads:
            seen.add((block, thread, node))
        moves += not loads and (block, thread, node) in seen
    return moves
