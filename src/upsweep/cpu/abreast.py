"""Few columns, whose lines fill no vector: blocks of 16 lines follow each other in one call of the operator's code.

Columns with gaps between them, reversed or converted ones, and flags that all columns share, are brought side by side first, a
chunk at a time. A vector that begins with a line also holds items of the lines behind it. Values that are computed from those
items are no result: the next line's results are stored over it. The sums of the blocks are lines of columns in turn, a vector
apart. A chunk has 16 blocks, a step one chunk or 16.
"""

from __future__ import annotations

from upsweep.cpu import panels
from upsweep.cpu.address import copy_bytes, peek, poke
from upsweep.cpu.carry import behind, push
from upsweep.cpu.columns import pad
from upsweep.cpu.frame import aim, ask, copy_rows, fill, move_lines, part, place_of
from upsweep.cpu.mapped import bring_lines, compute_line, hand_lines
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import FIRST, LINE, NOWHERE, PASS, ROW, SINK_WORDS, Part, Sink, Word

N, COMPONENTS, VALUES, SINKS, EXCLUSIVE, REDUCE, SINK_AT, INPUTS, LANES, MAP, FINISH = map(
    int,
    (
        Word.N, Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.EXCLUSIVE, Word.REDUCE, Word.SINK_AT, Word.INPUTS,
        Word.LANES, Word.MAP, Word.FINISH,
    ),
)  # fmt: skip
SIZE, SPARE, TOTAL, START, BASE, BEFORE, END, TAIL, PANEL, BRING, PLAIN, WANTED = map(
    int,
    (
        Part.SIZE, Part.SPARE, Part.TOTAL, Part.START, Part.BASE, Part.BEFORE, Part.END, Part.TAIL, Part.PANEL,
        Part.BRING, Part.PLAIN, Part.WANTED,
    ),
)  # fmt: skip
COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)
CHUNK = ROW * ROW

panel_bring, panel_climb, panel_descend, panel_hand, panel_put, hand_last = (
    panels.bring, panels.climb, panels.descend, panels.hand, panels.put, panels.hand_last,
)  # fmt: skip


@of_words
def line_of(L, A, c, level, line):
    """The address of a line of prefixes before the sums of a level, behind which lie the sums."""
    p = part(L, c)
    return A + peek(p, PANEL + level) + line * peek(L, LANES) * peek(p, SIZE)


@of_words
def spare_of(L, A, c, w, which):
    """Scratch memory for the lines of a chunk, with room before them: for results, or for items."""
    p = part(L, c)
    return A + peek(p, SPARE) + LINE + which * (CHUNK * w * peek(p, SIZE) + 2 * LINE)


@of_words
def inside(L, A, last, w):
    """Whether the vector that begins with the line before `last` ends before its array does, whose items stay as they are."""
    for c in range(peek(L, COMPONENTS)):
        if not peek(part(L, c), PLAIN):
            return 0
        _, along, _ = place_of(L, A, c)
        if (peek(L, N) - last) * along < (peek(L, LANES) - w) * peek(part(L, c), SIZE):
            return 0
    return 1


@of_words
def bring(L, A, first, m, w):
    """Bring m lines to scratch memory, with no gaps between them. A map takes them as one line."""
    mapped = 0
    if peek(L, MAP):
        mapped = peek(L, VALUES)
        slot = bring_lines(L, A, first, m, w)
        for c in range(mapped):
            poke(A, slot + c, spare_of(L, A, c, w, 1))
        compute_line(L, A, MAP, m * w, 0, 0)
    for c in range(mapped, peek(L, COMPONENTS)):
        p, (source, along, across) = part(L, c), place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
        spare, width = spare_of(L, A, c, w, 1), w * peek(p, SIZE)
        move_lines(peek(p, BRING), source + first * along, along, across, spare, width, m, w)


@of_words
def pass_blocks(L, A, first, level, line, blocks, of, down, w):
    """Sweep `blocks` blocks of a level from a line on, which are among `of` in all. The lines of level 0 are those of the arrays
    from the `first` on, or of scratch memory if that is NOWHERE; their prefixes go to scratch memory, a chunk at a time.
    """
    components, values, lanes = peek(L, COMPONENTS), peek(L, VALUES), peek(L, LANES)
    above, sums = line // ROW, of * ROW + 1
    aim(L, A, 0, START, values, 0)
    for c in range(components):
        poke(A, values + c, line_of(L, A, c, level + 1, above))
    here, steps = 2 * values + components, 3 * values + 2 * components
    for c in range(components):
        size = peek(part(L, c), SIZE)
        source, along, _ = place_of(L, A, c)
        source += (first + line) * along
        if first == NOWHERE:
            source, along = spare_of(L, A, c, w, 1) + line * w * size, w * size
        poke(A, 2 * values + c, line_of(L, A, c, level + 1, of + 1 + above))
        poke(A, here + c, line_of(L, A, c, level, sums + line) if level else source)
        poke(A, steps + c, lanes * size if level else along)
    for c in range(values if down else 0):
        width, target = w * peek(part(L, c), SIZE), NOWHERE
        if peek(part(L, c), WANTED):
            target = spare_of(L, A, c, w, 0) + (line % CHUNK + peek(L, EXCLUSIVE)) * width
        poke(A, here + components + c, line_of(L, A, c, level, line + 1) if level else target)
        poke(A, steps + components + c, lanes * peek(part(L, c), SIZE) if level else width)
    ask(L, A, PASS, 0, blocks * lanes, down, 1, 0)


@of_words
def sum_blocks(L, A, first, blocks, w):
    """Leave the sums of whole chunks at TOTAL."""
    level, of = 0, blocks
    while of:
        pass_blocks(L, A, first, level, 0, of, of, 0, w)
        level, of = level + 1, of // ROW
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        copy_bytes(A + peek(p, TOTAL), line_of(L, A, c, level, 2), w * peek(p, SIZE))


@of_words
def sweep_down(L, A, first, level, line, blocks, of, known, w):
    if line == 0 and not known:
        pass_blocks(L, A, first, level, 0, 1, of, FIRST, w)
        line, blocks = ROW, blocks - 1
    if blocks:
        pass_blocks(L, A, first, level, line, blocks, of, 1, w)


@of_words
def put(L, A, level, line, region):
    """Set a line of prefixes."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(line_of(L, A, c, level, line), A + peek(p, region), peek(L, LANES) * peek(p, SIZE))


@of_words
def hand(L, A, first, blocks, end, w):
    """Hand out the prefixes of some blocks in scratch memory; those behind them all are on line `end` of the level above. A
    finish takes them as one line.
    """
    m = blocks * ROW
    for c in range(0 if peek(L, EXCLUSIVE) else peek(L, VALUES)):
        width = w * peek(part(L, c), SIZE)
        copy_bytes(spare_of(L, A, c, w, 0) + (m - 1) * width, line_of(L, A, c, 1, end), width)
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
def scan_blocks(L, A, at, first, blocks, known, w):
    """Hand out the prefixes of blocks that were summed, from the prefixes at BEFORE, if these are `known`. END holds those behind
    the blocks.
    """
    pad(L, A, START, peek(L, VALUES), w)
    pad(L, A, BEFORE, peek(L, VALUES), w)
    pad(L, A, END, peek(L, VALUES), w)
    level, of = 1, blocks // ROW
    while of > 1:
        level, of = level + 1, of // ROW
    put(L, A, level + 1, 0, BEFORE)
    while level:
        sweep_down(L, A, first, level, 0, of, of, known, w)
        level, of = level - 1, of * ROW
    put(L, A, 1, blocks, END)
    for block in range(0, blocks, ROW):
        sweep_down(L, A, at, 0, block * ROW, ROW, blocks, known, w)
        hand(L, A, first + block * ROW, ROW, block + ROW, w)


@of_words
def step_of(L, A, count, row, last, w):
    """The chunks of the next step, behind `count` others: 16 of them join in the tree; 0 where less than one is left."""
    if count % ROW == 0 and last - row >= ROW * CHUNK and inside(L, A, row + ROW * CHUNK, w):
        return ROW
    return last - row >= CHUNK


@of_words
def take_chunks(L, A, row, chunks, w):
    """Leave the sums of the next step at TOTAL. Returns the first of its lines in the arrays, or NOWHERE."""
    at = row if inside(L, A, row + chunks * CHUNK, w) else NOWHERE
    if at == NOWHERE:
        bring(L, A, row, CHUNK, w)
    sum_blocks(L, A, at, chunks * ROW, w)
    return at


@of_words
def sum_chunks(L, A, first, last, w):
    """Take the sums of a tile of whole chunks into the counter; returns how many."""
    count = 0
    while first + count * CHUNK < last:
        row = first + count * CHUNK
        chunks = step_of(L, A, count, row, last, w)
        take_chunks(L, A, row, chunks, w)
        push(L, A, count, chunks, w)
        count += chunks
    return count


@of_words
def scan_few(L, A, first, blocks, known, w):
    """Scan less than a chunk of blocks from the prefixes at BEFORE, and leave there those behind the blocks."""
    pad(L, A, START, peek(L, VALUES), w)
    pad(L, A, BEFORE, peek(L, VALUES), w)
    bring(L, A, first, blocks * ROW, w)
    pass_blocks(L, A, NOWHERE, 0, 0, blocks, ROW, 0, w)
    for c in range(peek(L, COMPONENTS)):
        size = peek(L, LANES) * peek(part(L, c), SIZE)
        fill(line_of(L, A, c, 1, ROW + 1 + blocks), size, ROW - blocks)
    put(L, A, 2, 0, BEFORE)
    sweep_down(L, A, NOWHERE, 1, 0, 1, 1, known, w)
    if not peek(L, REDUCE):
        sweep_down(L, A, NOWHERE, 0, 0, blocks, ROW, known, w)
        hand(L, A, first, blocks, blocks, w)
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(A + peek(p, BEFORE), line_of(L, A, c, 1, blocks), w * peek(p, SIZE))


@of_words
def scan_abreast(L, A, has, ends, first, last, w):
    """Scan the lines [first, last) from the prefix at BASE, if the tile `has` one. `ends`: the prefix behind is at TAIL."""
    known, count, row, reduce = has, 0, first, peek(L, REDUCE)
    copy_rows(L, A, BEFORE, BASE, w)
    chunks = step_of(L, A, 0, row, last, w)
    while chunks:
        at, behind_it = take_chunks(L, A, row, chunks, w), row + chunks * CHUNK
        push(L, A, count, chunks, w)
        count += chunks
        if ends and behind_it == last:
            copy_rows(L, A, END, TAIL, w)
        else:
            behind(L, A, has, count, w)
        if not reduce:
            scan_blocks(L, A, at, row, chunks * ROW, known, w)
        copy_rows(L, A, BEFORE, END, w)
        known, row = 1, behind_it
        chunks = step_of(L, A, count, row, last, w)
    blocks = (last - row) // ROW
    if blocks:
        scan_few(L, A, row, blocks, known, w)
        known, row = 1, row + blocks * ROW
    m = last - row
    if m:
        panel_bring(L, A, row, m, w)
        panel_climb(L, A, w, m)
        panel_descend(L, A, m, w, known, 0)
        if not reduce:
            panel_hand(L, A, row, m, w)
    if reduce:
        if not m:
            panel_put(L, A, ROW - 1, w, BEFORE)
        hand_last(L, A, m or ROW, w)
