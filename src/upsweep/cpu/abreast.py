"""Narrow columns: chunks of lines, of which each takes one call of the operator's code (`blocks`).

Columns with gaps between them, reversed or converted ones, flags that all columns share, and the last lines, which are no whole
block of 16, are brought side by side first, and so is all that goes through a map. Results go to the arrays, or to scratch
memory first: then they are handed over a chunk at a time.

Where columns are few, a vector that begins with a line also holds items of the lines behind it. Values that are computed from
those items are no result.
"""

from __future__ import annotations

from upsweep.cpu import panels
from upsweep.cpu.address import copy_bytes, peek, poke
from upsweep.cpu.columns import pad, target_of
from upsweep.cpu.frame import aim, ask, copy_rows, fill, move_lines, part, place_of
from upsweep.cpu.mapped import bring_lines, compute_line, hand_lines
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import BEFORE as BEFORE_ITEMS
from upsweep.cpu.words import BEHIND, FOLD, LINE, NOTHING, NOWHERE, PASS, ROW, SINK_WORDS, Part, Sink, Word

N, COMPONENTS, VALUES, SINKS, EXCLUSIVE, SINK_AT, INPUTS, LANES, MAP, FINISH, CHUNK, DIRECT = map(
    int,
    (
        Word.N, Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.EXCLUSIVE, Word.SINK_AT, Word.INPUTS,
        Word.LANES, Word.MAP, Word.FINISH, Word.CHUNK, Word.DIRECT,
    ),
)  # fmt: skip
SIZE, SPARE, STACK, FOLDS, START, BASE, BEFORE, TAIL, BRING, PLAIN, WANTED = map(
    int,
    (
        Part.SIZE, Part.SPARE, Part.STACK, Part.FOLDS, Part.START, Part.BASE, Part.BEFORE, Part.TAIL, Part.BRING,
        Part.PLAIN, Part.WANTED,
    ),
)  # fmt: skip
COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)

panel_put, hand_last = panels.put, panels.hand_last


@of_words
def spare_of(L, A, c, w, which):
    """Scratch memory for the lines of a chunk: for results, or for items."""
    p = part(L, c)
    return A + peek(p, SPARE) + LINE + which * (peek(L, CHUNK) * w * peek(p, SIZE) + 2 * LINE)


@of_words
def inside(L, A, last, w):
    """Whether the vector that begins with the line before `last` ends before its array does, whose items stay as they are."""
    for c in range(peek(L, COMPONENTS)):
        if not peek(part(L, c), PLAIN):
            return 0
        _, along, _ = place_of(L, A, c)
        more = peek(L, LANES) - w
        if more > 0 and (peek(L, N) - last) * along < more * peek(part(L, c), SIZE):
            return 0
    return 1


@of_words
def bring(L, A, first, m, w):
    """Bring m lines to scratch memory, with no gaps between them; the last one is repeated up to a whole block. A map takes them
    as one line.
    """
    mapped = 0
    if peek(L, MAP):
        mapped = peek(L, VALUES)
        slot = bring_lines(L, A, first, m, w)
        for c in range(mapped):
            poke(A, slot + c, spare_of(L, A, c, w, 1))
        compute_line(L, A, MAP, m * w, 0, 0)
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        spare, width = spare_of(L, A, c, w, 1), w * peek(p, SIZE)
        if c >= mapped:
            source, along, across = place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
            move_lines(peek(p, BRING), source + first * along, along, across, spare, width, m, w)
        fill(spare + m * width, width, -m % ROW)


@of_words
def sweep(L, A, first, m, results, direct, known, done, w):
    """Sweep m lines, behind `done` blocks of their tile. Results, if any, go to the arrays if `direct`, else to scratch memory;
    then the prefixes behind whole blocks are at BEFORE.
    """
    components, values = peek(L, COMPONENTS), peek(L, VALUES)
    there = m % ROW == 0 and inside(L, A, first + m, w)
    if not there:
        bring(L, A, first, m, w)
    aim(L, A, 0, START, values, 0)
    aim(L, A, values, BASE, values, 0)
    aim(L, A, 2 * values, BEFORE, values, 0)
    aim(L, A, 3 * values, STACK, components, 0)
    aim(L, A, 3 * values + components, FOLDS, values, 0)
    here = 4 * values + components
    steps = here + components + values
    for c in range(components):
        source, along, _ = place_of(L, A, c)
        poke(A, here + c, source + first * along if there else spare_of(L, A, c, w, 1))
        poke(A, steps + c, along if there else w * peek(part(L, c), SIZE))
    for c in range(values):
        target, along, _ = target_of(L, A, c)
        if not direct:
            along = w * peek(part(L, c), SIZE)
            target = spare_of(L, A, c, w, 0) if peek(part(L, c), WANTED) else NOWHERE
        elif target != NOWHERE:
            target += first * along
        poke(A, here + components + c, target + peek(L, EXCLUSIVE) * along if target != NOWHERE else NOWHERE)
        poke(A, steps + components + c, along)
    ask(L, A, PASS, results, w, (m + ROW - 1) // ROW, known, done)


@of_words
def sum_blocks(L, A, first, last, w):
    """Take the sums of whole blocks into the counter."""
    chunk = peek(L, CHUNK)
    for row in range(first, last, chunk):
        sweep(L, A, row, min(chunk, last - row), NOTHING, 0, 0, (row - first) // ROW, w)


@of_words
def top_of(blocks):
    """The highest level of the counter of so many blocks."""
    level = 0
    while blocks >> level > 1:
        level += 1
    return level


@of_words
def sums_at(L, A, c, level, w):
    p = part(L, c)
    return A + peek(p, STACK) + level * max(w, peek(L, LANES)) * peek(p, SIZE)


@of_words
def sum_abreast(L, A, first, last, w):
    """Leave the sum of a tile on the counter, at its first level."""
    sum_blocks(L, A, first, last, w)
    level = top_of((last - first) // ROW)
    for c in range(peek(L, COMPONENTS) if level else 0):
        copy_bytes(sums_at(L, A, c, 0, w), sums_at(L, A, c, level, w), w * peek(part(L, c), SIZE))


@of_words
def fold_sums(L, A, has, blocks, w):
    """Put the prefix behind so many blocks at BEFORE, which holds the one before them, if there is one."""
    components, values = peek(L, COMPONENTS), peek(L, VALUES)
    for level in range(top_of(blocks), -1, -1):
        if blocks >> level & 1 and has:
            aim(L, A, 0, START, values, 0)
            aim(L, A, values, BEFORE, values, 0)
            aim(L, A, 2 * values, STACK, components, level * max(w, peek(L, LANES)))
            aim(L, A, 2 * values + components, BEFORE, values, 0)
            ask(L, A, FOLD, 0, w, 0, 0, 1)
        elif blocks >> level & 1:
            for c in range(values):
                p = part(L, c)
                copy_bytes(A + peek(p, BEFORE), sums_at(L, A, c, level, w), w * peek(p, SIZE))
            has = 1


@of_words
def end_with_tail(L, A, last, line, direct, w):
    """Let the results of the last line, which is that line of its chunk, be the prefixes at TAIL."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        width, (target, along, _) = w * peek(p, SIZE), target_of(L, A, c)
        place = target + last * along if direct else spare_of(L, A, c, w, 0) + line * width
        if not direct or target != NOWHERE:
            copy_bytes(place, A + peek(p, TAIL), width)


@of_words
def hand(L, A, first, m, w):
    """Hand out the prefixes of m lines in scratch memory. A finish takes them as one line."""
    if peek(L, FINISH):
        for c in range(peek(L, VALUES)):
            poke(A, c, spare_of(L, A, c, w, 0))
        hand_lines(L, A, first, m, w)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        c = peek(s, COMPONENT)
        width, results = w * peek(part(L, c), SIZE), spare_of(L, A, c, w, 0)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        move_lines(peek(s, HAND), target + first * along, along, across, results, width, m, w)


@of_words
def begin(L, A, w):
    """Set the prefixes before the first lines."""
    pad(L, A, START, peek(L, VALUES), w)
    pad(L, A, BASE, peek(L, VALUES), w)
    copy_rows(L, A, BEFORE, BASE, max(w, peek(L, LANES)))


@of_words
def scan_abreast(L, A, has, ends, first, last, w):
    """Scan the lines [first, last) from the prefix at BASE, if the tile `has` one. `ends`: the prefix behind is at TAIL."""
    chunk, results = peek(L, CHUNK), BEFORE_ITEMS if peek(L, EXCLUSIVE) else BEHIND
    begin(L, A, w)
    for row in range(first, last, chunk):
        m = min(chunk, last - row)
        direct = peek(L, DIRECT) and m % ROW == 0
        sweep(L, A, row, m, results, direct, has, (row - first) // ROW, w)
        if ends and row + m == last and results == BEHIND:
            end_with_tail(L, A, last - 1, m - 1, direct, w)
        if not direct:
            hand(L, A, row, m, w)


@of_words
def reduce_abreast(L, A, has, ends, first, last, w):
    """Reduce the lines [first, last) like that."""
    blocks, rest = (last - first) // ROW, (last - first) % ROW
    begin(L, A, w)
    sum_blocks(L, A, first, last - rest, w)
    fold_sums(L, A, has, blocks, w)
    if ends:
        copy_rows(L, A, BEFORE, TAIL, w)
    if rest:
        sweep(L, A, last - rest, rest, BEHIND, 0, has or blocks, 0, w)
    for c in range(peek(L, VALUES) if rest else 0):
        width = w * peek(part(L, c), SIZE)
        copy_bytes(A + peek(part(L, c), BEFORE), spare_of(L, A, c, w, 0) + (rest - 1) * width, width)
    panel_put(L, A, ROW - 1, w, BEFORE)
    hand_last(L, A, ROW, w)
