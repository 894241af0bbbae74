"""Filters as sections in series, all at once: a panel of items goes through every section before the next panel comes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import pack
from typing import Any

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.by_rows import LANES, ROW
from upsweep.cpu.jitted import jitted
from upsweep.cpu.memory import Items, inner
from upsweep.cpu.objects import address_of
from upsweep.cpu.sections import STEPS, section
from upsweep.cpu.shifts import behind, shifted, taken
from upsweep.cpu.transpose import turn_in, turn_out

LEVELS = 64
"""Powers of a pole: the largest block has 2^63 items."""
FEW = 4
"""The number of rows up to which rows go one by one: a step of all lanes takes as long as some steps of one row."""
SHARE = 1 << 16
"""Items that a thread takes at once."""
_PANEL = STEPS * LANES

_njit = jitted(error_model="numpy")


def cascade(sections: Sequence[Any], dtype: str, order: str) -> Callable[[np.ndarray], np.ndarray]:
    """The function of x that gives the results of sections: see `upsweep.moves.Cascades.cascade`."""
    table, alone = _table_of(sections), _alone_in_order if order == "sequential" else _along
    made, result = np.dtype(np.float32 if dtype == "float32" else np.float64), np.dtype(dtype)

    def results(x: np.ndarray) -> np.ndarray:
        x = x if x.dtype.char in "fd" else x.astype(np.float64)
        y = np.empty_like(x, dtype=made)
        if x.ndim == 1:
            alone(_row(x), _row(y), 1, len(x), table)
        else:
            _rows(x, y, table, order)
        return y if result is made else y.astype(result)

    return results


def _rows(x: np.ndarray, y: np.ndarray, table: tuple[np.ndarray, ...], order: str) -> None:
    """Rows through all sections, in threads."""
    for source, target in _planes(x, y):
        rows, n = source.shape
        beside = n < _PANEL or abs(source.strides[0]) < abs(source.strides[1])
        if order == "sequential":
            way, together = (_in_order, LANES) if rows > FEW else (_alone_in_order, 1)
        else:
            way, together = (_beside, LANES) if rows > FEW and beside else (_along, 1)
        share = max(1, SHARE // (n * together)) * together

        def work(lo: int, source=source, target=target, way=way, share=share) -> None:
            a, b = source[lo : lo + share], target[lo : lo + share]
            way(_words(a), _words(b), *a.shape, table)

        threads.each(work, range(0, rows, share))


def filtered(
    sections: Sequence[Any], packed: Sequence[bytes], x: np.ndarray, before: np.ndarray, order: str
) -> tuple[np.ndarray, np.ndarray]:
    """A row that goes on from a state: see `upsweep.moves.Loops.filtered`."""
    x, before = taken(x), taken(before)
    y, state = np.empty(x.shape), np.empty(before.shape)
    b, a = map(np.frombuffer, packed)
    _filtered(b, a, x, before, _table_of(sections), order == "sequential", y, state)
    return y, state


def _planes(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both arrays as rows: all rows at once, or a plane at a time where the strides do not make one plane of all."""
    if not x.size:
        return
    flat = [v.reshape(-1, v.shape[-1]) for v in (x, y)]
    if all(map(np.may_share_memory, flat, (x, y))):
        yield flat[0], flat[1]
    else:
        for place in np.ndindex(x.shape[:-2]):
            yield x[place], y[place]


def _row(v: np.ndarray) -> tuple[int, ...]:
    """The words of a single row."""
    return address_of(v), 0, v.strides[0], v.itemsize


def _words(v: np.ndarray) -> tuple[int, ...]:
    return address_of(v), *v.strides, v.itemsize


def _table_of(sections: Sequence[Any]) -> tuple[np.ndarray, ...]:
    numbers = [v for s in sections for v in (s.pole.real, s.pole.imag, s.now, *s.before)]
    return _table(pack(f"{len(numbers)}d", *numbers))


@lru_cache(256)
def _table(sections: bytes) -> tuple[np.ndarray, ...]:
    """For each section: whether its pole is one of a pair, the multipliers of its finish, and the powers of its pole. Sections
    are told by their bits: numbers that are equal may differ in the sign of a zero."""
    given = np.frombuffer(sections).reshape(-1, 5)
    # The numbers of one section are contiguous as they are, and could only be read: numba would compile all for these once more.
    pairs, numbers = given[:, 1] != 0, given[:, 2:].copy()
    powers: Any = np.tile(given[:, :2].copy().view(np.complex128).T, (LEVELS, 1))
    real = powers.real.copy()
    with np.errstate(all="ignore"):
        for k in range(1, LEVELS):
            real[k] = real[k - 1] * real[k - 1]
            re, im = powers[k - 1].real, powers[k - 1].imag
            powers[k].real, powers[k].imag = re * re - im * im, re * im + im * re
    return pairs, numbers, np.ascontiguousarray(real.T), np.ascontiguousarray(powers.T)


_one_along, _one_beside, _one_in_order = section(False)
_pair_along, _pair_beside, _pair_in_order = section(True)
_turn_in, _turn_out = inner(turn_in(8)), inner(turn_out(8))
_NARROW, _WIDE = (Items([np.dtype(d)], [np.dtype(np.float64)], True) for d in (np.float32, np.float64))
_read_narrow, _write_narrow = _NARROW.read_strided, _NARROW.write_strided
_read_wide, _write_wide = _WIDE.read_strided, _WIDE.write_strided


@inner
def _bring(panel, first, x, apart, step, size, lanes, steps):
    """Bring items to a panel, from lane `first` on. They lie `apart` bytes from lane to lane, and `step` from item to item."""
    if step == 8 and size == 8 and lanes == LANES:
        _turn_in(panel.ctypes.data, ROW, x, apart, lanes, steps)
        return
    for k in range(steps):
        for lane in range(lanes):
            at = (x + k * step,), (apart,), lane
            panel[k, first + lane] = _read_wide(*at) if size == 8 else _read_narrow(*at)


@inner
def _hand(panel, first, y, apart, step, size, lanes, steps):
    """Hand the results of a panel to their array."""
    if step == 8 and size == 8 and lanes == LANES:
        _turn_out(y, apart, panel.ctypes.data, ROW, lanes, steps)
        return
    for k in range(steps):
        for lane in range(lanes):
            at = (y + k * step,), (apart,), lane
            if size == 8:
                _write_wide(*at, panel[k, first + lane])
            else:
                _write_narrow(*at, panel[k, first + lane])


@_njit
def _along(source, target, rows, n, table):
    """Rows in the order of the tree, one by one: a lane of a panel is a run of the row."""
    panel, states = np.zeros((STEPS, LANES)), np.zeros((2, STEPS + 1, LANES))
    (x, x_row, x_step, x_size), (y, y_row, y_step, y_size) = source, target
    pairs, numbers, real, powers = table
    count = len(pairs)
    sums, folds = np.empty((2, count, LEVELS))
    many_sums, many_folds = np.empty((2, count, LEVELS), np.complex128)
    for row in range(rows):
        for t in range(0, n, _PANEL):
            lanes, rest = divmod(min(_PANEL, n - t), STEPS)
            a, b = x + row * x_row + t * x_step, y + row * y_row + t * y_step
            _bring(panel, 0, a, STEPS * x_step, x_step, x_size, lanes, STEPS)
            _bring(panel, lanes, a + lanes * STEPS * x_step, 0, x_step, x_size, min(rest, 1), rest)
            for s in range(count):
                at = t // STEPS
                if pairs[s]:
                    _pair_along(panel, states, many_sums[s], many_folds[s], powers[s], numbers[s], at)
                else:
                    _one_along(panel, states, sums[s], folds[s], real[s], numbers[s], at)
            _hand(panel, 0, b, STEPS * y_step, y_step, y_size, lanes, STEPS)
            _hand(panel, lanes, b + lanes * STEPS * y_step, 0, y_step, y_size, min(rest, 1), rest)


@_njit
def _beside(source, target, rows, n, table):
    """Rows in the order of the tree, a lane each."""
    panel, states = np.zeros((STEPS, LANES)), np.zeros((2, STEPS + 1, LANES))
    (x, x_row, x_step, x_size), (y, y_row, y_step, y_size) = source, target
    pairs, numbers, real, powers = table
    count = len(pairs)
    sums, folds = np.zeros((2, count, 2, STEPS + 1, LANES))
    for row in range(0, rows, LANES):
        lanes = min(LANES, rows - row)
        for t in range(0, n, STEPS):
            steps, a, b = min(STEPS, n - t), x + row * x_row + t * x_step, y + row * y_row + t * y_step
            _bring(panel, 0, a, x_row, x_step, x_size, lanes, steps)
            for s in range(count):
                if pairs[s]:
                    _pair_beside(panel, states, sums[s], folds[s], powers[s], numbers[s], t // STEPS)
                else:
                    _one_beside(panel, states, sums[s], folds[s], real[s], numbers[s], t // STEPS)
            _hand(panel, 0, b, y_row, y_step, y_size, lanes, steps)


@_njit
def _in_order(source, target, rows, n, table):
    """Rows in order, a lane each."""
    panel = np.zeros((STEPS, LANES))
    (x, x_row, x_step, x_size), (y, y_row, y_step, y_size) = source, target
    pairs, numbers, real, powers = table
    count = len(pairs)
    for row in range(0, rows, LANES):
        lanes, before = min(LANES, rows - row), np.zeros((count, 2, STEPS + 1, LANES))
        for t in range(0, n, STEPS):
            steps, a, b = min(STEPS, n - t), x + row * x_row + t * x_step, y + row * y_row + t * y_step
            _bring(panel, 0, a, x_row, x_step, x_size, lanes, steps)
            for s in range(count):
                if pairs[s]:
                    _pair_in_order(panel, before[s], powers[s], numbers[s], steps, t == 0)
                else:
                    _one_in_order(panel, before[s], real[s], numbers[s], steps, t == 0)
            _hand(panel, 0, b, y_row, y_step, y_size, lanes, steps)


@_njit
def _alone_in_order(source, target, rows, n, table):
    """Rows in order, one by one, an item through all sections at a time: while one section waits, others compute."""
    (x, x_row, x_step, x_size), (y, y_row, y_step, y_size) = source, target
    pairs, numbers, real, powers = table
    count = len(pairs)
    for row in range(rows):
        before = np.zeros(count, np.complex128)
        for t in range(n):
            at = (x + row * x_row,), (x_step,), t
            value = _read_wide(*at) if x_size == 8 else _read_narrow(*at)
            for s in range(count):
                now, first, second = numbers[s]
                state = before[s]
                if pairs[s]:
                    result = now * value + (first * state.real + second * state.imag)
                    before[s] = state * powers[s, 0] + value if t else complex(value)
                else:
                    result = now * value + first * state.real
                    before[s] = complex(state.real * real[s, 0] + value if t else value)
                value = result
            at = (y + row * y_row,), (y_step,), t
            if y_size == 8:
                _write_wide(*at, value)
            else:
                _write_narrow(*at, value)


@_njit
def _filtered(b, a, x, before, table, in_order, y, state):
    """The sums of the items of a row, then all sections, where these lie, and the state."""
    n, order = len(x), len(before)
    shifted(b, x, n, 1, 0, n, y)
    for m in range(min(n, order)):
        y[m] += before[m]
    place = y.ctypes.data, 8 * n, 8, 8
    if in_order:
        _alone_in_order(place, place, 1, n, table)
    else:
        _along(place, place, 1, n, table)
    last = max(0, n - order)
    ends = x[last:].reshape((1, n - last)), y[last:].reshape((1, n - last))
    behind(b, a, *ends, before.reshape((1, order)), state.reshape((1, order)))
