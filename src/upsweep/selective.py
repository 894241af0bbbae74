"""A selective scan and its gradients, on the engine of the device that holds the arrays. What fits is checked above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upsweep import engine as engines
from upsweep.dtypes import accumulator
from upsweep.engine import Selective, View


def selective_scan(
    arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any, *, last: Any = None, keep: bool = False
) -> tuple[Any, Any, Any]:
    """`h[t] = exp(delta[t] a) h[t-1] + delta[t] u[t] b[t]`, `out[t] = (c[t] h[t] + skip u[t]) silu(z[t])`, in order.

    Args:
        arrays: u, delta, a, b, c, skip, z, bias as in `upsweep.engine.Selective`; skip, z and bias may be None.
        softplus: whether delta stands for log(1 + exp(delta)), after bias has been added.
        initial: the states before the first steps, or None for zeros.
        offsets: where packed sequences begin, or None.
        last: where the last states go, which may be where `initial` lies; None for new memory.
        keep: whether the states that the way back starts from are kept.

    Returns:
        `(out, last, marks)`; marks is None unless they are kept.
    """
    layers, on, s = _seen(arrays, softplus, initial, offsets)
    u, like = s.u, arrays[0]
    real, states = accumulator(u.dtype), s.a.shape
    out = on.empty(like, u.shape, u.dtype)
    ends = on.empty(like, (s.sequences, *states), real) if last is None else on.view(last)
    kept = u.shape[0] * u.shape[1] // layers.CHUNK + s.sequences
    marks = on.empty(like, (kept, *states), real) if keep else None
    layers.selective(s, out, ends, marks)
    return on.give(like, out), on.give(like, ends), None if marks is None else on.give(like, marks)


def selective_gradients(
    g: Any, dlast: Any, marks: Any, arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any
) -> tuple[Any, ...]:
    """The gradients of u, delta, a, b, c, skip, z, bias and initial from that of `out` and that of the last states.

    Those of a, skip and bias have the sequences in front; that of z is None where there is none.
    """
    layers, on, s = _seen(arrays, softplus, initial, offsets)
    u, like = s.u, arrays[0]
    real, shape = accumulator(u.dtype), s.b.shape
    wide = [on.empty(like, u.shape, u.dtype) for _ in range(3 if s.z is not None else 2)]
    du, ddelta, dz = [*wide, None][:3]
    db, dc = (on.empty(like, shape, u.dtype) for _ in range(2))
    sizes = s.a.shape, s.a.shape[:1], s.a.shape[:1], s.a.shape
    states = [on.empty(like, (s.sequences, *size), real) for size in sizes]
    seen = None if dlast is None else on.view(dlast)
    layers.selective_back(s, on.view(g), seen, on.view(marks), (du, ddelta, dz, db, dc), states)
    da, dskip, dbias, dinitial = states
    made = du, ddelta, da, db, dc, dskip, dz, dbias, dinitial
    return tuple(None if v is None else on.give(like, v) for v in made)


def _seen(arrays: Sequence[Any], softplus: bool, initial: Any, offsets: Any) -> tuple[Any, Any, Selective]:
    name = engines.choose(arrays[:1])
    on = engines.load(name)

    def seen(x: Any) -> View | None:
        return None if x is None else on.view(x)

    u, delta, a, b, c, skip, z, bias = map(seen, arrays)
    sequences = arrays[0].shape[0] if offsets is None else offsets.shape[0] - 1
    found = Selective(u, delta, a, b, c, skip, z, bias, softplus, seen(initial), seen(offsets), sequences)
    return engines.layers(name), on, found
