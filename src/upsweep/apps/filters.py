"""Digital filters, and recurrences with constant coefficients of any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.apps.coefficients import Told, polynomials, told
from upsweep.apps.kinds import enter, host
from upsweep.apps.repeated import Planned, called
from upsweep.apps.roots import roots
from upsweep.apps.sections import Section, sectioned
from upsweep.arguments import ShapeError, axis_of, check_order
from upsweep.engine import choose
from upsweep.moves import cascades, loops
from upsweep.operators import ops


@homes.first
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None, *, order: str = "tree") -> Any:
    """Filter along an axis, with the signature and the meaning of `scipy.signal.lfilter`.

    `a[0] y[t] = b[0] x[t] + ... + b[M] x[t-M] - a[1] y[t-1] - ... - a[N] y[t-N]`, as sections one after the other, each of
    one pole or of a conjugate pair and of as many zeros, which arithmetic of many digits finds: a section is one scan, whose map
    takes the items in and whose finish gives the results. So the bits depend neither on the machine nor on how many cores it has.

    Args:
        b, a: coefficients of numerator and denominator, 1-D, real or complex; both are divided by `a[0]`.
        x: array, real or complex; integers are filtered as float64.
        axis: the axis of time.
        zi: the state before the first item, `max(len(a), len(b)) - 1` values along the axis (SciPy's `lfiltic` and
            `lfilter_zi` make them); other dimensions broadcast.
        order: as in `upsweep.scan`: "sequential" is the faster one for many rows, the slower one for a few: an item
            of a single row waits for the one before it, whatever the processor.

    Returns:
        y, of x's shape; with `zi` the pair `(y, zf)`, where zf is the state to pass with the next chunk. float32 comes out
        where everything that came in promotes to it, as in SciPy: float32, and beside it booleans and integers of 8 or 16
        bits. It is computed in float64 and rounded once.

    Raises:
        ShapeError: coefficients that are not 1-D or empty, or a state of the wrong shape.
        ZeroDivisionError: `a[0]` is zero.
        DTypeError: long double, or anything that is no number. ValueError: another order.

    Speed: on a CPU all sections go through memory together, on a GPU up to four of them where that is faster, else each by
    itself. Where there are more zeros than poles, where x or the coefficients are complex and where there is a state, the `b`
    part is sums of shifted items in front: of real numbers on a CPU one pass, else a pass for each coefficient.

    Accuracy: poles and zeros are right to the last place, and so are the results of a section, also for repeated poles, where the
    direct form is at its worst. An elliptic filter of order 7 is 1e-14 away from extended precision, SciPy's loop 1e-11. In a
    filter with a state, poles that lie close together (high order at a low cut-off) amplify the rounding of the `b` part by the
    gain of `1/a`. An unstable filter whose poles overflow within the length of x gives inf or NaN.

    >>> import upsweep as up
    >>> up.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25, 0.125]

    Source: Blelloch (1990), section 1.4; Oppenheim and Schafer, "Discrete-time signal processing", section 6.3.
    """
    b, a = told(b), told(a)
    if zi is None:
        return called(_filter, (x,), (), None, b, a, axis, order)
    xp, (x, zi), give = enter(x, zi, labels=True)
    (b, a, packed), (kind, name) = polynomials(b, a, x, zi)
    check_order(order)
    axis, wide, result = _time(x, axis), xp.complex128 if kind == "c" else xp.float64, getattr(xp, name)
    u = _moved(xp, x, axis, -1)
    u = u if u.dtype == wide else xp.astype(u, wide)
    size = max(len(a), len(b)) - 1
    state = _state(xp, zi, axis, u, size, wide)
    if u.ndim == 1 and kind != "c" and (known := loops(choose((x,)))):
        made = known.filtered(sectioned((1.0,), a)[1], packed, u, state, order)
        y, state = (v if v.dtype == result else xp.astype(v, result) for v in made)
        return give(y), give(state)
    y = _feed_forward(xp, b, u)
    if size:
        head = min(size, u.shape[-1])
        y[..., :head] = y[..., :head] + state[..., :head]
    if kind == "c":
        _recur(y, a, order)
    else:
        y = _in_series(xp, y, sectioned((1.0,), a)[1], "float64", order)(y)
    out = give(xp.astype(_moved(xp, y, -1, axis), result, copy=False))
    return out, give(xp.astype(_moved(xp, _last_state(xp, b, a, u, y, state), -1, axis), result, copy=False))


def _filter(call: Planned, b: Told, a: Told, axis: int, order: str) -> Callable[..., Any]:
    """The function that filters arrays like this one, without a state."""
    xp, (x,) = call.xp, call.views
    (numerator, denominator, _), (kind, name) = polynomials(b, a, x)
    check_order(order)
    along, wide = _time(x, axis), xp.complex128 if kind == "c" else xp.float64
    front, sections = (numerator, ()) if kind == "c" else sectioned(numerator, denominator)
    series = _in_series(xp, x, sections, name, order)

    def run(x: Any, segments: None) -> Any:
        u = _moved(xp, x, along, -1)
        if front != (1.0,) or kind == "c":
            u = _feed_forward(xp, front, xp.astype(u, wide, copy=False))
        if kind == "c":
            _recur(u, denominator, order)
            u = xp.astype(u, getattr(xp, name), copy=False)
        else:
            u = series(u)
        return _moved(xp, u, -1, along)

    return run


def _recur(y: Any, a: Sequence[complex], order: str) -> None:
    """The recurrences of all poles, in place."""
    for pole in roots(a):
        api.linear_recurrence(pole, y, axis=-1, out=y, order=order)


def _time(x: Any, axis: Any) -> int:
    if x.ndim == 0:
        raise ShapeError("a 0-dimensional array has no axis to filter along; pass x.reshape(1)")
    return axis_of(axis, tuple(x.shape))


@homes.apart
def linear_recurrence(coefficients: Any, x: Any, *, axis: int = -1, initial: Any = None) -> Any:
    """`y[t] = x[t] + c[0] y[t-1] + ... + c[p-1] y[t-p]`: constant coefficients, any order.

    Args:
        coefficients: c, 1-D of length p.
        x: real or complex array; integers count as float64.
        axis: the axis of time.
        initial: the p values before the first item, `initial[..., 0] = y[-1]`, `initial[..., 1] = y[-2]`, ...; 0 without.

    Returns:
        y, of x's shape, kind and device. Errors and accuracy are those of `upsweep.lfilter`. For coefficients that change
        in time and order 1 there is `upsweep.linear_recurrence`.

    >>> from upsweep import apps
    >>> apps.linear_recurrence([1, 1], [1, 0, 0, 0, 0, 0]).round(9).tolist()
    [1.0, 1.0, 2.0, 3.0, 5.0, 8.0]

    Source: Blelloch (1990), section 1.4.1.
    """
    c = np.atleast_1d(host(coefficients))
    if c.ndim != 1:
        raise ShapeError(f"coefficients must be 1-D, got shape {c.shape}")
    # Narrow and unsigned integers have no negative, and their products wrap.
    c = c.astype(np.float64) if c.dtype.kind in "biu" else c
    denominator = np.concatenate([np.ones(1, c.dtype), -c])
    if initial is None:
        return lfilter([1.0], denominator, x, axis=axis)
    before = host(initial)
    p = len(c)
    if before.shape[-1:] != (p,):
        raise ShapeError(f"initial has shape {before.shape}; its last dimension must be the order, {p}")
    parts = [sum(c[m + k] * before[..., k] for k in range(p - m)) for m in range(p)]
    state = np.stack(parts, -1) if parts else before
    if before.ndim == 1:
        state = np.expand_dims(state, tuple(range(np.ndim(x) - 1)))
    return lfilter([1.0], denominator, x, axis=axis, zi=np.moveaxis(state, -1, axis))[0]


def _moved(xp: Any, x: Any, source: int, to: int) -> Any:
    """`moveaxis`, which takes microseconds also where there is one axis."""
    return x if x.ndim == 1 and source in (0, -1) else xp.moveaxis(x, source, to)


def _times(xp: Any, c: complex, x: Any) -> Any:
    """`c x` from real products alone: a library's complex product may fuse its multiply-adds, and its bits vary."""
    if not c.imag:
        return c.real * x
    y = xp.empty_like(x)
    y.real = c.real * x.real - c.imag * x.imag
    y.imag = c.real * x.imag + c.imag * x.real
    return y


def _feed_forward(xp: Any, b: Sequence[complex], x: Any) -> Any:
    """The sums of what `b` makes of each item and of those before it, from left to right."""
    known = loops(choose((x,)))
    if known and x.dtype == np.float64:
        return known.feed_forward([c.real for c in b], x)
    y, n = xp.empty_like(x), x.shape[-1]
    step = max(1, (_AT_ONCE_NEAR if xp is np else _AT_ONCE) * n // max(1, math.prod(x.shape)))
    for lo in range(0, n, step):
        hi = min(n, lo + step)
        y[..., lo:hi] = _times(xp, b[0], x[..., lo:hi])
        for k in range(1, min(len(b), hi)):
            start = max(lo, k)
            part = y[..., start:hi]
            part += _times(xp, b[k], x[..., start - k : hi - k])
    return y


_AT_ONCE = 1 << 20
"""Items that are summed at once: 2^22 of them then take a third of the time, because intermediate memory is used again."""
_AT_ONCE_NEAR = 1 << 16
"""Items that are summed at once where NumPy computes: they stay in a near cache. ns an item, one thread, AMD, loaded, 16
coefficients, by 2^14, 2^16, 2^17, 2^20 at once: a row of 10^6 13, 11, 12, 16, 1000 rows of 1000 30, 23, 22, 31.
"""


def _in_series(xp: Any, x: Any, sections: tuple[Section, ...], name: str, order: str) -> Callable[[Any], Any]:
    """The function that takes arrays which lie where x does through sections. The last section gives the dtype `name`."""
    known = cascades(choose((x,)))
    at_once = known.cascade(sections, name, order) if known else None

    def results(x: Any) -> Any:
        y = None if at_once is None else at_once(x)
        return _by_scans(xp, sections, x, name, order) if y is None else y

    return results


def _by_scans(xp: Any, sections: tuple[Section, ...], x: Any, name: str, order: str) -> Any:
    """The same, each section a scan of the results of the one before it."""
    dtype = getattr(xp, name)
    for k, section in enumerate(sections):
        last = k + 1 == len(sections)
        fits = k > 0 and (not last or dtype == xp.float64)
        y = x if fits else xp.empty_like(x, dtype=dtype if last else xp.float64)
        pair = bool(section.pole.imag)
        numbers = section.now, *section.before, section.pole.real
        # A Python number would be as narrow as x.
        now, first, second, pole = map(np.float64, numbers)
        given = x, np.complex128(section.pole) if pair else pole, now, first, second
        api.scan(
            given, ops.AFFINE, map=_driven, finish=_of_pair if pair else _of_one, axis=-1, exclusive=True, order=order,
            dtype=np.complex128 if pair else np.float64, out=y,
        )  # fmt: skip
        x = y
    return x if sections else xp.astype(x, dtype, copy=True)


def _driven(x, pole, now, first, second):
    """The new state from the state before it and an item."""
    return pole, x


def _of_one(state, x, pole, now, first, second):
    return now * x + first * state[1]


def _of_pair(state, x, pole, now, first, second):
    return now * x + (first * state[1].real + second * state[1].imag)


def _state(xp: Any, zi: Any, axis: int, u: Any, order: int, wide: Any) -> Any:
    """The state with time last, of the shape that fits u."""
    shape = (*u.shape[:-1], order)
    moved = _moved(xp, zi, axis, -1) if zi.ndim == u.ndim else zi
    if (
        moved.ndim != u.ndim
        or any(have not in (1, want) for have, want in zip(moved.shape[:-1], shape))
        or moved.shape[-1] != order
    ):
        needed = list(u.shape[:-1])
        needed.insert(axis, order)
        raise ShapeError(
            f"zi has shape {tuple(zi.shape)}; these coefficients and x need shape {tuple(needed)}"
        )
    moved = moved if moved.dtype == wide else xp.astype(moved, wide)
    # NumPy takes microseconds to broadcast even an array of that shape.
    return moved if moved.shape == shape else xp.broadcast_to(moved, shape)


def _last_state(xp: Any, b: Sequence[complex], a: Sequence[complex], x: Any, y: Any, before: Any) -> Any:
    """The state of the transposed direct form after the last item, from the last inputs and outputs."""
    known = loops(choose((x,)))
    if known and x.dtype == np.float64:
        return known.last_state([c.real for c in b], [c.real for c in a], x, y, before)
    n, order = x.shape[-1], before.shape[-1]
    state = xp.zeros_like(before)
    state[..., : max(0, order - n)] = before[..., n:]
    for k in range(min(order, n)):
        item = n - 1 - k
        if len(b) > k + 1:
            state[..., : len(b) - k - 1] += _times_each(xp, b[k + 1 :], x[..., item])
        if len(a) > k + 1:
            state[..., : len(a) - k - 1] -= _times_each(xp, a[k + 1 :], y[..., item])
    return state


def _times_each(xp: Any, numbers: Sequence[complex], x: Any) -> Any:
    """The products of each item with all numbers, in an axis behind the others."""
    return xp.stack([_times(xp, c, x) for c in numbers], axis=-1)
