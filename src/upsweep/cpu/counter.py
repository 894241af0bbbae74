"""The kernel that scans a few items behind others, item by item, with the binary counter of `upsweep.tree.Carry` as its state.

Bit b of the number of items so far says whether the counter has the sum of an aligned block of 2 ** b items. An item is a block
of one; blocks of one size are joined. The prefix before each block stands beside its sum, so that the prefix behind an item
is one fold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from upsweep.cpu import fused
from upsweep.cpu.address import peek
from upsweep.cpu.hole import hole
from upsweep.cpu.memory import advance, gathered, inner
from upsweep.cpu.nodes import operators
from upsweep.cpu.words import Counter
from upsweep.plan import Plan


class Form(NamedTuple):
    """The forms that are compiled in, beside the operator and the dtypes."""

    initial: bool
    exclusive: bool


def onto_prefix(plan: Plan) -> tuple[Any, Any]:
    """The functions that combine two block sums, and that fold one onto a prefix, if there `has` been one."""
    P = fused.access(plan).P
    combine, fold, value = operators(hole(plan.accumulators), P, P, False, False)

    @inner
    def onto(has, before, s):
        return fold(s, before, s) if has else value(s)

    return combine, onto


def joiner(plan: Plan, combine: Any) -> Any:
    """The function that joins a block of the lowest level to the counter, whose blocks of that level stand at `slot`."""
    P_read, P_write = fused.access(plan).P.read, fused.access(plan).P.write

    @inner
    def joined(sums, prefixes, slot, count, before, s):
        """The sum of the block that this one completes, with the prefix before it, and whether it is the first. The blocks that
        it is made of make way for it."""
        while count & 1:
            s, before = combine(P_read(sums, slot), s), P_read(prefixes, slot)
            slot += 1
            count >>= 1
        P_write(sums, slot, s)
        P_write(prefixes, slot, before)
        return s, before, count == 0

    return joined


def counter(plan: Plan, form: Form) -> Callable[..., None]:
    """The code for these types."""
    X, _, P, Y, IN, OUT = fused.access(plan)
    combine, onto = onto_prefix(plan)
    joined = joiner(plan, combine)
    ins, outs, sums_of = gathered(IN), gathered(OUT), gathered(len(plan.accumulators))
    X_read, P_read, P_write, Y_write = X.read_strided, P.read, P.write, Y.write_strided
    INITIAL, EXCLUSIVE = form
    N, COUNT, BITS, SETS, SETS_STEP, ROWS, ARRAYS = map(int, Counter)
    SUMS = len(plan.accumulators)
    OUTS, STARTS = ARRAYS + 2 * IN, ARRAYS + 2 * (IN + OUT)

    @inner
    def unfolded(sums, prefixes, count, bits, start):
        """The prefix before each block, and behind the last."""
        p, has = start, INITIAL
        for bit in range(bits - 1, -1, -1):
            if count >> bit & 1:
                P_write(prefixes, bit, p)
                p, has = onto(has, p, P_read(sums, bit)), True
        return p

    @inner
    def row(words, x, y, start, sums, prefixes):
        x_step, y_step = ins(words, ARRAYS, 1), outs(words, OUTS, 1)
        count = peek(words, COUNT)
        p = unfolded(sums, prefixes, count, peek(words, BITS), start)
        for i in range(peek(words, N)):
            s, before, first = joined(sums, prefixes, 0, count + i, p, X_read(x, x_step, i))
            behind = onto(INITIAL or not first, before, s)
            Y_write(y, y_step, i, p if EXCLUSIVE else behind)
            p = behind

    def run(words):
        x_row, y_row = ins(words, ARRAYS + IN, 1), outs(words, OUTS + OUT, 1)
        start_row, sums_row = sums_of(words, STARTS, 1), sums_of(words, STARTS + SUMS, 1)
        prefixes = sums_of(words, STARTS + 2 * SUMS, 1)
        sets, step = peek(words, SETS), peek(words, SETS_STEP)
        for s in range(step):
            x, y = ins(sets, s, step), outs(sets, s + IN * step, step)
            starts = sums_of(sets, s + (IN + OUT) * step, step)
            sums = sums_of(sets, s + (IN + OUT + SUMS) * step, step)
            for k in range(peek(words, ROWS)):
                start = P_read(advance(starts, start_row, k), 0)
                row(
                    words,
                    advance(x, x_row, k),
                    advance(y, y_row, k),
                    start,
                    advance(sums, sums_row, k),
                    prefixes,
                )

    return run
