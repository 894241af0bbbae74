"""Large arrays of short rows or of columns: a stretch of their memory comes near in one go, is scanned there in place, and goes
past the cache in one go.

Rows side by side are read and written a few lines at a time, far from each other: no processor fetches such lines ahead.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.frame import part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import SINK_WORDS, Part, Sink, Word

COMPONENTS, VALUES, SINKS, SINK_AT, INPUTS, PLACES, TURNED, REDUCE = map(
    int,
    (
        Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.SINK_AT, Word.INPUTS, Word.PLACES, Word.TURNED, Word.REDUCE,
    ),
)  # fmt: skip
SIZE, STAGE = int(Part.SIZE), int(Part.STAGE)
COMPONENT, STREAM = int(Sink.COMPONENT), int(Sink.STREAM)

_call4 = caller(4)


@of_words
def line_of(L, A, a):
    """The bytes of a line: a row, or all columns of one."""
    _, along, across = place_of(L, A, a)
    return across if peek(L, TURNED) else along


@of_words
def homes(L, A):
    """The place where scratch memory keeps where arrays begin: behind their places."""
    return A + peek(L, PLACES) + 24 * (peek(L, INPUTS) + peek(L, SINKS) + peek(L, VALUES))


@of_words
def remember(L, A):
    """Keep where the arrays of a strip begin."""
    for a in range(peek(L, INPUTS) + peek(L, SINKS)):
        place, _, _ = place_of(L, A, a)
        poke(homes(L, A), a, place)


@of_words
def settle(L, A, a, c, first):
    """Let an array's lines from the first on be those of a component that came near."""
    poke(A + peek(L, PLACES) + 24 * a, 0, A + peek(part(L, c), STAGE) - first * line_of(L, A, a))


@of_words
def come(L, A, first, count):
    """Bring so many lines near. Results of a scan take the place of its items."""
    for c in range(peek(L, COMPONENTS)):
        line = line_of(L, A, c)
        copy_bytes(A + peek(part(L, c), STAGE), peek(homes(L, A), c) + first * line, count * line)
        settle(L, A, c, c, first)
    for o in range(0 if peek(L, REDUCE) else peek(L, SINKS)):
        settle(L, A, peek(L, INPUTS) + o, peek(L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS), COMPONENT), first)


@of_words
def go(L, A, first, count):
    """Hand the results of so many lines out."""
    for o in range(0 if peek(L, REDUCE) else peek(L, SINKS)):
        s, a = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS), peek(L, INPUTS) + o
        p, line = part(L, peek(s, COMPONENT)), line_of(L, A, a)
        size = peek(p, SIZE)
        _call4(
            peek(s, STREAM),
            (peek(homes(L, A), a) + first * line, size, A + peek(p, STAGE), count * line // size),
        )
