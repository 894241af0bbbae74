"""The inputs that each word holds, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from upsweep.lab.intervals import Intervals, flaw
from upsweep.lab.traces import Trace, of_run


@dataclass(frozen=True)
class State:
    """The shared (or, without any, the global) words at the end of one step, each as the inputs that it is made of."""

    step: int
    lines: tuple[int, ...]
    words: dict[str, Intervals]
    changed: tuple[str, ...]
    flaws: dict[str, str]
    """Words that are no stretch of the input: gap, overlap or order."""


@of_run
def provenance(trace: Trace) -> list[State]:
    """The inputs that every word is made of, step by step: figure 11.6 from the run itself.

    >>> from upsweep import lab
    >>> states = lab.provenance(lab.trace("brent-kung", n=8))
    >>> states[2].words["xy[7]"], states[3].words["xy[7]"]
    (((4, 7),), ((0, 7),))
    """
    shared = trace.at("store") & (trace.space == (2 if (trace.space == 2).any() else 1))
    states: list[State] = []
    words: dict[str, Intervals] = {}
    events = np.flatnonzero(shared)
    for step in np.unique(trace.step[events]).tolist():
        changed = []
        for e in events[trace.step[events] == step].tolist():
            word = _place(trace, int(trace.word[e]))
            words[word] = trace.intervals[int(trace.node[e])] if trace.node[e] >= 0 else ()
            changed.append(word)
        lines = tuple(sorted(set(trace.line[trace.step == step].tolist())))
        flaws = {w: f for w in changed if (f := flawed(trace, words[w]))}
        states.append(State(step, lines, dict(words), tuple(dict.fromkeys(changed)), flaws))
    return states


def flawed(trace: Trace, intervals: Intervals) -> str | None:
    """The fault of a value that is no stretch of the input, where the kernel promises stretches."""
    forgiven = {"commutative": ("gap", "order"), "idempotent": ("overlap",)}.get(trace.case.needs, ())
    found = flaw(intervals) if trace.case.answer is None else None
    return None if found in forgiven else found


def _place(trace: Trace, word: int) -> str:
    array, _ = trace.owner(word)
    owner = trace.machine.blocks[array.block] if array.block >= 0 else None
    many = owner is not None and trace.case.setup.launches[owner.launch].grid > 1
    return f"block {owner.index} {trace.place(word)}" if owner is not None and many else trace.place(word)
