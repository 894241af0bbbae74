"""Compiled code, found by its meaning: made once, kept in memory, and on disk for later processes, which need no compiler.

A unit of code is one function of int64. Other units call it by its address. It is loaded as an image (`image`). numba and
LLVM are imported only where there is no image yet.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from upsweep.cache import folder
from upsweep.cpu import image
from upsweep.cpu.interrupts import held_back
from upsweep.cpu.kept import Code, digest, kept, read, writable
from upsweep.cpu.shipped import shipped
from upsweep.engine import EngineError
from upsweep.operators import variant_of


class Unit(NamedTuple):
    """The meaning of a unit of code, and the way to make it where it is not known yet."""

    frame: tuple[Any, ...]
    """All that decides its meaning, beside the texts of this folder and the operator in its hole."""
    arguments: int
    make: Callable[[], Callable[..., None]]
    """The Python function to be compiled; only a call of this imports numba."""
    title: str
    op: Any = None
    """The operator, whose function may be one that cannot be compiled."""
    accumulators: tuple[np.dtype, ...] = ()
    """The types that the operator computes with, where there is a hole for one."""
    items: tuple[np.dtype, ...] = ()
    """The types as which operands come to the hole: those, or others of the same sizes."""
    door: bool = False
    """Whether it is called by threads that may compute with floats in a mode of their own."""
    beforehand: bool = False
    """Whether the parts outside the hole are optimised before the operator comes, too. It takes half of LLVM's time. Where the
    operator is one side of a choice, or a step of a loop, the code is up to a quarter faster (float32 in order along rows 1.25,
    segments of int32 1.19, groups in order 1.07). All other code is the same, or as fast.
    """

    @property
    def what(self) -> tuple[Any, ...]:
        """All that decides its meaning, beside the texts of this folder. A built-in operator goes by its name, because its
        function's bytecode differs between Pythons.
        """
        known = variant_of(self.op, self.accumulators) if self.accumulators else None
        return (
            self.frame,
            (known[0].name, known[1].functor) if known else self.accumulators and self.op.key[0],
            tuple(d.name for d in self.accumulators),
        )


_addresses: dict[tuple[Any, ...], int] = {}
_lock = threading.RLock()
"""A thread that has it may come again: a signal's handler may scan, or fork, while code is compiled."""
if hasattr(os, "register_at_fork"):
    # A child lacks the thread that compiles, and would wait for it, for numba's locks and for those of its imports for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def address(unit: Unit) -> int:
    """The address of a unit of code in this process."""
    what = unit.what
    found = _addresses.get(what)
    if found is None:
        with _lock:
            found = _addresses.get(what)
            if found is None:
                made = shipped(what) or kept(_file(unit), lambda: compiled(unit))
                found = _addresses[what] = _loaded(made, _symbol(unit))
    return found


def ensure(unit: Unit) -> None:
    """Import the compiler where a unit must be compiled first: a broken compiler raises here, not amid a scan. Without a
    compiler there are no other operators, even where this unit is kept.
    """
    lacking = find_spec("numba") is None or "NUMBA_DISABLE_JIT" in os.environ
    if lacking or not (shipped(unit.what) or read(_file(unit))):
        with _lock, held_back():
            _check_compiler()


def _check_compiler() -> None:
    """An EngineError where numba is told to compile nothing."""
    import numba

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise EngineError(
            "numba is told to compile nothing: unset NUMBA_DISABLE_JIT, or pass engine='numpy', which needs no compiler"
        )


def callable_at(where: int, arguments: int) -> Callable[..., int]:
    """A unit of code as a function of Python, which lets other threads run meanwhile. The places of its result and of an
    exception come first.
    """
    # Python passes an address a twentieth of a microsecond sooner than a number of the same bits.
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * (2 + arguments))(where)


def compiled(unit: Unit) -> Code:
    """The code of a unit for this processor."""
    once = f", once; it is kept in {folder()}" if writable() else ""
    text = f"upsweep: compiling {unit.title} for this CPU{once}"
    note = threading.Timer(1.0, lambda: print(text, file=sys.stderr, flush=True))
    note.daemon = True
    note.start()
    try:
        with held_back():
            _check_compiler()
            from upsweep.cpu import compile as compiler

            return compiler.compiled(unit, _symbol(unit), compiler.here())
    finally:
        note.cancel()


def _file(unit: Unit) -> str:
    return f"{digest(unit.what, here=True)}.code"


def _symbol(unit: Unit) -> str:
    return f"k{digest(unit.what)}"


def _loaded(made: Code, name: str) -> int:
    if image.HERE:
        return image.loaded(made)
    with held_back():
        from upsweep.cpu.linker import linked

        return linked(made.code, made.needs, name)
