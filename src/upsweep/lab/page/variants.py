"""From the page's dials to what it plays: a trace with its findings, counts and formulas, as plain data."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from upsweep.lab.cases import case
from upsweep.lab.checks import check, wanted
from upsweep.lab.costs import coalescing, counts, divergence
from upsweep.lab.films import film as filmed
from upsweep.lab.findings import Finding, Report
from upsweep.lab.machine import scope
from upsweep.lab.networks import identify, laws
from upsweep.lab.page.items import EXAMPLE, OPERATORS, identity_of, items_of, operator_of
from upsweep.lab.play import text, to_dict
from upsweep.lab.reading import Spot, source_of
from upsweep.lab.rewrite import Rewritten
from upsweep.lab.schedule import Schedule
from upsweep.lab.sync import barriers
from upsweep.lab.traces import Case, Trace
from upsweep.operator import OperatorError
from upsweep.textbook import KERNELS, Launch
from upsweep.textbook.mistakes import MISTAKES
from upsweep.textbook.setups import width

MOST_EVENTS = 150_000
"""The most events that a browser plays without stuttering; a longer trace is refused."""


SIZES = (8, 13, 16, 32, 64, 256)
SCHEDULES = ("ascending", "descending", "lockstep", "random-1")
RESIDENT = (None, 1, 2, 3, 4)
"""How many blocks are held at once; None for all."""
ISSUE = ("ascending", "descending")
PADDING = (None, 4, 5, 31)
"""The shift of a kernel that pads its indices; None for its own, and no index is as large as 2^31."""
CHOICES: dict[str, Sequence[Any]] = {
    "op": list(OPERATORS), "x": ["", EXAMPLE], "schedule": SCHEDULES, "resident": RESIDENT, "issue": ISSUE, "padding": PADDING,
}  # fmt: skip
"""The choices of a dial where every setting can be traced."""


RECTANGLES = {"summed-area-table": ("x", "rows", "y"), "box-sums": ("x", "rows", "table")}
"""The arrays that the page draws in two dimensions."""


@dataclass(frozen=True)
class Dials:
    """One setting of the page."""

    kernel: str
    n: int = 16
    block: int | None = None
    op: str = "add"
    x: str = ""
    """The items, repeated until there are n of them; empty for 1 to n."""
    own: str = ""
    """The user's operator where `op` is own: an expression of a and b."""
    identity: str = ""
    """Its identity, for kernels that need one."""
    schedule: str = "ascending"
    resident: int | None = None
    issue: str = "ascending"
    padding: int | None = None
    without: tuple[Spot, ...] = ()
    """Lines whose barriers are taken out."""
    before: tuple[Spot, ...] = ()
    """Lines before which a barrier is put in."""
    edits: Mapping[str, str] = field(default_factory=dict)
    """The texts of the kernels that the user has edited, by their names in the textbook."""
    source: str = ""
    """The text of a kernel that the textbook does not have: the user's."""
    like: str = ""
    """The textbook kernel whose launch it takes over; empty for one block of n threads on (x, y, n)."""
    expect: str = ""
    """The result that it must have: inclusive, exclusive or reduction."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes that it is written with."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Dials:
        """The dials that a browser sends; whatever else it sends is an error."""
        unknown = set(given) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"there are no dials called {', '.join(sorted(unknown))}")
        if not given.get("source") and given.get("kernel") not in (*KERNELS, *MISTAKES):
            raise ValueError(f"no kernel is called {given.get('kernel')!r}, and no source of one was given")
        spots = {
            name: tuple(sorted(Spot(str(k), int(line)) for k, line in given.get(name, ())))
            for name in ("without", "before")
        }
        sizes = {
            name: int(given[name]) if given.get(name) else None for name in ("block", "resident", "padding")
        }
        return cls(**{**given, **spots, **sizes, "n": int(given.get("n", 16))})

    @property
    def key(self) -> str:
        """The name by which an offline page finds this variant."""
        spots = ",".join(
            f"{sign}{k}:{line}"
            for sign, spots in (("-", self.without), ("+", self.before))
            for k, line in spots
        )
        dials = (
            self.kernel,
            self.n,
            self.block,
            self.op,
            self.x,
            self.own,
            self.identity,
            self.schedule,
            self.resident,
            self.issue,
            self.padding,
        )
        return "\n".join(["" if dial is None else str(dial) for dial in dials] + [spots])


def first(kernel: str) -> Dials:
    """The setting that a kernel opens with."""
    if kernel in MISTAKES:
        return Dials(kernel, MISTAKES[kernel].n, **dict(MISTAKES[kernel].schedule))
    return Dials(kernel, op="max" if KERNELS[kernel].needs == "idempotent" else "add")


def kernels(start: Dials) -> list[dict[str, Any]]:
    """The table of kernels as the page's menu shows it, the user's own first."""
    rows: list[dict[str, Any]] = []
    if start.source:
        rows.append({"name": start.kernel, "title": says(start.source) or "your kernel", "contract": "yours", "group": "yours",
                     "first": vars(start), "fixed": False, "sums": False, "pads": False, "instead": None})  # fmt: skip
    rows += [
        {"name": name, "title": row.title, "contract": row.contract, "group": "textbook", "first": vars(first(name)),
         "fixed": False, "sums": row.answer is not None, "pads": pads(name), "instead": None}
        for name, row in KERNELS.items() if name != start.kernel or not start.source
    ]  # fmt: skip
    rows += [
        {"name": name, "title": row.says, "contract": "as it was printed", "group": "mistakes", "first": vars(first(name)),
         "fixed": True, "sums": False, "pads": False, "instead": row.instead}
        for name, row in MISTAKES.items()
    ]  # fmt: skip
    return rows


def says(source: str) -> str:
    """The first line of a kernel's docstring."""
    return (ast.get_docstring(ast.parse(source_of(source).text).body[0]) or "").split("\n")[0]  # pyright: ignore[reportArgumentType]


def pads(kernel: str) -> bool:
    """Whether a kernel pads its indices, so that the padding is a dial of its own and not of the model alone."""
    return kernel in KERNELS and "LOG_BANKS" in KERNELS[kernel].setup(16, 8, 32).launches[0].names


# --- one variant --------------------------------------------------------------------------------------------------------


def built(dials: Dials) -> Case:
    """The case that a setting of the dials runs."""
    one = posed(dials)
    launches = tuple(_edited(launch, dials.edits) for launch in one.setup.launches)
    schedule = Schedule(dials.schedule, dials.resident, dials.issue)
    said = dials.own if dials.op == "own" else dials.op
    return replace(one, setup=replace(one.setup, launches=launches), schedule=schedule, op_name=said)


def posed(dials: Dials) -> Case:
    """The same as it stands in the textbook or in the user's file, before any edit and in the usual order."""
    if dials.n < 1:
        raise ValueError(f"there must be at least one item, not {dials.n}")
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
    return {**shown(trace, dials), "kernels": names}


def shown(trace: Trace, dials: Dials) -> dict[str, Any]:
    """The same for a trace that is there already."""
    if len(trace.site) > MOST_EVENTS:
        for fault in trace.machine.faults:
            if fault.kind == "too long":
                line = trace.sites[fault.site].line
                raise ValueError(f"line {line}: {fault.text}; does this loop end?")
        raise ValueError(
            f"{len(trace.site)} events at n = {trace.n} are too many to play: choose a smaller n"
        )
    report = check(trace)
    right = wanted(trace)
    return {
        "dials": {**vars(dials), "block": dials.block or trace.case.setup.launches[0].block, "auto": dials.block is None},
        "trace": to_dict(trace), "across": _across(dials.kernel, trace.n),
        "counts": vars(counts(trace)), **_warps(trace), "formulas": _formulas(dials, trace),
        "circuit": identify(trace).text, "laws": str(laws(trace)), "findings": _findings(trace, report),
        "wanted": None if right is None else [text(v) for v in right],
        "places": [_places(k, dials) for k in trace.kernels], "barriers": _barriers(trace),
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


def _places(kernel: Rewritten, dials: Dials) -> dict[str, list[int]]:
    """The lines where barriers are, were taken out and put in, and where one can be put."""
    gone, put = (
        [line for name, line in spots if name == kernel.source.name]
        for spots in (dials.without, dials.before)
    )
    there = sorted({site.line for site in kernel.sites if site.kind == "barrier"} - set(put))
    free = [line for line in kernel.statements if line not in (*there, *gone)]
    return {"barriers": there, "gone": gone, "put": put, "free": free}


def _formulas(dials: Dials, trace: Trace) -> list[dict[str, Any]]:
    """The closed forms that speak of this n in one section."""
    row = KERNELS.get(dials.kernel)
    if row is None or dials.block or dials.without or dials.before or dials.edits:
        return []
    block = trace.case.setup.launches[0].block
    forms = {what: getattr(row, what) for what in ("work", "steps", "barriers")}
    return [
        {"count": what, "text": form.text, "value": form.value(dials.n, block), "powers": form.powers}
        for what, form in forms.items()
        if form and form.holds(dials.n)
    ]


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
            "words": list(finding.words), "witness": shown, "follows": finding.follows}  # fmt: skip


def _barriers(trace: Trace) -> dict[str, Any]:
    found = barriers(trace)
    return {"needed": list(found.needed), "redundant": list(found.redundant), "idle": [list(k) for k in found.idle],
            "missing": [list(k) for k in found.missing], "elsewhere": [list(k) for k in found.elsewhere],
            "hopeless": found.hopeless, "tried": found.tried, "sizes": list(found.sizes)}  # fmt: skip


def _witness(trace: Trace, report: Report) -> dict[str, Any] | None:
    """The run under the schedule that shows a wrong value."""
    seen = next((f.witness for f in report if f.witness), None)
    if seen is None:
        return None
    return to_dict(trace.case.run(seen.schedule, trace.without, trace.before))


# --- what an offline page embeds ------------------------------------------------------------------------------------------


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
            replace(start, without=(Spot(name, line),)) for line in _places(kernel_text, start)["barriers"]
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
        yield from (
            replace(start, before=(Spot(name, line),)) for line in _places(kernel_text, start)["free"]
        )


def _possible(dials: Dials) -> bool:
    """Whether a kernel takes this block at all; one thread's kernels, for instance, take no other."""
    if dials.block is None or dials.block < 1 or dials.source:
        return False
    contract = KERNELS[dials.kernel].contract
    return contract != "one thread" and "one block" not in contract
