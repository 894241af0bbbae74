"""A trace: everything that a kernel did, event by event. What can be asked about it is a function of it, in a file of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np

from upsweep.lab import steps
from upsweep.lab.expressions import Site
from upsweep.lab.intervals import MANY, Intervals, join
from upsweep.lab.machine import Machine, scope
from upsweep.lab.reading import KernelError, Source, Spot, source_of
from upsweep.lab.rewrite import Rewritten, rewrite
from upsweep.lab.schedule import Schedule
from upsweep.lab.values import Array, plain
from upsweep.textbook.dialect import asks_for_identity
from upsweep.textbook.table import Setup

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
    """Makes the case for another number of items; None where the launch was given as it is."""

    def launching(self, kernels: Sequence[Any], names: Sequence[Mapping[str, Any]]) -> Case:
        """The case with these kernels in its launches. A kernel's name that the case has no size for keeps its own value."""
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
            # A leaf remembers that it is the identity.
            neutral = machine.leaf(neutral)
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
                _fits(kernels[-1], launch.args)
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


def _fits(kernel: Rewritten, args: Sequence[Any]) -> None:
    if len(kernel.parameters) != len(args):
        source = kernel.source
        raise KernelError(
            f"{source.file}:{source.first}: {source.name}({', '.join(kernel.parameters)}) is launched with {len(args)} "
            f"arguments: {', '.join(map(str, args))}"
        )


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
    """The events of a run. Its columns are one entry per event, in the order in which the schedule ran them.

    `site`, `thread`, `block`, `epoch` (barriers passed), `word` (the machine-wide number of the word touched) and
    `node` (the value's node in the network) tell the whole story. `lab.check`, `lab.counts`, `lab.identify` and the other
    functions of `upsweep.lab` answer questions about it.

    >>> from upsweep import lab
    >>> run = lab.trace("brent-kung", x=[3, 1, 7, 0])
    >>> run.values, run.n
    ([3, 4, 11, 11], 4)
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

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a trace cannot be pickled or copied, as it holds the run itself: keep lab.to_dict(trace), or run the kernel again"
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
        return np.array([site.kind in kinds for site in self.sites], bool)[self.site]

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

    # --- how it shows itself in a notebook -----------------------------------------------------------------------------

    def _repr_html_(self) -> str | None:
        # Only notebooks need the page, which imports this file.
        from upsweep.lab.page.html import framed

        return framed(self)

    def _repr_svg_(self) -> str:
        from upsweep.lab.draw import network

        return network(self).svg()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype)

    def __repr__(self) -> str:
        grid = " then ".join(f"{one.grid} x {one.block} threads" for one in self.case.setup.launches)
        return f"<Trace of {self.case.name}: n = {self.n}, {grid}, {len(self.site)} events>"


def of_run(function: _Function) -> _Function:
    """The function, whose first argument must be a trace: a TypeError where it is a kernel's name, for instance."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        given = next(iter((*args, *keywords.values())), None)
        if not isinstance(given, Trace):
            kernel = repr(given) if isinstance(given, str) else "'brent-kung'"
            raise TypeError(
                f"{function.__name__} takes the trace of a run, got {given!r}: pass lab.trace({kernel}, n=16), for instance"
            )
        return function(*args, **keywords)

    return cast(_Function, call)
