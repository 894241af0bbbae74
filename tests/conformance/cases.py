"""The cases of the conformance suite, as data: the subjects (`SUBJECTS`), the forms (`FACTORS`), and calls in which every two
of these meet (`everything`).

A call names everything about one scan; `check.py` runs it. The product of all factors is millions of calls. Faults come from
two things that meet, and a few thousand calls cover all pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from table import CASES, P, Q, R, maps, normal, words
from upsweep import operators
from upsweep.dtypes import TABLE, accumulator, named
from upsweep.numpy_engine.operators import on_arrays
from upsweep.operator import Operator, identity_of, resolve
from upsweep.operators import BUILTIN, ops

Data = Callable[[np.random.Generator, Any], tuple[np.ndarray, ...]]


class Fused(NamedTuple):
    """A map and a finish, on scalars and on whole arrays. The finish of a reduction takes the prefix alone."""

    map: Callable[..., Any] | None
    map_arrays: Callable[..., tuple[np.ndarray, ...]]
    """Of the inputs, and the places along the axis."""
    finish: Callable[..., Any] | None
    finish_arrays: Callable[..., tuple[np.ndarray, ...]]
    """A function of the components of prefixes (a tuple), the inputs, and the places along the axis; a reduction gives no
    places.
    """
    last: Callable[..., Any] | None
    alike: bool
    """Whether the results have the inputs' dtypes."""


class Subject(NamedTuple):
    """An operator on dtypes, with data that shows a wrong order."""

    name: str
    op: Any
    arrays: Callable[[Any, Any], Any]
    """The operator on whole arrays, in the accumulators' dtypes."""
    dtypes: tuple[Any, ...]
    data: Data
    identity: Any
    fused: Fused | None = None

    def draw(self, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Items of that shape. The items along the axis are drawn as one row of memory."""
        along = (*shape[:axis], *shape[axis + 1 :], shape[axis])
        with np.errstate(over="ignore", invalid="ignore"):
            return [
                np.moveaxis(np.asarray(x), -1, axis).astype(d)
                for x, d in zip(self.data(rng, along), self.dtypes)
            ]


def hashing2(a, b):
    """A pair whose two parts depend on each other."""
    x = a[0] * P + a[1]
    return (((x << np.uint64(7)) | (x >> np.uint64(57))) ^ (b[0] * Q + R), a[1] * P + b[1] ^ b[0])


def matrices(a, b):
    return (
        a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
    )  # fmt: skip


def eight(a, b):
    return (
        a[0] * b[0] - b[1], a[1] + b[1] * a[0], a[2] - b[2], a[3] + b[3],
        a[4] * b[4], a[5] - b[5] * a[6], a[6] + b[6], b[7] - a[7],
    )  # fmt: skip


def branching(a, b):
    """A user's function with an `if`, and without associativity."""
    if a > b:
        return a - 2 * b
    return b + 3 if b & 1 else a ^ b


def branching_arrays(a, b):
    return np.where(a > b, a - 2 * b, np.where(b & 1 != 0, b + 3, a ^ b))


def plus(a, b):
    """Another operator than "add": each sum is rounded to half a unit."""
    return a * 0.5 + b


def plus_arrays(a, b):
    return (a.astype("f8") * 0.5 + b).astype(a.dtype)


def bits(count: int) -> Data:
    return lambda rng, shape: tuple(rng.integers(0, 2**63, shape, np.uint64) for _ in range(count))


def reals(count: int) -> Data:
    return lambda rng, shape: tuple(rng.uniform(-1, 1, shape) for _ in range(count))


def truths(rng, shape):
    return (rng.random(shape) < 0.5,)


def days(rng, shape):
    x = rng.integers(-(2**40), 2**40, shape)
    return (np.where(rng.random(shape) < 0.01, np.iinfo(np.int64).min, x),)


def extremes(rng, shape):
    """Ties, zeros of both signs, infinities, seldom a NaN; and the place of each."""
    x = rng.integers(-4, 5, shape) * rng.choice([1.0, -0.0, 0.5], shape)
    x[rng.random(shape) < 0.002], x[rng.random(shape) < 0.002] = -np.inf, np.nan
    return (x, np.arange(x.size).reshape(x.shape))


def turns(rng, shape):
    return (np.exp(1j * rng.uniform(-9, 9, shape)), rng.uniform(-1, 1, shape))


def _built_in(name: str, dtypes: tuple[Any, ...], data: Data) -> Subject:
    kinds = [np.dtype(d) for d in dtypes]
    op, sums = resolve(BUILTIN[name], kinds), tuple(map(accumulator, kinds))
    twin, identity = on_arrays(op, sums), identity_of(op, sums)
    one = len(sums) == 1
    arrays = (lambda a, b: twin([a], [b])[0]) if one else (lambda a, b: tuple(twin(a, b)))
    return Subject("-".join([name, *(d.name for d in kinds)]), BUILTIN[name], arrays, dtypes, data, identity)


NARROW = tuple(named(name).type for name, row in TABLE.items() if row.narrow)


def hash_of_both(x, y):
    return np.uint64(x) * P ^ np.uint64(y)


def hash_of_place(x, i):
    return np.uint64(x) * P ^ np.uint64(i)


def hash_and_place(p, x, y, i):
    return p ^ x, np.int16(y + i)


def hash_and_place_arrays(p, *seen):
    x, y, i = seen or (np.uint64(1), np.int16(2), 3)
    return p[0] ^ x, (y + i + 0 * p[0].astype("i8")).astype("i2")


def pair_of_three(x, y, z):
    return np.uint64(x) ^ np.uint64(y), np.uint64(z)


def odd(p):
    return (p[0] ^ p[1]) & np.uint64(1) == np.uint64(1)


def difference(p, x):
    return np.float32(x) - p


FUSED = {
    "both": Fused(
        hash_of_both, lambda x, y, i: (x * P ^ y.astype("u8"),), hash_and_place, hash_and_place_arrays,
        lambda p: (p ^ np.uint64(1), np.int16(5)), True,
    ),
    "map": Fused(
        hash_of_place, lambda x, i: (x.astype("u8") * P ^ np.uint64(i),), None, lambda p, *seen: p, None, False,
    ),
    "finish": Fused(
        None, lambda x, i: (x,), difference, lambda p, *seen: ((seen[0] if seen else np.float32(1)) - p[0],),
        lambda p: np.float32(1) - p, True,
    ),
    "pairs": Fused(
        pair_of_three, lambda x, y, z, i: (x.astype("u8") ^ y.astype("u8"), z.astype("u8")), odd,
        lambda p, *seen: ((p[0] ^ p[1]) & np.uint64(1) == 1,), odd, False,
    ),
}  # fmt: skip


def _fused() -> Iterator[Subject]:
    hashed, pair = CASES["hash-u64"], Operator(hashing2, (np.uint64(5), np.uint64(6)), "hash2")
    one = Operator(hashed.op.fn, np.uint64(9), "hash")
    yield Subject("fused-both", one, hashed.arrays, ("u8", "i2"), bits(2), 9, FUSED["both"])
    yield Subject("fused-map", one, hashed.arrays, ("i2",), bits(1), 9, FUSED["map"])
    yield Subject("fused-finish", BUILTIN["add"], lambda a, b: a + b, ("f4",), normal, 0, FUSED["finish"])
    yield Subject("fused-pairs", pair, hashing2, ("u4", "i8", "?"), bits(3), (5, 6), FUSED["pairs"])


OF_KIND = {
    "b": (("?",), truths),
    "iu": (("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), bits(3)),
    "f": (("f4", "f8", *NARROW), reals(3)),
    "c": (("c8", "c16"), turns),
    "m": (("m8[s]",), days),
    "M": (("M8[s]",), days),
}
"""The dtypes of each kind, and data for any operator."""


def _subjects() -> Iterator[Subject]:
    chosen = list(_chosen())
    yield from chosen
    # An operator whose row is new needs no data of its own.
    for row in operators.ROWS:
        if row.name not in {subject.op.name for subject in chosen}:
            yield from _any_data(row)


def _any_data(row: operators.Row) -> Iterator[Subject]:
    for kinds, (dtypes, data) in OF_KIND.items():
        for dtype in dtypes if kinds[0] in row.kinds else ():
            yield _built_in(row.name, (dtype,) * row.arity, data)


def _chosen() -> Iterator[Subject]:
    yield from _fused()
    for name in ("hash-u64", "last-i64", "join-i64"):
        case = CASES[name]
        yield Subject(name, case.op, case.arrays, case.dtypes, case.data, case.identity)
    yield Subject(
        "hash-identity",
        Operator(CASES["hash-u64"].op.fn, np.uint64(9), "hash"),
        CASES["hash-u64"].arrays,
        ("u8",),
        words,
        9,
    )
    yield Subject(
        "hash2-u64",
        Operator(hashing2, (np.uint64(5), np.uint64(6)), "hash2"),
        hashing2,
        ("u8", "u8"),
        bits(2),
        (5, 6),
    )
    yield Subject(
        "branching-i32", Operator(branching, name="branching"), branching_arrays, ("i4",), bits(1), None
    )
    yield Subject("plus-f32", Operator(plus, 0, "plus"), plus_arrays, ("f4",), normal, 0)
    yield Subject(
        "matrices-f64",
        Operator(matrices, (1, 0, 0, 1), "matrices"),
        matrices,
        ("f8",) * 4,
        reals(4),
        (1, 0, 0, 1),
    )
    yield Subject(
        "four-f32",
        Operator(matrices, (1, 0, 0, 1), "matrices"),
        matrices,
        ("f4",) * 4,
        reals(4),
        (1, 0, 0, 1),
    )
    for name, dtype in (("eight-f32", "f4"), ("eight-f64", "f8")):
        yield Subject(name, Operator(eight, (0,) * 8, "eight"), eight, (dtype,) * 8, reals(8), (0,) * 8)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        for name in ("add", "mul", "min", "max", "and", "or", "xor"):
            yield _built_in(name, (dtype,), words)
    for name in ("add", "mul", "xor"):
        yield _built_in(name, ("?",), truths)
    for dtype in ("f4", "f8", *NARROW):
        yield _built_in("add", (dtype,), normal if np.dtype(dtype).itemsize > 2 else reals(1))
        yield _built_in("mul", (dtype,), lambda rng, shape: (1 + rng.uniform(-0.1, 0.1, shape),))
        for name in ("min", "max"):
            yield _built_in(name, (dtype,), extremes)
        yield _built_in("logaddexp", (dtype,), lambda rng, shape: (rng.normal(size=shape) * 5,))
    for dtype in ("c8", "c16"):
        yield _built_in(
            "add", (dtype,), lambda rng, shape: (rng.normal(size=shape) + 1j * rng.normal(size=shape),)
        )
        yield _built_in("mul", (dtype,), turns)
        yield _built_in(
            "affine",
            (dtype, dtype),
            turns,
        )
    for dtypes in (("f4", "f4"), ("f4", "f8"), ("f2", "f2"), ("i4", "i4")):
        yield _built_in("affine", dtypes, maps if dtypes[0] != "i4" else bits(2))
    for name in ("argmax", "argmin"):
        yield _built_in(name, ("f4", "i8"), extremes)
    for name in ("add", "last"):
        yield _built_in(name, ("m8[s]",), days)
    for name in ("min", "max"):
        yield _built_in(name, ("M8[s]",), days)
    yield _built_in("last", ("f4",), extremes)
    yield _built_in("last", ("i2",), words)


SUBJECTS = {subject.name: subject for subject in _subjects()}

SHAPES = [
    *(((n,), 0) for n in (0, 1, 2, 3, 5, 31, 33, 64, 100, 257, 511, 1000, 1025, 4095, 4096, 4097, 9001, 70_001)),
    ((7, 300), 1), ((300, 7), 0), ((5, 4097), 1), ((4097, 5), 0), ((3, 4, 70), 2), ((3, 70, 4), 1), ((70, 3, 4), 0),
    ((130, 64), 0), ((1, 9), 0), ((9, 1), 0), ((1, 9), 1), ((0, 3), 1), ((0, 3), 0), ((3, 0), 1), ((2, 33, 128), 1),
    ((1025, 8), 1), ((1000, 3), 1), ((8200, 9), 1), ((2, 3, 5, 65), 3), ((3, 20, 2, 5), 1),
]  # fmt: skip


class Call(NamedTuple):
    """One scan or reduction."""

    subject: str
    at: tuple[tuple[int, ...], int]
    """The shape and the axis."""
    reduce: bool = False
    exclusive: bool = False
    reverse: bool = False
    initial: str = ""
    """"scalar", or "rows" for one value a row."""
    segments: str = ""
    """"flags" and "keys" have the data's shape, or are 1-D: "line", "offsets", "lengths"."""
    order: str = "tree"
    inside: str = "plain"
    """How the memory of the inputs lies: see `memory.py`."""
    outside: str = "plain"
    """How the memory of new results lies."""
    out: str = "new"
    """"new"; "given" memory; "in place"; "shifted" by an item; "swapped" components; "wide": results in a wider
    dtype; "last": new memory for the last component alone."""
    dtype: str = ""
    """Whether `dtype=` names a "wider" or a "narrower" accumulator."""
    threads: int | None = None
    shared: str = ""
    """What the first of several inputs is, if not an array of its own: a "number", one "item" in memory, one a row ("rows"), or a
    "line" for all rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at[0]

    @property
    def axis(self) -> int:
        return self.at[1]

    @property
    def n(self) -> int:
        return self.shape[self.axis]


FACTORS: dict[str, tuple[Any, ...]] = {
    "subject": tuple(SUBJECTS),
    "at": tuple(SHAPES),
    "reduce": (False, True),
    "exclusive": (False, True),
    "reverse": (False, True),
    "initial": ("", "scalar", "rows"),
    "segments": ("", "flags", "line", "ends", "keys", "offsets", "lengths"),
    "order": ("tree", "sequential"),
    "inside": ("plain", "offset", "stepped", "backwards", "fortran", "padded", "broadcast"),
    "outside": ("plain", "offset", "stepped", "backwards", "fortran", "padded"),
    "out": ("new", "given", "in place", "shifted", "swapped", "wide", "last"),
    "dtype": ("", "wider", "narrower"),
    "threads": (None, 3),
    "shared": ("", "number", "item", "rows", "line"),
}

OTHER = {
    "wider": {"i1": "i8", "u1": "u4", "i2": "i4", "f2": "f4", "f4": "f8", "c8": "c16"},
    "narrower": {"u8": "i4", "i8": "i2", "i4": "i1", "f8": "f4", "f4": "f2", "c16": "c8"},
}


def other(how: str, dtype: Any) -> np.dtype | None:
    """The dtype of that sort that a scan of this dtype may also be computed in."""
    name = np.dtype(dtype).str[1:]
    return np.dtype(OTHER[how][name]) if name in OTHER[how] else None


def sensible(call: Call) -> bool:
    """Whether the library has such a call."""
    subject = SUBJECTS[call.subject]
    parts = len(subject.dtypes)
    if subject.fused is not None:
        if call.dtype or call.out in ("shifted", "swapped", "wide", "last"):
            return False
        if call.out == "in place" and not subject.fused.alike:
            return False
    nothing = call.n == 0
    bare = subject.identity is None and not call.initial
    if call.reduce and (
        call.exclusive
        or call.segments
        or call.out in ("in place", "shifted", "swapped")
        or (nothing and bare)
    ):
        return False
    if call.exclusive and bare:
        return False
    if call.inside == "broadcast" and call.out in ("in place", "shifted"):
        return False
    if call.out == "last" and parts == 1:
        return False
    alone = subject.op is ops.AFFINE and call.out == "last"
    if call.shared and not (alone or (subject.fused and parts > 1 and call.out in ("new", "given"))):
        return False
    if call.out in ("new", "last") and call.outside != "plain":
        return False
    if call.out == "in place" and call.dtype:
        return False
    if call.out == "shifted" and (parts > 1 or len(call.shape) > 1 or call.inside != "plain" or call.dtype):
        return False
    alike = parts == 2 and len(set(subject.dtypes)) == 1
    if call.out == "swapped" and (not alike or call.dtype or call.inside == "broadcast"):
        return False
    if call.dtype and (
        parts > 1 or other(call.dtype, subject.dtypes[0]) is None or subject.op not in (ops.ADD, ops.MUL)
    ):
        return False
    # In Python, one item after the other.
    if call.order == "sequential" and call.n > 300:
        return False
    return call.out != "wide" or (not call.dtype and other("wider", subject.dtypes[0]) is not None)


@cache
def _drawn_calls() -> list[Call]:
    """Each subject in each shape, with all other factors drawn. The calls are the same each time."""
    rng = np.random.default_rng(2026)
    return [_drawn(rng, subject, at) for subject in SUBJECTS for at in SHAPES]


FOUND = [
    # Eight-byte items that were summed in four bytes, and the heads beside them, were turned differently in shared memory.
    Call("add-uint64", ((16, 81), 1), segments="line", dtype="narrower"),
    Call("add-float64", ((5, 4097), 1), segments="flags", dtype="narrower"),
    # The warp that walks a row did not get the heads of its first 16 items.
    Call("add-float64", ((200, 64), 1), segments="flags", order="sequential", exclusive=True),
    Call("affine-float32-float32", ((200, 64), 1), segments="flags", order="sequential"),
    # The first result of every cache line was no prefix but a zero, which stood for the identity that "last" has not.
    Call("last-int16", ((5, 4097), 1), exclusive=True, initial="rows"),
    # A first component that is written as float64 counted as one that is not wanted, and was not multiplied.
    Call("affine-float32-float32", ((300, 3), 0), order="sequential", out="wide"),
    # Multipliers were multiplied in their own dtype, which is narrower than the addend's.
    Call("affine-float32-float64", ((300, 7), 0), out="last"),
    Call(
        "affine-float32-float64", ((5, 4097), 1), out="last", reverse=True, segments="flags", initial="rows"
    ),
]
"""Calls that were once wrong on some engine, while every other call of the suite was right."""


def sample() -> list[Call]:
    """A fifth of the drawn calls, each subject and each shape in turn, and all calls that were once wrong."""
    return FOUND + [call for i, call in enumerate(_drawn_calls()) if (i + i // len(SHAPES)) % 5 == 0]


def everything() -> list[Call]:
    """All of these calls, and others that bring together every two values which can meet and did not."""
    calls = [*FOUND, *_drawn_calls()]
    for (f, these), (g, those) in itertools.combinations(FACTORS.items(), 2):
        met = {(getattr(call, f), getattr(call, g)) for call in calls}
        for one, other in itertools.product(these, those):
            if (one, other) not in met:
                near = (
                    call for call in _drawn_calls() if getattr(call, f) == one or getattr(call, g) == other
                )
                changed = (call._replace(**{f: one, g: other}) for call in near)
                calls += itertools.islice(filter(sensible, changed), 1)
    return calls


ROWS = [at for at in SHAPES if at[1] == len(at[0]) - 1 and 0 not in at[0]]
COLUMNS = [((n, 40), 0) for n in (1, 3, 15, 16, 17, 300)] + [
    ((4097, 33), 0),
    ((2, 70, 64), 1),
    ((70, 3, 4), 0),
]
KERNELS = [
    ("hash-u64", ROWS, "", ""), ("hash-u64", ROWS, "segments", ""), ("hash-u64", ROWS, "segments", "initial"),
    ("hash-u64", COLUMNS, "", ""), ("hash-u64", COLUMNS, "segments", "initial"), ("hash-identity", ROWS, "", ""),
    ("hash-identity", ROWS, "segments", ""), ("hash2-u64", ROWS, "", ""), ("join-i64", ROWS, "", ""),
    ("branching-i32", ROWS, "", ""), ("affine-float32-float32", ROWS, "", ""),
    ("affine-float32-float32", ROWS, "segments", "initial"), ("add-float32", ROWS, "", ""),
    ("add-float32", ROWS, "segments", ""), ("add-float16", ROWS, "", ""), ("add-bfloat16", ROWS, "", ""),
    ("max-float32", ROWS, "", ""), ("add-int8", ROWS, "", ""), ("xor-uint64", ROWS, "", ""), ("mul-complex64", ROWS, "", ""),
    ("argmax-float32-int64", ROWS, "", ""), ("logaddexp-float32", ROWS, "", ""), ("mul-bool", ROWS, "", ""),
    ("min-datetime64[s]", ROWS, "", ""), ("fused-both", ROWS, "", ""), ("fused-both", COLUMNS, "segments", "initial"),
    ("fused-pairs", ROWS, "", ""),
]  # fmt: skip
"""The subjects, shapes, segments and starts of the CPU engine's sample: each kernel takes 4 s to compile."""


def sample_of_kernel(subject: str, shapes: list[Any], segments: str, initial: str) -> list[Call]:
    """One kernel in many forms."""
    rng = np.random.default_rng(2027)
    fits = partial(_of_kernel, segments=segments, initial=initial)
    return [_drawn(rng, subject, shapes[rng.integers(len(shapes))], fits) for _ in range(12)]


def _of_kernel(call: Call, *, segments: str, initial: str) -> bool:
    known = (bool(call.segments), bool(call.segments and call.initial)) == (bool(segments), bool(initial))
    # Another kernel.
    across = call.inside == "fortran" and len(call.shape) > 1
    another = across or call.dtype or call.shared or call.out in ("wide", "last")
    return known and not another and call.order == "tree"


def _drawn(
    rng: np.random.Generator, subject: str, at: Any, also: Callable[[Call], bool] = lambda call: True
) -> Call:
    """A valid call: each other factor has its first value or any value, equally often."""
    free = [
        (v, 0.2 if name == "out" else 0.5) for name, v in FACTORS.items() if name not in ("subject", "at")
    ]
    while True:
        row = [values[0 if rng.random() < usual else rng.integers(len(values))] for values, usual in free]
        call = Call(subject, at, *row)
        if sensible(call) and also(call):
            return call
