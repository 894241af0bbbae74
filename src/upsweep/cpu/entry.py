"""The way in of a run of one thread: from array objects to the words of a launch, without Python."""

from __future__ import annotations

from upsweep.cpu.address import caller, copy_bytes, peek, poke
from upsweep.cpu.words import Entry, Made, Operand

BYTES, RUN, WORDS_AT, ITEMS, DATA, OPERANDS, FIRST, LAST, MAKE, MADE = map(int, Entry)
AT, FROM, LOW, HIGH, ALIKE = map(int, Operand)
DONE, MARKS, LENGTH, STEP, FLAGS = (int(word) for word in Made if word <= Made.FLAGS)
EACH, BEFORE, BEHIND = 8 * len(Operand), 8 * len(Entry), 8 * len(Made)

_call1, _call2 = caller(1), caller(2)


def enter(T, A, P):
    """Run the launch behind the table T, with scratch memory at A, on the arrays of the tuple whose object lies at P."""
    items, data, count, first = P + peek(T, ITEMS), peek(T, DATA), peek(T, OPERANDS), peek(T, FIRST)
    L = A + peek(T, WORDS_AT)
    copy_bytes(L, T + BEFORE + EACH * count, peek(T, BYTES))
    made = L + peek(T, MADE)
    if peek(T, MAKE):
        # An object has its dimensions behind its data, and its strides behind these: `objects`.
        marks = peek(items, first - 1) + data
        poke(made, MARKS, peek(marks, 0))
        poke(made, LENGTH, peek(peek(marks, 2), 0))
        poke(made, STEP, peek(peek(marks, 3), 0))
        poke(made, FLAGS, made + BEHIND)
        if _call1(peek(T, MAKE), (made,)) or not peek(made, DONE):
            raise ValueError
    for k in range(count):
        own, a = T + BEFORE + EACH * k, peek(peek(items, k) + data, 0)
        if k == first - 1 and peek(T, MAKE):
            a = made + BEHIND
        for w in range(first, peek(T, LAST)):
            other, b = T + BEFORE + EACH * w, peek(peek(items, w) + data, 0)
            apart = a + peek(own, HIGH) <= b + peek(other, LOW) or b + peek(other, HIGH) <= a + peek(own, LOW)
            if not (apart or k == w or (a == b and (peek(own, ALIKE) >> (w - first)) & 1)):
                raise ValueError
        poke(L + peek(own, AT), 0, a + peek(own, FROM))
    if _call2(peek(T, RUN), (L, A)):
        raise ValueError
