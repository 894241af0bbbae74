"""From the page's dials to what it plays: a trace with its findings, counts and formulas, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from upsweep.lab.cases import case
from upsweep.lab.checks import Finding, Report, wanted
from upsweep.lab.machine import Schedule
from upsweep.lab.play import text
from upsweep.lab.rewrite import Rewritten
from upsweep.lab.trace import Case, Trace, scope
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

MOST_EVENTS = 150_000
"""What a browser plays without stuttering; a trace of more is refused."""
SIZES = (8, 13, 16, 32, 64, 256)
SCHEDULES = ("ascending", "descending", "lockstep", "random-1")
DIGITS = (3, 1, 7, 0, 4, 1, 6, 3)
"""CS380's vector, repeated."""


def _joined(a: str, b: str) -> str:
    return a + b


OPERATORS: dict[str, Any] = {"add": "add", "max": "max", "min": "min", "xor": "xor", "concat": _joined}
"""What the operator dial offers; concat is the one that does not commute."""


@dataclass(frozen=True)
class Dials:
    """One setting of the page."""

    kernel: str
    n: int = 16
    block: int | None = None
    op: str = "add"
    schedule: str = "ascending"
    without: tuple[int, ...] = ()
    """Lines whose barriers are taken out."""
    before: tuple[int, ...] = ()
    """Lines before which a barrier is put in."""
    source: str | None = None
    """The kernel's text, where the user has edited it."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Dials:
        """The dials that a browser sends; whatever else it sends is an error."""
        unknown = set(given) - {f.name for f in fields(cls)}
        if unknown or given.get("kernel") not in (*KERNELS, *MISTAKES):
            raise ValueError(f"no such dials: {', '.join(sorted(unknown)) or given.get('kernel')}")
        lines = {name: tuple(sorted(int(k) for k in given.get(name, ()))) for name in ("without", "before")}
        block = given.get("block")
        return cls(**{**given, **lines, "n": int(given.get("n", 16)), "block": int(block) if block else None})

    @property
    def key(self) -> str:
        """What an offline page finds this variant by."""
        lines = ",".join([*(f"-{k}" for k in self.without), *(f"+{k}" for k in self.before)])
        return f"{self.kernel}|{self.n}|{self.block or ''}|{self.op}|{self.schedule}|{lines}"


def first(kernel: str) -> Dials:
    """The setting that a kernel opens with."""
    if kernel in MISTAKES:
        return Dials(kernel, MISTAKES[kernel].n)
    return Dials(kernel, op="max" if KERNELS[kernel].needs == "idempotent" else "add")


def kernels() -> list[dict[str, Any]]:
    """The table of kernels as the page's menu shows it."""
    rows = [
        {"name": row.name, "title": row.title, "contract": row.contract, "group": "textbook", "n": first(name).n,
         "op": first(name).op, "fixed": False, "instead": None}
        for name, row in KERNELS.items()
    ]  # fmt: skip
    rows += [
        {"name": name, "title": row.says, "contract": "as it was printed", "group": "mistakes", "n": row.n, "op": "add",
         "fixed": True, "instead": row.instead}
        for name, row in MISTAKES.items()
    ]  # fmt: skip
    return rows


# --- one variant --------------------------------------------------------------------------------------------------------


def built(dials: Dials) -> Case:
    """The case that a setting of the dials runs."""
    if dials.n < 1:
        raise ValueError(f"there must be at least one item, not {dials.n}")
    sizes: dict[str, Any] = {"n": dials.n, "block": dials.block}
    if dials.op == "concat":
        items = [chr(97 + k % 26) for k in range(dials.n)]
        sizes = {"x": items, "block": dials.block, "identity": ""}
    elif dials.op != "add":
        sizes = {"x": [DIGITS[k % 8] for k in range(dials.n)], "block": dials.block}
        sizes |= {"identity": {"max": 0, "min": 9, "xor": 0}[dials.op]}
    one = case(dials.kernel, op=OPERATORS[dials.op], **sizes)
    if dials.kernel in MISTAKES and (dials.n != len(one.x) or dials.block):
        raise ValueError(f"{dials.kernel} is shown as it was printed: n = {len(one.x)}, its own block")
    if dials.source is not None:
        one = _edited(one, dials.source)
    if dials.kernel in KERNELS or dials.schedule != "ascending":
        one = replace(one, schedule=Schedule(dials.schedule, one.schedule.resident, one.schedule.issue))
    return replace(one, op_name=dials.op)


def _edited(one: Case, source: str) -> Case:
    """The case with the user's text in the place of its first kernel."""
    old = one.setup.launches[0].kernel
    sizes = {name: value for name, value in scope(old).items() if name.isupper()}
    launches = tuple(
        replace(launch, kernel=source, names={**sizes, **launch.names}) if launch.kernel is old else launch
        for launch in one.setup.launches
    )
    return replace(one, setup=replace(one.setup, launches=launches))


def payload(dials: Dials) -> dict[str, Any]:
    """Everything that the page shows for one setting, ready for `json.dumps`."""
    trace = built(dials).run(without=frozenset(dials.without), before=frozenset(dials.before))
    if len(trace.site) > MOST_EVENTS:
        raise ValueError(
            f"{len(trace.site)} events at n = {dials.n} are too many to play: choose a smaller n"
        )
    report = trace.check()
    right = wanted(trace)
    return {
        "dials": {**vars(dials), "block": dials.block or trace.case.setup.launches[0].block, "auto": dials.block is None},
        "trace": trace.to_dict(), "counts": vars(trace.counts()), "formulas": _formulas(dials, trace),
        "circuit": trace.identify().text, "laws": str(trace.laws()), "findings": [_finding(f) for f in report],
        "wanted": None if right is None else [text(v) for v in right],
        "places": [_places(k, dials) for k in trace.kernels], "barriers": _barriers(trace),
        "witness": _witness(trace, report), "resident": trace.case.schedule.resident,
    }  # fmt: skip


def _places(kernel: Rewritten, dials: Dials) -> dict[str, list[int]]:
    """Where barriers are, and where one can be put."""
    there = sorted({site.line for site in kernel.sites if site.kind == "barrier"} - set(dials.before))
    lines = range(kernel.source.first, kernel.source.first + len(kernel.source.lines))
    gone = [line for line in dials.without if line in lines]
    return {
        "barriers": there,
        "gone": gone,
        "free": [k for k in kernel.statements if k not in (*there, *gone)],
    }


def _formulas(dials: Dials, trace: Trace) -> list[dict[str, Any]]:
    """The closed forms that speak of this n in one section."""
    row = KERNELS.get(dials.kernel)
    if row is None or dials.block or dials.without or dials.before or dials.source:
        return []
    block = trace.case.setup.launches[0].block
    forms = {what: getattr(row, what) for what in ("work", "steps", "barriers")}
    return [
        {"count": what, "text": form.text, "value": form.value(dials.n, block), "powers": form.powers}
        for what, form in forms.items()
        if form and form.holds(dials.n)
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    seen = finding.witness
    shown = seen and {
        "schedule": str(seen.schedule),
        "word": seen.word,
        "got": seen.got,
        "wanted": seen.wanted,
    }
    return {"kind": finding.kind, "text": finding.text, "lines": list(finding.lines), "hazard": finding.hazard,
            "words": list(finding.words), "witness": shown}  # fmt: skip


def _barriers(trace: Trace) -> dict[str, Any]:
    found = trace.barriers()
    return {"needed": list(found.needed), "redundant": list(found.redundant), "idle": [list(k) for k in found.idle],
            "missing": [list(k) for k in found.missing]}  # fmt: skip


def _witness(trace: Trace, report: Report) -> dict[str, Any] | None:
    """The run under the schedule that shows a wrong value."""
    seen = next((f.witness for f in report if f.witness), None)
    if seen is None:
        return None
    return trace.case.run(seen.schedule, trace.without, trace.before).to_dict()


# --- what an offline page embeds ------------------------------------------------------------------------------------------


def grid(kernel: str, wide: bool) -> Iterator[Dials]:
    """The variants of one kernel that an offline page holds: one dial away from the first; `wide` adds the large ones."""
    start = first(kernel)
    yield start
    if kernel in MISTAKES:
        return
    barriers = payload(start)["places"]
    for line in sorted({k for place in barriers for k in place["barriers"]}):
        yield replace(start, without=(line,))
    sizes = SIZES if wide else (8, 256 if kernel == "brent-kung" else 13)
    yield from (replace(start, n=n) for n in sizes if n != start.n)
    if not wide:
        return
    if KERNELS[kernel].answer is None:
        yield from (replace(start, op=op) for op in OPERATORS if op != start.op)
        blocks = {payload(start)["dials"]["block"] // k for k in (2, 4)}
        yield from (
            replace(start, block=block) for block in sorted(blocks) if _possible(replace(start, block=block))
        )
    yield from (replace(start, schedule=schedule) for schedule in SCHEDULES[1:])
    yield from (replace(start, before=(line,)) for place in barriers for line in place["free"])


def _possible(dials: Dials) -> bool:
    """Whether a kernel takes this block at all; one thread's kernels, for instance, take no other."""
    if dials.block is None or dials.block < 1 or KERNELS[dials.kernel].contract == "one thread":
        return False
    return "one block" not in KERNELS[dials.kernel].contract
