"""The requests of the kernel to the operator's code: a frame holds the addresses of the operands."""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import PART_WORDS, WORDS, Part, Word

COMPONENTS, VALUES, SWEEP, PLACES, STATUS, PITCH = map(
    int, (Word.COMPONENTS, Word.VALUES, Word.SWEEP, Word.PLACES, Word.STATUS, Word.PITCH)
)
SIZE, PANEL, START, RESTART = int(Part.SIZE), int(Part.PANEL), int(Part.START), int(Part.RESTART)

_call5, _call7 = caller(5), caller(7)


@of_words
def move_line(code, array, across, scratch, count):
    """Have a line of items brought to scratch memory or handed to an array."""
    _call7(code, (array, 0, across, scratch, 0, 1, count))


@of_words
def move_lines(code, array, along, across, scratch, pitch, lines, count):
    """Have lines of items brought to scratch memory or handed to an array: see `lines`."""
    _call7(code, (array, along, across, scratch, pitch, lines, count))


@of_words
def part(L, c):
    """The words of a component."""
    return L + 8 * (WORDS + c * PART_WORDS)


@of_words
def place_of(L, A, a):
    """The start of an array in the strip at hand, and its strides along the axis and across columns."""
    place = A + peek(L, PLACES) + 24 * a
    return peek(place, 0), peek(place, 1), peek(place, 2)


@of_words
def aim(L, A, slot, region, count, item):
    """Put the addresses of an item of a region of scratch memory into the frame."""
    for c in range(count):
        p = part(L, c)
        poke(A, slot + c, A + peek(p, region) + item * peek(p, SIZE))


@of_words
def ask(L, A, which, pitch, w, m, first, apart):
    """Let the operator's code work on the frame."""
    status = _call7(peek(L, SWEEP), (which, A, pitch, w, m, first, apart))
    if status:
        poke(L, STATUS, status)


@of_words
def copy_rows(L, A, target, source, w):
    """Copy w prefixes from region to region."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(A + peek(p, target), A + peek(p, source), w * peek(p, SIZE))


@of_words
def restart_line(L, A, c, prefixes, lane, heads, apart, count):
    """Have a line of prefixes set to the starts from a lane on, `apart` items apart, at the heads of segments."""
    p = part(L, c)
    start = A + peek(p, START) + lane * peek(p, SIZE)
    _call5(peek(p, RESTART), (prefixes, start, heads, apart, count))


@of_words
def panel_row(L, A, c, row):
    """The address of a row of the panel; the row before the first holds prefixes."""
    p = part(L, c)
    return A + peek(p, PANEL) + (row + 1) * peek(L, PITCH) * peek(p, SIZE)


@of_words
def whole_blocks(lanes, block):
    return (lanes + block - 1) // block * block


@of_words
def fill(target, size, count):
    """Set `count` items to the one before them."""
    done = 0
    while done < count:
        more = min(done + 1, count - done)
        copy_bytes(target + done * size, target - size, more * size)
        done += more


@of_words
def gather(target, source, stride, size, count):
    """Copy `count` items, `stride` bytes apart, to a place where they lie side by side."""
    if stride == size:
        copy_bytes(target, source, count * size)
    elif stride == 0:
        copy_bytes(target, source, size)
        fill(target + size, size, count - 1)
    else:
        for i in range(count):
            copy_bytes(target + i * size, source + i * stride, size)
