"""Gated layers and their gradients, on the engine of the device that holds the arrays. What fits is checked above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upsweep import engine as engines
from upsweep.dtypes import accumulator
from upsweep.engine import Gated


def gated_scan(
    layer: str, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any, *, last: Any = None
) -> tuple[Any, Any]:
    """`h[t] = a[t] h[t-1] + b[t]` in order, and the last states; a and b are what the layer makes of its inputs.

    Args:
        layer, inputs, parameter, initial, offsets: as in `upsweep.engine.Gated`.
        last: where the last states go, which may be where `initial` lies; None for new memory.
    """
    layers, on, s = _seen(layer, inputs, parameter, initial, offsets)
    like, x = inputs[0], s.inputs[0]
    out = on.empty(like, x.shape, x.dtype)
    ends = on.empty(like, (s.sequences, x.shape[2]), accumulator(x.dtype)) if last is None else on.view(last)
    layers.gated(s, out, ends)
    return on.give(like, out), on.give(like, ends)


def gated_gradients(
    layer: str, h: Any, g: Any, dlast: Any, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any
) -> tuple[list[Any], Any, Any]:
    """The gradients of the inputs, of the parameter for each sequence by itself, and of initial, from that of `h`, which the way
    forward has given, and that of the last states."""
    layers, on, s = _seen(layer, inputs, parameter, initial, offsets)
    like, x = inputs[0], s.inputs[0]
    shape, real = (s.sequences, x.shape[2]), accumulator(x.dtype)
    into = [on.empty(like, x.shape, x.dtype) for _ in inputs]
    dparameter = None if parameter is None else on.empty(like, shape, real)
    dinitial = on.empty(like, shape, real)
    seen = None if dlast is None else on.view(dlast)
    layers.gated_back(s, on.view(h), on.view(g), seen, into, dparameter, dinitial)
    given = [on.give(like, v) for v in into]
    return given, None if dparameter is None else on.give(like, dparameter), on.give(like, dinitial)


def _seen(
    layer: str, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any
) -> tuple[Any, Any, Gated]:
    name = engines.choose(inputs[:1])
    on = engines.load(name)
    seen: Any = [None if x is None else on.view(x) for x in (*inputs, parameter, initial, offsets)]
    *views, parameter, initial, offsets_seen = seen
    sequences = inputs[0].shape[0] if offsets is None else offsets.shape[0] - 1
    return engines.layers(name), on, Gated(layer, views, parameter, initial, offsets_seen, sequences)
