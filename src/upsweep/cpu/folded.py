"""Few short columns, of which many stand one behind the other in memory: the columns of a strip of rows come near side by side.

Near, a line has the first item of every row of the strip, for each of the columns: so rows of columns become columns, which are
swept as any others. A row is a stretch of memory without gaps, so it is transposed in registers; otherwise lines are copied item
by item. Of large arrays the rows of a strip come as one stretch before they are transposed, and go as one, past the cache. Short
rows come near as one column each, where a map or a finish takes lines: a line has an item of many rows.
"""

from __future__ import annotations

from upsweep.cpu.address import caller, peek, poke
from upsweep.cpu.frame import move_line, move_lines
from upsweep.cpu.memory import of_words
from upsweep.cpu.staged import home_of, remember
from upsweep.cpu.words import ARRAY_WORDS, FOLD_WORDS, Fold, Word

INPUTS, SINKS, DIMS, ARRAYS_AT, PLACES, FOLDED, FOLDS_AT = map(
    int,
    (Word.INPUTS, Word.SINKS, Word.DIMS, Word.ARRAYS_AT, Word.PLACES, Word.FOLDED, Word.FOLDS_AT),
)
SIZE, NEAR, LINES, TURN, LINE, BLOCK, MOVE, STRETCH = map(int, Fold)

_call6 = caller(6)


@of_words
def fold_of(L, a):
    return L + 8 * (peek(L, FOLDS_AT) + a * FOLD_WORDS)


@of_words
def gap_of(L, a):
    """The bytes from a column to the next one."""
    return peek(L + 8 * (peek(L, ARRAYS_AT) + a * (ARRAY_WORDS + peek(L, DIMS))), 3)


@of_words
def settle(L, A, a, w):
    """Let an array be the lines that are near."""
    f, (_, along, _) = fold_of(L, a), home_of(L, A, a)
    size, lines = peek(f, SIZE), peek(f, LINES)
    place, line = A + peek(L, PLACES) + 24 * a, w * size
    poke(place, 0, A + peek(f, NEAR) + (line * (lines - 1) if along < 0 else 0))
    poke(place, 1, -line if along < 0 else line)
    poke(place, 2, size)


@of_words
def turn(L, A, a, home, across, rows, first, count, out):
    """Transpose so many rows of an array into lines that are near, or `out` of them."""
    f = fold_of(L, a)
    size, lane = peek(f, SIZE), first * peek(f, SIZE)
    near, here = A + peek(f, NEAR) + lane, home + first * across
    items = peek(f, LINES) * peek(L, FOLDED)
    if out:
        _call6(peek(f, TURN), (here, across, near, rows * size, count, items))
    else:
        _call6(peek(f, TURN), (near, rows * size, here, across, count, items))


@of_words
def copy_lines(L, A, a, home, along, across, rows):
    """Copy an array line by line."""
    f, gap, columns = fold_of(L, a), gap_of(L, a), peek(L, FOLDED)
    near, pitch = A + peek(f, NEAR), rows * peek(f, SIZE)
    for line in range(peek(f, LINES)):
        move_lines(peek(f, LINE), home + line * along, gap, across, near, pitch, columns, rows)
        near += columns * pitch


@of_words
def move(L, A, a, w, out):
    """Bring an array near, or `out` again. Lines are near in the order of memory."""
    f, (home, along, across) = fold_of(L, a), home_of(L, A, a)
    size, lines, block, rows = peek(f, SIZE), peek(f, LINES), peek(f, BLOCK), w // peek(L, FOLDED)
    if along < 0:
        home, along = home + (lines - 1) * along, -along
    side_by_side = gap_of(L, a) == size or peek(L, FOLDED) == 1
    dense = side_by_side and (along == peek(L, FOLDED) * size or lines == 1)
    if dense and rows >= block:
        items, whole = lines * peek(L, FOLDED), rows // block * block
        by_stretch = peek(f, MOVE) and across == items * size
        place = A + peek(f, STRETCH) if by_stretch else home
        if by_stretch and not out:
            move_line(peek(f, MOVE), home, size, place, items * rows)
        turn(L, A, a, place, across, rows, 0, whole, out)
        if whole < rows:
            # Some rows are moved twice.
            turn(L, A, a, place, across, rows, rows - block, block, out)
        if by_stretch and out:
            move_line(peek(f, MOVE), home, size, place, items * rows)
    else:
        copy_lines(L, A, a, home, along, across, rows)


@of_words
def come(L, A, w):
    """Bring the inputs of w columns near, and let results be written there."""
    inputs = peek(L, INPUTS)
    remember(L, A)
    for a in range(inputs + peek(L, SINKS)):
        if a < inputs:
            move(L, A, a, w, 0)
        settle(L, A, a, w)


@of_words
def go(L, A, w):
    """Hand the results of w columns out."""
    inputs = peek(L, INPUTS)
    for a in range(inputs, inputs + peek(L, SINKS)):
        move(L, A, a, w, 1)
