"""The last prefix of a row: the fold of the aligned blocks that its length names, from the sums of a chunk that was swept up."""

from __future__ import annotations

from upsweep.cpu.address import copy_bytes, peek
from upsweep.cpu.along_places import aim_sums, top_of
from upsweep.cpu.frame import aim, ask, copy_rows, move_line, part, place_of
from upsweep.cpu.mapped import hand_result
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import FOLD, ROW, SINK_WORDS, Part, Sink, Word

COMPONENTS, VALUES, SINKS, SINK_AT, LANES, INPUTS, FINISH = map(
    int,
    (Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.SINK_AT, Word.LANES, Word.INPUTS, Word.FINISH),
)
SIZE, START, BEFORE, END = map(int, (Part.SIZE, Part.START, Part.BEFORE, Part.END))
COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)


@of_words
def fold_block(L, A, level, item, known):
    """Fold a block sum of a level onto the prefix at END, if this is `known`."""
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    aim_sums(L, A, 2 * values, components, level, item)
    if known:
        aim(L, A, 0, START, values, 0)
        aim(L, A, values, END, values, 0)
        aim(L, A, 2 * values + components, END, values, 0)
        ask(L, A, FOLD, 0, 1, 0, 0, 0)
        return
    for c in range(values):
        p = part(L, c)
        copy_bytes(A + peek(p, END), peek(A, 2 * values + c), peek(p, SIZE))


@of_words
def fold_blocks(L, A, m, known):
    """Put the prefix behind m items of a chunk that was swept up at END, from the prefix at BEFORE if this is `known`."""
    lanes, (tip, _) = peek(L, LANES), top_of(m)
    copy_rows(L, A, END, BEFORE, 1)
    for level in range(tip, -1, -1):
        items = m >> 4 * level
        # The highest sums lie one behind the other, and all others row by row, group by group.
        row, group = (
            (1, 0) if level == tip else (lanes, items // ROW // lanes * lanes * ROW + items // ROW % lanes)
        )
        done, items = 0, items if level == tip else items % ROW
        for bit in range(4, -1, -1):
            if items >> bit & 1:
                done += 1 << bit
                fold_block(L, A, level, group + (done - 1) * row, known)
                known = 1


@of_words
def hand_last(L, A, w):
    """Hand out the prefix at END: a reduction's result. Where rows are scanned straight through, there are w rows."""
    aim(L, A, 0, END, peek(L, VALUES), 0)
    if peek(L, FINISH):
        hand_result(L, A, 1)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, _, across = place_of(L, A, peek(L, INPUTS) + o)
        move_line(peek(s, HAND), target, across, peek(A, peek(s, COMPONENT)), w)
