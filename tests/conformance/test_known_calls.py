"""A call of the CUDA engine that is like an earlier one goes a shorter way to the same bits, with other data, numbers and lengths
in other memory. No GPU is needed.
"""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from conformance.cases import Call
from conformance.check import wrong
from portions import every
from upsweep import recall, short_way

ROW, ROWS, COLUMNS = ((1000,), 0), ((5, 300), 1), ((4097, 5), 0)
PLAIN = Call("hash-u64", ROW, out="given")
CALLS = {
    "row": PLAIN,
    "made": Call("hash2-u64", ROW),
    "in place": Call("hash-u64", ROWS, out="in place", reverse=True),
    "number": PLAIN._replace(initial="scalar", exclusive=True),
    "starts": Call("hash-u64", ROWS, initial="rows", outside="padded", out="given"),
    "flags": PLAIN._replace(segments="flags"),
    "ends": PLAIN._replace(segments="ends", reverse=True),
    "keys": PLAIN._replace(segments="keys", initial="scalar"),
    "lengths": PLAIN._replace(segments="lengths"),
    "offsets": PLAIN._replace(segments="offsets"),
    "columns": Call("add-float32", COLUMNS, initial="rows"),
    "order": Call("hash-u64", ((50, 70), 0), order="sequential", initial="rows"),
    "recurrence": Call("affine-float32-float32", ROWS, out="last"),
    "fused": Call("fused-both", ROW, out="given"),
    "reduction": Call("hash-u64", ROWS, reduce=True, initial="rows", out="given"),
}
"""By what the shorter way must not keep."""


LONG = Call("add-float32", ((24_576,), 0), reduce=True, out="given")
PARTS = {
    "2 of a row": (2, LONG),
    "3 reversed": (3, LONG._replace(at=((24_656,), 0), reverse=True, initial="scalar", out="new")),
    "3 of rows": (3, Call("add-float64", ((2, 9001), 1), reduce=True, initial="rows", inside="padded")),
    "3 of columns": (3, Call("hash-u64", ((600, 40), 0), reduce=True, reverse=True, initial="rows", out="given")),
    "3 of pairs": (3, Call("affine-float32-float32", ((9003,), 0), reduce=True, initial="scalar")),
}  # fmt: skip
"""Reductions of long rows, which are several launches, and how many."""


@pytest.fixture
def divided(monkeypatch):
    """Rows are long from 4096 bytes on."""
    from upsweep.gpu import reduction
    from upsweep.gpu.shapes import reductions

    monkeypatch.setattr(reductions, "BLOCK", (1 << 12, reductions.BLOCK[1]))
    reduction._parts.cache_clear()
    yield
    reduction._parts.cache_clear()


@pytest.fixture
def checked(monkeypatch):
    """The calls that were checked."""
    calls, longer = [], recall.execute
    monkeypatch.setattr(recall, "execute", lambda *given: calls.append(given) or longer(*given))
    return calls


@pytest.mark.parametrize("kept", every(2, CALLS))
def test_a_known_call_has_the_oracles_bits(emulated, found, checked, kept):
    assert wrong(CALLS[kept], emulated, draws=3) is None
    assert len(checked) == 1
    # Python writes marks; and the components to keep are another tuple in each call of this recurrence.
    assert len(found) == (kept not in ("keys", "lengths", "offsets", "recurrence"))


@pytest.mark.parametrize("kept", every(3, ["recurrence", "row", "number"]))
def test_a_known_call_without_the_c_part(emulated, checked, monkeypatch, kept):
    monkeypatch.setattr(short_way, "part", None)
    assert wrong(CALLS[kept], emulated, draws=3) is None
    assert len(checked) == 1


@pytest.mark.parametrize("parts", every(4, PARTS))
def test_a_known_reduction_in_parts_has_the_oracles_bits(emulated, divided, checked, monkeypatch, parts):
    from upsweep.gpu import driver

    launched, launch = [], driver.launch
    monkeypatch.setattr(driver, "launch", lambda *given: launched.append(given) or launch(*given))
    count, call = PARTS[parts]
    assert wrong(call, emulated, draws=3) is None
    assert len(checked) == 1
    assert len(launched) == 3 * count


LINES = Call("hash-u64", ((9, 40, 33), 1), inside="fortran")
BROUGHT = {
    "turned": (2, 1 << 28, LINES._replace(segments="flags", initial="rows", reverse=True)),
    "there and back": (3, 1 << 28, LINES._replace(outside="padded", out="given", order="sequential")),
    "results": (2, 1 << 28, Call("hash-u64", ((300, 14), 0), outside="stepped", out="given", segments="flags")),
    "pairs": (3, 1 << 28, LINES._replace(subject="affine-float32-float32", initial="scalar", segments="flags")),
    "reduced": (2, 1 << 28, Call("hash-u64", ((9, 33, 40), 2), inside="fortran", reduce=True, initial="rows", out="given")),
    "parts": (18, 1 << 14, Call("hash-u64", ((9, 40, 33), 1), inside="fortran", segments="flags", initial="rows")),
    "parts from a number": (9, 1 << 15, LINES._replace(subject="hash2-u64", exclusive=True, initial="scalar", segments="flags")),
}  # fmt: skip
"""Arrays that are brought elsewhere before they are scanned: how many launches, the bytes of a part, the call."""


@pytest.mark.parametrize("brought", every(4, BROUGHT))
def test_arrays_that_are_brought_elsewhere_have_the_oracles_bits(emulated, checked, monkeypatch, brought):
    from upsweep.gpu import driver
    from upsweep.gpu.shapes import bringing

    count, part, call = BROUGHT[brought]
    monkeypatch.setattr(bringing, "LEAST", 0)
    monkeypatch.setattr(bringing, "PART", part)
    monkeypatch.setattr(bringing, "PART_SIDE", 1)
    launched, launch = [], driver.launch
    monkeypatch.setattr(driver, "launch", lambda *given: launched.append(given) or launch(*given))
    assert wrong(call, emulated, draws=3) is None
    assert len(checked) == 1
    assert len(launched) == 3 * count


def test_a_state_alone_is_brought_to_where_it_belongs(emulated, checked, monkeypatch):
    """Of a recurrence's two components one is stored."""
    from upsweep.gpu.shapes import bringing

    monkeypatch.setattr(bringing, "LEAST", 0)
    rng = np.random.default_rng(5)
    for _ in range(3):
        a, b = rng.uniform(-1, 1, (2, 300, 14)).astype("f4")
        out = emulated.put(np.zeros(16 * a.size, np.uint8)).view("f4").reshape(300, 56)[:, ::4]
        up.linear_recurrence(emulated.value(a), emulated.value(b), axis=0, out=emulated.made(out))
        assert np.array_equal(out, up.linear_recurrence(a, b, axis=0))
    assert "upsweep_bring" in emulated.gpu.loaded
    # One of the device, and one of this machine.
    assert len(checked) == 2


@pytest.mark.parametrize("part", every(2, ["C", "Python"]))
def test_starts_of_this_machine_are_brought_in_each_call(emulated, monkeypatch, part):
    """Where they are converted first: float16 to the float32 in which float16 is summed."""
    if part == "Python":
        monkeypatch.setattr(short_way, "part", None)
    x = np.random.default_rng(5).normal(size=(2, 300)).astype("f2")
    for start in np.float32([[1, -2], [3, 0.5], [-7, 9]]).astype("f2"):
        got = up.scan(emulated.value(x), axis=1, initial=start)
        want = up.scan(x, axis=1, initial=start, engine="numpy")
        assert emulated.host(got).tobytes() == want.tobytes()


def test_an_array_given_twice_may_be_two_in_the_next_call(emulated, divided, checked):
    x, y = np.random.default_rng(5).normal(size=(2, 9003)).astype(np.float32)
    for given in ((x, x), (x, y), (y, x)):
        seen = {id(v): emulated.value(v) for v in given}
        got = up.reduce(tuple(seen[id(v)] for v in given), "affine", initial=(0.5, 2.0))
        want = up.reduce(given, "affine", initial=(0.5, 2.0), engine="numpy")
        assert [emulated.host(v).tobytes() for v in got] == [v.tobytes() for v in want]
    assert len(checked) == 4


def test_arrays_of_another_alignment_have_the_oracles_bits(emulated, checked):
    for call in (PLAIN, PLAIN._replace(inside="offset"), PLAIN._replace(outside="offset"), PLAIN):
        assert wrong(call, emulated) is None
    assert len(checked) == 1


def test_arrays_of_an_unknown_library_have_the_oracles_bits(emulated, checked):
    from emulator.device import Foreign

    emulated.made = Foreign
    for kept in ("made", "keys"):
        checked.clear()
        assert wrong(CALLS[kept], emulated) is None
        assert len(checked) == 2


def keeps(monkeypatch, at):
    """Has every run take one of its arrays from the first."""
    from upsweep.gpu import again

    learnt = again.again

    def stale(plan, views, given):
        run, first = learnt(plan, views, given), []

        def known(arrays):
            first.append(arrays)
            now = [*arrays]
            now[at] = first[0][at]
            return run(tuple(now))

        return known

    monkeypatch.setattr(again, "again", stale)


@pytest.mark.parametrize(
    ("kept", "at"),
    every(
        3,
        [
            ("row", 0), ("row", -1), ("made", -1), ("number", -1), ("starts", -1), ("flags", 1), ("keys", 1), ("lengths", 1),
            ("order", 0), ("recurrence", 1), ("3 reversed", 0), ("3 reversed", -1), ("3 of columns", 1),
        ],
    ),
)  # fmt: skip
def test_an_array_of_an_earlier_call_is_found(emulated, divided, monkeypatch, kept, at):
    keeps(monkeypatch, at)
    call = CALLS[kept] if kept in CALLS else PARTS[kept][1]
    assert wrong(call, emulated) is None
    assert wrong(call, emulated, draws=3)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (Call("add-float32", ((9000, 33), 0)), "p.control[2] = epoch"),
        (Call("hash-u64", ((40_000,), 0)), "(p.control + 2) = epoch + 1 == EPOCHS ? 1 : epoch"),
    ],
    ids=["columns", "clusters"],
)
def test_sums_of_an_earlier_launch_are_found(emulated, monkeypatch, call, step):
    """A launch that does not count epochs on has the next one take its sums for that one's own."""
    from upsweep.gpu import compile

    whole = compile.text
    emulated.forget()
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace(f"{step} + 1;", f"{step};"))
    assert any(wrong(call, emulated) for _ in range(5))
    emulated.forget()
