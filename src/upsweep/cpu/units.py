"""The units that a kernel is put together of. All but the operator's are compiled once for all scans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from upsweep import operators
from upsweep.cpu.code import Unit
from upsweep.cpu.words import Form
from upsweep.dtypes import as_bits, bits_of
from upsweep.function import unchanged
from upsweep.operator import identity_of
from upsweep.operators import BUILTIN, Row
from upsweep.plan import Plan


@cache
def kernel() -> Unit:
    """The code that every thread runs."""

    def make():
        from upsweep.cpu.kernel import run

        return run

    return Unit(("kernel",), 2, make, "the kernel", door=True)


@cache
def crew() -> Unit:
    """The code by which several threads run other code."""

    def make():
        from upsweep.cpu.crew import crew

        return crew

    return Unit(("crew",), 2, make, "threads at work")


@cache
def entry() -> Unit:
    """The code by which a small run comes in."""

    def make():
        from upsweep.cpu.entry import enter

        return enter

    return Unit(("entry",), 3, make, "the way in")


@cache
def turn_in(size: int) -> Unit:
    """Turn runs of items of this size into the lanes of a panel."""
    return Unit(("turn in", size), 6, _later("transpose", "turn_in", size), f"moves of {size} bytes")


@cache
def turn_out(size: int) -> Unit:
    """Turn the lanes of a panel into runs."""
    return Unit(("turn out", size), 6, _later("transpose", "turn_out", size), f"moves of {size} bytes")


@cache
def bring(stored: np.dtype, computed: np.dtype) -> Unit:
    """Bring lines of an array's items to scratch memory."""
    stored, computed = _moved(stored, computed)
    make = _later("lines", "bring", stored, computed)
    return Unit(("bring", stored.name, computed.name), 7, make, f"moves of {stored}")


@cache
def hand(computed: np.dtype, stored: np.dtype) -> Unit:
    """Hand lines of items from scratch memory to an array."""
    computed, stored = _moved(computed, stored)
    make = _later("lines", "hand", computed, stored)
    return Unit(("hand", computed.name, stored.name), 7, make, f"moves of {stored}")


@cache
def stream(size: int) -> Unit:
    """Hand lines of items of this size from scratch memory to an array, past the cache."""
    return Unit(("stream", size), 7, _later("lines", "stream", size), f"moves of {size} bytes")


@cache
def restart(size: int) -> Unit:
    """Set prefixes of this size to starts, at the heads of segments."""
    return Unit(("restart", size), 5, _later("lines", "restart", size), f"moves of {size} bytes")


def _later(module: str, name: str, *given: Any) -> Callable[[], Any]:
    """A call of a function of this folder. Only this call imports the function's module, and numba with it."""
    return lambda: getattr(import_module(f"upsweep.cpu.{module}"), name)(*given)


def _moved(source: np.dtype, target: np.dtype) -> tuple[np.dtype, np.dtype]:
    """Items that stay as they are move as bits of their size. Integers have signs only where they become wider."""
    if source == target:
        return bits_of(source.itemsize), bits_of(source.itemsize)
    if source.kind in "iu" and target.kind in "iu":
        target = bits_of(target.itemsize)
        source = source if source.itemsize < target.itemsize else bits_of(source.itemsize)
    return source, target


def sweep(plan: Plan, lanes: int, turned: bool, backward: bool) -> Unit:
    """The operator's own code for the tree's order, for rows side by side, `lanes` of them at once."""
    return _of_operator(plan, "sweep", 7, ("sweep", "sweeper"), lanes, turned, backward)


def blocks(plan: Plan, lanes: int) -> Unit:
    """The operator's own code for the tree's order, for narrow columns, `lanes` of them at once."""
    return _of_operator(plan, "blocks", 7, ("blocks", "sweeper"), lanes)


def short_passes(plan: Plan, lanes: int) -> Unit:
    """The operator's own code for less than 16 rows of columns, `lanes` of them at once."""
    return _of_operator(plan, "short passes", 5, ("short_passes", "short_passer"), lanes)


def steps(plan: Plan, lanes: int, backward: bool) -> Unit:
    """The operator's own code for scans in order, for rows side by side, `lanes` of them at once."""
    return _of_operator(plan, "steps", 7, ("sweep", "stepper"), lanes, backward)


def runs(plan: Plan, lanes: int) -> Unit:
    """The operator's own code for the tree's order along rows, for `lanes` runs at once."""
    return _of_operator(plan, "runs", 7, ("runs", "runner"), lanes)


def _of_operator(plan: Plan, name: str, arguments: int, maker: tuple[str, str], *lanes: int) -> Unit:
    """Code of the operator, which the function `maker` of a module makes."""
    # Only segments start from `initial` within a row.
    starts = plan.segmented and plan.initial
    # Code that only moves items serves all dtypes of their size. Segments choose between items: of floats that takes up to 1.3 of
    # its time where they are integers.
    items = as_bits(plan.accumulators, "iu" if plan.segmented else "iuf")
    make = _later(*maker, items, plan.segmented, starts, *lanes)
    frame = (name, _names(items), plan.segmented, starts, *lanes)
    return _with_hole(plan, frame, arguments, make, beforehand=plan.segmented or name == "steps", items=items)


def straight(plan: Plan) -> Unit:
    """The operator's own code along rows, where every order gives the same bits, or numbers' do."""
    row, variant = _built_in(plan)
    # To add, to multiply or to take bits is one instruction for signed and unsigned integers: these share the code.
    items = plan.accumulators if variant.vector[0] in "<>" else as_bits(plan.accumulators, "iu")

    def make():
        from upsweep.cpu import in_turn, pairs, straight

        if len(items) == 2:
            return pairs.runner(variant, items)
        # "last" has no identity, and needs none: any number before an item leaves the item as it is.
        (identity,) = identity_of(BUILTIN[row.name], items) or (0,)
        way = in_turn if items[0].kind == "f" else straight
        return way.runner(variant, items[0], identity)

    title = f"{row.name} of {', '.join(map(str, _names(plan.accumulators)))}"
    return Unit(("straight", row.name, *_names(items)), 7, make, title, plan.op)


def extremes(plan: Plan) -> Unit:
    """The code for the largest or the smallest of floats along rows, where none is NaN."""
    row, variant = _built_in(plan)
    (dtype,) = plan.accumulators

    make = _later("extremes", "runner", dtype, variant.vector == ">")
    return Unit(("extremes", row.name, dtype.name), 7, make, f"{row.name} of {dtype}")


def _built_in(plan: Plan) -> tuple[Row, operators.Variant]:
    """The row and the variant of a plan's built-in operator."""
    known = operators.variant_of(plan.op, plan.accumulators)
    assert known is not None
    return known


def walk(plan: Plan, form: Form, most: int) -> Unit:
    """The code of a scan in order, for strips of at most `most` rows."""
    needed = form.exclusive and not form.initial
    # Operators share the code that needs no identity.
    identity = identity_of(plan.op, plan.accumulators) if needed else None
    make = _later("walk", "walker", plan, identity, form, most)
    return _with_hole(plan, ("walk", _types(plan), repr(identity), form, most), 2, make, door=True)


def brief(plan: Plan, starts: tuple[int | None, ...]) -> Unit:
    """The code of rows of a few items, with so many bytes from the start of a row to that of the next."""
    frame = ("brief", _types(plan), plan.n, plan.order, plan.reduce, starts)
    return _with_hole(plan, frame, 2, _later("brief_rows", "scanner", plan, starts), door=True)


def mapping(plan: Plan, flat: tuple[bool, ...]) -> Unit:
    """The code of a plan's map, for lines; one item of a `flat` input stands for a line."""
    make = _later("fused", "mapper", plan.map, plan.loads, plan.accumulators, flat)
    return Unit(("map", *_types(plan)[:3], flat), 5, make, str(plan.map), plan.map)


def finishing(plan: Plan, flat: tuple[bool, ...]) -> Unit:
    """The code of a plan's finish, for lines."""
    make = _later("fused", "finisher", plan.finish, plan.loads, plan.accumulators, plan.stores, flat)
    return Unit(("finish", *_types(plan), flat), 5, make, str(plan.finish), plan.finish)


def grouping(plan: Plan, form: Any) -> Unit:
    """The code for groups whose items lie in any order."""
    make = _later("interleaved", "grouper", plan, form)
    return _with_hole(plan, ("grouping", _types(plan), form), 1, make, door=True, beforehand=True)


@cache
def group_entry() -> Unit:
    """The code by which a small run by groups comes in."""

    def make():
        from upsweep.cpu.group_entry import enter

        return enter

    return Unit(("group entry",), 2, make, "the way in of groups")


def counting(plan: Plan, initial: bool) -> Unit:
    """The code for a few items behind others."""

    def make():
        from upsweep.cpu.counter import Form, counter

        return counter(plan, Form(initial, plan.exclusive))

    frame = ("counting", _types(plan), initial, plan.exclusive)
    return _with_hole(plan, frame, 1, make, door=True, beforehand=True)


def _with_hole(
    plan: Plan, frame: tuple[Any, ...], arguments: int, make: Callable[[], Any], door: bool = False, beforehand: bool = False,
    items: tuple[np.dtype, ...] = (),
) -> Unit:  # fmt: skip
    """A unit of code with a hole for a plan's operator, which takes operands as `items`, if these are others."""
    unchanged(plan.op)
    title = f"{plan.op} of {', '.join(map(str, plan.loads))}"
    taken = items or plan.accumulators
    return Unit(frame, arguments, make, title, plan.op, plan.accumulators, taken, door, beforehand)


def _types(plan: Plan) -> tuple[Any, ...]:
    """The dtypes of a plan's inputs, components and outputs, and the functions between these."""
    for function in (plan.map, plan.finish):
        if function is not None:
            unchanged(function)
    return (
        plan.map and (plan.map.key[0], plan.map.arity, _names(plan.map.results)),
        _names(plan.loads),
        _names(plan.accumulators),
        plan.finish and (plan.finish.key[0], plan.finish.arity, _names(plan.finish.results)),
        _names(plan.stores),
    )


def _names(dtypes: Iterable[np.dtype | None]) -> tuple[str | None, ...]:
    return tuple(d and d.name for d in dtypes)
