"""The Kalman filter, parallel in time."""

from __future__ import annotations

import math
from typing import Any

from upsweep import api, homes
from upsweep.apps.kinds import enter, real
from upsweep.apps.trellis import Parts, inverse, log_determinant, prefixes, product
from upsweep.arguments import ShapeError


@homes.apart
def kalman_filter(
    y: Any, transition: Any, observation: Any, noise: Any, error: Any, mean: Any, covariance: Any
) -> tuple[Any, Any, Any]:
    """Filtered means and covariances of a linear Gaussian model, and how likely the observations are, all steps at once.

    The model is `x[t] = F x[t-1] + N(0, Q)`, `y[t] = H x[t] + N(0, R)`, with `x[-1] = N(m, P)`. Filtering one step or many is an
    element (A, b, C, eta, J) of an associative operation, whose prefixes hold the answer in b and C.

    Args:
        y: observations, shape (..., T, m): many sequences of one model. NaN is an observation that is missing, all of a step or
            some of it.
        transition, observation: F, shape (d, d); H, shape (m, d).
        noise, error: Q, shape (d, d); R, shape (m, m).
        mean, covariance: m, shape (d,), and P, shape (d, d): the state before the first step.

    Returns:
        `(means, covariances, log_likelihood)`, shapes (..., T, d), (..., T, d, d) and (..., T), float64, of y's kind; the last is
        `log p(y[0], ..., y[t])`.

    Raises:
        ShapeError: shapes that do not fit.

    >>> from upsweep import apps
    >>> y = [[1.0], [float("nan")], [1.0]]
    >>> means, _, log_likelihood = apps.kalman_filter(y, [[1.0]], [[1.0]], [[0.0]], [[1.0]], [0.0], [[1.0]])
    >>> means[:, 0].round(6).tolist(), log_likelihood.round(4).tolist()
    ([0.5, 0.5, 0.666667], [-1.5155, -1.5155, -2.7205])

    Source: Sarkka and Garcia-Fernandez, "Temporal parallelization of Bayesian smoothers" (2021), lemmas 7 and 8.
    """
    xp, given, give = enter(y, transition, observation, noise, error, mean, covariance)
    y, f, h, q, r, m, p = (real(xp, v, "a model") for v in given)
    _check(y, f, h, q, r, m, p)
    y = xp.moveaxis(y, -2, 0)
    many = y.shape[:-1]
    if not many[0]:
        return tuple(
            give(xp.zeros((*many[1:], 0, *s), dtype=y.dtype, device=y.device)) for s in (m.shape, p.shape, ())
        )
    seen, y, h, r = _missing(xp, y, h, r)
    steps = _steps(xp, y, f, h, q, r)
    first = _first(xp, y[:1], f, h[:1], q, r[:1], m, p)
    steps = tuple(_led(xp, a, b[1:], many) for a, b in zip((*first, *(s[:1] for s in steps[3:])), steps))
    _, b, c, _, _ = prefixes(xp, lambda a, b: _combine(xp, a, b), steps)
    before = _led(xp, m[None, :, None], b[:-1], many), _led(xp, p[None], c[:-1], many)
    likelihood = _log_likelihood(xp, seen, y, f, h, q, r, *before)
    made = (b[..., 0], -2), (c, -3), (api.scan(likelihood, axis=0), -1)
    return tuple(give(xp.moveaxis(v, 0, axis)) for v, axis in made)


def _led(xp: Any, first: Any, rest: Any, many: tuple[int, ...]) -> Any:
    """One step, the same for all sequences or not, in front of the others."""
    return xp.concat([xp.broadcast_to(first, (1, *many[1:], *first.shape[-2:])), rest])


def _missing(xp: Any, y: Any, h: Any, r: Any) -> tuple[Any, Any, Any, Any]:
    """Which observations are there, and y, H and R for each step (for all steps where nothing is missing). A missing
    observation observes nothing, with an error of its own, and so changes nothing.
    """
    missing = xp.isnan(y)
    seen = xp.astype(~missing, y.dtype)
    if not bool(xp.any(missing)):
        return seen, y, h[None], r[None]
    alone = xp.eye(r.shape[0], dtype=r.dtype, device=r.device) * (1 - seen)[..., None, :]
    error = r * seen[..., :, None] * seen[..., None, :] + alone
    return seen, xp.where(missing, xp.zeros_like(y), y), h * seen[..., :, None], error


def _log_likelihood(
    xp: Any, seen: Any, y: Any, f: Any, h: Any, q: Any, r: Any, mean: Any, covariance: Any
) -> Any:
    """The logarithm of the likelihood of each observation, given the means and covariances behind the one before it."""
    gap = y[..., None] - product(h, product(f, mean))
    spread = product(product(h, product(product(f, covariance), f.T) + q), _t(xp, h)) + r
    squares = product(product(_t(xp, gap), inverse(xp, spread)), gap)[..., 0, 0]
    known = xp.sum(seen, axis=-1) * math.log(2 * math.pi)
    return -(known + log_determinant(xp, spread) + squares) / 2


def _gain(xp: Any, p: Any, h: Any, r: Any) -> tuple[Any, Any]:
    """`P H' S^-1` and `S^-1`, where `S = H P H' + R`, for each step's H and R."""
    s = inverse(xp, product(product(h, p), _t(xp, h)) + r)
    return product(product(p, _t(xp, h)), s), s


def _steps(xp: Any, y: Any, f: Any, h: Any, q: Any, r: Any) -> Parts:
    gain, s = _gain(xp, q, h, r)
    keep = xp.eye(f.shape[0], dtype=f.dtype, device=f.device) - product(gain, h)
    seen = product(product(f.T, _t(xp, h)), s)
    many, y = y.shape[:-1], y[..., None]
    a, c, j = product(keep, f), product(keep, q), product(seen, product(h, f))
    a, c, j = (xp.broadcast_to(v, (*many, *v.shape[-2:])) for v in (a, c, j))
    return a, product(gain, y), c, product(seen, y), j


def _first(xp: Any, y: Any, f: Any, h: Any, q: Any, r: Any, m: Any, p: Any) -> Parts:
    """The first step's A, b and C: the step starts from the known state, so that nothing before it counts."""
    m, p = product(f, m[:, None]), product(product(f, p), f.T) + q
    gain, _ = _gain(xp, p, h, r)
    mean = m + product(gain, y[..., None] - product(h, m))
    return 0 * p[None], mean, p - product(gain, product(h, p))


def _combine(xp: Any, i: Parts, j: Parts) -> Parts:
    """First element i, then element j."""
    (a, b, c, eta, info), (a2, b2, c2, eta2, info2) = i, j
    unit = xp.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    into = product(a2, inverse(xp, unit + product(c, info2)))
    back = product(_t(xp, a), inverse(xp, unit + product(info2, c)))
    return (
        product(into, a),
        product(into, b + product(c, eta2)) + b2,
        product(product(into, c), _t(xp, a2)) + c2,
        product(back, eta2 - product(info2, b)) + eta,
        product(product(back, info2), a) + info,
    )


def _t(xp: Any, a: Any) -> Any:
    return xp.moveaxis(a, -1, -2)


def _check(y: Any, f: Any, h: Any, q: Any, r: Any, m: Any, p: Any) -> None:
    d, k = m.shape[-1] if m.ndim else 0, y.shape[-1] if y.ndim >= 2 else -1
    wanted = {
        "transition": (d, d),
        "observation": (k, d),
        "noise": (d, d),
        "error": (k, k),
        "mean": (d,),
        "covariance": (d, d),
    }
    if k < 1 or d < 1:
        raise ShapeError(
            f"y must be (T, m) or (..., T, m), and mean (d,), got {tuple(y.shape)} and {tuple(m.shape)}"
        )
    for (name, shape), given in zip(wanted.items(), (f, h, q, r, m, p)):
        if tuple(given.shape) != shape:
            raise ShapeError(f"{name} has shape {tuple(given.shape)}, where y and mean ask for {shape}")
