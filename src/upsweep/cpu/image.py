"""Object files as images: code that may lie anywhere in memory, so a process loads it without LLVM and without a linker.

An object file has its sections side by side, and notes where one refers to another (relocations). Nearly all relocations are
distances, which are filled in when the image is made. Functions of the C library are called through a table of addresses at the
image's end, which is filled in when the image is loaded. Source: System V ABI, AMD64 supplement, 4.4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from functools import cache
from typing import NamedTuple

from upsweep.cpu.kept import Code

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
"""Whether this platform loads images; others have LLVM load object files (`linker`)."""

_PC32, _PLT32, _ABSOLUTE = 2, 4, 1
_PROGRAM, _SYMBOLS, _RELOCATIONS = 1, 2, 4
_ALLOCATED = 2
_JUMP = b"\xff\x25"
"""`jmp [rip + distance]`."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def image_of(made: bytes) -> Code:
    """The image of an object file in ELF for x86-64 with one global function."""
    start, count = struct.unpack_from("<Q", made, 0x28)[0], struct.unpack_from("<H", made, 0x3C)[0]
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", made, start + 64 * i)) for i in range(count)]
    table = next(s for s in sections if s.kind == _SYMBOLS)
    names = sections[table.link]
    symbols = list(struct.iter_unpack("<IBBHQQ", made[table.offset : table.offset + table.size]))

    def name(symbol: tuple[int, ...]) -> str:
        begin = names.offset + symbol[0]
        return made[begin : made.index(b"\0", begin)].decode()

    code, places = bytearray(), {}
    for index, section in enumerate(sections):
        if section.kind == _PROGRAM and section.flags & _ALLOCATED:
            code += bytes(-len(code) % max(16, section.align))
            places[index] = len(code)
            code += made[section.offset : section.offset + section.size]
    needs = [name(symbol) for symbol in symbols[1:] if symbol[3] == 0]
    jumps = len(code) + -len(code) % 8
    addresses = jumps + 8 * len(needs)
    code += bytes(addresses + 8 * len(needs) - len(code))
    for i in range(len(needs)):
        jump, slot = jumps + 8 * i, addresses + 8 * i
        code[jump : jump + 6] = _JUMP + struct.pack("<i", slot - (jump + 6))

    moved = []
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in places:
            for offset, info, addend in struct.iter_unpack("<QQq", made[section.offset :][: section.size]):
                symbol = symbols[info >> 32]
                target = (
                    jumps + 8 * needs.index(name(symbol)) if symbol[3] == 0 else places[symbol[3]] + symbol[4]
                )
                place = places[section.info] + offset
                if info & 0xFFFFFFFF == _ABSOLUTE:
                    moved.append(place)
                    struct.pack_into("<q", code, place, target + addend)
                elif info & 0xFFFFFFFF in (_PC32, _PLT32):
                    struct.pack_into("<i", code, place, target + addend - place)
                else:
                    raise ValueError(f"a relocation of kind {info & 0xFFFFFFFF}")
    entry = next(places[s[3]] + s[4] for s in symbols if s[1] >> 4 == 1 and s[3] in places)
    return Code(bytes(code), needs, entry, moved)


def loaded(image: Code) -> int:
    """The address of an image's function in this process, from now on."""
    size, flags = len(image.code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size, flags=flags)
    memory[:] = image.code
    here = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in image.moved:
        struct.pack_into("<q", memory, place, struct.unpack_from("<q", memory, place)[0] + here)
    struct.pack_into(
        f"<{len(image.needs)}Q", memory, size - 8 * len(image.needs), *map(_address_of, image.needs)
    )
    if _libc().mprotect(ctypes.c_void_p(here), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "this system lets no memory be run that was written")
    _images.append(memory)
    return here + image.entry


_images: list[mmap.mmap] = []


def _address_of(name: str) -> int:
    found = getattr(_libc(), name, None)
    if found is None:
        from upsweep.cpu.linker import address_of

        return address_of(name)
    return ctypes.cast(found, ctypes.c_void_p).value or 0


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
