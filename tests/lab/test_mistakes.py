"""Every mistake of the gallery gets its own diagnosis, and no other."""

import pytest

from upsweep import lab
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

FENCES = ("domino-no-acquire", "domino-no-release")
"""Mistakes whose wrong values show only on a GPU that reorders memory: the tracer runs one access after the other."""


@pytest.mark.parametrize("name", MISTAKES)
def test_diagnosis(name):
    row = MISTAKES[name]
    report = lab.check(lab.trace(name))
    assert report.kinds == set(row.finds), str(report)
    for finding in report:
        if finding.kind == "race":
            assert len(finding.lines) == 2
            assert finding.hazard in ("RAW", "WAR", "WAW")
            assert (finding.witness is None) == (name in FENCES)
            assert ("no schedule of whole accesses" in finding.text) == (name in FENCES)


@pytest.mark.parametrize("name", [name for name, row in MISTAKES.items() if row.also == "idle barrier"])
def test_idle_barriers(name):
    found = lab.barriers(lab.trace(name))
    assert found.idle
    _, last, of = found.idle[-1]
    assert last == of


@pytest.mark.parametrize("name", [name for name, row in MISTAKES.items() if row.also == "bank conflict"])
def test_bank_conflicts(name):
    assert lab.counts(lab.trace(name), lab.Banks(32)).degree == 2


@pytest.mark.parametrize("name", [name for name, row in MISTAKES.items() if row.also == "commutative"])
def test_lost_order(name):
    assert lab.laws(lab.trace(name)).commutative


@pytest.mark.parametrize("name", MISTAKES)
def test_what_to_do_instead(name):
    assert not lab.check(lab.trace(MISTAKES[name].instead, n=MISTAKES[name].n))


def test_right_answer_wrong_program():
    t = lab.trace("padded-with-barrier")
    assert t.values == [sum(range(1, 33))]
    assert lab.check(t).kinds == {"out of bounds"}


def test_the_missing_barrier_is_found():
    for name, line in (("ks-no-second-barrier", "if t >= stride and t < n:"), ("domino-no-barrier", "if t == 0:"),
                       ("ks-no-first-barrier", "if t >= stride and t < n:")):  # fmt: skip
        t = lab.trace(name)
        source = t.kernels[0].source
        mends = lab.barriers(t).missing
        assert any(line in source.line(spots[0].line) for spots in mends), (name, mends)
        mended = t.case.run(before=mends[0])
        assert not lab.check(mended)


def test_conflicting_lines_of_a_race():
    report = lab.check(lab.trace("ks-no-second-barrier"))
    source = lab.trace("ks-no-second-barrier").kernels[0].source
    (race,) = [f for f in report if f.kind == "race"]
    assert race.hazard == "WAR"
    assert [source.line(n) for n in race.lines] == ["temp = op(xy[t - stride], xy[t])", "xy[t] = temp"]
    assert race.witness is not None
    again = lab.trace("ks-no-second-barrier", schedule=race.witness.schedule.name)
    assert str(again.values[int(race.witness.word[2:-1])]) == race.witness.got != race.witness.wanted


def test_every_mistake_says_what_to_use():
    assert all(row.instead in KERNELS and row.says for row in MISTAKES.values())
