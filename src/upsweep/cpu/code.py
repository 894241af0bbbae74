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

    what: tuple[Any, ...]
    """All that decides what it does, beside the texts of this folder."""
    arguments: int
    make: Callable[[], Callable[..., None]]
    """The Python function to be compiled; only this imports numba."""
    title: str
    op: Any = None
    """The operator whose function may be one that cannot be compiled."""


class _Object(NamedTuple):
    symbol: str
    needs: list[str]
    """Functions of other libraries that it calls."""
    machine_code: bytes


_addresses: dict[tuple[Any, ...], int] = {}
_lock = threading.Lock()


def address(piece: Piece) -> int:
    """Where a piece of code lies in this process."""
    found = _addresses.get(piece.what)
    if found is None:
        with _lock:
            found = _addresses.get(piece.what)
            if found is None:
                found = _addresses[piece.what] = _linked(_object(piece))
    return found


def ensure(piece: Piece) -> None:
    """Where a piece must be compiled first, import the compiler: one that is broken says so here, not amid a scan."""
    if _read(_path(_digest(piece))) is None:
        import numba  # noqa: F401


def callable_at(where: int, arguments: int) -> Callable[..., int]:
    """A piece of code as a function of Python, which lets other threads run meanwhile. Where its result and an exception go
    come first."""
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * arguments)(where)


def _object(piece: Piece) -> _Object:
    digest = _digest(piece)
    found = _read(_path(digest))
    if found is None:
        found = _compiled(piece, digest)
        _write(_path(digest), found)
    return found


def _digest(piece: Piece) -> str:
    return hashlib.sha256(repr((_signature(), piece.what)).encode()).hexdigest()[:32]


def _path(digest: str) -> Path:
    return folder() / "cpu" / f"{digest}.o"


def _compiled(piece: Piece, digest: str) -> _Object:
    from upsweep.cpu.compile import compiled

    text = f"upsweep: compiling {piece.title} for this CPU, once; it is kept in {folder()}"
    note = threading.Timer(1.0, lambda: print(text, file=sys.stderr, flush=True))
    note.daemon = True
    note.start()
    try:
        return _Object(*compiled(piece.make, piece.arguments, f"k{digest}", piece.op))
    finally:
        note.cancel()


def _read(path: Path) -> _Object | None:
    """A file that is missing, cut off or not ours is no file."""
    try:
        head, _, machine_code = path.read_bytes().partition(b"\n")
        symbol, needs, check = json.loads(head)
    except (OSError, ValueError):
        return None
    return _Object(symbol, needs, machine_code) if check == _check(machine_code) else None


def _write(path: Path, made: _Object) -> None:
    head = json.dumps([made.symbol, made.needs, _check(made.machine_code)]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(head + b"\n" + made.machine_code)
        os.replace(file.name, path)  # whole or not at all, whoever else writes it
    except OSError as error:
        print(f"upsweep: cannot keep compiled code in {folder()}: {error}", file=sys.stderr)


def _check(machine_code: bytes) -> str:
    return hashlib.sha256(machine_code).hexdigest()


def _linked(found: _Object) -> int:
    if any(llvm.address_of_symbol(name) is None for name in found.needs):
        _numbas_own()
    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(found.machine_code))
    linker.finalize_object()
    return linker.get_function_address(found.symbol)


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
    processor = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    compilers = _numba_version(), llvmlite.__version__, np.__version__, sys.version
    return (*texts, repr(dtypes.TABLE), *compilers, processor, features)


def _numba_version() -> str:
    """Read where numba keeps it: its metadata takes 15 ms to parse, importing it .4 s."""
    found = find_spec("numba")
    return Path(str(found.origin)).with_name("_version.py").read_text() if found else ""
