"""The words of a layer's launch, known to Python, which writes them, and to the kernels."""

from __future__ import annotations

from enum import IntEnum

WIDTH = 16
"""Channels of a strip of a selective scan, neighbours in memory."""
CHUNK = 16
"""Steps from one kept state to the next."""


class States(IntEnum):
    """The int64 words of a launch: sizes, addresses (0 for a missing array), and byte strides of sequences and steps."""

    TICKET = 0
    # Strips of a sequence.
    STRIPS = 1
    TICKETS = 2
    STEPS = 3
    CHANNELS = 4
    STATES = 5
    SOFTPLUS = 6
    OFFSETS = 7
    # Steps of all sequences.
    LINES = 8
    A = 9
    SKIP = 10
    BIAS = 11
    INITIAL = 12
    LAST = 13
    MARKS = 14
    DA = 15
    DSKIP = 16
    DBIAS = 17
    DINITIAL = 18
    PARTS = 19
    # From here on, an address and two strides each.
    U = 20
    DELTA = 23
    Z = 26
    B = 29
    C = 32
    OUT = 35
    DU = 38
    DDELTA = 41
    DZ = 44


class Place(IntEnum):
    """Rows of WIDTH items in a thread's scratch memory: the rows that exist once, then CHUNK blocks of rows, one a step of a
    chunk, then blocks of states. Rows of one block lie as far apart in every block, so that the compiler sees that a loop's
    arrays are distinct.
    """

    BIAS = 0
    SKIP = 1
    DSKIP = 2
    DBIAS = 3
    STEPS = 4
    # Rows of a step: step, drive, y, dy, with_b, with_rate, and two of products.
    ONES = 8
    STATES = 132
    # Rows of a state: rate, h, carry, da.
    EACH = 4
    # The state before and its decay, for each step and state, lie behind the states.
    PAIR = 2


def scratch_rows(states: int) -> int:
    """Rows of scratch memory."""
    return Place.STATES + (Place.EACH + CHUNK * Place.PAIR) * states


GATED_WIDTH = 64
"""Channels of a strip of a gated layer."""


class Gated(IntEnum):
    """The int64 words of a launch: sizes, addresses (0 for a missing array), and byte strides of sequences and steps."""

    TICKET = 0
    # Strips of a sequence.
    STRIPS = 1
    TICKETS = 2
    STEPS = 3
    CHANNELS = 4
    OFFSETS = 5
    PARAMETER = 6
    INITIAL = 7
    LAST = 8
    DPARAMETER = 9
    DINITIAL = 10
    # From here on, an address and two strides each.
    X0 = 11
    X1 = 14
    X2 = 17
    OUT = 20
    G = 23
    DX0 = 26
    DX1 = 29
    DX2 = 32
