"""What joins chunks and tiles: a binary counter of block sums, and look-back on the sums of aligned groups of tiles.

Everything here holds w items, one for each of the columns that are scanned side by side.
"""

from __future__ import annotations

from typing import Any

from upsweep.cpu.memory import Items, fetch_add, inner, load_acquire, store_release, yield_thread

LEVELS = 48  # of the counter: more than memory has chunks
_PATIENCE = 2000  # looks at a flag before the thread gives its core away: whoever should raise it may have lost its own


def counter(S: Items, P: Items, combine: Any, fold: Any, value: Any) -> tuple[Any, Any, Any]:
    """`push` a block sum onto a stack of one sum a level, and the prefix `behind` what has been pushed."""
    S_read, S_write, S_at, P_read, P_write, P_at = S.read, S.write, S.at, P.read, P.write, P.at

    @inner
    def copy(target, source, w):
        for j in range(w):
            S_write(target, j, S_read(source, j))

    @inner
    def join(left, right, target, w):
        for j in range(w):
            S_write(target, j, combine(S_read(left, j), S_read(right, j)))

    @inner
    def append(start, p, has, block, w):
        """Fold a block onto the prefix `p`, which may be nothing as yet."""
        for j in range(w):
            s = S_read(block, j)
            P_write(p, j, fold(P_read(start, j), P_read(p, j), s) if has else value(s))

    @inner
    def push(stack, count, block, w):
        while count & 1:
            join(stack, block, block, w)
            stack, count = S_at(stack, w), count >> 1
        copy(stack, block, w)

    @inner
    def behind(start, base, has, stack, folds, count, target, w):
        """Write the prefix behind `count` blocks, which starts from `base` where there is one. `folds` keeps, for each level, the
        prefix behind the stack's block there: the blocks before the one that the last push made are still the same."""
        level = 0
        while count >> level & 1 == 0:
            level += 1
        block, here, above = S_at(stack, level * w), P_at(folds, level * w), level + 1
        while count >> above and count >> above & 1 == 0:
            above += 1
        before = P_at(folds, above * w) if count >> above else base
        known = has or count >> above != 0
        for j in range(w):
            s = S_read(block, j)
            p = fold(P_read(start, j), P_read(before, j), s) if known else value(s)
            P_write(here, j, p)
            P_write(target, j, p)

    return push, behind, (copy, join, append)


def look_back(S: Items, steps: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """`publish` a tile's sum, and `prefix_of` a tile.

    The nodes of a binary tree over the tiles each have two words, a flag and a count of arrivals, and room for a sum.
    The second child to arrive publishes its parent's sum. A tile's prefix needs at most one node of each level, all to
    its left and therefore taken by running threads, which publish before they wait: nobody waits in a circle.
    """
    S_at = S.at
    copy, join, append = steps

    @inner
    def index(tiles, level, i):
        """The number of node i of a level."""
        before = 0
        for k in range(level):
            before += (tiles >> k) + 1
        return before + i

    @inner
    def publish(words, nodes, tiles, t, total, w):
        level = 0
        copy(S_at(nodes, index(tiles, 0, t) * w), total, w)
        store_release(words + 16 * index(tiles, 0, t), 1)
        while tiles >> level > 1:
            parent = index(tiles, level + 1, t >> 1)
            if fetch_add(words + 16 * parent + 8, 1) == 0:
                break
            left, right = index(tiles, level, t & ~1), index(tiles, level, t | 1)
            join(S_at(nodes, left * w), S_at(nodes, right * w), S_at(nodes, parent * w), w)
            store_release(words + 16 * parent, 1)
            level, t = level + 1, t >> 1

    @inner
    def wait(flag):
        looks = 0
        while load_acquire(flag) == 0:
            looks += 1
            if looks > _PATIENCE:
                yield_thread()

    @inner
    def prefix_of(words, nodes, tiles, t, start, base, has, w):
        """Fold the sums of everything before tile t onto `base`; returns whether there is a prefix."""
        level = 0
        while tiles >> level > 1:
            level += 1
        while level >= 0:
            if t >> level & 1:
                node = index(tiles, level, (t >> level) - 1)
                wait(words + 16 * node)
                append(start, base, has, S_at(nodes, node * w), w)
                has = True
            level -= 1
        return has

    return publish, prefix_of


def nodes_of(tiles: int) -> int:
    """Nodes of the tree over `tiles` tiles."""
    return sum((tiles >> level) + 1 for level in range(tiles.bit_length()))
