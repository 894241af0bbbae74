"""One warp's instruction at a time: bank conflicts, divergence, coalescing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from upsweep.lab.reading import Spot
from upsweep.lab.traces import Trace, of_run
from upsweep.lab.values import Array


@dataclass(frozen=True)
class Banks:
    """A model of shared memory: what one access of a warp costs.

    A warp's access is served in groups of `group` threads. A group takes as many wavefronts as the worst bank has
    distinct words asked of it; threads that ask for one word share it. Items wider than a bank are served in
    proportionally smaller groups. `padding` moves word a to a + (a >> padding), as if the kernel padded its indices.

    `Banks()` is today's hardware; `Banks(16, group=16)` is that of 2007, for which the padding literature was written.

    >>> from upsweep import lab
    >>> run = lab.trace("blelloch", n=64)
    >>> [lab.counts(run, banks).wavefronts for banks in (lab.Banks(), lab.Banks(16, group=16), lab.Banks(padding=5))]
    [93, 161, 53]
    """

    banks: int = 32
    group: int = 32
    width: int = 4
    padding: int = 0

    def bank(self, array: Array, place: int) -> int:
        """The bank that a place of a shared array lies in (the first one, for wide items)."""
        return int(self.word(np.array(place), array.itemsize) % self.banks)

    def word(self, place: np.ndarray, itemsize: int | np.ndarray) -> np.ndarray:
        """The bank-wide word that a place lies in."""
        padded = place + (place >> self.padding) if self.padding else place
        return padded * itemsize // self.width


TODAY = Banks()


@dataclass(frozen=True)
class Access:
    """One shared memory instruction of a source line, over all warps and iterations that issue it."""

    spot: Spot
    text: str
    kind: str
    iteration: int
    """Which pass through the innermost loops, from 0."""
    requests: int
    """Warps that issue it."""
    wavefronts: int
    """The sum of all groups' degrees: Nsight Compute's l1tex__data_pipe_lsu_wavefronts_mem_shared."""
    degree: int
    """The worst group's."""
    cycles: int
    """Each request charged its worst degree for all of its groups, idle ones too: how CS380's tables count."""

    @property
    def line(self) -> int:
        return self.spot.line


def _instructions(trace: Trace, events: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Which warp instruction each event is part of, and which group of its threads within."""
    warp, part = trace.thread[events] // trace.case.warp, trace.thread[events] % trace.case.warp // group
    number = np.zeros(len(events), np.int64)
    for key in (trace.site, trace.position, trace.block, trace.epoch):
        number = np.unique(number * (int(key[events].max(initial=0)) + 1) + key[events], return_inverse=True)[
            1
        ]
    number = np.unique(number * (int(warp.max(initial=0)) + 1) + warp, return_inverse=True)[1]
    return number, part


@of_run
def accesses(trace: Trace, model: Banks = TODAY) -> list[Access]:
    """Every shared memory instruction of the kernel, iteration by iteration, with its bank conflicts.

    >>> from upsweep import lab
    >>> rows = lab.accesses(lab.trace("reduction", n=64), lab.Banks(16, group=16))
    >>> [row.degree for row in rows if row.text == "xy[left]"]
    [2, 4, 4, 4, 2, 1]
    """
    events = np.flatnonzero((trace.space == 2) & trace.at("load", "store", "atomic"))
    if not len(events):
        return []
    bases = np.array([a.base for a in trace.arrays])
    array = np.searchsorted(bases, trace.word[events], "right") - 1
    sizes = np.array([a.itemsize for a in trace.arrays])[array]
    wide = max(1, int(sizes.max()) // model.width)
    group = max(1, model.group // wide)
    number, part = _instructions(trace, events, group)
    groups = -(-trace.case.warp // group)
    served = number * groups + part
    # An item wider than a bank spans several banks.
    word = model.word(trace.word[events] - bases[array], sizes) // wide
    # A word that is asked for twice is served once.
    distinct = np.unique(np.stack([served, array, word]), axis=1)
    bank = np.unique(np.stack([distinct[0], distinct[2] % (model.banks // wide)]), axis=1, return_counts=True)
    degree = np.zeros(int(served.max()) + 1, np.int64)
    np.maximum.at(degree, bank[0][0], bank[1])
    degree = np.pad(degree, (0, -len(degree) % groups)).reshape(-1, groups)
    some = np.zeros(len(degree), np.int64)
    some[number] = events
    rows: dict[tuple[int, int], list[int]] = {}
    for k, e in enumerate(some.tolist()):
        rows.setdefault((int(trace.site[e]), int(trace.position[e])), []).append(k)
    out, passes = [], {}
    for (site, _), which in sorted(rows.items(), key=lambda row: some[row[1][0]]):
        where = trace.sites[site]
        passes[site] = passes.get(site, -1) + 1
        out.append(Access(trace.spot(site), where.text, where.kind, passes[site], len(which), int(degree[which].sum()),
                          int(degree[which].max()), int(degree[which].max(axis=1).sum()) * groups))  # fmt: skip
    return out


@dataclass(frozen=True)
class Branch:
    """One branch of the source: how often warps come to it, and how often their threads part.

    A compiler may do without the branch, by predicates: an arrival is no branch instruction issued.
    """

    line: int
    text: str
    arrivals: int
    divergent: int


@of_run
def divergence(trace: Trace, warp: int = 32) -> list[Branch]:
    """Every branch and loop, in the units that a warp sees: its arrivals, and those in which its threads disagree.

    >>> from upsweep import lab
    >>> [(b.text, b.arrivals, b.divergent) for b in lab.divergence(lab.trace("reduction", n=64)) if b.divergent]
    [('left < right', 6, 5), ('t == 0', 1, 1)]
    """
    events = np.flatnonzero(trace.at("branch", "loop"))
    loops = trace.at("loop")[events]
    taken = np.where(loops, trace.word[events] & 1, trace.word[events])
    number = np.zeros(len(events), np.int64)
    round_ = np.where(loops, trace.word[events] >> 1, trace.position[events])
    keys = (
        trace.site[events],
        round_ + 1,
        trace.block[events],
        trace.epoch[events],
        trace.thread[events] // warp,
    )
    for key in keys:
        number = np.unique(number * (int(key.max(initial=0)) + 1) + key, return_inverse=True)[1]
    size = int(number.max(initial=-1)) + 1
    yes, no, site = np.zeros(size, bool), np.zeros(size, bool), np.zeros(size, np.int64)
    np.logical_or.at(yes, number, taken.astype(bool))
    np.logical_or.at(no, number, ~taken.astype(bool))
    site[number] = trace.site[events]
    return [
        Branch(
            trace.sites[s].line, trace.sites[s].text, int((site == s).sum()), int((yes & no)[site == s].sum())
        )
        for s in np.unique(site).tolist()
    ]


@dataclass(frozen=True)
class Coalescing:
    """One global memory instruction of the source: the sectors that its warps touch, and the least that would do."""

    line: int
    text: str
    requests: int
    sectors: int
    ideal: int

    @property
    def efficiency(self) -> float:
        """Bytes asked for over bytes moved."""
        return self.ideal / self.sectors


@of_run
def coalescing(trace: Trace, sector: int = 32) -> list[Coalescing]:
    """Every global load and store: how many sectors of `sector` bytes a warp's request touches.

    >>> from upsweep import lab
    >>> loads = lab.coalescing(lab.trace("blelloch-interleaved", n=64))
    >>> loads[0].text, loads[0].sectors, loads[0].ideal
    ('x[start + 2 * t]', 8, 4)
    """
    events = np.flatnonzero((trace.space == 1) & trace.at("load", "store"))
    if not len(events):
        return []
    number, _ = _instructions(trace, events, trace.case.warp)
    bases = np.array([a.base for a in trace.arrays])
    array = np.searchsorted(bases, trace.word[events], "right") - 1
    place = trace.word[events] - bases[array]
    size = trace.case.itemsize
    touched = np.unique(np.stack([number, array, place * size // sector]), axis=1)[0]
    asked = np.unique(np.stack([number, array, place]), axis=1)[0]
    some = np.zeros(int(number.max()) + 1, np.int64)
    some[number] = events
    sectors, words = np.bincount(touched, minlength=len(some)), np.bincount(asked, minlength=len(some))
    ideal = -(-words * size // sector)
    site = trace.site[some]
    return [
        Coalescing(trace.sites[s].line, trace.sites[s].text, int((site == s).sum()), int(sectors[site == s].sum()),
                   int(ideal[site == s].sum()))
        for s in np.unique(site).tolist()
    ]  # fmt: skip
