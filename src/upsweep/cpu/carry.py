"""The rules that join chunks and tiles: a binary counter of block sums, and look-back on the sums of aligned groups of tiles.

Everything here holds w items, one for each of the columns that are scanned side by side.
"""

from __future__ import annotations

from upsweep.cpu.address import copy_bytes, fetch_add, load_acquire, peek, poke, store_release, yield_thread
from upsweep.cpu.frame import aim, ask, copy_rows, part
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import FOLD, JOIN, LINE, PATIENCE, Part, Word

TILES, COMPONENTS, VALUES, ALONG, WIDTH, SYNC, EACH, INITIAL = map(
    int,
    (
        Word.TILES, Word.COMPONENTS, Word.VALUES, Word.ALONG, Word.WIDTH, Word.SYNC, Word.EACH, Word.INITIAL,
    ),
)  # fmt: skip
SIZE, NODES, STACK, TOTAL, START, BASE, END, FOLDS, TAIL = map(
    int,
    (Part.SIZE, Part.NODES, Part.STACK, Part.TOTAL, Part.START, Part.BASE, Part.END, Part.FOLDS, Part.TAIL),
)


@of_words
def push(L, A, count, chunks, w):
    """Take the sum of so many chunks, at TOTAL, into the counter, a stack of one sum a level, that has taken `count`."""
    components, level = peek(L, COMPONENTS), 0
    while chunks >> level > 1:
        level += 1
    while count >> level & 1:
        aim(L, A, 0, STACK, components, level * w)
        aim(L, A, components, TOTAL, components, 0)
        ask(L, A, JOIN, 0, w, 0, 0, 0)
        level += 1
    for c in range(components):
        p = part(L, c)
        size = w * peek(p, SIZE)
        copy_bytes(A + peek(p, STACK) + level * size, A + peek(p, TOTAL), size)


@of_words
def behind(L, A, has, count, w):
    """Put the prefix behind `count` blocks at END. It starts from BASE where there is one. FOLDS keeps, for each level, the
    prefix behind the stack's block there: the blocks before the one that the last push made are still the same.
    """
    level = 0
    while count >> level & 1 == 0:
        level += 1
    above = level + 1
    while count >> above and count >> above & 1 == 0:
        above += 1
    earlier = count >> above != 0
    if has or earlier:
        values = peek(L, VALUES)
        aim(L, A, 0, START, values, 0)
        aim(L, A, values, FOLDS if earlier else BASE, values, above * w if earlier else 0)
        aim(L, A, 2 * values, STACK, peek(L, COMPONENTS), level * w)
        aim(L, A, 2 * values + peek(L, COMPONENTS), END, values, 0)
        ask(L, A, FOLD, 0, w, 0, 0, 1 - peek(L, ALONG))
    else:
        for c in range(peek(L, VALUES)):
            p = part(L, c)
            size = w * peek(p, SIZE)
            copy_bytes(A + peek(p, END), A + peek(p, STACK) + level * size, size)
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        size = w * peek(p, SIZE)
        copy_bytes(A + peek(p, FOLDS) + level * size, A + peek(p, END), size)


# --- look-back --------------------------------------------------------------------------------------------------------
# The nodes of a binary tree over the tiles each have a cache line with a flag and a count of arrivals, and room for a sum. The
# second child to arrive publishes its parent's sum. A tile's prefix needs at most one node of each level. All these nodes lie to
# the left of the tile, so running threads have taken their tiles. Threads publish before they wait, so none wait in a circle.


@of_words
def index(tiles, level, i):
    """The number of node i of a level."""
    before = 0
    for k in range(level):
        before += (tiles >> k) + 1
    return before + i


@of_words
def flag_of(L, group, node):
    """The address of a node's flag."""
    return peek(L, SYNC) + LINE * (group * peek(L, EACH) + node)


@of_words
def aim_node(L, A, slot, group, node):
    node += group * peek(L, EACH)
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        poke(A, slot + c, peek(p, NODES) + node * peek(L, WIDTH) * peek(p, SIZE))


@of_words
def publish(L, A, group, t, level_of_sum, w):
    """Publish tile t's sum, which lies on the counter, and the sums of the nodes that it completes."""
    components, tiles, level = peek(L, COMPONENTS), peek(L, TILES), 0
    leaf = index(tiles, 0, t)
    aim_node(L, A, 0, group, leaf)
    for c in range(components):
        p = part(L, c)
        size = w * peek(p, SIZE)
        copy_bytes(peek(A, c), A + peek(p, STACK) + level_of_sum * size, size)
    store_release(flag_of(L, group, leaf), 1)
    while tiles >> level > 1:
        parent = index(tiles, level + 1, t >> 1)
        if fetch_add(flag_of(L, group, parent) + 8, 1) == 0:
            break
        aim_node(L, A, 0, group, index(tiles, level, t | 1))
        aim_node(L, A, components, group, parent)
        for c in range(components):
            copy_bytes(peek(A, components + c), peek(A, c), w * peek(part(L, c), SIZE))
        aim_node(L, A, 0, group, index(tiles, level, t & ~1))
        ask(L, A, JOIN, 0, w, 0, 0, 0)
        store_release(flag_of(L, group, parent), 1)
        level, t = level + 1, t >> 1


@of_words
def wait(flag):
    looks = 0
    while load_acquire(flag) == 0:
        looks += 1
        if looks > PATIENCE:
            yield_thread()


@of_words
def prefix_of(L, A, group, t, region, has, w):
    """Fold the sums of all items before tile t onto the prefix in a region; returns whether there is one."""
    values, tiles, level = peek(L, VALUES), peek(L, TILES), 0
    while tiles >> level > 1:
        level += 1
    while level >= 0:
        if t >> level & 1:
            node = index(tiles, level, (t >> level) - 1)
            wait(flag_of(L, group, node))
            if has:
                aim(L, A, 0, START, values, 0)
                aim(L, A, values, region, values, 0)
                aim_node(L, A, 2 * values, group, node)
                aim(L, A, 2 * values + peek(L, COMPONENTS), region, values, 0)
                ask(L, A, FOLD, 0, w, 0, 0, 1 - peek(L, ALONG))
            else:
                aim_node(L, A, 0, group, node)
                for c in range(values):
                    p = part(L, c)
                    copy_bytes(A + peek(p, region), peek(A, c), w * peek(p, SIZE))
            has = 1
        level -= 1
    return has


@of_words
def tail_of(L, A, group, t, w):
    """Put the prefix behind tile t, whose sum is published, at TAIL."""
    copy_rows(L, A, TAIL, START, w)
    prefix_of(L, A, group, t + 1, TAIL, peek(L, INITIAL), w)
