"""Threads that run compiled code without the GIL. The caller always takes part, so a busy team delays nobody."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from upsweep import cores
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.objects import address_of
from upsweep.cpu.units import crew
from upsweep.cpu.words import ALL, ASK, AWAIT, LINE, Call, Helper


class _Memory:
    """Memory that grows, on a cache line."""

    size = -1

    def at_least(self, size: int) -> int:
        """Its address, with at least `size` bytes."""
        if self.size < size:
            self.size, (self.memory, self.address) = size, on_a_line(size)
        return self.address


class _Own(threading.local):
    def __init__(self) -> None:
        self.memory = _Memory()


_own = _Own()


def scratch(size: int) -> int:
    """The address of this thread's scratch memory of at least `size` bytes, on a cache line."""
    return _own.memory.at_least(size)


def on_a_line(size: int) -> tuple[np.ndarray, int]:
    """Memory of at least `size` bytes, and the address of its first cache line."""
    memory = np.empty(size + LINE, np.uint8)
    return memory, -(-address_of(memory) // LINE) * LINE


def together(code: int, words: int, threads: int, size: int) -> int:
    """Run the code at an address in `threads` threads at once, on its words and on scratch memory of at least `size` bytes of
    each thread, and wait for all of them: also when the caller is interrupted. The number of those that failed.
    """
    with _called(code, words, threads, size) as (call, run):
        call[Call.MEMORY] = scratch(size)
        run(ALL)
        return int(call[Call.FAILED])


def each(work: Callable[[Any], None], items: Sequence[Any], most: int | None = None) -> None:
    """Do the work for each item, in several threads where there are several items. The first exception is raised: an
    interruption of the caller, or that of a helper.
    """
    if len(items) == 1:
        # The question how many threads are wanted takes longer than a small item does.
        work(items[0])
        return
    tickets, raised = deque(items), []

    def share() -> None:
        while True:
            try:
                ticket = tickets.popleft()
            except IndexError:
                return
            work(ticket)

    def help(*_: Any) -> int:
        try:
            share()
        except BaseException as error:
            raised.append(error)
        return 0

    helped = _HELP(help)
    with _called(_place(helped), 0, max(1, min(most or cores.wanted(), len(tickets))), 0) as (_, run):
        try:
            run(ASK)
            share()
        finally:
            run(AWAIT)
    if raised:
        raise raised[0]


@contextmanager
def _called(
    code: int, words: int, threads: int, size: int
) -> Iterator[tuple[np.ndarray, Callable[[int], Any]]]:
    """The words of a call of several threads, and the function that runs a part of it."""
    part, helpers = _crew(), _team.take(threads - 1)
    try:
        call = np.zeros(len(Call) + len(helpers) + 2, np.int64)
        here = address_of(call)
        for helper in helpers:
            helper.words[Helper.ROOM] = helper.memory.at_least(size)
        call[Call.RUN], call[Call.WORDS], call[Call.HELPERS] = code, words, len(helpers)
        call[Call.ACQUIRE], call[Call.RELEASE] = _ACQUIRE, _RELEASE
        if helpers:
            call[Call.BELL] = helpers[0].bell
            call[len(Call) : -2] = [helper.address for helper in helpers]
        results = here + call.nbytes - 16
        yield call, partial(part, results, results + 8, here)
    finally:
        _team.give_back(helpers)


@cache
def _crew() -> Callable[..., int]:
    return callable_at(address(crew()), 2)


class _Helper:
    """A thread that waits for calls in compiled code: of 16 on a Xeon the last one is at work after 119 us. Where each took
    Python's lock to begin, it was after 908.
    """

    def __init__(self) -> None:
        self.memory, (self.room, self.address) = _Memory(), on_a_line(8 * len(Helper))
        self.words = np.frombuffer(self.room, np.int64, len(Helper), self.address - address_of(self.room))
        self.words[:] = 0
        self.words[Helper.LOCK], self.words[Helper.TAKE], self.words[Helper.TICKET] = _lock(), _ACQUIRE, 1
        # The first of the helpers of a call wakes its caller.
        self.bell = _lock()
        threading.Thread(target=self._serve, name="upsweep", daemon=True).start()

    def _serve(self) -> None:
        places = np.zeros(2, np.int64)
        at = address_of(places)
        _crew()(at, at + 8, 0, self.address)


class _Team:
    """The helpers that no caller has."""

    def __init__(self) -> None:
        self.lock, self.count = threading.RLock(), 0
        self.idle: list[_Helper] = []

    def take(self, wanted: int) -> list[_Helper]:
        """As many helpers, or all that there are."""
        with self.lock:
            while len(self.idle) < wanted and self.count < max(cores.cores(), 64):
                try:
                    self.idle.append(_Helper())
                except RuntimeError:
                    # At the end of a process, as in `atexit`, no thread starts any more: those that there are do the work.
                    break
                self.count += 1
            return [self.idle.pop() for _ in range(min(wanted, len(self.idle)))]

    def give_back(self, helpers: list[_Helper]) -> None:
        with self.lock:
            self.idle += helpers


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _team
    _team = _Team()


def _place(function: Any) -> int:
    """The address of a function of C."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_HELP = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
_lock = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", ctypes.pythonapi))
_ACQUIRE, _RELEASE = (
    _place(getattr(ctypes.pythonapi, f"PyThread_{name}_lock")) for name in ("acquire", "release")
)
_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
