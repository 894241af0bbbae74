"""The code that is kept on disk between processes, and the names that tell it from all other code."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from upsweep import cache as disk


class Code(NamedTuple):
    """An image, an object file, or LLVM's code of a frame."""

    code: bytes
    needs: Sequence[str] = ()
    """Functions of other libraries that it calls."""
    entry: int = 0
    """The offset of an image's function."""
    moved: Sequence[int] = ()
    """The places in an image that hold addresses within it: the image's own address is added to each."""


def kept(file: str, make: Callable[[], Code]) -> Code:
    """The contents of a file of the cache. The file is made where there is none, by one process for all that want it."""
    found = read(file)
    if found is None:
        with _alone(file):
            found = read(file)
            if found is None:
                found = make()
                _write(file, found)
    return found


@contextmanager
def _alone(file: str) -> Iterator[None]:
    """No other process makes this file meanwhile. Where the folder takes no locks, and where another process has not ended for
    long, it is made twice.
    """
    from filelock import FileLock, Timeout

    # Some hundred locks are enough for all files. A unit's file is made before its frame's is asked for, in this order only.
    stem, _, kind = file.partition(".")
    with ExitStack() as held:
        if writable():
            with suppress(OSError, NotImplementedError, Timeout):
                lock = FileLock(_path(f"{kind}-{stem[:2]}.lock"), is_singleton=True)
                held.enter_context(lock.acquire(timeout=_PATIENCE))
        yield


_PATIENCE = 60.0
"""Seconds. The largest unit takes a quarter of that on a busy processor."""


def read(file: str) -> Code | None:
    contents = disk.read(_path(file))
    if contents is None:
        return None
    head, _, code = contents.partition(b"\n")
    return Code(code, *json.loads(head))


def _write(file: str, made: Code) -> None:
    head = json.dumps([made.needs, made.entry, made.moved]).encode()
    try:
        disk.write(_path(file), head + b"\n" + made.code)
    except OSError as error:
        _complain(error.strerror)


@cache
def writable() -> bool:
    """Whether files can be kept. Where they cannot, a warning says so."""
    from tempfile import TemporaryFile

    place = _path("")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place):
            return True
    except OSError as error:
        _complain(error.strerror)
        return False


@cache
def _complain(why: str) -> None:
    """Warn once."""
    text = f"upsweep: cannot keep compiled code in {disk.folder()} ({why}): each process compiles it anew"
    print(f"{text}, unless UPSWEEP_CACHE_DIR names a folder that can be written to", file=sys.stderr)


def _path(file: str) -> Path:
    return disk.folder() / "cpu" / file


def digest(what: tuple[Any, ...], here: bool = False) -> str:
    """A name for code by its meaning. The name of code that is made `here` also says which compiler made it, how it was told to,
    and for which processor.
    """
    made = (_versions(), _flags()) if here else ()
    return hashlib.sha256(repr((_texts(), made, what)).encode()).hexdigest()[:32]


PACKAGE = Path(__file__).parents[1]
_SOURCES = (
    "cpu/*.py", "scalars/*.py", "host/*.py", "arithmetic.py", "cache.py", "components.py", "cores.py", "dtypes.py",
    "elsewhere.py", "engine.py", "engine_protocol.py", "function.py", "homes.py", "keys.py", "layer_protocol.py", "moves.py",
    "operator.py", "operators.py", "plan.py", "segments.py", "short_way.py", "sort_keys.py", "tree.py",
)  # fmt: skip
"""This folder and all that it imports. Which of them decide what is compiled, nobody has to say."""


@cache
def _texts() -> str:
    """The texts that all code is made of."""
    found = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(PACKAGE.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    """The compilers and the processor."""
    return (_version("numba"), _version("llvmlite"), np.__version__, sys.version, *_processor())


def _flags() -> list[Any]:
    """All that numba is told from outside, in variables or in its file, but for what changes no code of ours: with checks of
    bounds, for debuggers or without optimising it would write other code, which later processes would run.
    """
    told = sorted(pair for pair in os.environ.items() if pair[0].startswith("NUMBA_"))
    with suppress(OSError):
        told.append(("", Path(".numba_config.yaml").read_text()))
    return [pair for pair in told if not pair[0].startswith(_HARMLESS)]


_HARMLESS = tuple(
    f"NUMBA_{name}"
    for name in ("CACHE", "CUDA", "DISABLE_CUDA", "DISABLE_JIT", "ENABLE_CUDASIM", "NUM_THREADS", "THREADING")
)


def _version(package: str) -> str:
    """Read from the file in which the package keeps it: parsing the package's metadata takes 15 ms, importing numba .4 s."""
    found = find_spec(package)
    return Path(str(found.origin)).with_name("_version.py").read_text() if found else ""


def _processor() -> tuple[str, ...]:
    if _told():
        return _told()
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def features() -> frozenset[str]:
    """Linux's names of the processor's features."""
    return frozenset(" ".join(_told()).split())


@cache
def _told() -> tuple[str, ...]:
    """Linux's description of the first processor, without its clock; empty on other systems."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return ()
    return tuple(line for line in first.splitlines() if line.startswith(_TELLING))


_TELLING = ("vendor_id", "cpu family", "model\t", "stepping", "flags", "CPU ", "Features")
"""Linux's keys on x86-64 and on aarch64."""
