"""One chunk: Brent and Kung's two sweeps, two levels at a time, over scratch memory that stays in the nearest caches.

A chunk has m rows of w items. Level l holds the sums of the aligned blocks of 4^l rows (up), then the prefixes at
their starts (down). No loop carries anything from one row to the next, so that the compiler makes vector code of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upsweep.cpu.memory import Items, adopted, inner


def operators(fn: Callable, S: Items, P: Items, segmented: bool, initial: bool) -> tuple[Any, Any, Any]:
    """`combine` of two block sums, `fold` of a block sum onto a prefix, and the `value` of a sum without its flag.

    The results are rounded to the accumulator's dtype, also within an expression. In a segmented scan a sum ends with
    a flag: whether a segment starts in its block. Every segment starts from `initial` where there is one.
    """
    user, cast, P_cast = adopted(fn), S.cast, P.cast
    if not segmented:

        @inner
        def combine(a, b):
            return cast(user(a, b))

        @inner
        def fold(start, p, s):
            return P_cast(user(p, s))

        @inner
        def value(s):
            return s

        return combine, fold, value
    if P.bare:

        @inner
        def value(s):
            return s[0]

        @inner
        def combine(a, b):
            both = P_cast(user(a[0], b[0]))
            return cast((b[0] if b[1] else both, a[1] | b[1]))

    else:

        @inner
        def value(s):
            return s[:-1]

        @inner
        def combine(a, b):
            both = P_cast(user(a[:-1], b[:-1]))
            chosen = b[:-1] if b[-1] else both
            return cast((*chosen, a[-1] | b[-1]))

    if initial:

        @inner
        def fold(start, p, s):
            return P_cast(user(start if s[-1] else p, value(s)))

    else:

        @inner
        def fold(start, p, s):
            both = P_cast(user(p, value(s)))
            return value(s) if s[-1] else both

    return combine, fold, value


def up_sweep(S: Items, combine: Any, level_at: Any) -> Any:
    """All levels of block sums of m rows, above the rows themselves."""
    S_read, S_write, S_at = S.read, S.write, S.at

    @inner
    def fours(items, pitch, sums, count, w):
        for i in range(count):
            for j in range(w):
                left = combine(S_read(items, 4 * i * pitch + j), S_read(items, (4 * i + 1) * pitch + j))
                right = combine(
                    S_read(items, (4 * i + 2) * pitch + j), S_read(items, (4 * i + 3) * pitch + j)
                )
                S_write(sums, i * w + j, combine(left, right))

    @inner
    def up(items, pitch, sums, m, w):
        level, count = 1, m >> 2
        if count > 0:
            fours(items, pitch, sums, count, w)
        while count > 3:
            level, count = level + 1, count >> 2
            fours(S_at(sums, level_at(level - 1) * w), w, S_at(sums, level_at(level) * w), count, w)

    return up


def straight(X: Items, Y: Items, combine: Any, fold: Any, size: int) -> tuple[Any, Any]:
    """In place of the sweeps where every order of evaluation gives the same bits: the sum of `count` items, and their
    prefixes one after another, from `p` on where something is `known`. Both are for rows of one component of `size` bytes."""
    read, read_strided, write, write_strided = X.read, X.read_strided, Y.write, Y.write_strided

    @inner
    def total(x, strides, count):
        s = read(x, 0)
        if strides[0] == size:
            for i in range(1, count):
                s = combine(s, read(x, i))
        else:
            for i in range(1, count):
                s = combine(s, read_strided(x, strides, i))
        return s

    @inner
    def through(p, known, x, strides, y, y_strides, count, exclusive):
        done = 0
        if not known:
            p, done = read(x, 0), 1
            if not exclusive:
                write(y, 0, p)
        if exclusive:
            for i in range(done, count):
                item = read_strided(x, strides, i)  # before its place is written to
                write_strided(y, y_strides, i, p)
                p = fold(p, p, item)
        elif strides[0] == size and y_strides[0] == size:
            for i in range(done, count):
                p = fold(p, p, read(x, i))
                write(y, i, p)
        else:
            for i in range(done, count):
                p = fold(p, p, read_strided(x, strides, i))
                write_strided(y, y_strides, i, p)

    return total, through


def down_sweep(S: Items, P: Items, T: Items, combine: Any, fold: Any, value: Any, rows: bool) -> Any:
    """Prefixes at the starts of `count` blocks and at the end of the last, from those one level above, written as T.

    `has` says whether anything stands before the first block; prefixes lie `step` items apart; `first` and `last` say
    whether the place of the first one and of the one at the end may be written to. `spare` is memory to write to for the
    sake of speed.
    """
    S_read, S_write, S_at, P_read, P_at, write, T_at = S.read, S.write, S.at, P.read, P.at, T.write, T.at

    @inner
    def group(start, above, has, sums, pitch, below, step, size, w, first, last):
        """One block of the level above, of which `size` parts are wanted."""
        for j in range(w):
            initial, p = P_read(start, j), P_read(above, j)
            if first:
                write(below, j, p)
            if size > 0:
                a = S_read(sums, j)
                if size > 1 or last:
                    write(below, step + j, fold(initial, p, a) if has else value(a))
            if size > 1:
                b = combine(a, S_read(sums, pitch + j))
                q = fold(initial, p, b) if has else value(b)
                if size > 2 or last:
                    write(below, 2 * step + j, q)
                if size > 2 and last:
                    write(below, 3 * step + j, fold(initial, q, S_read(sums, 2 * pitch + j)))

    @inner
    def inner_groups(start, above, sums, pitch, below, step, spare, full, w):
        for i in range(1, full):
            for j in range(w):
                initial, p, a = P_read(start, j), P_read(above, i * w + j), S_read(sums, 4 * i * pitch + j)
                q = fold(initial, p, combine(a, S_read(sums, (4 * i + 1) * pitch + j)))
                if rows:  # four streams are read by whole vectors, three of four by gathers of single items
                    S_write(spare, i, S_read(sums, (4 * i + 3) * pitch))
                write(below, 4 * i * step + j, p)
                write(below, (4 * i + 1) * step + j, fold(initial, p, a))
                write(below, (4 * i + 2) * step + j, q)
                write(below, (4 * i + 3) * step + j, fold(initial, q, S_read(sums, (4 * i + 2) * pitch + j)))

    @inner
    def down(start, above, has, sums, pitch, below, step, spare, count, w, first, last):
        full, rest = count >> 2, count & 3
        group(start, above, has, sums, pitch, below, step, min(count, 3), w, first, last or full > 0)
        inner_groups(start, above, sums, pitch, below, step, spare, full, w)
        if full > 0:
            above, sums, below = (
                P_at(above, full * w),
                S_at(sums, 4 * full * pitch),
                T_at(below, 4 * full * step),
            )
            group(start, above, True, sums, pitch, below, step, rest, w, last or rest > 0, last)

    return down
