"""Where a layer's work lies: strips of channels of a sequence, and steps in memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from upsweep.cpu.address import peek
from upsweep.cpu.memory import of_words


def sequences_of(Word: type[IntEnum], width: int) -> tuple[Any, Any]:
    """Of launches by these words, in strips of `width` channels: which part is a ticket's, and where a step lies."""
    STRIPS, STEPS, CHANNELS, OFFSETS = (int(Word[n]) for n in ("STRIPS", "STEPS", "CHANNELS", "OFFSETS"))

    @of_words
    def part(words, ticket):
        """The sequence, its first channel, how many there are, its first step and how many there are."""
        strips, offsets = peek(words, STRIPS), peek(words, OFFSETS)
        sequence, first = ticket // strips, ticket % strips * width
        w = min(peek(words, CHANNELS) - first, width)
        if offsets == 0:
            return sequence, first, w, 0, peek(words, STEPS)
        begin = peek(offsets, sequence)
        return sequence, first, w, begin, peek(offsets, sequence + 1) - begin

    @of_words
    def line(words, array, sequence, t):
        """Where step t of an array lies; packed sequences lie in one."""
        which = sequence if peek(words, OFFSETS) == 0 else 0
        return peek(words, array) + which * peek(words, array + 1) + t * peek(words, array + 2)

    return part, line
