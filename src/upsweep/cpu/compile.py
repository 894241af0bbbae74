"""Kernels by what they compute, compiled once: kept in memory, and on disk for every later process."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.errors import NumbaError

from upsweep.cpu.kernel import Kernel, build
from upsweep.cpu.memory import named
from upsweep.cpu.tuning import Tuning
from upsweep.operator import OperatorError, identity_of
from upsweep.plan import Plan

_kernels: dict[Any, Kernel] = {}
_lock = threading.Lock()


def kernel_for(plan: Plan, tuning: Tuning) -> Kernel:
    """The compiled kernel of a plan."""
    # Only a segmented kernel starts from `initial` within a row; any other is told whether there is one.
    initial = plan.initial and plan.segmented
    key = (plan.op, plan.loads, plan.accumulators, plan.stores, plan.segmented, initial, tuning.chunk, tuning.width)
    if key not in _kernels:
        with _lock:
            if key not in _kernels:
                _kernels[key] = _compile(plan, initial, tuning)
    return _kernels[key]


def _compile(plan: Plan, initial: bool, tuning: Tuning) -> Kernel:
    identity = identity_of(plan.op, plan.accumulators)
    args = (plan.loads, plan.accumulators, plan.stores, identity, plan.segmented, initial, tuning.chunk, tuning.width)
    digest = hashlib.sha256(repr((_source(), plan.op.key, args)).encode()).hexdigest()[:32]
    with named(f"k{digest}"):
        kernel = build(plan.op.fn, *args)
    kernel.run._cache = _DiskCache(digest)
    try:
        with _note_when_slow(f"{plan.op} of {', '.join(map(str, plan.loads))}"):
            kernel.run.compile((types.int64[::1], types.int64))
    except NumbaError as error:
        raise OperatorError(f"operator {plan.op} cannot be compiled: {_last_words(error)}") from error
    return kernel


def _last_words(error: NumbaError) -> str:
    """What the compiler says of the user's function, without the layers of the kernel around it."""
    said = re.findall(r"the operator returns .*|NameError: .*|(?:No implementation|Unknown attribute|Invalid use) .*", str(error))
    return said[0] if said else str(error)


@contextmanager
def _note_when_slow(what: str) -> Iterator[None]:
    def note() -> None:
        print(f"upsweep: compiling {what} for this CPU, once; it is kept in {folder()}", file=sys.stderr, flush=True)

    timer = threading.Timer(1.0, note)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def folder() -> Path:
    """Where compiled code is kept: $UPSWEEP_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("UPSWEEP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upsweep"


@cache
def _source() -> tuple[str, ...]:
    """All that decides what a kernel does, beside its arguments: this folder's text and the compiler's version."""
    texts = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return (*texts, numba.__version__, np.__version__, sys.version)


class _Folder(_CacheLocator):
    def __init__(self, digest: str) -> None:
        self.digest = digest

    def get_cache_path(self) -> str:
        return str(folder() / "cpu")

    def get_source_stamp(self) -> str:
        return self.digest

    def get_disambiguator(self) -> str:
        return self.digest

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> None:
        return None


class _Results(CompileResultCacheImpl):
    def __init__(self, digest: str) -> None:
        self._locator = _Folder(digest)
        self._filename_base = digest


class _DiskCache(FunctionCache):
    """numba's own cache of compiled code (whose files are replaced atomically), under a key of ours: numba would look
    at the kernel's source line alone, and not at the operator."""

    def __init__(self, digest: str) -> None:
        self._name = digest
        self._impl = _Results(digest)
        self._cache_path = self._impl.locator.get_cache_path()
        self._cache_file = IndexDataCacheFile(self._cache_path, digest, digest)
        self.enable()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple())

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            print(f"upsweep: cannot keep compiled code in {folder()}: {error}", file=sys.stderr)
