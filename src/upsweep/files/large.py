"""The results of a part of all rows: by one call, but for groups that may not fit the memory. These are fed to streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from upsweep.api import scan
from upsweep.components import bare, tupled
from upsweep.files.call import Call, Part
from upsweep.files.divided import Divided, joined
from upsweep.segments import groups
from upsweep.stream import Stream

LARGE_ROWS = 1 << 21
"""A group with more rows is fed to a stream. By one call, a row takes some 50 bytes."""


def scanned(
    divided: Divided, number: int, parts: Sequence[Part], dtypes: Sequence[np.dtype], call: Call
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The results of a part, stretch by stretch: the place of its first row in the part, and its results."""
    import pyarrow as pa

    rows = divided.counts[number]
    large = _large(divided, number) if rows > LARGE_ROWS else []
    if not large:
        yield 0, _by_one_call(parts, call, *divided.columns(joined([*divided.pieces(number)])))
        return
    step, place, taken = -1 if call.reverse else 1, rows if call.reverse else 0, 0
    others = [piece.filter(pa.array(_which(divided, piece, large) < 0)) for piece in divided.pieces(number)]
    small = [np.empty(0, dtype) for dtype in dtypes]
    if any(piece.num_rows for piece in others):
        small = _by_one_call(parts, call, *divided.columns(joined(others)))
    streams = [
        [Stream(call.op, axis=call.axis, initial=part.initial, **part.keywords()) for part in parts]
        for _ in large
    ]
    for piece in divided.pieces(number, step):
        which = _which(divided, piece, large)[::step]
        values = [v[::step] for v in divided.columns(piece)[0]]
        made = [np.empty(which.size, dtype) for dtype in dtypes]
        here = np.flatnonzero(which < 0)
        for result, known in zip(made, small):
            result[here] = known[::step][taken : taken + here.size]
        taken += here.size
        for group in range(len(large)):
            here = np.flatnonzero(which == group)
            for part, stream in zip(parts, streams[group]):
                pushed = stream.push(bare(tuple(v[here] for v in values[part.inputs])))
                for result, y in zip(made[part.results], tupled(pushed)):
                    result[here] = y
        place -= which.size if call.reverse else 0
        yield place, [result[::step] for result in made]
        place += 0 if call.reverse else which.size


def _by_one_call(
    parts: Sequence[Part], call: Call, values: list[np.ndarray], keys: list[Any]
) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for part in parts:
        made += tupled(
            scan(
                bare(tuple(values[part.inputs])), call.op, initial=part.initial, reverse=call.reverse, segments=groups(*keys),
                **part.keywords(),
            )
        )  # fmt: skip
    return made


def _large(divided: Divided, number: int) -> list[tuple[Any, ...]]:
    """The keys of the groups of a part that are fed to streams."""
    import pyarrow as pa

    counted: Any = None
    for piece in divided.pieces(number):
        table = pa.Table.from_batches([piece]).select(range(len(divided.dtypes), piece.num_columns))
        names = table.column_names
        table = table.append_column("rows", pa.array(np.ones(piece.num_rows, np.int64)))
        table = table if counted is None else pa.concat_tables([counted, table])
        counted = table.group_by(names).aggregate([("rows", "sum")]).select([*names, "rows_sum"])
        counted = counted.rename_columns([*names, "rows"])
    found = counted.filter(pa.array(counted["rows"].to_numpy() > LARGE_ROWS))
    return [tuple(found[name][row] for name in found.column_names[:-1]) for row in range(found.num_rows)]


def _which(divided: Divided, piece: Any, large: list[tuple[Any, ...]]) -> np.ndarray:
    """The number of the group of each row among the large ones; -1 of all others."""
    from pyarrow.compute import call_function

    which = np.full(piece.num_rows, -1)
    columns = piece.columns[len(divided.dtypes) :]
    for group, keys in enumerate(large):
        same = np.ones(piece.num_rows, bool)
        for column, key in zip(columns, keys):
            equal = (
                call_function("equal", [column, key]).fill_null(False) if key.is_valid else column.is_null()
            )
            same &= equal.to_numpy(zero_copy_only=False)
        which[same] = group
    return which
