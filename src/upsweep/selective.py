"""A selective scan and its gradients, on the engine of the device that holds the arrays. What fits is checked above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upsweep import engine as engines
from upsweep.layer_protocol import Selective, layers


def selective_scan(
    arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any, out: Any, last: Any, marks: Any
) -> None:
    """`h[t] = exp(delta[t] a) h[t-1] + delta[t] u[t] b[t]`, `out[t] = (c[t] h[t] + skip u[t]) silu(z[t])`, in order.

    Args:
        arrays: u, delta, a, b, c, skip, z, bias as in `upsweep.layer_protocol.Selective`; skip, z and bias may be None.
        softplus: whether delta stands for log(1 + exp(delta)), after bias has been added.
        initial: the states before the first steps, or None for zeros.
        offsets: where packed sequences begin, or None.
        out: like u.
        last: where the last states go, which may be where `initial` lies.
        marks: where the states go that the way back starts from, of `upsweep.layers.marks_shape`; None to keep none.
    """
    layers, on, s = _seen(arrays, softplus, initial, offsets, last.shape[0])
    layers.selective(s, on.view(out), on.view(last), None if marks is None else on.view(marks))


def selective_gradients(
    g: Any, dlast: Any, marks: Any, arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any,
    into: Sequence[Any], states: Sequence[Any],
) -> None:  # fmt: skip
    """The gradients from that of `out` and that of the last states (or None): those of u, delta, z, b and c `into` arrays like
    them (None for z where there is none); those of a, skip and bias, for each sequence by itself, and of initial into
    `states`."""
    layers, on, s = _seen(arrays, softplus, initial, offsets, states[0].shape[0])
    dlast = None if dlast is None else on.view(dlast)
    made = [None if d is None else on.view(d) for d in into]
    layers.selective_back(s, on.view(g), dlast, on.view(marks), made, [on.view(d) for d in states])


def _seen(
    arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any, sequences: int
) -> tuple[Any, Any, Selective]:
    name = engines.choose(arrays[:1])
    on = engines.load(name)
    seen: Any = [None if x is None else on.view(x) for x in (*arrays, initial, offsets)]
    u, delta, a, b, c, skip, z, bias, initial, offsets = seen
    found = Selective(u, delta, a, b, c, skip, z, bias, softplus, initial, offsets, sequences)
    return layers(name), on, found
