"""Lines of items between arrays of any strides and scratch memory, converted on the way between the stored dtype and the
computed one. Each kind of line has one loop for items side by side, which becomes vector code, and one loop for any stride.

Lines of an array lie `along` bytes apart and have `count` items, `across` bytes apart. In scratch memory, where the items of a
line lie side by side, lines lie `pitch` bytes apart. Lines without gaps between them move as one. Where lines are short, all
their first items move, then all their second ones, and so on: no loop is shorter than it need be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.address import copy_bytes, stream_line
from upsweep.cpu.memory import Items
from upsweep.cpu.words import LINE
from upsweep.dtypes import bits_of

SHORT_LINE, BACKWARD_LINE, STREAM_LINE = tuning.SHORT_LINE, tuning.BACKWARD_LINE, tuning.STREAM_LINE


def bring(stored: np.dtype, computed: np.dtype) -> Callable[..., None]:
    """The code that brings so many `lines` of an array to scratch memory."""
    from_array, to_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, read_strided, write, write_strided = (
        from_array.read, from_array.read_strided, to_scratch.write, to_scratch.write_strided,
    )  # fmt: skip
    size, computed_size, same = stored.itemsize, computed.itemsize, stored == computed

    def come(array, along, across, scratch, pitch, lines, count):
        if along == count * across and pitch == count * computed_size:
            lines, count = 1, lines * count
        if count < (BACKWARD_LINE if across == -size else SHORT_LINE) and count < lines:
            for i in range(count):
                source, target = array + i * across, scratch + i * computed_size
                for line in range(lines):
                    write_strided((target,), (pitch,), line, read_strided((source,), (along,), line))
            return
        for line in range(lines):
            source, target = array + line * along, scratch + line * pitch
            if across == size:
                if same:
                    copy_bytes(target, source, count * size)
                else:
                    for i in range(count):
                        write((target,), i, read((source,), i))
            elif across == -size:
                for i in range(count):
                    write((target,), i, read((source,), -i))
            elif across == 0:
                item = read((source,), 0)
                for i in range(count):
                    write((target,), i, item)
            else:
                for i in range(count):
                    write((target,), i, read_strided((source,), (across,), i))

    return come


def hand(computed: np.dtype, stored: np.dtype) -> Callable[..., None]:
    """The code that hands so many `lines` in scratch memory to an array."""
    to_array, from_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, read_strided, write, write_strided = (
        from_scratch.read, from_scratch.read_strided, to_array.write, to_array.write_strided,
    )  # fmt: skip
    size, computed_size, same = stored.itemsize, computed.itemsize, stored == computed

    def go(array, along, across, scratch, pitch, lines, count):
        if along == count * across and pitch == count * computed_size:
            lines, count = 1, lines * count
        if count < SHORT_LINE and count < lines:
            for i in range(count):
                target, source = array + i * across, scratch + i * computed_size
                for line in range(lines):
                    write_strided((target,), (along,), line, read_strided((source,), (pitch,), line))
            return
        for line in range(lines):
            target, source = array + line * along, scratch + line * pitch
            if across == size:
                if same:
                    copy_bytes(target, source, count * size)
                else:
                    for i in range(count):
                        write((target,), i, read((source,), i))
            elif across == -size:
                for i in range(count):
                    write((target,), -i, read((source,), i))
            else:
                for i in range(count):
                    write_strided((target,), (across,), i, read((source,), i))

    return go


def stream(size: int) -> Callable[..., None]:
    """The code that hands lines of items of this size, side by side in the array too, to it past the cache. In the cache a large
    result would only take the place of its input, and would be read before it is written. Only whole lines of the cache go past
    it: a processor that joins stores to one hands it to memory in parts where other stores to the same line come between.
    """

    def go(array, along, across, scratch, pitch, lines, count):
        if along == pitch == count * size:
            lines, count = 1, lines * count
        for line in range(lines):
            target, source, left = array + line * along, scratch + line * pitch, count * size
            head = min(-target & (LINE - 1), left)
            copy_bytes(target, source, head)
            target, source, left = target + head, source + head, left - head
            done = left & -LINE if left >= STREAM_LINE else 0
            for i in range(0, done, 32):
                stream_line(target + i, source + i)
            copy_bytes(target + done, source + done, left - done)

    return go


def restart(size: int) -> Callable[..., None]:
    """The code that sets the prefixes at the heads of segments to starts, which lie `apart` items apart, 0 or 1."""
    bits, flag = bits_of(size), np.dtype(np.uint8)
    items, flags = Items([bits], [bits], True), Items([flag], [flag], True)
    read, write, head = items.read, items.write, flags.read

    def begin(prefixes, starts, heads, apart, count):
        # An item is read whether it counts or not: so each loop becomes vector code.
        if apart:
            for i in range(count):
                start, p = read((starts,), i), read((prefixes,), i)
                write((prefixes,), i, start if head((heads,), i) else p)
        else:
            start = read((starts,), 0)
            for i in range(count):
                p = read((prefixes,), i)
                write((prefixes,), i, start if head((heads,), i) else p)

    return begin
