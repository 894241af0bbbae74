"""Rows that are divided into parts by their keys, in the work folder: no group is cut, and a part fits the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from upsweep.files import arrays
from upsweep.files.blocks import Table, ahead
from upsweep.files.keys import Keys, ManyWords, integers, parts_of
from upsweep.files.tables import Columns, Report, numbers_of
from upsweep.files.work import append, cut, load, store
from upsweep.segments import SegmentError, Segments

PART_BYTES = 1 << 25
"""Sums of 20 million float64 by 100,000 keys: parts of 64 MiB in batches of 2^20 rows 425 MB, of 32 MiB (2^19) 368, of 16 MiB
(2^18) 334, in 5.4, 6.0 and 6.3 s of processor. By 17 million pairs of keys: 557, 419 and 359 MB, in 10.2, 7.3 and 7.7 s. Half
of the 368 was numba, which numbered the keys. 24 million by 100,000 keys without it, a bare import 73 MB: parts of 32 MiB 190 MB,
in batches of 2^18 185, of 16 MiB 160, in 2.4, 2.55 and 2.7 s.
"""
MOST_BITS = 12
BATCH_ROWS = 1 << 19
"""Rows that are divided in one go: those of each part are a piece of a file, which is to be no smaller than a few pages."""
PARTS = np.dtype(np.uint16)


class Rows(Protocol):
    """Rows that are divided: values and keys."""

    names: tuple[str, ...]
    keys: Keys
    total: int
    """The end of the count of progress."""
    size: int
    """About how many bytes there are."""

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """The dtypes of the values, known after the first block."""
        ...

    def blocks(self, first: int) -> Iterator[tuple[int, list[np.ndarray], list[Any]]]:
        """Blocks of rows from a row on: how much of `total` is done behind it, the values, and the keys in Arrow's memory."""
        ...

    def known(self) -> dict[str, Any]:
        """The state that holds for the next block."""
        ...

    def go_on(self, known: dict[str, Any]) -> None:
        """Go on behind a block, by the state that held then."""
        ...


class TableRows:
    def __init__(self, table: Table, columns: Columns, segments: Segments) -> None:
        self._table, self._columns, self.keys = table, columns, Keys(segments)
        self.names, self.total = columns.names, table.total
        # All of a text is taken for values.
        row = 1 if table.text else 8 * len(columns.names) + self.keys.itemsize
        self.size = table.total * row
        self.known, self.go_on = columns.known, columns.go_on
        self.keys.number(
            {name: [] for name in table.repeated(self.keys.columns) if name not in columns.names}
        )

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        return self._columns.dtypes

    def blocks(self, first: int) -> Iterator[tuple[int, list[np.ndarray], list[Any]]]:
        import pyarrow as pa

        columns = self._columns
        types = columns.read_as() | dict.fromkeys(self.keys.words(), pa.dictionary(pa.int32(), pa.string()))
        for done, block, _ in self._table.blocks(first, columns.read, types, ()):
            values, _ = columns.of(block)
            yield done, values, self.keys.of(first, block.num_rows, block)
            first += block.num_rows


class ArrayRows:
    def __init__(self, x: arrays.Source, segments: Segments) -> None:
        if len(x.shape) != 1:
            raise SegmentError(
                f"groups of a file are for arrays of one axis, and this one has shape {x.shape}: open it by "
                "dask.array.from_zarr, or by numpy.load with mmap_mode='r', and pass that array to upsweep.scan"
            )
        self._x, self.keys = x, Keys(segments)
        if self.keys.columns:
            raise arrays.FileError(
                f"an array has no column {self.keys.columns[0]}: pass a .npy or .zarr file or an array"
            )
        self.names, self.dtypes, self.total = x.names, x.dtypes, x.shape[0]
        self.keys.check(self.total)
        self.size = self.total * (sum(d.itemsize for d in x.dtypes) + self.keys.itemsize)

    def blocks(self, first: int) -> Iterator[tuple[int, list[np.ndarray], list[Any]]]:
        for start in range(first, self.total, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, self.total)
            # The next block is read into the same memory.
            values = [np.array(v) for v in self._x.read((slice(start, stop),))]
            yield stop, values, self.keys.of(start, stop - start, None)

    def known(self) -> dict[str, Any]:
        return {}

    def go_on(self, known: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Divided:
    """Rows in a work folder: files of so many rows, in each of which those of a part lie together."""

    folder: Path
    files: int
    counts: list[int]
    """How many rows each part has."""
    dtypes: tuple[np.dtype, ...]

    def pieces(self, number: int, step: int = 1) -> Iterator[Any]:
        """The rows of a part, file by file where there are any, from the last one on where the step is -1."""
        import pyarrow as pa

        for file in range(self.files)[::step]:
            with pa.OSFile(str(_path(self.folder, file))) as opened:
                piece = pa.ipc.open_file(opened).get_batch(number)
            if piece.num_rows:
                yield piece

    def columns(self, rows: Any) -> tuple[list[np.ndarray], list[Any]]:
        """The values and the keys of rows."""
        values = [_values(column, dtype) for column, dtype in zip(rows.columns, self.dtypes)]
        return values, [_key(column) for column in rows.columns[len(values) :]]

    def parts(self) -> arrays.Plain:
        """The part of each row."""
        return arrays.Plain(self.folder / "parts.bin", "rb", (sum(self.counts),), PARTS, 0)


def divide(rows: Rows, check: Callable[[], Any], folder: Path, report: Report) -> Divided:
    """Divide rows, or go on where a run in this work folder stood. `check` is called when the dtypes of the values are known."""
    words = load(folder, "words")
    if words is not None:
        rows.keys.number(words)
    try:
        return _divide(rows, check, folder, report)
    except ManyWords as error:
        # The parts that are done hold numbers in the place of text, and are made anew.
        rows.keys.number({name: [] for name in rows.keys.words() if name != str(error)})
        for name in ("divided.json", "words.json"):
            (folder / name).unlink(missing_ok=True)
        return divide(rows, check, folder, report)


def _divide(rows: Rows, check: Callable[[], Any], folder: Path, report: Report) -> Divided:
    bits = min((rows.size // PART_BYTES).bit_length(), MOST_BITS)
    start = {"files": 0, "rows": 0, "done": 0, "counts": [0] * (1 << bits), **rows.known()}
    known: dict[str, Any] = load(folder, "divided") or start
    rows.go_on(known)
    parts, words = folder / "parts.bin", -1
    cut([(parts, PARTS)], known["rows"])
    report("reading", known["done"], rows.total)
    for done, batch in ahead(_batches(rows, check, known["rows"])):
        counts = _store(batch, len(rows.dtypes), bits, _path(folder, known["files"]), parts)
        behind = {"files": known["files"] + 1, "rows": known["rows"] + batch.num_rows, "done": done}
        known = {**behind, "counts": np.add(known["counts"], counts).tolist(), **rows.known()}
        # Numbers on disk have their words there. More words do no harm, and the next block may have been read.
        numbered = rows.keys.words()
        if (count := sum(map(len, numbered.values()))) > words:
            store(folder, "words", numbered)
            words = count
        store(folder, "divided", known)
        report("reading", done, rows.total)
    check()
    rows.keys.check(known["rows"])
    report("reading", rows.total, rows.total)
    return Divided(folder, known["files"], known["counts"], rows.dtypes)


def _batches(rows: Rows, check: Callable[[], Any], first: int) -> Iterator[tuple[int, Any]]:
    """Blocks together, until they have enough rows."""
    import pyarrow as pa

    waiting: list[Any] = []
    done = count = 0
    for done, values, keys in rows.blocks(first):
        if not waiting:
            # A mistake ends here, before all is read.
            check()
        columns = [*map(_plain, values), *keys]
        waiting.append(pa.RecordBatch.from_arrays(columns, [str(c) for c in range(len(columns))]))
        count += len(columns[0])
        if count >= BATCH_ROWS:
            yield done, joined(waiting)
            waiting, count = [], 0
    if count:
        yield done, joined(waiting)


def joined(batches: list[Any]) -> Any:
    """Batches of rows as one; there are rows."""
    import pyarrow as pa

    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _store(batch: Any, values: int, bits: int, path: Path, parts: Path) -> list[int]:
    """Write rows into a file, part by part; how many rows each part has."""
    import pyarrow as pa

    of_row = parts_of(batch.columns[values:], bits)
    ordered = batch.take(integers(np.argsort(of_row, kind="stable")))
    counts = np.bincount(of_row, minlength=1 << bits)
    with pa.ipc.new_file(str(path), batch.schema) as file:
        for stop, count in zip(np.cumsum(counts).tolist(), counts.tolist()):
            file.write_batch(ordered.slice(stop - count, count))
    append(parts, of_row)
    return counts.tolist()


def _path(folder: Path, file: int) -> Path:
    return folder / f"rows{file}.arrow"


def _plain(values: np.ndarray) -> Any:
    """Values of any dtype in Arrow's memory, as bytes."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(values).view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(values.itemsize), values.size, buffers)


def _values(column: Any, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def _key(column: Any) -> Any:
    """A key as `groups` takes it fastest."""
    import pyarrow as pa

    return numbers_of(column) if column.type == pa.int64() and not column.null_count else column
