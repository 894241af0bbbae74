"""Where the items of a chunk along a row lie, their block sums and their prefixes: in arrays or in scratch memory."""

from __future__ import annotations

from upsweep.cpu.address import peek, poke
from upsweep.cpu.frame import part, place_of
from upsweep.cpu.memory import of_words
from upsweep.cpu.words import HALF, NOWHERE, ROW, SINK_WORDS, Part, Sink, Word

COMPONENTS, VALUES, SINKS, SINK_AT, LANES, INPUTS, MAP, FINISH, PAST, STRAIGHT, AGAIN, REDUCE = map(
    int,
    (
        Word.COMPONENTS, Word.VALUES, Word.SINKS, Word.SINK_AT, Word.LANES, Word.INPUTS, Word.MAP, Word.FINISH, Word.PAST,
        Word.STRAIGHT, Word.AGAIN, Word.REDUCE,
    ),
)  # fmt: skip
SIZE, PLAIN, SPARE, WANTED, PANEL = map(int, (Part.SIZE, Part.PLAIN, Part.SPARE, Part.WANTED, Part.PANEL))
COMPONENT, SINK_PLAIN = int(Sink.COMPONENT), int(Sink.PLAIN)


@of_words
def runs_in(count):
    """The runs of so many items."""
    return (count + ROW - 1) // ROW


@of_words
def direct(L, m):
    """The items of a chunk in whole groups of runs."""
    group = ROW * peek(L, LANES)
    return m // group * group


@of_words
def is_span(L, m):
    """Whether so many items are a span: ROW groups of runs, whose sums are the runs of one group."""
    lanes = peek(L, LANES)
    return m == ROW * ROW * lanes and lanes <= ROW and not peek(L, AGAIN) and not peek(L, REDUCE)


@of_words
def groups_of(L, count):
    """The groups of runs that so many items are padded to."""
    return (runs_in(count) + peek(L, LANES) - 1) // peek(L, LANES)


@of_words
def sums_in(m, level):
    """The sums of a level over a chunk of m items."""
    for _ in range(level):
        m = runs_in(m)
    return m


@of_words
def top_of(m):
    """The level of the highest sums of a chunk of m items, and how many there are."""
    level, count = 1, runs_in(m)
    while count > ROW:
        level, count = level + 1, runs_in(count)
    return level, count


@of_words
def sum_at(L, A, c, level, item):
    """The address of a block sum; for level 0, the place of its items in scratch memory."""
    p = part(L, c)
    return A + peek(p, PANEL + level if level else SPARE) + item * peek(p, SIZE)


@of_words
def aim_sums(L, A, slot, count, level, item):
    for c in range(count):
        poke(A, slot + c, sum_at(L, A, c, level, item))


@of_words
def source_of(L, A, c, first):
    """The place where the array's own memory serves as a chunk's runs, or 0."""
    p = part(L, c)
    if peek(L, MAP) and c < peek(L, VALUES):
        return 0
    source, along, _ = place_of(L, A, c - peek(L, COMPONENTS) + peek(L, INPUTS))
    return source + first * along if peek(p, PLAIN) and along == peek(p, SIZE) else 0


@of_words
def aim_runs(L, A, slot, first, done, rest):
    """The runs of a chunk from item `done` on; the `rest` lies in scratch memory."""
    for c in range(peek(L, COMPONENTS)):
        source = 0 if rest else source_of(L, A, c, first)
        poke(A, slot + c, source or sum_at(L, A, c, 0, done))


@of_words
def target_of(L, A, c, first):
    """The place where a component's prefixes are written straight to their array, or 0."""
    for o in range(0 if peek(L, FINISH) else peek(L, SINKS)):
        s = L + 8 * (peek(L, SINK_AT) + o * SINK_WORDS)
        target, along, _ = place_of(L, A, peek(L, INPUTS) + o)
        target += first * along
        # Runs go past the cache by 16 bytes.
        whole = target & (HALF - 1) == 0 or peek(L, STRAIGHT) or not peek(L, PAST)
        if peek(s, COMPONENT) == c and peek(s, SINK_PLAIN) and along == peek(part(L, c), SIZE) and whole:
            return target
    return 0


@of_words
def aim_targets(L, A, slot, first, done, rest):
    """Aim at the places for prefixes of items. Returns whether all that are wanted lie in arrays."""
    direct = 1
    for c in range(peek(L, VALUES)):
        target = 0 if rest else target_of(L, A, c, first)
        if not peek(part(L, c), WANTED):
            target = NOWHERE
        elif target == 0:
            direct, target = 0, sum_at(L, A, c, 0, done)
        poke(A, slot + c, target)
    return direct


def _everywhere(place, count):
    @of_words
    def everywhere(L, A, first):
        for c in range(peek(L, count)):
            if place(L, A, c, first) == 0:
                return 0
        return 1

    return everywhere


all_read, all_written = _everywhere(source_of, COMPONENTS), _everywhere(target_of, VALUES)
"""Whether all components of a chunk's items, and their flags, are read where they lie, and their prefixes written straight to
their arrays."""
