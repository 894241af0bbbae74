"""Long and odd shapes: thousands of tiles, rows a little longer than a power of two, every form together. For a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.cases import Call, sensible

LENGTHS = [1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 100, 255, 257, 511, 513, 1000, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097,
           8191, 8192, 8193, 16384, 40_000, 131_071, 131_072, 131_073, 262_143, 262_144, 262_145,
           1 << 20, (1 << 20) + 77]  # fmt: skip
SHAPES = [((300, 64), 0), ((5000, 100), 0), ((70_000, 40), 0), ((4, 700, 33), 1), ((6, 5, 4, 257), 2), ((1000, 8), 1),
          ((5, 20_000), 1), ((1100, 1300), 1), ((1030, 4096), 1), ((1024, 5003), 1), ((1025, 9000), 1),
          ((1026, 16_500), 1)]  # fmt: skip
AFFINE = "affine-float32-float32"


def large() -> list[Call]:
    """All of the calls, the longest first."""
    calls = [
        *_long(),
        *_shapes(),
        *_lengths(),
        *_forms(),
        *_narrow(),
        *_apart(),
        *_batches(),
        *_gaps(),
        *_shared(),
        *_permuted(),
    ]
    assert all(map(sensible, calls))
    return calls


def _long() -> Iterator[Call]:
    # Thousands of tiles.
    yield Call("hash-u64", (((1 << 24) + 999,), 0))
    yield Call("add-float32", (((1 << 25) + 777,), 0), exclusive=True)
    yield Call(AFFINE, (((1 << 24) + 333,), 0), segments="keys")
    yield Call(AFFINE, (((1 << 23) + 333,), 0), reverse=True)
    yield Call("add-int16", (((1 << 25) + 11,), 0))
    yield Call("hash2-u64", (((1 << 22) + 3,), 0))
    yield Call("matrices-f64", (((1 << 21) + 9,), 0))
    yield Call("eight-f64", (((1 << 20) + 7,), 0), exclusive=True)
    # A block remembers the prefix before 1024 tiles: in rows of more tiles, and from one row to the next.
    yield Call("matrices-f64", ((2, 2_300_001), 1), initial="rows")
    yield Call("eight-f64", ((3, 300_001), 1), initial="rows")
    yield Call("logaddexp-float32", (((1 << 22) + 5,), 0))
    yield Call("logaddexp-float64", (((1 << 20) + 5,), 0), reverse=True, initial="scalar")
    # Tiles of columns, two stages and more.
    for columns in (8, 40, 256):
        yield Call("hash-u64", ((40_000_000 // columns, columns), 0), reverse=columns == 40)
        yield Call("add-float64", ((40_000_000 // columns, columns), 0), reverse=columns == 40)
    yield Call("add-float32", ((100_003, 333), 0), exclusive=True, initial="rows")
    yield Call("add-float16", ((200_003, 201), 0), reverse=True)
    yield Call("add-int32", ((300_003, 50), 0), out="in place")
    # Lanes hold whole lines of bytes, and words of bytes by eight warps.
    for i, columns in enumerate((5, 6, 7, 13, 33, 65, 66, 95, 98, 127, 333, 999)):
        subject = ("add-int8", "max-int8", "xor-uint8", "mul-bool")[i % 4]
        at = ((16 * (400_000 // columns), columns), 0)
        yield Call(subject, at, reverse=i % 2 > 0, exclusive=i % 4 < 3 and i % 3 > 0)
    yield Call("add-float16", ((50_003, 1001), 0), exclusive=True)
    # rows side by side that are reduced block by block
    yield Call("hash-identity", ((3, 70_001, 49), 1), reduce=True, reverse=True, initial="rows")
    yield Call("affine-float32-float32", ((65_536, 130), 0), reduce=True)
    for n in (4_200_000, (1 << 23) + 4321):
        yield Call("hash-u64", ((n,), 0))
        yield Call("add-float32", ((n,), 0))
        yield Call("hash-u64", ((n,), 0), segments="lengths")
        yield Call("add-int8", ((n,), 0), reverse=True)


def _lengths() -> Iterator[Call]:
    for i, n in enumerate(LENGTHS):
        at = ((n,), 0)
        yield Call("hash-u64", at)
        yield Call("add-float32", at, exclusive=True)
        yield Call("hash-u64", at, reverse=True, initial="scalar")
        yield Call("hash-u64", at, reduce=True)
        yield Call("add-int8", at, inside="offset", outside="offset", out="given")
        yield Call("hash-identity", at, segments="flags", reverse=n % 2 == 0, exclusive=i % 3 == 0)


def _shapes() -> Iterator[Call]:
    for at, subject in itertools.product(
        SHAPES, ("hash-identity", "add-float32", "add-int8", "affine-float32-float64")
    ):
        yield Call(subject, at)
        yield Call(subject, at, reverse=True, exclusive=True, initial="rows")
        yield Call(subject, at, segments="flags", initial="rows")
        yield Call(subject, at, segments="line", reverse=True)
        yield Call(subject, at, reduce=True)
        for place in ("offset", "stepped", "backwards", "fortran", "padded"):
            yield Call(subject, at, inside=place, outside=place, out="given", reverse=len(place) % 2 == 0)


def _forms() -> Iterator[Call]:
    for exclusive, reverse, initial, segments in itertools.product(
        (False, True), (False, True), ("", "scalar", "rows"), ("", "flags")
    ):
        form = {"exclusive": exclusive, "reverse": reverse, "initial": initial, "segments": segments}
        for subject, n in itertools.product(("hash-identity", AFFINE, "hash2-u64"), (500, 33_333)):
            yield Call(subject, ((n,), 0), **form)
        for place in ("offset", "stepped", "backwards"):
            yield Call("add-float32", ((20_011,), 0), inside=place, outside=place, out="given", **form)
            yield Call("add-int16", ((700,), 0), inside=place, outside=place, out="given", **form)


def _narrow() -> Iterator[Call]:
    """Many rows of narrow items, which begin and end at any byte."""
    for n in (17, 33, 100, 129, 200, 333, 999, 1001, 3001, 5003):
        at = ((8200 if n < 129 else 1031, n), 1)  # of the shorter ones a lane holds a row
        yield Call("add-int8", at)
        yield Call("add-int8", at, inside="padded", outside="offset", out="given", exclusive=True)
        yield Call("mul-bool", at, inside="offset", reverse=n % 4 == 1)
        yield Call("max-int8", at, outside="padded", out="given", segments="flags")
        yield Call("add-float16", at, inside="offset", outside="offset", out="given")
        yield Call("affine-float16-float16", at, inside="padded", initial="rows")


def _apart() -> Iterator[Call]:
    """Rows of results with bytes between them that belong to no row."""
    for n in (2, 5, 7, 17, 33, 100, 129, 300, 1000):
        at = ((8200 if n < 129 else 1031, n), 1)  # of the shorter ones a lane holds a row
        for subject in ("add-int8", "add-float16", "add-float32"):
            yield Call(subject, at, outside="padded", out="given", reverse=n % 3 == 2)
            yield Call(subject, at, inside="padded", out="in place", exclusive=n % 2 == 0)
        yield Call("xor-int16", at, inside="offset", outside="padded", out="given", initial="rows")


def _batches() -> Iterator[Call]:
    """Batches of few columns, a lane for each: one run a column, several, and batches that lie apart in shared memory."""
    shapes = [(3000, 7, 3), (1030, 20, 8), (300, 33, 65), (90, 9, 100), (1200, 100, 7), (900, 129, 10), (5000, 150, 2),
              (4200, 64, 2), (2100, 128, 4), (3000, 300, 3)]  # fmt: skip
    subjects = ["add-float16", "add-int8", "add-float32", "max-float64", "xor-uint64", "logaddexp-float32"]
    for i, shape in enumerate(shapes):
        at, odd = (shape, 1), i % 2 > 0
        yield Call("hash-u64", at, reverse=odd, exclusive=True, initial="rows")
        yield Call("hash-u64", at, reverse=not odd, segments=("flags", "line", "lengths")[i % 3])
        yield Call("hash-u64", at, segments="keys", initial="scalar", inside="offset", out="given")
        yield Call("hash2-u64", at, reverse=odd, reduce=True)
        yield Call("hash2-u64", at, out="in place")
        yield Call("fused-both", at, exclusive=odd, initial="rows")
        yield Call(subjects[i % 6], at, reverse=odd)
        yield Call("add-int8", at, dtype="wider")
        yield Call(AFFINE, at, order="sequential", segments="flags" if odd else "")


def _gaps() -> Iterator[Call]:
    """Neighbours with a gap between them."""
    shapes = [((3000, 64), 0), ((3000, 33), 0), ((40, 300, 6), 1), ((9, 3000), 0), ((3000, 40), 1), ((300, 5000), 1),
              ((1_000_003,), 0)]  # fmt: skip
    for i, at in enumerate(shapes):
        for subject in (
            "hash-u64",
            "add-int8",
            "add-float16",
            "max-float32",
            "add-complex64",
            "mul-bool",
            AFFINE,
        ):
            yield Call(subject, at, inside="stepped", reverse=i % 2 > 0, initial="rows" if i % 3 else "")
        yield Call("add-int16", at, inside="stepped", segments="line", reverse=i % 2 == 0)
        yield Call("fused-both", at, inside="stepped")
        yield Call("add-float32", at, inside="stepped", reduce=True)


def _permuted() -> Iterator[Call]:
    """Arrays and results of several MiB whose dimensions lie in different orders, or with gaps: they are brought elsewhere."""
    shapes = [((160, 130, 220), 1), ((130, 160, 220), 0), ((160, 220, 130), 2), ((40, 120, 15, 64), 1),
              ((4000, 290, 4), 1)]  # fmt: skip
    for i, at in enumerate(shapes):
        for subject in ("hash-u64", "add-int8", "add-float16", "max-float32", "add-complex128", AFFINE):
            yield Call(subject, at, inside="fortran", reverse=i % 2 > 0, segments="" if i % 3 else "line")
            yield Call(subject, at, inside="plain", outside="fortran", out="given", initial="rows")
        yield Call("hash-u64", at, inside="fortran", order="sequential", segments="flags")
        yield Call("fused-both", at, inside="fortran", exclusive=i % 2 > 0)
        yield Call("hash-u64", at, inside="fortran", reduce=True, initial="scalar")
    for subject in ("hash-u64", "add-float32"):
        yield Call(
            subject, ((60_000, 14), 0), inside="stepped", outside="stepped", out="given", segments="offsets"
        )
        yield Call(subject, ((500, 1300, 3), 1), inside="padded", outside="padded", out="given")


def _shared() -> Iterator[Call]:
    """Segments of one list for all columns or rows, and reductions of many rows."""
    shapes = [
        ((5000, 64), 0),
        ((4097, 5), 0),
        ((3000, 301), 0),
        ((5, 1037, 64), 1),
        ((9000, 20), 1),
        ((9000, 40), 1),
        ((3000, 300), 1),
    ]
    for i, at in enumerate(shapes):
        for segments in ("line", "ends", "lengths", "offsets"):
            yield Call("hash-u64", at, segments=segments, reverse=i % 2 > 0)
        yield Call("add-int8", at, segments="lengths", reverse=i % 2 == 0, initial="rows")
        yield Call(AFFINE, at, segments="line", exclusive=True, reverse=i % 2 > 0)
    for at in (((1100, 20_000), 1), ((1100, 17_000), 1), ((8300, 24), 1), ((9000, 33), 1), ((9000, 16), 1)):
        for subject in ("hash-u64", "add-float16", "max-float32"):
            yield Call(subject, at, reduce=True)
