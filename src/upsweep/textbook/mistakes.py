"""A gallery of mistakes: kernels as the sources print them, and as students write them, with what is wrong in each.

`MISTAKES` is the table: the lab must find exactly what `finds` lists. None of these is for use.
"""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from upsweep.textbook import grids, kogge_stone, trees
from upsweep.textbook.dialect import BLOCK, LOG_BANKS, TILE, WORDS, cuda, dtype, identity, op
from upsweep.textbook.table import Launch, Setup


@dataclass(frozen=True)
class Mistake:
    """One row of the gallery."""

    name: str
    function: Callable[..., None]
    setup: Setup
    n: int
    finds: frozenset[str]
    """What the lab's check must find, exactly."""
    says: str
    """What is wrong, and where it was printed."""
    instead: str
    """The kernel of the table that does it right."""
    result: str = "inclusive"
    also: str = ""
    """What another question than the check shows: `idle barrier`, `bank conflict`, or a law."""
    needs: str = ""
    schedule: tuple[tuple[str, Any], ...] = ()
    """The residency and the order of issue that show it."""
    x: tuple[Any, ...] | None = None
    answer: Callable[[Sequence[Any]], list[Any]] | None = None


# --- Kogge-Stone ----------------------------------------------------------------------------------------------------


def figure_11_3(x, y, n):
    """Kogge-Stone as PMPP prints it in figure 11.3: zeros for the tail, the later operand first, SECTION_SIZE beside blockDim."""
    xy = cuda.shared.array(BLOCK, dtype)  # SECTION_SIZE
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        xy[cuda.threadIdx.x] = x[i]
    else:
        xy[cuda.threadIdx.x] = 0
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if cuda.threadIdx.x >= stride:
            temp = xy[cuda.threadIdx.x] + xy[cuda.threadIdx.x - stride]
        cuda.syncthreads()
        if cuda.threadIdx.x >= stride:
            xy[cuda.threadIdx.x] = temp
        stride *= 2
    if i < n:
        y[i] = xy[cuda.threadIdx.x]


def kogge_stone_in_place(x, y, n):
    """Kogge-Stone that reads and writes in one breath: the second barrier and its register are missing."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and t < n:
            xy[t] = op(xy[t - stride], xy[t])
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_no_first_barrier(x, y, n):
    """Kogge-Stone without the barrier between one level's writes and the next one's reads."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        if t >= stride and t < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride and t < n:
            xy[t] = temp
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_no_second_barrier(x, y, n):
    """Kogge-Stone with the register, but without the barrier between reading and overwriting."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and t < n:
            temp = op(xy[t - stride], xy[t])
        if t >= stride and t < n:
            xy[t] = temp
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_divergent(x, y, n):
    """Kogge-Stone with its barriers inside the branch that only some threads take."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    cuda.syncthreads()
    while stride < BLOCK:
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
            cuda.syncthreads()
            xy[t] = temp
            cuda.syncthreads()
        stride *= 2
    if t < n:
        y[t] = xy[t]


def early_return(x, y, n):
    """Kogge-Stone whose threads past the end leave before the first barrier."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t >= n:
        return
    xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    y[t] = xy[t]


def gpu_gems_double_buffer(x, y, n):
    """Exclusive scan between two buffers as GPU Gems 3 prints it, listing 39-2: it adds to the stale half."""
    t = cuda.threadIdx.x
    temp = cuda.shared.array((2, BLOCK), dtype)
    pout, pin = 0, 1
    if t > 0:
        temp[pout, t] = x[t - 1]
    else:
        temp[pout, t] = identity
    cuda.syncthreads()
    offset = 1
    while offset < n:
        pout, pin = pin, pout
        if t >= offset:
            temp[pout, t] += temp[pin, t - offset]
        else:
            temp[pout, t] = temp[pin, t]
        cuda.syncthreads()
        offset *= 2
    y[t] = temp[pout, t]


def notes_double_buffer(y, x):
    """The notes' double buffer, (Y, X) and no N: right between its buffers, without a guard, one barrier too many."""
    t = cuda.threadIdx.x
    source = 0
    target = cuda.blockDim.x
    xy = cuda.shared.array(0, dtype)
    xy[source + t] = x[t]
    cuda.syncthreads()
    stride = 1
    while stride < cuda.blockDim.x:
        if t >= stride:
            xy[target + t] = op(xy[source + t - stride], xy[source + t])
        else:
            xy[target + t] = xy[source + t]
        source, target = target, source
        cuda.syncthreads()
        stride *= 2
    y[t] = xy[source + t]


# --- trees ----------------------------------------------------------------------------------------------------------


def hwu_reduction(x, y, n):
    """Hwu's lecture 4.6, reduction: the barrier stands after the addition, so nothing waits for the load."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < 2 * BLOCK:
        index = (t + 1) * stride * 2 - 1
        if index < 2 * BLOCK:
            xy[index] = op(xy[index - stride], xy[index])
        stride = stride * 2
        cuda.syncthreads()
    if t == 0:
        y[0] = xy[TILE - 1]


def hwu_epilogue(x, y, n):
    """Hwu's lecture 4.6, whole scan: two items a thread are loaded and scanned, and one is stored."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < 2 * BLOCK:
        cuda.syncthreads()
        index = (t + 1) * stride * 2 - 1
        if index < 2 * BLOCK:
            xy[index] = op(xy[index - stride], xy[index])
        stride = stride * 2
    stride = BLOCK // 2
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * stride * 2 - 1
        if index + stride < 2 * BLOCK:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride = stride // 2
    cuda.syncthreads()
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    if i < n:
        y[i] = xy[t]


def reduction_one_level_more(x, y, n):
    """PMPP chapter 11, reduction with modulo indices: `stride <= blockDim.x` runs a last level that adds nothing."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    xy[t] = x[t]
    stride = 1
    while stride <= cuda.blockDim.x:
        cuda.syncthreads()
        if (t + 1) % (2 * stride) == 0:
            xy[t] = op(xy[t - stride], xy[t])
        stride *= 2
    if t == BLOCK - 1:
        y[0] = xy[t]


def brent_kung_literal(x, y, n):
    """PMPP chapter 11, figure 11.7 as printed: no else for the tail, and sections of 2 * blockDim, a power of two."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    i = 2 * cuda.blockIdx.x * cuda.blockDim.x + t
    if i < n:
        xy[t] = x[i]
    if i + cuda.blockDim.x < n:
        xy[t + cuda.blockDim.x] = x[i + cuda.blockDim.x]
    stride = 1
    while stride <= cuda.blockDim.x:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < TILE:
            xy[index] = op(xy[index - stride], xy[index])
        stride *= 2
    stride = TILE // 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < TILE:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride //= 2
    cuda.syncthreads()
    if i < n:
        y[i] = xy[t]
    if i + cuda.blockDim.x < n:
        y[i + cuda.blockDim.x] = xy[t + cuda.blockDim.x]


def wrong_order(x, y, n):
    """Brent-Kung with `XY[index] += XY[index - stride]` taken at its word: the later operand comes first."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index < TILE:
            xy[index] += xy[index - stride]
        stride *= 2
    stride = TILE // 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < TILE:
            xy[index + stride] += xy[index]
        stride //= 2
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def blelloch_wrong_swap(x, y, n):
    """Blelloch's down-sweep that adds the prefix on the right."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:
        xy[TILE - 1] = identity
    while stride > 1:
        stride //= 2
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(total, xy[right])
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def blelloch_whole_stride(x, y, n):
    """CS380 lecture 24, down-sweep: one slide sets the value `stride` elements away; half of that is right."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(TILE, dtype)
    xy[t] = x[t]
    xy[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            xy[right] = op(xy[right - stride], xy[right])
        stride *= 2
    if t == 0:
        xy[TILE - 1] = identity
    while stride > 1:
        cuda.syncthreads()
        right = (t + 1) * stride - 1
        if right < TILE:
            total = xy[right - stride]
            xy[right - stride] = xy[right]
            xy[right] = op(xy[right], total)
        stride //= 2
    cuda.syncthreads()
    y[t] = xy[t]
    y[t + BLOCK] = xy[t + BLOCK]


def padded_as_printed(x, y, n):
    """CS380 lecture 24, padded tree as printed: no doubling of s, no barrier, and `<=` for `<`."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def padded_with_doubling(x, y, n):
    """The same with `s *= 2` put in: races are left."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        s *= 2
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def padded_with_barrier(x, y, n):
    """The same with its barrier, too: the answer is right, and one thread a level still works past the end."""
    t = cuda.threadIdx.x
    s = 1
    temp = cuda.shared.array(WORDS, dtype)
    temp[t + (t >> LOG_BANKS)] = x[t]
    temp[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)] = x[t + BLOCK]
    d = BLOCK
    while d > 0:
        cuda.syncthreads()
        if t <= d:
            i = s * (2 * t)
            j = s * (2 * t + 1)
            i += i >> LOG_BANKS
            j += j >> LOG_BANKS
            temp[i] = op(temp[i], temp[j])
        s *= 2
        d >>= 1
    if t == 0:
        y[0] = temp[0]


def zero_conflict_macro(x, y, n):
    """A reduction padded by GPU Gems 3's "zero conflict" macro, whose precedence makes every offset zero."""
    t = cuda.threadIdx.x
    temp = cuda.shared.array(TILE, dtype)
    temp[t] = x[t]
    temp[t + BLOCK] = x[t + BLOCK]
    stride = 1
    while stride < TILE:
        cuda.syncthreads()
        right = (t + 1) * 2 * stride - 1
        if right < TILE:
            left = right - stride
            left += left >> min(5 + left, 31) >> 10  # (n) >> LOG_NUM_BANKS + (n) >> (2 * LOG_NUM_BANKS)
            right += right >> min(5 + right, 31) >> 10
            temp[right] = op(temp[left], temp[right])
        stride *= 2
    if t == 0:
        y[0] = temp[TILE - 1]


# --- grids ----------------------------------------------------------------------------------------------------------


def sums_of_exclusive(x, y, sums, n):
    """Block sums taken from the last word of an exclusive scan, which lacks the last input."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    xy = cuda.shared.array(BLOCK, dtype)
    if t > 0:
        xy[t] = x[i - 1]
    else:
        xy[t] = identity
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    y[i] = op(xy[t], x[i])
    if t == cuda.blockDim.x - 1:
        sums[cuda.blockIdx.x] = xy[t]


def uniform_add_unguarded(y, scanned, n):
    """PMPP chapter 11, uniform addition as printed: block 0 reads S[-1], and nothing asks for i < n."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[i] = op(scanned[cuda.blockIdx.x - 1], y[i])


def domino_as_printed(x, y, carries, flags, n):
    """PMPP chapter 11, adjacent synchronisation as printed: block 0 waits, too, for a flag that somebody must preset."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        while cuda.atomic.add(flags, bid, 0) == 0:
            pass
        cuda.threadfence()
        before[0] = carries[bid]
        carries[bid + 1] = op(before[0], xy[BLOCK - 1])
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    y[i] = op(before[0], xy[t])


def domino_no_barrier(x, y, carries, flags, n):
    """A published solution: thread 0 reads the block's sum right after the loop, before the others have written it."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def domino_no_acquire(x, y, carries, flags, n):
    """The domino without the reader's fence: the carry is a plain load that may pass the flag before it."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.threadfence()
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def domino_no_release(x, y, carries, flags, n):
    """The domino without the writer's fence: the flag may be seen before the carry that it announces."""
    t = cuda.threadIdx.x
    bid = cuda.blockIdx.x
    i = bid * BLOCK + t
    xy = cuda.shared.array(BLOCK, dtype)
    before = cuda.shared.array(1, dtype)
    xy[t] = x[i]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    cuda.syncthreads()
    if t == 0:
        total = xy[BLOCK - 1]
        if bid > 0:
            while cuda.atomic.add(flags, bid, 0) == 0:
                pass
            cuda.threadfence()
            before[0] = carries[bid]
            total = op(before[0], total)
        carries[bid + 1] = total
        cuda.atomic.add(flags, bid + 1, 1)
    cuda.syncthreads()
    if bid > 0:
        y[i] = op(before[0], xy[t])
    else:
        y[i] = xy[t]


def sections_wait_for_neighbours(x, y, n):
    """A scan of two blocks that hopes its neighbour is done: blocks do not wait for each other by themselves."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    if t == 0 and i > 0:
        y[i] = op(y[i - 1], x[i])
    elif t == 0:
        y[i] = x[i]
    cuda.syncthreads()
    if t > 0:
        total = y[cuda.blockIdx.x * cuda.blockDim.x]
        for k in range(1, t + 1):
            total = op(total, x[cuda.blockIdx.x * cuda.blockDim.x + k])
        y[i] = total


# --- applications ---------------------------------------------------------------------------------------------------


def histogram_without_atomics(x, y, n):
    """A histogram that counts with `bins[v] += 1`: two threads that meet in a bin lose a count."""
    t = cuda.threadIdx.x
    bins = cuda.shared.array(WORDS, "int32")
    if t < WORDS:
        bins[t] = 0
    cuda.syncthreads()
    bins[x[t]] += 1
    cuda.syncthreads()
    if t < WORDS:
        y[t] = bins[t]


def range_query(x, lows, highs, y, n):
    """CS380 lecture 24: the items in bins A to B as pref[B] - pref[A], which leaves out bin A."""
    t = cuda.threadIdx.x
    y[t] = x[highs[t]] - x[lows[t]]


# --- the table ------------------------------------------------------------------------------------------------------

_TABLE = (3, 8, 4, 7, 12, 15, 19, 20)
"""Prefixes of a histogram, for the range query."""


def _one(kernel: Callable[..., None], n: int, block: int, tile: int | None = None, words: int | None = None,
            y: int | None = None,
         args: tuple[str | int, ...] | None = None, shared: int = 0, log_banks: int = 5) -> Setup:  # fmt: skip
    names = {"BLOCK": block, "TILE": tile or n, "WORDS": words or tile or n, "LOG_BANKS": log_banks}
    launch = Launch(kernel, 1, block, args or ("x", "y", n), names, shared)
    return Setup((launch,), {"y": n if y is None else y}, n)


def _domino(kernel: Callable[..., None], n: int = 16, block: int = 4, spare: int = 1) -> Setup:
    blocks = n // block
    launch = Launch(kernel, blocks, block, ("x", "y", "carries", "flags", n), {"BLOCK": block})
    return Setup((launch,), {"y": n, "carries": blocks + spare, "flags": [0] * (blocks + spare)}, n)


def _three(first: Callable[..., None], last: Callable[..., None], n: int, block: int = 4) -> Setup:
    blocks = -(-n // block)
    launches = (
        Launch(first, blocks, block, ("x", "y", "sums", n), {"BLOCK": block}),
        Launch(kogge_stone.kogge_stone, 1, blocks, ("sums", "scanned", blocks), {"BLOCK": blocks}),
        Launch(last, blocks, block, ("y", "scanned", n), {"BLOCK": block}),
    )
    return Setup(launches, {"y": n, "sums": blocks, "scanned": blocks}, n)


def _found(text: str) -> frozenset[str]:
    return frozenset(filter(None, (kind.strip() for kind in text.split(","))))


_ROWS = [
    Mistake("ks-in-place", kogge_stone_in_place, _one(kogge_stone_in_place, 8, 8), 8, _found("race, wrong value"),
            "a thread overwrites its word while the one to its right still needs it (notes on scan kernels, in words)",
            "kogge-stone"),
    Mistake("ks-no-first-barrier", kogge_stone_no_first_barrier, _one(kogge_stone_no_first_barrier, 8, 8), 8,
            _found("race"), "a level reads what the level before may not have written", "kogge-stone"),
    Mistake("ks-no-second-barrier", kogge_stone_no_second_barrier, _one(kogge_stone_no_second_barrier, 8, 8), 8,
            _found("race, wrong value"), "a thread overwrites a word that another has yet to read", "kogge-stone"),
    Mistake("ks-divergent-barrier", kogge_stone_divergent, _one(kogge_stone_divergent, 8, 8), 8,
            _found("divergent barrier"), "not all threads of the block come to the barrier", "kogge-stone"),
    Mistake("early-return", early_return, _one(early_return, 6, 8, 8), 6, _found("divergent barrier"),
            "threads that have left never come to the barrier", "kogge-stone"),
    Mistake("figure-11-3", figure_11_3, _one(figure_11_3, 13, 16, 16), 13, _found(""),
            "right for sums as printed: XY[t] + XY[t - stride] puts the later items first, and 0 stands for the identity "
            "(PMPP chapter 11, figure 11.3)", "kogge-stone", also="commutative", needs="commutative"),
    Mistake("ks-small-section", figure_11_3, Setup((Launch(figure_11_3, 1, 8, ("x", "y", 8), {"BLOCK": 6}),), {"y": 8}, 8), 8,
            _found("out of bounds, wrong value"), "SECTION_SIZE and blockDim are two names for one number: where the first is "
            "smaller, XY[threadIdx.x] overlaps what lies behind XY (PMPP chapter 11, figure 11.3)", "kogge-stone",
            needs="commutative"),
    Mistake("gems-double-buffer", gpu_gems_double_buffer, _one(gpu_gems_double_buffer, 8, 8), 8,
            _found("uninitialised, wrong value"), "`temp[pout*n+thid] +=` adds to the half written two levels ago (GPU Gems 3)",
            "kogge-stone-double-exclusive", "exclusive"),
    Mistake("notes-no-guard", notes_double_buffer, _one(notes_double_buffer, 13, 16, args=("y", "x"), shared=32), 13,
            _found("out of bounds"), "no n and no guard: 13 inputs, 16 threads, three read past the end", "kogge-stone-double"),
    Mistake("notes-half-memory", notes_double_buffer, _one(notes_double_buffer, 8, 8, args=("y", "x"), shared=8), 8,
            _found("out of bounds, wrong value"), "two buffers need 2n words of dynamic shared memory, and get n",
            "kogge-stone-double"),
    Mistake("notes-last-barrier", notes_double_buffer, _one(notes_double_buffer, 16, 16, args=("y", "x"), shared=32), 16,
            _found(""), "the barrier after the last level separates nothing: each thread reads its own word",
            "kogge-stone-double", also="idle barrier"),
    Mistake("hwu-reduction", hwu_reduction, _one(hwu_reduction, 16, 8, y=1), 16, _found("race, uninitialised, wrong value"),
            "the barrier stands after the addition: nothing orders the load before the first one", "reduction", "reduction"),
    Mistake("hwu-epilogue", hwu_epilogue, _one(hwu_epilogue, 16, 8), 16, _found("never written"),
            "one store for two items a thread: the second half of the result is never written", "brent-kung"),
    Mistake("one-level-more", reduction_one_level_more, _one(reduction_one_level_more, 16, 16, y=1), 16, _found(""),
            "`stride <= blockDim.x` with one item a thread: the last level does nothing but wait", "reduction-modulo",
            "reduction", also="idle barrier"),
    Mistake("bk-tail", brent_kung_literal, _one(brent_kung_literal, 13, 8, 16), 13, _found("uninitialised"),
            "no else for the tail: words past the end are read though nobody wrote them; any block sum is garbage",
            "brent-kung"),
    Mistake("bk-not-a-power", brent_kung_literal, _one(brent_kung_literal, 12, 6), 12, _found("wrong value"),
            "the section must be a power of two: 6 threads leave wrong prefixes", "brent-kung"),
    Mistake("bk-small-section", brent_kung_literal, _one(brent_kung_literal, 16, 8, 8), 16,
            _found("out of bounds, wrong value"), "SECTION_SIZE must be 2 * blockDim", "brent-kung"),
    Mistake("wrong-order", wrong_order, _one(wrong_order, 8, 4), 8, _found("wrong value"),
            "`XY[index] += XY[index - stride]` puts the later operand first: right for addition, wrong for matrices",
            "brent-kung", also="commutative"),
    Mistake("wrong-swap", blelloch_wrong_swap, _one(blelloch_wrong_swap, 8, 4), 8, _found("wrong value"),
            "in Blelloch's swap the prefix must stay on the left", "blelloch", "exclusive", also="commutative"),
    Mistake("whole-stride", blelloch_whole_stride, _one(blelloch_whole_stride, 8, 4), 8,
            _found("out of bounds, wrong value, race"), "the down-sweep reaches `stride` elements away instead of half of that",
            "blelloch", "exclusive"),
    Mistake("padded-as-printed", padded_as_printed, _one(padded_as_printed, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("race, uninitialised, wrong value"), "no `s *= 2` and no barrier", "blelloch-padded", "reduction"),
    Mistake("padded-with-doubling", padded_with_doubling, _one(padded_with_doubling, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("race, uninitialised, out of bounds, wrong value"), "with `s *= 2`, but still no barrier", "blelloch-padded",
            "reduction"),
    Mistake("padded-with-barrier", padded_with_barrier, _one(padded_with_barrier, 32, 16, words=34, y=1, log_banks=4), 32,
            _found("out of bounds"), "right answer, wrong program: `thid <= d` works on words past the end", "blelloch-padded",
            "reduction"),
    Mistake("padded-no-room", trees.blelloch_padded, Setup((Launch(trees.blelloch_padded, 1, 32, ("x", "y", 64),
            {"BLOCK": 32, "TILE": 64, "WORDS": 64, "LOG_BANKS": 5}),), {"y": 64}, 64), 64,
            _found("out of bounds, wrong value"), "padding needs n + (n >> log2 banks) words; the slides never ask for them",
            "blelloch-padded", "exclusive"),
    Mistake("padded-for-16-banks", trees.blelloch_padded, Setup((Launch(trees.blelloch_padded, 1, 64, ("x", "y", 128),
            {"BLOCK": 64, "TILE": 128, "WORDS": 136, "LOG_BANKS": 4}),), {"y": 128}, 128), 128, _found(""),
            "the shift of 16 banks on a machine of 32 leaves two-way conflicts", "blelloch-padded", "exclusive",
            also="bank conflict"),
    Mistake("zero-conflict-macro", zero_conflict_macro, _one(zero_conflict_macro, 64, 32, y=1), 64, _found(""),
            "GPU Gems 3's macro is zero for every index, + binding tighter than >>: no padding at all", "blelloch-padded",
            "reduction", also="bank conflict"),
    Mistake("sums-of-exclusive", sums_of_exclusive, _three(sums_of_exclusive, grids.uniform_add, 16), 16, _found("wrong value"),
            "the last word of an exclusive scan lacks the last input: it is not the sum of the block", "hierarchical"),
    Mistake("uniform-add-unguarded", uniform_add_unguarded, _three(grids.scan_sections, uniform_add_unguarded, 14), 14,
            _found("out of bounds, wrong value"), "block 0 reads S[-1], and threads past the end write", "hierarchical"),
    Mistake("domino-no-preset", domino_as_printed, _domino(domino_as_printed), 16, _found("deadlock"),
            "block 0 waits for flags[0], which nobody presets", "domino"),
    Mistake("domino-short-arrays", grids.domino, _domino(grids.domino, spare=0), 16, _found("out of bounds"),
            "the last block writes one past its number: the arrays need gridDim + 1 entries", "domino"),
    Mistake("domino-no-barrier", domino_no_barrier, _domino(domino_no_barrier), 16, _found("race, wrong value"),
            "thread 0 reads the block's sum before the others have written it", "domino"),
    Mistake("domino-no-acquire", domino_no_acquire, _domino(domino_no_acquire), 16, _found("race"),
            "no fence between seeing the flag and reading the carry", "domino"),
    Mistake("domino-no-release", domino_no_release, _domino(domino_no_release), 16, _found("race"),
            "no fence between writing the carry and raising the flag", "domino"),
    Mistake("domino-out-of-order", grids.domino, _domino(grids.domino), 16, _found("deadlock"),
            "static block numbers, blocks issued backwards, two held at once: each waits for one that cannot start",
            "domino-dynamic", schedule=(("resident", 2), ("issue", "descending"))),
    Mistake("hopeful-neighbours", sections_wait_for_neighbours, Setup((Launch(sections_wait_for_neighbours, 2, 4,
            ("x", "y", 8), {"BLOCK": 4}),), {"y": 8}, 8), 8, _found("race, uninitialised, wrong value"),
            "a block reads what another writes, and nothing orders the two", "domino"),
    Mistake("histogram-without-atomics", histogram_without_atomics, _one(histogram_without_atomics, 16, 16, words=8, y=8), 16,
            _found("race"), "`bins[v] += 1` reads and writes in two steps", "range-histogram", "application",
            x=tuple(k * k % 8 for k in range(16)), answer=lambda x: [list(x).count(b) for b in range(8)]),
    Mistake("range-query-short", range_query, Setup((Launch(range_query, 1, 2, ("x", "lows", "highs", "y", 8)),),
            {"lows": [1, 4], "highs": [6, 5], "y": 2}, 8), 8, _found("wrong value"),
            "pref[B] - pref[A] leaves out bin A: inclusive prefixes need pref[B] - pref[A - 1]", "range-query",
            "application", x=_TABLE, answer=lambda x: [x[6] - x[0], x[5] - x[3]]),
]  # fmt: skip

MISTAKES: dict[str, Mistake] = {row.name: row for row in _ROWS}
"""Every mistake by its name."""

NOT_KERNELS = {
    "the notes' powers": "the notes lost their superscripts (2n-1 stands for 2^n - 1) and leave XY[14] out of the last level",
    "the order of floats": "a tree adds floats in another order than a loop: compare with a tolerance, or with the same tree",
    "ECE569's template": 'ECE569 module 37 says "identify element" for identity, and its template holds a stray `XY{`',
}
"""Traps of the sources that no run can show."""
