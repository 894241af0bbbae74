"""The largest or the smallest of many floats, by their bits as integers. It is the same in every order, unless one is NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep.cpu.address import poke
from upsweep.cpu.memory import Items, gathered, inner
from upsweep.cpu.words import NAN, OPERANDS


def runner(dtype: np.dtype, larger: bool) -> Callable[..., None]:
    """The code for floats of this dtype, asked as `straight` is for SUM. Where one of them is NaN, it sets the word NAN of the
    frame, and no result.
    """
    size, extreme, take = dtype.itemsize, finder(dtype, larger), gathered(OPERANDS)

    def run(which, frame, past, w, known, exclusive, rows):
        places, x, _, x_across, _ = take(frame, 0, 1)
        for k in range(rows):
            if not extreme(places + k * size, x + k * x_across, w, known):
                poke(frame, NAN, 1)
                return

    return run


def finder(dtype: np.dtype, larger: bool) -> Any:
    """A function that puts the largest or the smallest of w floats at a place, also of that at this place if it is `known`. Where
    one of them is NaN, it says so, and writes nothing.

    Of floats that are not all negative, the largest has the largest bits as a signed integer; of others it has the smallest
    bits as an unsigned one. The smallest has the largest unsigned bits where one is negative, else the smallest. So zeros are
    told apart by their signs.
    """
    size = dtype.itemsize
    signed, unsigned = (Items([d], [d], True) for d in (np.dtype(f"i{size}"), np.dtype(f"u{size}")))
    read, read_unsigned, write = signed.read, unsigned.read, unsigned.write
    sign, infinite = 1 << (8 * size - 1), int(np.array(np.inf, dtype).view(f"u{size}"))
    below = sign + infinite
    # No expression may have a signed and an unsigned number: numba would make floats of both.

    @inner
    def extremes(x, w, top, least, most):
        for i in range(w):
            s, u = read((x,), i), read_unsigned((x,), i)
            top = s if s > top else top
            least = u if u < least else least
            most = u if u > most else most
        return top, least, most

    @inner
    def extreme(place, items, w, known):
        first = (place if known else items,)
        s, u = read(first, 0), read_unsigned(first, 0)
        top, least, most = extremes(items, w, s, u, u)
        if top > infinite or most > below:
            return False
        if larger and top >= 0:
            write((place,), 0, top)
        elif larger or most < sign:
            write((place,), 0, least)
        else:
            write((place,), 0, most)
        return True

    return extreme
