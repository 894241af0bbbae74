"""The way in of a run of one thread: from array objects to the words of a launch, without Python."""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.words import Entry, Operand

BYTES, RUN, WORDS_AT, ITEMS, DATA, OPERANDS, FIRST, LAST = map(int, Entry)
AT, FROM, LOW, HIGH, ALIKE = map(int, Operand)
EACH, BEFORE = 8 * len(Operand), 8 * len(Entry)

_call2 = caller(2)


def enter(T, A, P):
    """Run the launch behind the table T, with scratch memory at A, on the arrays of the tuple whose object lies at P."""
    items, data, count, first = P + peek(T, ITEMS), peek(T, DATA), peek(T, OPERANDS), peek(T, FIRST)
    L = A + peek(T, WORDS_AT)
    copy_bytes(L, T + BEFORE + EACH * count, peek(T, BYTES))
    for k in range(count):
        own, a = T + BEFORE + EACH * k, peek(peek(items, k) + data, 0)
        for w in range(first, peek(T, LAST)):
            other, b = T + BEFORE + EACH * w, peek(peek(items, w) + data, 0)
            apart = a + peek(own, HIGH) <= b + peek(other, LOW) or b + peek(other, HIGH) <= a + peek(own, LOW)
            if not (apart or k == w or (a == b and (peek(own, ALIKE) >> (w - first)) & 1)):
                raise ValueError
        poke(L + peek(own, AT), 0, a + peek(own, FROM))
    if _call2(peek(T, RUN), (L, A)):
        raise ValueError
