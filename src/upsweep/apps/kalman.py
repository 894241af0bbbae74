"""The Kalman filter, parallel in time."""

from __future__ import annotations

from typing import Any

from upsweep.api import ShapeError
from upsweep.apps.kinds import enter
from upsweep.apps.trellis import Parts, inverse, prefixes, product


def kalman_filter(
    y: Any, transition: Any, observation: Any, noise: Any, error: Any, mean: Any, covariance: Any
) -> tuple[Any, Any]:
    """Filtered means and covariances of a linear Gaussian model, all steps at once.

    The model is `x[t] = F x[t-1] + N(0, Q)`, `y[t] = H x[t] + N(0, R)`, with `x[-1] = N(m, P)`. Filtering one step or many is an
    element (A, b, C, eta, J) of an associative operation, whose prefixes hold the answer in b and C.

    Args:
        y: observations, shape (T, m).
        transition, observation: F, shape (d, d); H, shape (m, d).
        noise, error: Q, shape (d, d); R, shape (m, m).
        mean, covariance: m, shape (d,), and P, shape (d, d): the state before the first step.

    Returns:
        `(means, covariances)`, shapes (T, d) and (T, d, d), float64, of y's kind.

    Raises:
        ShapeError: shapes that do not fit.

    >>> from upsweep import apps
    >>> means, _ = apps.kalman_filter([[1.0], [1.0]], [[1.0]], [[1.0]], [[0.0]], [[1.0]], [0.0], [[1.0]])
    >>> means[:, 0].round(6).tolist()
    [0.5, 0.666667]

    Source: Sarkka and Garcia-Fernandez, "Temporal parallelization of Bayesian smoothers" (2021), lemmas 7 and 8.
    """
    xp, given, give = enter(y, transition, observation, noise, error, mean, covariance)
    _check(*given)
    y, f, h, q, r, m, p = (xp.astype(v, xp.float64) for v in given)
    if not y.shape[0]:
        return give(m[None][:0]), give(p[None][:0])
    steps = _steps(xp, y, f, h, q, r)
    first = _first(xp, y[:1], f, h, q, r, m, p)
    steps = tuple(xp.concat([a, b[1:]]) for a, b in zip((*first, *(s[:1] for s in steps[3:])), steps))
    _, b, c, _, _ = prefixes(xp, lambda a, b: _combine(xp, a, b), steps)
    return give(b[..., 0]), give(c)


def _gain(xp: Any, p: Any, h: Any, r: Any) -> tuple[Any, Any]:
    """`P H' S^-1` and `S^-1`, where `S = H P H' + R`."""
    s = inverse(xp, (product(product(h, p), h.T) + r)[None])
    return product(product(p, h.T)[None], s), s


def _steps(xp: Any, y: Any, f: Any, h: Any, q: Any, r: Any) -> Parts:
    gain, s = _gain(xp, q, h, r)
    keep = xp.eye(f.shape[0], dtype=f.dtype, device=f.device) - product(gain, h[None])
    seen = product(product(f.T, h.T)[None], s)
    n, y = y.shape[0], y[..., None]
    a, c, j = product(keep, f[None]), product(keep, q[None]), product(seen, product(h, f)[None])
    a, c, j = (xp.broadcast_to(v, (n, *v.shape[1:])) for v in (a, c, j))
    return a, product(gain, y), c, product(seen, y), j


def _first(xp: Any, y: Any, f: Any, h: Any, q: Any, r: Any, m: Any, p: Any) -> Parts:
    """The first step's A, b and C: it starts from what is known, so that nothing before it counts."""
    m, p = product(f, m[:, None]), product(product(f, p), f.T) + q
    gain, _ = _gain(xp, p, h, r)
    mean = m + product(gain, y[..., None] - product(h, m))
    return 0 * p[None], mean, p - product(gain, product(h, p)[None])


def _combine(xp: Any, i: Parts, j: Parts) -> Parts:
    """First i, then j."""
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
    d, k = m.shape[-1] if m.ndim else 0, y.shape[-1] if y.ndim == 2 else -1
    wanted = {
        "transition": (d, d),
        "observation": (k, d),
        "noise": (d, d),
        "error": (k, k),
        "mean": (d,),
        "covariance": (d, d),
    }
    if k < 1 or d < 1:
        raise ShapeError(f"y must be (T, m) and mean (d,), got {tuple(y.shape)} and {tuple(m.shape)}")
    for (name, shape), given in zip(wanted.items(), (f, h, q, r, m, p)):
        if tuple(given.shape) != shape:
            raise ShapeError(f"{name} has shape {tuple(given.shape)}, where y and mean ask for {shape}")
