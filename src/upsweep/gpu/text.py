"""The part of a kernel's text that says what is scanned. Every kernel reads it in this form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upsweep.gpu import functions, params
from upsweep.gpu.demands import costly
from upsweep.gpu.layout import Layout
from upsweep.plan import Plan


def declared(
    plan: Plan,
    layout: Layout,
    numbers: dict[str, Any],
    truths: dict[str, bool],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    components: Sequence[dict[str, Any]] = (),
) -> str:
    """The part of the text that says what is scanned. The last three arguments say how each array is moved, and where block
    sums are kept.
    """
    numbers = {**numbers, "WIDEST": max(x.size for x in (*layout.moving(), *layout.stores))}
    truths = {**truths, "INITIAL": plan.initial, "EXCLUSIVE": plan.exclusive, "REDUCE": plan.reduce}
    truths["COSTLY"] = costly(plan)
    # A tile may end behind the last item.
    truths["NEAR_ITEMS"] = layout.n <= 1 << 30
    lines = [
        f"#define SEGMENTED {int(plan.segmented)}",
        *(f"constexpr int {name} = {value};" for name, value in numbers.items()),
        *(f"constexpr bool {name} = {str(value).lower()};" for name, value in truths.items()),
        "template <int I> struct Input;",
        "template <int C> struct Component;",
        "template <int O> struct Output;",
    ]

    def struct(name: str, types: dict[str, str], moved: dict[str, Any]) -> None:
        typedefs = [f"typedef {known} {alias};" for alias, known in types.items()]
        constants = [
            f"static constexpr int {key} = {int(value) if isinstance(value, bool) else value};"
            for key, value in moved.items()
        ]
        lines.append(f"template <> struct {name} {{ {' '.join([*typedefs, *constants])} }};")

    told = 0
    for i, (x, dtype, value, moved) in enumerate(
        zip(layout.loads, plan.loads, functions.given(plan), inputs)
    ):
        memory, size = functions.memory_type(dtype), dtype.itemsize
        if x.woven:
            memory = f"Woven<{x.size // size}, {x.behind}>"
        elif x.size > size:
            memory = f"Spaced<{memory}, {x.size // size}, {x.behind // size}>"
        if layout.truths:
            memory = f"Truths<{memory}>"
        types = {"Load": memory, "Value": functions.value_type(value)}
        lies = {"still": x.still, "same": bool(x.rows) and x.rows[-1] == 0, "told": told if x.told else -1}
        struct(f"Input<{i}>", types, {**lies, **moved})
        told += x.told
    for c, dtype in enumerate(plan.accumulators):
        struct(f"Component<{c}>", {"Acc": functions.value_type(dtype)}, components[c] if components else {})
    for o, (dtype, moved) in enumerate(zip(params.stored(plan), outputs)):
        struct(f"Output<{o}>", {"Store": functions.memory_type(dtype)}, moved)
    return (
        "\n".join(lines)
        + "\n"
        + params.text(arity(plan, layout), numbers["DIMS"])
        + functions.functions_text(plan)
    )


def arity(plan: Plan, layout: Layout) -> params.Arity:
    told = sum(x.told for x in layout.loads)
    return params.Arity(len(plan.loads), len(plan.accumulators), len(layout.stores), told)
