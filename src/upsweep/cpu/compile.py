"""Kernels by what they compute, compiled once: kept in memory, and on disk for every later process."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.errors import NumbaError

from upsweep import dtypes
from upsweep.cache import folder
from upsweep.cpu import interleaved, walk
from upsweep.cpu.kernel import Kernel, build
from upsweep.cpu.memory import named
from upsweep.cpu.tuning import Tuning
from upsweep.operator import identity_of, unchanged, uncompilable
from upsweep.operators import free
from upsweep.plan import Plan

_kernels: dict[Any, Kernel] = {}
_lock = threading.Lock()


def kernel_for(plan: Plan, tuning: Tuning) -> Kernel:
    """The compiled kernel of a plan in the tree's order."""
    # Only a segmented kernel starts from `initial` within a row; any other is told whether there is one.
    initial = plan.initial and plan.segmented
    exact = free(plan.op, plan.accumulators)
    return _kernel(
        plan, build,
        (plan.segmented, initial, exact, tuning.chunk, tuning.width, tuning.tile // item_size(plan)),
    )  # fmt: skip


def walker_for(plan: Plan, form: walk.Form, most: int) -> Kernel:
    """The compiled kernel of a plan in order, for strips of at most `most` rows."""
    return _kernel(plan, walk.build, (form, most))


def interleaved_for(plan: Plan, form: interleaved.Form) -> Kernel:
    """The compiled kernel of a plan for groups whose items lie in any order."""
    return _kernel(plan, interleaved.build, (form,))


def _kernel(plan: Plan, make: Callable[..., Kernel], args: tuple[Any, ...]) -> Kernel:
    key = (make, plan.op, plan.loads, plan.accumulators, plan.stores, args)
    if key not in _kernels:
        with _lock:
            if key not in _kernels:
                _kernels[key] = _compile(plan, make, args)
    return _kernels[key]


def _compile(plan: Plan, make: Callable[..., Kernel], args: tuple[Any, ...]) -> Kernel:
    unchanged(plan.op)
    args = (plan.loads, plan.accumulators, plan.stores, identity_of(plan.op, plan.accumulators), *args)
    digest = hashlib.sha256(repr((_TEXTS, make.__module__, plan.op.key, args)).encode()).hexdigest()[:32]
    with named(f"k{digest}"):
        kernel = make(plan.op.fn, *args)
    note = _note(f"{plan.op} of {', '.join(map(str, plan.loads))}")
    kernel.run._cache = _DiskCache(digest, note)
    try:
        kernel.run.compile((types.int64[::1], types.int64))
    except NumbaError as error:
        raise uncompilable(plan.op, error) from error
    finally:
        note.cancel()
    return kernel


def item_size(plan: Plan) -> int:
    """Bytes of one item of block sums, over all components and the flag."""
    return sum(d.itemsize for d in plan.accumulators) + plan.segmented


def _note(what: str) -> threading.Timer:
    """Says, if it comes to more than a second, what the user is waiting for."""
    text = f"upsweep: compiling {what} for this CPU, once; it is kept in {folder()}"
    timer = threading.Timer(1.0, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    return timer


def _texts() -> tuple[str, ...]:
    """All that decides what a kernel does, beside its arguments: its files, the table of dtypes and the compilers' versions.
    Read when this module is, so that a process whose files are replaced under it never signs old code with the new text."""
    texts = [
        Path(__file__).with_name(name).read_text()
        for name in (
            "kernel.py",
            "carry.py",
            "chunk.py",
            "memory.py",
            "narrow.py",
            "walk.py",
            "interleaved.py",
        )
    ]
    compilers = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    return (str(SCHEMA), *texts, repr(dtypes.TABLE), *compilers)


SCHEMA = 1
"""Counts changes of how machine code is made that neither the texts nor the arguments of a kernel show."""
_TEXTS = _texts()


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

    def __init__(self, digest: str, note: threading.Timer) -> None:
        self._name = digest
        self._note = note
        self._impl = _Results(digest)
        self._cache_path = self._impl.locator.get_cache_path()
        self._cache_file = IndexDataCacheFile(self._cache_path, digest, digest)
        self.enable()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except OSError:
            found = None
        if found is None:
            self._note.start()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            print(f"upsweep: cannot keep compiled code in {folder()}: {error}", file=sys.stderr)
