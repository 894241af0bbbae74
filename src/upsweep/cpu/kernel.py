"""The code that every thread runs, whatever the operator and the dtypes: take a tile by its ticket, bring the chunks in, have
them swept, hand them over.

A chunk lies `along` a row or is a panel (`panels`) of several rows side by side. Sweeps are the operator's code (`runs` or
`sweep`), called by address: so this file is compiled once.
"""

from __future__ import annotations

from upsweep.cpu import abreast, along, columns, folded, panels, reduced, staged, through
from upsweep.cpu.address import copy_bytes, fence, fetch_add, peek, poke
from upsweep.cpu.carry import behind, prefix_of, publish, push
from upsweep.cpu.frame import copy_rows, part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import ARRAY_WORDS, FIRST, LINE, ROW, Part, Word

N, COLUMNS, STRIPS, GROUPS, BATCH, TILE, TILES, INITIAL, REDUCE, DIMS, TICKET, SYNC, EACH = map(
    int,
    (
        Word.N, Word.COLUMNS, Word.STRIPS, Word.GROUPS, Word.BATCH, Word.TILE, Word.TILES, Word.INITIAL, Word.REDUCE,
        Word.DIMS, Word.TICKET, Word.SYNC, Word.EACH,
    ),
)  # fmt: skip
(
    INPUTS, VALUES, SINKS, ALONG, CHUNK, WIDTH, SIZES_AT, ARRAYS_AT, PLACES, STRAIGHT, IN_ORDER, DIRECT, ACROSS, ABREAST, LANES,
    STATUS, STAGED, TURNED, ANY_ORDER, FOLDED, FOLDS_AT,
) = map(
    int,
    (
        Word.INPUTS, Word.VALUES, Word.SINKS, Word.ALONG, Word.CHUNK, Word.WIDTH, Word.SIZES_AT, Word.ARRAYS_AT,
        Word.PLACES, Word.STRAIGHT, Word.IN_ORDER, Word.DIRECT, Word.ACROSS, Word.ABREAST, Word.LANES, Word.STATUS,
        Word.STAGED, Word.TURNED, Word.ANY_ORDER, Word.FOLDED, Word.FOLDS_AT,
    ),
)  # fmt: skip
SIZE, STACK, START, BASE, BEFORE, END, TAIL = map(
    int, (Part.SIZE, Part.STACK, Part.START, Part.BASE, Part.BEFORE, Part.END, Part.TAIL)
)

along_bring, along_climb, along_take_total, along_descend, along_hand = (
    along.bring, along.climb, along.take_total, along.descend, along.hand,
)  # fmt: skip
bring, climb, take_total, put, descend, step_down, hand, hand_last = (
    panels.bring, panels.climb, panels.take_total, panels.put, panels.descend, panels.step_down, panels.hand,
    panels.hand_last,
)  # fmt: skip
pass_rows, hand_row, pass_all_turned = columns.pass_rows, columns.hand_row, columns.pass_all_turned
fold_blocks, along_hand_last = reduced.fold_blocks, reduced.hand_last
sum_abreast, scan_abreast = abreast.sum_chunks, abreast.scan_abreast
remember, come, go = staged.remember, staged.come, staged.go
fold_in, fold_out, gap_of = folded.come, folded.go, folded.gap_of
sum_items, scan_items = through.sum_items, through.scan_items


@of_words
def sweep_up(L, A, first, m, w, whole, keep):
    """Bring a chunk in and sweep it up. `keep`: its sums stay for `sweep_down`. The sum of a `whole` chunk is at TOTAL."""
    if peek(L, ALONG):
        along_bring(L, A, first, m)
        along_climb(L, A, first, m, keep)
        if whole:
            along_take_total(L, A, m)
    else:
        bring(L, A, first, m, w)
        climb(L, A, w, m)
        if whole:
            take_total(L, A, w)


@of_words
def sweep_down(L, A, first, m, w, known, whole):
    """The prefixes of a chunk that was swept up, from the prefixes at BEFORE if these are `known`. END holds the prefixes behind
    a `whole` chunk.
    """
    if peek(L, ALONG):
        along_descend(L, A, first, m, known, whole)
    else:
        descend(L, A, m, w, known, whole)


@of_words
def hand_over(L, A, first, m, w):
    """Hand a chunk's prefixes to the outputs."""
    if peek(L, ALONG):
        along_hand(L, A, first, m)
    else:
        hand(L, A, first, m, w)


@of_words
def hand_last_over(L, A, m, w):
    """Hand out the prefixes behind the last chunk."""
    if peek(L, ALONG):
        along_hand_last(L, A, w)
    else:
        hand_last(L, A, m, w)


@of_words
def rows_near(L):
    """Rows of a tile that come near in one go, or 0. Where rows lie turned, the strip has come as a whole."""
    return 0 if peek(L, TURNED) else peek(L, STAGED)


@of_words
def sum_tile(L, A, first, last, w):
    """Leave the sum of a whole tile on the counter; returns its level."""
    count, chunk = 0, peek(L, CHUNK)
    if peek(L, ANY_ORDER) and sum_items(L, A, first, last, STACK, w, 0):
        return 0
    if peek(L, ABREAST):
        count = sum_abreast(L, A, first, last, w)
    near = rows_near(L)
    for row in range(first + count * chunk, last, chunk):
        if near and (row - first) % near == 0:
            come(L, A, row, min(near, last - row))
        if peek(L, DIRECT):
            pass_rows(L, A, row, w, 0)
        else:
            sweep_up(L, A, row, chunk, w, 1, last - first == chunk)
        push(L, A, count, 1, w)
        count += 1
    level = 0
    while count >> level > 1:
        level += 1
    return level


@of_words
def scan_tile(L, A, has, ends, first, last, w):
    """Scan the rows [first, last) from the prefix at BASE, if the tile `has` one. `ends`: the prefix behind is at TAIL, and the
    last chunk has been swept up.
    """
    chunk, reduce = peek(L, CHUNK), peek(L, REDUCE)
    known, count, near = has, 0, rows_near(L)
    copy_rows(L, A, BEFORE, BASE, w)
    for row in range(first, last, chunk):
        if near and (row - first) % near == 0:
            if row > first:
                go(L, A, row - near, near)
            come(L, A, row, min(near, last - row))
        m = min(chunk, last - row)
        whole = m == chunk
        direct = peek(L, DIRECT) and whole
        if direct:
            pass_rows(L, A, row, w, 0 if reduce else 1 if known else FIRST)
        elif not ends or last - first > chunk or peek(L, DIRECT):
            sweep_up(L, A, row, m, w, whole, not reduce or row + m == last)
        if whole:
            push(L, A, count, 1, w)
            count += 1
            if ends and row + m == last:
                copy_rows(L, A, END, TAIL, w)
            else:
                behind(L, A, has, count, w)
        if direct and not reduce:
            hand_row(L, A, row, w)
        elif not reduce or row + m == last:
            if direct:
                put(L, A, ROW - 1, w, END)
            elif not (reduce and peek(L, ALONG)):
                sweep_down(L, A, row, m, w, known, whole)
            elif not whole:
                fold_blocks(L, A, m, known)
            if reduce:
                hand_last_over(L, A, m, w)
            else:
                hand_over(L, A, row, m, w)
        if whole:
            copy_rows(L, A, BEFORE, END, w)
        known = 1
    if near:
        done = (last - first - 1) // near * near
        go(L, A, first + done, last - first - done)


@of_words
def scan_straight(L, A, has, ends, first, last, w):
    """Scan the rows [first, last) where every order gives the same bits."""
    one_chunk = last - first == peek(L, CHUNK)
    # Scratch memory holds one row.
    scan_items(L, A, first, last, w, has, ends and one_chunk and w == 1)


@of_words
def reduce_in_any_order(L, A, has, first, last, w):
    """Reduce the rows [first, last), unless their order counts."""
    copy_rows(L, A, END, BASE, w)
    done = sum_items(L, A, first, last, END, w, has)
    if done:
        along_hand_last(L, A, w)
    return done


@of_words
def scan_in_order(L, A, has, n, w):
    """Scan n rows of w columns one step after the other."""
    known, reduce = has, peek(L, REDUCE)
    copy_rows(L, A, BEFORE, BASE, w)
    for row in range(0, n, ROW):
        m = min(ROW, n - row)
        bring(L, A, row, m, w)
        step_down(L, A, m, w, known)
        if not reduce:
            hand(L, A, row, m, w)
        elif row + m == n:
            hand_last(L, A, m, w)
        known = 1


@of_words
def scan_turned(L, A, has, n, w):
    """Scan n items of w rows side by side, whose items lie side by side."""
    count, reduce = n // ROW, peek(L, REDUCE)
    done = count * ROW
    copy_rows(L, A, BEFORE, BASE, w)
    if count:
        pass_all_turned(L, A, w, count, has)
    if done < n:
        sweep_up(L, A, done, n - done, w, 0, 1)
        sweep_down(L, A, done, n - done, w, has or count, 0)
        if reduce:
            hand_last_over(L, A, n - done, w)
        else:
            hand_over(L, A, done, n - done, w)
    elif reduce:
        put(L, A, ROW - 1, w, BEFORE)
        hand_last_over(L, A, ROW, w)


@of_words
def find_places(L, A, group):
    """Keep in scratch memory where the arrays of a strip begin, and the starts of its rows. Returns the lanes of the strip."""
    dims, sizes, folded = peek(L, DIMS), peek(L, SIZES_AT), peek(L, FOLDED)
    outer, column = group // peek(L, STRIPS), group % peek(L, STRIPS) * peek(L, WIDTH)
    w = min(peek(L, WIDTH), peek(L, COLUMNS) - column)
    arrays, values = peek(L, INPUTS) + peek(L, SINKS), peek(L, VALUES)
    for a in range(arrays + values):
        array = L + 8 * (peek(L, ARRAYS_AT) + a * (ARRAY_WORDS + dims))
        address, left = peek(array, 0) + column // folded * peek(array, 2), outer
        for d in range(dims - 1, -1, -1):
            size = peek(L, sizes + d)
            address += left % size * peek(array, ARRAY_WORDS + d)
            left //= size
        place = A + peek(L, PLACES) + 24 * a
        poke(place, 0, address)
        poke(place, 1, peek(array, 1))
        poke(place, 2, peek(array, 2))
    for c in range(values):
        address, _, across = place_of(L, A, arrays + c)
        if address:
            p, gap = part(L, c), gap_of(L, arrays + c)
            size, start = peek(p, SIZE), A + peek(p, START)
            for column in range(folded):
                for row in range(w // folded):
                    copy_bytes(start, address + column * gap + row * across, size)
                    start += size
    return w


@of_words
def scan_group(L, A, group, t):
    """Scan tile t of one strip."""
    w = find_places(L, A, group)
    has, n, tiles = peek(L, INITIAL), peek(L, N), peek(L, TILES)
    first, last = t * peek(L, TILE), min(n, (t + 1) * peek(L, TILE))
    copy_rows(L, A, BASE, START, w)
    ends = tiles > 1 and last - first == peek(L, TILE)
    if peek(L, STAGED):
        remember(L, A)
    if tiles > 1:
        sync, node = peek(L, SYNC) + LINE * group * peek(L, EACH), group * peek(L, EACH)
        if ends:
            publish(L, A, sync, node, t, sum_tile(L, A, first, last, w), w)
        if peek(L, REDUCE) and last < n:
            return
        if ends and not peek(L, STRAIGHT):
            copy_rows(L, A, TAIL, START, w)
            prefix_of(L, A, sync, node, t + 1, TAIL, has, w)
        has = prefix_of(L, A, sync, node, t, BASE, has, w)
    if peek(L, REDUCE) and peek(L, ANY_ORDER) and reduce_in_any_order(L, A, has, first, last, w):
        return
    near = w if peek(L, STAGED) and peek(L, TURNED) else 0
    if peek(L, FOLDS_AT):
        fold_in(L, A, w)
    elif near:
        come(L, A, 0, near)
    if peek(L, STRAIGHT):
        scan_straight(L, A, has, ends, first, last, w)
    elif peek(L, IN_ORDER):
        scan_in_order(L, A, has, n, w)
    elif peek(L, ABREAST):
        scan_abreast(L, A, has, ends, first, last, w)
    elif peek(L, ACROSS) and w >= peek(L, LANES):
        scan_turned(L, A, has, n, w)
    else:
        scan_tile(L, A, has, ends, first, last, w)
    if peek(L, FOLDS_AT):
        fold_out(L, A, w)
    elif near:
        go(L, A, 0, near)


def run(L, A):
    """Do one thread's share: draw tickets until there are none. L: the address of the launch's words; A: of scratch memory."""
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
