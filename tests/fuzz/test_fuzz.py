"""A part of the fuzzer in every run of the tests: the same cases each time. `make fuzz` makes others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plain
import pytest
from case import Difference, Run

import upsweep as up
from conformance.conftest import emulated  # noqa: F401  # a fixture
from portions import parts

SEED = 20780
CASES = {"cpu": 240, "numpy": 2000, "cuda": 240}


@pytest.mark.parametrize("engine", CASES)
@parts(4)
def test_no_difference(engine, part, request):
    if engine == "cuda":
        request.getfixturevalue("cuda")
    run = Run(SEED, engine)
    if not run.libraries:
        pytest.skip("no library whose arrays this engine scans is here")
    for number in range(part, CASES[engine], 4):
        run.check(number)


@pytest.mark.parametrize("cases", [range(12), pytest.param(range(12, 120), marks=pytest.mark.slow)], ids=len)
def test_no_difference_in_the_emulator(emulated, cases):  # noqa: F811
    """The CUDA engine's own kernels, on a machine without a GPU."""
    run = Run(SEED, "cuda", emulated)
    for number in cases:
        run.check(number)


def test_it_bites_in_the_emulator(emulated, monkeypatch):  # noqa: F811
    """A launch whose first input begins elsewhere is found."""
    from upsweep.gpu import launch

    whole = launch._offsets
    monkeypatch.setattr(launch, "_offsets", lambda *given: (whole(*given)[0] + 16, *whole(*given)[1:]))
    run = Run(SEED, "cuda", emulated)
    with pytest.raises(Difference, match=f"python tests/fuzz --engine emulated --seed {SEED} --case"):
        list(map(run.check, range(12)))


def in_order(op, items):
    return plain.scan(op, items, [False] * len(items), None, None, order="sequential")


def test_the_oracle_by_hand():
    """Five items as letters: the result spells the items that the tree folds, and their order."""

    def joined(a, b):
        return (f"({a[0]}{b[0]})",)

    items = [(letter,) for letter in "abcdefg"]
    plain_choose, plain.choose = plain.choose, lambda flag, a, b: a if flag else b
    try:
        flags = [False] * 7
        assert [y for (y,) in plain.scan(joined, items, flags, None, None)] == [
            "a", "(ab)", "((ab)c)", "((ab)(cd))", "(((ab)(cd))e)", "(((ab)(cd))(ef))", "((((ab)(cd))(ef))g)",
        ]  # fmt: skip
        assert in_order(joined, items)[3] == ("(((ab)c)d)",)
        flags[2] = True
        assert [y for (y,) in plain.scan(joined, items, flags, ("-",), None)][:4] == [
            "(-a)",
            "(-(ab))",
            "(-c)",
            "(-(cd))",
        ]
        shifted = plain.scan(joined, items, flags, None, ("0",), exclusive=True)
        assert [y for (y,) in shifted][:4] == ["0", "a", "0", "c"]
    finally:
        plain.choose = plain_choose


def test_an_operator_that_the_oracle_does_not_know(monkeypatch):
    monkeypatch.setitem(up.operators.BUILTIN, "hypot", up.Operator(np.hypot))
    with pytest.raises(LookupError, match="does not know hypot"):
        Run(SEED, "numpy").case(0)


def heads_shifted(fn):
    return lambda segments, shape, axis, like: np.roll(fn(segments, shape, axis, like), 1)


def initial_lost(fn):
    return lambda value, dtype, like: np.zeros_like(fn(value, dtype, like))


def written_before_read(fn):
    def run(plan, xs, ys, initial, heads):
        for y in ys:
            if y is not None:
                y[...] = 1
        fn(plan, xs, ys, initial, heads)

    return run


def one_byte_more(fn):
    def run(plan, xs, ys, initial, heads):
        fn(plan, xs, ys, initial, heads)
        for y in ys:
            if (
                y is not None
                and y.base is not None
                and y.base.dtype == np.uint8
                and y.flags.c_contiguous
                and y.size
            ):
                at = y.ctypes.data - y.base.ctypes.data + y.nbytes
                y.base[at : at + 1] ^= 255

    return run


def another_place(fn):
    return lambda plan, like, wanted: [np.roll(place, 1, 0) for place in fn(plan, like, wanted)]


def folded_in_order(fn):
    """A fault: the loop's order where the tree's is asked for."""

    def run(plan, *rest):
        fn(replace(plan, order="sequential"), *rest)

    return run


FAULTS = [
    ("heads", heads_shifted, 1), ("start", initial_lost, 1), ("run", written_before_read, 1), ("run", one_byte_more, 1),
    ("run", folded_in_order, 1), ("_places", another_place, 12),
]  # fmt: skip
"""Each with a seed of which an early kernel knows what the fault spoils."""


@pytest.mark.parametrize(("name", "fault", "seed"), FAULTS, ids=lambda f: getattr(f, "__name__", f))
def test_it_bites(name, fault, seed, monkeypatch):
    """Each planted fault is found, and the printed line finds it again."""
    module = up.engine.load("numpy")
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    found = next(filter(None, (difference_in(seed, number) for number in range(600))), None)
    assert found is not None, "the planted fault was not found in 600 cases"
    number, words = found
    assert f"python tests/fuzz --engine numpy --seed {seed} --case {number}" in words
    assert difference_in(seed, number) == found


def difference_in(seed, number):
    try:
        Run(seed, "numpy").check(number)
    except Difference as found:
        return number, str(found)
    return None
