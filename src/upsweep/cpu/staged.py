"""Lines that cannot be swept where they lie, and large arrays of short rows or of columns: a stretch of lines comes near in one
go, is scanned there in place, and its results go out in one go, past the cache where arrays are large.

Near, the items of a line lie side by side in the dtype that is computed with, whatever they are in the array: another dtype,
apart, or one item for all. Of large arrays, rows side by side are read and written a few lines at a time, far from each other: no
processor fetches such lines ahead.
"""

from __future__ import annotations

from upsweep.cpu.address import peek, poke
from upsweep.cpu.frame import move_lines, part, place_of, restart_line
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import CLASH, LINE, NOWHERE, ROW, SINK_WORDS, Part, Sink, Word

(
    N, COLUMNS, COMPONENTS, VALUES, SINKS, SINK_AT, INPUTS, PLACES, TURNED, REDUCE, BACKWARD, SEGMENTED, EXCLUSIVE, STAGED,
) = map(
    int,
    (
        Word.N, Word.COLUMNS, Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.SINK_AT, Word.INPUTS, Word.PLACES,
        Word.TURNED, Word.REDUCE, Word.BACKWARD, Word.SEGMENTED, Word.EXCLUSIVE, Word.STAGED,
    ),
)  # fmt: skip
SIZE, COME, STAGE, SINK = map(int, (Part.SIZE, Part.COME, Part.STAGE, Part.SINK))
COMPONENT, GO = int(Sink.COMPONENT), int(Sink.GO)


@of_words
def items_of(L):
    """The items of a line: a row, or all columns of one."""
    return peek(L, N) if peek(L, TURNED) else peek(L, COLUMNS)


@of_words
def pitch_of(L, p):
    """The bytes from line to line near."""
    width = items_of(L) * peek(p, SIZE)
    return width if width & (CLASH - 1) else width + LINE


@of_words
def home(L, A, a):
    """The place where scratch memory keeps where an array lies, behind the arrays' places."""
    return A + peek(L, PLACES) + 24 * (peek(L, INPUTS) + peek(L, SINKS) + peek(L, VALUES) + a)


@of_words
def home_of(L, A, a):
    """The start of an array, and its strides along the axis and across columns."""
    kept = home(L, A, a)
    return peek(kept, 0), peek(kept, 1), peek(kept, 2)


@of_words
def lines_of(L, A, a, first, count, back):
    """The place of so many lines of an array, from the first on, and its bytes from line to line and from item to item of a line;
    `back`: from the last line of columns on, or from the last items of rows.
    """
    start, along, across = home_of(L, A, a)
    if peek(L, TURNED):
        start += first * across
        return (start + (items_of(L) - 1) * along, across, -along) if back else (start, across, along)
    start += first * along
    return (start + (count - 1) * along, -along, across) if back else (start, along, across)


@of_words
def next_strip(L, A, c):
    """The lowest address of the first 16 items in a component's array behind a strip of rows, and the bytes from row to row and
    from sixteen to sixteen; NOWHERE if the items lie further apart than near.
    """
    if peek(L, STAGED) == 0:
        return NOWHERE, 0, 0
    home, along, across = home_of(L, A, c)
    first = home + peek(L, STAGED) * across + min(0, (ROW - 1) * along)
    return first if abs(along) <= peek(part(L, c), SIZE) else NOWHERE, across, ROW * along


@of_words
def remember(L, A):
    """Keep where the arrays of a strip lie."""
    for a in range(peek(L, INPUTS) + peek(L, SINKS)):
        kept, (place, along, across) = home(L, A, a), place_of(L, A, a)
        poke(kept, 0, place)
        poke(kept, 1, along)
        poke(kept, 2, across)


@of_words
def settle(L, A, a, near, apart, beside, first):
    """Let an array's lines from the first on be those that begin `near`, so many bytes apart, with items so many bytes apart."""
    place = A + peek(L, PLACES) + 24 * a
    poke(place, 0, near - first * apart)
    poke(place, 1, beside if peek(L, TURNED) else apart)
    poke(place, 2, apart if peek(L, TURNED) else beside)


@of_words
def backward(L, A, c):
    """Whether the lines of columns, or the items of rows, of a component stand near from the last to the first. The lines of
    columns do where its results, or items where there are none, lie so in the array: then they are one stretch in both.
    """
    if peek(L, TURNED):
        return peek(L, BACKWARD) != 0
    sink = -1 if peek(L, REDUCE) else peek(part(L, c), SINK)
    _, along, _ = home_of(L, A, c if sink < 0 else peek(L, INPUTS) + sink)
    return along < 0


@of_words
def come(L, A, first, count):
    """Bring so many lines near. Results take the place of their component's items. A line that stands for all comes once, where
    it has no results.
    """
    items, no_results = items_of(L), peek(L, REDUCE)
    for c in range(peek(L, COMPONENTS)):
        p, back = part(L, c), backward(L, A, c)
        size, near, lines = peek(p, SIZE), A + peek(p, STAGE), count
        pitch, beside = pitch_of(L, p), size
        source, apart, step = lines_of(L, A, c, first, count, back)
        if apart == 0 and (no_results or peek(p, SINK) < 0):
            lines = 1
        move_lines(peek(p, COME), source, apart, step, near, pitch, lines, items)
        if back and peek(L, TURNED):
            near, beside = near + (items - 1) * size, -size
        elif back:
            near, pitch = near + (lines - 1) * pitch, -pitch
        settle(L, A, c, near, pitch if lines == count else 0, beside, first)
        sink = -1 if no_results else peek(p, SINK)
        if sink >= 0:
            settle(L, A, peek(L, INPUTS) + sink, near, pitch, beside, first)


@of_words
def line_at(L, A, a, line):
    """The lowest address of a line that is near."""
    place, along, across = place_of(L, A, a)
    if peek(L, TURNED):
        return place + line * across + min(0, (items_of(L) - 1) * along)
    return place + line * along


@of_words
def restart(L, A, first, count):
    """An exclusive scan starts anew at the heads of segments."""
    turned = peek(L, TURNED)
    for o in range(peek(L, SINKS)):
        c = peek(L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS), COMPONENT)
        for line in range(first, first + count):
            prefixes, heads = (
                line_at(L, A, peek(L, INPUTS) + o, line),
                line_at(L, A, peek(L, INPUTS) - 1, line),
            )
            restart_line(L, A, c, prefixes, line if turned else 0, heads, 0 if turned else 1, items_of(L))


@of_words
def go(L, A, first, count):
    """Hand the results of so many lines out."""
    items = items_of(L)
    if peek(L, SEGMENTED) and peek(L, EXCLUSIVE):
        restart(L, A, first, count)
    for o in range(0 if peek(L, REDUCE) else peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        c = peek(s, COMPONENT)
        p = part(L, c)
        target, apart, step = lines_of(L, A, peek(L, INPUTS) + o, first, count, backward(L, A, c))
        move_lines(peek(s, GO), target, apart, step, A + peek(p, STAGE), pitch_of(L, p), count, items)
