"""Lines that cannot be swept where they lie, and large arrays of short rows or of columns: a stretch of lines comes near in one
go, is scanned there in place, and its results go out in one go, past the cache where arrays are large.

Near, the items of a line lie side by side in the dtype that is computed with, whatever they are in the array: another dtype,
reversed, apart, or one item for all. Of large arrays, rows side by side are read and written a few lines at a time, far from
each other: no processor fetches such lines ahead.
"""

from __future__ import annotations

from upsweep.cpu.address import peek, poke
from upsweep.cpu.frame import move_lines, part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import SINK_WORDS, Part, Sink, Word

N, COLUMNS, COMPONENTS, VALUES, SINKS, SINK_AT, INPUTS, PLACES, TURNED, REDUCE = map(
    int,
    (
        Word.N, Word.COLUMNS, Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.SINK_AT, Word.INPUTS, Word.PLACES,
        Word.TURNED, Word.REDUCE,
    ),
)  # fmt: skip
SIZE, COME, STAGE, SINK = map(int, (Part.SIZE, Part.COME, Part.STAGE, Part.SINK))
COMPONENT, GO = int(Sink.COMPONENT), int(Sink.GO)


@of_words
def items_of(L):
    """The items of a line: a row, or all columns of one."""
    return peek(L, N) if peek(L, TURNED) else peek(L, COLUMNS)


@of_words
def home(L, A, a):
    """The place where scratch memory keeps where an array lies, behind the arrays' places."""
    return A + peek(L, PLACES) + 24 * (peek(L, INPUTS) + peek(L, SINKS) + peek(L, VALUES) + a)


@of_words
def home_of(L, A, a):
    """The start of an array, and its bytes from line to line and from item to item of a line."""
    kept = home(L, A, a)
    along, across = peek(kept, 1), peek(kept, 2)
    return peek(kept, 0), across if peek(L, TURNED) else along, along if peek(L, TURNED) else across


@of_words
def remember(L, A):
    """Keep where the arrays of a strip lie."""
    for a in range(peek(L, INPUTS) + peek(L, SINKS)):
        kept, (place, along, across) = home(L, A, a), place_of(L, A, a)
        poke(kept, 0, place)
        poke(kept, 1, along)
        poke(kept, 2, across)


@of_words
def settle(L, A, a, near, size, apart, first):
    """Let an array's lines from the first on be those that begin `near`, so many bytes apart, with items of this size."""
    place = A + peek(L, PLACES) + 24 * a
    poke(place, 0, near - first * apart)
    poke(place, 1, size if peek(L, TURNED) else apart)
    poke(place, 2, apart if peek(L, TURNED) else size)


@of_words
def backward(L, A, c):
    """Whether lines of a component stand near from the last to the first, as those of columns do whose results, or items where
    there are none, lie so in the array: then they are one stretch in both.
    """
    sink = -1 if peek(L, REDUCE) else peek(part(L, c), SINK)
    _, apart, _ = home_of(L, A, c if sink < 0 else peek(L, INPUTS) + sink)
    return apart < 0 and peek(L, TURNED) == 0


@of_words
def come(L, A, first, count):
    """Bring so many lines near. Results take the place of their component's items. A line that stands for all comes once, where
    it has no results.
    """
    items, no_results = items_of(L), peek(L, REDUCE)
    for c in range(peek(L, COMPONENTS)):
        p, (source, apart, beside) = part(L, c), home_of(L, A, c)
        size, near, lines = peek(p, SIZE), A + peek(p, STAGE), count
        if apart == 0 and (no_results or peek(p, SINK) < 0):
            lines = 1
        width, source = items * size, source + first * apart
        if backward(L, A, c):
            move_lines(peek(p, COME), source + (lines - 1) * apart, -apart, beside, near, width, lines, items)
            near, width = near + (lines - 1) * width, -width
        else:
            move_lines(peek(p, COME), source, apart, beside, near, width, lines, items)
        settle(L, A, c, near, size, width if lines == count else 0, first)
        sink = -1 if no_results else peek(p, SINK)
        if sink >= 0:
            settle(L, A, peek(L, INPUTS) + sink, near, size, width, first)


@of_words
def go(L, A, first, count):
    """Hand the results of so many lines out."""
    items = items_of(L)
    for o in range(0 if peek(L, REDUCE) else peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        p, (target, apart, beside) = part(L, peek(s, COMPONENT)), home_of(L, A, peek(L, INPUTS) + o)
        near, width = A + peek(p, STAGE), items * peek(p, SIZE)
        target += first * apart
        if backward(L, A, peek(s, COMPONENT)):
            target, apart = target + (count - 1) * apart, -apart
        move_lines(peek(s, GO), target, apart, beside, near, width, count, items)
