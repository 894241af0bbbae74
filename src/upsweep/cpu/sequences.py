"""The places of a layer's work: strips of channels of a sequence, and steps in memory."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from upsweep.cpu.address import fetch_add, peek
from upsweep.cpu.memory import of_words


def sequences_of(Word: type[IntEnum], width: int) -> tuple[Any, Any]:
    """For launches by these words, in strips of `width` channels: a function that makes the code of a thread, and one from a step
    to its place.
    """
    TICKET, TICKETS, STRIPS = (int(Word[n]) for n in ("TICKET", "TICKETS", "STRIPS"))
    STEPS, CHANNELS, OFFSETS = (int(Word[n]) for n in ("STEPS", "CHANNELS", "OFFSETS"))

    @of_words
    def part(words, ticket):
        """The sequence, its first channel, the number of channels, its first step and the number of steps."""
        strips, offsets = peek(words, STRIPS), peek(words, OFFSETS)
        sequence, first = ticket // strips, ticket % strips * width
        w = min(peek(words, CHANNELS) - first, width)
        if offsets == 0:
            return sequence, first, w, 0, peek(words, STEPS)
        begin = peek(offsets, sequence)
        return sequence, first, w, begin, peek(offsets, sequence + 1) - begin

    def by_tickets(work: Callable[..., None]) -> Callable[..., None]:
        """The code of a thread: `work(words, memory, sequence, first, w, begin, n, row)` for the part of each ticket that it
        draws. The row is the first channel's, among the channels of all sequences.
        """
        done = of_words(work)

        def run(words, memory):
            while True:
                ticket = fetch_add(words + 8 * TICKET, 1)
                if ticket >= peek(words, TICKETS):
                    break
                sequence, first, w, begin, n = part(words, ticket)
                done(words, memory, sequence, first, w, begin, n, sequence * peek(words, CHANNELS) + first)

        return run

    @of_words
    def line(words, array, sequence, t):
        """The place of step t of an array; packed sequences lie in one."""
        which = sequence if peek(words, OFFSETS) == 0 else 0
        return peek(words, array) + which * peek(words, array + 1) + t * peek(words, array + 2)

    return by_tickets, line
