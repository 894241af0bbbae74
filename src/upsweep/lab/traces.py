"""A trace: everything that a kernel did, event by event, and the questions that it answers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from upsweep.lab import steps
from upsweep.lab.machine import Machine, scope
from upsweep.lab.rewrite import Rewritten, Site, Source, Spot, rewrite, source_of
from upsweep.lab.schedule import Schedule
from upsweep.lab.values import Array, plain
from upsweep.textbook.dialect import asks_for_identity
from upsweep.textbook.table import Setup

if TYPE_CHECKING:
    from upsweep.lab import barriers, counts, draw, films, findings, networks

Intervals = tuple[tuple[int, int], ...]
"""Which inputs a value is made of, in the order in which they were combined: ((0, 3), (5, 5)) is x0..x3 then x5."""
MANY = 48
"""The stretches that are kept of one value; only broken kernels, and those that ask for more laws, make more."""


@dataclass(frozen=True)
class Case:
    """A run that can be repeated with another schedule, or with a barrier more or less."""

    name: str
    setup: Setup
    x: tuple[Any, ...]
    op: Callable[[Any, Any], Any]
    op_name: str
    identity: Any
    expected: Callable[[int], Intervals | None] | None
    """The inputs that word i of the result must be made of, where the kernel promises a scan."""
    answer: Callable[[Sequence[Any]], list[Any]] | None = None
    """The right result, where it promises something else."""
    needs: str = ""
    warp: int = 32
    schedule: Schedule = field(default_factory=Schedule)
    itemsize: int = 4
    shape: tuple[int, ...] | None = None
    sized: Callable[[int], Case] | None = None
    """The same case for another number of items; None where the launch was given as it is."""

    def launching(self, kernels: Sequence[Any], names: Sequence[Mapping[str, Any]]) -> Case:
        """The same case with these kernels in its launches, and with those of their names that it has no sizes for."""
        launches = tuple(
            launch
            if launch.kernel is kernel
            else replace(launch, kernel=kernel, names={**own, **launch.names})
            for launch, kernel, own in zip(self.setup.launches, kernels, names)
        )
        return replace(self, setup=replace(self.setup, launches=launches))

    def run(
        self,
        schedule: Schedule | None = None,
        without: Collection[tuple[str, int]] = (),
        before: Collection[tuple[str, int]] = (),
        places: bool = False,
    ) -> Trace:
        """Run it, with the barriers of these lines left out, and with barriers put in before those: `("brent_kung", 22)`."""
        case = self if schedule is None else replace(self, schedule=schedule)
        plan = replace(case.schedule)
        machine = Machine(case.op, plan, case.warp, case.x)
        given = {"x": case.input(machine)}
        neutral = case.identity
        if neutral is not None and any(_asks(launch.kernel) for launch in case.setup.launches):
            neutral = machine.leaf(neutral)  # a value that remembers that it is the identity
        for name, content in case.setup.buffers.items():
            written = not isinstance(content, int)
            words: list[Any] = list(content) if not isinstance(content, int) else [None] * content
            given[name] = machine.array(name, "global", len(words), words, case.itemsize, written=written)
        kernels: list[Rewritten] = []
        finished = True
        with _no_collection():
            for launch in case.setup.launches:
                source = source_of(launch.kernel)
                out, put = (
                    frozenset(line for name, line in spots if name == source.name)
                    for spots in (without, before)
                )
                kernels.append(rewrite(source, plan.fine, out, put, places))
                args = [given[a] if isinstance(a, str) else a for a in launch.args]
                names = {**scope(launch.kernel), **launch.names, "identity": neutral, "dtype": None}
                finished = finished and machine.launch(
                    kernels[-1], names, launch.grid, launch.block, args, case.itemsize, launch.shared
                )
        changed = [frozenset(Spot(*spot) for spot in spots) for spots in (without, before)]
        return Trace(case, machine, tuple(kernels), given, *changed)

    def input(self, machine: Machine) -> Array:
        words = [machine.leaf(value) for value in self.x]
        return machine.array("x", "global", self.shape or len(words), words, self.itemsize)


def _asks(kernel: Any) -> bool:
    """Whether a kernel uses the identity."""
    if isinstance(kernel, (str, Source)):
        return "identity" in source_of(kernel).text
    return asks_for_identity(kernel)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A run makes hundreds of thousands of objects and no cycles: collecting them triples its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Trace:
    """What a run did. Its columns are one entry per event, in the order in which the schedule ran them.

    `site`, `thread`, `block`, `epoch` (barriers passed), `word` (the machine-wide number of the word touched) and
    `node` (the value's node in the network) tell the whole story; all methods are questions about these columns.
    """

    def __init__(self, case: Case, machine: Machine, kernels: tuple[Rewritten, ...], given: dict[str, Array],
                 without: frozenset[Spot] = frozenset(), before: frozenset[Spot] = frozenset()):  # fmt: skip
        self.case, self.machine, self.kernels, self.given = case, machine, kernels, given
        self.without, self.before = without, before
        log = np.fromiter(machine.log, np.int64, len(machine.log)).reshape(-1, 3)
        self.site, self.word, self.node = log.T
        marks = np.array(machine.marks, np.int64).reshape(-1, 5)
        times = np.diff(np.append(marks[:, 0], len(log)))
        self.block, self.thread, self.epoch, self.warp_epoch = (
            np.repeat(marks[:, k], times) for k in range(1, 5)
        )

    # --- columns that follow from the others ----------------------------------------------------------------------

    @property
    def sites(self) -> list[Site]:
        return self.machine.sites

    @property
    def n(self) -> int:
        return len(self.case.x)

    def at(self, *kinds: str) -> np.ndarray:
        """Which events are of these kinds: load, store, op, branch, loop, atomic, shuffle, fence."""
        return np.isin(self.site, [s for s, site in enumerate(self.sites) if site.kind in kinds])

    @cached_property
    def launch(self) -> np.ndarray:
        return np.array(self.machine.site_launch, np.int64)[self.site]

    @cached_property
    def line(self) -> np.ndarray:
        return np.array([s.line for s in self.sites], np.int64)[self.site]

    @cached_property
    def space(self) -> np.ndarray:
        """0 for an event that touches no memory, 1 for global, 2 for shared memory."""
        bases = np.array([a.base for a in self.arrays] or [0])
        kinds = np.array([1 if a.space == "global" else 2 for a in self.arrays] or [0])
        return np.where(
            self.at("load", "store", "atomic"), kinds[np.searchsorted(bases, self.word, "right") - 1], 0
        )

    @property
    def arrays(self) -> list[Array]:
        return [a for a in self.machine.arrays if a.size]

    def owner(self, word: int) -> tuple[Array, int]:
        """The array that a word lies in, and its place there."""
        array = next(a for a in self.arrays if a.base <= word < a.base + a.size)
        return array, word - array.base

    def spot(self, site: int) -> Spot:
        """The kernel and the line of a site."""
        return Spot(self.machine.site_source[site].name, self.sites[site].line)

    def place(self, word: int) -> str:
        """The name of a word, such as `xy[3]`."""
        array, index = self.owner(word)
        return array.place(index)

    @cached_property
    def by_thread(self) -> tuple[np.ndarray, np.ndarray]:
        """Events in the order of each thread's own program, and where each thread's begin."""
        own = self.block * (1 + self.thread.max(initial=0)) + self.thread
        order = np.argsort(own, kind="stable")
        first = np.ones(len(order), bool)
        first[1:] = own[order][1:] != own[order][:-1]
        return order, np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))

    @cached_property
    def tick(self) -> np.ndarray:
        """How many loop tests the thread has made before an event."""
        order, start = self.by_thread
        sums = np.cumsum(self.at("loop")[order])
        before = np.concatenate([[0], sums])[start] if len(sums) else sums
        tick = np.empty(len(order), np.int64)
        tick[order] = sums - before
        return tick

    @cached_property
    def position(self) -> np.ndarray:
        """A number for the iterations of the loops around an event, and for the loops passed by: threads at one position
        run it together, those that a loop was not for with those that have left it."""
        return steps.position(self)

    @cached_property
    def step(self) -> np.ndarray:
        """When an event happens: steps lie between barriers and, without one, between iterations of a loop.

        Blocks run side by side; a step that reads what another block wrote in the same launch comes after that. A run
        that races plays as it ran: no access stands before one that it met in its word.
        """
        return steps.steps(self)

    # --- values ---------------------------------------------------------------------------------------------------

    @cached_property
    def intervals(self) -> list[Intervals]:
        """For each node of the network, the inputs that it is made of; () for an identity or another constant."""
        made: list[Intervals] = []
        most = max(MANY, self.n) if self.case.needs else MANY
        for node, (a, b) in enumerate(zip(self.machine.left, self.machine.right)):
            made.append((((node, node),) if node < self.n else ()) if a < 0 else join(made[a], made[b], most))
        return made

    def flaw(self, intervals: Intervals) -> str | None:
        """What is wrong with a value that is no stretch of the input, where the kernel promises stretches."""
        forgiven = {"commutative": ("gap", "order"), "idempotent": ("overlap",)}.get(self.case.needs, ())
        found = flaw(intervals) if self.case.answer is None else None
        return None if found in forgiven else found

    @property
    def result(self) -> Array:
        """The array that holds the result: `y`, or the last global array that was written."""
        if "y" in self.given:
            return self.given["y"]
        written = {int(w) for w in self.word[self.at("store") & (self.space == 1)]}
        touched = [a for a in self.given.values() if any(a.base <= w < a.base + a.size for w in written)]
        return (touched or list(self.given.values()))[-1]

    @property
    def values(self) -> list[Any]:
        """The result, None where nothing was written."""
        return [plain(w) for w in self.result.words]

    # --- the questions, each answered in its own file ----------------------------------------------------------------

    def check(self, witness: bool = True) -> findings.Report:
        """What is wrong: races with both lines and a schedule that shows a wrong value, wild accesses, wrong results."""
        return _room("checks").check(self, witness)

    def film(self, race: findings.Finding) -> films.Film | None:
        """A race of the report as a film of its two threads, in both orders; None for another finding."""
        return _room("films").film(self, race)

    def barriers(self) -> barriers.Barriers:
        """The barriers that the kernel needs, those that can go, and those that are missing."""
        return _room("barriers").barriers(self)

    def counts(self, model: Any = None) -> counts.Counts:
        """Work, steps, barriers, traffic, and bank conflicts under a model of the banks (`lab.Banks`)."""
        return _room("counts").counts(self, model or _room("counts").Banks())

    def formulas(self) -> list[counts.Verdict]:
        """Work, steps and barriers of a textbook kernel beside their closed forms."""
        return _room("counts").verdicts(self)

    def accesses(self, model: Any = None) -> list[counts.Access]:
        """Every shared memory instruction, iteration by iteration, with its bank conflicts."""
        return _room("counts").accesses(self, model or _room("counts").Banks())

    def divergence(self, warp: int = 32) -> list[counts.Branch]:
        """Every branch: the arrivals of warps, and those whose threads parted."""
        return _room("counts").divergence(self, warp)

    def coalescing(self, sector: int = 32) -> list[counts.Coalescing]:
        """Every global access: the sectors that its warps touched, and the least that would have done."""
        return _room("counts").coalescing(self, sector)

    def provenance(self) -> list[networks.State]:
        """What each word is made of, step by step, with gaps and overlaps named."""
        return _room("networks").provenance(self)

    def identify(self) -> networks.Identity:
        """The name of the circuit, its size, depth, fan-out and deficiency."""
        return _room("networks").identify(self)

    def laws(self) -> networks.Laws:
        """The laws that the operator must obey for this kernel to be right."""
        return _room("networks").laws(self)

    def compare(self, other: Trace | str) -> networks.Comparison:
        """Side by side with another trace, or with a textbook kernel on the same items."""
        if isinstance(other, str):
            other = (
                _room("cases").case(other, x=self.case.x, op=self.case.op, identity=self.case.identity).run()
            )
        return _room("networks").compare(self, other)

    def network(self) -> draw.Picture:
        """The network as a picture: `.svg(path)`, `.png(path)`, and itself in a notebook."""
        return _room("draw").network(self)

    def tables(self) -> draw.Picture:
        """The tables of a kernel in two dimensions, such as a summed-area table: `.svg(path)`, `.png(path)`."""
        return _room("draw").tables(self)

    def to_dict(self, model: Any = None) -> dict[str, Any]:
        """Everything that a page needs to play this trace, ready for `json.dumps`; see `upsweep.lab.play.to_dict`."""
        return _room("play").to_dict(self, model or _room("counts").Banks())

    def html(self, path: str | Path | None = None) -> str:
        """This run as a page of its own, to be stepped through in a browser without network; also written to `path`."""
        text = _room("page.html").of_trace(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str | None:
        return _room("page.html").framed(self)

    def _repr_svg_(self) -> str:
        return self.network().svg()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype)

    def __repr__(self) -> str:
        grid = " then ".join(f"{one.grid} x {one.block} threads" for one in self.case.setup.launches)
        return f"<Trace of {self.case.name}: n = {self.n}, {grid}, {len(self.site)} events>"


def _room(name: str) -> Any:
    """A file of the lab by name; they all know Trace, so that Trace must meet them late."""
    return import_module(f"upsweep.lab.{name}")


def join(a: Intervals, b: Intervals, most: int = MANY) -> Intervals:
    """The inputs of `a op b`, neighbouring stretches made one."""
    if a and b and a[-1][1] + 1 == b[0][0]:
        a, b = (*a[:-1], (a[-1][0], b[0][1])), b[1:]
    return (a + b)[:most]


def spoken(intervals: Intervals) -> str:
    """`x0..x3` for ((0, 3),), `e` for nothing.

    >>> spoken(((0, 3), (5, 5)))
    'x0..x3 x5'
    """
    return " ".join(f"x{a}" if a == b else f"x{a}..x{b}" for a, b in intervals) or "e"


def flaw(intervals: Intervals) -> str | None:
    """What keeps a value from being a stretch of the input: an overlap, a gap, or a wrong order."""
    if len(intervals) < 2:
        return None
    flat = sorted(intervals)
    steps = [b[0] - a[1] for a, b in pairwise(flat)]
    return "overlap" if min(steps) < 1 else "gap" if max(steps) > 1 else "order"
