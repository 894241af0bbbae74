"""A tile along a row whose operator gives the same bits in any order: chunk after chunk is folded onto the prefix before it.

Reductions of the largest or the smallest of floats come this way too, and leave it where one is NaN.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.along_places import all_read, all_written, source_of, target_of
from upsweep.cpu.frame import ask, copy_rows, move_line, part, place_of
from upsweep.cpu.mapped import bring_operands, hand_results
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import NAN, OPERANDS, SCAN, SINK_WORDS, SUM, Part, Sink, Word

CHUNK, INPUTS, VALUES, MAP, FINISH, EXCLUSIVE, PAST, SINKS, SINK_AT, ANY_ORDER = map(
    int,
    (
        Word.CHUNK, Word.INPUTS, Word.VALUES, Word.MAP, Word.FINISH, Word.EXCLUSIVE, Word.PAST, Word.SINKS, Word.SINK_AT,
        Word.ANY_ORDER,
    ),
)  # fmt: skip
SIZE, BRING, SPARE, START, BASE, END, SINK = map(
    int, (Part.SIZE, Part.BRING, Part.SPARE, Part.START, Part.BASE, Part.END, Part.SINK)
)
COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)

_call7 = caller(7)


@of_words
def spare(L, A, c):
    """The place of a chunk's items in scratch memory."""
    return A + peek(part(L, c), SPARE)


@of_words
def bring(L, A, first, m, lane):
    """Bring the items of a row that cannot be swept where they lie to scratch memory."""
    if peek(L, MAP):
        bring_operands(L, A, first, m, 1)
        return
    for c in range(peek(L, VALUES)):
        if source_of(L, A, c, first) == 0:
            items, along, across = place_of(L, A, c)
            move_line(
                peek(part(L, c), BRING), items + first * along + lane * across, along, spare(L, A, c), m
            )


@of_words
def aim_rows(L, A, region, first, lane, results):
    """Let the operator's code find the prefixes, items and results of the rows from a lane on."""
    for c in range(peek(L, VALUES)):
        p, at = part(L, c), A + 8 * OPERANDS * c
        source, target = source_of(L, A, c, first), target_of(L, A, c, first) if results else 0
        _, _, x_across = place_of(L, A, c)
        _, _, y_across = place_of(L, A, peek(L, INPUTS) + max(peek(p, SINK), 0))
        poke(at, 0, A + peek(p, region) + lane * peek(p, SIZE))
        poke(at, 1, source + lane * x_across if source else spare(L, A, c))
        poke(at, 2, target + lane * y_across if target else spare(L, A, c))
        poke(at, 3, x_across)
        poke(at, 4, y_across)


@of_words
def sum_items(L, A, first, last, region, w, known):
    """Fold the items of w rows onto the prefixes in a region, where there are some. Returns whether the order did not count."""
    poke(A, NAN, 0)
    there = all_read(L, A, first)
    chunk, at_once = last - first if there else peek(L, CHUNK), w if there else 1
    for row in range(first, last, chunk):
        m = min(chunk, last - row)
        for lane in range(0, w, at_once):
            bring(L, A, row, m, lane)
            aim_rows(L, A, region, row, lane, 0)
            _call7(peek(L, ANY_ORDER), (SUM, A, 0, m, known, 0, at_once))
        known = 1
    return peek(A, NAN) == 0


@of_words
def hand(L, A, first, m, lane):
    """Hand the prefixes in scratch memory to the outputs."""
    if peek(L, FINISH):
        hand_results(L, A, first, 0, m, 1)
    for o in range(0 if peek(L, FINISH) else peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        c, (target, along, across) = peek(s, COMPONENT), place_of(L, A, peek(L, INPUTS) + o)
        if target_of(L, A, c, first) == 0:
            move_line(peek(s, HAND), target + first * along + lane * across, along, spare(L, A, c), m)


@of_words
def show_starts(L, A, lane, rows):
    """The first results of an exclusive scan, in the rows that the frame points at."""
    for c in range(peek(L, VALUES)):
        p, at = part(L, c), A + 8 * OPERANDS * c
        size = peek(p, SIZE)
        for k in range(rows):
            copy_bytes(peek(at, 2) + k * peek(at, 4), A + peek(p, START) + (lane + k) * size, size)


@of_words
def scan_items(L, A, first, last, w, known, brought):
    """Scan the rows [first, last) from the prefixes at BASE, if these are `known`. `brought` items lie in scratch memory and
    are not taken from the array.
    """
    chunk, exclusive = peek(L, CHUNK), peek(L, EXCLUSIVE)
    copy_rows(L, A, END, BASE, w)
    for row in range(first, last, chunk):
        m, read, written = min(chunk, last - row), all_read(L, A, row), all_written(L, A, row)
        at_once = w if read and written else 1
        for lane in range(0, w, at_once):
            if not read and not brought:
                bring(L, A, row, m, lane)
            aim_rows(L, A, END, row, lane, 1)
            past = written and peek(L, PAST)
            if past and not read:
                past = 1
            ask(L, A, SCAN, past, m, known, exclusive, at_once)
            if exclusive and not known:
                show_starts(L, A, lane, at_once)
            if not written:
                hand(L, A, row, m, lane)
        known = 1
