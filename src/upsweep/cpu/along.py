"""A chunk along a row: runs of 16 items side by side. The sums of runs are in turn a sequence of runs, until 16 or fewer are
left.

Runs are read from the array, and prefixes are written to it, where the array holds the computed dtype side by side. Otherwise
both lie in scratch memory (`along_places`), converted line by line. The last runs lie there in any case, and their missing items
become copies of the last item.
"""

from __future__ import annotations

from upsweep.cpu.address import copy_bytes, peek
from upsweep.cpu.along_places import (
    aim_runs,
    aim_sums,
    aim_targets,
    all_read,
    direct,
    groups_of,
    runs_in,
    source_of,
    sum_at,
    sums_in,
    target_of,
    top_of,
)
from upsweep.cpu.frame import aim, ask, fill, move_line, part, place_of, restart_line
from upsweep.cpu.mapped import bring_operands, hand_results
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import NOWHERE, PASS, RISE, ROW, SCAN, SETTLE, SINK_WORDS, SUM, Part, Sink, Word

COMPONENTS, VALUES, SINKS, EXCLUSIVE, SEGMENTED, SINK_AT, LANES, INPUTS, MAP, FINISH, FLAGS, PAST, AGAIN, REDUCE, CHUNK = map(
    int,
    (
        Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.EXCLUSIVE, Word.SEGMENTED, Word.SINK_AT, Word.LANES, Word.INPUTS,
        Word.MAP, Word.FINISH, Word.FLAGS, Word.PAST, Word.AGAIN, Word.REDUCE, Word.CHUNK,
    ),
)  # fmt: skip
SIZE, BRING, TOTAL, START, BEFORE, END, HEAD, STACK, FOLDS, BASE = map(
    int,
    (
        Part.SIZE, Part.BRING, Part.TOTAL, Part.START, Part.BEFORE, Part.END, Part.HEAD, Part.STACK, Part.FOLDS, Part.BASE,
    ),
)  # fmt: skip
COMPONENT, HAND = int(Sink.COMPONENT), int(Sink.HAND)


@of_words
def bring(L, A, first, m):
    """Bring a chunk's items to scratch memory: all items, or those that are no whole group of runs."""
    whole = direct(L, m)
    padded = m if whole == m else whole + ROW * peek(L, LANES)
    mapped = 0
    if peek(L, MAP):
        mapped = peek(L, VALUES)
        bring_operands(L, A, first, m, 1)
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        size, done = peek(p, SIZE), whole if source_of(L, A, c, first) else 0
        if done < m:
            if c >= mapped:
                source, along, _ = place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
                here = source + (first + done) * along
                move_line(peek(p, BRING), here, along, sum_at(L, A, c, 0, done), m - done)
            fill(sum_at(L, A, c, 0, m), size, padded - m)
    if peek(L, EXCLUSIVE) and peek(L, SEGMENTED):
        source, along, _ = place_of(L, A, peek(L, INPUTS) - 1)
        move_line(peek(part(L, peek(L, VALUES)), BRING), source + first * along, along, A + peek(L, FLAGS), m)


@of_words
def sum_runs(L, A, first, done, groups, rest, keep):
    """The sums of runs of a chunk, at level 1. The sums within the runs take the place of the items in scratch memory."""
    components = peek(L, COMPONENTS)
    if groups:
        aim_runs(L, A, 0, first, done, rest)
        aim_sums(L, A, components, components, 1, done // ROW)
        aim_sums(L, A, 2 * components, components, 0, done)
        # A scan's tile was fetched while the one before was scanned.
        later = peek(L, REDUCE) and not rest and peek(L, PAST)
        ask(L, A, SUM, later, groups, keep, 0, 0)


@of_words
def climb(L, A, first, m, keep):
    """Sweep a chunk up; `keep` the block sums for `descend`, or those that `fold_blocks` needs."""
    components = peek(L, COMPONENTS)
    whole, keep_rest = direct(L, m), keep and not peek(L, AGAIN)
    sum_runs(L, A, first, 0, groups_of(L, whole), 0, keep_rest and not peek(L, REDUCE))
    sum_runs(L, A, first, whole, whole < m, 1, keep_rest)
    level, count = 1, runs_in(m)
    while count > ROW:
        groups = groups_of(L, count)
        for c in range(components):
            size = peek(part(L, c), SIZE)
            fill(sum_at(L, A, c, level, count), size, groups * peek(L, LANES) * ROW - count)
        aim_sums(L, A, 0, components, level, 0)
        aim_sums(L, A, components, components, level + 1, 0)
        aim_sums(L, A, 2 * components, components, level, 0)
        ask(L, A, SUM, 0, groups, 1, 0, 0)
        level, count = level + 1, runs_in(count)
    aim_sums(L, A, 0, components, level, 0)
    ask(L, A, RISE, 0, count, 0, 0, 0)


@of_words
def take_total(L, A, m):
    """Keep a whole chunk's sum for the counter."""
    level, tip = top_of(m)
    for c in range(peek(L, COMPONENTS)):
        copy_bytes(A + peek(part(L, c), TOTAL), sum_at(L, A, c, level, tip - 1), peek(part(L, c), SIZE))


@of_words
def put(L, A, level, item, region):
    """Set a prefix."""
    for c in range(peek(L, VALUES)):
        p = part(L, c)
        copy_bytes(sum_at(L, A, c, level, item), A + peek(p, region), peek(p, SIZE))


@of_words
def scan_head(L, A, level, again):
    """The prefixes of a level's first run, where nothing stands before it. The first item of the level above is put before the
    run, so that there is something to fold. A run that is swept up `again` lies at HEAD.
    """
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    if again:
        aim(L, A, 0, HEAD, components, 0)
        ask(L, A, RISE, 0, ROW, 0, 0, 0)
        aim(L, A, values, HEAD, components, 0)
    else:
        aim_sums(L, A, values, components, level, 0)
    aim(L, A, 0, START, values, 0)
    aim(L, A, values + components, HEAD, values, 0)
    ask(L, A, SETTLE, 1 if again else peek(L, LANES), ROW, 0, 0, 0)
    put(L, A, level + 1, -1, HEAD)


@of_words
def copy_head(L, A, first, rest):
    """Copy a chunk's first run to HEAD."""
    aim_runs(L, A, 0, first, 0, rest)
    for c in range(peek(L, COMPONENTS)):
        p = part(L, c)
        copy_bytes(A + peek(p, HEAD), peek(A, c), ROW * peek(p, SIZE))


@of_words
def settle_tip(L, A, level, tip, known, whole):
    """The prefixes at the highest level."""
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    if known:
        put(L, A, level, -1, BEFORE)
    aim(L, A, 0, START, values, 0)
    aim_sums(L, A, values, components, level, 0)
    aim_sums(L, A, values + components, values, level, 0)
    ask(L, A, SETTLE, 1, tip, known, 0, 0)
    if whole:
        put(L, A, level, tip - 1, END)


@of_words
def scan_level(L, A, level, count, known):
    """The prefixes of the `count` sums at a level, from the prefixes above."""
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    if not known:
        scan_head(L, A, level, 0)
    aim(L, A, 0, START, values, 0)
    aim_sums(L, A, values, components, level, 0)
    aim_sums(L, A, values + components, values, level + 1, -1)
    aim_sums(L, A, 2 * values + components, values, level, 0)
    ask(L, A, SCAN, 0, groups_of(L, count), 0, 0, 0)
    if known:
        put(L, A, level, -1, BEFORE)
    else:
        for c in range(values):
            p = part(L, c)
            copy_bytes(sum_at(L, A, c, level, 0), A + peek(p, HEAD), ROW * peek(p, SIZE))


@of_words
def scan_runs(L, A, first, done, groups, rest):
    """The prefixes of items of a chunk, in their array or in scratch memory."""
    values, components = peek(L, VALUES), peek(L, COMPONENTS)
    if groups:
        aim(L, A, 0, START, values, 0)
        if peek(L, AGAIN):
            aim_runs(L, A, values, first, done, rest)
        else:
            aim_sums(L, A, values, components, 0, done)
        aim_sums(L, A, values + components, values, 1, done // ROW - 1)
        direct = aim_targets(L, A, 2 * values + components, first, done, rest)
        past = direct and peek(L, PAST)
        if past and (rest or not all_read(L, A, first)):
            past = 1
        ask(L, A, SCAN, past, groups, peek(L, EXCLUSIVE), peek(L, AGAIN), 0)


@of_words
def put_head(L, A, first, rest):
    """Put the prefixes of a row's first run beside the others; an exclusive scan starts with the value at START."""
    shift = peek(L, EXCLUSIVE)
    aim_targets(L, A, 0, first, 0, rest)
    for c in range(peek(L, VALUES)):
        p, target = part(L, c), peek(A, c)
        size = peek(p, SIZE)
        if target != NOWHERE:
            copy_bytes(target + shift * size, A + peek(p, HEAD), (ROW - shift) * size)
            copy_bytes(target, A + peek(p, START), shift * size)


@of_words
def restart(L, A, m):
    """An exclusive scan starts anew at the head of a segment."""
    for c in range(peek(L, VALUES)):
        restart_line(L, A, c, sum_at(L, A, c, 0, 0), 0, A + peek(L, FLAGS), 0, m)


@of_words
def descend(L, A, first, m, known, whole):
    """From the prefix at BEFORE, if it is `known`, to the prefixes of all items; END holds the prefix behind a `whole` chunk."""
    level, tip = top_of(m)
    settle_tip(L, A, level, tip, known, whole)
    while level > 1:
        level -= 1
        scan_level(L, A, level, sums_in(m, level), known)
    done = direct(L, m)
    if not known:
        if peek(L, AGAIN):
            copy_head(L, A, first, done == 0)
        scan_head(L, A, 0, peek(L, AGAIN))
    scan_runs(L, A, first, 0, groups_of(L, done), 0)
    scan_runs(L, A, first, done, done < m, 1)
    if not known:
        put_head(L, A, first, done == 0)
    if peek(L, EXCLUSIVE) and peek(L, SEGMENTED):
        restart(L, A, m)


@of_words
def hand(L, A, first, m):
    """Hand the prefixes in scratch memory to the outputs."""
    if peek(L, FINISH):
        hand_results(L, A, first, 0, m, 1)
        return
    for o in range(peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        c = peek(s, COMPONENT)
        target, along, _ = place_of(L, A, peek(L, INPUTS) + o)
        done = direct(L, m) if target_of(L, A, c, first) else 0
        if done < m:
            rest = target + (first + done) * along
            move_line(peek(s, HAND), rest, along, sum_at(L, A, c, 0, done), m - done)


@of_words
def pass_spans(L, A, first, last, count, has):
    """Scan one chunk that is a span, or all up to `last` where they are swept from array to array, behind `count` others.
    Returns how many. BEFORE holds the prefix before them, and then the one behind them.
    """
    values, components, chunk = peek(L, VALUES), peek(L, COMPONENTS), peek(L, CHUNK)
    exclusive, restarts = peek(L, EXCLUSIVE), peek(L, EXCLUSIVE) and peek(L, SEGMENTED)
    bring(L, A, first, chunk)
    aim(L, A, 0, START, values, 0)
    aim_runs(L, A, values, first, 0, 0)
    for level in range(3):
        aim_sums(L, A, values + (1 + level) * components, components, level, 0)
    aim(L, A, values + 4 * components, STACK, components, 0)
    aim(L, A, values + 5 * components, FOLDS, values, 0)
    aim(L, A, 2 * values + 5 * components, BASE, values, 0)
    aim(L, A, 3 * values + 5 * components, BEFORE, values, 0)
    direct = aim_targets(L, A, 4 * values + 5 * components, first, 0, 0)
    spans = (last - first) // chunk if direct and all_read(L, A, first) and not restarts else 1
    ask(L, A, PASS, direct and peek(L, PAST), spans, count, exclusive, has)
    if restarts:
        restart(L, A, chunk)
    hand(L, A, first, chunk)
    return spans
