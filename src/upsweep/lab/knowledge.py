"""The knowledge that threads have of each other: by atomics on one word with fences on both sides, and by barriers of a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from upsweep.lab.traces import Trace


class Known(NamedTuple):
    """The knowledge that threads have of each other at some of the events."""

    columns: dict[tuple[int, ...], int]
    """(block,) -> where a row says how many of its epochs are known; (block, thread) -> up to which of its events it is."""
    rows: dict[int, np.ndarray]
    """By event; -1 where nothing is known."""

    def of(self, event: int, *who: int) -> int:
        column = self.columns.get(who)
        return -1 if column is None else int(self.rows[event][column])


def knowledge(trace: Trace, epoch: np.ndarray, asked: set[int], scope: str = "device") -> Known:
    """The knowledge of other threads at each of the events that are asked about.

    A thread learns by an atomic that saw another's, with fences on both sides. A fence of the block's scope counts
    where `scope` is "block". Where it is "none", atomics alone hand everything on: they would, if they were not relaxed.
    """
    kinds = [s.kind if s.text != "cuda.threadfence_block" or scope == "block" else "" for s in trace.sites]
    telling = trace.at("atomic", "fence")
    who = dict.fromkeys(zip(trace.block[telling].tolist(), trace.thread[telling].tolist()))
    names = [*dict.fromkeys((block,) for block, _ in who), *who]
    columns: dict[tuple[int, ...], int] = {name: k for k, name in enumerate(names)}
    nothing = np.full(len(columns), -1, np.int64)
    own: dict[tuple[int, int], np.ndarray] = {}
    taken: dict[tuple[int, int], np.ndarray] = {}
    given: dict[tuple[int, int], np.ndarray] = {}
    words: dict[int, np.ndarray] = {}
    learned: dict[int, dict[int, np.ndarray]] = {}
    """By block and epoch: what all of its threads know from the next epoch on."""
    answer: dict[int, np.ndarray] = {}

    def current(block: int, me: tuple[int, int], now: int) -> np.ndarray:
        known = own.get(me, nothing)
        for when, news in learned.get(block, {}).items():
            if when < now:
                known = np.maximum(known, news)
        return known

    def told(block: int, me: tuple[int, int], now: int, event: int) -> np.ndarray:
        known = current(block, me, now).copy()
        known[columns[block,]], known[columns[me]] = now, event
        return known

    marked = telling.copy()
    marked[list(asked)] = True
    for e in np.flatnonzero(marked).tolist():
        block, thread, now = int(trace.block[e]), int(trace.thread[e]), int(epoch[e])
        me, kind = (block, thread), kinds[trace.site[e]]
        if e in asked:
            answer[e] = current(block, me, now)
        if kind == "fence":
            _learn(own, me, taken.get(me, nothing))
            _learn(learned.setdefault(block, {}), now, taken.pop(me, nothing))
            given[me] = told(block, me, now, e)
        elif kind == "atomic":
            word = int(trace.word[e])
            heard = words.get(word, nothing)
            if scope == "none":
                _learn(own, me, heard)
                _learn(learned.setdefault(block, {}), now, heard)
                _learn(words, word, told(block, me, now, e))
            else:
                _learn(taken, me, heard)
                _learn(words, word, given.get(me, nothing))
    return Known(columns, answer)


def _learn(known: dict[Any, np.ndarray], who: Any, news: np.ndarray) -> None:
    known[who] = np.maximum(known[who], news) if who in known else news


def released(trace: Trace, epoch: np.ndarray, known: Known, a: int, b: int) -> bool:
    """Whether the thread of the later of two events knows of the earlier one: by what a thread released and another acquired, or
    by a barrier."""
    a, b = min(a, b), max(a, b)
    block, thread = int(trace.block[a]), int(trace.thread[a])
    return known.of(b, block) > epoch[a] or known.of(b, block, thread) >= a
