"""The order in which threads and blocks run: a dial, which may change a wrong kernel's result and never a right one's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Schedule:
    """Who runs when: one of `ascending`, `descending`, `lockstep`, `random-<seed>`, or a list of thread numbers.

    >>> from upsweep import lab
    >>> print(lab.Schedule("descending", resident=2))
    descending, 2 blocks at a time, issued ascending
    """

    name: str | Sequence[int] = "ascending"
    resident: int | None = None
    """How many blocks the machine holds at once; None for all of them."""
    issue: Sequence[int] | str = "ascending"
    """The order in which blocks are started: `ascending`, `descending`, or a list."""
    chance: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = ("ascending", "descending", "lockstep")
        if isinstance(self.name, str) and self.name not in known and not self.name.startswith("random-"):
            raise ValueError(
                f"no schedule is called {self.name!r}; there are {', '.join(known)}, random-<seed>, or a list"
            )
        if self.resident is not None and self.resident < 1:
            raise ValueError(f"at least one block must be held, not {self.resident}")
        if isinstance(self.issue, str) and self.issue not in ("ascending", "descending"):
            raise ValueError(
                f"blocks start in ascending or descending order, or as a list says, not {self.issue!r}"
            )
        self.chance = random.Random(str(self.name))

    @property
    def fine(self) -> bool:
        return isinstance(self.name, str) and (self.name == "lockstep" or self.name.startswith("random"))

    def order(self, threads: list[int]) -> list[int]:
        if self.name == "descending":
            return threads[::-1]
        if isinstance(self.name, str):
            return self.chance.sample(threads, len(threads)) if self.name.startswith("random") else threads
        first = {t: k for k, t in enumerate(self.name)}
        return sorted(threads, key=lambda t: first.get(t, len(first) + t))

    def bursts(self) -> int:
        """How many accesses a thread makes before the next one's turn."""
        return self.chance.randint(1, 6) if self.name != "lockstep" else 1

    def blocks(self, grid: int) -> list[int]:
        if isinstance(self.issue, str):
            return list(range(grid))[:: -1 if self.issue == "descending" else 1]
        return list(self.issue)

    def __str__(self) -> str:
        name = self.name if isinstance(self.name, str) else f"thread {', '.join(map(str, self.name))} first"
        held = f", {self.resident} blocks at a time, issued {self.issue}" if self.resident else ""
        return name + held
