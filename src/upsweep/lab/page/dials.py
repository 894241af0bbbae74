"""The page's dials, their settings, and the table of kernels with the setting that each opens at."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from upsweep.lab.page.items import EXAMPLE, OPERATORS
from upsweep.lab.reading import Spot, source_of
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

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
    """The identity of the user's operator, for kernels that need one."""
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
            name: None if given.get(name) is None else _whole(name, given[name])
            for name in ("block", "resident", "padding")
        }
        return cls(**{**given, **spots, **sizes, "n": _whole("n", given.get("n", 16))})

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


def _whole(name: str, value: Any) -> int:
    """The number of a dial; a browser sends 1e3 as a float, and nothing for a field that is empty."""
    if isinstance(value, (int, float)) and value == int(value):
        return int(value)
    raise ValueError(f"{name} must be a whole number, not {'empty' if value is None else value}")


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
