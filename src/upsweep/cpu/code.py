"""Compiled code, found by its meaning: made once, kept in memory, and on disk for later processes, which need no compiler.

A piece of code is one function of int64. Other pieces call it by its address. It is loaded as an image (`image`). numba and
LLVM are imported only where there is no image yet.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from upsweep.cache import folder
from upsweep.cpu import image
from upsweep.cpu.kept import Code, digest, kept, read
from upsweep.cpu.shipped import shipped
from upsweep.operators import form_of


class Piece(NamedTuple):
    """The meaning of a piece of code, and the way to make it where it is not known yet."""

    frame: tuple[Any, ...]
    """All that decides its meaning, beside the texts of this folder and the operator in its hole."""
    arguments: int
    make: Callable[[], Callable[..., None]]
    """The Python function to be compiled; only a call of this imports numba."""
    title: str
    op: Any = None
    """The operator, whose function may be one that cannot be compiled."""
    accumulators: tuple[np.dtype, ...] = ()
    """The types of the operator's hole, where there is one."""

    @property
    def what(self) -> tuple[Any, ...]:
        """All that decides its meaning, beside the texts of this folder. A built-in operator goes by its name, because its
        function's bytecode differs between Pythons.
        """
        known = form_of(self.op, self.accumulators) if self.accumulators else None
        return (
            self.frame,
            (known[0].name, known[1].functor) if known else self.accumulators and self.op.key[0],
        )


_addresses: dict[tuple[Any, ...], int] = {}
_lock = threading.Lock()


def address(piece: Piece) -> int:
    """The address of a piece of code in this process."""
    what = piece.what
    found = _addresses.get(what)
    if found is None:
        with _lock:
            found = _addresses.get(what)
            if found is None:
                made = shipped(what) or kept(_file(piece), lambda: compiled(piece))
                found = _addresses[what] = _loaded(made, _symbol(piece))
    return found


def ensure(piece: Piece) -> None:
    """Import the compiler where a piece must be compiled first: a broken compiler raises here, not amid a scan. Without a
    compiler there are no other operators, even where this piece is kept.
    """
    if find_spec("numba") is None or not (shipped(piece.what) or read(_file(piece))):
        import numba  # noqa: F401


def callable_at(where: int, arguments: int) -> Callable[..., int]:
    """A piece of code as a function of Python, which lets other threads run meanwhile. The places of its result and of an
    exception come first.
    """
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * arguments)(where)


def compiled(piece: Piece) -> Code:
    """The code of a piece for this processor."""
    from upsweep.cpu import compile as compiler

    text = f"upsweep: compiling {piece.title} for this CPU, once; it is kept in {folder()}"
    note = threading.Timer(1.0, lambda: print(text, file=sys.stderr, flush=True))
    note.daemon = True
    note.start()
    try:
        return compiler.compiled(piece, _symbol(piece), compiler.here())
    finally:
        note.cancel()


def _file(piece: Piece) -> str:
    return f"{digest(piece.what, here=True)}.code"


def _symbol(piece: Piece) -> str:
    return f"k{digest(piece.what)}"


def _loaded(made: Code, name: str) -> int:
    if image.HERE:
        return image.loaded(made)
    from upsweep.cpu.linker import linked

    return linked(made.code, made.needs, name)
