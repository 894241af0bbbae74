"""The way in of a small run by groups, behind `entry`: it finishes the words of the loop, as groups and memory are known now."""

from __future__ import annotations

from upsweep.cpu.address import caller, peek, poke
from upsweep.cpu.group_words import Entry, Word

RUN, WORDS, MADE, ARRAYS, SETS, ROOMS, END = map(int, Entry)
BUCKETS, GROUPS, COUNTS, STRETCH, PLACES = map(
    int, (Word.BUCKETS, Word.GROUPS, Word.COUNTS, Word.STRETCH, Word.SETS)
)
BEFORE = 8 * len(Entry)

_call1 = caller(1)


def enter(L, A):
    """Run the launch at L, with scratch memory at A."""
    words, places, sets = L + peek(L, WORDS), L + BEFORE, peek(L, SETS)
    for k in range(peek(L, ARRAYS)):
        row = places + 8 * sets * k
        for s in range(1, sets):
            poke(row, s, peek(row, s) + peek(row, 0))
    poke(words, PLACES, places)
    # Behind the launch are the words of the loop that numbered the keys.
    groups = peek(L, peek(L, MADE))
    poke(words, GROUPS, groups)
    poke(words, BUCKETS, groups)
    for word in range(COUNTS, STRETCH):
        poke(words, word, peek(words, word) + A)
    for word in range(peek(L, ROOMS), peek(L, END)):
        poke(words, word, peek(words, word) + A)
    if _call1(peek(L, RUN), (words,)):
        raise ValueError
