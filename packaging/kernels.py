"""Compile the code that the wheel ships for classes of processors, into src/upsweep/cpu/built: python packaging/kernels.py
[CLASS ...]

The script makes calls of the public API as users make them, on few items, and runs none of them. The code that they need is
compiled for each class, in as many processes as there are cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from unittest.mock import patch

import numpy as np

import upsweep as up
from upsweep import cpu
from upsweep.cpu import again, array_loops, counted, group_runs, launch, shipped, strips, tables
from upsweep.cpu import compile as compiler
from upsweep.cpu.code import Unit, address
from upsweep.cpu.codes import codes_of, in_line, labels_of
from upsweep.cpu.kept import Code, digest
from upsweep.cpu.units import crew, entry, group_entry, kernel, stream

KEYS, MORE, SORTED = (up.segments.groups(np.zeros(n, np.int64)) for n in (64, 1 << 11, 1 << 16))
FLOATS, INTEGERS = ("f4", "f8"), ("i4", "i8")
OPERATORS = {
    **dict.fromkeys(FLOATS, ("add", "mul", "max", "min", "last")),
    **dict.fromkeys(INTEGERS, ("add", "mul", "max", "min", "and", "or", "xor")),
}
"""Of these, code for a class of processors took .9 to 1.15 of the time of code for this very processor, an AMD EPYC with
AVX-512. Code of logaddexp took 1.3 to 3.2, and is therefore compiled where it runs.
"""


def calls() -> Iterator[None]:
    """The usual scans: rows, short rows, columns, segments and streams of each dtype, also in order, recurrences, sums of other
    dtypes.
    """
    heads = up.segments.flags(np.arange(64) % 9 == 0)
    for dtype, names in OPERATORS.items():
        row, table, short = np.ones(64, dtype), np.ones((64, 64), dtype), np.ones((64, 16), dtype)
        for name in names:
            yield up.scan(row, name)
            yield up.scan(row[:, None], name, segments=heads, axis=0)
            yield up.scan(row, name, segments=heads)
            yield up.scan(table, name, axis=0)
            yield up.scan(short, name, axis=1)
            yield up.scan(short, name, axis=1, reverse=True)
            yield up.scan(row, name, segments=KEYS)
            # Of more items the largest and the smallest go in order.
            yield up.scan(np.ones(1 << 11, dtype), name, segments=MORE)
            yield up.scan(np.ones(1 << 16, dtype), name, segments=SORTED)
            yield up.Stream(name).push(row)
        # Large arrays have code of their own for the last rows of columns, and columns of integers go another way where their
        # results go past the cache.
        large = np.empty((4104, 1 << 12), dtype)
        for name in names:
            yield up.scan(large, name, axis=0)
        yield up.scan(large, axis=0, order="sequential")
        for shape in (row, table):
            yield up.scan(shape, axis=0, order="sequential")
            yield up.scan(shape, axis=0, exclusive=True, order="sequential")
        yield up.scan(short, axis=1, order="sequential")
        yield up.scan(row, segments=heads, exclusive=True)
    for dtype in FLOATS:
        pair = np.ones(64, dtype), np.ones(64, dtype)
        yield up.scan(pair, "affine")
        yield up.linear_recurrence(*pair)
        yield up.linear_recurrence(*pair, order="sequential")
        yield up.linear_recurrence(*(np.ones((64, 64), dtype),) * 2, axis=0)
        large = np.empty((72, 1 << 12), dtype)
        yield up.linear_recurrence(large, large, axis=0)
        yield up.linear_recurrence(large, large, axis=0, order="sequential")
        yield up.linear_recurrence(*(np.ones((64, 16), dtype),) * 2, axis=1)
        yield up.linear_recurrence(*(np.ones((64, 64), dtype),) * 2, axis=0, order="sequential")
    # Two columns of float32 are summed as complex numbers.
    yield up.scan(np.ones((64, 2), "f4"), axis=0)
    yield up.scan(np.ones((64, 2), "f4"), axis=0, segments=heads)
    for dtype in ("?", "i1", "i2", "u1", "u2", "u4", "u8", "f2"):
        yield up.scan(np.ones(64, dtype))
        yield up.scan(np.ones((64, 64), dtype), axis=0)
        yield up.scan(np.ones((64, 16), dtype), axis=1)


def number() -> None:
    """Number keys of each kind in two threads. These loops run, as a scan needs the numbers."""
    keys = np.arange(1 << 16)
    for dtype in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4"):
        # The one in the order in which keys appear, the other by how close they lie.
        codes_of((keys.astype(dtype),), len(keys), 2)
        labels_of((keys.astype(dtype),), len(keys), 2)
    # Integers far apart, short texts and long ones.
    for far in (keys << 32, keys.astype("S6"), keys.astype("S20")):
        codes, _ = codes_of((far,), len(keys), 2)
    in_line(codes)


def units() -> list[Unit]:
    """The units of code that the calls need."""
    asked: dict[str, Unit] = {}

    def note(unit: Unit) -> int:
        asked.setdefault(digest(unit.what), unit)
        return 0

    with (
        patch.object(launch, "address", note),
        patch.object(tables, "address", note),
        patch.object(strips, "address", note),
        patch.object(group_runs, "address", note),
        patch.object(group_runs, "callable_at", lambda *_: lambda *_: 0),
        patch.object(counted, "address", note),
        patch.object(counted, "callable_at", lambda *_: lambda *_: 0),
        patch.object(cpu, "at_work", lambda *_: None),
        patch.object(again, "again", lambda *_: None),
    ):
        for _ in calls():
            pass
    with patch.object(array_loops, "address", lambda unit: note(unit) or address(unit)):
        number()
    told = [
        again.making(name, np.dtype(d)) for name in ("offsets", "lengths", "keys", "groups") for d in INTEGERS
    ]
    for unit in (
        kernel(),
        crew(),
        entry(),
        group_entry(),
        stream(4),
        stream(8),
        *told,
        again.making("flags", np.dtype("?")),
    ):
        note(unit)
    return list(asked.values())


def made(work: tuple[int, shipped.Class]) -> tuple[str, shipped.Class, Code]:
    number, kind = work
    target = compiler.target(kind.triple, kind.name, "", kind.machine == "x86_64")
    name = digest(UNITS[number].what)
    return name, kind, compiler.compiled(UNITS[number], f"k{name}", target)


UNITS: list[Unit] = []


def main() -> None:
    wanted = [kind for kind in shipped.CLASSES if not sys.argv[1:] or kind.name in sys.argv[1:]]
    UNITS[:] = units()
    work = [(number, kind) for number in range(len(UNITS)) for kind in wanted]
    done: dict[shipped.Class, dict[str, Code]] = {kind: {} for kind in wanted}
    with get_context("fork").Pool(os.cpu_count()) as pool:
        for count, (name, kind, code) in enumerate(pool.imap_unordered(made, work), 1):
            done[kind][name] = code
            print(f"\rcompiled {count} of {len(work)}", end="", file=sys.stderr, flush=True)
    for kind, codes in done.items():
        shipped.write(kind, codes)
        size = shipped.path_of(kind).stat().st_size
        print(f"\n{shipped.path_of(kind).name}: {len(codes)} units, {size / 2**20:.2f} MiB", file=sys.stderr)


if __name__ == "__main__":
    main()
