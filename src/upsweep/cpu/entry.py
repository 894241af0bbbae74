"""A small scan's way in: from two array objects to the words of a launch, without Python."""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.words import Entry

(
    BYTES, RUN, WORDS_AT, DATA, X_AT, X_FROM, X_FIRST, X_END, Y_AT, Y_FROM, Y_FIRST, Y_END, ALIKE,
) = map(int, Entry)  # fmt: skip
BEHIND = 8 * len(Entry)

_call2 = caller(2)


def enter(T, A, x, y):
    """Run the launch behind the table T, with scratch memory at A, on the arrays whose objects lie at x and y."""
    a, b = peek(x + peek(T, DATA), 0), peek(y + peek(T, DATA), 0)
    apart = a + peek(T, X_END) <= b + peek(T, Y_FIRST) or b + peek(T, Y_END) <= a + peek(T, X_FIRST)
    if not apart and (a != b or not peek(T, ALIKE)):
        raise ValueError
    L = A + peek(T, WORDS_AT)
    copy_bytes(L, T + BEHIND, peek(T, BYTES))
    poke(L + peek(T, X_AT), 0, a + peek(T, X_FROM))
    poke(L + peek(T, Y_AT), 0, b + peek(T, Y_FROM))
    if _call2(peek(T, RUN), (L, A)):
        raise ValueError
