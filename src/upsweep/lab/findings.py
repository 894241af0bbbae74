"""The answer of a check: findings, each with its lines, and the report that puts causes before their effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from upsweep.lab.reading import Spot
from upsweep.lab.schedule import Schedule

KINDS = (
    "launch limit", "endless loop", "too long", "overflow", "out of bounds", "divergent barrier", "wrong mask",
    "divergent shuffle", "undefined shuffle", "race", "deadlock", "uninitialised", "written twice", "never written",
    "wrong value",
)  # fmt: skip
"""Every kind of finding, causes before their effects."""
HARMLESS = ("launch limit", "overflow", "written twice")
"""Kinds that alone make no value wrong in the lab's machine, which has no limits and reads no stale word."""

MENDS = {
    "endless loop": "The loop ends once its body changes a name that its test reads.",
    "out of bounds": "Let only threads whose place lies in the array come to the access, by an if, or make the array larger.",
    "divergent barrier": "Leave the work in the branch and take the barrier out of it: all threads of a block must come "
    "to it, so none may return before.",
    "wrong mask": "The mask has a bit for each lane that comes here, and no other.",
    "divergent shuffle": "Take the shuffle out of the branch: all lanes that its mask names must come to it.",
    "undefined shuffle": "Use the value only where the lane that it comes from is there.",
    "deadlock": "A block may wait only for blocks that have started: let each draw its number by an atomic, and set the "
    "flags that nobody raises before the launch.",
    "uninitialised": "Store something there first, such as the identity, or let no thread read it.",
    "never written": "Each place of the result needs a thread that stores there; fewer threads store several each.",
}
"""What to do about a finding; barriers that mend a race are found for each kernel anew, and the others say it themselves."""


@dataclass(frozen=True)
class Witness:
    """A schedule under which the result is wrong, and the first word that shows it."""

    schedule: Schedule
    word: str
    got: str
    wanted: str

    def __str__(self) -> str:
        return f"schedule {self.schedule}: {self.word} becomes {self.got} instead of {self.wanted}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where."""

    kind: str
    """A kind of finding, from `KINDS`."""
    text: str
    spots: tuple[Spot, ...] = ()
    hazard: str = ""
    """RAW, WAR or WAW, by the order in the program of the two accesses that race."""
    words: tuple[str, ...] = ()
    """Some of the words that it is about."""
    witness: Witness | None = field(default=None, compare=False)
    events: tuple[int, int] | None = field(default=None, compare=False)
    """The two accesses of a race, by their places in the trace's columns."""
    follows: bool = False
    """Whether another finding of the report is the cause of this one."""

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(spot.line for spot in self.spots)

    def __str__(self) -> str:
        shown = f"\n    {self.witness}" if self.witness else ""
        return f"{'so, ' if self.follows else ''}{self.kind}: {self.text}{shown}"


class Report(tuple[Finding, ...]):
    """The findings of a check, causes first; empty where nothing is wrong."""

    @property
    def ok(self) -> bool:
        return not self

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self}

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The findings that follow from no other."""
        return tuple(f for f in self if not f.follows)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing is wrong"

    __repr__ = __str__


def ordered(found: list[Finding], raced: set[str]) -> Report:
    """The findings with the cause first; `raced` are all words that two accesses race for."""
    kinds = {f.kind for f in found}
    guilty = kinds - {*HARMLESS, "never written", "wrong value"}

    def follows(f: Finding) -> bool:
        if f.kind in ("never written", "wrong value"):
            return bool(guilty)
        if f.kind == "undefined shuffle":
            return bool(kinds & {"divergent shuffle", "wrong mask"})
        if f.kind in ("uninitialised", "written twice"):
            lost = f.kind == "uninitialised" and bool(kinds & {"out of bounds", "divergent barrier"})
            return lost or ("race" in kinds and bool(set(f.words) & raced))
        return False

    found = sorted(found, key=lambda f: KINDS.index(f.kind))
    return Report(replace(f, follows=follows(f)) for f in found)
