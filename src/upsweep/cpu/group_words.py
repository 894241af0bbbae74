"""The words of a launch for groups in any order, known to Python, which writes them, and to the kernel."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

BLOCK = 8
"""Items of the smallest block whose sum a group's state holds."""
STRETCH = 1 << 17
"""Items that are brought together by groups at once, where groups are few: they stay in a near cache with their results."""
FEW = 1 << 12
"""So many groups are brought together at once; the items of more are first divided into buckets. The phases in
docs/dev/cpu-notes.md add up, for 1000, 10^5 and 10^6 groups, to 10, 15 and 35 ns an item of moves at once, and to 11, 12 and 14
by buckets."""
BUCKETS, BUCKET_BYTES = 128, 1 << 19
"""Buckets at most, and the bytes of one that stays in a near cache while its items are sorted by groups. ns an item to go to 32,
64, 128, 256, 512 buckets 1.9 2.7 3.5 4.4 5.5, and back 1.8 2 3.2 3.3 3.3."""
SORTED_STRETCH = 1 << 11
"""Items of a group that are scanned at once, where groups lie one behind the other."""
AHEAD = 32
"""How many items further on the state of an item's group is fetched, and the lines of its bucket. ns an item in order, 10^5 and
10^6 groups, by 16, 32, 64 items: 2.7 2.5 3.4, 7.5 6.9 8.5; none 5.0, 10.4."""
SHARED = 1 << 19
"""Several threads share rows of so many items. ns of processor time an item by one thread and two, 2, 1000, 10^5 groups, a busy
machine: 10^5 items 6.4 8.4, 6.6 12.8, 16 22; by the clock 6.6 9.9, 6.9 14.8, 44 28; 10^6 items 5.8 7.5, 7.9 10.9, 13 16; by the
clock 60 17, 93 76, 146 85."""
MANY = 8
"""In order one thread scans a row, unless there are so many."""
STRIP, STATES = 16, 1 << 18
"""Rows that are scanned side by side in order, where neighbours in memory are rows: as many as have items in a cache line, and
where they lie without a gap as many as have states in so many bytes."""

COUNTED_ROWS, COUNTED_STRIP = 8, 1 << 22
"""By the tree rows are scanned side by side too, where so many and more are. A strip has as many rows as have states in so many
bytes, of which few are used, or STRIP. ns an item by 2^18, 2^20, 2^22 bytes: 100 groups of 500 float32 in 100 columns 4.2 2.8
1.5, of 20,000 float64 in 164 columns 10.4 8.9 4.6."""
FASTER = 4
"""So many threads that scan rows one by one are as fast as one that scans them side by side."""
COUNTED_LINE, COUNTED_BYTES, COUNTED_MOST = 1 << 7, 1 << 25, 1 << 28
"""The states of a strip have at most so many bytes: the first number where its lines have fewer bytes than COUNTED_LINE, else the
second. ns an item one by one and so, one thread, AMD with AVX-512, loaded, 10^5 float64 in 1000, 3000, 10,000, 30,000 groups: 8
columns 6.8 3.7, 6.9 4.5, 9.0 10.2, 10.5 20.6, 16 columns 15.3 2.7, 15.0 4.7, 18.1 10.6, 18.4 15.7; 10^6 in 10^5 groups 11.8 18.1
and 20.6 15.7; float32 in 1000, 10,000, 30,000 groups: 16 columns 2.0 2.1, 9.3 5.7, 13.1 17.1."""


class Way(IntEnum):
    """How a loop goes over the items of a row."""

    # One by one, with a state for each group: its last prefix, or by the tree the sums of its aligned blocks.
    IN_TURN = 0
    # Items are brought together by groups, and results go back.
    BROUGHT = 1
    # They lie one group behind the other.
    SORTED = 2


class Phase(IntEnum):
    """What a launch does. Several threads go through the phases together."""

    # All of it, for the rows of some sets.
    ALL = 0
    # Count the items of each bucket among some items of a row.
    COUNT = 1
    # Find where each thread's items of each bucket go.
    PLACE = 2
    # Bring some items to their buckets.
    SPREAD = 3
    # Scan the groups of some buckets.
    SCAN = 4
    # Bring results back to the places of some items.
    RETURN = 5


class Word(IntEnum):
    """The int64 words of a launch. Behind them stand, for each input and then for each output, the bytes from one item of a row
    to the next, and those from one row to the next; for each component the bytes from the start of one row to that of the next;
    and for each component the addresses of block sums, of prefixes, of items that wait (BLOCK a group), of items in buckets, and
    of the items of a bucket that are sorted by groups.
    """

    PHASE = 0
    # The items of a row.
    N = 1
    # The group of each item, int32.
    CODES = 2
    # The bytes from the group of one item to that of the next.
    STEP = 3
    GROUPS = 4
    # A group's bucket is its number without so many bits.
    SHIFT = 5
    BUCKETS = 6
    # The threads, and the one of this launch.
    THREADS = 7
    THREAD = 8
    # The items of each group so far, int64, where items are brought together; else a byte, whether there are any.
    COUNTS = 9
    # Where the next item of each bucket goes, for each thread in turn, int64; and where the first one went.
    CURSORS = 10
    BEGINS = 11
    # The number of each item in buckets among its bucket's groups, int32.
    LOCALS = 12
    # For each group of a bucket, where its next item goes.
    INNER = 13
    # The items that are brought together at once.
    STRETCH = 14
    # The block sums of a group's state; none where all items are brought together at once, and groups share one.
    DEPTH = 15
    # The first of the items of a phase and the one behind the last, or the first bucket and the one behind the last.
    FROM = 16
    BEHIND = 17
    # The item whose index is 0: an item's index is its distance from there.
    ZERO = 18
    # Where the first row of each set of rows lies: so many addresses for each input, for each output, and for each start.
    SETS = 19
    SETS_STEP = 20
    # The first set that is scanned, and the set behind the last.
    SET = 21
    SET_END = 22
    # The first row of each set that is scanned, and the row behind the last.
    ROW = 23
    ROW_END = 24
    # The rows that are scanned side by side.
    STRIP = 25
    ARRAYS = 26


class Entry(IntEnum):
    """The words before those of a small run, for `group_entry`; then, for each array, where its first row lies, and how far from
    there the first rows of the other sets lie.
    """

    # The address of the loop.
    RUN = 0
    # The offset of its words.
    WORDS = 1
    # The place of the words by which keys were numbered, of which the first says how many groups there are.
    MADE = 2
    ARRAYS = 3
    SETS = 4
    # The first of the words that are addresses of items, and the one behind the last; these, and the addresses before STRETCH,
    # count from the start of scratch memory.
    ROOMS = 5
    END = 6


class Form(NamedTuple):
    """The forms that are compiled in, beside the operator and the dtypes."""

    initial: bool
    exclusive: bool
    in_order: bool
    """Whether a group's state is its last prefix alone."""
    way: Way
    across: tuple[int | None, ...]
    """For each input and output, the bytes from row to row where rows are scanned side by side and where they are known to be
    one item or none; nothing where rows are scanned one by one."""

    @property
    def counted(self) -> bool:
        """Whether rows are scanned side by side by the tree."""
        return self.way == Way.IN_TURN and not self.in_order
