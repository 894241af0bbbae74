"""Interruptions while code is compiled."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[None]:
    """An interruption (Ctrl-C) comes when the work within is done.

    An exception between two lines of numba or llvmlite leaves them broken for the rest of the process: registries that lack
    functions, and modules of LLVM that are freed twice, which ends the process.
    """
    # Python handles signals in the main thread alone, and None and numbers stand for handlers that are none of Python's.
    if threading.current_thread() is not threading.main_thread() or not callable(
        signal.getsignal(signal.SIGINT)
    ):
        yield
        return
    came: list[tuple[Any, ...]] = []
    handler: Any = signal.signal(signal.SIGINT, lambda *told: came.append(told))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
