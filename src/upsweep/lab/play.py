"""A trace as plain data, for a page that plays it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.lab.intervals import spoken
from upsweep.lab.provenance import flawed
from upsweep.lab.traces import Trace, of_run
from upsweep.lab.traffic import TODAY, Banks
from upsweep.lab.values import POISON, plain

FORMAT = 1


@dataclass(frozen=True)
class Cut:
    """Another division of a run into steps: the step of each event, and the events that are shown in it."""

    step: np.ndarray
    shown: np.ndarray


@of_run
def to_dict(trace: Trace, model: Banks = TODAY, cut: Cut | None = None) -> dict[str, Any]:
    """Everything that a page needs to play a trace, ready for `json.dumps`.

    The banks of the events are those of `model`; the steps are the trace's own, or those of a `cut`. The
    shape (every number is an int, every value its text):

    ```
    {"format": 1, "name": "brent-kung", "n": 16, "op": "add", "schedule": "ascending", "warp": 32,
     "x": ["1", "2", ...],
     "launches": [{"name": "brent_kung", "grid": 1, "block": 8, "file": "...", "first_line": 12,
                   "lines": ["def brent_kung(x, y, n):", ...], "names": {"BLOCK": 8, "TILE": 16},
                   "barriers": [22, 29], "places": [13, 14, ...]}],
     "arrays":   [{"name": "xy", "space": "shared" | "global", "shape": [16], "size": 16, "first": 32,
                   "launch": 0 | null, "block": 0 | null, "itemsize": 4, "width": null}],
     "words":    [[word, text, ranges, flaw], ...],          # what memory holds before step 0; absent = never written
     "steps":    [{"launch": 0, "blocks": [0], "lines": [18, 19],
                   "events": [[kind, block, thread, line, column, word, text, node, bank], ...],
                   "words":  [[word, text, ranges, flaw], ...]}],      # the words that the step leaves changed
     "nodes":    [{"left": 0, "right": 1, "ranges": [[0, 1]], "flaw": null, "wire": 1, "step": 2, "level": 2,
                   "line": 19, "thread": 0, "block": 0, "value": "3", "text": "x0..x1"}, ...],  # leaves have left = right = null
     "result":   {"array": "y", "first": 16, "size": 16}}
    ```

    * A step is what threads do between two barriers or, without a barrier, in one iteration of a loop; blocks run side
      by side. Apply `words` of steps 0..k to see memory after step k.
    * `kind` of an event is load, store, op, shuffle, atomic, fence, branch or loop. `word` is the machine-wide number
      of the word touched (array `a` covers a["first"] .. a["first"] + a["size"] - 1) and null where there is none; for
      a shuffle it is the thread the value came from, for a branch or loop 1 where it was taken and 0 where not.
      `node` points into `nodes` or is null; `bank` is null except for shared words.
    * `width` of an array that stands for a table is the items of its row: it is to be drawn in two dimensions.
    * `barriers` are the lines of the barriers that ran, `places` those before which one could stand; run the case again
      with `trace.case.run(without=[("brent_kung", 22)])` or `before=`.
    * `ranges` are the inputs a value is made of, in order: [[0, 3]] is x0..x3, [] is the identity or a constant.
      `flaw` is null, "gap", "overlap" or "order" (right inputs, wrong order); text "?" is an uninitialised value.
    * `wire` of a node is the last input it covers: where the network draws it; `step` is null for a leaf. `level` is the step
      in the trace's own division: the row in which the network draws it.

    >>> from upsweep import lab
    >>> made = lab.to_dict(lab.trace("sequential", n=4))
    >>> made["name"], made["x"], made["result"]
    ('sequential', ['1', '2', '3', '4'], {'array': 'y', 'first': 4, 'size': 4})
    """
    cut = cut or Cut(trace.step, np.ones(len(trace.step), bool))
    steps = _steps(trace, model, cut)
    return {
        "format": FORMAT, "name": trace.case.name, "n": trace.n, "op": trace.case.op_name,
        "schedule": str(trace.case.schedule), "warp": trace.case.warp, "x": [text(v) for v in trace.case.x],
        "launches": [_launch(trace, k) for k in range(len(trace.kernels))],
        "arrays": [_array(trace, a) for a in trace.arrays],
        "words": _given(trace), "steps": steps, "nodes": _nodes(trace, cut),
        "result": {"array": trace.result.name, "first": trace.result.base, "size": trace.result.size},
    }  # fmt: skip


def text(value: Any) -> str:
    """A value as the page shows it."""
    value = plain(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return "?" if value is None or value is POISON else str(value)


def _launch(trace: Trace, number: int) -> dict[str, Any]:
    launch, kernel = trace.case.setup.launches[number], trace.kernels[number]
    names = {name: value for name, value in launch.names.items() if isinstance(value, int)}
    barriers = sorted({site.line for site in kernel.sites if site.kind == "barrier"})
    return {"name": kernel.source.name, "grid": launch.grid, "block": launch.block, "names": names,
            "file": Path(kernel.source.file).name, "first_line": kernel.source.first, "lines": kernel.source.lines,
            "barriers": barriers, "places": list(kernel.statements)}  # fmt: skip


def _array(trace: Trace, a: Any) -> dict[str, Any]:
    block = trace.machine.blocks[a.block] if a.block >= 0 else None
    width = trace.case.setup.width.get(a.name) if a.space == "global" else None
    return {"name": a.name, "space": a.space, "shape": list(a.shape), "size": a.size, "first": a.base, "itemsize": a.itemsize,
            "width": width, "launch": block and block.launch, "block": block and block.index}  # fmt: skip


def _word(trace: Trace, word: int, value: Any, node: int) -> list[Any]:
    ranges = trace.intervals[node] if node >= 0 else ()
    return [word, text(value), [list(r) for r in ranges], flawed(trace, ranges)]


def _given(trace: Trace) -> list[list[Any]]:
    words = [_word(trace, trace.given["x"].base + k, value, k) for k, value in enumerate(trace.case.x)]
    for name, content in trace.case.setup.buffers.items():
        if not isinstance(content, int):
            words += [_word(trace, trace.given[name].base + k, value, -1) for k, value in enumerate(content)]
    return words


def _steps(trace: Trace, model: Banks, cut: Cut) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    memory = {w[0]: w[1] for w in _given(trace)}
    stored = iter(trace.machine.stored)
    shared = {
        a.base + k: model.bank(a, k) for a in trace.arrays if a.space == "shared" for k in range(a.size)
    }
    kinds = [s.kind for s in trace.sites]
    after: list[dict[int, list[Any]]] = []
    count = int(cut.step.max(initial=-1)) + 1
    for _ in range(count):
        steps.append({"launch": 0, "blocks": set(), "lines": set(), "events": [], "words": []})
        after.append({})
    columns = (trace.site, trace.word, trace.node, trace.block, trace.thread, cut.step, cut.shown)
    for site, word, node, block, thread, number, shows in zip(*(c.tolist() for c in columns)):
        kind, where, step = kinds[site], trace.sites[site], steps[number]
        if kind in ("store", "atomic"):
            value = next(stored)
            memory[word] = text(value)
            after[number][word] = _word(trace, word, value, node)
        step["launch"] = trace.machine.site_launch[site]
        if not shows:
            continue
        in_memory = kind in ("load", "store", "atomic")
        shown = memory.get(word, "?") if in_memory else text(trace.machine.values[node]) if node >= 0 else ""
        target = None if kind in ("op", "fence") else word & 1 if kind == "loop" else word
        step["blocks"].add(trace.machine.blocks[block].index)
        step["lines"].add(where.line)
        step["events"].append([kind, trace.machine.blocks[block].index, thread, where.line, where.column, target, shown,
                               node if node >= 0 else None, shared.get(word) if kind in ("load", "store") else None])  # fmt: skip
    for step, words in zip(steps, after):
        step.update(blocks=sorted(step["blocks"]), lines=sorted(step["lines"]), words=list(words.values()))
    return steps


def _nodes(trace: Trace, cut: Cut) -> list[dict[str, Any]]:
    machine = trace.machine
    made = {int(trace.node[e]): int(e) for e in np.flatnonzero(trace.at("op"))}
    nodes = []
    for node, (left, right, ranges) in enumerate(zip(machine.left, machine.right, trace.intervals)):
        e = made.get(node)
        nodes.append({
            "left": left if left >= 0 else None, "right": right if right >= 0 else None,
            "ranges": [list(r) for r in ranges], "flaw": flawed(trace, ranges), "text": spoken(ranges),
            "wire": ranges[-1][1] if ranges else None, "value": text(machine.values[node]),
            "step": None if e is None else int(cut.step[e]), "level": None if e is None else int(trace.step[e]),
            "line": None if e is None else int(trace.line[e]),
            "thread": None if e is None else int(trace.thread[e]),
            "block": None if e is None else machine.blocks[int(trace.block[e])].index,
        })  # fmt: skip
    return nodes
