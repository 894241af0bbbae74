"""Threads that run one piece of compiled code together. They wait for calls in compiled code too, so that none of them needs
Python's lock to begin.

A helper has a lock that its callers release, and a ticket of which only the first is work: it is drawn by the helper, or by the
caller who calls it off. A lock may be released more often than it is waited for, so whoever wakes looks at the words again.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, fetch_add, load_acquire, outsider, peek, poke, store_release
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import ALL, ASK, AWAIT, PATIENCE, Call, Helper

RUN, WORDS, MEMORY, ACQUIRE, RELEASE, BELL, HELPERS, ASKED, FAILED, ENDED = map(int, Call)
LOCK, TAKE, CALL, ROOM, TICKET = map(int, Helper)
FIRST = len(Call)

_call2 = caller(2)
_acquire, _release = outsider(2), outsider(1)


@of_words
def work(C, memory):
    if _call2(peek(C, RUN), (peek(C, WORDS), memory)):
        fetch_add(C + 8 * FAILED, 1)


@of_words
def ask(C):
    """Wake the helpers of a call."""
    for k in range(peek(C, HELPERS)):
        H = peek(C, FIRST + k)
        poke(H, CALL, C)
        store_release(H + 8 * TICKET, 0)
        _release(peek(C, RELEASE), (peek(H, LOCK),))
    poke(C, ASKED, peek(C, HELPERS))


@of_words
def end(C):
    """Call off the helpers that have not begun, and wait for the others."""
    working, looks = 0, 0
    for k in range(peek(C, ASKED)):
        working += fetch_add(peek(C, FIRST + k) + 8 * TICKET, 1) != 0
    while load_acquire(C + 8 * ENDED) < working:
        looks += 1
        if looks > PATIENCE:
            _acquire(peek(C, ACQUIRE), (peek(C, BELL), 1))


@of_words
def serve(H):
    """Work for the calls of helper H, for ever."""
    while True:
        _acquire(peek(H, TAKE), (peek(H, LOCK), 1))
        if fetch_add(H + 8 * TICKET, 1) == 0:
            C = peek(H, CALL)
            work(C, peek(H, ROOM))
            # When the last helper has ended, the words of the call are gone.
            release, bell = peek(C, RELEASE), peek(C, BELL)
            fetch_add(C + 8 * ENDED, 1)
            _release(release, (bell,))


def crew(C, what):
    """Of a call, ASK its helpers to begin, AWAIT them, or do all that and a share of the work. Without a call, be a helper."""
    if C == 0:
        serve(what)
    if what != AWAIT:
        ask(C)
    if what == ALL:
        work(C, peek(C, MEMORY))
    if what != ASK:
        end(C)
