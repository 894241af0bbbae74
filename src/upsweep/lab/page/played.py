"""A setting of the dials, played: its trace with findings, counts and formulas, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

from upsweep.lab.cases import case
from upsweep.lab.checks import check, wanted
from upsweep.lab.costs import counts, formulas
from upsweep.lab.films import film as filmed
from upsweep.lab.findings import MENDS, Finding, Report
from upsweep.lab.machine import scope
from upsweep.lab.networks import identify, laws
from upsweep.lab.page.dials import Dials
from upsweep.lab.page.items import identity_of, items_of, operator_of, own_operator
from upsweep.lab.play import text, to_dict
from upsweep.lab.reading import source_of
from upsweep.lab.rewrite import Rewritten
from upsweep.lab.schedule import Schedule
from upsweep.lab.sync import barriers
from upsweep.lab.traces import Case, Trace
from upsweep.lab.traffic import coalescing, divergence
from upsweep.operator import OperatorError
from upsweep.textbook import Launch
from upsweep.textbook.mistakes import MISTAKES
from upsweep.textbook.setups import width

MOST_EVENTS = 150_000
"""The most events that a browser plays without stuttering; a longer trace is refused."""
RECTANGLES = {"summed-area-table": ("x", "rows", "y"), "box-sums": ("x", "rows", "table")}
"""The arrays that the page draws in two dimensions."""


def built(dials: Dials) -> Case:
    """The case that a setting of the dials runs."""
    one = posed(dials)
    launches = tuple(_edited(launch, dials.edits) for launch in one.setup.launches)
    schedule = Schedule(dials.schedule, dials.resident, dials.issue)
    one = replace(one, setup=replace(one.setup, launches=launches), schedule=schedule)
    if dials.op == "own":
        return replace(one, op=own_operator(one.op, dials.own.strip()), op_name=dials.own)
    return replace(one, op_name=dials.op)


def posed(dials: Dials) -> Case:
    """The case as it stands in the textbook or in the user's file, before any edit and in the usual order."""
    if dials.n < 1:
        raise ValueError(f"there must be at least one item, not {dials.n}")
    if dials.block is not None and dials.block < 1:
        raise ValueError(f"a block has at least one thread, not {dials.block}")
    # Each has an event at least, and an array of them may be larger than this machine's memory.
    for many, what in ((dials.n, "n"), (dials.block or 0, "block")):
        if many > MOST_EVENTS:
            raise ValueError(f"{many} are too many to play: choose a smaller {what}")
    sizes: dict[str, Any] = {"n": dials.n}
    if dials.x or dials.op != "add":
        items = items_of(dials.x, dials.op, dials.n)
        sizes |= {"x": items, "identity": identity_of(dials.op, items, dials.identity)}
    if dials.padding is not None:
        sizes["LOG_BANKS"] = dials.padding
    if dials.source:
        sizes |= {**dials.sizes, "like": dials.like or None, "expect": dials.expect or None}
    operator = operator_of(dials.op, dials.own)
    try:
        one = case(dials.source or dials.kernel, op=operator, block=dials.block, **sizes)
    except OperatorError:
        raise ValueError(
            f"{dials.kernel} needs the identity of your operator, the value that changes nothing, such as 0 for +: "
            "write it into the field identity"
        ) from None
    if dials.kernel in MISTAKES and (dials.n != len(one.x) or dials.block or dials.padding or dials.x):
        raise ValueError(
            f"{dials.kernel} is shown as it was printed: n = {len(one.x)}, its own items, block and padding"
        )
    return one


def _edited(launch: Launch, edits: Mapping[str, str]) -> Launch:
    """The launch with the user's text in the place of its kernel."""
    name = source_of(launch.kernel).name
    if name not in edits:
        return launch
    sizes = {name: value for name, value in scope(launch.kernel).items() if name.isupper()}
    return replace(launch, kernel=edits[name], names={**sizes, **launch.names})


def payload(dials: Dials) -> dict[str, Any]:
    """Everything that the page shows for one setting, ready for `json.dumps`."""
    trace = built(dials).run(without=dials.without, before=dials.before)
    names = [source_of(launch.kernel).name for launch in posed(dials).setup.launches]
    # The kernel has printed what it prints; the runs at other sizes and in other orders are not the user's.
    with redirect_stdout(None):
        return {**shown(trace, dials), "kernels": names}


def shown(trace: Trace, dials: Dials) -> dict[str, Any]:
    """Everything that the page shows for a trace that is there already."""
    if len(trace.site) > MOST_EVENTS:
        for fault in trace.machine.faults:
            if fault.kind == "too long":
                line = trace.sites[fault.site].line
                raise ValueError(f"line {line}: {fault.text}; does this loop end?")
        smaller = "a smaller n" + (" or block" if dials.block else "")
        raise ValueError(f"{len(trace.site)} events at n = {trace.n} are too many to play: choose {smaller}")
    report = check(trace)
    right = wanted(trace)
    return {
        "dials": {**vars(dials), "block": dials.block or trace.case.setup.launches[0].block, "auto": dials.block is None},
        "trace": to_dict(trace), "across": _across(dials.kernel, trace.n),
        "counts": vars(counts(trace)), **_warps(trace), "formulas": _formulas(dials, trace),
        "circuit": identify(trace).text, "laws": str(laws(trace)), "findings": _findings(trace, report),
        "wanted": None if right is None else [text(v) for v in right],
        "places": [places(k, dials) for k in trace.kernels], "barriers": _barriers(trace),
        "kernels": [k.source.name for k in trace.kernels], "witness": _witness(trace, report),
    }  # fmt: skip


def _across(kernel: str, n: int) -> dict[str, int]:
    """The arrays that are rectangles, by the width of a row."""
    return dict.fromkeys(RECTANGLES.get(kernel, ()), width(n))


def _warps(trace: Trace) -> dict[str, list[int]]:
    """Counts of warps: sectors moved and the least that would do, branches that part a warp and all that it comes to."""
    moved, branches = coalescing(trace), divergence(trace, trace.case.warp)
    return {
        "sectors": [sum(row.sectors for row in moved), sum(row.ideal for row in moved)],
        "parted": [sum(row.divergent for row in branches), sum(row.arrivals for row in branches)],
    }


def places(kernel: Rewritten, dials: Dials) -> dict[str, list[int]]:
    """The lines where barriers are, were taken out and put in, and where one can be put."""
    gone, put = (
        [line for name, line in spots if name == kernel.source.name]
        for spots in (dials.without, dials.before)
    )
    there = sorted({site.line for site in kernel.sites if site.kind == "barrier"} - set(put))
    free = [line for line in kernel.statements if line not in (*there, *gone)]
    return {"barriers": there, "gone": gone, "put": put, "free": free}


def _formulas(dials: Dials, trace: Trace) -> list[dict[str, Any]]:
    """The closed forms that speak of this run of the kernel as it is written."""
    if dials.without or dials.before or dials.edits:
        return []
    return [{"count": form.what, "text": form.formula, "value": form.wanted} for form in formulas(trace)]


def _findings(trace: Trace, report: Report) -> list[dict[str, Any]]:
    """All findings, and the first race as a film of its two threads."""
    race = next((finding for finding in report if finding.kind == "race"), None)
    film = race and filmed(trace, race)
    return [{**_finding(f), "film": film.to_dict() if film and f is race else None} for f in report]


def _finding(finding: Finding) -> dict[str, Any]:
    seen = finding.witness
    shown = seen and {
        "schedule": str(seen.schedule),
        "word": seen.word,
        "got": seen.got,
        "wanted": seen.wanted,
    }
    return {"kind": finding.kind, "text": finding.text, "lines": list(finding.lines), "hazard": finding.hazard,
            "words": list(finding.words), "witness": shown, "follows": finding.follows,
            "mend": MENDS.get(finding.kind, "")}  # fmt: skip


def _barriers(trace: Trace) -> dict[str, Any]:
    found = barriers(trace)
    return {"needed": list(found.needed), "redundant": list(found.redundant), "idle": [list(k) for k in found.idle],
            "missing": [list(k) for k in found.missing], "elsewhere": [list(k) for k in found.elsewhere],
            "racing": found.racing, "hopeless": found.hopeless, "tried": found.tried, "sizes": list(found.sizes)}  # fmt: skip


def _witness(trace: Trace, report: Report) -> dict[str, Any] | None:
    """The run under the schedule that shows a wrong value."""
    seen = next((f.witness for f in report if f.witness), None)
    if seen is None:
        return None
    return to_dict(trace.case.run(seen.schedule, trace.without, trace.before))
