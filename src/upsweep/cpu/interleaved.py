"""The kernel that scans groups whose items lie in any order, or one group behind the other."""

from __future__ import annotations

from collections.abc import Callable

from upsweep.cpu import fused
from upsweep.cpu.address import peek
from upsweep.cpu.brought import FAR, NEAR, SEEN, bringer
from upsweep.cpu.counter import onto_prefix
from upsweep.cpu.group_items import scanner
from upsweep.cpu.group_words import AHEAD, BLOCK, Form, Way, Word
from upsweep.cpu.memory import advance, gathered, inner
from upsweep.cpu.walk import strides_of
from upsweep.plan import Plan


def grouper(plan: Plan, form: Form) -> Callable[..., None]:
    """The code for these types."""
    accumulators = plan.accumulators
    X, _, P, Y, IN, OUT = fused.access(plan)
    combine, onto = onto_prefix(plan)
    operand, finished = fused.item(plan), fused.result(plan)
    ins, outs, sums_of, word = gathered(IN), gathered(OUT), gathered(len(accumulators)), gathered(1)
    X_read, P_read, P_write, Y_write = X.read_strided, P.read, P.write, Y.write_strided
    start_read, P_at, P_fetch = P.read_strided, P.at, P.fetch
    code_read, far_read, far_write = NEAR.read_strided, FAR.read, FAR.write
    seen_read, seen_write = SEEN.read, SEEN.write
    PHASE, N, CODES, STEP, GROUPS, COUNTS, SHIFT = map(
        int, (Word.PHASE, Word.N, Word.CODES, Word.STEP, Word.GROUPS, Word.COUNTS, Word.SHIFT)
    )
    DEPTH, STRETCH, FROM, BEHIND, ZERO, SETS, SETS_STEP = map(
        int, (Word.DEPTH, Word.STRETCH, Word.FROM, Word.BEHIND, Word.ZERO, Word.SETS, Word.SETS_STEP)
    )
    SET, SET_END, ROW, ROW_END, STRIP, ARRAYS = map(
        int, (Word.SET, Word.SET_END, Word.ROW, Word.ROW_END, Word.STRIP, Word.ARRAYS)
    )
    SUMS, ROOMS = len(accumulators), ARRAYS + 2 * (IN + OUT) + len(accumulators)
    INITIAL, EXCLUSIVE, ABREAST = form.initial, form.exclusive, bool(form.across)
    BROUGHT, SORTED, COUNTED = form.way == Way.BROUGHT, form.way == Way.SORTED, form.counted
    across = form.across or (None,) * (IN + OUT)
    x_across, y_across = strides_of(across[:IN]), strides_of(across[IN:])
    # In an exclusive scan a group's items lie behind the prefix before them.
    LEAD, LEAST = int(EXCLUSIVE), 1 if form.in_order else BLOCK

    @inner
    def write(arrays, i, p):
        """The results of a prefix, at place i."""
        x, x_step, y, y_step, zero = arrays
        Y_write(y, y_step, i, finished(p, X_read(x, x_step, i), abs(zero - i)))

    by_stretches, phase_of = bringer(plan, form, write)
    scan = scanner(plan, form)

    @inner
    def sorted_already(words, arrays, codes, step, rooms, start):
        """Groups that lie one behind the other, some items at a time, which stay in the nearest cache."""
        sums, prefixes, waiting, items, _ = rooms
        first, end, last, seen = peek(words, FROM), peek(words, BEHIND), -1, 0
        while first < end:
            group, stop, behind = (
                code_read(codes, step, first),
                min(end, first + peek(words, STRETCH)),
                first + 1,
            )
            while behind < stop and code_read(codes, step, behind) == group:
                behind += 1
            seen = seen if group == last else 0
            wait, n = seen % LEAST, seen % LEAST + behind - first
            for k in range(wait):
                P_write(items, LEAD + k, P_read(waiting, k))
            for i in range(first, behind):
                P_write(
                    items,
                    LEAD + wait + i - first,
                    operand(X_read(arrays[0], arrays[1], i), abs(arrays[4] - i)),
                )
            for k in range(n % LEAST):
                P_write(waiting, k, P_read(items, LEAD + n - n % LEAST + k))
            scan(sums, prefixes, items, start, 0, seen // LEAST, LEAD, n)
            for i in range(first, behind):
                write(arrays, i, P_read(items, wait + i - first))
            seen, last, first = seen + behind - first, group, behind

    @inner
    def in_turn(words, arrays, codes, step, counts, states, start):
        x, x_step, n = arrays[0], arrays[1], peek(words, N)
        for i in range(n):
            P_fetch(states, code_read(codes, step, min(i + AHEAD, n - 1)))
            group = code_read(codes, step, i)
            seen = seen_read(counts, group)
            before = P_read(states, group) if seen else start
            p = onto(INITIAL or seen > 0, before, operand(X_read(x, x_step, i), abs(arrays[4] - i)))
            P_write(states, group, p)
            seen_write(counts, group, 1)
            write(arrays, i, before if EXCLUSIVE else p)

    @inner
    def line(fresh, xs, x_row, ys, y_row, states, starts, start_row, width, index):
        """An item of each row, of a group that is `fresh` or has states."""
        xa, ya, has = x_across(x_row), y_across(y_row), INITIAL or not fresh
        for row in range(width):
            before = start_read(starts, start_row, row) if fresh else P_read(states, row)
            item = X_read(xs, xa, row)
            p = onto(has, before, operand(item, index))
            P_write(states, row, p)
            Y_write(ys, ya, row, finished(before if EXCLUSIVE else p, item, index))

    @inner
    def abreast(words, arrays, x_row, y_row, codes, step, counts, states, starts, start_row, width):
        """The same for rows side by side: an item of each, then the next of each."""
        x, x_step, y, y_step, zero = arrays
        strip = peek(words, STRIP)
        for i in range(peek(words, N)):
            group = code_read(codes, step, i)
            xs, ys, own = advance(x, x_step, i), advance(y, y_step, i), P_at(states, group * strip)
            if seen_read(counts, group):
                line(False, xs, x_row, ys, y_row, own, starts, start_row, width, abs(zero - i))
            else:
                line(True, xs, x_row, ys, y_row, own, starts, start_row, width, abs(zero - i))
                seen_write(counts, group, 1)

    @inner
    def behind_blocks(has, arrays, x_row, y_row, states, slots, width, index):
        """The results of an item of each row, whose blocks are joined: its sum onto the prefix before it."""
        xs, ys, sums, prefixes = *arrays, *states
        xa, ya, (slot, before, last) = x_across(x_row), y_across(y_row), slots
        for row in range(width):
            item, p = X_read(xs, xa, row), P_read(prefixes, before + row)
            behind, ahead = onto(has, p, P_read(sums, slot + row)), P_read(prefixes, last + row)
            P_write(prefixes, slot + row, p)
            P_write(prefixes, last + row, behind)
            Y_write(ys, ya, row, finished(ahead if EXCLUSIVE else behind, item, index))

    @inner
    def counted(arrays, x_row, y_row, states, starts, start_row, width, index, strip, depth, count):
        """An item of each row by the tree: the sums of a group's blocks stand as in `counter`, those of one size side by side,
        and behind them the last prefix of each row."""
        sums, prefixes = states
        xa, last, level = x_across(x_row), (depth - 1) * strip, 0
        while count >> level & 1:
            level += 1
        slot = level * strip
        for row in range(width):
            P_write(sums, slot + row, operand(X_read(arrays[0], xa, row), index))
        for at in range(0, slot, strip):
            for row in range(width):
                P_write(sums, slot + row, combine(P_read(sums, at + row), P_read(sums, slot + row)))
        if count == 0:
            for row in range(width):
                P_write(prefixes, last + row, start_read(starts, start_row, row))
        slots = slot, slot - strip if level else last, last
        if INITIAL or count >> level:
            behind_blocks(True, arrays, x_row, y_row, states, slots, width, index)
        else:
            behind_blocks(False, arrays, x_row, y_row, states, slots, width, index)

    @inner
    def counted_abreast(words, arrays, x_row, y_row, codes, step, counts, rooms, starts, start_row, width):
        x, x_step, y, y_step, zero = arrays
        strip, depth = peek(words, STRIP), peek(words, DEPTH)
        for i in range(peek(words, N)):
            group = code_read(codes, step, i)
            lines = advance(x, x_step, i), advance(y, y_step, i)
            own, count = group * depth * strip, far_read(counts, group)
            states = P_at(rooms[0], own), P_at(rooms[1], own)
            far_write(counts, group, count + 1)
            counted(lines, x_row, y_row, states, starts, start_row, width, abs(zero - i), strip, depth, count)

    @inner
    def strip_of(words, place, codes, step, counts, rooms):
        """Scan the rows of a strip."""
        x, y, starts, first, width = place
        x_row, y_row = ins(words, ARRAYS + IN, 1), outs(words, ARRAYS + 2 * IN + OUT, 1)
        start_row = sums_of(words, ARRAYS + 2 * (IN + OUT), 1)
        x, y, starts = advance(x, x_row, first), advance(y, y_row, first), advance(starts, start_row, first)
        arrays = x, ins(words, ARRAYS, 1), y, outs(words, ARRAYS + 2 * IN, 1), peek(words, ZERO)
        if BROUGHT and peek(words, PHASE):
            phase_of(words, arrays, codes, step, counts, rooms, P_read(starts, 0))
            return
        for group in range(0 if SORTED or peek(words, SHIFT) else peek(words, GROUPS)):
            if BROUGHT or COUNTED:
                far_write(counts, group, 0)
            else:
                seen_write(counts, group, 0)
        if SORTED:
            sorted_already(words, arrays, codes, step, rooms, P_read(starts, 0))
        elif COUNTED:
            counted_abreast(words, arrays, x_row, y_row, codes, step, counts, rooms, starts, start_row, width)
        elif ABREAST:
            abreast(words, arrays, x_row, y_row, codes, step, counts, rooms[1], starts, start_row, width)
        elif BROUGHT:
            by_stretches(words, arrays, codes, step, counts, rooms, P_read(starts, 0))
        else:
            in_turn(words, arrays, codes, step, counts, rooms[1], P_read(starts, 0))

    def run(words):
        rooms = (
            sums_of(words, ROOMS, 1), sums_of(words, ROOMS + SUMS, 1), sums_of(words, ROOMS + 2 * SUMS, 1),
            sums_of(words, ROOMS + 3 * SUMS, 1), sums_of(words, ROOMS + 4 * SUMS, 1),
        )  # fmt: skip
        codes, step, counts = word(words, CODES, 1), word(words, STEP, 1), word(words, COUNTS, 1)
        sets, sets_step, strip = peek(words, SETS), peek(words, SETS_STEP), peek(words, STRIP)
        for s in range(peek(words, SET), peek(words, SET_END)):
            x, y = ins(sets, s, sets_step), outs(sets, s + IN * sets_step, sets_step)
            starts = sums_of(sets, s + (IN + OUT) * sets_step, sets_step)
            for first in range(peek(words, ROW), peek(words, ROW_END), strip):
                place = x, y, starts, first, min(strip, peek(words, ROW_END) - first)
                strip_of(words, place, codes, step, counts, rooms)

    return run
