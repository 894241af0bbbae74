"""Columns of .csv and .parquet files: read into plain files of numbers, and written from them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.files.arrays import FileError, chosen
from upsweep.files.heads import column_of
from upsweep.files.work import load, store
from upsweep.segments import Segments

BLOCK_BYTES = 1 << 24
BLOCK_ROWS = 1 << 20

Report = Callable[[str, int, int], None]


def read(
    source: Path, folder: Path, columns: tuple[str, ...], dtypes: tuple[np.dtype, ...] | None,
    segments: Segments | None, report: Report,
) -> tuple[tuple[str, ...], list[Path], tuple[np.dtype, ...], np.ndarray | None]:  # fmt: skip
    """The columns to scan: their names, the plain files of the work folder that they are read into, their dtypes, and flags
    where segments name a column."""
    table = _Csv(source) if source.suffix == ".csv" else _Parquet(source)
    spelling, key = segments.spelling if segments else "", column_of(segments)
    if key and spelling not in ("flags", "keys"):
        raise FileError(f"{spelling} are fewer than rows, so {key!r} cannot hold them: pass a .npy file")
    names = _chosen(table.names, columns, key)
    progress = load(folder, "read") or {"position": table.start, "rows": 0, "types": {}, "last": None}
    if dtypes and not progress["types"]:
        progress["types"] = {name: d.str for name, d in zip(names, dtypes * len(names))}
    paths = [folder / f"column{c}.bin" for c in range(len(names))]
    heads = folder / "heads.bin"
    _cut(paths, heads if key else None, progress)
    for position, block in table.blocks(
        progress["position"], [*names, *([key] if key else [])], progress["types"]
    ):
        report("reading", progress["position"] - table.start, table.total - table.start)
        for name, path in zip(names, paths):
            values = _numbers(name, block[name], progress["types"])
            with open(path, "ab") as file:
                values.tofile(file)
            progress["types"][name] = values.dtype.str
        if key:
            flags, progress["last"] = _flags(spelling, block[key], progress["last"])
            with open(heads, "ab") as file:
                flags.tofile(file)
        progress["rows"] += len(block[names[0]])
        progress["position"] = position
        store(folder, "read", progress)
    report("reading", table.total - table.start, table.total - table.start)
    made = tuple(np.dtype(progress["types"].get(name, "f8")) for name in names)
    return names, paths, made, _mapped(heads, "u1") if key else None


def write(result: Path, names: tuple[str, ...], path: Path, report: Report) -> Path:
    """The result as a table."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    y = _loaded(result)
    parts = [y[name] for name in names] if y.dtype.names else [y]
    schema = pa.schema([(name, pa.from_numpy_dtype(part.dtype)) for name, part in zip(names, parts)])
    writer = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pyarrow.parquet.ParquetWriter
    with open(path, "wb") as file, writer(file, schema) as table:
        for start in range(0, y.size, BLOCK_ROWS):
            report("writing", start, y.size)
            rows = [np.array(part[start : start + BLOCK_ROWS]) for part in parts]
            table.write_table(pa.table(rows, schema=schema))
    report("writing", y.size, y.size)
    return path


def _chosen(have: list[str], asked: tuple[str, ...], key: str) -> tuple[str, ...]:
    """The columns to scan."""
    chosen(tuple(have), (*asked, *([key] if key else [])))
    names = asked or tuple(name for name in have if name != key)
    if len(names) > 1 and not asked:
        raise FileError(f"say which to scan: {', '.join(names)}")
    return names


def _cut(paths: list[Path], heads: Path | None, progress: dict[str, Any]) -> None:
    """Take off what was written after the last checkpoint."""
    sizes = [np.dtype(t).itemsize for t in progress["types"].values()] or [0] * len(paths)
    for path, size in [*zip(paths, sizes), *([(heads, 1)] if heads else [])]:
        with open(path, "ab") as file:
            file.truncate(progress["rows"] * size)


def _loaded(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError:  # nothing to map
        return np.load(path)


def _mapped(path: Path, dtype: str) -> np.ndarray:
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def _numbers(name: str, column: Any, types: dict[str, str]) -> np.ndarray:
    import pyarrow as pa

    if name in types:
        column = column.cast(pa.from_numpy_dtype(np.dtype(types[name])))
    if column.null_count and not pa.types.is_floating(column.type):
        raise FileError(
            f"column {name!r} of {column.type} has missing values; dtype=float64 reads them as NaN"
        )
    try:
        values = np.ascontiguousarray(column.combine_chunks().to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FileError(f"column {name!r} of {column.type} cannot be scanned: {error}") from None
    if values.dtype.kind not in "biufmM":
        raise FileError(f"column {name!r} holds {column.type}, which cannot be scanned")
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
            raise FileError(f"{path.name} has no line of column names")
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
                    raise FileError(f"{error}; dtype= names another type to read as") from None
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
