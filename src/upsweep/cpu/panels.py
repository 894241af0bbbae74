"""A chunk of rows side by side: a panel of 16 rows, items of a run below each other, and a lane for each row that is scanned.

Where an array has lines of items of all rows, the lines come into the rows of the panel as they are. Where the items of a run
lie side by side instead, runs are transposed. So arrays that lie differently meet in a panel.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.frame import (
    aim,
    ask,
    move_line,
    move_lines,
    panel_row,
    part,
    place_of,
    restart_line,
    whole_blocks,
)
from upsweep.cpu.mapped import bring_operands, hand_result, hand_results, repeat_last
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import DOWN, FOLD, JOIN, ROW, SINK_WORDS, UP, Part, Sink, Word

COMPONENTS, VALUES, SINKS, EXCLUSIVE, SEGMENTED, SINK_AT, FLAGS, PITCH, INPUTS, MAP, FINISH = map(
    int,
    (
        Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.EXCLUSIVE, Word.SEGMENTED, Word.SINK_AT, Word.FLAGS,
        Word.PITCH, Word.INPUTS, Word.MAP, Word.FINISH,
    ),
)  # fmt: skip
SIZE, BRING, TURN_IN, TURN_OUT, PLAIN, BLOCK, SPARE, TOTAL, START, BEFORE, END = map(
    int,
    (
        Part.SIZE, Part.BRING, Part.TURN_IN, Part.TURN_OUT, Part.PLAIN, Part.BLOCK, Part.SPARE, Part.TOTAL, Part.START,
        Part.BEFORE, Part.END,
    ),
)  # fmt: skip
COMPONENT, HAND, SINK_PLAIN = int(Sink.COMPONENT), int(Sink.HAND), int(Sink.PLAIN)

_call6 = caller(6)


@of_words
def aim_panel(L, A, slot, count, row):
    for c in range(count):
        poke(A, slot + c, panel_row(L, A, c, row))


@of_words
def in_runs(along, across):
    """Whether the items of a run lie nearer to each other than those of a line do."""
    return along != 0 and abs(along) < abs(across)


@of_words
def lowest(stride, m):
    """Which of the m items of a run has the lowest address, and whether the others follow in the run or stand before it."""
    return (m - 1, -1) if stride < 0 else (0, 1)


# --- in and up --------------------------------------------------------------------------------------------------------


@of_words
def bring_runs(L, A, c, source, stride, run, lanes, m):
    """Transpose runs of m items, `run` bytes apart."""
    p = part(L, c)
    size, block, pitch = peek(p, SIZE), peek(p, BLOCK), peek(L, PITCH) * peek(p, SIZE)
    panel, spare, done = panel_row(L, A, c, 0), A + peek(p, SPARE), 0
    if abs(stride) == size and peek(p, PLAIN):
        done = lanes // block * block
        first, way = lowest(stride, m)
        _call6(peek(p, TURN_IN), (panel + first * pitch, way * pitch, source + first * stride, run, done, m))
        panel, source, lanes = panel + done * size, source + done * run, lanes - done
    if lanes == 0:
        return
    move_lines(peek(p, BRING), source, run, stride, spare, m * size, lanes, m)
    _call6(peek(p, TURN_IN), (panel, pitch, spare, m * size, whole_blocks(lanes, block), m))


@of_words
def bring_lines(L, A, c, source, along, across, w, m):
    """Bring rows of an array into the rows of the panel."""
    p = part(L, c)
    pitch = peek(L, PITCH) * peek(p, SIZE)
    move_lines(peek(p, BRING), source, along, across, panel_row(L, A, c, 0), pitch, m, w)


@of_words
def bring(L, A, first, m, w):
    mapped = 0
    if peek(L, MAP):
        mapped = peek(L, VALUES)
        bring_operands(L, A, first, m, w)
    for c in range(mapped, peek(L, COMPONENTS)):
        source, along, across = place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
        if in_runs(along, across):
            bring_runs(L, A, c, source + first * along, along, across, w, m)
        else:
            bring_lines(L, A, c, source + first * along, along, across, w, m)
        repeat_last(L, A, c, w, m)
    if peek(L, SEGMENTED) and peek(L, EXCLUSIVE):
        copy_bytes(A + peek(L, FLAGS), panel_row(L, A, peek(L, VALUES), 0), ROW * peek(L, PITCH))


@of_words
def join_rows(L, A, left, right, w):
    components = peek(L, COMPONENTS)
    aim_panel(L, A, 0, components, left)
    aim_panel(L, A, components, components, right)
    ask(L, A, JOIN, 0, w, 0, 0, 0)


@of_words
def climb(L, A, w, m):
    """Sweep a chunk up. Of less than four rows the first two alone have a sum that counts."""
    if m < 4:
        if m > 1:
            join_rows(L, A, 0, 1, w)
        return
    aim_panel(L, A, 0, peek(L, COMPONENTS), 0)
    ask(L, A, UP, peek(L, PITCH), w, m, 0, 0)


@of_words
def take_total(L, A, w):
    """Keep a whole chunk's sums for the counter."""
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        copy_bytes(A + peek(p, TOTAL), panel_row(L, A, c, ROW - 1), w * peek(p, SIZE))


# --- down and out -----------------------------------------------------------------------------------------------------


@of_words
def settle(L, A, w, m, first):
    """Sweep m rows down, from the quadruple `first` on; in order, from the row."""
    aim(L, A, 0, START, peek(L, VALUES), 0)
    aim_panel(L, A, peek(L, VALUES), peek(L, COMPONENTS), 0)
    ask(L, A, DOWN, peek(L, PITCH), w, m, first, 1)


@of_words
def fold_row(L, A, before, row, w):
    """A row of sums becomes prefixes, from the prefixes of the row `before`."""
    components, values = peek(L, COMPONENTS), peek(L, VALUES)
    aim(L, A, 0, START, values, 0)
    aim_panel(L, A, values, values, before)
    aim_panel(L, A, 2 * values, components, row)
    aim_panel(L, A, 2 * values + components, values, row)
    ask(L, A, FOLD, 0, w, 0, 0, 1)


@of_words
def put(L, A, row, w, region):
    """Set a row of prefixes."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(panel_row(L, A, c, row), A + peek(p, region), w * peek(p, SIZE))


@of_words
def restart(L, A, m, w):
    """An exclusive scan starts anew at the head of a segment."""
    for row in range(m):
        heads = A + peek(L, FLAGS) + row * peek(L, PITCH)
        for c in range(peek(L, VALUES)):
            restart_line(L, A, c, panel_row(L, A, c, row - 1), 0, heads, 1, w)


@of_words
def descend(L, A, m, w, known, whole):
    """The prefixes of m rows from the prefixes at BEFORE, if those are `known`; END holds the prefixes behind a `whole` chunk."""
    if known:
        put(L, A, -1, w, BEFORE)
        if m > 3:
            settle(L, A, w, m, 0)
        else:
            for row in range(m):
                fold_row(L, A, 1 if row == 2 else -1, row, w)
    else:
        if m > 11:
            join_rows(L, A, 7, 11, w)
        if m > 2:
            join_rows(L, A, 1, 2, w)
        if m > 4:
            settle(L, A, w, m, 1)
        if peek(L, EXCLUSIVE):
            put(L, A, -1, w, START)
    if whole:
        put(L, A, ROW - 1, w, END)
    if peek(L, EXCLUSIVE) and peek(L, SEGMENTED):
        restart(L, A, m, w)


@of_words
def step_down(L, A, m, w, known):
    """The prefixes of m rows in order, from the prefixes at BEFORE if those are `known`; afterwards BEFORE holds the prefixes
    behind them.
    """
    values = peek(L, VALUES)
    if known:
        put(L, A, -1, w, BEFORE)
    elif peek(L, EXCLUSIVE):
        put(L, A, -1, w, START)
    settle(L, A, w, m, 1 - known)
    for c in range(values):
        p = part(L, c)
        copy_bytes(A + peek(p, BEFORE), panel_row(L, A, c, m - 1), w * peek(p, SIZE))
    if peek(L, EXCLUSIVE) and peek(L, SEGMENTED):
        restart(L, A, m, w)


@of_words
def hand_runs(p, s, target, stride, run, panel, pitch, spare, lanes, m):
    """Transpose lanes back to runs of m items."""
    size, block, done = peek(p, SIZE), peek(p, BLOCK), 0
    if abs(stride) == size and peek(s, SINK_PLAIN):
        done = lanes // block * block
        first, way = lowest(stride, m)
        _call6(peek(p, TURN_OUT), (target + first * stride, run, panel + first * pitch, way * pitch, done, m))
        panel, target, lanes = panel + done * size, target + done * run, lanes - done
    if lanes == 0:
        return
    _call6(peek(p, TURN_OUT), (spare, m * size, panel, pitch, whole_blocks(lanes, block), m))
    move_lines(peek(s, HAND), target, run, stride, spare, m * size, lanes, m)


@of_words
def hand(L, A, first, m, w):
    """Hand the rows of the panel to the outputs; in an exclusive scan from the row before the first on."""
    shift = -1 if peek(L, EXCLUSIVE) else 0
    if peek(L, FINISH):
        hand_results(L, A, first, shift, m, w)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        c = peek(s, COMPONENT)
        p = part(L, c)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        target += first * along
        panel, pitch = panel_row(L, A, c, shift), peek(L, PITCH) * peek(p, SIZE)
        if in_runs(along, across):
            hand_runs(p, s, target, along, across, panel, pitch, A + peek(p, SPARE), w, m)
        else:
            move_lines(peek(s, HAND), target, along, across, panel, pitch, m, w)


@of_words
def hand_last(L, A, m, w):
    """Hand out the prefixes behind a chunk: these are the results of reductions."""
    if peek(L, FINISH):
        aim_panel(L, A, 0, peek(L, VALUES), m - 1)
        hand_result(L, A, w)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, _, across = place_of(L, A, peek(L, INPUTS) + o)
        move_line(peek(s, HAND), target, across, panel_row(L, A, peek(s, COMPONENT), m - 1), w)
