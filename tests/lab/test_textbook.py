"""Every textbook kernel is right: for any length, any block, any operator, also one that does not commute."""

from itertools import accumulate

import numpy as np
import pytest

from upsweep import lab
from upsweep.textbook import KERNELS, circuits
from upsweep.textbook.mistakes import MISTAKES, NOT_KERNELS
from upsweep.textbook.setups import BINS
from upsweep.tree import prefixes

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11, 16, 31, 33, 64, 100)
WORKED = [3, 1, 7, 0, 4, 1, 6, 3]
SCANS = [name for name, row in KERNELS.items() if row.result != "application"]
ORDERED = [name for name in SCANS if not KERNELS[name].needs]


def letters(n):
    return [chr(0x4E00 + k) for k in range(n)]


def wanted(name, x, tile, op, identity):
    """The definition: each section is folded from the left."""
    sections = [x[k : k + tile] for k in range(0, len(x), tile)]
    kind = KERNELS[name].result
    if kind == "reduction":
        return [list(accumulate(s, op))[-1] for s in sections]
    if kind == "exclusive":
        return [v for s in sections for v in [identity, *list(accumulate(s, op))[:-1]]]
    return [v for s in sections for v in accumulate(s, op)]


@pytest.mark.parametrize("name", ORDERED)
def test_order_is_kept(name):
    for n in LENGTHS:
        t = lab.trace(name, x=letters(n), op=lambda a, b: a + b, identity="", warp=8)
        assert t.values == wanted(name, letters(n), t.case.setup.tile, lambda a, b: a + b, "")
        assert not lab.check(t, witness=False)


@pytest.mark.parametrize("name", [name for name in ORDERED if "sequential" not in name])
@pytest.mark.parametrize("block", [1, 3, 4, 6, 8])
def test_any_block(name, block):
    for n in (1, 5, 16, 23, 48):
        if name == "warp-shuffle" and block > 16:
            continue
        t = lab.trace(name, x=letters(n), op=lambda a, b: a + b, identity="", block=block, warp=4)
        assert t.values == wanted(name, letters(n), t.case.setup.tile, lambda a, b: a + b, "")
        assert not lab.check(t, witness=False)


@pytest.mark.parametrize("name", [name for name in SCANS if KERNELS[name].needs])
def test_laws_that_are_asked_for(name):
    for n in LENGTHS:
        t = lab.trace(name, n=n, op="max", x=[(7 * k) % 11 for k in range(n)])
        assert t.values == wanted(name, [(7 * k) % 11 for k in range(n)], t.case.setup.tile, max, None)
        assert not lab.check(t, witness=False)
    assert getattr(lab.laws(lab.trace(name, n=16)), KERNELS[name].needs)


def mix(a, b):
    """An operator without associativity: equal results mean equal trees."""
    return (a * 0x9E3779B97F4A7C15 ^ (b * 31 + 7)) % (1 << 61)


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.family == "Brent-Kung"])
def test_canonical_bits(name):
    for n in LENGTHS:
        assert lab.trace(name, x=range(1, n + 1), op=mix, identity=0).values == prefixes(mix, range(1, n + 1))


@pytest.mark.parametrize("name", ["sklansky", "kogge-stone", "han-carlson", "three-phase"])
def test_other_trees_have_other_bits(name):
    """Also Sklansky's: x6 meets x4..x5 before it meets x0..x3."""
    assert lab.trace(name, x=range(1, 17), op=mix, identity=0).values != prefixes(mix, range(1, 17))


def test_worked_vector():
    assert lab.trace("brent-kung", x=WORKED).values == [3, 4, 11, 11, 15, 16, 22, 25]
    assert lab.trace("blelloch", x=WORKED).values == [0, 3, 4, 11, 11, 15, 16, 22]
    assert lab.trace("reduction", x=WORKED).values == [25]


def test_worked_sweeps():
    """CS380's states: after the up-sweep, and after the root is cleared."""
    t = lab.trace("blelloch", x=WORKED)
    words = dict.fromkeys(range(8))
    shared = next(a for a in t.arrays if a.space == "shared")
    states = []
    for step in lab.to_dict(t)["steps"]:
        for word, text, *_ in step["words"]:
            if shared.base <= word < shared.base + 8:
                words[word - shared.base] = text
        states.append(" ".join(str(words[k]) for k in range(8)))
    # The thread that computes the root clears it in the same step.
    assert "3 4 7 11 4 5 6 0" in states
    stored = [
        int(v) for v in (w.value if hasattr(w, "value") else w for w in t.machine.stored) if str(v).isdigit()
    ]
    assert 25 in stored


def levels(name, x):
    """The contents of shared memory after each application of the operator, as numbers."""
    t = lab.trace(name, x=x)
    shared = next(a for a in t.arrays if a.space == "shared")
    words, states = [""] * shared.size, []
    for step in lab.to_dict(t)["steps"]:
        for word, text, *_ in step["words"]:
            if shared.base <= word < shared.base + shared.size:
                words[word - shared.base] = text
        states.append(" ".join(words))
    return list(dict.fromkeys(states))


def test_worked_exercises():
    """PMPP's exercise array, level by level, as the book's answers have it."""
    x = [4, 6, 7, 1, 2, 8, 5, 2]
    assert levels("kogge-stone", x) == [
        "4 6 7 1 2 8 5 2", "4 10 13 8 3 10 13 7", "4 10 17 18 16 18 16 17", "4 10 17 18 20 28 33 35"]  # fmt: skip
    assert levels("brent-kung", x) == [
        "4 6 7 1 2 8 5 2", "4 10 7 8 2 10 5 7", "4 10 7 18 2 10 5 17", "4 10 7 18 2 10 5 35", "4 10 7 18 2 28 5 35",
        "4 10 17 18 20 28 33 35"]  # fmt: skip


def test_worked_compaction():
    x, flags = [3, 1, 7, 4, 2, 1, 5, 6, 3, 1], [1, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    kernel = KERNELS["compaction"].function
    t = lab.trace(kernel, 1, 10, (x, flags, lab.empty(3), 10))
    assert t.values == [3, 7, 6]


@pytest.mark.parametrize("n", [1, 2, 9, 12, 16, 30])
@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.result == "application"])
def test_applications(name, n):
    t = lab.trace(name, n=n)
    assert t.values == KERNELS[name].answer(t.case.x)
    assert not lab.check(t, witness=False)


def test_range_histogram_answers():
    t = lab.trace("range-histogram", x=[5, 1, 1, 7, 2, 5, 0, 3])
    assert t.values == np.cumsum(np.bincount(t.case.x, minlength=BINS)).tolist()
    # Bins 1 to 5.
    assert t.values[5] - t.values[0] == 6


@pytest.mark.parametrize(
    "name", ["domino-dynamic", "decoupled-look-back", "hierarchical", "reduce-then-scan"]
)
@pytest.mark.parametrize("issue", ["ascending", "descending"])
@pytest.mark.parametrize("resident", [1, 2, None])
def test_blocks_in_any_order(name, issue, resident):
    t = lab.trace(name, n=23, block=4, resident=resident, issue=issue)
    assert t.values == list(accumulate(range(1, 24)))
    assert not lab.check(t, witness=False)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("schedule", ["descending", "lockstep", "random-1"])
def test_any_schedule(name, schedule):
    assert lab.trace(name, n=16, schedule=schedule, warp=4).values == lab.trace(name, n=16, warp=4).values


def test_sources_are_named():
    """Every source has its kernels, and every source its mistakes."""
    said = " ".join(row.function.__doc__ or "" for row in KERNELS.values())
    assert all(
        source in said for source in ("PMPP", "CS380", "ECE569", "Hwu, lecture 4.6", "notes on scan kernels")
    )
    wrong = " ".join(f"{row.function.__doc__} {row.says}" for row in MISTAKES.values())
    assert all(source in wrong for source in ("PMPP", "CS380", "GPU Gems 3", "Hwu's lecture 4.6", "notes"))
    assert len(NOT_KERNELS) == 3


def test_tables_in_two_dimensions():
    t = lab.trace("summed-area-table", n=12)
    assert {a["name"]: a["width"] for a in lab.to_dict(t)["arrays"] if a["space"] == "global"} == {
        "x": 3,
        "rows": 3,
        "y": 3,
    }
    picture = lab.tables(t)
    texts = [m for m in picture.marks if m.shape == "text"]
    # The sum of all items, in the last corner.
    assert [m.text for m in texts].count("78") == 1
    corner = next(m for m in texts if m.text == "78")
    assert corner.x == max(m.x for m in texts)
    assert corner.y == max(m.y for m in texts)
    with pytest.raises(ValueError, match="brent-kung has no tables"):
        lab.tables(lab.trace("brent-kung", n=4))


@pytest.mark.parametrize("name", KERNELS)
def test_docstring_names_algorithm_and_source(name):
    title = KERNELS[name].title
    assert title.endswith((".", ":", ")", ").")) or "(" in title
    # The page and the table of kernels show the title alone.
    assert any(source in title for source in ("PMPP", "CS380", "ECE569", "notes", "CUDA samples", "19", "20"))


@pytest.mark.parametrize("k", [0, 1, 2])
def test_circuits_keep_the_order(k):
    for n in LENGTHS:
        want = list(accumulate(letters(n)))
        for levels in (circuits.serial(n), circuits.sklansky(n), circuits.kogge_stone(n), circuits.brent_kung(n),
                       circuits.han_carlson(n, 2 << k), circuits.ladner_fischer(n, k), circuits.harris(n, k, 2)):  # fmt: skip
            assert circuits.evaluate(levels, lambda a, b: a + b, letters(n)) == want


def test_no_two_kernels_have_one_title():
    titles = [row.title for row in KERNELS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.answer])
def test_what_is_written_for_sums_takes_no_other_operator(name):
    assert not lab.check(lab.trace(name, n=8, op="add"))
    with pytest.raises(ValueError, match=f"{name} is written for sums: leave op out"):
        lab.trace(name, n=8, op="max")
