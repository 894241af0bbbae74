"""The largest or the smallest of floats up to each item, in order. Numbers are scanned straight through: they are compared as
integers, a vector at a time. From a chunk with a NaN on, each item takes its turn, as the bits of a NaN are mixed with others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.cpu.extremes import finder
from upsweep.cpu.memory import Items, adopted, gathered, inner
from upsweep.cpu.straight import over_lines
from upsweep.cpu.words import OPERANDS, SUM
from upsweep.operators import Variant


def runner(variant: Variant, dtype: np.dtype, identity: float) -> Callable[..., None]:
    """The code of a built-in operator on floats of this dtype, asked as `straight` is for SUM and SCAN."""
    size, bits = dtype.itemsize, 8 * dtype.itemsize
    floats, integers = (Items([d], [d], True) for d in (dtype, np.dtype(f"i{size}")))
    read, write, cast, user = floats.read, floats.write, floats.cast, adopted(variant.fn)
    read_bits, write_bits, cast_bits = integers.read, integers.write, integers.cast
    take, larger = gathered(OPERANDS), variant.vector == ">"
    extreme, sign, size_bits = finder(dtype, larger), bits - 1, (1 << (bits - 1)) - 1
    lowest = int(np.array(identity, dtype).view(f"i{size}"))
    neutral, nothing = lowest ^ (lowest >> sign & size_bits), float(identity)

    @inner
    def ordered(b):
        """The bits of a float, as integers in the floats' order, and back."""
        return b ^ (b >> sign & size_bits)

    @inner
    def in_turn(place, x, y, w, known, exclusive, scans):
        p = read((place,), 0) if known else cast(nothing)
        for i in range(w):
            q = cast(user(p, read((x,), i)))
            if scans:
                write((y,), i, p if exclusive else q)
            p = q
        write((place,), 0, p)

    @inner
    def few(x, y, w, p, exclusive):
        for i in range(w):
            b = ordered(read_bits((x,), i))
            q = (b if b > p else p) if larger else (b if b < p else p)
            write_bits((y,), i, ordered(p if exclusive else q))
            p = q
        return cast_bits(p)

    scan = over_lines(variant.vector, dtype, neutral, few)

    def run(which, frame, past, w, known, exclusive, rows):
        places, items, results, x_across, y_across = take(frame, 0, 1)
        for k in range(rows):
            place, x, y = places + k * size, items + k * x_across, results + k * y_across
            p = ordered(read_bits((place,), 0)) if known else neutral
            if not extreme(place, x, w, known):
                in_turn(place, x, y, w, known, exclusive, which != SUM)
            elif which != SUM:
                scan(x, y, w, p, exclusive, past)

    return run
