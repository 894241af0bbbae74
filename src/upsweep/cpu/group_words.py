"""The words of a launch for groups in any order, known to Python, which writes them, and to the kernel."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

BLOCK = 8
"""Items of a group that wait until they are scanned together. Without waiting, the processor guesses wrong once an item
whether the item completes a block. Sums of 3.4 million float64 in 3844 groups, ms of one core: 1 60, 4 28, 8 17.
"""


class Word(IntEnum):
    """The int64 words of a launch. Behind them stand, for each component: the address and the stride of the input, the address
    and the stride of the output, and the addresses of block sums, of prefixes, of items that wait, and of the starts.
    """

    # The items that are listed.
    N = 0
    # The group of each item, int32.
    CODES = 1
    # The bytes from the group of one item to that of the next.
    STEP = 2
    # The items of each group so far, int64.
    COUNTS = 3
    # The first group of those listed.
    GROUPS = 4
    # The group behind the last of those listed.
    GROUPS_END = 5
    # The start of each group's states, int64.
    SLOTS = 6
    # The places that the waiting items came from, int64, BLOCK a group.
    PLACES = 7
    # The places of the items, int64, or 0 for all of them.
    LIST = 8
    # The place of the item whose index is 0: an item's index is its distance from there.
    ZERO = 9
    ARRAYS = 10


class Form(NamedTuple):
    """The forms that are compiled in, beside the operator and the dtypes."""

    initial: bool
    exclusive: bool
    in_order: bool
    """Whether a group's state is its last prefix alone."""
