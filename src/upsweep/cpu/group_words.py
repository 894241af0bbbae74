"""The words of a launch for groups in any order, known to Python, which writes them, and to the kernel."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

BLOCK = 8
"""Items of the smallest block whose sum a group's state holds."""
STRETCH, MOST = 1 << 18, 1 << 24
"""Items that are brought together by groups at once: so many, or 8 a group, up to MOST. ms of one core for sums of 3.4 million
float64 by stretches of 2^16, 2^17, 2^18, and one by one, where 8 items of a group wait with their places and the processor
guesses where each block ends: 3844 groups of flights 13.9 12.2 11.1 17, 16 groups 8.6 8.2 7.8 12. 50000 groups of uneven sizes,
by 2^18 14, of 3.2 million 25, one by one 22; groups at random: 20000 by 2^18 20, one by one 26, 100000 46, all at once 36, one
by one 55, a million 178 56 50. Sorted keys 6, one by one 5.
"""
STRIP, STATES = 16, 1 << 18
"""Rows that are scanned side by side in order, where neighbours in memory are rows: as many as have items in a cache line, and
where they lie without a gap as many as have states in so many bytes."""


class Word(IntEnum):
    """The int64 words of a launch. Behind them stand, for each input and then for each output, the bytes from one item of a row
    to the next, and those from one row to the next; for each component the bytes from the start of one row to that of the next;
    and for each component the addresses of block sums, of prefixes, of items that wait (BLOCK a group), and of the items of a
    stretch.
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
    # Where the items of each group begin and end among those of a stretch, int32.
    BEGINS = 7
    ENDS = 8
    # The items of a stretch.
    STRETCH = 9
    # The places of the items, int64, or 0 for all of them.
    LIST = 10
    # The place of the item whose index is 0: an item's index is its distance from there.
    ZERO = 11
    # Where the first row of each set of rows lies: so many addresses for each input, for each output, and for each start.
    SETS = 12
    SETS_STEP = 13
    # The first set that is scanned, and the set behind the last.
    SET = 14
    SET_END = 15
    # The first row of each set that is scanned, and the row behind the last.
    ROW = 16
    ROW_END = 17
    # The rows that are scanned side by side.
    STRIP = 18
    ARRAYS = 19


class Form(NamedTuple):
    """The forms that are compiled in, beside the operator and the dtypes."""

    initial: bool
    exclusive: bool
    in_order: bool
    """Whether a group's state is its last prefix alone."""
    across: tuple[int | None, ...]
    """For each input and output, the bytes from row to row where rows are scanned side by side and where they are known to be
    one item or none; nothing where rows are scanned one by one."""
