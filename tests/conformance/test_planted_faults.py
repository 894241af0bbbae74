"""Faults that are planted between the API and an engine are found, on each engine: the suite can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.cases import Call
from conformance.check import wrong
from upsweep import engine as engines
from upsweep import recall
from upsweep.numpy_engine import sweep
from upsweep.operator import Operator

ONE_ROW = Call("hash-u64", ((1000,), 0), out="given")
ROWS = Call("hash-u64", ((5, 4097), 1), out="given", outside="padded")


def swapped_operands(run, plan, xs, ys, initial, heads):
    fn = plan.op.fn
    run(replace(plan, op=Operator(lambda a, b: fn(b, a))), xs, ys, initial, heads)


def another_order(run, plan, xs, ys, initial, heads):
    run(replace(plan, order="tree" if plan.order == "sequential" else "sequential"), xs, ys, initial, heads)


def lost_initial(run, plan, xs, ys, initial, heads):
    run(replace(plan, initial=False), xs, ys, None, heads)


def first_rows_initial(run, plan, xs, ys, initial, heads):
    run(plan, xs, ys, [s if s.ndim == 0 else np.full_like(s, s.flat[0]) for s in initial], heads)


def shifted_head(run, plan, xs, ys, initial, heads):
    run(plan, xs, ys, initial, np.roll(heads, 1, -1))


def lost_heads(run, plan, xs, ys, initial, heads):
    run(replace(plan, segmented=False), xs, ys, initial, None)


def not_reversed(run, plan, xs, ys, initial, heads):
    run(replace(plan, reverse=False), xs, ys, initial, heads)


def not_exclusive(run, plan, xs, ys, initial, heads):
    run(replace(plan, exclusive=False), xs, ys, initial, heads)


def an_item_not_written(run, plan, xs, ys, initial, heads):
    kept = ys[0].flat[-1]
    run(plan, xs, ys, initial, heads)
    ys[0].flat[-1] = kept


def a_neighbour_written(run, plan, xs, ys, initial, heads):
    run(plan, xs, ys, initial, heads)
    np.lib.stride_tricks.as_strided(ys[0], (plan.n + 1,), ys[0].strides[-1:])[-1] = 0


def an_input_written(run, plan, xs, ys, initial, heads):
    run(plan, xs, ys, initial, heads)
    xs[0].flat[0] += 1


def results_written_too_soon(run, plan, xs, ys, initial, heads):
    xs[0].flat[1:] = ys[0].flat[:-1]
    run(plan, xs, ys, initial, heads)


def swapped_inputs(run, plan, xs, ys, initial, heads):
    fn = plan.map.fn
    run(replace(plan, map=replace(plan.map, fn=lambda x, y: fn(y, x))), xs, ys, initial, heads)


def places_from_one(run, plan, xs, ys, initial, heads):
    fn = plan.finish.fn
    run(
        replace(plan, finish=replace(plan.finish, fn=lambda p, x, y, i: fn(p, x, y, i + 1))),
        xs,
        ys,
        initial,
        heads,
    )


def maps_that_count_from_one(run, plan, xs, ys, initial, heads):
    fn = plan.map.fn
    run(replace(plan, map=replace(plan.map, fn=lambda x, i: fn(x, i + 1))), xs, ys, initial, heads)


def a_mapped_item_lost(run, plan, xs, ys, initial, heads):
    xs[1].flat[-1] = 0
    run(plan, xs, ys, initial, heads)


FUSED = Call("fused-both", ((1000,), 0), out="given")
FAULTS: list[tuple[Callable[..., None], Call]] = [
    (swapped_operands, ONE_ROW),
    (another_order, Call("hash-u64", ((257,), 0))),
    (lost_initial, ONE_ROW._replace(initial="scalar")),
    (lost_initial, ONE_ROW._replace(initial="scalar", reduce=True)),
    (first_rows_initial, ROWS._replace(initial="rows")),
    (shifted_head, ONE_ROW._replace(segments="offsets")),
    (lost_heads, ONE_ROW._replace(segments="keys")),
    (not_reversed, ONE_ROW._replace(reverse=True)),
    (not_exclusive, ONE_ROW._replace(exclusive=True, initial="scalar")),
    (an_item_not_written, ONE_ROW),
    (a_neighbour_written, ONE_ROW),
    (a_neighbour_written, ROWS),
    (an_input_written, ONE_ROW),
    (results_written_too_soon, ONE_ROW._replace(out="in place")),
    (swapped_inputs, FUSED),
    (places_from_one, FUSED._replace(reverse=True)),
    (maps_that_count_from_one, FUSED._replace(subject="fused-map")),
    (a_mapped_item_lost, FUSED),
    (results_written_too_soon, FUSED._replace(out="in place")),
]


@pytest.mark.parametrize(("fault", "call"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_found(here, fault, call, monkeypatch):
    assert wrong(call, here) is None
    module: Any = engines.load(here.engine)
    run = module.run
    monkeypatch.setattr(module, "run", lambda *given: fault(run, *given))
    # A call that ran before would run again without it.
    recall.forget()
    assert wrong(call, here)


def sklansky(steps, items, flags):
    """Sklansky's circuit (1960): it is as shallow, and it is another tree."""
    known = [np.concatenate([x[:1], x]) for x in items]
    n, d = len(items[0]), 1
    while d < n:
        for i in range(n):
            if i & d:
                at = (i | d - 1) - d
                left = [p[at + 1 : at + 2] for p in known]
                for p, y in zip(known, steps.combine(left, [p[i + 1 : i + 2] for p in known])):
                    p[i + 1] = y[0]
        d *= 2
    return known


def test_another_circuit_is_found(monkeypatch):
    from conformance.memory import device
    from upsweep import numpy_engine

    call = Call("hash-u64", ((7,), 0))
    monkeypatch.setattr(numpy_engine, "prefixes", sklansky)
    assert wrong(call._replace(at=((4,), 0)), device("numpy")) is None
    assert wrong(call, device("numpy"))


@pytest.mark.parametrize("levels", [0, 1])
def test_a_level_without_its_last_block_is_found(monkeypatch, levels):
    from conformance.memory import device

    joined = sweep._levels

    def short(steps, sums):
        made = joined(steps, sums)
        for x in made[levels].values:
            x[-1] = 0
        return made

    monkeypatch.setattr(sweep, "_levels", short)
    assert wrong(Call("hash-u64", ((1023,), 0)), device("numpy"))
