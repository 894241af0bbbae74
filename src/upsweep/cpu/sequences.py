"""The places of a layer's work: strips of channels of a sequence, and steps in memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from upsweep.cpu.address import peek
from upsweep.cpu.memory import of_words


def sequences_of(Word: type[IntEnum], width: int) -> tuple[Any, Any]:
    """For launches by these words, in strips of `width` channels: functions from a ticket to its part, and from a step to its
    place.
    """
    STRIPS, STEPS, CHANNELS, OFFSETS = (int(Word[n]) for n in ("STRIPS", "STEPS", "CHANNELS", "OFFSETS"))

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

    @of_words
    def line(words, array, sequence, t):
        """The place of step t of an array; packed sequences lie in one."""
        which = sequence if peek(words, OFFSETS) == 0 else 0
        return peek(words, array) + which * peek(words, array + 1) + t * peek(words, array + 2)

    return part, line
