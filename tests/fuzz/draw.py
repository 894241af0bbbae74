"""The ingredients of a case: a few kernels are drawn once a run; data, forms, layouts, overlaps and segments are drawn for
each case.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import plain

import upsweep as up
from upsweep import operators
from upsweep.dtypes import TABLE, fits, named

P, Q, R = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
SEVEN, REST = np.uint64(7), np.uint64(57)


def hashing(a, b):
    """Neither associative nor commutative."""
    c = a * P
    return ((c << SEVEN) | (c >> REST)) ^ (b * Q + R)


def mixing(a, b):
    """The same function in arithmetic that wraps in every integer."""
    return (a * 31) ^ (b * 17 + 5)


def take_away(a, b):
    return a - b


def last(a, b):
    return b


def matrices(a, b):
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def apart(a, b):
    """Components of three dtypes that do not depend on each other."""
    return (a[0] - b[0], (a[1] * 31) ^ (b[1] * 17 + 5), b[2] | a[2])


def wrapped(fn):
    """An operator on integers with all its numbers in int64, for the oracle: the lowest bits of its results are right."""
    return plain.each(lambda a, b: fn(a.astype("i8"), b.astype("i8")).astype(a.dtype))


def mixed_apart(a, b):
    return a[0] - b[0], *wrapped(mixing)((a[1],), (b[1],)), a[2] | b[2]


def known(kind):
    """The dtypes of the table, by NumPy's kind code."""
    return [named(row.name) for row in TABLE.values() if row.kind == kind]


BOOL, INTEGERS, FLOATS, COMPLEX = known("b"), known("i") + known("u"), known("f"), known("c")
GAPS, DATES = [np.dtype("m8[s]"), np.dtype("m8[us]")], [np.dtype("M8[D]"), np.dtype("M8[ms]")]
ALL = BOOL + INTEGERS + FLOATS + COMPLEX + GAPS + DATES


class Law(NamedTuple):
    """An operator as `scan` takes it and as the oracle does. `close`: exp and log may differ in their last places."""

    op: Any
    plain: Callable[[Any, Any], Any]
    dtypes: list[Any]
    identity: Any = None
    parts: int = 1
    close: bool = False
    times: Callable[[Any, Any], Any] | None = None
    own: bool = False
    """A Python operator computes in the input's dtypes only."""
    lacks: str = ""
    """The engine that lacks such an operator, or takes a second for it."""


def lowest(dtype):
    return False if dtype.kind == "b" else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype):
    return True if dtype.kind == "b" else np.inf if dtype.kind == "f" else np.iinfo(dtype).max


BUILTIN = {
    "add": [
        Law("add", plain.add, BOOL + INTEGERS + FLOATS + COMPLEX + GAPS, lambda d: 0, times=plain.add_times),
        Law("add", plain.add, FLOATS, lambda d: 0, times=plain.add_times),
    ],
    "mul": [Law(np.multiply, plain.mul, BOOL + INTEGERS + FLOATS + COMPLEX, lambda d: 1)],
    "max": [Law("max", plain.maximum, BOOL + INTEGERS + FLOATS + GAPS + DATES, lowest, times=plain.maximum_times)],
    "min": [Law(up.ops.MIN, plain.minimum, BOOL + INTEGERS + FLOATS + GAPS + DATES, highest)],
    "and": [
        Law("and", plain.bit_and, BOOL + INTEGERS, lambda d: True if d.kind == "b" else d.type(0) if d.kind == "u" else -1)
    ],
    "or": [Law("or", plain.bit_or, BOOL + INTEGERS, lambda d: 0)],
    "xor": [Law("xor", plain.bit_xor, BOOL + INTEGERS, lambda d: 0)],
    "logaddexp": [
        Law("logaddexp", plain.log_add_exp, [np.dtype("f4"), np.dtype("f8")], lambda d: -np.inf, close=True, lacks="numpy")
    ],
    "affine": [
        Law("affine", plain.affine, INTEGERS + FLOATS + COMPLEX, None, 2),
        Law("affine", plain.affine, FLOATS, None, 2),
    ],
    "last": [Law("last", plain.last, ALL, None, times=plain.last_times)],
    "argmax": [Law("argmax", plain.argmax, [(d, np.dtype("i8")) for d in INTEGERS + FLOATS], None, 2)],
    "argmin": [Law(up.ops.ARGMIN, plain.argmin, [(d, np.dtype("i4")) for d in INTEGERS + FLOATS], None, 2)],
}  # fmt: skip
"""The operators of the table by name, each as the oracle knows it; twice what is drawn twice as often."""

OTHERS = [
    Law(np.gcd, plain.each(np.gcd), INTEGERS, lambda d: 0, own=True, lacks="cuda"),
    Law(hashing, plain.each(hashing), [np.dtype("u8")], own=True),
    Law(hashing, plain.each(hashing), [np.dtype("u8")], own=True),
    Law(mixing, wrapped(mixing), INTEGERS, own=True),
    Law(take_away, plain.each(take_away), INTEGERS + FLOATS + COMPLEX, own=True),
    Law(last, lambda a, b: b, ALL, own=True),
    Law(matrices, matrices, [np.dtype("u8"), np.dtype("i4"), np.dtype("f8")], parts=4, own=True),
    Law(apart, mixed_apart, [(np.dtype("f4"), np.dtype("i8"), np.dtype("u1"))], parts=3, own=True),
]  # fmt: skip


def laws() -> list[Law]:
    """The operators that are drawn: those of the table, each of which the oracle must know, and users' own."""
    unknown = set(operators.BUILTIN) - set(BUILTIN)
    if unknown:
        raise LookupError(
            f"the oracle does not know {', '.join(sorted(unknown))}: give BUILTIN a law for each"
        )
    return [*itertools.chain.from_iterable(BUILTIN[name] for name in operators.BUILTIN), *OTHERS]


def accumulated(dtype: np.dtype) -> np.dtype:
    if dtype.kind in "mM":
        return np.dtype("i8")
    return np.dtype("f4") if dtype in FLOATS and dtype.itemsize < 4 else dtype


class Fused(NamedTuple):
    """A map and a finish that are computed within the scan, from one input more than the operator takes. Where they want the
    index of the item, it is their last argument.
    """

    map: Callable[..., Any]
    finish: Callable[..., Any] | None
    map_placed: bool = False
    finish_placed: bool = False
    results: int = 1
    """Of the finish."""
    reduces: bool = False
    """Whether the finish takes the prefix alone, as that of a reduction does."""


def tripled(x, y):
    return x * 3 - y


def moved(x, y, z):
    return x - z, y + z * 2


def beside(p, x, y):
    return p - x * y


def second(p, x, y, z):
    return p[1] - x


def placed(x, y, i):
    return x * 3 - y * (i % 3 == 1)


def where(p, x, y, i):
    return p - x * (i % 5 > 2), y * (i % 2 == 0)


def both(p):
    return p * 3, p - 1


def moved_where(x, y, z, i):
    return x - z * (i % 4 == 2), y + z * 2


def summed(p):
    return p[0] + p[1] * 2


FUSED = {
    1: [
        Fused(tripled, None), Fused(tripled, beside), Fused(placed, None, True),
        Fused(placed, where, True, True, 2), Fused(tripled, both, results=2, reduces=True),
    ],
    2: [
        Fused(moved, None), Fused(moved, second), Fused(moved_where, second, True),
        Fused(moved_where, summed, True, reduces=True),
    ],
}  # fmt: skip
"""By the number of the operator's components."""


class Kernel(NamedTuple):
    """The parts of a kernel that are compiled: `forms` (exclusive, initial, reduce) only where the scan is in order."""

    law: Law
    loads: tuple[np.dtype, ...]
    computed: tuple[np.dtype, ...]
    stores: tuple[np.dtype, ...]
    segmented: bool
    initial: bool
    order: str
    forms: tuple[bool, bool, bool]
    recurrence: bool
    streams: bool
    chunk: int
    fused: Fused | None = None

    @property
    def inputs(self) -> tuple[np.dtype, ...]:
        return (*self.loads, self.loads[0]) if self.fused else self.loads


def fused(rng: np.random.Generator, kernel: Kernel) -> Fused | None:
    """For numbers that are computed in their own dtype: in a wider one, the place where they are rounded would count."""
    d = kernel.loads[0]
    alike = {*kernel.loads, *kernel.computed, *kernel.stores} == {d} and accumulated(d) == d
    if not alike or d.kind not in "iuf" or kernel.recurrence or kernel.law.close:
        return None
    kinds = FUSED.get(kernel.law.parts)
    return kinds[rng.integers(len(kinds))] if kinds and rng.random() < 0.7 else None


def kernel(rng: np.random.Generator, dtypes_here: Callable[[np.dtype], bool], engine: str) -> Kernel:
    here = [law for law in laws() if law.lacks != engine]
    law = here[rng.integers(len(here))]
    rows = [d if isinstance(d, tuple) else (d,) * law.parts for d in law.dtypes]
    rows = [row for row in rows if all(map(dtypes_here, row))]
    loads = rows[rng.integers(len(rows))]
    computed = loads
    if law.parts == 1 and not law.own and rng.random() < 0.25:
        wanted = [w for w in law.dtypes if fits(loads[0], w) and dtypes_here(w)]
        computed = (wanted[rng.integers(len(wanted))],)
    stores = computed
    if law.parts == 1 and rng.random() < 0.15:
        wanted = [d for d in ALL if fits(computed[0], d) and dtypes_here(d) and d.kind not in "mM"] or list(
            computed
        )
        stores = (wanted[rng.integers(len(wanted))],)
    flip = rng.random(8) < 0.5
    sequential = rng.random() < 0.25
    needs = law.identity is None and law.parts != 2
    recurrence = law.op == "affine" and flip[0]
    drawn = Kernel(
        law, loads, computed, stores, rng.random() < 0.4, bool(flip[1] or needs),
        "sequential" if sequential else "tree", (bool(flip[2]), bool(flip[3] or (flip[2] and needs)), bool(flip[4] and flip[5])),
        recurrence, bool(rng.random() < 0.3 and computed == loads == stores and not recurrence),
        int(rng.choice([64, 4096, 40_000] if engine == "cuda" else [64, 64, 256, 4096])),
    )  # fmt: skip
    return drawn._replace(fused=fused(rng, drawn))


def shape_of(rng: np.random.Generator, chunk: int) -> tuple[tuple[int, ...], int]:
    """A shape and an axis: mostly short, around the borders of chunks, at times with more rows than are scanned at once."""
    n = (
        int(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65]))
        if rng.random() < 0.5
        else int(rng.integers(0, 90))
    )
    if rng.random() < 0.12:
        n = max(0, chunk * int(rng.integers(1, 2 + 400 // chunk)) + int(rng.integers(-2, 3)))
    rank = int(rng.choice([1, 1, 1, 2, 2, 3, 4]))
    others = [int(rng.integers(0, 7)) for _ in range(rank - 1)]
    if others and rng.random() < 0.1:
        others[0] = int(rng.choice([33, 64, 100, 1030]))
    axis = int(rng.integers(rank))
    while others and n * int(np.prod(others)) > 20_000:
        others[int(np.argmax(others))] //= 4
    return (*others[:axis], n, *others[axis:]), axis


def numbers(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], calm: bool = False
) -> np.ndarray:
    """Data of every kind that a dtype has. `calm` is for operators whose last place may differ, where the results must stay
    close.
    """
    if dtype.kind == "b":
        return rng.random(shape) < rng.random()
    if dtype.kind in "iumM":
        wide = dtype if dtype.kind in "iu" else np.dtype("i8")
        info = np.iinfo(wide)
        low, high = (info.min, info.max) if rng.random() < 0.5 else (max(info.min, -9), 9)
        x = rng.integers(low, high, shape, wide, endpoint=True)
        if dtype.kind in "mM":
            x = np.where(rng.random(shape) < 0.9, x // 4, np.iinfo("i8").min if rng.random() < 0.3 else 5)
            return np.asarray(x, "i8").view(dtype)
        return np.asarray(x)
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        x = np.empty(shape, dtype)
        x.real, x.imag = numbers(rng, half, shape, calm), numbers(rng, half, shape, calm)
        return x
    x = np.asarray(rng.normal(size=shape))
    if not calm and rng.random() < 0.5:
        x = x * 10.0 ** rng.integers(-4, 5, shape)
    if not calm and rng.random() < 0.3:
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 6e4, 3e38, -1e-7])
        x = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


def heads_of(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The heads of segments: the same for all rows, or each row's own."""
    density = rng.choice([0, 0.02, 0.2, 0.7, 1])
    if len(shape) > 1 and rng.random() < 0.4:
        return rng.random(shape) < density
    return rng.random(shape[axis]) < density


def ends_of(rng: np.random.Generator, heads: np.ndarray, along: int) -> np.ndarray:
    """Where the segments of these heads end; whether one ends with the last item makes no difference."""
    ended = np.moveaxis(np.roll(heads, -1, along), along, 0).copy()
    ended[-1:] = rng.random(ended[-1:].shape) < 0.5
    return np.moveaxis(ended, 0, along)


def spelt(rng: np.random.Generator, heads: np.ndarray, axis: int) -> tuple[Any, bool]:
    """One spelling of these heads, and whether the spelling always starts a segment at the first item."""
    s, along = up.segments, axis if heads.ndim > 1 else 0
    which = rng.integers(5 if heads.ndim == 1 else 3)
    if which == 0:
        flags = [
            heads,
            heads * rng.integers(1, 256, heads.shape, np.uint8),
            heads * rng.integers(1, 2**40, heads.shape),
        ]
        chosen = flags[rng.integers(3)]
        return s.flags(
            chosen.tolist() if heads.size and rng.random() < 0.1 and chosen.dtype.kind != "u" else chosen
        ), False
    if which == 1:
        number = np.cumsum(heads, along) % int(rng.choice([2, 3, 1000]))
        kinds = [
            number,
            number.astype("i1"),
            number.astype("f4"),
            number.astype("U"),
            number.astype("U").astype(object),
        ]
        return s.keys(kinds[rng.integers(len(kinds))]), False
    if which == 2:
        return s.ends(ends_of(rng, heads, along) * rng.integers(1, 256, heads.shape, np.uint8)), True
    places = np.flatnonzero(heads)
    places = np.concatenate([[0], places[places > 0], [len(heads)]])
    places = np.sort(np.concatenate([places, rng.choice(places, rng.integers(3))])).astype(
        rng.choice(["i8", "u4", "i4"])
    )
    if which == 3:
        return s.offsets(places if rng.random() < 0.8 else places.tolist()), True
    return s.lengths(np.diff(places.astype("i8"))), True
