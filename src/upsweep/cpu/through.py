"""A tile along a row whose operator gives the same bits in any order: chunk after chunk is folded onto the prefix before it.

Reductions of the largest or the smallest of floats come this way too, and leave it where one is NaN.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.along import source_of, target_of
from upsweep.cpu.frame import aim, ask, copy_rows, part, place_of
from upsweep.cpu.mapped import bring_operands, hand_results
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import NAN, SCAN, SINK_WORDS, SUM, Part, Sink, Word

CHUNK, INPUTS, MAP, FINISH, EXCLUSIVE, PAST, SINKS, SINK_AT, ANY_ORDER = map(
    int,
    (
        Word.CHUNK, Word.INPUTS, Word.MAP, Word.FINISH, Word.EXCLUSIVE, Word.PAST, Word.SINKS, Word.SINK_AT,
        Word.ANY_ORDER,
    ),
)  # fmt: skip
SIZE, BRING, SPARE, START, BASE, END = map(
    int, (Part.SIZE, Part.BRING, Part.SPARE, Part.START, Part.BASE, Part.END)
)
HAND = int(Sink.HAND)

_call4, _call7 = caller(4), caller(7)


@of_words
def spare(L, A):
    """The place of a chunk's items in scratch memory."""
    return A + peek(part(L, 0), SPARE)


@of_words
def bring(L, A, first, m, lane):
    """Bring the items of a row to scratch memory."""
    if peek(L, MAP):
        bring_operands(L, A, first, m, 1)
    else:
        items, along, across = place_of(L, A, 0)
        _call4(peek(part(L, 0), BRING), (spare(L, A), items + first * along + lane * across, along, m))


@of_words
def aim_rows(L, A, region, source, target, lane):
    """Let the operator's code find the prefixes, items and results of the rows from a lane on."""
    aim(L, A, 0, region, 1, lane)
    _, _, x_across = place_of(L, A, 0)
    _, _, y_across = place_of(L, A, peek(L, INPUTS))
    poke(A, 1, source + lane * x_across if source else spare(L, A))
    poke(A, 2, target + lane * y_across if target else spare(L, A))
    poke(A, 3, x_across)
    poke(A, 4, y_across)


@of_words
def sum_items(L, A, first, last, region, w, known):
    """Fold the items of w rows onto the prefixes in a region, where there are some. Returns whether the order did not count."""
    chunk = last - first if source_of(L, A, 0, first) else peek(L, CHUNK)
    poke(A, NAN, 0)
    for row in range(first, last, chunk):
        m, source = min(chunk, last - row), source_of(L, A, 0, row)
        at_once = w if source else 1
        for lane in range(0, w, at_once):
            if source == 0:
                bring(L, A, row, m, lane)
            aim_rows(L, A, region, source, 0, lane)
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
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        _call4(peek(s, HAND), (target + first * along + lane * across, along, spare(L, A), m))


@of_words
def show_starts(L, A, lane, rows):
    """The first results of an exclusive scan, in the rows that the frame points at."""
    p = part(L, 0)
    size = peek(p, SIZE)
    for k in range(rows):
        copy_bytes(peek(A, 2) + k * peek(A, 4), A + peek(p, START) + (lane + k) * size, size)


@of_words
def scan_items(L, A, first, last, w, known, brought):
    """Scan the rows [first, last) from the prefixes at BASE, if these are `known`. `brought` items lie in scratch memory and
    are not taken from the array.
    """
    chunk, exclusive = peek(L, CHUNK), peek(L, EXCLUSIVE)
    copy_rows(L, A, END, BASE, w)
    for row in range(first, last, chunk):
        m, source, target = min(chunk, last - row), source_of(L, A, 0, row), target_of(L, A, 0, row)
        at_once = w if source and target else 1
        for lane in range(0, w, at_once):
            if source == 0 and not brought:
                bring(L, A, row, m, lane)
            aim_rows(L, A, END, source, target, lane)
            ask(L, A, SCAN, target and peek(L, PAST), m, known, exclusive, at_once)
            if exclusive and not known:
                show_starts(L, A, lane, at_once)
            if target == 0:
                hand(L, A, row, m, lane)
        known = 1
