"""Tables in .csv and .parquet files, a block of rows at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from upsweep.files.arrays import FileError

BLOCK_BYTES = 1 << 24
BLOCK_ROWS = 1 << 20


class Table(Protocol):
    """A table in a file. `total` is what progress is counted in: bytes of text, or rows."""

    names: list[str]
    total: int

    def types(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The types of columns that are kept as they are."""
        ...

    def blocks(
        self, first: int, names: list[str], types: dict[str, str], as_they_are: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Blocks of rows from row `first` on, each with how much of `total` is done behind it. Columns named in `types` are
        read as those; with `as_they_are` text stays text."""
        ...


def opened(path: Path) -> Table:
    return _Csv(path) if path.suffix == ".csv" else _Parquet(path)


class _Csv:
    def __init__(self, path: Path) -> None:
        import pyarrow.csv

        self._path, self.total = path, path.stat().st_size
        with open(path, "rb") as file:
            header = file.readline()
        if not header.strip():
            raise FileError(f"{path.name} has no line of column names")
        if b"\r" in header.rstrip(b"\r\n"):
            raise FileError(
                f"the lines of {path.name} end in carriage returns alone: convert it first, by tr '\\r' '\\n'"
            )
        self.names: list[str] = pyarrow.csv.read_csv(io.BytesIO(header)).column_names

    def types(self, names: tuple[str, ...]) -> dict[str, Any]:
        import pyarrow as pa

        return dict.fromkeys(names, pa.string())

    def blocks(
        self, first: int, names: list[str], types: dict[str, str], as_they_are: bool = False
    ) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa
        from pyarrow import csv

        as_types = {name: pa.from_numpy_dtype(np.dtype(t)) for name, t in types.items()}
        as_types |= self.types(tuple(names)) if as_they_are else {}
        with pa.OSFile(str(self._path)) as file:
            if not _has_rows(self._path):
                return
            try:
                lines = csv.open_csv(
                    file,
                    csv.ReadOptions(block_size=BLOCK_BYTES),
                    csv.ParseOptions(newlines_in_values=True),
                    csv.ConvertOptions(include_columns=names, column_types=as_types),
                )
                for batch in lines:
                    skipped = min(first, batch.num_rows)
                    first -= skipped
                    if skipped < batch.num_rows:
                        yield min(file.tell(), self.total), pa.table(batch.slice(skipped))
            except pa.ArrowInvalid as error:
                raise FileError(f"{error}; dtype= names another type to read as") from None


def _has_rows(path: Path) -> bool:
    """Whether anything follows the header, of which pyarrow infers no types."""
    with open(path, "rb") as file:
        file.readline()
        return bool(file.read(1))


class _Parquet:
    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except pyarrow.ArrowInvalid as error:
            raise FileError(f"{path.name} is no .parquet file: {error}") from None
        self.names: list[str] = self._file.schema_arrow.names
        self.total = self._file.metadata.num_rows

    def types(self, names: tuple[str, ...]) -> dict[str, Any]:
        schema = self._file.schema_arrow
        return {name: schema.field(name).type for name in names if name in schema.names}

    def blocks(
        self, first: int, names: list[str], types: dict[str, str], as_they_are: bool = False
    ) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa

        row = 0
        if not self.total:
            yield 0, self._file.schema_arrow.empty_table().select(names)
        for batch in self._file.iter_batches(BLOCK_ROWS, columns=names):
            skipped = min(max(first - row, 0), batch.num_rows)
            row += batch.num_rows
            if skipped < batch.num_rows:
                yield row, pa.table(batch.slice(skipped))
