"""What machine code asks of a multiprocessor, read from the code itself."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

FRAME_SIZE, REGISTERS = 0x11, 0x2F
"""EIATTR_FRAME_SIZE and EIATTR_REGCOUNT, attributes of the section called .nv.info: pairs of a function and a number."""
MAX_THREADS = 0x05
"""EIATTR_MAX_THREADS, an attribute of a kernel's own section, .nv.info.NAME: the bound in three dimensions."""


class Needs(NamedTuple):
    """Of a thread."""

    registers: int
    spilled: int
    """Bytes of local memory."""


def needs(code: bytes) -> list[Needs]:
    """What each function of a cubin needs; one that kernels call has its registers in theirs."""
    found: dict[int, dict[int, int]] = {FRAME_SIZE: {}, REGISTERS: {}}
    for section, attribute, value in _attributes(code):
        if section == b".nv.info" and attribute in found:
            function, number = struct.unpack_from("<2I", value)
            found[attribute][function] = number
    return [Needs(found[REGISTERS].get(function, 0), frame) for function, frame in found[FRAME_SIZE].items()]


def frames(code: bytes) -> list[int]:
    """Bytes of local memory a thread, of each function."""
    return [each.spilled for each in needs(code)]


def bounds(code: bytes) -> dict[str, int]:
    """The most threads of a block, by kernel: a launch of more is refused."""
    return {
        section.removeprefix(b".nv.info.").decode(): math.prod(struct.unpack("<3I", value))
        for section, attribute, value in _attributes(code)
        if attribute == MAX_THREADS
    }


def _attributes(code: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The attributes with values of several words, each with its section's name."""
    (table,), (size, count, names) = (
        struct.unpack_from("<Q", code, 0x28),
        struct.unpack_from("<3H", code, 0x3A),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    for section in sections:
        name = code[sections[names][4] + section[0] :].split(b"\0", 1)[0]
        if not name.startswith(b".nv.info"):
            continue
        at, end = section[4], section[4] + section[5]
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", code, at)
            at += 4
            if form == 4:
                yield name, attribute, code[at : at + length]
                at += length
