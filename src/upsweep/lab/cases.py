"""From a kernel as a user names it to a case that can be run: a name of the textbook, a function, source text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from upsweep.lab.intervals import Intervals
from upsweep.lab.reading import source_of
from upsweep.lab.rewrite import rewrite
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Case
from upsweep.operator import OperatorError
from upsweep.operators import as_operator
from upsweep.textbook import KERNELS, Kernel, Launch, Setup, named
from upsweep.textbook.dialect import asks_for_identity
from upsweep.textbook.mistakes import MISTAKES, Mistake
from upsweep.textbook.setups import padding


@dataclass(frozen=True)
class Sized:
    """A way to make the same case for another number of items: the arguments of `case`, but for the items."""

    kernel: Callable[..., None] | str
    grid: int | None
    block: int | None
    given: tuple[tuple[str, Any], ...]

    def __call__(self, n: int) -> Case:
        return case(self.kernel, self.grid, self.block, n=n, identity=0, **dict(self.given))


class empty:
    """Memory of n words that nobody has written: reading one before it is written is a finding.

    >>> from upsweep import lab
    >>> copy = "def copy(x, y, n):\\n    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]\\n"
    >>> lab.trace(copy, 1, 3, ([3, 1, 7], lab.empty(3), 3)).values
    [3, 1, 7]
    """

    def __init__(self, n: int):
        self.n = n


def case(
    kernel: Callable[..., None] | str,
    grid: int | None = None,
    block: int | None = None,
    args: Sequence[Any] | None = None,
    *,
    n: int | None = None,
    x: Sequence[Any] | None = None,
    op: Any = "add",
    identity: Any = None,
    warp: int = 32,
    shared: int = 0,
    like: str | None = None,
    expect: str | None = None,
    itemsize: int = 4,
    **names: Any,
) -> Case:
    """The case behind `lab.trace`, with the same arguments."""
    if grid is not None and not isinstance(grid, (int, np.integer)):
        raise TypeError(
            f"grid is a number of blocks, got {type(grid).__name__}: items are given by name, trace(kernel, x=items)"
        )
    if isinstance(kernel, str) and kernel in MISTAKES:
        return _mistake(MISTAKES[kernel], op, warp)
    row = named(kernel) if isinstance(kernel, str) and "def " not in kernel else None
    model = row or KERNELS.get(like or "")
    if args is not None:
        items, setup, shape = _given(kernel, grid or 1, block or 1, args, names, shared)
    else:
        items, shape = _items(n, x, model), None
        setup = _setup(kernel, row, model, len(items), grid, block, warp, names, shared)
    operator, row = as_operator(op), model
    if row and row.answer and operator is not as_operator("add"):
        raise ValueError(f"{row.name} is written for sums: leave op out")
    kind = expect or (row.result if row else "")
    neutral = identity if identity is not None else operator.identity
    neutral = neutral(np.asarray(items[0]).dtype) if callable(neutral) else neutral
    for launch in setup.launches:
        if neutral is None and callable(launch.kernel) and asks_for_identity(launch.kernel):
            raise OperatorError(f"{launch.kernel.__name__} needs the identity of {operator}: pass identity=")
    name = kernel if isinstance(kernel, str) and "def " not in kernel else source_of(kernel).name
    given = {"warp": warp, "shared": shared, "like": like, "expect": expect, "itemsize": itemsize, **names}
    sized = Sized(kernel, grid, block, tuple(sorted(given.items()))) if args is None else None
    return Case(
        name, setup, tuple(v.item() if isinstance(v, np.generic) else v for v in items), operator.fn, str(operator),
        neutral, expected(kind, setup.tile, len(items)), row.answer if row else None, row.needs if row else "", warp,
        itemsize=itemsize, shape=shape, sized=sized,
    )  # fmt: skip


def _mistake(row: Mistake, op: Any, warp: int) -> Case:
    operator = as_operator(op)
    x = row.x or tuple(range(1, row.n + 1))
    neutral = operator.identity(np.asarray(x[0]).dtype) if callable(operator.identity) else operator.identity
    return Case(row.name, row.setup, x, operator.fn, str(operator), neutral, expected(row.result, row.setup.tile, row.n),
                row.answer, row.needs, warp, Schedule(**dict(row.schedule)))  # fmt: skip


def _items(n: int | None, x: Sequence[Any] | None, row: Kernel | None) -> Sequence[Any]:
    """The items of the scan: x, or 1 to n, whose sums nobody mistakes for one another."""
    given = n if x is None else len(x)
    if given is None or given < 1:
        raise ValueError(f"a trace needs n >= 1 items, or x; got n = {given}")
    if x is not None:
        return list(x)
    return (
        [k % 8 for k in range(given)]
        if row and row.name in ("range-histogram", "range-query")
        else list(range(1, given + 1))
    )


def _setup(kernel: Any, row: Kernel | None, model: Kernel | None, n: int, grid: int | None, block: int | None, warp: int,
           names: dict[str, Any], shared: int) -> Setup:  # fmt: skip
    if model is None:
        block = block or n
        sizes = {"BLOCK": block, "TILE": n, "WORDS": n, "WARP": warp, **names}
        launch = Launch(kernel, grid or -(-n // block), block, ("x", "y", n), sizes, shared)
        return Setup((launch,), {"y": n}, n)
    setup = model.setup(n, block or model.block(n), warp)
    launches = [
        replace(launch, names={**launch.names, **_padded(launch, names), **names})
        for launch in setup.launches
    ]
    if row is None:
        scope = {k: v for k, v in model.function.__globals__.items() if k.isupper()}
        launches = [
            replace(launch, kernel=kernel, names={**scope, **launch.names})
            if launch.kernel is model.function
            else launch
            for launch in launches
        ]
    return replace(setup, launches=tuple(launches))


def _padded(launch: Launch, names: dict[str, Any]) -> dict[str, int]:
    """Another padding asks for another number of words."""
    pads = "LOG_BANKS" in launch.names and "LOG_BANKS" in names
    return padding(launch.names["TILE"], names["LOG_BANKS"]) if pads else {}


def _given(
    kernel: Any, grid: int, block: int, args: Sequence[Any], names: dict[str, Any], shared: int
) -> tuple[Any, Setup, Any]:
    """The case of a kernel launched on arguments: the first array holds the items."""
    parameters = rewrite(source_of(kernel)).parameters
    if len(parameters) != len(args):
        raise ValueError(
            f"the kernel takes {len(parameters)} arguments ({', '.join(parameters)}), got {len(args)}"
        )
    buffers: dict[str, Any] = {}
    x, shape, words = None, None, []
    for name, value in zip(parameters, args):
        if isinstance(value, empty):
            buffers[name] = value.n
        elif isinstance(value, (list, tuple, np.ndarray)):
            if x is None:
                x, shape, name = list(np.ravel(np.asarray(value, object))), np.shape(value), "x"
            else:
                buffers[name] = [v.item() if isinstance(v, np.generic) else v for v in value]
        else:
            words.append(value)
            continue
        words.append(name)
    if x is None:
        raise ValueError("one of the arguments must be an array: the items of the scan")
    sizes = {"BLOCK": block, "TILE": len(x), **names}
    return x, Setup((Launch(kernel, grid, block, tuple(words), sizes, shared),), buffers, len(x)), shape


def expected(kind: str, tile: int, n: int) -> Callable[[int], Intervals | None] | None:
    """The inputs that each word of the result must be made of."""

    def inclusive(i: int) -> Intervals | None:
        return ((i // tile * tile, i),)

    def exclusive(i: int) -> Intervals | None:
        return ((i // tile * tile, i - 1),) if i % tile else ()

    def reduction(i: int) -> Intervals | None:
        return ((i * tile, min((i + 1) * tile, n) - 1),)

    return {"inclusive": inclusive, "exclusive": exclusive, "reduction": reduction}.get(kind)
