"""Threads that run kernels without the GIL. The caller always takes part, so a busy pool delays nobody."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from upsweep import cores
from upsweep.cpu.objects import address_of
from upsweep.cpu.words import LINE

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_own = threading.local()
_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def scratch(size: int) -> int:
    """The address of this thread's scratch memory of at least `size` bytes, on a cache line."""
    memory = getattr(_own, "memory", None)
    if memory is None or memory.size < size + LINE:
        _own.memory, _own.address = on_a_line(size)
    return _own.address


def on_a_line(size: int) -> tuple[np.ndarray, int]:
    """Memory of at least `size` bytes, and the address of its first cache line."""
    memory = np.empty(size + LINE, np.uint8)
    return memory, -(-address_of(memory) // LINE) * LINE


def together(share: Callable[[], None], threads: int) -> None:
    """Run `share` in `threads` threads at once and wait for all of them. Threads that have not started by the end are called off.

    Whatever memory `share` works on by its address, `share` must hold: a caller that is interrupted twice waits no longer.
    """
    helpers: list[Future[None]] = []
    try:
        try:
            helpers.extend(_executor().submit(share) for _ in range(threads - 1))
        except RuntimeError:
            # At the end of a process, as in `atexit`, no thread starts any more: the caller works alone.
            if threading.main_thread().is_alive():
                raise
        share()
    finally:
        _finish(helpers)


def each(work: Callable[[Any], None], items: Sequence[Any], most: int | None = None) -> None:
    """Do the work for each item, in several threads where there are several items."""
    if len(items) == 1:
        # The question how many threads are wanted takes longer than a small item does.
        work(items[0])
        return
    tickets = deque(items)

    def share() -> None:
        while True:
            try:
                ticket = tickets.popleft()
            except IndexError:
                return
            work(ticket)

    together(share, max(1, min(most or cores.wanted(), len(tickets))))


def _finish(helpers: Sequence[Future[None]]) -> None:
    """Wait for every helper, then raise the first exception: that of a helper, or an interruption of the caller."""
    raised = [error for error in map(_ended, helpers) if error is not None]
    if raised:
        raise raised[0]


def _ended(helper: Future[None]) -> BaseException | None:
    try:
        return None if helper.cancel() else helper.exception()
    except BaseException as interruption:
        # The helper may be at work still.
        if not helper.cancel():
            helper.exception()
        return interruption


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            # The import takes 10 ms, which one thread alone need not wait for. At the end of a process it is a RuntimeError.
            from concurrent.futures import ThreadPoolExecutor

            _pool = ThreadPoolExecutor(max(cores.cores(), 64), "upsweep")
        return _pool


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
