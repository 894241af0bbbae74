"""A tile along a row whose operator gives the same bits in any order: chunk after chunk is folded onto the prefix before it."""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.along import source_of, target_of
from upsweep.cpu.frame import aim, ask, copy_rows, part, place_of
from upsweep.cpu.mapped import bring_operands, hand_results
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import SCAN, SINK_WORDS, SUM, Part, Sink, Word

CHUNK, INPUTS, MAP, FINISH, EXCLUSIVE, PAST, SINKS, SINK_AT = map(
    int,
    (
        Word.CHUNK, Word.INPUTS, Word.MAP, Word.FINISH, Word.EXCLUSIVE, Word.PAST, Word.SINKS, Word.SINK_AT,
    ),
)  # fmt: skip
SIZE, BRING, SPARE, START, BASE, END = map(
    int, (Part.SIZE, Part.BRING, Part.SPARE, Part.START, Part.BASE, Part.END)
)
HAND = int(Sink.HAND)

_call4 = caller(4)


@of_words
def items_of(L, A, first, m):
    """Where a chunk's items lie side by side: in their array, or in scratch memory."""
    source = source_of(L, A, 0, first)
    if source == 0:
        p = part(L, 0)
        source = A + peek(p, SPARE)
        if peek(L, MAP):
            bring_operands(L, A, first, m, 1)
        else:
            items, along, _ = place_of(L, A, 0)
            _call4(peek(p, BRING), (source, items + first * along, along, m))
    return source


@of_words
def sum_items(L, A, first, last, region, known):
    """Fold items onto the prefix in a region, where there is one."""
    chunk = peek(L, CHUNK)
    for row in range(first, last, chunk):
        m = min(chunk, last - row)
        poke(A, 1, items_of(L, A, row, m))
        aim(L, A, 0, region, 1, 0)
        ask(L, A, SUM, 0, m, known, 0, 0)
        known = 1


@of_words
def hand(L, A, first, m):
    """The prefixes that lie in scratch memory to the outputs."""
    if peek(L, FINISH):
        hand_results(L, A, first, 0, m, 1)
    for o in range(0 if peek(L, FINISH) else peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, along, _ = place_of(L, A, peek(L, INPUTS) + o)
        _call4(peek(s, HAND), (target + first * along, along, A + peek(part(L, 0), SPARE), m))


@of_words
def scan_items(L, A, first, last, known):
    """Scan the rows [first, last) from the prefix at BASE, if it is `known`."""
    chunk, p = peek(L, CHUNK), part(L, 0)
    copy_rows(L, A, END, BASE, 1)
    for row in range(first, last, chunk):
        m = min(chunk, last - row)
        poke(A, 1, items_of(L, A, row, m))
        straight = target_of(L, A, 0, row)
        target = straight or A + peek(p, SPARE)
        poke(A, 2, target)
        aim(L, A, 0, END, 1, 0)
        ask(L, A, SCAN, straight and peek(L, PAST), m, known, peek(L, EXCLUSIVE), 0)
        if peek(L, EXCLUSIVE) and not known:
            copy_bytes(target, A + peek(p, START), peek(p, SIZE))
        if not straight:
            hand(L, A, row, m)
        known = 1
