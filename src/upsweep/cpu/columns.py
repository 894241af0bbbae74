"""Rows of columns as they lie in the arrays: 16 rows are swept up and down in registers, a group of columns after the other.

So no panel need be copied together. Columns that are no whole group are swept in a group with neighbours, which are then swept
twice. Other rows side by side go from array to array likewise (`pass_turned`).
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.frame import aim, ask, fill, move_line, panel_row, part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.staged import next_strip
from upsweep.cpu.words import BEFORE as BEFORE_ITEMS
from upsweep.cpu.words import (
    BEHIND,
    CLASH,
    LINE,
    NOTHING,
    NOWHERE,
    PASS,
    ROW,
    SINK_WORDS,
    SUM,
    Part,
    Sink,
    Word,
)

COMPONENTS, VALUES, EXCLUSIVE, SINKS, SINK_AT, INPUTS, LANES, PITCH, PAST, REDUCE, SHORT, STATUS, BACKWARD = map(
    int,
    (
        Word.COMPONENTS, Word.VALUES, Word.EXCLUSIVE, Word.SINKS, Word.SINK_AT, Word.INPUTS, Word.LANES, Word.PITCH,
        Word.PAST, Word.REDUCE, Word.SHORT, Word.STATUS, Word.BACKWARD,
    ),
)  # fmt: skip
SIZE, SPARE, STACK, FOLDS, TOTAL, START, BASE, BEFORE, END, SINK = map(
    int,
    (
        Part.SIZE, Part.SPARE, Part.STACK, Part.FOLDS, Part.TOTAL, Part.START, Part.BASE, Part.BEFORE, Part.END, Part.SINK,
    ),
)  # fmt: skip

COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)

_call5 = caller(5)


@of_words
def target_of(L, A, c):
    """The place for a component's prefixes, or NOWHERE, and its strides along the axis and across columns."""
    sink = peek(part(L, c), SINK)
    target, along, across = place_of(L, A, peek(L, INPUTS) + max(sink, 0))
    return target if sink >= 0 else NOWHERE, along, across


@of_words
def aim_pass(L, A, lane):
    """Aim at the starts, the prefixes before and the sums of the columns from a lane on."""
    components, values = peek(L, COMPONENTS), peek(L, VALUES)
    aim(L, A, 0, START, values, lane)
    aim(L, A, values, BEFORE, values, lane)
    aim(L, A, 2 * values, TOTAL, components, lane)


@of_words
def results_of(L, A, c):
    """The place for a component's results, and its strides along the axis and across columns. The results of a reduction are one
    row at END.
    """
    target, along, across = target_of(L, A, c)
    if peek(L, REDUCE) and target != NOWHERE:
        return A + peek(part(L, c), END), 0, peek(part(L, c), SIZE)
    return target, along, across


@of_words
def ask_pass(L, A, past, w, m, down):
    if m == ROW:
        ask(L, A, PASS, past, w, down, 0, 0)
        return
    status = _call5(peek(L, SHORT), (A, past, w, m, down))
    if status:
        poke(L, STATUS, status)


@of_words
def pass_groups(L, A, first, done, w, m, down):
    """Sweep m rows of whole groups of columns, from array to array."""
    components, values, shift = peek(L, COMPONENTS), peek(L, VALUES), peek(L, EXCLUSIVE)
    reduce, past = peek(L, REDUCE), peek(L, PAST)
    aim_pass(L, A, done)
    here, steps = 2 * values + components, 3 * values + 2 * components
    for c in range(components):
        source, along, _ = place_of(L, A, c)
        poke(A, here + c, source + first * along + done * peek(part(L, c), SIZE))
        poke(A, steps + c, along)
    for c in range(values if down else 0):
        size = peek(part(L, c), SIZE)
        target, along, _ = results_of(L, A, c)
        if target != NOWHERE:
            target += (first + shift) * along + done * size
            past = past and (target | along) & (peek(L, LANES) * size - 1) == 0
        poke(A, here + components + c, target)
        poke(A, steps + components + c, along)
    if reduce and past and not down:
        ask(L, A, SUM, 0, w, 0, 0, 0)
    else:
        ask_pass(L, A, past and not reduce, w, m, down)


@of_words
def pad(L, A, region, count, w):
    """Repeat the last of w items of a region up to a whole group."""
    for c in range(count):
        p = part(L, c)
        fill(A + peek(p, region) + w * peek(p, SIZE), peek(p, SIZE), peek(L, LANES) - w)


@of_words
def bring_fewer(L, A, first, w, m):
    """Bring m rows of less than a group of columns to the panel, where the last column is repeated."""
    pad(L, A, START, peek(L, VALUES), w)
    pad(L, A, BEFORE, peek(L, VALUES), w)
    for c in range(peek(L, COMPONENTS)):
        size = peek(part(L, c), SIZE)
        source, along, _ = place_of(L, A, c)
        for row in range(m):
            line = panel_row(L, A, c, row)
            copy_bytes(line, source + (first + row) * along, w * size)
            fill(line + w * size, size, peek(L, LANES) - w)


@of_words
def pass_few(L, A, first, done, few, w, m, down):
    """Sweep m rows of less than a group of columns, from column `done` on, in a group with others. The group's prefixes stay in a
    panel.
    """
    components, values, lanes = peek(L, COMPONENTS), peek(L, VALUES), peek(L, LANES)
    shift, lane = peek(L, EXCLUSIVE), max(0, min(done, w - lanes))
    if w < lanes:
        bring_fewer(L, A, first, w, m)
    aim_pass(L, A, lane)
    here, steps = 2 * values + components, 3 * values + 2 * components
    for c in range(components):
        size, panel = peek(part(L, c), SIZE), panel_row(L, A, c, 0)
        pitch = peek(L, PITCH) * size
        source, along, _ = place_of(L, A, c)
        poke(A, here + c, panel if w < lanes else source + first * along + lane * size)
        poke(A, steps + c, pitch if w < lanes else along)
        if c < values:
            poke(A, here + components + c, panel)
            poke(A, steps + components + c, pitch)
    ask_pass(L, A, 0, lanes, m, down)
    for c in range(values if down else 0):
        size = peek(part(L, c), SIZE)
        target, along, _ = results_of(L, A, c)
        for row in range(0 if target == NOWHERE else min(m, ROW - 1)):
            line = target + (first + shift + row) * along + done * size
            copy_bytes(line, panel_row(L, A, c, row) + (done - lane) * size, few * size)


@of_words
def before_line(L, A, w):
    """The columns before the first one that begins a cache line of the results, where groups must not share lines: the lines of
    such rows drive each other out of the nearest cache. There is a whole group behind these columns.
    """
    target, along, _ = place_of(L, A, peek(L, INPUTS))
    apart = along & (LINE - 1) if peek(L, PAST) else along & (CLASH - 1)
    return 0 if apart or w < 2 * peek(L, LANES) else (-target & (LINE - 1)) // peek(part(L, 0), SIZE)


@of_words
def pass_rows(L, A, first, w, m, down):
    """Put the sums of m rows, which are 16, to TOTAL and, if `down`, the prefixes onto BEFORE into the arrays. The prefixes of
    one row are left out: of the first row in an exclusive scan, else of the last. Of fewer rows, which are swept down in any
    case, no prefixes are left out, and there are no sums.
    """
    head = before_line(L, A, w)
    whole = (w - head) // peek(L, LANES) * peek(L, LANES)
    rest = w - head - whole
    # The rest comes first: in a scan in place, the other columns of its group must still be items.
    if rest:
        pass_few(L, A, first, w - rest, rest, w, m, down)
    if head:
        pass_few(L, A, first, 0, head, w, m, down)
    if whole:
        pass_groups(L, A, first, head, whole, m, down)


@of_words
def hand_row(L, A, first, w):
    """Hand out the row of prefixes that `pass_rows` left out."""
    row, region = (0, BEFORE) if peek(L, EXCLUSIVE) else (ROW - 1, END)
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        prefixes = A + peek(part(L, peek(s, COMPONENT)), region)
        move_line(peek(s, HAND), target + (first + row) * along, across, prefixes, w)


@of_words
def lowest_of_run(L, first, along):
    """The lowest address of 16 items of a row, so many bytes apart, whose first lies at an address."""
    return first + (ROW - 1) * along if peek(L, BACKWARD) else first


@of_words
def pass_turned(L, A, lane, skipped, w, count, rest, has):
    """Scan the first `count` sixteens of w rows whose items lie side by side, onto the prefixes at BASE if the rows have any; the
    prefixes behind go to BEFORE. The last sixteen has `rest` items, or all. Of the rows from a lane on, the results of the first
    ones are `skipped`.
    """
    components, values = peek(L, COMPONENTS), peek(L, VALUES)
    aim(L, A, 0, START, values, lane)
    aim(L, A, values, BASE, values, lane)
    aim(L, A, 2 * values, BEFORE, values, lane)
    aim(L, A, 3 * values, STACK, components, 0)
    aim(L, A, 3 * values + components, FOLDS, values, 0)
    here = 4 * values + components
    there = here + components
    steps, place = there + values, there + 2 * values + components
    further = place + values
    for c in range(components):
        source, along, across = place_of(L, A, c)
        poke(A, here + c, lowest_of_run(L, source, along) + lane * across)
        poke(A, steps + c, across)
        later, row, run = next_strip(L, A, c)
        poke(A, further + c, later + lane * row)
        poke(A, further + components + c, row)
        poke(A, further + 2 * components + c, run)
    for c in range(values):
        target, along, across = target_of(L, A, c)
        target += lowest_of_run(L, lane * across, along) if target != NOWHERE else 0
        poke(A, there + c, target)
        poke(A, steps + components + c, across)
        poke(A, place + c, A + peek(part(L, c), SPARE))
    poke(A, further + 3 * components, rest)
    results = NOTHING if peek(L, REDUCE) else BEFORE_ITEMS if peek(L, EXCLUSIVE) else BEHIND
    ask(L, A, PASS, results, w, count, has, skipped)


@of_words
def pass_all_turned(L, A, w, count, rest, has):
    """Scan the first `count` sixteens of all w rows, which are a group at least. Rows that are no whole group come first: see
    `pass_rows`.
    """
    lanes = peek(L, LANES)
    whole = w // lanes * lanes
    if whole < w:
        pass_turned(L, A, w - lanes, lanes - (w - whole), lanes, count, rest, has)
    pass_turned(L, A, 0, 0, whole, count, rest, has)
