"""Lines of items between arrays of any stride and scratch memory, converted on the way between the stored dtype and the
computed one. Each kind of line has one loop for items side by side, which becomes vector code, and one loop for any stride.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.cpu.address import copy_bytes, stream_line
from upsweep.cpu.frame import fill
from upsweep.cpu.memory import Items


def bring(stored: np.dtype, computed: np.dtype) -> Callable[..., None]:
    """The code that brings `count` items of an array, `stride` bytes apart, to scratch memory."""
    array, scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, read_strided, write, size = array.read, array.read_strided, scratch.write, stored.itemsize
    computed_size, same = computed.itemsize, stored == computed

    def line(target, source, stride, count):
        if stride == size:
            if same:
                copy_bytes(target, source, count * size)
            else:
                for i in range(count):
                    write((target,), i, read((source,), i))
        elif stride == -size:
            for i in range(count):
                write((target,), i, read((source,), -i))
        elif stride == 0 and count:
            write((target,), 0, read((source,), 0))
            fill(target + computed_size, computed_size, count - 1)
        else:
            for i in range(count):
                write((target,), i, read_strided((source,), (stride,), i))

    return line


def hand(computed: np.dtype, stored: np.dtype) -> Callable[..., None]:
    """The code that hands `count` items in scratch memory to an array, `stride` bytes apart."""
    array, scratch = Items([stored], [computed], True), Items([computed], [computed], True)
    read, write, write_strided, size = scratch.read, array.write, array.write_strided, stored.itemsize
    same = stored == computed

    def line(target, stride, source, count):
        if stride == size:
            if same:
                copy_bytes(target, source, count * size)
            else:
                for i in range(count):
                    write((target,), i, read((source,), i))
        elif stride == -size:
            for i in range(count):
                write((target,), -i, read((source,), i))
        else:
            for i in range(count):
                write_strided((target,), (stride,), i, read((source,), i))

    return line


def stream(size: int) -> Callable[..., None]:
    """The code that hands `count` items of this size in scratch memory to an array, side by side and past the cache. In the
    cache a large result would only take the place of its input, and would be read before it is written.
    """

    def line(target, stride, source, count):
        left = count * size
        head = min(-target & 31, left)
        copy_bytes(target, source, head)
        target, source, left = target + head, source + head, left - head
        for i in range(0, left - 31, 32):
            stream_line(target + i, source + i)
        done = left & ~31
        copy_bytes(target + done, source + done, left - done)

    return line
