"""Layers of recurrent models, whatever library's arrays they are given: their operands, what fits, what their gates compute.

`upsweep.torch` and `upsweep.jax` read this table; `gated.py` and `selective.py` run the layers on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from upsweep import dtypes
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError
from upsweep.segments import SegmentError

# PyTorch's compiler looks into these functions, and warns of a cache.
row_of = dtypes.row_of.__wrapped__


class Library(NamedTuple):
    """The questions that the checks ask of an array library."""

    dtype: Callable[[str], Any]
    """The library's dtype of that name."""
    beside: Callable[[Any, str, Any], None]
    """(operand, name, like): a ShapeError where they do not lie on one device."""
    lines: Callable[[Any], Any]
    """An operand with an item for each step, so that neighbours along the last axis touch."""
    cast: Callable[[Any, Any], Any]
    """An operand as a dense array of a dtype."""
    offsets: Callable[[Any, int, Any], Any]
    """(cu_seqlens, steps, like): as integers beside `like`, checked where they are known."""
    maths: Any
    """exp, expm1, sqrt, sigmoid and softplus."""


class Gated(NamedTuple):
    """A layer of one state a channel, whose decay and input are made of gates."""

    inputs: tuple[str, ...]
    """The operands with an item for each step."""
    parameter: str
    """The operand with an item for each channel; "" where there is none."""
    gates: Callable[..., tuple[Any, Any]]
    """(maths, parameter, *inputs) -> (a, b) of `h = a h + b`, by a library's own functions."""


def _rg_lru(maths: Any, decay: Any, x: Any, into: Any, open_: Any) -> tuple[Any, Any]:
    decay = -8 * maths.softplus(decay) * maths.sigmoid(open_)
    return maths.exp(decay), maths.sqrt(-maths.expm1(2 * decay)) * (maths.sigmoid(into) * x)


def _min_gru(maths: Any, _: Any, x: Any, gate: Any) -> tuple[Any, Any]:
    return maths.sigmoid(-gate), maths.sigmoid(gate) * x


def _hgrn(maths: Any, lower: Any, x: Any, gate: Any) -> tuple[Any, Any]:
    shut = (1 - lower) * maths.sigmoid(-gate)
    return 1 - shut, shut * x


GATED = {
    "rg_lru": Gated(("x", "input_gate", "recurrence_gate"), "decay", _rg_lru),
    "min_gru": Gated(("x", "gate"), "", _min_gru),
    "hgrn": Gated(("x", "forget_gate"), "lower_bound", _hgrn),
}
SELECTIVE = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")
"""The operands of a selective scan."""
OPTIONAL = ("D", "z", "delta_bias")
"""Those that may be missing."""
CONSTANT = (2, 5, 7)
"""The places of the operands that are the same for all steps: A, D and delta_bias. The backward pass sums their gradients over
the sequences.
"""
ONCE = (
    "selective_scan has no second derivatives, and none in forward mode: it keeps no state to take them from"
)
CHUNK = 16
"""Steps of a selective scan from one kept state to the next. The backward pass starts from the kept states."""
REAL = ("float32", "float64", "bfloat16", "float16")
COMPLEX = ("complex64", "complex128")


def computed(library: Library, x: Any, name: str, rank: str, wanted: Sequence[str], what: str) -> Any:
    """The dtype that a layer computes in, of an input that has the right rank and a dtype among those wanted."""
    required(x, name)
    if x.ndim != 3:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; a layer takes ({rank})")
    row = row_of(x.dtype)
    if row is None or row.name not in wanted:
        *some, last = wanted
        raise DTypeError(f"{name} is {x.dtype}; {what} {', '.join(some)} and {last}")
    return library.dtype(row.accumulator)


def wide(library: Library, x: Any, name: str, shape: tuple[int, ...], like: Any) -> Any:
    """An operand with an item for each step, of the dtype and device of `like`."""
    _shaped(x, name, shape)
    if x.dtype != like.dtype:
        raise DTypeError(f"{name} is {x.dtype}; pass {like.dtype}, as the other operands that vary in time")
    library.beside(x, name, like)
    return library.lines(x)


def constant(library: Library, x: Any, name: str, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """An operand that is the same for all steps, in the dtype that is computed in."""
    _shaped(x, name, shape)
    if _kind(x.dtype) == "c" != _kind(dtype):
        raise DTypeError(f"{name} is {x.dtype}; this layer computes in {dtype}")
    library.beside(x, name, like)
    return library.cast(x, dtype)


def state(library: Library, x: Any, name: str, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """A state, which is of the dtype that is computed in: one of another dtype would be rounded unasked."""
    _shaped(x, name, shape)
    if x.dtype != dtype:
        raise DTypeError(f"{name} is {x.dtype}; the states of {like.dtype} are {dtype}: convert it first")
    library.beside(x, name, like)
    return library.cast(x, dtype)


def packed(library: Library, cu_seqlens: Any, x: Any) -> tuple[Any, int]:
    """Where packed sequences begin and the last one ends, beside x; and how many sequences there are."""
    if cu_seqlens is None:
        return None, x.shape[0]
    if x.shape[0] != 1:
        raise ShapeError(
            f"packed sequences lie in one batch: pass shape (1, time, channels), not {tuple(x.shape)}"
        )
    row = row_of(cu_seqlens.dtype)
    whole = row is not None and row.name in ("int32", "int64")
    if cu_seqlens.ndim != 1 or not cu_seqlens.shape[0] or not whole:
        raise SegmentError(
            f"cu_seqlens has shape {tuple(cu_seqlens.shape)} and is {cu_seqlens.dtype}; pass 1-D int32 or int64"
        )
    return library.offsets(cu_seqlens, x.shape[1], x), cu_seqlens.shape[0] - 1


def sorted_to(offsets: np.ndarray, steps: int) -> None:
    """A SegmentError where offsets do not go from 0 to the number of steps, or fall."""
    if offsets[0] != 0 or offsets[-1] != steps:
        raise SegmentError(
            f"cu_seqlens go from {offsets[0]} to {offsets[-1]}; they must go from 0 to {steps}, the number of steps"
        )
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(falls):
        at = int(falls[0])
        raise SegmentError(f"cu_seqlens fall from {offsets[at]} to {offsets[at + 1]} at {at + 1}: sort them")


def required(x: Any, name: str) -> Any:
    """An operand; a ShapeError where it is missing."""
    if x is None:
        raise ShapeError(f"{name} is None: this layer needs an array")
    return x


def _shaped(x: Any, name: str, shape: tuple[int, ...]) -> None:
    required(x, name)
    if tuple(x.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; this call needs {shape}")


def _kind(dtype: Any) -> str:
    row = row_of(dtype)
    return "" if row is None else row.kind


class Operands(NamedTuple):
    """The operands of a layer, checked."""

    arrays: tuple[Any, ...]
    initial: Any
    offsets: Any
    sequences: int


def gated_operands(
    library: Library, layer: str, inputs: Sequence[Any], parameter: Any, initial: Any, cu_seqlens: Any
) -> Operands:
    """The inputs, the parameter as it was given, and the rest."""
    x, row = inputs[0], GATED[layer]
    real = computed(library, x, "x", "batch, time, channels", REAL, "a layer takes")
    shape, channels = tuple(x.shape), x.shape[2]
    given = [wide(library, v, name, shape, x) for v, name in zip(inputs, row.inputs)]
    if row.parameter:
        parameter = constant(library, parameter, row.parameter, (channels,), real, x)
    offsets, sequences = packed(library, cu_seqlens, x)
    if initial is not None:
        initial = state(library, initial, "the initial state", (sequences, channels), real, x)
    return Operands((*given, parameter), initial, offsets, sequences)


def selective_operands(library: Library, arrays: Sequence[Any], initial: Any, cu_seqlens: Any) -> Operands:
    """The eight arrays of a selective scan, and the rest."""
    u, a = arrays[0], arrays[2]
    required(u, "u")
    required(a, "A")
    if u.ndim != 3 or a.ndim != 2:
        raise ShapeError(
            f"u has shape {tuple(u.shape)} and A {tuple(a.shape)}; they are (batch, time, channels) and (channels, N)"
        )
    real = computed(library, u, "u", "batch, time, channels", REAL, "a selective scan takes")
    batch, steps, channels = u.shape
    states = a.shape[1]
    shapes = {"A": (channels, states), "B": (batch, steps, states), "C": (batch, steps, states)}
    given = []
    for i, (x, name) in enumerate(zip(arrays, SELECTIVE)):
        if x is None and name in OPTIONAL:
            given.append(None)
        elif i in CONSTANT:
            given.append(constant(library, x, name, shapes.get(name, (channels,)), real, u))
        else:
            given.append(wide(library, x, name, shapes.get(name, tuple(u.shape)), u))
    offsets, sequences = packed(library, cu_seqlens, u)
    if initial is not None:
        initial = state(library, initial, "the initial state", (sequences, channels, states), real, u)
    return Operands(tuple(given), initial, offsets, sequences)


def s5_operands(
    library: Library, x: Any, eigenvalues: Any, step: Any, initial: Any, cu_seqlens: Any
) -> Operands:
    """x, the eigenvalues, the step, and the rest."""
    dtype = computed(library, x, "x", "batch, time, states", COMPLEX, "the states of s5 are")
    states = tuple(x.shape[2:])
    eigenvalues = constant(library, eigenvalues, "eigenvalues", states, dtype, x)
    if not isinstance(step, (int, float)):
        real = library.dtype(np.finfo(row_of(x.dtype).name).dtype.name)  # type: ignore[union-attr]
        step = constant(library, step, "step", states if step.ndim else (), real, x)
    offsets, sequences = packed(library, cu_seqlens, x)
    if initial is not None:
        initial = state(library, initial, "the initial state", (sequences, *states), x.dtype, x)
    return Operands((x, eigenvalues, step), initial, offsets, sequences)


def marks_shape(shape: Sequence[int], states: int, sequences: int) -> tuple[int, int, int]:
    """The shape of the states that a selective scan of u of this shape keeps for the backward pass."""
    batch, steps, channels = shape
    return batch * steps // CHUNK + sequences, channels, states


def one_step(arrays: Sequence[Any], names: Sequence[str]) -> None:
    """A ShapeError where an operand of a step is missing, or has an axis of time."""
    for x, name in zip(arrays, names):
        if x is None and name in OPTIONAL:
            continue
        x = required(x, name)
        if x.ndim != 2:
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}; a step takes (batch, channels) or (batch, N)"
            )
