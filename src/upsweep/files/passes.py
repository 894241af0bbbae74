"""Passes over a table, block by block: while one is scanned, the next is read and the one before is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from upsweep.components import bare, tupled
from upsweep.files import work, written
from upsweep.files.blocks import Table, ahead
from upsweep.files.call import Call, planned
from upsweep.files.tables import Columns, Report, arrow_type, kept_of
from upsweep.segments import flags
from upsweep.stream import Stream
from upsweep.tree import Carry

Read = Callable[[int, int], list[np.ndarray]]
"""Results of rows from one row to another."""


class Block(NamedTuple):
    """A block that was scanned."""

    results: list[np.ndarray]
    kept: Any
    """The columns that are kept as they are."""
    known: dict[str, Any]
    """How far the scan is, and the state that it needs to go on, beside the carries."""
    carries: list[Carry]


def scan(table: Table, columns: Columns, call: Call, path: Path, folder: Path, report: Report) -> None:
    """Scan a table from its first row on into the table at `path`, or go on where a run in this work folder stood."""
    start: dict[str, Any] = {"rows": 0, "done": 0, "mark": None, **columns.known()}
    known, carries = work.load_state(folder) or (start, [])
    columns.go_on(known)
    saved = time.monotonic()
    report("scanning", known["done"], table.total)
    with closing(Output(table, columns, call, path, known["mark"])) as output:
        for k, block in enumerate(ahead(_scanned(table, columns, call, output.kept, known["rows"], carries))):
            if k and time.monotonic() - saved >= work.SAVE_SECONDS:
                work.store_state(folder, known | {"mark": output.mark()}, carries)
                saved = time.monotonic()
            output.put(block.results, block.kept)
            known, carries = block.known, block.carries
            report("scanning", known["done"], table.total)
    report("scanning", known["rows"], known["rows"])


def join(
    table: Table, columns: Columns, call: Call, rows: int, read: Read, path: Path, report: Report
) -> None:
    """Write results that are there already into the table at `path`, beside the columns that are kept."""
    start = 0
    with closing(Output(table, columns, call, path, None)) as output:
        # Without a column, a block would not say how many rows it has.
        names = () if output.kept else columns.names
        for _, block, kept in ahead(table.blocks(0, names, columns.read_as(), output.kept)):
            report("writing", start, rows)
            stop = start + (kept if output.kept else block).num_rows
            output.put(read(start, stop), kept)
            start = stop
    report("writing", rows, rows)


def _scanned(
    table: Table, columns: Columns, call: Call, kept: Sequence[str], rows: int, carries: list[Carry]
) -> Iterator[Block]:
    """Blocks from a row on that is known by its carries."""
    parts, streams = [], []
    for done, block, own in ahead(table.blocks(rows, columns.read, columns.read_as(), kept)):
        values, marks = columns.of(block)
        if not streams:
            parts, _ = planned(call.parts(len(values)), [v[:0] for v in values], call.axis)
            streams = [
                Stream(call.op, axis=call.axis, initial=part.initial, state=carry, **part.keywords())
                for part, carry in zip(parts, carries or [None] * len(parts))
            ]  # fmt: skip
        segments = None if marks is None else flags(marks)
        results: list[np.ndarray] = []
        for part, stream in zip(parts, streams):
            results += tupled(stream.push(bare(tuple(values[part.inputs])), segments=segments))
        rows += block.num_rows
        known = {"rows": rows, "done": done, **columns.known()}
        yield Block(results, own, known, [stream.state for stream in streams])


class Output:
    """The table that is made: the columns that are kept stand where they stood, and new ones behind them."""

    def __init__(self, table: Table, columns: Columns, call: Call, path: Path, mark: Any) -> None:
        self._table, self._call, self._columns, self._path, self._mark = table, call, columns, path, mark
        self._made = call.names or columns.names
        self.kept = kept_of(table, self._made, call.keep)
        names = [name for name in table.names if name in self._made or name in self.kept]
        self._names = [*names, *(name for name in self._made if name not in names)]
        self._types = table.types(self.kept)
        self._target: written.Target | None = None

    def put(self, results: Sequence[np.ndarray], kept: Any) -> None:
        import pyarrow as pa

        if self._target is None:
            self._target = self._opened([y.dtype for y in results])
        made = {name: _column(y, self._types[name]) for name, y in zip(self._made, results)}
        columns = [made[name] if name in made else kept[name] for name in self._names]
        self._target.put(pa.RecordBatch.from_arrays(columns, self._names))

    def _opened(self, dtypes: list[np.dtype]) -> written.Target:
        import pyarrow as pa

        self._call.named(self._columns.names, len(dtypes))
        zones = [self._columns.zones.get(name) for name in self._columns.names]
        if len(zones) != len(dtypes):
            zones = [next(filter(None, zones), None)] * len(dtypes)
        self._types |= dict(zip(self._made, map(arrow_type, dtypes, zones)))
        schema = pa.schema([(name, self._types[name]) for name in self._names])
        return written.opened(self._path, schema, self._table.encoding(self._names, self.kept), self._mark)

    def mark(self) -> Any:
        """Bring all to the disk; where to go on."""
        assert self._target
        return self._target.mark()

    def close(self) -> None:
        if self._target:
            self._target.close()


def _column(y: np.ndarray, made: Any) -> Any:
    """A result in Arrow's memory. For numbers there is a way that does not import pandas."""
    import pyarrow as pa

    if y.dtype.kind in "iuf":
        return pa.Array.from_buffers(made, y.size, [None, pa.py_buffer(np.ascontiguousarray(y))])
    return pa.array(y).cast(made)
