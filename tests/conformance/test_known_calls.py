"""A call of the CUDA engine that is like an earlier one goes a shorter way to the same bits, with other data, numbers and lengths
in other memory. No GPU is needed.
"""

from __future__ import annotations

import pytest

from conformance.cases import Call
from conformance.check import wrong
from upsweep import recall

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


@pytest.fixture
def checked(monkeypatch):
    """The calls that were checked."""
    calls, longer = [], recall.execute
    monkeypatch.setattr(recall, "execute", lambda *given: calls.append(given) or longer(*given))
    return calls


@pytest.mark.parametrize("kept", CALLS)
def test_a_known_call_has_the_oracles_bits(emulated, checked, kept):
    assert wrong(CALLS[kept], emulated, draws=3) is None
    assert len(checked) == 1


def test_arrays_of_another_alignment_go_the_long_way(emulated, checked):
    for call, times in (
        (PLAIN, 1),
        (PLAIN._replace(inside="offset"), 3),
        (PLAIN._replace(outside="offset"), 5),
        (PLAIN, 5),
    ):
        assert wrong(call, emulated) is None
        assert len(checked) == times


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
    [
        ("row", 0), ("row", -1), ("made", 1), ("made", -1), ("in place", -1), ("number", -1), ("starts", -1), ("flags", 1),
        ("ends", 1), ("keys", 1), ("keys", -1), ("lengths", 1), ("offsets", 1), ("columns", -1), ("order", 0),
        ("recurrence", 1), ("fused", 1), ("reduction", -1),
    ],
)  # fmt: skip
def test_an_array_of_an_earlier_call_is_found(emulated, monkeypatch, kept, at):
    keeps(monkeypatch, at)
    assert wrong(CALLS[kept], emulated) is None
    assert wrong(CALLS[kept], emulated, draws=3)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (Call("add-float32", ((9000, 33), 0)), "p.control[2] = epoch"),
        (Call("hash-u64", ((40_000,), 0)), "*word = epoch + 1 == EPOCHS ? 1 : epoch"),
    ],
    ids=["columns", "clusters"],
)
def test_sums_of_an_earlier_launch_are_found(emulated, monkeypatch, call, step):
    """A launch that does not count epochs on has the next one take its sums for that one's own."""
    from upsweep.gpu import compile

    whole = compile.text
    emulated.forget()
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace(f"{step} + 1;", f"{step};"))
    assert wrong(call, emulated, draws=1) is None
    assert any(wrong(call, emulated) for _ in range(5))
    emulated.forget()


def test_marks_of_an_earlier_call_are_found(emulated, monkeypatch):
    """Memory in which nothing was set to zero before segments are marked."""
    from upsweep.gpu import driver

    monkeypatch.setattr(driver, "fill_bytes", lambda *_: None)
    assert wrong(CALLS["lengths"], emulated)
