"""Groups whose rows lie in any order: each part of the rows is scanned by one call, and its results go back to their rows."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from upsweep.files import arrays, large, passes, work
from upsweep.files.blocks import Table
from upsweep.files.call import Call, Part, planned
from upsweep.files.divided import ArrayRows, Rows, TableRows, divide
from upsweep.files.grid import Grid
from upsweep.files.tables import Columns, Report, arrow_type
from upsweep.files.work import load, store
from upsweep.function import as_function
from upsweep.segments import SegmentError


def scan_array(
    files: ExitStack, x: arrays.Source, target: Path, call: Call, folder: Path, chunk: int, report: Report
) -> None:
    """Scan an array into one at `target`, which is written in blocks of about `chunk` bytes."""
    assert call.groups is not None
    made = _results(ArrayRows(x, call.groups), call, False, files, folder, report)
    _write(files, made, x, target, call, chunk, report)


def scan_table(
    files: ExitStack, table: Table, columns: Columns, target: Path, call: Call, folder: Path, chunk: int, report: Report
) -> None:  # fmt: skip
    """Scan columns into the table or the array at `target`."""
    assert call.groups is not None
    to_table = target.suffix in arrays.TABLES
    made = _results(TableRows(table, columns, call.groups), call, to_table, files, folder, report)
    if to_table:
        passes.join(table, columns, call, made.rows, made.read, target, report)
    else:
        x = arrays.Source((made.rows,), columns.dtypes, columns.names, ())
        _write(files, made, x, target, call, chunk, report)


@dataclass
class Results:
    """The results of all parts, which are read in the order of the rows."""

    dtypes: list[np.dtype]
    rows: int
    files: list[arrays.Plain]
    """A file for each result, in which the parts lie one behind the other."""
    parts: arrays.Plain
    """The part of each row."""
    next: np.ndarray
    """The place of each part's next result."""

    def read(self, start: int, stop: int) -> list[np.ndarray]:
        """The results of rows that follow those of the call before."""
        parts = self.parts[(slice(start, stop),)]
        order, counts = np.argsort(parts, kind="stable"), np.bincount(parts, minlength=len(self.next))
        pieces = [(slice(at, at + n),) for at, n in zip(self.next.tolist(), counts.tolist()) if n]
        self.next += counts
        read = [np.empty(stop - start, d) for d in self.dtypes]
        for result, file in zip(read, self.files):
            done = 0
            for piece in pieces:
                got = file[piece]
                result[order[done : done + got.size]] = got
                done += got.size
        return read


def _results(
    rows: Rows, call: Call, to_table: bool, files: ExitStack, folder: Path, report: Report
) -> Results:
    """Divide the rows and scan part by part, or go on where a run in this work folder stood."""
    divided = divide(rows, lambda: _checked(rows, call, to_table), folder, report)
    parts, dtypes = _checked(rows, call, to_table)
    n, ends = sum(divided.counts), np.cumsum(divided.counts)
    made = [_made(files, folder / f"result{c}.bin", n, dtype) for c, dtype in enumerate(dtypes)]
    saved, done = time.monotonic(), load(folder, "scanned") or 0
    for number in range(done, len(divided.counts)):
        count, end = divided.counts[number], int(ends[number])
        report("scanning", end - count, n)
        for place, stretch in large.scanned(divided, number, parts, dtypes, call) if count else ():
            for file, result in zip(made, stretch):
                first = end - count + place
                file[(slice(first, first + result.size),)] = np.ascontiguousarray(result)
        if time.monotonic() - saved >= work.SAVE_SECONDS:
            for file in made:
                file.flush()
            store(folder, "scanned", number + 1)
            saved = time.monotonic()
    report("scanning", n, n)
    return Results(dtypes, n, made, files.enter_context(divided.parts()), ends - divided.counts)


def _write(
    files: ExitStack, made: Results, x: arrays.Source, target: Path, call: Call, chunk: int, report: Report
) -> None:
    """Write results into an array like `x`."""
    names, dtypes = call.named(x.names, len(made.dtypes)), tuple(made.dtypes)
    arrays.create(target, x, names, dtypes)
    y = arrays.result(files, target, x, names, dtypes)
    step = Grid.of(x.layout, 0, sum(d.itemsize for d in dtypes), chunk, y.chunks).step
    for start in range(0, made.rows, step):
        report("writing", start, made.rows)
        here = (slice(start, min(start + step, made.rows)),)
        for room, result in zip(y.room(here), made.read(here[0].start, here[0].stop)):
            room[:] = result
        y.write(here)
    report("writing", made.rows, made.rows)
    y.flush()


def _made(files: ExitStack, path: Path, n: int, dtype: np.dtype) -> arrays.Plain:
    with path.open("ab") as file:
        file.truncate(n * dtype.itemsize)
    return files.enter_context(arrays.Plain(path, "rb+", (n,), dtype, 0))


def _checked(rows: Rows, call: Call, to_table: bool) -> tuple[list[Part], list[np.dtype]]:
    """The parts that are scanned together, and the dtypes of the results, after all checks that need no data."""
    parts, dtypes = planned(call.parts(len(rows.dtypes)), [np.empty(0, d) for d in rows.dtypes], call.axis)
    call.named(rows.names, len(dtypes))
    for dtype in dtypes if to_table else ():
        arrow_type(dtype, None)
    for part in parts:
        inputs = len(rows.names[part.inputs]) or 1
        for fn, counts in ((call.map, (inputs, 1 + inputs)), (call.finish, (1, 1 + inputs, 2 + inputs))):
            if fn and as_function(fn).taking(counts).arity == counts[-1]:
                raise SegmentError(
                    "the index in a map or a finish counts the rows of all groups, and a file is scanned group by group: "
                    "have it in a column, and name that column too"
                )
    return parts, dtypes
