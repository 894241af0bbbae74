"""What every thread runs, whatever the operator and the dtypes: take a tile by its ticket, bring its chunks in as panels, have
them swept, hand them over.

A panel has 16 rows and a lane for each run of 16 items. ALONG a row the runs of a chunk stand side by side, transposed; their
sums, the panel's last row, are in turn a sequence that is scanned by a panel above, until 16 or fewer are left. Where a chunk
has a lane for each of several rows, one panel is all. The sweeps over rows are the operator's code (`sweep`), called by
address; so this file is compiled once.
"""

from __future__ import annotations

from upsweep.cpu.address import byte_at, caller, copy_bytes, fence, fetch_add, peek, poke
from upsweep.cpu.carry import behind, prefix_of, publish, push
from upsweep.cpu.frame import aim, ask, copy_rows, fill, panel_row, part, place_of, whole_blocks
from upsweep.cpu.mapped import bring_operands, hand_result, hand_results
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import DOWN, FOLD, JOIN, ROW, SINK_WORDS, UP, Part, Sink, Word

(
    N, COLUMNS, STRIPS, GROUPS, BATCH, TILE, TILES, EXCLUSIVE, INITIAL, REDUCE, SEGMENTED, DIMS, TICKET, SYNC, EACH,
    COMPONENTS, VALUES, SINKS, ALONG, TURNED, CHUNK, WIDTH, _, SINK_AT, SIZES_AT, ARRAYS_AT, PLACES, FLAGS, PITCH,
) = map(int, list(Word)[:29])  # fmt: skip
STATUS, INPUTS, MAP, FINISH = map(int, (Word.STATUS, Word.INPUTS, Word.MAP, Word.FINISH))
(
    SIZE, BRING, TURN_IN, TURN_OUT, PLAIN, BLOCK, _, SPARE, STACK, TOTAL, START, BASE, BEFORE, END, TAIL, FOLDS, PANEL,
) = map(int, Part)  # fmt: skip
COMPONENT, HAND, SINK_PLAIN, SINK_SIZE, _ = map(int, Sink)

_call4, _call5 = caller(4), caller(5)


@of_words
def lanes_in(count):
    """The runs of so many items."""
    return (count + ROW - 1) // ROW


@of_words
def aim_panel(L, A, slot, count, level, row, lane):
    for c in range(count):
        poke(A, slot + c, panel_row(L, A, c, level, row, lane))


# --- in ---------------------------------------------------------------------------------------------------------------


@of_words
def bring_runs(L, A, c, source, stride, run, lanes, m, last):
    """Transpose runs of m items, the last of which has `last`, into panel 0. What a run lacks becomes its last item."""
    p = part(L, c)
    size, block, pitch = peek(p, SIZE), peek(p, BLOCK), peek(L, PITCH) * peek(p, SIZE)
    panel, spare, done = panel_row(L, A, c, 0, 0, 0), A + peek(p, SPARE), 0
    if m == ROW and stride == size and peek(p, PLAIN):
        done = (lanes - (last < ROW)) // block * block
        _call5(peek(p, TURN_IN), (panel, pitch, source, run, done))
        panel, source, lanes = panel + done * size, source + done * run, lanes - done
    if lanes == 0:
        return
    if m == ROW and run == ROW * stride:  # one line; of shorter runs the memory between belongs to others
        count = (lanes - 1) * ROW + last
        _call4(peek(p, BRING), (spare, source, stride, count))
        fill(spare + count * size, spare + (count - 1) * size, size, ROW - last)
    else:
        for lane in range(lanes):
            here = spare + lane * ROW * size
            _call4(peek(p, BRING), (here, source + lane * run, stride, m))
            fill(here + m * size, here + (m - 1) * size, size, ROW - m)
    _call5(peek(p, TURN_IN), (panel, pitch, spare, ROW * size, whole_blocks(lanes, block)))


@of_words
def bring_lines(L, A, c, source, along, across, w, m):
    """Rows of an array into the rows of panel 0; those that its quadruples lack become the last one."""
    p = part(L, c)
    for row in range(m):
        _call4(peek(p, BRING), (panel_row(L, A, c, 0, row, 0), source + row * along, across, w))
    for row in range(m, ROW if m > 7 else (m + 3) // 4 * 4):
        copy_bytes(panel_row(L, A, c, 0, row, 0), panel_row(L, A, c, 0, m - 1, 0), w * peek(p, SIZE))


@of_words
def bring_chunk(L, A, first, m, w):
    mapped = 0
    if peek(L, MAP):
        mapped = peek(L, VALUES)
        bring_operands(L, A, first, m, w)
    for c in range(mapped, peek(L, COMPONENTS)):
        source, along, across = place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
        source += first * along
        if peek(L, ALONG):
            lanes = lanes_in(m)
            bring_runs(L, A, c, source, along, ROW * along, lanes, ROW, m - (lanes - 1) * ROW)
        elif peek(L, TURNED):
            bring_runs(L, A, c, source, along, across, w, m, m)
        else:
            bring_lines(L, A, c, source, along, across, w, m)
    if peek(L, SEGMENTED) and peek(L, EXCLUSIVE):
        flags = panel_row(L, A, peek(L, VALUES), 0, 0, 0)
        copy_bytes(A + peek(L, FLAGS), flags, ROW * peek(L, PITCH))


# --- up ---------------------------------------------------------------------------------------------------------------


@of_words
def climb(L, A, m):
    """Sweep a chunk along a row up, panel by panel; returns the level of the last panel, and the items of its last row."""
    level, lanes = 0, lanes_in(m)
    while True:
        aim_panel(L, A, 0, peek(L, COMPONENTS), level, 0, 0)
        ask(L, A, UP, peek(L, PITCH + level), lanes, ROW, 0, 0)
        above = lanes_in(lanes)
        padded = above * ROW if lanes > 7 else (lanes + 3) // 4 * 4
        for c in range(peek(L, COMPONENTS)):
            p = part(L, c)
            size, sums = peek(p, SIZE), panel_row(L, A, c, level, ROW - 1, 0)
            fill(sums + lanes * size, sums + (lanes - 1) * size, size, padded - lanes)
            if above > 1:
                _call5(
                    peek(p, TURN_IN),
                    (
                        panel_row(L, A, c, level + 1, 0, 0),
                        peek(L, PITCH + level + 1) * size,
                        sums,
                        ROW * size,
                        whole_blocks(above, peek(p, BLOCK)),
                    ),
                )
        if above == 1:
            break
        level, lanes = level + 1, above
    aim_panel(L, A, 0, peek(L, COMPONENTS), level, ROW - 1, 0)
    ask(L, A, UP, 1, 1, lanes, 0, 0)
    return level, lanes


@of_words
def take_total(L, A, level, item, w):
    """A whole chunk's sum, for the counter."""
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        copy_bytes(A + peek(p, TOTAL), panel_row(L, A, c, level, ROW - 1, item), w * peek(p, SIZE))


# --- down -------------------------------------------------------------------------------------------------------------


@of_words
def settle(L, A, level, row, lane, pitch, w, m, first):
    """Sweep m rows of a panel down, from its quadruple `first` on."""
    aim(L, A, 0, START, peek(L, VALUES), 0)
    aim_panel(L, A, peek(L, VALUES), peek(L, COMPONENTS), level, row, lane)
    ask(L, A, DOWN, pitch, w, m, first, 1 - peek(L, ALONG))


@of_words
def join_rows(L, A, level, row, pitch, left, right, w):
    components = peek(L, COMPONENTS)
    for c in range(components):
        p = part(L, c)
        start = panel_row(L, A, c, level, row, 0)
        a, b = start + left * pitch * peek(p, SIZE), start + right * pitch * peek(p, SIZE)
        poke(A, c, a)
        poke(A, components + c, b)
        poke(A, 2 * components + c, b)
    ask(L, A, JOIN, pitch, w, 0, 0, 0)


@of_words
def sweep_down(L, A, level, row, pitch, w, m, known):
    """Prefixes of a panel's m rows from those before its first row: of which the first lane has none, unless it is `known`;
    nor has any other where lanes are rows."""
    bare = 0
    if not known:
        bare = 1 if peek(L, ALONG) else w
        if m > 11:
            join_rows(L, A, level, row, pitch, 7, 11, bare)
        if m > 2:
            join_rows(L, A, level, row, pitch, 1, 2, bare)
        if m > 4:
            settle(L, A, level, row, 0, pitch, bare, m, 1)
    if bare < w:
        settle(L, A, level, row, bare, pitch, w - bare, m, 0)


@of_words
def put_before(L, A, level, row, lane, w, region):
    """Set the prefixes at a place of a panel."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(panel_row(L, A, c, level, row, lane), A + peek(p, region), w * peek(p, SIZE))


@of_words
def lanes_at(m, level):
    """The lanes of a panel over a chunk of m items."""
    for _ in range(level + 1):
        m = lanes_in(m)
    return m


@of_words
def fold_last(L, A, level):
    """The prefix behind 16 runs of a chunk that is not whole: theirs is one aligned block."""
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    aim(L, A, 0, START, values, 0)
    aim(L, A, values, BEFORE, values, 0)
    aim_panel(L, A, 2 * values, components, level, ROW - 1, ROW - 1)
    aim_panel(L, A, 2 * values + components, values, level, ROW - 1, ROW - 1)
    ask(L, A, FOLD, 1, 1, 0, 0, 0)


@of_words
def descend(L, A, level, tip, m, known, whole):
    """Sweep a chunk along a row down, from the prefix at BEFORE to all of panel 0; END is the one behind a `whole` chunk."""
    if known:
        put_before(L, A, level, ROW - 1, -1, 1, BEFORE)
    sweep_down(L, A, level, ROW - 1, 1, 1, tip, known)
    if whole:
        put_before(L, A, level, ROW - 1, tip - 1, 1, END)
    elif tip == ROW and known:
        fold_last(L, A, level)
    while True:
        lanes = lanes_at(m, level)
        for c in range(peek(L, VALUES)):
            size = peek(part(L, c), SIZE)
            copy_bytes(panel_row(L, A, c, level, -1, 0), panel_row(L, A, c, level, ROW - 1, -1), lanes * size)
        sweep_down(L, A, level, 0, peek(L, PITCH + level), lanes, ROW, known)
        if level == 0:
            break
        for c in range(peek(L, VALUES)):
            p = part(L, c)
            size = peek(p, SIZE)
            _call5(
                peek(p, TURN_OUT),
                (
                    panel_row(L, A, c, level - 1, ROW - 1, 0),
                    ROW * size,
                    panel_row(L, A, c, level, 0, 0),
                    peek(L, PITCH + level) * size,
                    whole_blocks(lanes, peek(p, BLOCK)),
                ),
            )
        level -= 1
        if known:
            put_before(L, A, level, ROW - 1, -1, 1, BEFORE)


# --- out --------------------------------------------------------------------------------------------------------------


@of_words
def hand_runs(p, s, target, stride, run, panel, pitch, spare, lanes, m, last):
    """Transpose lanes of panel 0 back to runs of m items, the last of which has `last`."""
    size, block, done = peek(p, SIZE), peek(p, BLOCK), 0
    if m == ROW and stride == size and peek(s, SINK_PLAIN):
        done = (lanes - (last < ROW)) // block * block
        _call5(peek(p, TURN_OUT), (target, run, panel, pitch, done))
        panel, target, lanes = panel + done * size, target + done * run, lanes - done
    if lanes == 0:
        return
    _call5(peek(p, TURN_OUT), (spare, ROW * size, panel, pitch, whole_blocks(lanes, block)))
    if m == ROW and run == ROW * stride:
        _call4(peek(s, HAND), (target, stride, spare, (lanes - 1) * ROW + last))
    else:
        for lane in range(lanes):
            _call4(peek(s, HAND), (target + lane * run, stride, spare + lane * ROW * size, m))


@of_words
def hand_chunk(L, A, first, m, w):
    """The rows of panel 0 to the outputs; in an exclusive scan from the row before the first on."""
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
        panel, pitch, spare = (
            panel_row(L, A, c, 0, shift, 0),
            peek(L, PITCH) * peek(p, SIZE),
            A + peek(p, SPARE),
        )
        if peek(L, ALONG):
            lanes = lanes_in(m)
            last = m - (lanes - 1) * ROW
            hand_runs(p, s, target, along, ROW * along, panel, pitch, spare, lanes, ROW, last)
        elif peek(L, TURNED):
            hand_runs(p, s, target, along, across, panel, pitch, spare, w, m, m)
        else:
            for row in range(m):
                _call4(peek(s, HAND), (target + row * along, across, panel + row * pitch, w))


@of_words
def hand_last(L, A, m, w):
    """The prefix at a row's last item, which a reduction is."""
    along = peek(L, ALONG)
    row, lane = (m - 1) % ROW, (m - 1) // ROW
    if peek(L, FINISH):
        hand_result(L, A, row, lane, 1 if along else w)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, _, across = place_of(L, A, peek(L, INPUTS) + o)
        panel = panel_row(L, A, peek(s, COMPONENT), 0, row, lane)
        _call4(peek(s, HAND), (target, across, panel, 1 if along else w))


@of_words
def put_start(L, A, row, lane, which):
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        size = peek(p, SIZE)
        copy_bytes(panel_row(L, A, c, 0, row, lane), A + peek(p, START) + which * size, size)


@of_words
def restart(L, A, m, w):
    """Where a segment starts, an exclusive scan starts anew."""
    along, pitch, flags = peek(L, ALONG), peek(L, PITCH), A + peek(L, FLAGS)
    lanes = lanes_in(m) if along else w
    for row in range(ROW if along else m):
        for lane in range(lanes):
            if byte_at(flags, row * pitch + lane):
                put_start(L, A, row - 1, lane, 0 if along else lane)


# --- a tile -----------------------------------------------------------------------------------------------------------


@of_words
def sweep_up(L, A, m, w):
    """A chunk's block sums; returns the level of the last panel, and the items of its last row."""
    if peek(L, ALONG):
        return climb(L, A, m)
    aim_panel(L, A, 0, peek(L, COMPONENTS), 0, 0, 0)
    ask(L, A, UP, peek(L, PITCH), w, m, 0, 0)
    return 0, 1


@of_words
def sum_tile(L, A, first, last, w):
    """Leave the sum of a whole tile on the counter; returns its level."""
    count, chunk = 0, peek(L, CHUNK)
    for row in range(first, last, chunk):
        bring_chunk(L, A, row, chunk, w)
        level, tip = sweep_up(L, A, chunk, w)
        take_total(L, A, level, tip - 1, w)
        push(L, A, count, w)
        count += 1
    level = 0
    while count >> level > 1:
        level += 1
    return level


@of_words
def scan_tile(L, A, has, ends, first, last, w):
    """Scan the rows [first, last) from the prefix at BASE, where there is one; `ends`: the one behind is at TAIL."""
    chunk, reduce, exclusive, along = peek(L, CHUNK), peek(L, REDUCE), peek(L, EXCLUSIVE), peek(L, ALONG)
    known, count = has, 0
    copy_rows(L, A, BEFORE, BASE, w)
    for row in range(first, last, chunk):
        m = min(chunk, last - row)
        whole = m == chunk
        bring_chunk(L, A, row, m, w)
        level, tip = sweep_up(L, A, m, w)
        if whole:
            take_total(L, A, level, tip - 1, w)
            push(L, A, count, w)
            count += 1
            if ends and row + m == last:
                copy_rows(L, A, END, TAIL, w)
            else:
                behind(L, A, has, count, w)
        if not reduce or row + m == last:
            if along:
                descend(L, A, level, tip, m, known, whole)
            else:
                if known:
                    put_before(L, A, 0, -1, 0, w, BEFORE)
                sweep_down(L, A, 0, 0, peek(L, PITCH), w, m, known)
                if whole:
                    put_before(L, A, 0, ROW - 1, 0, w, END)
            if exclusive and not known:
                for lane in range(1 if along else w):
                    put_start(L, A, -1, lane, lane)
            if exclusive and peek(L, SEGMENTED):
                restart(L, A, m, w)
            if reduce:
                hand_last(L, A, m, w)
            else:
                hand_chunk(L, A, row, m, w)
        if whole:
            copy_rows(L, A, BEFORE, END, w)
        known = 1


@of_words
def find_places(L, A, group):
    """Where the arrays of a strip begin, kept in scratch memory; and what its rows start from. Returns its lanes."""
    dims, sizes = peek(L, DIMS), peek(L, SIZES_AT)
    outer, column = group // peek(L, STRIPS), group % peek(L, STRIPS) * peek(L, WIDTH)
    w = min(peek(L, WIDTH), peek(L, COLUMNS) - column)
    arrays, values = peek(L, INPUTS) + peek(L, SINKS), peek(L, VALUES)
    for a in range(arrays + values):
        array = L + 8 * (peek(L, ARRAYS_AT) + a * (3 + dims))
        address, left = peek(array, 0) + column * peek(array, 2), outer
        for d in range(dims - 1, -1, -1):
            size = peek(L, sizes + d)
            address += left % size * peek(array, 3 + d)
            left //= size
        place = A + peek(L, PLACES) + 24 * a
        poke(place, 0, address)
        poke(place, 1, peek(array, 1))
        poke(place, 2, peek(array, 2))
    for c in range(values):
        address, _, across = place_of(L, A, arrays + c)
        if address:
            p = part(L, c)
            size = peek(p, SIZE)
            for lane in range(w):
                copy_bytes(A + peek(p, START) + lane * size, address + lane * across, size)
    return w


@of_words
def scan_group(L, A, group, t):
    """Tile t of one strip."""
    w = find_places(L, A, group)
    has, n, tiles = peek(L, INITIAL), peek(L, N), peek(L, TILES)
    first, last = t * peek(L, TILE), min(n, (t + 1) * peek(L, TILE))
    copy_rows(L, A, BASE, START, w)
    ends = tiles > 1 and last - first == peek(L, TILE)
    if tiles > 1:
        sync, node = peek(L, SYNC) + 16 * group * peek(L, EACH), group * peek(L, EACH)
        if ends:
            publish(L, A, sync, node, t, sum_tile(L, A, first, last, w), w)
        if peek(L, REDUCE) and last < n:
            return
        if ends:
            copy_rows(L, A, TAIL, START, w)
            prefix_of(L, A, sync, node, t + 1, TAIL, has, w)
        has = prefix_of(L, A, sync, node, t, BASE, has, w)
    scan_tile(L, A, has, ends, first, last, w)


def run(L, A):
    """One thread's share: tickets until there are none. L: the address of the launch's words; A: of scratch memory."""
    batch, tiles, groups = peek(L, BATCH), peek(L, TILES), peek(L, GROUPS)
    tickets = (groups + batch - 1) // batch * tiles
    while True:
        ticket = fetch_add(L + 8 * TICKET, 1)
        if ticket >= tickets:
            break
        first = ticket // tiles * batch
        for group in range(first, min(first + batch, groups)):
            scan_group(L, A, group, ticket % tiles)
    fence()
    if peek(L, STATUS):
        raise RuntimeError
