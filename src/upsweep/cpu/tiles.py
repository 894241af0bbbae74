"""A tile of rows: its chunks are brought in, swept and handed over, in the way that the launch asks for.

A chunk lies `along` a row or is a panel (`panels`) of several rows side by side.
"""

from __future__ import annotations

from upsweep.cpu import abreast, along, columns, panels, reduced, staged, through
from upsweep.cpu.address import peek
from upsweep.cpu.along_places import is_span
from upsweep.cpu.carry import behind, publish, push, tail_of
from upsweep.cpu.frame import copy_rows
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import FIRST, ROW, UNCHAINED, Part, Word

ALONG, CHUNK, REDUCE, DIRECT, ABREAST, STAGED, TURNED, ANY_ORDER, SHORT, ACROSS, LANES, TILE = map(
    int,
    (
        Word.ALONG, Word.CHUNK, Word.REDUCE, Word.DIRECT, Word.ABREAST, Word.STAGED, Word.TURNED, Word.ANY_ORDER,
        Word.SHORT, Word.ACROSS, Word.LANES, Word.TILE,
    ),
)  # fmt: skip
STACK, BASE, BEFORE, END, TAIL = map(int, (Part.STACK, Part.BASE, Part.BEFORE, Part.END, Part.TAIL))

along_bring, along_climb, along_take_total, along_descend, along_hand, pass_spans = (
    along.bring, along.climb, along.take_total, along.descend, along.hand, along.pass_spans,
)  # fmt: skip
bring, climb, take_total, put, descend, step_down, hand, hand_last = (
    panels.bring, panels.climb, panels.take_total, panels.put, panels.descend, panels.step_down, panels.hand,
    panels.hand_last,
)  # fmt: skip
pass_rows, hand_row, pass_all_turned = columns.pass_rows, columns.hand_row, columns.pass_all_turned
fold_blocks, along_hand_last = reduced.fold_blocks, reduced.hand_last
sum_abreast, top_of, come, go = abreast.sum_abreast, abreast.top_of, staged.come, staged.go
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
        sum_abreast(L, A, first, last, w)
        return 0
    near = rows_near(L)
    for row in range(first, last, chunk):
        if near and (row - first) % near == 0:
            come(L, A, row, min(near, last - row))
        if peek(L, DIRECT):
            pass_rows(L, A, row, w, ROW, 0)
        else:
            sweep_up(L, A, row, chunk, w, 1, last - first == chunk)
        push(L, A, count, 1, w)
        count += 1
    return top_of(count)


@of_words
def scan_tile(L, A, has, ends, chain, first, last, w):
    """Scan the rows [first, last) from the prefix at BASE, if the tile `has` one. `ends`: the prefix behind is at TAIL, and the
    last chunk has been swept up. `chain`: the group whose next tile waits for the sum of this one, or UNCHAINED.
    """
    chunk, reduce = peek(L, CHUNK), peek(L, REDUCE)
    known, count, near = has, 0, rows_near(L)
    copy_rows(L, A, BEFORE, BASE, w)
    spans, row = peek(L, ALONG) and is_span(L, chunk) and not ends, first
    while row < last:
        if spans and known and row + chunk <= last:
            passed = pass_spans(L, A, row, last, count, has)
            count, row = count + passed, row + passed * chunk
            continue
        if near and (row - first) % near == 0:
            if row > first:
                go(L, A, row - near, near)
            come(L, A, row, min(near, last - row))
        m = min(chunk, last - row)
        whole = m == chunk
        direct = peek(L, DIRECT) and (whole or peek(L, SHORT) != 0)
        if direct:
            pass_rows(L, A, row, w, m, 0 if reduce and whole else 1 if known else FIRST)
        elif not ends or last - first > chunk or peek(L, DIRECT):
            sweep_up(L, A, row, m, w, whole, not reduce or row + m == last)
        if whole:
            push(L, A, count, 1, w)
            count += 1
            if row + m == last and chain != UNCHAINED:
                publish(L, A, chain, first // peek(L, TILE), top_of(count), w)
                tail_of(L, A, chain, first // peek(L, TILE), w)
            if row + m == last and (ends or chain != UNCHAINED):
                copy_rows(L, A, END, TAIL, w)
            else:
                behind(L, A, has, count, w)
        if direct and not reduce:
            if whole:
                hand_row(L, A, row, w)
        elif not reduce or row + m == last:
            if direct:
                put(L, A, m - 1, w, END)
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
        known, row = 1, row + chunk
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
    known, reduce, done = has, peek(L, REDUCE), 0
    copy_rows(L, A, BEFORE, BASE, w)
    if peek(L, STAGED) and peek(L, ACROSS) and w >= peek(L, LANES) and not reduce and n % ROW and n > 2 * ROW:
        pass_all_turned(L, A, w, n // ROW + 1, n % ROW, has)
        return
    if peek(L, ACROSS) and w >= peek(L, LANES) and n >= ROW:
        done, known = n // ROW * ROW, 1
        pass_all_turned(L, A, w, n // ROW, 0, has)
        if reduce and done == n:
            put(L, A, ROW - 1, w, BEFORE)
            hand_last(L, A, ROW, w)
    for row in range(done, n, ROW):
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
    if peek(L, STAGED) and not reduce and done < n and count > 1:
        pass_all_turned(L, A, w, count + 1, n - done, has)
        return
    copy_rows(L, A, BEFORE, BASE, w)
    if count:
        pass_all_turned(L, A, w, count, 0, has)
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
