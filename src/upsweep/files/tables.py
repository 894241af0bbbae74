"""Columns of .csv and .parquet files: read into plain files of numbers, and written beside those that are kept."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.files.arrays import FileError, chosen
from upsweep.files.blocks import BLOCK_ROWS, Table, opened
from upsweep.files.heads import column_of
from upsweep.files.work import load, store
from upsweep.segments import EACH, Segments

Report = Callable[[str, int, int], None]


def read(
    source: Path, folder: Path, columns: tuple[str, ...], dtypes: tuple[np.dtype, ...] | None,
    segments: Segments | None, report: Report,
) -> tuple[tuple[str, ...], list[Path], tuple[np.dtype, ...], np.ndarray | None]:  # fmt: skip
    """The columns to scan: their names, the plain files of the work folder that they are read into, their dtypes, and flags
    where segments name a column."""
    table = opened(source)
    spelling, key = segments.spelling if segments else "", column_of(segments)
    if key and spelling not in EACH:
        raise FileError(f"{spelling} are fewer than rows, so {key!r} cannot hold them: pass a .npy file")
    names = _chosen(table.names, columns, key)
    progress = load(folder, "read") or {"rows": 0, "done": 0, "types": {}, "last": None}
    if dtypes and not progress["types"]:
        progress["types"] = {name: d.str for name, d in zip(names, dtypes * len(names))}
    paths = [folder / f"column{c}.bin" for c in range(len(names))]
    heads = folder / "heads.bin"
    _cut(paths, heads if key else None, progress)
    for done, block in table.blocks(progress["rows"], [*names, *([key] if key else [])], progress["types"]):
        report("reading", progress["done"], table.total)
        for name, path in zip(names, paths):
            values = _numbers(name, block[name], progress["types"])
            with open(path, "ab") as file:
                values.tofile(file)
            progress["types"][name] = values.dtype.str
        if key:
            flags, progress["last"] = _flags(spelling, key, block[key], progress["last"])
            with open(heads, "ab") as file:
                flags.tofile(file)
        progress["rows"] += block.num_rows
        progress["done"] = done
        store(folder, "read", progress)
    report("reading", table.total, table.total)
    made = tuple(np.dtype(progress["types"].get(name, "f8")) for name in names)
    return names, paths, made, _mapped(heads, "u1") if key else None


def check(source: Path, columns: tuple[str, ...], names: tuple[str, ...], keep: Sequence[str] | None) -> None:
    """A FileError where a name means two columns, or a result would take the place of a column that is kept."""
    have = opened(source).names
    for told in (have, columns):
        twice = [name for name in dict.fromkeys(told) if told.count(name) > 1]
        if twice:
            raise FileError(f"there are two columns {twice[0]!r}: pass each once, by a name of its own")
    lost = [
        name
        for name in names
        if columns and name in have and name not in columns and (keep is None or name in keep)
    ]
    if lost:
        raise FileError(f"there is a column {lost[0]!r} already: choose another name, or do not keep it")


def kept_of(source: Path, made: Sequence[str], keep: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a table that go to the target as they are: those named, or all but those in whose place results stand."""
    if keep is None:
        return tuple(name for name in opened(source).names if name not in made)
    chosen(tuple(opened(source).names), tuple(keep))
    return tuple(name for name in keep if name not in made)


def write(
    result: Path, made: tuple[str, ...], kept: tuple[str, ...], source: Path, path: Path, report: Report
) -> Path:
    """The result as a table, with the columns that are kept where they stood, and new ones behind them."""
    import pyarrow as pa

    y, table = _loaded(result), opened(source)
    parts = {name: y[name] for name in made} if y.dtype.names else {made[0]: y}
    names = [name for name in table.names if name in parts or name in kept]
    names += [name for name in made if name not in names]
    types = {name: _type_of(part.dtype, table.types((name,)).get(name)) for name, part in parts.items()}
    types |= table.types(kept)
    schema = pa.schema([(name, types[name]) for name in names])
    with open(path, "wb") as file, _writer(file, schema, kept, path.suffix) as put:
        start = 0
        for block in _kept_blocks(table, kept, y.size):
            report("writing", start, y.size)
            stop = start + block.num_rows
            columns = [
                block[name] if name in kept else pa.array(np.array(parts[name][start:stop])).cast(types[name])
                for name in names
            ]
            put(pa.table(columns, schema=schema))
            start = stop
    report("writing", y.size, y.size)
    return path


def _type_of(dtype: np.dtype, source: Any) -> Any:
    """The type of a result; times have the zone of the column that they are made of."""
    import pyarrow as pa

    made = pa.from_numpy_dtype(dtype)
    zone = getattr(source, "tz", None)
    return pa.timestamp(made.unit, zone) if zone and pa.types.is_timestamp(made) else made


def _kept_blocks(table: Table, kept: tuple[str, ...], rows: int) -> Iterator[Any]:
    """Blocks of the columns that are kept; where none is, blocks that say no more than how many rows they have."""
    if kept:
        yield from (block for _, block in table.blocks(0, list(kept), {}, as_they_are=True))
        return
    for start in range(0, rows, BLOCK_ROWS):
        yield _Rows(min(BLOCK_ROWS, rows - start))


class _Rows:
    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows


class _writer:
    """Writes blocks of rows, as a function of each."""

    def __init__(self, file: Any, schema: Any, kept: tuple[str, ...], suffix: str) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        self._file = file
        if suffix == ".csv":
            pyarrow.csv.write_csv(schema.empty_table(), file)
            self._parquet = None
        else:
            # A dictionary of a scan's results is as long as they are: trying it takes half of the time to write.
            encoded: Any = list(kept) or False
            self._parquet = pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=encoded)

    def __enter__(self) -> Callable[[Any], None]:
        return self._parquet.write_table if self._parquet else self._lines

    def __exit__(self, *_: Any) -> None:
        if self._parquet:
            self._parquet.close()

    def _lines(self, block: Any) -> None:
        """Text without quotes as it stood, where no cell needs them."""
        import pyarrow as pa
        from pyarrow.csv import WriteOptions, write_csv

        lines = io.BytesIO()
        try:
            write_csv(block, lines, WriteOptions(include_header=False, quoting_style="none"))
        except pa.ArrowInvalid:
            lines = io.BytesIO()
            write_csv(block, lines, WriteOptions(include_header=False, quoting_style="needed"))
        self._file.write(lines.getbuffer())


def _chosen(have: list[str], asked: tuple[str, ...], key: str) -> tuple[str, ...]:
    """The columns to scan."""
    chosen(tuple(have), (*asked, *([key] if key else [])))
    names = asked or tuple(name for name in have if name != key)
    if not names:
        raise FileError("there is no column to scan")
    if not asked and all(map(_is_number, have)):
        raise FileError(
            f"the first line names the columns, and there are numbers in it, {', '.join(have[:5])}: say which column to scan"
        )
    if len(names) > 1 and not asked:
        raise FileError(f"say which to scan: {', '.join(names)}")
    return names


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _cut(paths: list[Path], heads: Path | None, progress: dict[str, Any]) -> None:
    """Cut off the bytes that were written after the last checkpoint."""
    sizes = [np.dtype(t).itemsize for t in progress["types"].values()] or [0] * len(paths)
    for path, size in [*zip(paths, sizes), *([(heads, 1)] if heads else [])]:
        with open(path, "ab") as file:
            file.truncate(progress["rows"] * size)


def _loaded(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError:
        # An empty file cannot be mapped.
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


def _flags(spelling: str, name: str, column: Any, last: str | None) -> tuple[np.ndarray, str | None]:
    """Where segments start in one block of a column, and its last key, or end, for the block behind it."""
    import pyarrow as pa

    column = column.combine_chunks()
    if spelling != "keys":
        if column.null_count or not (pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)):
            raise FileError(
                f"{spelling} must be booleans or integers, none missing; column {name!r} holds {column.type}"
            )
        marks = (column.to_numpy(zero_copy_only=False) != 0).view(np.uint8)
        if spelling == "flags" or not marks.size:
            return marks, last
        return np.append(np.uint8(last == "end"), marks[:-1]), "end" if marks[-1] else None
    keys, own = _keys(name, column)
    flags = np.ones(keys.size, np.uint8)
    flags[1:] = keys[1:] != keys[:-1]
    if keys.size:
        flags[0] = last is None or own(0) != last
        last = own(-1)
    return flags, last


def _keys(name: str, column: Any) -> tuple[np.ndarray, Callable[[int], str]]:
    """Keys as numbers that compare as the keys do, and the words that tell a key from those of other blocks."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        # Both zeros are one key, and no NaN equals another.
        return values, lambda at: f"{values[at] + 0.0!r}" if values[at] == values[at] else f"NaN {at}"
    try:
        codes = column.dictionary_encode("encode").indices.to_numpy()
    except pa.ArrowNotImplementedError:
        raise FileError(f"column {name!r} holds {column.type}, of which no keys are made") from None
    return codes, lambda at: repr(column[at].as_py())
