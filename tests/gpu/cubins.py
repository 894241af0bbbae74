"""What machine code asks of a multiprocessor, read from the code itself."""

from __future__ import annotations

import struct
from typing import NamedTuple

FRAME_SIZE, REGISTERS = 0x11, 0x2F
"""EIATTR_FRAME_SIZE and EIATTR_REGCOUNT, attributes of the section called .nv.info: pairs of a function and a number."""


class Needs(NamedTuple):
    """Of a thread."""

    registers: int
    spilled: int
    """Bytes of local memory."""


def needs(code: bytes) -> list[Needs]:
    """What each function of a cubin needs; one that kernels call has its registers in theirs."""
    (table,), (size, count, names) = (
        struct.unpack_from("<Q", code, 0x28),
        struct.unpack_from("<3H", code, 0x3A),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    found: dict[int, dict[int, int]] = {FRAME_SIZE: {}, REGISTERS: {}}
    for section in sections:
        if code[sections[names][4] + section[0] :].split(b"\0", 1)[0] != b".nv.info":
            continue
        at, end = section[4], section[4] + section[5]
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", code, at)
            at += 4
            if form == 4:
                if attribute in found:
                    function, number = struct.unpack_from("<2I", code, at)
                    found[attribute][function] = number
                at += length
    return [Needs(found[REGISTERS].get(function, 0), frame) for function, frame in found[FRAME_SIZE].items()]


def frames(code: bytes) -> list[int]:
    """Bytes of local memory a thread, of each function."""
    return [each.spilled for each in needs(code)]
