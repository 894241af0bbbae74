"""Tables in .csv and .parquet files, a block of rows at a time."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

import numpy as np

from upsweep.files.arrays import FileError
from upsweep.files.packed import pyarrow_for

BLOCK_BYTES = 1 << 20
"""144 MB of .csv into .csv, in blocks of 4 MiB: 1; of 1 MiB: the same time, .62 of the memory; of 512 KiB: 1.2 of the time, .51
of the memory. No line may be longer.
"""
BLOCK_ROWS = 1 << 18
READ_BYTES = 1 << 20

# Bytes of a value where no dictionary holds it; of text, those of its length.
_PLAIN = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "BYTE_ARRAY": 4}

T = TypeVar("T")


class Table(Protocol):
    """A table in a file. `total` is what progress is counted in: bytes of text, or rows."""

    names: list[str]
    total: int
    text: bool
    """Whether it holds text, and no types of columns."""

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """The types of columns that are kept as they are."""
        ...

    def repeated(self, names: Sequence[str]) -> list[str]:
        """The columns among these whose text has few different words: they may be read as dictionaries."""
        ...

    def encoding(self, names: Sequence[str], kept: Sequence[str]) -> dict[str, Any]:
        """How a ParquetWriter is to store columns with these names, of which some are kept: as they are stored here."""
        ...

    def blocks(
        self, first: int, names: Sequence[str], types: dict[str, Any], kept: Sequence[str]
    ) -> Iterator[tuple[int, Any, Any]]:
        """Blocks of rows from row `first` on: how much of `total` is done behind it, the columns named, which are read as what
        `types` says, and the columns that are kept as they are; text may be encoded by a dictionary."""
        ...


def opened(path: Path) -> Table:
    pyarrow_for(path)
    return _Csv(path) if path.suffix == ".csv" else _Parquet(path)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The items of an iterator, each made by a thread while the one before it is in use.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class _Csv:
    text = True

    def __init__(self, path: Path) -> None:
        self._path, self.total = path, path.stat().st_size
        with open(path, "rb") as file:
            first = file.readline()
        if b"\r" in first.rstrip(b"\r\n"):
            raise FileError(
                f"the lines of {path.name} end in carriage returns alone: convert it first, by tr '\\r' '\\n'"
            )
        self.names = next(_lines(path), [])
        if not self.names:
            raise FileError(f"{path.name} has no line of column names")
        if any("\ufffd" in name or "\0" in name for name in self.names):
            raise FileError(
                f"the column names of {path.name} are no text in UTF-8: convert a table first, by iconv, and pass other data as "
                ".npy, .zarr or .parquet"
            )

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        import pyarrow as pa

        return dict.fromkeys(names, pa.string())

    def repeated(self, names: Sequence[str]) -> list[str]:
        return []

    def encoding(self, names: Sequence[str], kept: Sequence[str]) -> dict[str, Any]:
        return {"use_dictionary": list(kept) or False}

    def blocks(
        self, first: int, names: Sequence[str], types: dict[str, Any], kept: Sequence[str]
    ) -> Iterator[tuple[int, Any, Any]]:
        import pyarrow as pa

        text = self.types(kept)
        twice = [name for name in names if name in kept and types.get(name) != text[name]]
        if not _has_rows(self._path):
            empty = {name: pa.array([], types.get(name, pa.float64())) for name in names}
            yield (
                0,
                pa.record_batch(empty),
                pa.record_batch({name: pa.array([], t) for name, t in text.items()}),
            )
        elif not twice:
            for done, block in self._aligned(first, list(dict.fromkeys((*names, *kept))), types | text):
                yield done, block.select([*names]), block.select([*kept])
        else:
            # A column is read once as numbers and once as the text that it is: both cut the file at the same lines.
            numbers, texts = self._aligned(first, names, types), self._aligned(first, kept, text)
            for (done, block), (_, own) in zip(numbers, texts):
                yield done, block, own

    def _aligned(self, first: int, names: Sequence[str], types: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        """Blocks that end at multiples of a power of two: a stream takes them whole, and others in two dozen parts."""
        import pyarrow as pa

        start, step, waiting = first, 0, []
        for done, batch in self._read(first, names, types):
            step = max(step, 1 << (batch.num_rows.bit_length() - 1))
            waiting.append(batch)
            rows = sum(batch.num_rows for batch in waiting)
            if here := (start + rows) // step * step - start:
                table = pa.Table.from_batches(waiting)
                yield done, table.slice(0, here).combine_chunks().to_batches()[0]
                start, waiting = start + here, table.slice(here).to_batches()
        if waiting:
            yield self.total, pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

    def _read(self, first: int, names: Sequence[str], types: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa
        from pyarrow import csv as arrow

        with pa.OSFile(str(self._path)) as file:
            try:
                lines = arrow.open_csv(
                    file,
                    arrow.ReadOptions(block_size=BLOCK_BYTES),
                    arrow.ParseOptions(newlines_in_values=True),
                    arrow.ConvertOptions(include_columns=[*names], column_types=types),
                )
                inferred = [name for name in names if name not in types]
                # The reader is ahead of its blocks, each of which is as long as the next.
                for number, batch in enumerate(lines, 1):
                    while inferred:
                        self._refuse_long(inferred.pop(), batch)
                    skipped = min(first, batch.num_rows)
                    first -= skipped
                    if skipped < batch.num_rows:
                        yield min(number * BLOCK_BYTES, self.total - 1), batch.slice(skipped)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise FileError(self._said(str(error))) from None

    def _said(self, error: str) -> str:
        """The words of pyarrow, the name of the column, and the way out."""
        error = re.sub(r"CSV column #(\d+)", lambda at: f"column {self.names[int(at[1])]!r}", error)
        if "straddl" in error:
            return f"a line of {self._path.name} is longer than {BLOCK_BYTES:,} bytes"
        if "invalid UTF8" in error:
            return f"{error}: convert {self._path.name} first, by iconv"
        return f"{error}; dtype= (--dtype) names another type to read as" if "conversion" in error else error

    def _refuse_long(self, name: str, batch: Any) -> None:
        """A FileError for whole numbers in the first batch that int64 does not hold: pyarrow would make floats of them."""
        import pyarrow as pa

        column, at = batch[name], self.names.index(name)
        # Arrow's own way to NumPy imports pandas.
        if column.type != pa.float64() or not np.any(abs(np.frombuffer(column.buffers()[1])) >= 2.0**63):
            return
        for line in islice(_lines(self._path), 1, 1 + batch.num_rows):
            if line[at].strip(" +-").isdigit() and not -(2**63) <= int(line[at]) < 2**63:
                raise FileError(
                    f"column {name!r} has whole numbers that int64 does not hold, such as {line[at]}: dtype='uint64' or "
                    "'float64' (--dtype) says what to read them as"
                )


def _has_rows(path: Path) -> bool:
    """Whether anything follows the header, of which pyarrow infers no types."""
    with _text(path) as file:
        next(filter(None, csv.reader(file)))
        # A cell may be longer than the csv module takes.
        return any(line.strip("\r\n") for line in file)


def _lines(path: Path) -> Iterator[list[str]]:
    """The cells of each line that has any."""
    with _text(path) as file:
        try:
            yield from filter(None, csv.reader(file))
        except csv.Error as error:
            raise FileError(f"{path.name} is not understood: {error}") from None


def _text(path: Path) -> TextIO:
    return open(path, newline="", encoding="utf-8-sig", errors="replace")


class _Parquet:
    text = False

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._path = path
        try:
            self._file = self._opened(())
        except pyarrow.ArrowInvalid as error:
            raise FileError(f"{path.name} is no .parquet file: {error}") from None
        self.names: list[str] = self._file.schema_arrow.names
        self.total = self._file.metadata.num_rows

    def _opened(self, as_dictionaries: Sequence[str]) -> Any:
        from pyarrow.parquet import ParquetFile

        # Without these, pyarrow reads as much in one go as stands in a row, and holds it to the end.
        return ParquetFile(
            self._path, read_dictionary=[*as_dictionaries], pre_buffer=False, buffer_size=READ_BYTES
        )

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        schema = self._file.schema_arrow
        return {name: schema.field(name).type for name in names if name in schema.names}

    def repeated(self, names: Sequence[str]) -> list[str]:
        import pyarrow as pa

        schema = self._file.schema_arrow
        return [
            name
            for name, column in self._stored()
            if name in names and _repeats(column) and schema.field(name).type == pa.string()
        ]

    def encoding(self, names: Sequence[str], kept: Sequence[str]) -> dict[str, Any]:
        compression = dict.fromkeys(names, "SNAPPY")
        compression |= {name: c.compression.replace("UNCOMPRESSED", "NONE") for name, c in self._stored()}
        # The results of a scan differ from each other: to try a dictionary takes half of the time to write.
        repeated = [name for name, c in self._stored() if name.split(".")[0] in kept and _repeats(c)]
        return {"compression": compression, "use_dictionary": repeated or False}

    def _stored(self) -> Iterator[tuple[str, Any]]:
        """How the first rows of each column are stored; a nested column's parts have names with dots."""
        metadata = self._file.metadata
        if metadata.num_row_groups:
            group = metadata.row_group(0)
            columns = (group.column(c) for c in range(group.num_columns))
            yield from ((column.path_in_schema, column) for column in columns)

    def blocks(
        self, first: int, names: Sequence[str], types: dict[str, Any], kept: Sequence[str]
    ) -> Iterator[tuple[int, Any, Any]]:
        import pyarrow as pa

        row, metadata = 0, self._file.metadata
        if not self.total:
            empty = pa.RecordBatch.from_pylist([], self._file.schema_arrow)
            yield 0, empty.select([*names]), empty.select([*kept])
        groups = []
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if not groups and row + rows <= first:
                row += rows
            else:
                groups.append(group)
        # Text that few words make up is five times as fast to read, and to write, as the numbers of the words.
        words = self.repeated([name for name in kept if name not in names])
        words += [name for name in names if name in types and pa.types.is_dictionary(types[name])]
        columns = list(dict.fromkeys((*names, *kept)))
        for batch in self._opened(words).iter_batches(BLOCK_ROWS, groups, columns):
            skipped = min(max(first - row, 0), batch.num_rows)
            row += batch.num_rows
            if skipped < batch.num_rows:
                block = batch.slice(skipped)
                yield row, block.select([*names]), block.select([*kept])


def _repeats(column: Any) -> bool:
    """Whether a dictionary makes this part of a column shorter."""
    plain = _PLAIN.get(column.physical_type, 0) * column.num_values
    return column.has_dictionary_page and column.total_uncompressed_size < plain
