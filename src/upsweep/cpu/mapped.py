"""Chunks on their way through a map and a finish: lines of inputs become lines of operands, and lines of prefixes become lines
of results.

ALONG a row, and where rows are TURNED, a line is all of a chunk, in the order of its runs; else it is one row of the panel.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.frame import fill, move_line, move_lines, panel_row, part, place_of, whole_blocks
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import LINE_WORDS, ROW, SINK_WORDS, Line, Part, Sink, Word

(VALUES, COMPONENTS, INPUTS, SINKS, SEGMENTED, ALONG, TURNED, PITCH, SINK_AT, LINE_AT, MAP, FINISH, INDEX, STEP, STATUS) = map(
    int,
    (
        Word.VALUES, Word.COMPONENTS, Word.INPUTS, Word.SINKS, Word.SEGMENTED, Word.ALONG, Word.TURNED, Word.PITCH,
        Word.SINK_AT, Word.LINE_AT, Word.MAP, Word.FINISH, Word.INDEX, Word.STEP, Word.STATUS,
    ),
)  # fmt: skip
SIZE, BLOCK, SPARE, TURN_IN, TURN_OUT = map(
    int, (Part.SIZE, Part.BLOCK, Part.SPARE, Part.TURN_IN, Part.TURN_OUT)
)
LINE_SIZE, LINE_BRING, LINE_SPARE, LINE_FLAT, LINE_TO = map(int, Line)
_, HAND, SINK_PLAIN, SINK_SIZE, SINK_SPARE, _ = map(int, Sink)

_call5, _call6 = caller(5), caller(6)


@of_words
def line_of(L, i):
    return L + 8 * (peek(L, LINE_AT) + i * LINE_WORDS)


@of_words
def sink_of(L, o):
    return L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)


@of_words
def failed(L, status):
    if status:
        poke(L, STATUS, status)


@of_words
def compute_line(L, A, code, count, place, mask):
    """Call the map or the finish for `count` items. The first item has `place` others before it in the scan."""
    index, step = peek(L, INDEX) + peek(L, STEP) * place, peek(L, STEP)
    failed(L, _call5(peek(L, code), (A, count, index, step, mask)))


@of_words
def bring_lines_of(L, A, first, m, w):
    """Bring a chunk's inputs to lines, and note the places of the lines."""
    pitch = peek(L, PITCH)
    for i in range(peek(L, INPUTS) - peek(L, SEGMENTED)):
        line = line_of(L, i)
        size, spare, to = peek(line, LINE_SIZE), A + peek(line, LINE_SPARE), A + peek(line, LINE_TO)
        source, along, across = place_of(L, A, i)
        source += first * along
        neighbour = along if peek(L, ALONG) else across
        if peek(line, LINE_FLAT) or (not peek(L, TURNED) and neighbour == size):
            poke(to, 0, source)
            poke(to, 1, along)
            continue
        poke(to, 0, spare)
        poke(to, 1, pitch * size)
        bring = peek(line, LINE_BRING)
        if peek(L, ALONG):
            move_line(bring, source, along, spare, m)
        elif peek(L, TURNED):
            move_lines(bring, source, across, along, spare, ROW * size, w, m)
            for lane in range(w):
                fill(spare + (lane * ROW + m) * size, size, ROW - m)
        else:
            move_lines(bring, source, along, across, spare, pitch * size, m, w)


@of_words
def aim_lines(L, A, slot, row):
    """Put the addresses of a line of every input into the frame."""
    count = peek(L, INPUTS) - peek(L, SEGMENTED)
    if peek(L, MAP):
        for i in range(count):
            to = A + peek(line_of(L, i), LINE_TO)
            poke(A, slot + i, peek(to, 0) + row * peek(to, 1))
    return slot + count


@of_words
def repeat_last(L, A, c, w, m):
    """Rows that the quadruples of a panel of m rows lack become copies of the last row. Less than four rows are no quadruple."""
    for row in range(m, ROW if m > 7 else 8 if m > 4 else 4 if m == 4 else m):
        copy_bytes(panel_row(L, A, c, row), panel_row(L, A, c, m - 1), w * peek(part(L, c), SIZE))


@of_words
def bring_operands(L, A, first, m, w):
    """Bring a map's results for a chunk, as a panel; ALONG a row as a line."""
    bring_lines_of(L, A, first, m, w)
    values = peek(L, VALUES)
    if not peek(L, ALONG) and not peek(L, TURNED):
        for row in range(m):
            slot = aim_lines(L, A, 0, row)
            for c in range(values):
                poke(A, slot + c, panel_row(L, A, c, row))
            compute_line(L, A, MAP, w, first + row, 0)
        for c in range(values):
            repeat_last(L, A, c, w, m)
        return
    slot = aim_lines(L, A, 0, 0)
    for c in range(values):
        poke(A, slot + c, A + peek(part(L, c), SPARE))
    if peek(L, ALONG):
        compute_line(L, A, MAP, m, first, -1)
    else:
        compute_line(L, A, MAP, w * ROW, first, ROW - 1)
    if peek(L, TURNED):
        for c in range(values):
            p = part(L, c)
            size, spare, lanes = peek(p, SIZE), A + peek(p, SPARE), whole_blocks(w, peek(p, BLOCK))
            _call6(
                peek(p, TURN_IN),
                (panel_row(L, A, c, 0), peek(L, PITCH) * size, spare, ROW * size, lanes, ROW),
            )


@of_words
def aim_results(L, A, slot, row, neighbour):
    """Let results be computed straight to the arrays that they fit into, else to scratch memory. `neighbour`: the place of an
    array's stride from one item of a line to the next, 0 where there is no such array.
    """
    for o in range(peek(L, SINKS)):
        s = sink_of(L, o)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        step = along if neighbour == 1 else across
        direct = neighbour and peek(s, SINK_PLAIN) and step == peek(s, SINK_SIZE)
        poke(A, slot + o, target + row * along if direct else A + peek(s, SINK_SPARE))


@of_words
def hand_line(L, A, row, neighbour, count):
    """Bring a line of results from scratch memory to its place."""
    for o in range(peek(L, SINKS)):
        s = sink_of(L, o)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        step = along if neighbour == 1 else across
        if not (peek(s, SINK_PLAIN) and step == peek(s, SINK_SIZE)):
            move_line(peek(s, HAND), target + row * along, step, A + peek(s, SINK_SPARE), count)


@of_words
def hand_results(L, A, first, shift, m, w):
    """Hand a finish's results for a line of prefixes, or for the panel from its row `shift` on, to the outputs."""
    values = peek(L, VALUES)
    if not peek(L, ALONG) and not peek(L, TURNED):
        for row in range(m):
            for c in range(values):
                poke(A, c, panel_row(L, A, c, row + shift))
            aim_results(L, A, aim_lines(L, A, values, row), first + row, 2)
            compute_line(L, A, FINISH, w, first + row, 0)
            hand_line(L, A, first + row, 2, w)
        return
    for c in range(values):
        p = part(L, c)
        size, spare, lanes = peek(p, SIZE), A + peek(p, SPARE), whole_blocks(w, peek(p, BLOCK))
        if peek(L, TURNED):
            _call6(
                peek(p, TURN_OUT),
                (spare, ROW * size, panel_row(L, A, c, shift), peek(L, PITCH) * size, lanes, ROW),
            )
        poke(A, c, spare)
    slot = aim_lines(L, A, values, 0)
    if peek(L, ALONG):
        aim_results(L, A, slot, first, 1)
        compute_line(L, A, FINISH, m, first, -1)
        hand_line(L, A, first, 1, m)
        return
    aim_results(L, A, slot, 0, 0)
    compute_line(L, A, FINISH, w * ROW, first, ROW - 1)
    for o in range(peek(L, SINKS)):
        s = sink_of(L, o)
        target, along, across = place_of(L, A, peek(L, INPUTS) + o)
        here, pitch = A + peek(s, SINK_SPARE), ROW * peek(s, SINK_SIZE)
        move_lines(peek(s, HAND), target + first * along, across, along, here, pitch, w, m)


@of_words
def bring_lines(L, A, first, m, w):
    """Put the addresses of m lines of w columns of every input into the frame, each as one line: where they lie, or brought to
    scratch memory, with no gaps between them.
    """
    count = peek(L, INPUTS) - peek(L, SEGMENTED)
    for i in range(count):
        line = line_of(L, i)
        size, spare, to = peek(line, LINE_SIZE), A + peek(line, LINE_SPARE), A + peek(line, LINE_TO)
        source, along, across = place_of(L, A, i)
        source += first * along
        there = peek(line, LINE_FLAT) or (across == size and along == w * size)
        if not there:
            move_lines(peek(line, LINE_BRING), source, along, across, spare, w * size, m, w)
        poke(to, 0, source if there else spare)
    return aim_lines(L, A, 0, 0)


@of_words
def fit_as_one(L, A, o, w):
    """Whether lines of w results of a finish fit their places as one line, as they are computed."""
    s, (_, along, across) = sink_of(L, o), place_of(L, A, peek(L, INPUTS) + o)
    size = peek(s, SINK_SIZE)
    if peek(s, SINK_PLAIN) and across == size and along == w * size:
        return 1
    return 0


@of_words
def hand_lines(L, A, first, m, w):
    """Hand out a finish's results for m lines of w prefixes, at which the frame points, each as one line."""
    slot = aim_lines(L, A, peek(L, VALUES), 0)
    for o in range(peek(L, SINKS)):
        target, along, _ = place_of(L, A, peek(L, INPUTS) + o)
        spare = A + peek(sink_of(L, o), SINK_SPARE)
        poke(A, slot + o, target + first * along if fit_as_one(L, A, o, w) else spare)
    compute_line(L, A, FINISH, m * w, 0, 0)
    for o in range(peek(L, SINKS)):
        if fit_as_one(L, A, o, w):
            continue
        s, (target, along, across) = sink_of(L, o), place_of(L, A, peek(L, INPUTS) + o)
        width = w * peek(s, SINK_SIZE)
        move_lines(peek(s, HAND), target + first * along, along, across, A + peek(s, SINK_SPARE), width, m, w)


@of_words
def hand_result(L, A, count):
    """Hand out a finish's results for the last prefixes of `count` rows, at which the frame points."""
    aim_results(L, A, peek(L, VALUES) + peek(L, INPUTS) - peek(L, SEGMENTED), 0, 0)
    compute_line(L, A, FINISH, count, 0, 0)
    for o in range(peek(L, SINKS)):
        s = sink_of(L, o)
        target, _, across = place_of(L, A, peek(L, INPUTS) + o)
        move_line(peek(s, HAND), target, across, A + peek(s, SINK_SPARE), count)
