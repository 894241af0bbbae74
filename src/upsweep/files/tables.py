"""Columns of .csv and .parquet files: which are scanned and which are kept, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.files.arrays import FileError, chosen
from upsweep.files.blocks import Table, ahead
from upsweep.files.call import Call
from upsweep.files.heads import columns_of
from upsweep.files.work import append, cut, load, store
from upsweep.segments import EACH

Report = Callable[[str, int, int], None]


class Columns:
    """The part of a table that is scanned: columns of numbers, and flags where segments name a column. A block's types and zones
    of times, and the last key or end in it, hold for the next."""

    def __init__(self, table: Table, call: Call) -> None:
        segments, dtypes = call.segments, call.dtype or ()
        self._spelling, keys = segments.spelling if segments else "", columns_of(segments)
        if keys and self._spelling not in (*EACH, "groups"):
            raise FileError(
                f"a column such as {keys[0]!r} has a value for each row, and {self._spelling} are fewer: pass a .npy file"
            )
        self.key = keys[0] if keys and self._spelling != "groups" else None
        self.names = _chosen(table.names, call.columns, keys)
        self.read = list(dict.fromkeys((*self.names, *keys)))
        # A map takes its columns as they stand; dtype= is that of the items that it makes.
        for d in () if call.map else dtypes:
            arrow_type(d, None)
        self.types = {} if call.map else {n: d.str for n, d in zip(self.names, dtypes * len(self.names))}
        self._missing_as_nan = bool(dtypes) and all(d.kind == "f" for d in dtypes)
        self._mapped = call.map is not None
        if table.text and self._spelling in ("keys", "groups"):
            # 007 is another key than 7.
            self.types |= dict.fromkeys((key for key in keys if key not in self.names), np.dtype(str).str)
        self.zones: dict[str, str] = {}
        self._last: str | None = None

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        return tuple(np.dtype(self.types.get(name, "f8")) for name in self.names)

    def read_as(self) -> dict[str, Any]:
        """The types that are known already, as Arrow has them."""
        return {name: arrow_type(np.dtype(t), self.zones.get(name)) for name, t in self.types.items()}

    def known(self) -> dict[str, Any]:
        """The types, the zones and the last key, which hold for the next block."""
        return {"types": self.types, "zones": self.zones, "last": self._last}

    def go_on(self, known: dict[str, Any]) -> None:
        """Go on behind a block, by the state that held then."""
        self.types, self.zones, self._last = known["types"], known["zones"], known["last"]

    def of(self, block: Any) -> tuple[list[np.ndarray], np.ndarray | None]:
        """The numbers of one block, and its flags."""
        self.zones |= {name: zone for name in self.names if (zone := getattr(block[name].type, "tz", None))}
        values = [self._numbers(name, block[name]) for name in self.names]
        self.types |= {name: v.dtype.str for name, v in zip(self.names, values)}
        if self.key is None:
            return values, None
        flags, self._last = _flags(self._spelling, self.key, block[self.key], self._last)
        return values, flags

    def _numbers(self, name: str, column: Any) -> np.ndarray:
        import pyarrow as pa

        known = pa.from_numpy_dtype(np.dtype(self.types[name])) if name in self.types else column.type
        if column.type != known:
            # Not where nothing changes: the first cast imports for as long as half a million numbers take to scan.
            column = _cast(name, column, known)
        t = column.type
        floats = pa.types.is_floating(t)
        if column.null_count and pa.types.is_primitive(t) and not (floats and self._missing_as_nan):
            number = floats or (not self._mapped and (pa.types.is_integer(t) or pa.types.is_boolean(t)))
            how = "dtype='float64' (--dtype float64) reads them as NaN" if number else "fill them first"
            raise FileError(f"column {name!r} of {t} has missing values: {how}")
        try:
            values = numbers_of(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FileError(f"column {name!r} of {t} cannot be scanned: {error}") from None
        if values.dtype.kind not in "biufmM":
            raise FileError(f"column {name!r} holds {_what(column)}, which cannot be scanned{_instead(t)}")
        return values


def _cast(name: str, column: Any, known: Any) -> Any:
    """A column as numbers of another type. Integers become the nearest floats, as NumPy's do."""
    import pyarrow as pa

    rounds = pa.types.is_integer(column.type) and pa.types.is_floating(known)
    try:
        return column.cast(known, safe=not rounds)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FileError(f"column {name!r} of {column.type} cannot be read as {known}: {error}") from None


def _what(column: Any) -> str:
    """The kind of values that a block of a column holds, with the first text that is no number: it may be in a later block."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return str(column.type)
    text = next((text for text in column.to_pylist() if text and not _is_number(text)), None)
    return "text" if text is None else f"text, such as {text!r}"


def _instead(t: Any) -> str:
    """The end of an error: how to read a column of type `t`, which cannot be scanned as it is stored."""
    import pyarrow as pa

    if pa.types.is_null(t):
        return ": it begins with missing values, and dtype= (--dtype) says what the others are"
    return ": dtype='float64' (--dtype float64) reads it as floats" if pa.types.is_decimal(t) else ""


def arrow_type(dtype: np.dtype, zone: str | None) -> Any:
    """The type of numbers, or of times in a zone."""
    import pyarrow as pa

    try:
        made = pa.from_numpy_dtype(dtype)
    except pa.ArrowNotImplementedError:
        raise FileError(f"a table has no columns of {dtype.name}") from None
    return pa.timestamp(made.unit, zone) if zone and pa.types.is_timestamp(made) else made


def read(
    table: Table, columns: Columns, folder: Path, report: Report
) -> tuple[list[Path], np.ndarray | None]:
    """The plain files of the work folder that the columns are read into, and flags where segments name a column."""
    progress = load(folder, "read") or {"rows": 0, "done": 0, **columns.known()}
    columns.go_on(progress)
    paths = [folder / f"column{c}.bin" for c in range(len(columns.names))]
    heads = [folder / "heads.bin"] if columns.key is not None else []
    cut([*zip(paths, columns.dtypes), *zip(heads, [np.dtype("u1")])], progress["rows"])
    for done, block, _ in ahead(table.blocks(progress["rows"], columns.read, columns.read_as(), ())):
        report("reading", progress["done"], table.total)
        values, flags = columns.of(block)
        parts = values if flags is None else [*values, flags]
        for part, path in zip(parts, [*paths, *heads]):
            append(path, part)
        progress = {"rows": progress["rows"] + block.num_rows, "done": done, **columns.known()}
        store(folder, "read", progress)
    report("reading", table.total, table.total)
    # An empty file cannot be mapped.
    flags = [np.memmap(path, "u1", "r") if progress["rows"] else np.empty(0, "u1") for path in heads]
    return paths, flags[0] if flags else None


def check(table: Table, columns: tuple[str, ...], names: tuple[str, ...], keep: Sequence[str] | None) -> None:
    """A FileError where a name means two columns, or a result would take the place of a column that is kept."""
    have = table.names
    for told in (have, columns, names, tuple(keep or ())):
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


def kept_of(table: Table, made: Sequence[str], keep: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a table that go to the target as they are: those named, or all but those in whose place results stand."""
    if keep is None:
        return tuple(name for name in table.names if name not in made)
    chosen(tuple(table.names), tuple(keep))
    return tuple(name for name in keep if name not in made)


def _chosen(have: list[str], asked: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The columns to scan."""
    chosen(tuple(have), (*asked, *keys))
    names = asked or tuple(name for name in have if name not in keys)
    if not names:
        raise FileError("there is no column to scan")
    if not asked and all(map(_is_number, have)):
        raise FileError(
            f"the first line names the columns, and there are numbers in it, {', '.join(have[:5])}: "
            "put a line of names in front, or say which column to scan"
        )
    if len(names) > 1 and not asked:
        raise FileError(f"say which to scan, by columns= (--column): {', '.join(names)}")
    return names


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def numbers_of(column: Any) -> np.ndarray:
    """The numbers, times or truths of a column; missing floats are NaN."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))
    # For numbers there is a way that does not import pandas, which takes as long as to read a hundred megabytes.
    whole = column.fill_null(np.nan) if column.null_count else column
    kind = (
        "f"
        if pa.types.is_floating(column.type)
        else "u"
        if pa.types.is_unsigned_integer(column.type)
        else "i"
    )
    dtype = np.dtype(f"{kind}{column.type.bit_width // 8}")
    return np.frombuffer(whole.buffers()[1], dtype)[whole.offset : whole.offset + len(whole)]


def _flags(spelling: str, name: str, column: Any, last: str | None) -> tuple[np.ndarray, str | None]:
    """Where segments start in one block of a column, and its last key, or end, for the block behind it."""
    import pyarrow as pa

    if spelling != "keys":
        whole = pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)
        # A .csv without rows does not say what its columns hold.
        if column.null_count or not (whole or not len(column)):
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
    if pa.types.is_temporal(column.type) and column.type.bit_width <= 64:
        # Python has neither nanoseconds nor years of five digits.
        column = column.view(f"int{column.type.bit_width}")
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        # Both zeros are one key, and no NaN equals another.
        return values, lambda at: f"{values[at] + 0.0!r}" if values[at] == values[at] else f"NaN {at}"
    try:
        codes = column.dictionary_encode("encode").indices.to_numpy()
    except pa.ArrowNotImplementedError:
        raise FileError(f"column {name!r} holds {column.type}, which cannot be keys") from None
    return codes, lambda at: repr(column[at].as_py())
