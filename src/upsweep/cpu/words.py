"""The int64 words of a launch: what a compiled kernel is told. Known to Python, which writes them, and to the kernel.

A launch is `Word`s, then a `Part` for each component of the block sums, a `Sink` for each output, a `Line` for each input of a
map, the sizes of the outer dimensions, and for each array (inputs, outputs, starts) its address and its byte strides along the
axis, across columns, and along the outer dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

LINE = 64
"""Bytes of a cache line."""
ROW = 16
"""Items of a run, and rows of a panel: see `kernel`."""
LEVELS = 48
"""Levels of the counter of chunks: more than memory has chunks."""
NOWHERE = -(1 << 62)
"""The address of prefixes that nobody wants."""
PANELS = 4
"""Panels over each other: 16 ** 4 items are more than a chunk has."""


class Word(IntEnum):
    N = 0  # items of a row
    COLUMNS = 1  # rows that lie side by side
    STRIPS = 2  # strips that the columns are cut into
    GROUPS = 3  # strips over all outer dimensions
    BATCH = 4  # groups to a ticket
    TILE = 5  # items of a tile
    TILES = 6  # tiles of a group
    EXCLUSIVE = 7
    INITIAL = 8  # whether something stands before a row's first item
    REDUCE = 9
    SEGMENTED = 10
    DIMS = 11  # outer dimensions
    STATUS = 12  # not 0 where the operator raised an exception
    SYNC = 13  # address of the look-back's words
    EACH = 14  # nodes of a group
    COMPONENTS = 15  # of a block sum, with the flag
    VALUES = 16  # of a prefix
    SINKS = 17  # outputs
    ALONG = 18  # 1: a chunk is runs of one row; 0: a chunk has one lane for each of several rows
    TURNED = 19  # lanes lie apart and items side by side: a panel is brought in by transposition
    CHUNK = 20  # items along the axis that are swept at once
    WIDTH = 21  # lanes of a group: 1 where ALONG
    SWEEP = 22  # address of the operator's code
    SINK_AT = 23  # where the sinks start, the sizes, the arrays
    SIZES_AT = 24
    ARRAYS_AT = 25
    PLACES = 26  # in scratch memory: where a group's arrays begin
    FLAGS = 27  # in scratch memory: the flags of a chunk
    PITCH = 28  # items from row to row of a panel
    INPUTS = 29  # arrays that are read, with the flags
    MAP = 30  # address of the code that makes components out of inputs, or 0
    FINISH = 31  # address of the code that makes outputs out of prefixes, or 0
    LINE_AT = 32  # where the words of the inputs start, of a scan with a map
    INDEX = 33  # what an item's index is where the scan starts
    STEP = 34  # and from item to item: 1, or -1 in reverse
    LANES = 35  # runs that a vector holds, where ALONG
    STRAIGHT = 36  # every order gives the same bits: see `through`
    PAST = 37  # whether its prefixes go past the cache
    IN_ORDER = 38  # a panel takes one step after the other
    DIRECT = 39  # panels of columns need not be copied: see `columns`
    ACROSS = 40  # nor those of other rows side by side
    ABREAST = 41  # columns are few: see `abreast`
    STAGED = 42  # lines that come near in one go, or 0: see `staged`
    ANY_ORDER = 43  # address of the code that folds items in any order, or 0
    AGAIN = 44  # ALONG: the runs of items are swept up again as they are swept down
    TICKET = 56  # the next one; on a cache line that holds nothing else, as all threads write it


class Part(IntEnum):
    SIZE = 0  # bytes of an item
    BRING = 1  # addresses of code: a line of items from an array
    TURN_IN = 2
    TURN_OUT = 3
    PLAIN = 4  # the array holds the dtype that is computed with
    BLOCK = 5  # lanes that are transposed at once
    NODES = 6  # address of the look-back's sums
    SPARE = 7  # offsets in scratch memory: a chunk's items side by side
    STACK = 8
    TOTAL = 9
    START = 10
    BASE = 11
    BEFORE = 12
    END = 13
    TAIL = 14
    FOLDS = 15
    HEAD = 16  # a row's first run, where nothing stands before it
    WANTED = 17  # prefixes of single items are handed out, or read by a finish
    SINK = 18  # the output for its prefixes, or -1
    COME = 19  # address of code: a line of items from an array to those that came near
    STAGE = 20  # lines that came near
    PANEL = 21  # and its successors; where ALONG, the block sums of each level


class Sink(IntEnum):
    COMPONENT = 0
    HAND = 1  # address of code: a line of items to an array
    PLAIN = 2  # panels may be transposed, or results computed, straight to the array
    SIZE = 3  # bytes of an item of the array
    SPARE = 4  # offset in scratch memory: results of a chunk
    GO = 5  # address of code: a line of prefixes that are near to an array


class Line(IntEnum):
    """The words of an input of a map. Its items are read as lines: where they lie, or copied to scratch memory."""

    SIZE = 0  # bytes of an item
    BRING = 1  # address of code: a line of items from an array
    SPARE = 2  # offset in scratch memory: a chunk's items
    FLAT = 3  # one item stands for a whole line
    AT = 4  # offset in scratch memory: where this chunk's first line is, and bytes from line to line


class Entry(IntEnum):
    """The words before a small run's launch, for `entry`; then `Operand`s, one for each array."""

    BYTES = 0  # of the launch
    RUN = 1  # address of the kernel
    WORDS_AT = 2  # where in scratch memory the launch goes
    ITEMS = 3  # where a tuple holds the addresses of its objects
    DATA = 4  # where an array object holds the address of its memory
    OPERANDS = 5  # arrays
    FIRST = 6  # of those that are written
    LAST = 7  # the one after the last of these


class Operand(IntEnum):
    AT = 0  # where in the launch its address goes
    FROM = 1  # from where its memory starts to the first item that is read or written
    LOW = 2  # the bytes that it takes up: from here
    HIGH = 3  # to here
    ALIKE = 4  # a bit for each array that is written: it may lie on that, item for item


WORDS = 64
PART_WORDS = Part.PANEL + PANELS
SINK_WORDS, LINE_WORDS = len(Sink), len(Line)
FRAME_WORDS = 12 * 32
"""Scratch memory begins with the addresses of an operator's operands: at most twelve of at most 32 components; or of what a map
or a finish reads and writes."""
JOIN, FOLD, UP, DOWN, SUM, SCAN, RISE, SETTLE, PASS = range(9)
"""What an operator's code is asked for: see `sweep` and `runs`."""
NAN = 5
"""The word of the frame that says whether items were met whose order counts: see `extremes`."""
FIRST = 2
"""Prefixes of rows that nothing stands before."""
NOTHING, BEHIND, BEFORE = range(3)
"""Prefixes that rows side by side hand over: see `turned`."""


class Steps(IntEnum):
    """The words of a launch in order. Behind them stand the sizes of the outer dimensions and then, for each array, its
    address, its byte strides along the axis and across rows, and its byte strides along the outer dimensions."""

    N = 0  # items of a row
    ROWS = 1  # rows side by side
    STRIPS = 2  # strips that these are cut into
    GROUPS = 3  # strips over all outer dimensions
    STRIP = 4  # rows of a strip
    TICKET = 5  # the next group
    DIMS = 6  # outer dimensions
    ARRAYS = 7


class Form(NamedTuple):
    """What of a plan is compiled in, beside the operator and the dtypes."""

    segmented: bool
    initial: bool
    exclusive: bool
    reduce: bool
    reverse: bool
    """Only a map and a finish know where an item is."""
    across: tuple[int | None, ...]
    """For each input and output, the byte stride from row to row where it is known to be one item or none, else None."""


def regions(accumulators: Sequence[np.dtype], rows: int) -> tuple[list[int], int]:
    """Where in scratch memory the states lie, one component after the other, then the starts; and its size."""
    sizes = [-(-rows * d.itemsize // LINE) * LINE + LINE for d in accumulators] * 2
    return [sum(sizes[:c]) for c in range(len(sizes))], sum(sizes)
