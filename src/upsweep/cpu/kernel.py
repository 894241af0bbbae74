"""The kernel that every thread runs: take a tile by its ticket, bring its chunks in, scan them, hand them over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from upsweep.cpu.carry import LEVELS, counter, look_back
from upsweep.cpu.chunk import down_sweep, operators, straight, up_sweep
from upsweep.cpu.memory import (
    LINE,
    Items,
    address_of,
    advance,
    copy_bytes,
    fetch_add,
    gathered,
    inner,
    placed,
    spliced,
)
from upsweep.dtypes import raw


class Word(IntEnum):
    """The int64 words of a launch. Behind them stand the sizes of the outer dimensions and then, for each array, its
    address, its byte strides along the axis and across columns, and its byte strides along the outer dimensions."""

    N = 0  # items of a row
    COLUMNS = 1  # rows that lie side by side
    STRIPS = 2  # strips that the columns are cut into
    GROUPS = 3  # strips over all outer dimensions
    BATCH = 4  # groups to a ticket
    TILE = 5  # items of a tile
    TILES = 6  # tiles of a group
    EXCLUSIVE = 7
    INITIAL = 8
    REDUCE = 9
    PITCH = 10  # items from row to row where they can be read in place, else 0
    STEP = 11  # items from row to row of the results where they go straight to their array, else 0: by way of scratch
    DIMS = 12  # outer dimensions
    TICKET = 13  # the next one
    SYNC = 14  # address of the look-back's words
    EACH = 15  # nodes of a group
    NODES = 16  # the addresses of the look-back's sums, one a component


class Kernel(NamedTuple):
    """Compiled code with what it needs to know of itself to be launched."""

    run: Any
    scratch: int  # bytes that each thread brings
    chunk: int
    width: int


class Scratch:
    """Scratch memory, one region after the other, each component on cache lines of its own."""

    size = 0

    def region(self, dtypes: Sequence[np.dtype], items: int) -> Any:
        offsets = []
        for dtype in dtypes:
            offsets.append(self.size)
            self.size += (items * dtype.itemsize // LINE + 2) * LINE
        return placed(offsets)


def build(
    fn: Callable[[Any, Any], Any],
    loads: Sequence[np.dtype],
    accumulators: Sequence[np.dtype],
    stores: Sequence[np.dtype | None],
    identity: Sequence[Any] | None,
    segmented: bool,
    initial: bool,
    exact: bool,
    chunk: int,
    width: int,
    tile: int,
) -> Kernel:
    """The kernel for these types. With `width` 1 a chunk's neighbours lie in a row, otherwise across columns. No tile has
    more than `tile` items, over all its columns. `exact`: every order of evaluation gives the same bits."""
    one = len(accumulators) == 1
    flag = [np.dtype(np.uint8)] if segmented else []
    in_types, sum_types = [*loads, *flag], [*accumulators, *flag]
    kept = [c for c, dtype in enumerate(stores) if dtype is not None]
    out_types = [dtype for dtype in stores if dtype is not None]
    rows = width == 1

    scratch = Scratch()
    # Chunks of a whole tile: their sums are kept from one pass to the next.
    slots = max(1, -(-tile // (chunk * width)))
    sums_at = scratch.region(sum_types, slots * (chunk // 3 + 32) * width)
    prefixes_at = scratch.region(accumulators, (chunk // 2 + LEVELS) * width)
    spare_at = scratch.region(sum_types, (chunk // 4 + 4) * width)
    items_at = scratch.region(sum_types, chunk * width)
    out_at = scratch.region(out_types, (chunk + 4) * width)
    stack_at = scratch.region(sum_types, LEVELS * width)
    total_at = scratch.region(sum_types, width)
    initial_at = scratch.region(accumulators, width)
    base_at = scratch.region(accumulators, width)
    end_at = scratch.region(accumulators, width)
    folds_at = scratch.region(accumulators, LEVELS * width)

    S = Items(sum_types, sum_types, one and not segmented)
    P = Items(accumulators, accumulators, one)
    Y = Items(out_types, [accumulators[c] for c in kept], one, None if one else kept)
    combine, fold, value = operators(fn, S, P, segmented, initial)

    @inner
    def level_at(level):
        """Where a level of block sums begins, in rows; prefixes, one more to a level, begin one row later."""
        return (chunk - (chunk >> (2 * level - 2))) // 3 + 4 * (level - 1)

    up = up_sweep(S, combine, level_at)
    down = down_sweep(S, P, P, combine, fold, value, rows)
    emit = down_sweep(S, P, Y, combine, fold, value, rows)
    push, behind, steps = counter(S, P, combine, fold, value)
    publish, prefix_of = look_back(S, steps)
    fetch = _mover(
        [(Items([a], [b], True), Items([b], [b], True), a.itemsize) for a, b in zip(in_types, sum_types)],
        False,
        rows,
    )
    deliver = _mover(
        [(Items([d], [d], True), Items([d], [d], True), d.itemsize) for d in map(raw, out_types)], True, rows
    )
    restart = _restarter(S, P, Y, identity, segmented, initial)
    x_place, y_place, start_place = (
        placer(len(types), int(Word.DIMS)) for types in (in_types, out_types, accumulators)
    )
    node_addresses = gathered(len(sum_types))
    S_at, S_write, P_read, P_read_strided, P_write, P_at, Y_at, Y_write = (
        S.at, S.write, P.read, P.read_strided, P.write, P.at, Y.at, Y.write,
    )  # fmt: skip
    copy = steps[0]

    IN, OUT, WIDTH, CHUNK = len(in_types), len(out_types), width, chunk
    TOP = (chunk.bit_length() - 1) // 2
    N, COLUMNS, STRIPS, GROUPS, BATCH, TILE, TILES, EXCLUSIVE, INITIAL, REDUCE = map(int, list(Word)[:10])
    PITCH, STEP, DIMS, TICKET, SYNC, EACH, NODES = map(int, list(Word)[10:])

    @inner
    def sums_of(scratch, slot, w):
        """Where the block sums of a tile's chunk are kept."""
        return S_at(sums_at(scratch), slot * (CHUNK // 3 + 32) * w)

    @spliced
    def sweep_down(start, has, items, pitch, sums, out, step, scratch, m, w, first, last):
        """Prefixes of a chunk's m rows at all levels, from the one at the start of `prefixes` down to `out`."""
        prefixes, spare = prefixes_at(scratch), spare_at(scratch)
        level, above = 0, prefixes
        while m >> (2 * level) > 3:
            level += 1
        while level > 0:
            below = P_at(prefixes, (level_at(level) + 1) * w)
            here, count = S_at(sums, level_at(level) * w), m >> (2 * level)
            down(start, above, has, here, w, below, w, spare, count, w, True, True)
            level, above = level - 1, below
        emit(start, above, has, items, pitch, out, step, spare, m, w, first, last)

    @spliced
    def count_chunk(sums, scratch, count, w):
        """Take the sum of a chunk that has been swept up into the counter."""
        total = total_at(scratch)
        copy(total, S_at(sums, level_at(TOP) * w), w)
        push(stack_at(scratch), count, total, w)

    @spliced
    def put_row(out, p, w):
        for j in range(w):
            Y_write(out, j, P_read(p, j))

    @inner
    def bring(words, x, strides, inner, sums, swept, row, m, w, scratch):
        """A chunk's rows where they can be read, and the items from one row to the next; swept up, if they are not yet."""
        here = advance(x, strides, row)
        if words[PITCH] == 0:
            fetch(here, strides, inner, items_at(scratch), m, w)
            here = items_at(scratch)
        pitch = 1 if rows else words[PITCH] or w
        if not swept:
            up(here, pitch, sums, m, w)
        return here, pitch

    @spliced
    def sum_tile(words, x, strides, inner, first, last, w, scratch):
        """Leave the sum of a whole tile on the counter; returns its level."""
        count = np.int64(0)
        for row in range(first, last, CHUNK):
            sums = sums_of(scratch, count, w)
            bring(words, x, strides, inner, sums, count < 0, row, min(CHUNK, last - row), w, scratch)
            count_chunk(sums, scratch, count, w)
            count += 1
        level = 0
        while count >> level > 1:
            level += 1
        return level

    @spliced
    def scan_tile(words, x, strides, inner, y, y_strides, y_inner, has, ends, first, last, w, scratch):
        """Scan the rows [first, last) from the prefix at `base`, where there is one; `ends`: the one behind is at `end`."""
        start, base, stack, prefixes = (
            initial_at(scratch),
            base_at(scratch),
            stack_at(scratch),
            prefixes_at(scratch),
        )
        folds, known = folds_at(scratch), has != 0
        for j in range(w):
            P_write(prefixes, j, P_read(base, j))
        straight_out, count = words[STEP] != 0, np.int64(0)
        step = 1 if rows else words[STEP] or w
        # Of a chunk's m + 1 prefixes all but the first are results, in an exclusive scan all but the last; where results go
        # straight to their array, the place of the other belongs to a neighbour.
        skip = 0 if words[EXCLUSIVE] else step
        own_first, own_last = not straight_out or skip == 0, not straight_out or skip != 0
        for row in range(first, last, CHUNK):
            m, there = min(CHUNK, last - row), advance(y, y_strides, row)
            out = Y_at(there, -skip) if straight_out else out_at(scratch)
            sums = sums_of(scratch, count if ends else count - count, w)
            here, pitch = bring(words, x, strides, inner, sums, ends, row, m, w, scratch)
            if not words[REDUCE] or row + m == last:
                sweep_down(start, known, here, pitch, sums, out, step, scratch, m, w, own_first, own_last)
            if m == CHUNK:  # the prefix behind a whole chunk is made of larger blocks
                count_chunk(sums, scratch, count, w)
                count += 1
                after = end_at(scratch)
                if not ends or row + m < last:
                    after = prefixes
                    behind(start, base, has, stack, folds, count, after, w)
                if own_last:
                    put_row(Y_at(out, m * step), after, w)
            if not words[REDUCE]:
                if words[EXCLUSIVE]:
                    restart(start, known, here, pitch, out, step, m, w)
                if not straight_out:
                    deliver(there, y_strides, y_inner, Y_at(out, skip), m, w)
            elif row + m == last:
                deliver(y, y_strides, y_inner, Y_at(out, m * w), np.int64(1), w)
            known = True

    # Items of 4 and 8 bytes come eight and four to a vector: too few to pay for a tree that nobody can see.
    alike = rows and one and not segmented and in_types == out_types == sum_types
    if exact and alike and sum_types[0].itemsize >= 4:
        total, through = straight(S, Y, combine, fold, sum_types[0].itemsize)

        @spliced
        def sum_tile(words, x, strides, inner, first, last, w, scratch):
            S_write(stack_at(scratch), 0, total(advance(x, strides, first), strides, last - first))
            return 0

        @spliced
        def scan_tile(words, x, strides, inner, y, y_strides, y_inner, has, ends, first, last, w, scratch):
            here, there = advance(x, strides, first), advance(y, y_strides, first)
            p = P_read(base_at(scratch), 0)
            if words[REDUCE]:
                if last == words[N]:
                    s = total(here, strides, last - first)
                    Y_write(y, 0, fold(p, p, s) if has else s)
            else:
                through(p, has, here, strides, there, y_strides, last - first, words[EXCLUSIVE])
                if words[EXCLUSIVE]:
                    # Last of all: where the result lies over the input, this is the place of an item.
                    restart(initial_at(scratch), has, here, 1, there, 1, 1, w)

    @spliced
    def scan_group(words, group, t, scratch):
        """Tile t of one strip."""
        each = 3 + words[DIMS]
        xs = NODES + IN + words[DIMS]
        ys = xs + IN * each
        starts = ys + OUT * each
        outer, column = group // words[STRIPS], group % words[STRIPS] * WIDTH
        w = 1 if rows else min(WIDTH, words[COLUMNS] - column)
        x, strides, inner = x_place(words, xs, outer, column, NODES + IN)
        y, y_strides, y_inner = y_place(words, ys, outer, column, NODES + IN)
        start, base, end, has = initial_at(scratch), base_at(scratch), end_at(scratch), words[INITIAL] != 0
        if has:
            s, _, s_inner = start_place(words, starts, outer, column, NODES + IN)
            for j in range(w):
                P_write(start, j, P_read_strided(s, s_inner, j))
                P_write(base, j, P_read(start, j))
                P_write(end, j, P_read(start, j))
        tiles, n = words[TILES], words[N]
        first, last = t * words[TILE], min(n, (t + 1) * words[TILE])
        ends = tiles > 1 and last - first == words[TILE]
        if tiles > 1:
            sync = words[SYNC] + 16 * group * words[EACH]
            nodes = S_at(node_addresses(words, NODES, 1), group * words[EACH] * WIDTH)
            if ends:
                level = sum_tile(words, x, strides, inner, first, last, w, scratch)
                publish(sync, nodes, tiles, t, S_at(stack_at(scratch), level * w), w)
            if words[REDUCE] and last < n:
                return
            if ends:
                prefix_of(sync, nodes, tiles, t + 1, start, end, has, w)
            has = prefix_of(sync, nodes, tiles, t, start, base, has, w)
        scan_tile(words, x, strides, inner, y, y_strides, y_inner, has, ends, first, last, w, scratch)

    def run(words, scratch):
        """One thread's share: tickets until there are none."""
        batch, tiles, groups = words[BATCH], words[TILES], words[GROUPS]
        tickets = (groups + batch - 1) // batch * tiles
        while True:
            ticket = fetch_add(address_of(words, TICKET), 1)
            if ticket >= tickets:
                break
            first = ticket // tiles * batch
            for group in range(first, min(first + batch, groups)):
                scan_group(words, group, ticket % tiles, scratch)

    return Kernel(inner(run, nogil=True, no_cpython_wrapper=False), scratch.size, chunk, width)


def placer(count: int, dims_word: int) -> Any:
    """Where the arrays of a group begin: addresses, strides along the axis, strides across columns."""
    gather, DIMS = gathered(count), dims_word

    @spliced
    def place(words, first, outer, column, sizes):
        dims = words[DIMS]
        each = 3 + dims
        address, inner = gather(words, first, each), gather(words, first + 2, each)
        for d in range(dims - 1, -1, -1):
            address = advance(address, gather(words, first + 3 + d, each), outer % words[sizes + d])
            outer //= words[sizes + d]
        return advance(address, inner, column), gather(words, first + 1, each), inner

    return place


def _mover(kinds: Sequence[tuple[Items, Items, int]], out: bool, rows: bool) -> Any:
    """Move m rows of w items between an array, of any strides, and scratch memory, where they lie side by side.

    One component after the other, each by the loop that fits its stride, so that the compiler can make vector code.
    """

    @inner
    def move(array, strides, across, items, m, w):
        pass

    for c, (A, S, size) in enumerate(kinds):
        move = _and_component(move, c, _line_out(A, S, size) if out else _line_in(A, S, size), A, S, rows)
    return move


def _and_component(others: Any, c: int, line: Any, A: Items, S: Items, rows: bool) -> Any:
    S_at = S.at

    @inner
    def move(array, strides, across, items, m, w):
        others(array, strides, across, items, m, w)
        if rows:
            line((array[c],), strides[c], (items[c],), m)
        else:
            for i in range(m):
                line((array[c] + i * strides[c],), across[c], S_at((items[c],), i * w), w)

    return move


def _line_in(A: Items, S: Items, size: int) -> Any:
    read, read_strided, write = A.read, A.read_strided, S.write

    @inner
    def line(array, stride, items, count):
        if stride == size:
            for i in range(count):
                write(items, i, read(array, i))
        elif stride == -size:
            for i in range(count):
                write(items, i, read(array, -i))
        elif stride == 0:
            one = read(array, 0)
            for i in range(count):
                write(items, i, one)
        else:
            for i in range(count):
                write(items, i, read_strided(array, (stride,), i))

    return line


def _line_out(A: Items, S: Items, size: int) -> Any:
    read, write, write_strided = S.read, A.write, A.write_strided

    @inner
    def line(array, stride, items, count):
        if stride == size:
            copy_bytes(array[0], items[0], count * size)
        elif stride == -size:
            for i in range(count):
                write(array, -i, read(items, i))
        else:
            for i in range(count):
                write_strided(array, (stride,), i, read(items, i))

    return line


def _restarter(
    S: Items, P: Items, Y: Items, identity: Sequence[Any] | None, segmented: bool, initial: bool
) -> Any:
    """What an exclusive scan gives where nothing stands before an item: at its start, and where a segment starts."""
    S_read, P_read, Y_write = S.read, P.read, Y.write
    if initial:

        @inner
        def put(start, out, at, j):
            Y_write(out, at, P_read(start, j))

    elif identity is not None:
        neutral = identity[0].item() if P.bare else tuple(part.item() for part in identity)

        @inner
        def put(start, out, at, j):
            Y_write(out, at, neutral)

    else:

        @inner
        def put(start, out, at, j):
            pass

    if segmented:

        @spliced
        def restart(start, known, items, pitch, out, step, m, w):
            for i in range(m):
                for j in range(w):
                    if S_read(items, i * pitch + j)[-1] or (i == 0 and not known):
                        put(start, out, i * step + j, j)

    else:

        @spliced
        def restart(start, known, items, pitch, out, step, m, w):
            if not known:
                for j in range(w):
                    put(start, out, j, j)

    return restart
