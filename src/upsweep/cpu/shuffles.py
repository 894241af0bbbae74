"""Vectors of LLVM's, whose items are brought into another order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from upsweep.cpu.address import I32


def vector(size: int, bytes_: int) -> Any:
    """LLVM's type of a vector of items of this size, so many bytes long."""
    return ir.VectorType(ir.IntType(8 * size), bytes_ // size)


def shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    """The items at these places of two vectors."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))


def transposed(builder: Any, rows: list[Any], n: int) -> list[Any]:
    """n vectors of two halves with n items each, transposed half by half: log2(n) rounds of perfect shuffles."""
    low = [half + k + other for half in (0, n) for k in range(n // 2) for other in (0, 2 * n)]
    high = [k + n // 2 for k in low]
    for _ in range(n.bit_length() - 1):
        pairs = zip(rows[: n // 2], rows[n // 2 :])
        rows = [shuffle(builder, a, b, places) for a, b in pairs for places in (low, high)]
    return rows


def rows_of(builder: Any, runs: list[Any], n: int, lanes: int) -> list[Any]:
    """n rows with an item of each lane, from n items of each lane."""
    if lanes == 2 * n:
        pairs = zip(runs[:n], runs[n:])
        return transposed(builder, [shuffle(builder, a, b, list(range(2 * n))) for a, b in pairs], n)
    flat = _zipped(builder, runs, n)
    return [
        shuffle(builder, part, part, list(range(at, at + lanes)))
        for part in flat
        for at in range(0, n, lanes)
    ]


def runs_of(builder: Any, rows: list[Any], n: int, lanes: int) -> list[Any]:
    """n items of each lane, from n rows with an item of each lane."""
    if lanes == 2 * n:
        rows = transposed(builder, rows, n)
        return [shuffle(builder, row, row, list(range(at, at + n))) for at in (0, n) for row in rows]
    while len(rows) > lanes:
        width = 2 * rows[0].type.count
        rows = [shuffle(builder, a, b, list(range(width))) for a, b in zip(rows[::2], rows[1::2])]
    for _ in range(n.bit_length() - 1):
        rows = _zipped_once(builder, rows, n)
    return rows


def whole_runs_of(builder: Any, rows: list[Any]) -> list[Any]:
    """As many items of each lane as there are lanes, from as many rows."""
    n = len(rows) // 2
    pairs = list(zip(transposed(builder, rows[:n], n), transposed(builder, rows[n:], n)))
    places = [[at + k for k in (*range(n), *range(2 * n, 3 * n))] for at in (0, n)]
    return [shuffle(builder, a, b, half) for half in places for a, b in pairs]


def _zipped(builder: Any, rows: list[Any], n: int) -> list[Any]:
    """Vectors of n items, transposed as one list: log2 of their number rounds of perfect shuffles."""
    for _ in range(len(rows).bit_length() - 1):
        rows = _zipped_once(builder, rows, n)
    return rows


def _zipped_once(builder: Any, rows: list[Any], n: int) -> list[Any]:
    half = len(rows) // 2
    low = [k + other for k in range(n // 2) for other in (0, n)]
    high = [k + n // 2 for k in low]
    return [
        shuffle(builder, a, b, places) for a, b in zip(rows[:half], rows[half:]) for places in (low, high)
    ]
