"""Compiled code by what it does: made once, kept in memory, and on disk for later processes, which need no compiler.

A piece of code is one function of int64 that other pieces call by its address. LLVM loads it from an object file; numba is
imported only where there is none yet.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from upsweep import dtypes
from upsweep.cache import folder


class Piece(NamedTuple):
    """What a piece of code does, and how it is made where it is not known yet."""

    frame: tuple[Any, ...]
    """All that decides what it does, beside the texts of this folder and the operator in its hole."""
    arguments: int
    make: Callable[[], Callable[..., None]]
    """The Python function to be compiled; only this imports numba."""
    title: str
    op: Any = None
    """The operator whose function may be one that cannot be compiled."""
    accumulators: tuple[np.dtype, ...] = ()
    """The types of the operator's hole, where there is one."""

    @property
    def what(self) -> tuple[Any, ...]:
        """All that decides what it does, beside the texts of this folder."""
        return (self.frame, self.op.key[0] if self.accumulators else None)


class _Kept(NamedTuple):
    """What a file holds: an object, or a frame as LLVM's code."""

    needs: list[str]
    """Functions of other libraries that it calls."""
    code: bytes


_addresses: dict[tuple[Any, ...], int] = {}
_lock = threading.Lock()


def address(piece: Piece) -> int:
    """Where a piece of code lies in this process."""
    what = piece.what
    found = _addresses.get(what)
    if found is None:
        with _lock:
            found = _addresses.get(what)
            if found is None:
                digest = _digest(what)
                made = _kept(f"{digest}.o", lambda: _compiled(piece, digest))
                found = _addresses[what] = _linked(_name(digest), made)
    return found


def ensure(piece: Piece) -> None:
    """Where a piece must be compiled first, import the compiler: one that is broken says so here, not amid a scan."""
    if _read(_path(f"{_digest(piece.what)}.o")) is None:
        import numba  # noqa: F401


def callable_at(where: int, arguments: int) -> Callable[..., int]:
    """A piece of code as a function of Python, which lets other threads run meanwhile. Where its result and an exception go
    come first."""
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * arguments)(where)


def _digest(what: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr((_signature(), what)).encode()).hexdigest()[:32]


def _name(digest: str) -> str:
    return f"k{digest}"


def _path(file: str) -> Path:
    return folder() / "cpu" / file


def _kept(file: str, make: Callable[[], _Kept]) -> _Kept:
    """What a file of the cache holds, which is made where there is none."""
    found = _read(_path(file))
    if found is None:
        found = make()
        _write(_path(file), found)
    return found


def _compiled(piece: Piece, digest: str) -> _Kept:
    from upsweep.cpu import compile as compiler

    text = f"upsweep: compiling {piece.title} for this CPU, once; it is kept in {folder()}"
    note = threading.Timer(1.0, lambda: print(text, file=sys.stderr, flush=True))
    note.daemon = True
    note.start()
    try:
        if not piece.accumulators:
            return _Kept(*compiler.machine_code(compiler.frame(piece), None, _name(digest)))
        filling = compiler.operator(
            piece.op, piece.accumulators
        )  # first: it may be one that cannot be compiled
        frame = _kept(f"{_digest(piece.frame)}.bc", lambda: _Kept([], compiler.frame(piece)))
        return _Kept(*compiler.machine_code(frame.code, filling, _name(digest)))
    finally:
        note.cancel()


def _read(path: Path) -> _Kept | None:
    """A file that is missing, cut off or not ours is no file."""
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        needs, check = json.loads(head)
    except (OSError, ValueError):
        return None
    return _Kept(needs, code) if check == _check(code) else None


def _write(path: Path, made: _Kept) -> None:
    head = json.dumps([made.needs, _check(made.code)]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(head + b"\n" + made.code)
        os.replace(file.name, path)  # whole or not at all, whoever else writes it
    except OSError as error:
        print(f"upsweep: cannot keep compiled code in {folder()}: {error}", file=sys.stderr)


def _check(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _linked(name: str, made: _Kept) -> int:
    if any(llvm.address_of_symbol(need) is None for need in made.needs):
        _numbas_own()
    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(made.code))
    linker.finalize_object()
    return linker.get_function_address(name)


def _numbas_own() -> None:
    """Make known what numba's own helpers are called."""
    from numba.core.registry import cpu_target

    _ = cpu_target.target_context  # made on demand


@cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def _signature() -> tuple[str, ...]:
    """All that decides what a piece does, beside itself: the texts of this folder and of scalars/, the
    compilers' versions, the processor."""
    here = Path(__file__).parent
    texts = [
        path.read_text() for folder in (here, here.parent / "scalars") for path in sorted(folder.glob("*.py"))
    ]
    compilers = _numba_version(), llvmlite.__version__, np.__version__, sys.version
    return (*texts, repr(dtypes.TABLE), *compilers, *processor())


def processor() -> tuple[str, str]:
    """What LLVM calls the processor that code is made for, and its features."""
    return (
        os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten(),
    )


def _numba_version() -> str:
    """Read where numba keeps it: its metadata takes 15 ms to parse, importing it .4 s."""
    found = find_spec("numba")
    return Path(str(found.origin)).with_name("_version.py").read_text() if found else ""
