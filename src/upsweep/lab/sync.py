"""Barriers that can go and barriers that are missing, judged at many sizes at once.

Races are a matter of epochs, the stretches between barriers. So a barrier taken out or put in is a renumbering of the
epochs of a run that has been made: one run for each size answers for all of them.

A set of new barriers orders two accesses if one of its barriers alone does: all threads meet all barriers in one order. So
the sets that mend a kernel are those that hold, for every race, one of the lines that would order it. The search takes a
race that is left, and with it these lines, as long as there is one; it finds the smallest sets of any size, and where no
line orders a race, no set does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from upsweep.lab.races import any_race, first_race
from upsweep.lab.reading import KernelError, Spot
from upsweep.lab.traces import Case, Trace, of_run

SIZES = (
    1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 100, 127, 128, 129, 200, 256, 257, 512, 1000, 1024,
)  # fmt: skip
"""The sizes at which a barrier must be needless to be called so: powers of two and of the warp, their neighbours, odd ones.

They are no proof for the sizes between them. The slow test `test_the_sizes_tried_decide_for_all` asks, kernel by kernel of the
textbook, whether the verdicts at these sizes hold at every size from 1 to 1024, the sizes that the page's dial offers.
"""
MOST_MENDS = 40
"""Sets of missing barriers that are reported."""


@dataclass(frozen=True)
class Barriers:
    """Which barriers a kernel needs, by kernel and line."""

    needed: tuple[Spot, ...]
    redundant: tuple[Spot, ...]
    """Each of these can go while the others stay, at every size that was tried."""
    minimal: tuple[Spot, ...]
    """A set from which none can be taken, and which is enough."""
    idle: tuple[tuple[Spot, int, int], ...]
    """(where, pass, passes): a single pass of a needed barrier, counted from 1, that separates nothing for this n."""
    missing: tuple[tuple[Spot, ...], ...]
    """Where a race is: sets of lines before which barriers mend it, as few of them as are enough."""
    elsewhere: tuple[tuple[Spot, int], ...] = ()
    """(where, n): a barrier that this run can do without, and the first size tried that needs it."""
    racing: int | None = None
    """The size at which there is a race with all barriers in place: this run's, or the first one tried."""
    sizes: tuple[int, ...] = ()
    """The sizes that were tried; this run's alone where the launch cannot be made anew."""
    hopeless: int | None = None
    """The size at which there is a race that no barriers mend, however many and wherever they stand."""

    def __str__(self) -> str:
        where = f", {self.tried}"
        said = [f"needed: {', '.join(map(str, self.needed)) or 'none'}"]
        said += [f"redundant: {spot}{where}" for spot in self.redundant]
        said += [f"redundant here: {spot}, but n = {n} needs it" for spot, n in self.elsewhere]
        said += [f"separates nothing: {spot}, pass {k} of {of}" for spot, k, of in self.idle]
        said += [
            f"missing: a barrier before {' and before '.join(map(str, spots))}{where}"
            for spots in self.missing
        ]
        if self.hopeless is not None:
            said.append(f"there is a race at n = {self.hopeless} that no barriers mend, however many")
        return "\n".join(said)

    @property
    def tried(self) -> str:
        """At which sizes this holds, as far as it was tried."""
        if len(self.sizes) == 1:
            return f"for n = {self.sizes[0]}"
        return f"at each of {len(self.sizes)} sizes tried, from {min(self.sizes)} to {max(self.sizes)}"


@of_run
def barriers(trace: Trace) -> Barriers:
    """The barriers that can go, by removal, and those that are missing, by insertion before every line and set of lines.

    >>> from upsweep import lab
    >>> print(lab.barriers(lab.trace("kogge-stone", n=8)))
    needed: line 21, line 24
    separates nothing: line 24, pass 3 of 3
    """
    spots = tuple(sorted(_passes(trace)))
    if any_race(trace, trace.epoch):
        return _racing(trace, spots, trace.n)
    runs = [trace, *_others(trace)]
    racing = next((run.n for run in runs if any_race(run, run.epoch)), None)
    if racing is not None:
        return _racing(trace, spots, racing)
    needs = {s: next((run.n for run in runs if races_without(run, [s])), None) for s in spots}
    can_go = tuple(s for s in spots if needs[s] is None)
    gone: list[Spot] = []
    for s in can_go:
        if not any(races_without(run, [*gone, s]) for run in runs):
            gone.append(s)
    elsewhere = tuple((s, n) for s, n in needs.items() if n is not None and not races_without(trace, [s]))
    needed = tuple(s for s in spots if needs[s] is not None)
    minimal = tuple(s for s in spots if s not in gone)
    here = [s for s in needed if s not in dict(elsewhere)]
    sizes = tuple(run.n for run in runs)
    return Barriers(needed, can_go, minimal, tuple(_idle(trace, here)), (), elsewhere, None, sizes)


def _racing(trace: Trace, spots: tuple[Spot, ...], n: int) -> Barriers:
    """The barrier that is missing, where there is a race at size n."""
    case = trace.case
    runs = [case.run(case.schedule, trace.without, trace.before, places=True), *_others(trace, places=True)]
    mends, hopeless = _missing(runs)
    return Barriers(spots, (), spots, (), tuple(mends), (), n, tuple(run.n for run in runs), hopeless)


# --- the same launch at other sizes -----------------------------------------------------------------------------------


def _others(trace: Trace, places: bool = False) -> Sequence[Trace]:
    """Runs of the same kernels with the same barriers at the other sizes; none where the launch was given as it is.

    Runs with `places` log also which line each thread comes to: a third more events, which only the search for missing
    barriers reads.
    """
    if trace.case.sized is None:
        return ()
    kernels = tuple(launch.kernel for launch in trace.case.setup.launches)
    fixed = tuple(tuple(sorted(_own(launch.names))) for launch in trace.case.setup.launches)
    runs = _sized(trace.case.sized, kernels, fixed, frozenset(trace.without), frozenset(trace.before), places)
    return [run for run in runs if run.n != trace.n]


def _own(names: object) -> list[tuple[str, object]]:
    """The names of a launch that are no sizes: those of the kernel's surroundings."""
    return [(k, v) for k, v in dict(names).items() if isinstance(v, int)]  # type: ignore[call-overload]


# The runs of one kernel take some hundred megabytes.
@lru_cache(maxsize=2)
def _sized(
    sized: Callable[[int], Case],
    kernels: tuple[object, ...],
    names: tuple[tuple[tuple[str, object], ...], ...],
    without: frozenset[Spot],
    before: frozenset[Spot],
    places: bool,
) -> tuple[Trace, ...]:
    runs = []
    for n in SIZES:
        try:
            case = sized(n).launching(kernels, [dict(some) for some in names])
            run = case.run(without=without, before=before, places=places)
        except (KernelError, ValueError, ArithmeticError, LookupError):
            # The kernel is not for this size.
            continue
        faults = {fault.kind for fault in run.machine.faults}
        if run.machine.stopped or "deadlock" in faults:
            # A kernel that never ends at this size takes minutes at the larger ones, and is judged by its own finding.
            break
        if "out of bounds" not in faults:
            runs.append(run)
    return tuple(runs)


# --- barriers that go -------------------------------------------------------------------------------------------------

Passes = dict[Spot, set[tuple[int, int]]]
"""Where a barrier stands -> the block and the epoch of each pass."""


def _passes(trace: Trace) -> Passes:
    passes: Passes = {}
    for block, epoch, site in trace.machine.passed:
        passes.setdefault(trace.spot(site), set()).add((block, epoch))
    return passes


def races_without(run: Trace, spots: Collection[Spot]) -> bool:
    """Whether the run had a race if the barriers at these places were not there."""
    passes = _passes(run)
    removed = {one for s in spots for one in passes.get(s, ())}
    return bool(removed) and any_race(run, _epochs_without(run, removed))


def _epochs_without(trace: Trace, removed: set[tuple[int, int]]) -> np.ndarray:
    """The epoch of each event if these passes of barriers, by block and epoch, were not there."""
    most = 2 + max((e for _, e, _ in trace.machine.passed), default=0)
    lost = np.zeros((len(trace.machine.blocks), most), np.int64)
    for block, epoch in removed:
        lost[block, epoch + 1] += 1
    return trace.epoch - np.cumsum(lost, axis=1)[trace.block, trace.epoch]


def _idle(trace: Trace, spots: Sequence[Spot]) -> Iterator[tuple[Spot, int, int]]:
    passes = _passes(trace)
    for spot in spots:
        epochs: dict[int, list[int]] = {}
        for block, epoch in sorted(passes[spot]):
            epochs.setdefault(block, []).append(epoch)
        most = max(map(len, epochs.values()))
        for k in range(most):
            chosen = {(block, own[k]) for block, own in epochs.items() if k < len(own)}
            if not any_race(trace, _epochs_without(trace, chosen)):
                yield spot, k + 1, most


# --- barriers that are missing ----------------------------------------------------------------------------------------


def _missing(runs: Sequence[Trace]) -> tuple[list[tuple[Spot, ...]], int | None]:
    """The smallest sets of lines before which barriers leave no race at any size; or the size at which none does."""
    kernels = runs[0].kernels
    # Small runs say no sooner.
    orders = [_Order(run) for run in sorted(runs, key=lambda run: run.n)]
    every = sorted({Spot(kernel.source.name, line) for kernel in kernels for line in kernel.places})
    lines = [spot for spot in every if all(order.met_by_all([spot]) for order in orders)]
    cuts: list[frozenset[Spot]] = []
    """For each race found so far, the lines that would order it: a set that mends has one of each."""
    for count in range(len(lines) + 1):
        mends: list[tuple[Spot, ...]] = []
        for spots in _choices(cuts, count):
            left = next((race for order in orders if (race := order.race(spots))), None)
            if left is None:
                mends += [spots] if all(order.met_by_all(spots) for order in orders) else []
            else:
                cuts.append(left[0].ordering(lines, *left[1:]))
                if not cuts[-1]:
                    return [], left[0].run.n
            if len(mends) == MOST_MENDS:
                break
        if mends:
            return sorted(mends), None
    return [], None


def _choices(cuts: list[frozenset[Spot]], count: int) -> Iterator[tuple[Spot, ...]]:
    """Sets of `count` lines with one at least of each cut, those among them that are added meanwhile."""
    seen: set[frozenset[Spot]] = set()
    stack: list[frozenset[Spot]] = [frozenset()]
    while stack:
        chosen = stack.pop()
        if chosen in seen:
            continue
        seen.add(chosen)
        missed = next((cut for cut in cuts if not cut & chosen), None)
        if missed is not None and len(chosen) < count:
            stack += [chosen | {spot} for spot in sorted(missed, reverse=True)]
        elif missed is None and len(chosen) == count:
            yield tuple(sorted(chosen))


class _Order:
    """The statements that the threads of a run come to, each in its own order."""

    def __init__(self, run: Trace):
        self.run = run
        self.order, self.start = run.by_thread
        self.sites: dict[Spot, list[int]] = {}
        for k, site in enumerate(run.sites):
            if site.kind == "place":
                self.sites.setdefault(run.spot(k), []).append(k)
        self.threads = np.array([run.case.setup.launches[b.launch].block for b in run.machine.blocks])

    def here(self, spots: Collection[Spot]) -> np.ndarray:
        """Which events, in the order of `self.order`, are arrivals at these lines."""
        wanted = np.zeros(len(self.run.sites), bool)
        wanted[[k for s in spots for k in self.sites.get(s, ())]] = True
        return wanted[self.run.site[self.order]]

    def passed(self, spots: Collection[Spot]) -> np.ndarray:
        """How many barriers before these lines the thread of each event would have passed."""
        passed = np.cumsum(self.here(spots))
        before = np.concatenate([[0], passed])[self.start] if len(passed) else passed
        out = np.empty(len(passed), np.int64)
        out[self.order] = passed - before
        return out

    def race(self, spots: Collection[Spot]) -> tuple[_Order, int, int] | None:
        """Two accesses that race although there are barriers before these lines."""
        found = first_race(self.run, self.run.epoch + self.passed(spots))
        return None if found is None else (self, *found)

    def ordering(self, lines: Sequence[Spot], a: int, b: int) -> frozenset[Spot]:
        """The lines before which a barrier alone would order two accesses."""
        passes = ((spot, self.passed([spot])) for spot in lines)
        return frozenset(spot for spot, passed in passes if passed[a] != passed[b])

    def met_by_all(self, spots: Collection[Spot]) -> bool:
        """Whether all threads of each block come to the same lines in the same order, between the same barriers."""
        run, events = self.run, self.order[self.here(spots)]
        for block in np.unique(run.block[events]).tolist():
            mine = events[run.block[events] == block]
            threads = int(self.threads[block])
            if len(mine) % threads:
                return False
            seen = np.stack([run.thread[mine], run.site[mine], run.epoch[mine]]).reshape(3, threads, -1)
            if (seen[0] != np.arange(threads)[:, None]).any() or (seen[1:] != seen[1:, :1]).any():
                return False
        return True
