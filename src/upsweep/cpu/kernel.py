"""The code that every thread runs, whatever the operator and the dtypes: take a tile by its ticket, find where its rows lie, wait
for the tiles before it, and have it scanned (`tiles`).

Sweeps are the operator's code (`runs` or `sweep`), called by address: so this file and the functions that it calls are compiled
once.
"""

from __future__ import annotations

from upsweep.cpu import abreast, folded, staged
from upsweep.cpu.address import fence, fetch_add, peek, poke
from upsweep.cpu.carry import prefix_of, publish, tail_of
from upsweep.cpu.frame import copy_rows, gather, part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.tiles import (
    reduce_in_any_order,
    scan_in_order,
    scan_straight,
    scan_tile,
    scan_turned,
    sum_tile,
)
from upsweep.cpu.words import ARRAY_WORDS, UNCHAINED, Part, Word

N, COLUMNS, STRIPS, GROUPS, BATCH, TILE, TILES, INITIAL, REDUCE, DIMS, TICKET = map(
    int,
    (
        Word.N, Word.COLUMNS, Word.STRIPS, Word.GROUPS, Word.BATCH, Word.TILE, Word.TILES, Word.INITIAL, Word.REDUCE,
        Word.DIMS, Word.TICKET,
    ),
)  # fmt: skip
(
    INPUTS, VALUES, SINKS, WIDTH, SIZES_AT, ARRAYS_AT, PLACES, STRAIGHT, IN_ORDER, ACROSS, ABREAST, LANES, STATUS, STAGED, TURNED,
    ANY_ORDER, FOLDED, FOLDS_AT, CHAINED,
) = map(
    int,
    (
        Word.INPUTS, Word.VALUES, Word.SINKS, Word.WIDTH, Word.SIZES_AT, Word.ARRAYS_AT, Word.PLACES, Word.STRAIGHT,
        Word.IN_ORDER, Word.ACROSS, Word.ABREAST, Word.LANES, Word.STATUS, Word.STAGED, Word.TURNED, Word.ANY_ORDER,
        Word.FOLDED, Word.FOLDS_AT, Word.CHAINED,
    ),
)  # fmt: skip
SIZE, START, BASE = map(int, (Part.SIZE, Part.START, Part.BASE))

scan_abreast, reduce_abreast = abreast.scan_abreast, abreast.reduce_abreast
remember, come, go = staged.remember, staged.come, staged.go
fold_in, fold_out, gap_of = folded.come, folded.go, folded.gap_of


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
            # One number stands for all columns, or each column has starts of its own.
            size, columns = peek(p, SIZE), folded if gap or across else 1
            rows = w // columns
            for column in range(columns):
                start = A + peek(p, START) + column * rows * size
                gather(start, address + column * gap, across, size, rows)
    return w


@of_words
def scan_group(L, A, group, t):
    """Scan tile t of one strip."""
    w = find_places(L, A, group)
    has, n, tiles = peek(L, INITIAL), peek(L, N), peek(L, TILES)
    first, last = t * peek(L, TILE), min(n, (t + 1) * peek(L, TILE))
    copy_rows(L, A, BASE, START, w)
    ends, chain = tiles > 1 and last - first == peek(L, TILE), UNCHAINED
    if peek(L, STAGED):
        remember(L, A)
    if tiles > 1:
        if peek(L, CHAINED):
            chain, ends = group if ends else UNCHAINED, 0
        if ends:
            publish(L, A, group, t, sum_tile(L, A, first, last, w), w)
        if peek(L, REDUCE) and last < n:
            return
        if ends and not peek(L, STRAIGHT):
            tail_of(L, A, group, t, w)
        has = prefix_of(L, A, group, t, BASE, has, w)
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
    elif peek(L, ABREAST) and peek(L, REDUCE):
        reduce_abreast(L, A, has, ends, first, last, w)
    elif peek(L, ABREAST):
        scan_abreast(L, A, has, ends, first, last, w)
    elif peek(L, ACROSS) and w >= peek(L, LANES):
        scan_turned(L, A, has, n, w)
    else:
        scan_tile(L, A, has, ends, chain, first, last, w)
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
        if peek(L, CHAINED):
            scan_group(L, A, ticket % groups, ticket // groups)
            continue
        first = ticket // tiles * batch
        for group in range(first, min(first + batch, groups)):
            scan_group(L, A, group, ticket % tiles)
    fence()
    if peek(L, STATUS):
        raise RuntimeError
