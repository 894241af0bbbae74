"""Columns of .csv and .parquet files: read into plain files of numbers, and written from them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.cli.segments import spelt
from upsweep.cli.work import Options, load, store

SUFFIXES = (".csv", ".parquet")
BLOCK_BYTES = 1 << 24
BLOCK_ROWS = 1 << 20

Report = Callable[[str, int, int], None]


def read(
    source: Path, folder: Path, options: Options, report: Report
) -> tuple[tuple[np.ndarray, ...], tuple[str, ...], np.ndarray | None]:
    """The columns to scan as arrays that lie in the work folder, their names, and flags where --segments names a column."""
    table = _Csv(source) if source.suffix == ".csv" else _Parquet(source)
    spelling, key = spelt(options.segments) if options.segments else ("", "")
    key = "" if key.endswith(".npy") else key
    if key and spelling not in ("flags", "keys"):
        raise ValueError(f"--segments {options.segments}: {spelling} are fewer than rows, pass a .npy file")
    names = _chosen(table.names, options.columns, key)
    progress = load(folder, "read") or {"position": table.start, "rows": 0, "types": {}, "last": None}
    if options.dtype and not progress["types"]:
        progress["types"] = dict.fromkeys(names, options.dtype)
    paths = [folder / f"column{c}.bin" for c in range(len(names))]
    heads = folder / "heads.bin"
    _cut(paths, heads if key else None, progress)
    for position, columns in table.blocks(
        progress["position"], [*names, *([key] if key else [])], progress["types"]
    ):
        report("reading", progress["position"] - table.start, table.total - table.start)
        for name, path in zip(names, paths):
            values = _numbers(name, columns[name], progress["types"])
            with open(path, "ab") as file:
                values.tofile(file)
            progress["types"][name] = values.dtype.str
        if key:
            flags, progress["last"] = _flags(spelling, columns[key], progress["last"])
            with open(heads, "ab") as file:
                flags.tofile(file)
        progress["rows"] += len(columns[names[0]])
        progress["position"] = position
        store(folder, "read", progress)
    report("reading", table.total - table.start, table.total - table.start)
    xs = tuple(_mapped(path, progress["types"].get(name, "f8")) for name, path in zip(names, paths))
    return xs, names, _mapped(heads, "u1") if key else None


def write(ys: list[Any], names: tuple[str, ...], path: Path, suffix: str, report: Report) -> None:
    """The results as a table."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    schema = pa.schema([(name, pa.from_numpy_dtype(y.dtype)) for name, y in zip(names, ys)])
    writer = pyarrow.csv.CSVWriter if suffix == ".csv" else pyarrow.parquet.ParquetWriter
    n = ys[0].size
    with open(path, "wb") as file, writer(file, schema) as table:
        for start in range(0, n, BLOCK_ROWS):
            report("writing", start, n)
            table.write_table(pa.table([np.array(y[start : start + BLOCK_ROWS]) for y in ys], schema=schema))
    report("writing", n, n)


def _chosen(have: list[str], asked: tuple[str, ...], key: str) -> tuple[str, ...]:
    """The columns to scan."""
    for name in (*asked, *([key] if key else [])):
        if name not in have:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(have)}")
    names = asked or tuple(name for name in have if name != key)
    if len(names) > 1 and not asked:
        raise ValueError(f"say which to scan, --column with one of {', '.join(names)}")
    return names


def _cut(paths: list[Path], heads: Path | None, progress: dict[str, Any]) -> None:
    """Take off what was written after the last checkpoint."""
    sizes = [np.dtype(t).itemsize for t in progress["types"].values()] or [0] * len(paths)
    for path, size in [*zip(paths, sizes), *([(heads, 1)] if heads else [])]:
        with open(path, "ab") as file:
            file.truncate(progress["rows"] * size)


def _mapped(path: Path, dtype: str) -> np.ndarray:
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def _numbers(name: str, column: Any, types: dict[str, str]) -> np.ndarray:
    import pyarrow as pa

    if name in types:
        column = column.cast(pa.from_numpy_dtype(np.dtype(types[name])))
    if column.null_count and not pa.types.is_floating(column.type):
        raise ValueError(
            f"column {name!r} of {column.type} has missing values; --dtype float64 reads them as NaN"
        )
    try:
        values = np.ascontiguousarray(column.combine_chunks().to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r} of {column.type} cannot be scanned: {error}") from None
    if values.dtype.kind not in "biufmM":
        raise ValueError(f"column {name!r} holds {column.type}, which cannot be scanned")
    return values


def _flags(spelling: str, column: Any, last: str | None) -> tuple[np.ndarray, str | None]:
    """Where segments start in one block of a column, and its last key for the block behind it."""
    if spelling == "flags":
        return (column.combine_chunks().to_numpy(zero_copy_only=False) != 0).view(np.uint8), None
    codes = column.combine_chunks().dictionary_encode("encode").indices.to_numpy()
    flags = np.ones(codes.size, np.uint8)
    flags[1:] = codes[1:] != codes[:-1]
    if not codes.size:
        return flags, last
    flags[0] = repr(column[0].as_py()) != last
    return flags, repr(column[-1].as_py())


class _Csv:
    """A position is a byte, the first of a line. Line breaks within quotes are not looked for."""

    def __init__(self, path: Path) -> None:
        import pyarrow.csv

        self.path, self.total = path, path.stat().st_size
        with open(path, "rb") as file:
            header = file.readline()
            self.start = file.tell()
        if not header.strip():
            raise ValueError(f"{path.name} has no line of column names")
        self.names: list[str] = pyarrow.csv.read_csv(io.BytesIO(header)).column_names

    def blocks(
        self, position: int, names: list[str], types: dict[str, str]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        import pyarrow as pa
        import pyarrow.csv as csv

        reading = csv.ReadOptions(column_names=self.names, block_size=BLOCK_BYTES * 2)
        with open(self.path, "rb") as file:
            file.seek(position)
            while lines := file.read(BLOCK_BYTES) + file.readline():
                as_types = {name: pa.from_numpy_dtype(np.dtype(t)) for name, t in types.items()}
                converting = csv.ConvertOptions(include_columns=names, column_types=as_types)
                try:
                    table = csv.read_csv(io.BytesIO(lines), reading, convert_options=converting)
                except pa.ArrowInvalid as error:
                    raise ValueError(f"{error}; --dtype names another type to read as") from None
                yield file.tell(), {name: table[name] for name in names}


class _Parquet:
    """A position is a row group."""

    start = 0

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self.file = pyarrow.parquet.ParquetFile(path)
        self.names: list[str] = self.file.schema_arrow.names
        self.total = self.file.num_row_groups

    def blocks(
        self, position: int, names: list[str], types: dict[str, str]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for group in range(position, self.total):
            table = self.file.read_row_group(group, columns=names)
            yield group + 1, {name: table[name] for name in names}
