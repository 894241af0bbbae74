"""The int64 words of a launch, which tell a compiled kernel what to do. Python writes them, and the kernel reads them.

A launch is `Word`s, then a `Part` for each component of the block sums, a `Sink` for each output, a `Line` for each input of a
map, a `Fold` for each array that is folded, the sizes of the outer dimensions, and for each array (inputs, outputs, starts) its
address and its byte strides along the axis, across rows, between columns that are folded, and along the outer dimensions.
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
CLASH = 2048
"""Where rows lie so many bytes apart, or a multiple, the lines of 16 rows fall into a few sets of the nearest cache."""
HALF, WHOLE = 16, 32
"""Bytes of a run, and of a line of lanes, that are transposed at once."""
LEVELS = 48
"""Levels of the counter of chunks: more than memory has chunks."""
NOWHERE = -(1 << 62)
"""The address of prefixes that nobody wants."""
PANELS = 4
"""Panels over each other: 16 ** 4 items are more than a chunk has."""


class Word(IntEnum):
    # The items of a row.
    N = 0
    # The rows that lie side by side.
    COLUMNS = 1
    # The strips that these rows are cut into.
    STRIPS = 2
    # The groups: the strips over all outer dimensions.
    GROUPS = 3
    # The groups that a ticket names.
    BATCH = 4
    # The items of a tile.
    TILE = 5
    # The tiles of a group.
    TILES = 6
    # The next four say which form of a scan was asked for.
    EXCLUSIVE = 7
    # 1: a value stands before the first item of each row.
    INITIAL = 8
    REDUCE = 9
    SEGMENTED = 10
    # The outer dimensions.
    DIMS = 11
    # Not 0 where the operator raised an exception.
    STATUS = 12
    # The address of the look-back's words.
    SYNC = 13
    # The nodes of a group.
    EACH = 14
    # The components of a block sum, with the flag.
    COMPONENTS = 15
    # The components of a prefix, without the flag.
    VALUES = 16
    # The outputs.
    SINKS = 17
    # 1: a chunk is runs of one row. 0: a chunk has one lane for each of several rows.
    ALONG = 18
    # 1: lanes lie apart and items side by side, so a panel is transposed as it is brought in.
    TURNED = 19
    # The items along the axis that are swept at once.
    CHUNK = 20
    # The lanes of a group: 1 where ALONG is set.
    WIDTH = 21
    # The address of the operator's code.
    SWEEP = 22
    # The words of a launch at which the sinks, the sizes and the arrays begin.
    SINK_AT = 23
    SIZES_AT = 24
    ARRAYS_AT = 25
    # The offset in scratch memory of the places where a group's arrays begin.
    PLACES = 26
    # The offset in scratch memory of the flags of a chunk.
    FLAGS = 27
    # The items from row to row of a panel.
    PITCH = 28
    # The arrays that are read, with the flags.
    INPUTS = 29
    # The address of the code that makes components out of inputs, or 0.
    MAP = 30
    # The address of the code that makes outputs out of prefixes, or 0.
    FINISH = 31
    # The word at which the words of the inputs begin, in a scan with a map.
    LINE_AT = 32
    # The index of the item that is scanned first.
    INDEX = 33
    # The difference from one item's index to the next: 1, or -1 in reverse.
    STEP = 34
    # The runs that a vector holds, where ALONG is set.
    LANES = 35
    # 1: every order gives the same bits, so rows are scanned straight through. See `through`.
    STRAIGHT = 36
    # 1 and more: prefixes are written past the cache, and items so far behind those that are read are fetched; of columns that
    # are reduced, the next rows are.
    PAST = 37
    # 1: a panel takes one step after the other.
    IN_ORDER = 38
    # 1: columns are swept where they lie, without a copy to a panel. See `columns`.
    DIRECT = 39
    # 1: other rows side by side are, too.
    ACROSS = 40
    # 1: columns are few. See `abreast`.
    ABREAST = 41
    # The lines that are brought into the cache in one go, or 0. See `staged`.
    STAGED = 42
    # The address of the code that folds items in any order, or 0.
    ANY_ORDER = 43
    # 1, where ALONG is set: the runs of items are swept up again as they are swept down.
    AGAIN = 44
    # The columns that stand beside each other in the strips of rows: see `folded`.
    FOLDED = 45
    # The word at which the words of folded arrays begin.
    FOLDS_AT = 46
    # The address of the code for less than 16 rows of columns, or 0. See `short_passes`.
    SHORT = 47
    # 1: the items of rows that lie turned stand from the last to the first.
    BACKWARD = 48
    # 1: tiles of columns are not summed before they are scanned, as each waits for the one above it.
    CHAINED = 49
    # The next ticket. All threads write it, so no other word is on its cache line.
    TICKET = 56


class Part(IntEnum):
    # The bytes of an item.
    SIZE = 0
    # The address of the code that copies a line of items from an array.
    BRING = 1
    # The addresses of the code that transposes into a panel, and out of it.
    TURN_IN = 2
    TURN_OUT = 3
    # 1: the array holds the dtype that is computed with.
    PLAIN = 4
    # The lanes that are transposed at once.
    BLOCK = 5
    # The address of the look-back's sums.
    NODES = 6
    # The next ten are offsets in scratch memory. SPARE has the items of a chunk side by side.
    SPARE = 7
    STACK = 8
    TOTAL = 9
    START = 10
    BASE = 11
    BEFORE = 12
    END = 13
    TAIL = 14
    FOLDS = 15
    # The first run of a row that nothing stands before.
    HEAD = 16
    # 1: prefixes of single items are handed out, or a finish reads them.
    WANTED = 17
    # The output for the prefixes of this component, or -1.
    SINK = 18
    # The address of the code that copies a line from an array to the lines in the cache.
    COME = 19
    # The offset in scratch memory of these lines.
    STAGE = 20
    # The address of the code that starts prefixes anew at the heads of segments.
    RESTART = 21
    # The offset of a panel, and behind it those of further panels: see PANELS. Where ALONG is set, the offsets
    # of the block sums of each level.
    PANEL = 22


class Sink(IntEnum):
    # The component whose prefixes it takes.
    COMPONENT = 0
    # The address of the code that copies a line of items to an array.
    HAND = 1
    # 1: panels are transposed, or results are computed, straight to the array.
    PLAIN = 2
    # The bytes of an item of the array.
    SIZE = 3
    # The offset in scratch memory of the results of a chunk.
    SPARE = 4
    # The address of the code that copies a line of prefixes from the cache to an array.
    GO = 5


class Line(IntEnum):
    """The words of an input of a map. Its items are read as lines: where they lie, or copied to scratch memory."""

    # The bytes of an item.
    SIZE = 0
    # The address of the code that copies a line of items from an array.
    BRING = 1
    # The offset in scratch memory of a chunk's items.
    SPARE = 2
    # 1: one item stands for a whole line.
    FLAT = 3
    # The offset in scratch memory of two words: where the first line of this chunk is, and bytes from line to line.
    AT = 4


class Fold(IntEnum):
    """The words of an array whose columns are folded."""

    # The bytes of an item.
    SIZE = 0
    # The offset in scratch memory of the lines of a strip.
    NEAR = 1
    # The lines: the items of a row, or 1 for the result of a reduction.
    LINES = 2
    # The address of the code that transposes the array.
    TURN = 3
    # The address of the code that copies a line of it.
    LINE = 4
    # The lanes that are transposed at once.
    BLOCK = 5
    # The address of the code that moves rows without gaps to a stretch or from it; 0 where they are transposed where they lie.
    MOVE = 6
    # The offset in scratch memory of this stretch.
    STRETCH = 7


class Entry(IntEnum):
    """The words before a small run's launch, for `entry`; then `Operand`s, one for each array."""

    # The bytes of the launch.
    BYTES = 0
    # The address of the kernel.
    RUN = 1
    # The offset in scratch memory that the launch is copied to.
    WORDS_AT = 2
    # The offset in a tuple of the addresses of its objects.
    ITEMS = 3
    # The offset in an array object of the address of its memory.
    DATA = 4
    # The arrays.
    OPERANDS = 5
    # The first array that is written, and the one after the last.
    FIRST = 6
    LAST = 7
    # The address of the loop that makes flags of segments, the array before the first that is written; 0 where it holds them.
    MAKE = 8
    # The offset of that loop's words, `Made`, from those of the launch.
    MADE = 9


class Call(IntEnum):
    """The words of a call of several threads, for `crew`. Behind them stand the addresses of the helpers' words."""

    # The address of the code that every thread runs.
    RUN = 0
    # What it is given: the same for all, and the scratch memory of the caller.
    WORDS = 1
    MEMORY = 2
    # The addresses of Python's functions that wait for a lock and release it.
    ACQUIRE = 3
    RELEASE = 4
    # The lock that the caller waits for.
    BELL = 5
    # The helpers, and those of them that were asked.
    HELPERS = 6
    ASKED = 7
    # The threads whose code failed, and the helpers that have ended.
    FAILED = 8
    ENDED = 9


class Helper(IntEnum):
    """The words of a thread that helps callers, for `crew`."""

    # The lock that it waits for, and the address of the function that does.
    LOCK = 0
    TAKE = 1
    # The call's words.
    CALL = 2
    # The address of its scratch memory.
    ROOM = 3
    # 0: the call waits for this helper.
    TICKET = 4


class Made(IntEnum):
    """The words of a loop of `told`, for `array_loops`; behind them its flags."""

    # Whether it made flags.
    DONE = 0
    # The array of segments as they were told.
    DATA = 1
    SHAPE = 2
    STEP = 3
    # The flags.
    FLAGS = 4
    ITEMS = 5
    BYTES = 6
    # How many places further on each flag stands.
    BY = 7


class Operand(IntEnum):
    # The offset in the launch of the array's address.
    AT = 0
    # The bytes from the start of the array's memory to the first item that is read or written.
    FROM = 1
    # The array takes up the bytes from LOW to HIGH, counted from the start of its memory.
    LOW = 2
    HIGH = 3
    # A bit for each array that is written: the operand may lie on that array, item for item.
    ALIKE = 4


class Counter(IntEnum):
    """The int64 words for `counter`. Behind them stand the steps of the arrays, as `upsweep.cpu.sets.Sets` lists them, and for
    each component the address of prefixes, one for each bit.
    """

    # The items of a row.
    N = 0
    # The items that stand before them, and the bits of that number.
    COUNT = 1
    BITS = 2
    # Where the first row of each set of rows lies: so many addresses for each input, output, start, and row of block sums.
    SETS = 3
    SETS_STEP = 4
    # The rows of a set.
    ROWS = 5
    ARRAYS = 6


WORDS = 64
PART_WORDS = Part.PANEL + PANELS
SINK_WORDS, LINE_WORDS, FOLD_WORDS = len(Sink), len(Line), len(Fold)
ARRAY_WORDS = 4
"""Words of an array before those of the outer dimensions."""
FRAME_WORDS = 12 * 32
"""Scratch memory begins with the addresses of an operator's operands, at most twelve of at most 32 components, or with the
addresses of all that a map or a finish reads and writes.
"""
JOIN, FOLD, UP, DOWN, SUM, SCAN, RISE, SETTLE, PASS = range(9)
"""The requests to an operator's code: see `sweep` and `runs`."""
OPERANDS = 5
"""Words of the frame that a straight scan has for each component: see `straight`."""
NAN = 2 * OPERANDS
"""The word of the frame that says whether items were met whose order counts: see `extremes`."""
UNCHAINED = -1
"""In the place of a group: its tile has been summed, or is its only one."""
PATIENCE = 2000
"""Looks of a thread at what another one writes, before it gives its core away."""
ALL, ASK, AWAIT = range(3)
"""What a caller asks of its `crew`."""
FIRST = 2
"""Prefixes of rows that nothing stands before."""
NOTHING, BEHIND, BEFORE = range(3)
"""Prefixes that rows side by side hand over: see `turned`."""


class Steps(IntEnum):
    """The words of a launch in order. Behind them stand the sizes of the outer dimensions and then, for each array, its
    address, its byte strides along the axis and across rows, and its byte strides along the outer dimensions."""

    # The items of a row.
    N = 0
    # The rows side by side.
    ROWS = 1
    # The strips that these rows are cut into.
    STRIPS = 2
    # The strips over all outer dimensions.
    GROUPS = 3
    # The rows of a strip.
    STRIP = 4
    # The next group.
    TICKET = 5
    # The outer dimensions.
    DIMS = 6
    ARRAYS = 7


class Brief(IntEnum):
    """The words of a launch of rows of a few items; behind them stand the addresses of the arrays."""

    ROWS = 0
    # The rows to a ticket.
    SHARE = 1
    # The next ticket.
    TICKET = 2


class Form(NamedTuple):
    """The parts of a plan that are compiled in, beside the operator and the dtypes."""

    segmented: bool
    initial: bool
    exclusive: bool
    reduce: bool
    reverse: bool
    """Only a map and a finish know where an item is."""
    across: tuple[int | None, ...]
    """For each input and output, the byte stride from row to row where it is known to be one item or none, else None."""
    starts: tuple[int | None, ...]
    """The same for each start."""


def regions(accumulators: Sequence[np.dtype], rows: int) -> tuple[list[int], int]:
    """Where in scratch memory the states lie, one component after the other; and its size."""
    sizes = [-(-rows * d.itemsize // LINE) * LINE + LINE for d in accumulators]
    return [sum(sizes[:c]) for c in range(len(sizes))], sum(sizes)
