"""Scanning a file chunk by chunk, to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import upsweep as up
from upsweep.cli import tables
from upsweep.cli.segments import Heads, Segmented
from upsweep.cli.work import Options, load, load_carry, store, store_carry, work_on
from upsweep.stream import Stream

Report = Callable[[str, int, int], None]

CHUNK_BYTES = 1 << 25
"""What is scanned between two checkpoints."""


def scan_file(source: Path, target: Path, options: Options, report: Report) -> None:
    """Scan `source` to `target`, going on where an earlier run of the same job was killed."""
    for path in (source, target):
        if path.suffix not in (".npy", *tables.SUFFIXES):
            raise ValueError(f"{path} is neither .npy nor {' nor '.join(tables.SUFFIXES)}")
    if not source.exists():
        raise ValueError(f"there is no file {source}")
    if source.suffix == ".npy" and target.suffix != ".npy":
        raise ValueError(f"an array goes to a .npy file, not to {target.name}")
    with work_on(source, target, options) as folder:
        if source.suffix == ".npy":
            xs, names = (_array(source, options),), ()
            heads = Heads.of(options.segments, None)
        else:
            xs, names, keys = tables.read(source, folder, options, report)
            heads = Heads.of(options.segments, keys)
        ys = _scan(xs, folder, options, heads, report)
        if target.suffix == ".npy":
            _to_npy(ys, names, folder)
        else:
            tables.write(ys, names, folder / "result", target.suffix, report)
        os.replace(folder / "result", target)


def _array(source: Path, options: Options) -> np.ndarray:
    if options.columns:
        raise ValueError(f"--column is for tables; {source.name} holds one array")
    try:
        return np.load(source, mmap_mode="r", allow_pickle=False)
    except ValueError:  # nothing to map
        return np.load(source, allow_pickle=False)


def _scan(
    xs: tuple[np.ndarray, ...], folder: Path, options: Options, heads: Heads | None, report: Report
) -> list[Any]:
    """The results in the work folder, as arrays that lie in files; in chunks along the dimension that varies slowest."""
    first = xs[0]
    keywords = {
        "axis": options.axis,
        "exclusive": options.exclusive,
        "initial": options.initial,
        "dtype": options.dtype,
    }
    if first.size == 0 or first.ndim == 0:
        segments = heads.whole() if heads and first.ndim else None
        got = up.scan(_bare(xs), options.op, reverse=options.reverse, segments=segments, **keywords)
        return list(got) if len(xs) > 1 else [got]
    axis = _axis(options.axis, first)
    made = _types(xs, options, keywords)
    ys = _files(first, made, folder)
    slowest = max(range(first.ndim), key=lambda d: abs(first.strides[d]) * (first.shape[d] > 1))
    run = _along if slowest == axis or first.ndim == 1 else _across
    run(xs, ys, folder, options, heads, axis if run is _along else slowest, report)
    return ys


def _axis(axis: int | None, x: np.ndarray) -> int:
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"the array has {x.ndim} dimensions {x.shape}: say which to scan along, --axis 0 to {x.ndim - 1}"
        )
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"--axis {axis} is out of range for an array of {x.ndim} dimensions {x.shape}")
    return (axis or 0) % x.ndim


def _types(xs: tuple[np.ndarray, ...], options: Options, keywords: dict[str, Any]) -> list[np.dtype]:
    """What a scan of one item gives; it raises what a scan of all would raise."""
    one = tuple(np.array(x[(slice(0, 1),) * x.ndim]) for x in xs)
    got = up.scan(_bare(one), options.op, reverse=options.reverse, **keywords)
    return [y.dtype for y in (got if len(xs) > 1 else (got,))]


def _files(like: np.ndarray, dtypes: list[np.dtype], folder: Path) -> list[Any]:
    """Memory-mapped results, those of the killed run where it left some."""
    paths = [folder / f"scanned{c}.npy" for c in range(len(dtypes))]
    if load(folder, "done") is None:
        fortran = like.ndim > 1 and like.flags.f_contiguous
        for path, dtype in zip(paths, dtypes):
            np.lib.format.open_memmap(path, "w+", dtype, like.shape, fortran_order=fortran).flush()
        store(folder, "done", 0)
    return [np.load(path, mmap_mode="r+") for path in paths]


def _chunks(x: np.ndarray, along: int, done: int) -> Iterator[tuple[int, int]]:
    """Aligned powers of two of items, which a stream takes in one piece."""
    n = x.shape[along]
    size = 1 << max(0, (CHUNK_BYTES * n // x.nbytes).bit_length() - 1)
    for start in range(done, n, size):
        yield start, min(start + size, n)


def _along(
    xs: tuple[np.ndarray, ...],
    ys: list[Any],
    folder: Path,
    options: Options,
    heads: Heads | None,
    axis: int,
    report: Report,
) -> None:
    """Chunks that continue each other: a stream carries what the ones before add up to."""
    n, carry = xs[0].shape[axis], load_carry(folder)
    done = carry.count if carry else 0
    flip = slice(None, None, -1) if options.reverse else slice(None)
    if heads is None:
        stream: Any = Stream(
            options.op,
            axis=axis,
            exclusive=options.exclusive,
            initial=options.initial,
            dtype=options.dtype,
            state=carry,
        )
    else:
        heads.check(n)
        stream = Segmented(options, axis, heads.reversed(n) if options.reverse else heads, xs, carry)
    for start, stop in _chunks(xs[0], axis, done):
        report("scanning", start, n)
        here = slice(n - stop, n - start) if options.reverse else slice(start, stop)
        index = (slice(None),) * axis
        chunk = tuple(x[(*index, here)][(*index, flip)] for x in xs)
        stream.push(_bare(chunk), out=_bare([y[(*index, here)][(*index, flip)] for y in ys]))
        for y in ys:
            y.flush()
        store_carry(folder, stream.state)
    report("scanning", n, n)


def _across(
    xs: tuple[np.ndarray, ...],
    ys: list[Any],
    folder: Path,
    options: Options,
    heads: Heads | None,
    along: int,
    report: Report,
) -> None:
    """Chunks that know nothing of each other: the scan runs along another dimension."""
    (x,), (y,) = xs, ys
    n, done = x.shape[along], load(folder, "done")
    index = (slice(None),) * along
    segments = heads.whole() if heads else None
    for start, stop in _chunks(x, along, done):
        report("scanning", start, n)
        here = (*index, slice(start, stop))
        up.scan(
            x[here], options.op, axis=options.axis, exclusive=options.exclusive, reverse=options.reverse,
            initial=options.initial, dtype=options.dtype, out=y[here], segments=segments,
        )  # fmt: skip
        y.flush()
        store(folder, "done", stop)
    report("scanning", n, n)


def _to_npy(ys: list[Any], names: tuple[str, ...], folder: Path) -> None:
    """One array; several columns become one array of records."""
    made = folder / "scanned0.npy"
    if len(ys) == 1 and made.exists():
        os.replace(made, folder / "result")
        return
    record = np.dtype([(name, y.dtype) for name, y in zip(names, ys)]) if len(ys) > 1 else ys[0].dtype
    if not ys[0].size:
        with open(folder / "result", "wb") as file:
            np.save(file, np.empty(ys[0].shape, record), allow_pickle=False)
        return
    result = np.lib.format.open_memmap(folder / "result", "w+", record, ys[0].shape)
    for name, y in zip(names, ys):
        result[name] = y
    result.flush()


def _bare(parts: Any) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)
