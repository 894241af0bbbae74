"""Random calls for the sweeps of a GPU and of a CPU: which calls a seed draws, and how their arrays lie.

A call is drawn by its dtype, operator, shape, axis, layout, form, order and segments; none of them is from a table.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

OPERATORS = {
    "f": ("add", "max", "min", "mul", "last", "logaddexp"), "i": ("add", "max", "min", "and", "xor"), "c": ("add", "mul"),
    "?": ("or", "and", "xor"),
}  # fmt: skip
DTYPES = {
    "f4": ("f", 4),
    "f8": ("f", 8),
    "bf16": ("f", 2),
    "f2": ("f", 2),
    "i1": ("i", 1),
    "u1": ("i", 1),
    "i2": ("i", 2),
    "i4": ("i", 4),
    "i8": ("i", 8),
    "c8": ("c", 8),
    "?": ("?", 1),
}
"""What sort of number each is, and its bytes."""
SPELLINGS = ("flags", "keys", "lengths", "offsets")


class Drawn(NamedTuple):
    """What calls are drawn from."""

    dtypes: tuple[str, ...]
    logs: tuple[float, float]
    """The logarithms of the least and the most bytes of the items, between which those of a call are drawn evenly."""
    rows: int
    """Calls with fewer rows are drawn in tree order."""
    segments: dict[str, tuple[str, ...]]
    """Spellings by kind of call."""


GPU = Drawn(tuple(DTYPES), (24, 29), 4096, {"scan": SPELLINGS})
"""Fewer rows are slow in order, by nature."""
_SEGMENTED = (*SPELLINGS, "groups")
CPU = Drawn(
    tuple(d for d in DTYPES if d != "bf16"), (0, 26), 1, {"scan": _SEGMENTED, "recurrence": _SEGMENTED}
)


class Call(NamedTuple):
    """A scan, a reduction or a recurrence, as words that say it."""

    kind: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    axis: int
    lies: str
    """"plain", "transposed" (first and last dimension), "stepped" (`x[..., ::2]`), "cut" (`x[..., 1:]`) or "broadcast"; of a
    recurrence what its multiplier is: "full", one number a step ("steps"), a channel ("channels"), or 0-d ("one")."""
    segments: str
    forms: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        forms = " ".join(f"{name}={value}" for name, value in self.forms)
        shape = "x".join(map(str, self.shape))
        words = (self.kind, self.op, self.dtype, shape, f"axis {self.axis}", self.lies, self.segments, forms)
        return " ".join(filter(None, words))


def drawn(seed: int, count: int, of: Drawn) -> list[Call]:
    rng = random.Random(seed)
    return [_one(rng, of) for _ in range(count)]


def _one(rng: random.Random, of: Drawn) -> Call:
    dtype = rng.choice(of.dtypes)
    kind = rng.choices(("scan", "reduce", "recurrence"), (7, 1, 2))[0]
    if kind == "recurrence":
        dtype = rng.choice([d for d in ("f4", "f8", "bf16", "f2", "c8") if d in of.dtypes])
    sort, size = DTYPES[dtype]
    shape, axis = _shape(rng, max(1, int(2 ** rng.uniform(*of.logs)) // size))
    forms: dict[str, Any] = {
        name: True for name in ("exclusive", "reverse") if rng.random() < 0.15 and kind == "scan"
    }
    if rng.random() < 0.12 and kind == "scan":
        forms["initial"] = dtype == "?" or 1
    if rng.random() < 0.25 and prod(shape) // shape[axis] >= of.rows:
        forms["order"] = "sequential"
    op, lies = "affine", rng.choice(("full", "full", "steps", "channels", "one"))
    if kind != "recurrence":
        op = rng.choice([o for o in OPERATORS[sort] if o != "last" or "exclusive" not in forms])
        lies = rng.choice(("plain",) * 6 + ("transposed", "stepped", "cut", "broadcast"))
    segments = rng.choice(("",) * 6 + of.segments[kind]) if kind in of.segments else ""
    return Call(kind, op, dtype, shape, axis, lies, segments, tuple(forms.items()))


def _shape(rng: random.Random, items: int) -> tuple[tuple[int, ...], int]:
    """A shape of about so many items, and the axis: one row, rows, columns, an axis between two others, or four dimensions."""

    def side(most: int) -> int:
        return int(2 ** rng.uniform(1, min(most, items.bit_length() - 1)))

    form = rng.choice(("row", "rows", "rows", "columns", "columns", "between", "between", "four"))
    if form == "row":
        return (items + rng.randrange(7),), 0
    if form in ("rows", "columns"):
        n = side(17)
        other = max(1, items // n)
        return ((other, n), 1) if form == "rows" else ((other, n), 0)
    if form == "between":
        a, b = side(11), side(11)
        return (a, max(2, items // (a * b)), b), 1
    a, b, c = side(6), side(6), side(8)
    return (a, b, max(2, items // (a * b * c)), c), rng.choice((1, 2, 3))


def laid(call: Call) -> tuple[tuple[int, ...], Callable[[Any], Any]]:
    """The shape of the array of which the items are a view, but for broadcasting to the call's shape, and that view."""
    *rest, last = call.shape
    if call.lies == "transposed" and rest:
        return (last, *rest[1:], rest[0]), lambda x: x.swapaxes(0, -1)
    if call.lies == "stepped":
        return (*rest, 2 * last), lambda x: x[..., ::2]
    if call.lies == "cut":
        return (*rest, last + 1), lambda x: x[..., 1:]
    return (1, *call.shape[1:]) if call.lies == "broadcast" and rest else call.shape, lambda x: x


def multiplier(call: Call) -> tuple[int, ...]:
    """The shape of a recurrence's multiplier."""
    moves = {"full": lambda d: True, "steps": lambda d: d <= call.axis, "channels": lambda d: d > call.axis}
    if call.lies == "one":
        return ()
    return tuple(n if moves[call.lies](d) else 1 for d, n in enumerate(call.shape))
