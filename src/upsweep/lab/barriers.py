"""Barriers that can go and barriers that are missing, tried at every size that the dials offer.

Races are a matter of epochs, the stretches between barriers. So a barrier taken out or put in is a renumbering of the
epochs of a run that has been made: one run for each size answers for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from upsweep.lab.races import any_race
from upsweep.lab.rewrite import KernelError, Spot
from upsweep.lab.traces import Case, Trace

SIZES = (2, 5, 8, 13, 16, 32, 33, 64, 70, 256)
"""The sizes at which a barrier must be needless to be called so: those of the page's dials, and some odd ones."""
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
    """Where a race is: sets of lines before which barriers mend it, one barrier where one is enough, and else two."""
    elsewhere: tuple[tuple[Spot, int], ...] = ()
    """(where, n): a barrier that this run can do without, and the first size tried that needs it."""
    racing: int | None = None
    """The size at which there is a race with all barriers in place: this run's, or the first one tried."""
    sizes: tuple[int, ...] = ()
    """The sizes that were tried; this run's alone where the launch cannot be made anew."""

    def __str__(self) -> str:
        alone = f", for n = {self.sizes[0]}" if len(self.sizes) == 1 else ""
        said = [f"needed: {', '.join(map(str, self.needed)) or 'none'}"]
        said += [f"redundant: {spot}{alone}" for spot in self.redundant]
        said += [f"redundant here: {spot}, but n = {n} needs it" for spot, n in self.elsewhere]
        said += [f"separates nothing: {spot}, pass {k} of {of}" for spot, k, of in self.idle]
        said += [
            f"missing: a barrier before {' and before '.join(map(str, spots))}{alone}"
            for spots in self.missing
        ]
        if self.racing is not None and not self.missing:
            said.append(
                f"there is a race at n = {self.racing} that no barrier mends, nor two, before any lines"
            )
        return "\n".join(said)


def barriers(trace: Trace) -> Barriers:
    """The barriers that can go, by removal, and those that are missing, by insertion before every line and every two."""
    spots = tuple(sorted(_passes(trace)))
    runs = [trace, *_others(trace)]
    sizes = tuple(run.n for run in runs)
    racing = next((run for run in runs if any_race(run, run.epoch)), None)
    if racing is not None:
        return Barriers(spots, (), spots, (), tuple(_missing(runs)), (), racing.n, sizes)
    needs = {s: next((run.n for run in runs if _races_without(run, [s])), None) for s in spots}
    can_go = tuple(s for s in spots if needs[s] is None)
    gone: list[Spot] = []
    for s in can_go:
        if not any(_races_without(run, [*gone, s]) for run in runs):
            gone.append(s)
    elsewhere = tuple((s, n) for s, n in needs.items() if n is not None and not _races_without(trace, [s]))
    needed = tuple(s for s in spots if needs[s] is not None)
    minimal = tuple(s for s in spots if s not in gone)
    here = [s for s in needed if s not in dict(elsewhere)]
    return Barriers(needed, can_go, minimal, tuple(_idle(trace, here)), (), elsewhere, None, sizes)


# --- the same launch at other sizes -----------------------------------------------------------------------------------


def _others(trace: Trace) -> Sequence[Trace]:
    """Runs of the same kernels with the same barriers at the other sizes; none where the launch was given as it is."""
    if trace.case.sized is None:
        return ()
    kernels = tuple(launch.kernel for launch in trace.case.setup.launches)
    fixed = tuple(tuple(sorted(_own(launch.names))) for launch in trace.case.setup.launches)
    runs = _sized(trace.case.sized, kernels, fixed, frozenset(trace.without), frozenset(trace.before))
    return [run for run in runs if run.n != trace.n]


def _own(names: object) -> list[tuple[str, object]]:
    """The names of a launch that are no sizes: those of the kernel's surroundings."""
    return [(k, v) for k, v in dict(names).items() if isinstance(v, int)]  # type: ignore[call-overload]


@lru_cache(maxsize=6)
def _sized(
    sized: Callable[[int], Case],
    kernels: tuple[object, ...],
    names: tuple[tuple[tuple[str, object], ...], ...],
    without: frozenset[Spot],
    before: frozenset[Spot],
) -> tuple[Trace, ...]:
    runs = []
    for n in SIZES:
        try:
            case = sized(n).launching(kernels, [dict(some) for some in names])
            run = case.run(without=without, before=before, places=True)
        except (KernelError, ValueError, ArithmeticError, LookupError):
            continue  # it is not for this size
        if not run.machine.stopped and not any(
            f.kind in ("out of bounds", "deadlock") for f in run.machine.faults
        ):
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


def _races_without(run: Trace, spots: Collection[Spot]) -> bool:
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


def _missing(runs: Sequence[Trace]) -> list[tuple[Spot, ...]]:
    """Every line, and where none is enough every two lines, before which barriers leave no race at any size."""
    first = runs[0]
    marked = [first.case.run(first.case.schedule, first.without, first.before, places=True), *runs[1:]]
    marked.sort(key=lambda run: run.n)  # small runs say no sooner
    every = sorted({Spot(kernel.source.name, line) for kernel in first.kernels for line in kernel.places})
    orders = [_Order(run) for run in marked]
    for count in (1, 2):
        mends = []
        for spots in combinations(every, count):
            if all(order.mended(spots) for order in orders):
                mends.append(spots)
            if len(mends) == MOST_MENDS:
                break
        if mends:
            return mends
    return []


class _Order:
    """The statements that the threads of a run come to, each in its own order."""

    def __init__(self, run: Trace):
        self.run = run
        order, start = run.by_thread
        self.order, self.start = order, start
        self.spots: dict[Spot, list[int]] = {}
        for k, site in enumerate(run.sites):
            if site.kind == "place":
                self.spots.setdefault(run.spot(k), []).append(k)
        self.sizes = np.array([run.case.setup.launches[b.launch].block for b in run.machine.blocks])

    def mended(self, spots: Collection[Spot]) -> bool:
        """Whether barriers before these lines are met by all threads, and leave no race."""
        sites = [k for s in spots for k in self.spots.get(s, ())]
        here = np.isin(self.run.site[self.order], sites)
        if not self.met_by_all(self.order[here]):
            return False
        passed = np.cumsum(here)
        before = np.concatenate([[0], passed])[self.start] if len(passed) else passed
        epoch = np.empty(len(passed), np.int64)
        epoch[self.order] = passed - before
        return not any_race(self.run, self.run.epoch + epoch)

    def met_by_all(self, events: np.ndarray) -> bool:
        """Whether all threads of each block come to the same lines in the same order, between the same barriers."""
        run = self.run
        for block in np.unique(run.block[events]).tolist():
            mine = events[run.block[events] == block]
            threads = int(self.sizes[block])
            if len(mine) % threads:
                return False
            seen = np.stack([run.thread[mine], run.site[mine], run.epoch[mine]]).reshape(3, threads, -1)
            if (seen[0] != np.arange(threads)[:, None]).any() or (seen[1:] != seen[1:, :1]).any():
                return False
        return True
