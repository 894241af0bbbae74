"""Gated layers and their gradients, on the engine of the device that holds the arrays. What fits is checked above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upsweep import engine as engines
from upsweep.layer_protocol import Gated, layers


def gated_scan(
    layer: str, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any, out: Any, last: Any
) -> None:
    """`h[t] = a[t] h[t-1] + b[t]` in order into `out`, and the last states into `last`; the layer makes a and b of its inputs.

    Args:
        layer, inputs, parameter, initial, offsets: as in `upsweep.layer_protocol.Gated`.
        out: of the shape and dtype of the inputs.
        last: of the shape and dtype of `initial`, which it may be.
    """
    layers, on, s = _seen(layer, inputs, parameter, initial, offsets, last.shape[0])
    layers.gated(s, on.view(out), on.view(last))


def gated_gradients(
    layer: str, h: Any, g: Any, dlast: Any, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any,
    into: Sequence[Any], dparameter: Any, dinitial: Any,
) -> None:  # fmt: skip
    """The gradients from that of `h`, which the way forward has given, and that of the last states (or None): those of the
    inputs `into` arrays like them, that of the parameter for each sequence by itself, and of initial."""
    layers, on, s = _seen(layer, inputs, parameter, initial, offsets, dinitial.shape[0])
    dlast, dparameter = (None if v is None else on.view(v) for v in (dlast, dparameter))
    made = [on.view(d) for d in into]
    layers.gated_back(s, on.view(h), on.view(g), dlast, made, dparameter, on.view(dinitial))


def _seen(
    layer: str, inputs: Sequence[Any], parameter: Any, initial: Any, offsets: Any, sequences: int
) -> tuple[Any, Any, Gated]:
    name = engines.choose(inputs[:1])
    on = engines.load(name)
    seen: Any = [None if x is None else on.view(x) for x in (*inputs, parameter, initial, offsets)]
    *views, parameter, initial, offsets = seen
    return layers(name), on, Gated(layer, views, parameter, initial, offsets, sequences)
