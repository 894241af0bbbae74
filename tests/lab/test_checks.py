"""Races, too many and too few barriers, deadlocks, accesses out of bounds."""

import pickle

import pytest

from portions import every
from upsweep import lab
from upsweep.lab.races import races
from upsweep.textbook import KERNELS

SYNCHRONISED = [name for name in KERNELS if lab.trace(name, n=4).machine.passed]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 6, 16, 37])
def test_textbook_is_clean(name, n):
    op = "max" if KERNELS[name].needs == "idempotent" else "add"
    assert not lab.check(lab.trace(name, n=n, op=op, warp=8))


NEEDED_ELSEWHERE = {
    "han-carlson": lambda: lab.trace("han-carlson-4", n=37),
    "harris": lambda: lab.trace("harris", n=37, SPARSITY=4),
}
"""One text serves a family. The family's plainest member can do without a barrier that another member needs."""


@pytest.mark.parametrize("name", every(6, SYNCHRONISED))
def test_no_barrier_can_go(name):
    """Each barrier of the textbook separates something: without the barrier there is a race, with both of its lines."""
    t = lab.trace(name, n=37, warp=4)
    found = lab.barriers(t)
    if name in NEEDED_ELSEWHERE:
        assert set(found.redundant) <= set(lab.barriers(NEEDED_ELSEWHERE[name]()).needed)
    else:
        assert found.minimal == found.needed
        assert not found.redundant
    assert found.needed
    sizes = {**dict.fromkeys(found.needed, t.n), **dict(found.elsewhere)}
    for line, n in sizes.items():
        report = lab.check(lab.trace(name, n=n, warp=4).case.run(without=[line]))
        assert any(f.kind == "race" and len(f.lines) == 2 for f in report), line


@pytest.mark.parametrize("name", every(4, ["kogge-stone", "brent-kung", "sklansky", "three-phase"]))
def test_a_removed_barrier_is_put_back(name):
    t = lab.trace(name, n=16)
    for line in lab.barriers(t).needed:
        broken = t.case.run(without=[line])
        mends = lab.barriers(broken).missing
        assert mends
        assert not races(t.case.run(without=[line], before=mends[0]))


def test_removal_is_renumbering():
    """A race that is found by renumbering epochs is found by running without the barrier, and vice versa."""
    text = """\
def extra(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    xy[t] = x[t]
    cuda.syncthreads()
    cuda.syncthreads()
    y[t] = xy[n - 1 - t]
"""
    t = lab.trace(text, n=4)
    found = lab.barriers(t)
    assert found.redundant == (("extra", 5), ("extra", 6))
    assert found.minimal == (("extra", 6),)
    assert "redundant: line 5" in str(found)
    assert races(t.case.run(without=[("extra", 5), ("extra", 6)]))
    assert not races(t.case.run(without=[("extra", 5)]))


def test_a_barrier_is_one_kernels_own():
    """The line of one kernel's barrier says nothing of another kernel's. One function that is launched twice has one barrier a
    line.
    """
    t = lab.trace("hierarchical", n=16)
    (first,) = [s for s in lab.barriers(t).needed if s.kernel == "scan_sections"][:1]
    assert t.case.run(without=[first]).machine.passed != t.machine.passed
    assert t.case.run(without=[("kogge_stone", first.line)]).machine.passed == t.machine.passed
    twice = lab.barriers(lab.trace("summed-area-table", n=16)).needed
    assert len(twice) == len(set(twice)) == 2


HAZARDS = {
    "RAW": "xy[t] = x[t]\n    y[t] = xy[(t + 1) % n]",
    "WAR": "xy[t] = x[t]\n    cuda.syncthreads()\n    v = xy[(t + 1) % n]\n    xy[t] = v\n    y[t] = v",
    "WAW": "xy[0] = x[t]\n    cuda.syncthreads()\n    y[t] = xy[0]",
}


@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazards(hazard):
    text = f"def kernel(x, y, n):\n    t = cuda.threadIdx.x\n    xy = cuda.shared.array(BLOCK, dtype)\n    {HAZARDS[hazard]}\n"
    report = lab.check(lab.trace(text, n=4))
    assert {f.hazard for f in report if f.kind == "race"} == {hazard}
    race = next(f for f in report if f.kind == "race")
    assert race.witness is not None
    assert race.hazard in str(race)


def test_the_dropped_barrier_between_iterations_is_read_after_write():
    report = lab.check(lab.trace("ks-no-first-barrier"))
    assert {f.hazard for f in report} == {"RAW"}


WARP = """
def warp_local(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    xy[t] = x[t]
    cuda.syncwarp()
    y[t] = xy[t ^ 1]
"""


def test_a_warp_barrier_orders_its_warp():
    assert not lab.check(lab.trace(WARP, n=16, warp=4))
    assert lab.check(lab.trace(WARP.replace("t ^ 1", "t ^ 4"), n=16, warp=4)).kinds == {"race"}
    assert lab.check(lab.trace(WARP.replace("    cuda.syncwarp()\n", ""), n=16, warp=4)).kinds >= {"race"}


@pytest.mark.parametrize("resident", [1, 2, 3])
def test_domino_deadlocks_when_issued_backwards(resident):
    t = lab.trace("domino", n=16, block=4, resident=resident, issue="descending")
    (finding,) = lab.check(t)
    assert finding.kind == "deadlock"
    assert "cannot start" in finding.text
    source = t.kernels[0].source
    assert "cuda.atomic.add(flags, bid, 0)" in source.line(finding.lines[0])
    assert not lab.check(lab.trace("domino-dynamic", n=16, block=4, resident=resident, issue="descending"))
    assert not lab.check(lab.trace("domino", n=16, block=4, resident=resident))


def test_domino_finishes_backwards_where_all_blocks_fit():
    assert not lab.check(lab.trace("domino", n=16, block=4, issue="descending"))


def test_blocks_do_not_wait_for_each_other():
    report = lab.check(lab.trace("hopeful-neighbours"))
    race = next(f for f in report if f.kind == "race")
    assert "block 0" in race.text
    assert "block 1" in race.text


HANDED_ON = """
def handed_on(x, y, data, flag):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[t] = x[t]
        cuda.syncthreads()
        if t == 0:
            cuda.threadfence()
            cuda.atomic.add(flag, 0, 1)
    else:
        if t == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        y[t] = data[3 - t]
"""


def test_a_barrier_hands_on_what_a_fence_made_sure_of():
    """All threads of one block write and one releases. One thread of the other block acquires and all read."""

    def check(text):
        return lab.check(
            lab.trace(text, 2, 4, ([1, 2, 3, 4], lab.empty(4), lab.empty(4), [0])), witness=False
        ).kinds

    assert not check(HANDED_ON)
    for barrier in (
        "        cuda.syncthreads()\n        if t == 0:",
        "        cuda.syncthreads()\n        y[t]",
    ):
        assert check(HANDED_ON.replace(barrier, barrier.replace("        cuda.syncthreads()\n", ""))) >= {
            "race"
        }
    for fence in (
        "            cuda.threadfence()\n            cuda.atomic",
        "            cuda.threadfence()\n        cuda",
    ):
        assert check(HANDED_ON.replace(fence, fence.replace("            cuda.threadfence()\n", ""))) == {
            "race"
        }


def test_global_memory_is_watched_too():
    text = "def reads(x, y, z, n):\n    i = cuda.grid(1)\n    y[i] = z[i]\n    y[i + 1] = x[i]\n"
    report = lab.check(lab.trace(text, 1, 4, ([1, 2, 3, 4], lab.empty(4), lab.empty(4), 4)))
    assert {"uninitialised", "out of bounds", "written twice", "race"} <= report.kinds
    assert "z[0]" in next(f.text for f in report if f.kind == "uninitialised")


def test_negative_indices_are_out_of_bounds():
    text = "def back(x, y, n):\n    i = cuda.grid(1)\n    y[i] = x[i - 1]\n"
    report = lab.check(lab.trace(text, n=4))
    (finding,) = [f for f in report if f.kind == "out of bounds"]
    assert "line 3" in finding.text


def test_reports_read_well():
    report = lab.check(lab.trace("ks-in-place"))
    assert str(report) == (
        "race: WAR on xy[1]: thread 2 reads it in line {0} and thread 1 writes it in line {0}, with nothing between them "
        "(6 words race here)\n"
        "    schedule ascending: y[2] becomes 7 instead of 6\n"
        "so, wrong value: y[2] holds x0 x0..x2 with something twice and not x0..x2 (6 words are wrong)"
    ).format(report[0].lines[0])
    assert str(lab.check(lab.trace("brent-kung", n=8))) == "nothing is wrong"


@pytest.mark.parametrize(
    "name",
    sorted({*lab.__all__} - {"Banks", "Case", "KernelError", "Schedule", "Trace", "empty", "trace"}),
)
def test_what_takes_a_trace_refuses_the_name_of_a_kernel(name):
    with pytest.raises(TypeError, match=rf"{name} takes the trace of a run.*lab\.trace\('blelloch', n=16\)"):
        getattr(lab, name)("blelloch")


def test_a_trace_says_what_to_keep_instead():
    with pytest.raises(TypeError, match=r"keep lab\.to_dict\(trace\)"):
        pickle.dumps(lab.trace("kogge-stone", n=4))
