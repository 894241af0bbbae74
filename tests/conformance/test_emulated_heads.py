"""Where segments start, as kernels hold it: bits of a list that all rows share, and heads of bytes that go four at a time."""

from __future__ import annotations

import pytest

from conformance.cases import Call
from conformance.check import wrong
from portions import every, parts

LISTED = {
    "short": Call("hash-u64", ((30, 200), 0), segments="line", reverse=True, initial="rows"),
    "short, heads in two words": Call("add-float32", ((61, 200), 0), segments="line", exclusive=True),
    "batches": Call("hash-u64", ((900, 129, 10), 1), segments="lengths", reverse=True),
    "rows": Call("hash-u64", ((600, 70), 1), segments="lengths", inside="padded"),
    "columns": Call("max-float32", ((700, 129), 0), segments="line", exclusive=True, initial="scalar"),
    "columns, few": Call("hash-u64", ((2101, 2), 0), segments="line", exclusive=True, initial="scalar"),
    "columns, few backwards": Call("hash-u64", ((2102, 4), 0), segments="line", reverse=True),
}
BYTES = {
    "rows as they lie in pieces of memory": Call("max-uint8", ((530, 470), 1), segments="lengths"),
    "rows as they lie, backwards": Call("add-uint8", ((530, 471), 1), segments="lengths", reverse=True),
    "rows that begin anywhere": Call(
        "add-int8", ((600, 70), 1), segments="line", exclusive=True, initial="rows"
    ),
    "rows backwards": Call("min-int8", ((530, 130), 1), segments="line", reverse=True, inside="padded"),
    "rows of every second byte": Call(
        "max-uint8", ((530, 130), 1), segments="line", reverse=True, inside="stepped"
    ),
    "heads of each": Call("xor-bool", ((530, 130), 1), segments="flags"),
}
TILES = [
    Call("and-uint8", ((3, 20_000), 1), segments="flags", exclusive=True),
    Call("min-int8", ((20_001,), 0), segments="lengths"),
    Call("add-uint8", ((5, 10_001), 1), segments="line", reverse=True),
    Call("last-float32", ((20_001,), 0), segments="lengths", reverse=True, initial="scalar"),
    Call("add-int16", ((3, 20_000), 1), segments="flags", exclusive=True),
    Call("max-float16", ((20_001,), 0), segments="flags", reverse=True),
    Call("xor-int64", ((2, 9001), 1), segments="line", exclusive=True, initial="rows"),
    Call("max-uint16", ((2, 9001), 1), segments="lengths", reverse=True),
]


@pytest.mark.parametrize("kernel", LISTED)
def test_a_list_for_all_rows(emulated, kernel):
    assert wrong(LISTED[kernel], emulated, 1) is None
    assert f"upsweep_{kernel.split(',')[0]}" in emulated.gpu.loaded


@pytest.mark.parametrize("how", every(2, BYTES))
def test_bytes_within_segments(emulated, how):
    assert wrong(BYTES[how], emulated, 1) is None
    assert "upsweep_rows" in emulated.gpu.loaded


IN_ORDER = [
    Call("add-float32", ((40, 256), 1), segments="ends", order="sequential", reverse=True),
    Call("add-float32", ((33, 90), 1), segments="ends", order="sequential", reverse=True, inside="padded"),
    # A stage of fewer heads than are copied at once.
    Call("affine-complex128-complex128", ((40, 64), 1), segments="ends", order="sequential", reverse=True),
]


@pytest.mark.parametrize("call", every(3, IN_ORDER), ids=lambda call: call.subject)
def test_heads_of_rows_that_are_walked_backwards(emulated, call):
    """Ends of each item: they are copied 16 at once, from the one that lies first in memory."""
    assert wrong(call, emulated, 1) is None
    assert "upsweep_walk" in emulated.gpu.loaded


@parts(3)
def test_any_order_within_segments_of_long_rows(emulated, monkeypatch, part):
    from upsweep.gpu import sweeps

    monkeypatch.setattr(sweeps, "for_small", lambda *_: None)
    for call in TILES[part::3]:
        emulated.gpu.loaded.clear()
        assert wrong(call, emulated, 1) is None, call
        assert "upsweep_tiles" in emulated.gpu.loaded


PLACED = [
    Call("max-int8", ((40_001,), 0), reverse=True),
    Call("add-uint8", ((3, 50_003), 1), exclusive=True, initial="rows"),
]


@parts(2)
def test_long_rows_of_bytes_are_cut_where_pieces_of_memory_end(emulated, monkeypatch, part):
    from upsweep.gpu import launch, sweeps

    found, choose = [], launch.choose
    monkeypatch.setattr(sweeps, "for_small", lambda *_: None)
    monkeypatch.setattr(launch, "choose", lambda *given: found.append(choose(*given)) or found[-1])
    assert wrong(PLACED[part], emulated, 1) is None
    assert {choice.before for _, choice in found if choice.kernel == "tiles"} == {15}


FAULTS = [
    ("short", "const int k = first + threadIdx.x % 32;", "const int k = first + threadIdx.x % 32 ^ 1;"),
    ("short, heads in two words", "!= 0) << first;", "!= 0) << 0;"),
    ("batches", "list[j / 32]", "list[0]"),
    ("rows", "w + 1 + (at >> 5)", "w + (at >> 5)"),
    ("columns, few backwards", "HEIGHT - (run + 1) * ITEMS", "run * ITEMS"),
    ("columns, few backwards", "low(from) % 4 * 8", "from % 4 * 8"),
    ("rows that begin anywhere", "none &= open[k];", ""),
    ("rows that begin anywhere", "keep_bytes(last, open[k], anew) : inclusive", "last : inclusive"),
    ("rows as they lie in pieces of memory", "within * ITEMS - before_row", "within * ITEMS"),
    ("rows as they lie in pieces of memory", "if (reach >= d)", "if (lane >= d)"),
    ("rows as they lie, backwards", "base, BACK_IN)", "base, false)"),
    ("rows of every second byte", "words[2 * i + BACK_IN]", "words[2 * i]"),
    ("rows backwards", "BACK_IN == BACK_OUT ? b", "BACK_IN != BACK_OUT ? b"),
]


@pytest.mark.parametrize(("call", "right", "fault"), every(6, FAULTS))
def test_a_fault_is_found(emulated, call, right, fault, monkeypatch):
    from upsweep.gpu import compile

    text, planted_in = compile.text, set()

    def planted(kernel, spec):
        whole = text(kernel, spec)
        if right in whole:
            planted_in.add(kernel)
        return whole.replace(right, fault)

    monkeypatch.setattr(compile, "text", planted)
    emulated.forget()
    assert wrong((LISTED | BYTES)[call], emulated, 1) is not None
    assert planted_in == {call.replace(",", "").split()[0]}
    emulated.forget()
