"""Lines of items between arrays of any strides and scratch memory, converted on the way between the stored dtype and the
computed one. Each kind of line has one loop for items side by side, which becomes vector code, and one loop for any stride.

Lines of an array lie `along` bytes apart and have `count` items, `across` bytes apart. In scratch memory, where the items of a
line lie side by side, lines lie `pitch` bytes apart. Lines without gaps between them move as one. Short lines that come are
copied by two moves or a few, if their items lie side by side. Of other short lines all first items move, then all second ones,
and so on: no loop is shorter than it need be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.address import (
    byte_at,
    copy_bytes,
    move_1,
    move_2,
    move_4,
    move_8,
    move_16,
    put_bytes,
    stand_alone,
    stream_line,
)
from upsweep.cpu.memory import Items, inner, room
from upsweep.cpu.transpose import even_items
from upsweep.cpu.words import LINE, WHOLE
from upsweep.dtypes import bits_of

SHORT_LINE, BACKWARD_LINE, EQUAL_LINE, STREAM_LINE, TOGETHER = (
    tuning.SHORT_LINE, tuning.BACKWARD_LINE, tuning.EQUAL_LINE, tuning.STREAM_LINE, tuning.TOGETHER,
)  # fmt: skip


def bring(stored: np.dtype, computed: np.dtype) -> Callable[..., None]:
    """The code that brings so many `lines` of an array to scratch memory."""
    from_array, to_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, read_strided, write, write_strided = (
        from_array.read, from_array.read_strided, to_scratch.write, to_scratch.write_strided,
    )  # fmt: skip
    size, computed_size, same = stored.itemsize, computed.itemsize, stored == computed
    bring_apart, bring_short = _bring_apart(stored, computed), _bring_short(stored, computed)

    def come(array, along, across, scratch, pitch, lines, count):
        if along == count * across and pitch == count * computed_size:
            lines, count = 1, lines * count
        dense = 0 < count < min(SHORT_LINE, lines) and across == size
        if dense and same:
            _copy_short(scratch, pitch, array, along, lines, count * size)
            return
        if dense and pitch == count * computed_size:
            bring_short(scratch, array, along, lines, count)
            return
        if same and size == 1 and across == 0 and 8 <= count <= EQUAL_LINE:
            _fill_short(scratch, pitch, array, along, lines, count)
            return
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
                bring_apart(target, source, across, count)

    return come


def _bring_apart(stored: np.dtype, computed: np.dtype) -> Any:
    """Bring the items of a line that lie apart. Items that are converted come together first, as they are, so that the conversion
    is vector code.
    """
    from_array, to_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    size, bits = stored.itemsize, bits_of(stored.itemsize)
    moved = Items([bits], [bits], True)
    read, write, read_bits, write_bits = from_array.read, to_scratch.write, moved.read_strided, moved.write
    together, evens, block = room(TOGETHER * size), even_items(size), WHOLE // size

    @inner
    def as_they_are(target, source, across, count):
        done = max(count - 1, 0) // block * block if across == 2 * size else 0
        for i in range(0, done, block):
            evens(target + i * size, source + i * across)
        # LLVM would put vectors of items together one by one, at twice the cost.
        for i in range(done, count):
            write_bits((target,), i, read_bits((source,), (across,), i))
            stand_alone()

    @inner
    def converted(target, source, across, count):
        near = together()
        for first in range(0, count, TOGETHER):
            m = min(TOGETHER, count - first)
            as_they_are(near, source + first * across, across, m)
            for i in range(m):
                write((target,), first + i, read((near,), i))

    return as_they_are if stored == computed else converted


@inner
def _copy_short(target, pitch, source, along, lines, size):
    """Copy lines of few bytes, some of which are copied twice."""
    for line in range(lines):
        to, come = target + line * pitch, source + line * along
        if size >= 16:
            for i in range(0, size - 16, 16):
                move_16(to + i, come + i)
            move_16(to + size - 16, come + size - 16)
        elif size >= 8:
            move_8(to, come)
            move_8(to + size - 8, come + size - 8)
        elif size >= 4:
            move_4(to, come)
            move_4(to + size - 4, come + size - 4)
        elif size >= 2:
            move_2(to, come)
            move_2(to + size - 2, come + size - 2)
        else:
            move_1(to, come)


@inner
def _fill_short(target, pitch, source, along, lines, count):
    """Let the bytes of each line be one byte, such as a flag for a line of columns. Some are set twice."""
    for line in range(lines):
        to, word = target + line * pitch, byte_at(source, line * along) * 0x0101010101010101
        for i in range(0, count - 8, 8):
            put_bytes(to + i, word)
        put_bytes(to + count - 8, word)


def _bring_short(stored: np.dtype, computed: np.dtype) -> Any:
    """Bring short lines whose items lie side by side, and are converted: they come together first."""
    read, write = Items([stored], [computed], True).read, Items([computed], [computed], True).write
    size, together = stored.itemsize, room(TOGETHER * stored.itemsize)

    @inner
    def converted(scratch, array, along, lines, count):
        near, most = together(), TOGETHER // count
        for first in range(0, lines, most):
            m = min(most, lines - first)
            _copy_short(near, count * size, array + first * along, along, m, count * size)
            for i in range(m * count):
                write((scratch,), first * count + i, read((near,), i))

    return converted


def hand(computed: np.dtype, stored: np.dtype) -> Callable[..., None]:
    """The code that hands so many `lines` in scratch memory to an array."""
    to_array, from_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, read_strided, write, write_strided = (
        from_scratch.read, from_scratch.read_strided, to_array.write, to_array.write_strided,
    )  # fmt: skip
    size, computed_size, same = stored.itemsize, computed.itemsize, stored == computed
    hand_apart = _hand_apart(computed, stored)

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
                hand_apart(target, source, across, count)

    return go


def _hand_apart(computed: np.dtype, stored: np.dtype) -> Any:
    """The reverse of `_bring_apart`."""
    to_array, from_scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    bits = Items([bits_of(stored.itemsize)], [bits_of(stored.itemsize)], True)
    read, write, write_strided = from_scratch.read, to_array.write, to_array.write_strided
    size, read_bits, write_bits = stored.itemsize, bits.read, bits.write_strided
    together = room(TOGETHER * size)

    @inner
    def as_they_are(target, source, across, count):
        for i in range(count):
            write_strided((target,), (across,), i, read((source,), i))

    @inner
    def converted(target, source, across, count):
        near = together()
        for first in range(0, count, TOGETHER):
            m = min(TOGETHER, count - first)
            for i in range(m):
                write((near,), i, read((source,), first + i))
            for i in range(m):
                write_bits((target,), (across,), first + i, read_bits((near,), i))

    return as_they_are if stored == computed else converted


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
