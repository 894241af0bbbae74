"""Scanning files larger than memory: arrays in .npy and Zarr, columns of .csv and .parquet; resumable after a kill.

The result grows in the folder `<target>.part`, beside all that is needed to go on with it, and takes its final name only when it
is whole. A run that finds the folder of the same job goes on where the earlier run stood.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.api import Op, scan
from upsweep.arguments import axis_of, dtypes_of
from upsweep.components import bare, tupled
from upsweep.files import arrays, blocks, packed, passes, tables, work
from upsweep.files.arrays import FileError
from upsweep.files.call import Call, Part, listed, planned
from upsweep.files.grid import Grid
from upsweep.files.heads import Heads, coded
from upsweep.files.work import load, load_state, store, store_state, work_on
from upsweep.operators import as_operator
from upsweep.segments import Segments
from upsweep.stream import Stream

__all__ = ["FileError", "scan_file"]

CHUNK_BYTES = 1 << 24
"""GB/s both ways, a 1 GiB float32 file in the page cache: chunks of 4 MiB 3.3, 16 MiB 3.8, 64 MiB 3.6; a plain copy 5.1."""

Progress = Callable[[str, int, int], None]


def scan_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    op: Op = "add",
    *,
    columns: Iterable[str] = (),
    names: Iterable[str] = (),
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    segments: Segments | None = None,
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    keep: Iterable[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Scan an array that lies in a file into another file, in memory of a few chunks: the bits of one `upsweep.scan`.

    Args:
        source: a `.npy` file, a Zarr array (a folder ending in `.zarr`, or one of a group in such a folder), or a `.csv` or
            `.parquet` table, of any size; files may be packed, `.gz` or `.zst`.
        target: where the result goes: `.npy` or `.zarr`, of a table also `.csv` or `.parquet`; files may be packed too.
        op, axis, exclusive, reverse, initial, dtype: as in `upsweep.scan`. Missing values of a table are a mistake, unless a
            `dtype` of floats is given: it reads them as NaN.
        columns: of a table, or of an array of records, what to scan: one name for each component that op takes. An operator
            on single numbers scans each of several by itself, from `initial`, or from its part of a tuple, if no map joins
            them. Several results come out as columns of a table or as an array of records.
        names: the names of the results, one for each. By default those of the columns, in whose place the results stand.
        map, finish: as in `upsweep.scan`; the columns are the inputs, in the order in which they are named.
        segments: as in `upsweep.scan`, 1-D along the axis. In place of an array there may stand the name of a column of the
            table (flags or keys) or of a `.npy` or `.zarr` file; groups take several of these. With groups,
            `map` and `finish` get no index.
        keep: from a table to a table, the other columns that go along as they are: all of them where this is left out.
        overwrite: whether a target that exists may be replaced, the source itself included; of folders, Zarr arrays alone.
        progress: called as `progress(doing, done, total)`, where `doing` is "reading", "scanning" or "writing", and the numbers
            count items; those of a `.csv` that is read count bytes until its end.

    Returns:
        The path of the target. After an interruption, the same call goes on where the last one stood; another call with
        this target starts anew.

    Raises:
        FileError: unknown kinds of files, a target that exists already, columns that are not there, or another process at
            work on the same target.
        ShapeError, DTypeError, OperatorError, SegmentError: as in `upsweep.scan`.

    >>> import upsweep as up, numpy as np, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.arange(5))
    >>> np.load(up.scan_file(folder / "x.npy", folder / "y.npy")).tolist()
    [0, 1, 3, 6, 10]
    >>> np.load(up.scan_file(folder / "x.npy", folder / "squares.npy", map=lambda x: x * x)).tolist()
    [0, 1, 5, 14, 30]
    """
    source, target = Path(source), Path(target)
    arrays.check_names(source, target, overwrite)
    call = Call(
        as_operator(op), listed("columns", columns), listed("names", names), axis, exclusive, reverse, initial, dtypes_of(dtype),
        coded(segments), map, finish, None if keep is None else listed("keep", keep),
    )  # fmt: skip
    # A symbolic link stays, and leads to the result.
    place = target.resolve() if target.is_symlink() else target
    with ExitStack() as files, work_on(source, place, call.picture()) as folder:
        report = progress or (lambda doing, done, total: None)
        plain, kind = packed.unpacked(source, folder), arrays.bare(target).suffix
        result = folder / f"result{kind}"
        if plain.suffix in arrays.TABLES:
            _scan_table(files, plain, result, call, folder, report)
        else:
            x = arrays.opened(files, plain, call.columns)
            if call.groups:
                # Other scans need not wait for this import.
                from upsweep.files import groups

                groups.scan_array(files, x, result, call, folder, CHUNK_BYTES, report)
            else:
                _scan(files, x, result, call, None, folder, report)
        files.close()
        made = packed.packed(result, target)
        if place.is_file():
            # A private file stays private.
            shutil.copymode(place, made)
        _move(made, place, folder)
    return target


def _move(made: Path, target: Path, folder: Path) -> None:
    """Put the result in its place. A folder must make room for another one: it goes to the work folder."""
    if not target.is_dir():
        os.replace(made, target)
        return
    before = folder / "replaced"
    os.replace(target, before)
    try:
        os.replace(made, target)
    except BaseException:
        os.replace(before, target)
        raise


def _scan_table(
    files: ExitStack, source: Path, result: Path, call: Call, folder: Path, report: Progress
) -> None:
    """Scan columns. A scan from the end, and segments that lie in memory, need to know how many rows there are: they scan the
    columns as an array, and so do scans into an array."""
    table = blocks.opened(source)
    tables.check(table, call.columns, call.names, call.keep)
    columns = tables.Columns(table, call)
    to_table = result.suffix in arrays.TABLES
    if call.groups:
        from upsweep.files import groups

        groups.scan_table(files, table, columns, result, call, folder, CHUNK_BYTES, report)
        return
    if to_table and not call.reverse and (call.segments is None or columns.key is not None):
        passes.scan(table, columns, call, result, folder, report)
        return
    paths, heads = tables.read(table, columns, folder, report)
    x = arrays.columns(files, columns.names, paths, columns.dtypes)
    made = folder / "made.npy" if to_table else result
    _scan(files, x, made, call, heads, folder, report)
    if to_table:
        y = np.load(made, mmap_mode="r" if x.shape[0] else None)
        parts = [y[name] for name in y.dtype.names] if y.dtype.names else [y]
        passes.join(
            table, columns, call, y.size, lambda a, b: [np.array(part[a:b]) for part in parts], result, report
        )


def _scan(
    files: ExitStack, x: arrays.Source, result: Path, call: Call, column: np.ndarray | None, folder: Path, report: Progress
) -> None:  # fmt: skip
    """Scan an array into `result`; `column` has the flags that a table's column has become."""
    axis = axis_of(call.axis, x.shape)
    parts = call.parts(len(x.dtypes))
    # A file in Fortran order holds the transpose.
    if x.turned:
        axis = len(x.shape) - 1 - axis
        parts = [part.turned() for part in parts]
    nothing = tuple(np.empty([n if d != axis else 0 for d, n in enumerate(x.layout)], dt) for dt in x.dtypes)
    parts, dtypes = planned(parts, nothing, axis)
    names = call.named(x.names, len(dtypes))
    heads = Heads.of(call.segments, column, x.layout[axis])
    state = load_state(folder)
    if state is None:
        arrays.create(result, x, names, tuple(dtypes))
    y = arrays.result(files, result, x, names, tuple(dtypes))
    grid = _grid(folder, x, y, axis)
    job = _Job(call, x, y, axis, parts, heads, grid)
    job.run(folder, state or (0, [None] * len(parts)), report)
    y.flush()


def _grid(folder: Path, x: arrays.Source, y: arrays.Result, axis: int) -> Grid:
    """The blocks that this job was begun with."""
    known = load(folder, "grid")
    if known:
        return Grid(x.layout, axis, *known)
    grid = Grid.of(x.layout, axis, sum(d.itemsize for d in x.dtypes), CHUNK_BYTES, x.chunks, y.chunks)
    store(folder, "grid", [grid.split, grid.step])
    return grid


@dataclass(frozen=True)
class _Job:
    call: Call
    x: Any
    y: Any
    axis: int
    parts: list[Part]
    heads: Heads | None
    grid: Grid

    def run(self, folder: Path, state: tuple[int, list[Any]], report: Progress) -> None:
        """Scan block by block, and write down now and then how far it is."""
        (done, carries), items, total, saved = state, 0, self.grid.size, time.monotonic()
        streams: list[Stream] = []
        for number, (rows, along) in enumerate(self.grid.blocks()):
            block = self.grid.items(rows, along)
            items += block
            if number < done:
                continue
            report("scanning", items - block, total)
            if not self.grid.whole and (along.start == 0 or not streams):
                known = carries if along.start else [None] * len(self.parts)
                streams = [self._stream(part, rows, carry) for part, carry in zip(self.parts, known)]
            self._scan(rows, along, streams)
            if time.monotonic() - saved >= work.SAVE_SECONDS:
                self.y.flush()
                store_state(folder, number + 1, [stream.state for stream in streams])
                saved = time.monotonic()
        report("scanning", total, total)

    def _stream(self, part: Part, rows: tuple[slice, ...], state: Any) -> Stream:
        stream = Stream(
            self.call.op, axis=self.axis, initial=self._starts(part, rows), state=state, **part.keywords()
        )
        stream.last = self.x.layout[self.axis] - 1 if self.call.reverse else None
        return stream

    def _starts(self, part: Part, rows: tuple[slice, ...]) -> Any:
        """The values that these rows start from."""
        others = rows[: self.axis] + rows[self.axis + 1 :]
        starts = tupled(part.initial)
        return bare(tuple(s if np.ndim(s) == 0 else np.asarray(s)[others] for s in starts))

    def _scan(self, rows: tuple[slice, ...], along: slice, streams: list[Stream]) -> None:
        n, reverse = self.x.layout[self.axis], self.call.reverse
        here = slice(n - along.stop, n - along.start) if reverse else along
        index = (*rows[: self.axis], here, *rows[self.axis + 1 :])
        chunk, out = self.x.read(index), self.y.room(index)
        if not streams:
            segments = self.heads and self.heads.whole()
            for part in self.parts:
                scan(
                    bare(chunk[part.inputs]), self.call.op, axis=self.axis, initial=self._starts(part, rows), reverse=reverse,
                    segments=segments, out=bare(out[part.results]), **part.keywords(),
                )  # fmt: skip
        else:
            if reverse:
                chunk, out = (tuple(np.flip(a, self.axis) for a in arrays) for arrays in (chunk, out))
            segments = self.heads and self.heads.between(along.start, along.stop, n if reverse else 0)
            for part, stream in zip(self.parts, streams):
                stream.push(bare(chunk[part.inputs]), segments=segments, out=bare(out[part.results]))
        self.y.write(index)
