"""Tables on their way into .csv and .parquet files, block by block; after a kill a file is gone on with."""

from __future__ import annotations

import io
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from upsweep.files.arrays import FileError

GROUP_ROWS = 1 << 18
"""The least rows of a row group, but for the last one before a mark."""
LINES = 1 << 14
"""Lines of .csv that are made in one go: a million numbers in 1,024 at a time, 1; in 16,384, .89 of the time."""
LEVELS = 1 << 16
"""Values whose marks of what is missing are written in one go: 31 million in 1,024 at a time, 1; in 65,536, .92 of the time."""


class Target(Protocol):
    """A table that grows in a file."""

    def put(self, block: Any) -> None: ...

    def mark(self) -> Any:
        """Bring all blocks so far to the disk. Gives a mark, a value of JSON, from which another process goes on."""
        ...

    def close(self) -> None:
        """End the file."""
        ...


def opened(path: Path, schema: Any, encoding: dict[str, Any], mark: Any) -> Target:
    """A table that goes on at a mark, or starts where there is none."""
    return _Csv(path, schema, mark) if path.suffix == ".csv" else _Parquet(path, schema, encoding, mark)


def _cut(path: Path, size: int) -> Any:
    """The file, behind so many bytes."""
    path.touch()
    os.truncate(path, size)
    return path.open("ab")


def _synced(file: Any) -> int:
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


class _Csv:
    def __init__(self, path: Path, schema: Any, mark: int | None) -> None:
        header = b"" if mark else _header(schema)
        self._file = _cut(path, mark or 0)
        self._file.write(header)

    def put(self, block: Any) -> None:
        """Text without quotes as it stood, where no cell needs them."""
        import pyarrow as pa
        from pyarrow.csv import WriteOptions, write_csv

        def lines(quoting: Any) -> memoryview:
            made = io.BytesIO()
            options = WriteOptions(include_header=False, quoting_style=quoting, batch_size=LINES)
            write_csv(block, made, options)
            return made.getbuffer()

        try:
            made = lines("none")
        except pa.ArrowInvalid:
            made = lines("needed")
        self._file.write(made)

    def mark(self) -> int:
        return _synced(self._file)

    def close(self) -> None:
        self._file.close()


def _header(schema: Any) -> bytes:
    """The line of names of a .csv; a FileError where it cannot hold some column."""
    import pyarrow as pa
    from pyarrow.csv import write_csv

    made = io.BytesIO()
    # Schema.empty_table would import pandas.
    nothing = [pa.nulls(0, kind) for kind in schema.types]
    try:
        write_csv(pa.RecordBatch.from_arrays(nothing, schema=schema), made)
    except pa.ArrowInvalid:
        held = ", ".join(
            [f"{field.name!r} ({field.type})" for field in schema if pa.types.is_nested(field.type)]
        )
        raise FileError(
            f"a cell of a .csv has no room for {held}: keep= (--keep) names the columns to keep, and a .parquet holds all"
        ) from None
    return made.getvalue()


class _Parquet:
    """A writer knows no row groups but its own. So it ends at each mark and another one goes on from there, and a footer that
    names the row groups of all is written at the end."""

    def __init__(
        self, path: Path, schema: Any, encoding: dict[str, Any], mark: tuple[int, str] | None
    ) -> None:
        from pyarrow.parquet import read_metadata

        size, footer = mark or (0, "")
        self._file, self._schema, self._encoding = _cut(path, size), schema, encoding
        self._whole: Any = read_metadata(io.BytesIO(b64decode(footer))) if footer else None
        self._writer: Any = None

    def put(self, block: Any) -> None:
        self._writer = self._writer or _Writer(self._file, block.schema, self._encoding)
        self._writer.put(block)

    def mark(self) -> tuple[int, str]:
        footer = self._footer()
        return _synced(self._file), b64encode(footer).decode()

    def _footer(self) -> bytes:
        """The footer of all row groups so far, behind the four bytes with which a Parquet file starts."""
        from pyarrow.parquet import write_metadata

        if self._writer:
            ended, self._writer = self._writer.end(), None
            if self._whole:
                self._whole.append_row_groups(ended)
            else:
                self._whole = ended
        footer = io.BytesIO()
        write_metadata(self._schema, footer, metadata_collector=[self._whole] if self._whole else None)
        return footer.getvalue()

    def close(self) -> None:
        with self._file:
            footer = self._footer()
            self._file.write(footer[4 if self._file.tell() else 0 :])


class _Writer(io.RawIOBase):
    """A ParquetWriter, and the file that it writes to. It counts from 0, and offsets count from where the file starts: so it is
    told to write the bytes that stand there already, which are left out."""

    def __init__(self, file: Any, schema: Any, encoding: dict[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        self._file, self._left_out = file, file.tell()
        self._waiting: list[Any] = []
        sink = pa.PythonFile(self, mode="w")
        self._ended: list[Any] = []
        self._writer = ParquetWriter(
            sink, schema, write_batch_size=LEVELS, metadata_collector=self._ended, **encoding
        )
        nothing = pa.py_buffer(np.zeros(1 << 24, np.uint8))
        while self._left_out:
            sink.write(nothing.slice(0, min(self._left_out, nothing.size)))

    def put(self, block: Any) -> None:
        self._waiting.append(block)
        if sum(waiting.num_rows for waiting in self._waiting) >= GROUP_ROWS:
            self._group()

    def _group(self) -> None:
        """Write a row group of what waits for it."""
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting).unify_dictionaries())
            self._waiting = []

    def end(self) -> Any:
        """The footer's entries for these row groups; the footer itself is left out."""
        self._group()
        self._left_out = 1 << 62
        self._writer.close()
        return self._ended[0]

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._left_out:
            self._left_out -= len(data)
            return len(data)
        return self._file.write(data)
