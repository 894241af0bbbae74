"""Advantages as primitives of JAX. They are linear in rewards and values, and so are their gradients: each is the transpose of
the other, and each is one scan.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad

import upsweep as up
from upsweep import advantages as scans
from upsweep.jax.buffers import in_place, like, result_of
from upsweep.jax.neighbours import along, row_shape
from upsweep.jax.operands import promoted
from upsweep.jax.primitives import for_rows, in_front, registered

_NAMES = "rva"
"""The operands that a gradient is wanted of: rewards, values, and the values after."""


def advantages(
    r: Array, v: Array, after: Array, ended: Any, cut: Any, gamma: float, lam: float, dim: int, order: str
) -> Array:
    """`after` has the rank of v where it is the values after every item, and one value a row where it is that after the last.
    Flags have v's rank, and their axes of one item hold for all of its items. `dim` is counted from the end.
    """
    names = ("" if ended is None else "e") + ("" if cut is None else "c")
    how = {
        "flags": names,
        "every": after.ndim == v.ndim,
        "gamma": gamma,
        "lam": lam,
        "dim": dim,
        "order": order,
    }
    return _advantages.bind(r, v, after, *[f for f in (ended, cut) if f is not None], **how)[0]


def _named(given: Any, flags: str) -> tuple[Any, Any]:
    """The items at which an episode ends, and the last items of episodes, ended or cut off."""
    ended, cut = (dict(zip(flags, given)).get(name) for name in "ec")
    return ended, scans.stops_of(ended, cut)


def _result(r: Any, v: Any, *_: Any, **__: Any) -> list[ShapedArray]:
    return [result_of(v, dtype=promoted(r, v))]


def _run(
    r: Any, v: Any, after: Any, *given: Any, flags: str, every: bool, gamma: float, lam: float, dim: int, order: str
) -> Any:  # fmt: skip
    ended, stops = _named(given, flags)
    (made,) = _result(r, v)
    if not v.size:
        return [jnp.zeros(made.shape, made.dtype)]
    if not every:
        after = jnp.expand_dims(after.astype(v.dtype), dim)
        if order == "sequential":
            after, every = jnp.concatenate([along(v, dim, False, 1, None), after], dim), True
    over = ended if every or ended is None else along(ended, dim, True, 0, 1)
    how = every, gamma, lam, dim, order
    return in_place(_into, how, (like(made),), r, v, after, over, for_rows(stops, v.shape, dim))


def _into(
    every: bool, gamma: float, lam: float, dim: int, order: str, outs: Any, r: Any, v: Any, after: Any, over: Any, stops: Any
) -> None:  # fmt: skip
    ends, over = _ends(stops), False if over is None else over
    scans.advantages(
        r, v, after, over, gamma, gamma * lam, every=every, ends=ends, axis=dim, order=order, out=outs[0]
    )


def _ends(stops: Any) -> up.segments.Segments | None:
    return None if stops is None else up.segments.ends(stops)


def _jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    moved = [ad.instantiate_zeros(t) for t in tangents[:3]]
    return _advantages.bind(*primals, **how), _advantages.bind(*moved, *primals[3:], **how)


def _transpose(gradients: Any, *operands: Any, **how: Any) -> Any:
    (g,) = gradients
    wanted = "".join([name for name, x in zip(_NAMES, operands) if ad.is_undefined_primal(x)])
    if isinstance(g, ad.Zero):
        return [None] * len(operands)
    made = dict(zip(wanted, _transposed.bind(g, *operands[3:], wanted=wanted, **how)))
    into = [made[name].astype(x.aval.dtype) if name in made else None for name, x in zip(_NAMES, operands)]
    return [*into, *[None] * len(operands[3:])]


def _gradients(g: Any, *_: Any, wanted: str, every: bool, dim: int, **__: Any) -> list[ShapedArray]:
    one = g.shape if every else row_shape(g, dim)
    return [result_of(g, one if name == "a" else g.shape) for name in wanted]


def _transposed_run(
    g: Any, *given: Any, flags: str, wanted: str, every: bool, gamma: float, lam: float, dim: int, order: str
) -> Any:
    """The gradients of the operands that are `wanted`."""
    ended, stops = _named(given, flags)
    if not g.size:
        return [jnp.zeros(x.shape, x.dtype) for x in _gradients(g, wanted=wanted, every=every, dim=dim)]
    # With a value after every item the gradient of v is -s, else the gradient of the value after the last is made of s.
    ours, others = (set("rv"), "a") if every else (set("ra"), "v")
    own, other, negative = not ours.isdisjoint(wanted), others in wanted, every and "r" not in wanted
    how, over = (every, own, other, negative, gamma, lam, dim, order), ended if every and other else None
    outs = in_place(_back_into, how, (like(g),) * (own + other), g, over, for_rows(stops, g.shape, dim))
    s, beside = outs[0], outs[-1]
    if every:
        made = {"r": s, "v": s if negative else -s, "a": beside}
    else:
        made = {"r": s, "v": beside, "a": _of_last(s, ended, gamma, dim)}
    return [made[name] for name in wanted]


def _back_into(
    every: bool, own: bool, other: bool, negative: bool, gamma: float, lam: float, dim: int, order: str, outs: Any, g: Any,
    over: Any, stops: Any,
) -> None:  # fmt: skip
    over, out = False if over is None else over, tuple(outs) if own and other else outs[0]
    what = {"every": every, "own": own, "other": other, "negative": negative, "ends": _ends(stops)}
    scans.gradients(g, over, gamma, gamma * lam, **what, axis=dim, order=order, out=out)


def _of_last(s: Array, ended: Any, gamma: float, dim: int) -> Array:
    """The gradient of the value after the last item."""
    end = gamma * along(s, dim, True, 0, 1)
    if ended is not None:
        end = jnp.where(along(ended, dim, True, 0, 1), 0, end)
    return jnp.squeeze(end, dim)


def _transposed_jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    moved = ad.instantiate_zeros(tangents[0])
    return _transposed.bind(*primals, **how), _transposed.bind(moved, *primals[1:], **how)


def _transposed_transpose(gradients: Any, g: Any, *given: Any, wanted: str, **how: Any) -> Any:
    if all(isinstance(d, ad.Zero) for d in gradients):
        return [None] * (1 + len(given))
    known = dict(zip(wanted, map(ad.instantiate_zeros, gradients)))
    shapes = _gradients(g.aval, wanted=_NAMES, **how)
    whole = [known.get(name, jnp.zeros(x.shape, x.dtype)) for name, x in zip(_NAMES, shapes)]
    return [*_advantages.bind(*whole, *given, **how), *[None] * len(given)]


def _batch(whole: tuple[int, ...], made: Primitive, args: Any, dims: Any, **how: Any) -> Any:
    results = made.bind(*in_front(args, dims, whole), **how)
    return results, [0] * len(results)


_advantages = registered(
    "advantages", _run, _result, _jvp, _transpose, partial(_batch, (0, 1, 2)), several=True
)
_transposed = registered(
    "advantages_transposed",
    _transposed_run,
    _gradients,
    _transposed_jvp,
    _transposed_transpose,
    partial(_batch, (0,)),
    several=True,
)
