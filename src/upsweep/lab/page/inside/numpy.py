"""The part of NumPy that the lab uses, in plain Python: the `numpy` of an offline page, whose Python has no other.

Pyodide's NumPy lies on a server of its own and in no registry of packages, so a page that is to need no network cannot have
it. Traces are columns of some ten thousand integers; lists do for them. Arrays are flat lists in C order with a shape.
"""

from __future__ import annotations

import builtins
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise, product
from typing import Any

inf, nan, pi = math.inf, math.nan, math.pi


class generic:
    """No value here is one: NumPy's scalars are Python's own."""


class dtype:
    """The name of a type of items."""

    def __init__(self, of: Any):
        self.name = of if isinstance(of, str) else of.__name__
        bits = "".join(filter(str.isdigit, self.name))
        # A short name, such as i4, counts bytes; a long one, such as int32, counts bits.
        if len(self.name) == 2 and bits:
            self.itemsize = int(bits)
        else:
            self.itemsize = int(bits) // 8 if bits else {"V": 0, "bool": 1}.get(self.name, 8)
        self.kind = {"o": "O", "V": "V"}.get(self.name[0], self.name[0])

    def __eq__(self, other: object) -> bool:
        return self.name == dtype(other).name if isinstance(other, (str, type)) else self is other

    def __hash__(self) -> int:
        return hash(self.name)


def _scalar(name: str, base: type) -> type:
    return type(name, (base,), {})


int8, int16, int32, int64 = (_scalar(f"int{bits}", int) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_scalar(f"uint{bits}", int) for bits in (8, 16, 32, 64))
float16, float32, float64 = (_scalar(f"float{bits}", float) for bits in (16, 32, 64))
complex64, complex128 = (_scalar(f"complex{bits}", complex) for bits in (64, 128))
bool_, datetime64, timedelta64 = bool, _scalar("datetime64", int), _scalar("timedelta64", int)
integer = floating = complexfloating = number = generic


class iinfo:
    def __init__(self, of: Any):
        bits = 8 * dtype(of).itemsize
        signed = dtype(of).name[0] == "i"
        self.min, self.max = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


class ndarray:
    """A flat list with a shape."""

    def __init__(self, data: list[Any], shape: tuple[int, ...] | None = None):
        self.data, self.shape = data, (len(data),) if shape is None else shape

    # --- what it is ---

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data) if len(self.shape) == 1 else (self[k] for k in range(self.shape[0]))

    def __bool__(self) -> bool:
        (one,) = self.data
        return bool(one)

    def __int__(self) -> int:
        return int(self.item())

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> dtype:
        first = self.data[0] if self.data else 0
        return dtype({bool: "bool", int: "int64", float: "float64"}.get(type(first), "object"))

    @property
    def T(self) -> ndarray:
        rows, columns = len(self), math.prod(self.shape[1:])
        return ndarray(
            [self.data[r * columns + c] for c in range(columns) for r in range(rows)], (columns, rows)
        )

    def tolist(self) -> Any:
        return list(self.data) if len(self.shape) == 1 else [row.tolist() for row in self]

    def item(self) -> Any:
        (one,) = self.data
        return one

    def copy(self) -> ndarray:
        return ndarray(list(self.data), self.shape)

    def astype(self, to: Any) -> ndarray:
        return ndarray([to(v) for v in self.data], self.shape)

    def reshape(self, *shape: int) -> ndarray:
        known = math.prod(k for k in shape if k != -1)
        return ndarray(self.data, tuple(len(self.data) // known if k == -1 else k for k in shape))

    # --- places ---

    def _places(self, key: Any) -> tuple[list[int], tuple[int, ...]]:
        """The flat places that a key means, and the shape of what it takes out."""
        keys = key if isinstance(key, tuple) else (key,)
        strides = [math.prod(self.shape[k + 1 :]) for k in range(len(self.shape))]
        if len(keys) > 1 and builtins.all(isinstance(k, ndarray) for k in keys):
            pairs = zip(*(k.data for k in keys))
            return [sum(map(int.__mul__, pair, strides)) for pair in pairs], keys[0].shape
        axes: list[list[int]] = []
        shape: list[int] = []
        axis = 0
        for one in (*keys, *[slice(None)] * (len(self.shape) - sum(k is not None for k in keys))):
            if one is None:
                shape.append(1)
                continue
            stride, long = strides[axis], self.shape[axis]
            axis += 1
            if isinstance(one, int):
                axes.append([(one + long if one < 0 else one) * stride])
                continue
            if isinstance(one, slice):
                taken = list(range(*one.indices(long)))
            else:
                taken = list(one.data if isinstance(one, ndarray) else one)
                if taken and taken[0].__class__ is bool:
                    taken = [k for k, yes in enumerate(taken) if yes]
            axes.append([(k + long if k < 0 else k) * stride for k in taken])
            shape.append(len(taken))
        places = axes[0] if len(axes) == 1 else [sum(some) for some in product(*axes)]
        return places, tuple(shape)

    def __getitem__(self, key: Any) -> Any:
        if key.__class__ is int and len(self.shape) == 1:
            return self.data[key]
        if len(self.shape) == 1 and isinstance(key, ndarray) and len(key.shape) == 1:
            data, kept = self.data, key.data
            if kept and kept[0].__class__ is bool:
                return ndarray([v for v, yes in zip(data, kept) if yes])
            return ndarray([data[k] for k in kept])
        places, shape = self._places(key)
        return ndarray([self.data[k] for k in places], shape) if shape else self.data[places[0]]

    def __setitem__(self, key: Any, value: Any) -> None:
        if key.__class__ is int and len(self.shape) == 1:
            self.data[key] = value
            return
        places, _ = self._places(key)
        values = value.data if isinstance(value, ndarray) else value if isinstance(value, list) else None
        for k, place in enumerate(places):
            self.data[place] = value if values is None else values[k if len(values) > 1 else 0]

    # --- all of them ---

    def _along(self, axis: int, of: Callable[[list[Any]], Any]) -> ndarray:
        after = math.prod(self.shape[axis + 1 :])
        long, before = self.shape[axis], math.prod(self.shape[:axis])
        lines = (
            [self.data[(b * long + k) * after + a] for k in range(long)]
            for b in range(before)
            for a in range(after)
        )
        return ndarray([of(line) for line in lines], (*self.shape[:axis], *self.shape[axis + 1 :]))

    def sum(self, axis: int | None = None) -> Any:
        return sum(self.data) if axis is None else self._along(axis, sum)

    def max(self, axis: int | None = None, initial: Any = None) -> Any:
        if axis is not None:
            return self._along(axis, max)
        return max(self.data) if initial is None else max([initial, *self.data])

    def min(self, axis: int | None = None, initial: Any = None) -> Any:
        if axis is not None:
            return self._along(axis, min)
        return min(self.data) if initial is None else min([initial, *self.data])

    def any(self, axis: int | None = None) -> Any:
        return builtins.any(self.data) if axis is None else self._along(axis, builtins.any)

    def all(self, axis: int | None = None) -> Any:
        return builtins.all(self.data) if axis is None else self._along(axis, builtins.all)

    def __invert__(self) -> ndarray:
        return ndarray([not v if v.__class__ is bool else ~v for v in self.data], self.shape)

    def __neg__(self) -> ndarray:
        return ndarray([-v for v in self.data], self.shape)

    def __hash__(self) -> int:
        return id(self)


def _paired(a: Any, b: Any, fn: Callable[[Any, Any], Any]) -> ndarray:
    if not isinstance(b, ndarray) and not isinstance(b, list):
        return ndarray([fn(v, b) for v in a.data], a.shape)
    b = asarray(b)
    if a.shape == b.shape:
        return ndarray(list(map(fn, a.data, b.data)), a.shape)
    dims = max(len(a.shape), len(b.shape))
    one, two = ((1,) * (dims - len(k.shape)) + k.shape for k in (a, b))
    shape = tuple(max(p, q) if min(p, q) else 0 for p, q in zip(one, two))

    def places(own: tuple[int, ...]) -> Iterator[int]:
        steps = [0 if own[k] == 1 else math.prod(own[k + 1 :]) for k in range(dims)]
        return (sum(map(int.__mul__, at, steps)) for at in product(*map(range, shape)))

    return ndarray([fn(a.data[p], b.data[q]) for p, q in zip(places(one), places(two))], shape)


def _operators() -> None:
    """Give the class what Python writes with signs, each from the left and from the right."""
    import operator as of

    signs = {"add": of.add, "sub": of.sub, "mul": of.mul, "floordiv": of.floordiv, "truediv": of.truediv, "mod": of.mod,
             "and": of.and_, "or": of.or_, "xor": of.xor, "rshift": of.rshift, "lshift": of.lshift, "pow": of.pow}  # fmt: skip
    for name, fn in signs.items():
        setattr(ndarray, f"__{name}__", lambda a, b, fn=fn: _paired(a, b, fn))
        setattr(ndarray, f"__r{name}__", lambda a, b, fn=fn: _paired(a, b, lambda x, y: fn(y, x)))
    for name, fn in {"eq": of.eq, "ne": of.ne, "lt": of.lt, "le": of.le, "gt": of.gt, "ge": of.ge}.items():
        setattr(ndarray, f"__{name}__", lambda a, b, fn=fn: _paired(a, b, fn))


_operators()


# --- making arrays ------------------------------------------------------------------------------------------------------


def array(given: Any, to: Any = None, dtype: Any = None, copy: bool | None = None) -> ndarray:
    if isinstance(given, ndarray):
        return given.copy()
    if not isinstance(given, (list, tuple, range)):
        return ndarray([given], ())
    items: list[Any] = list(given)
    if items and isinstance(items[0], (list, tuple)):
        width = len(items[0])
        return ndarray([v for row in items for v in row], (len(items), width))
    if items and isinstance(items[0], ndarray):
        return stack(items)
    return ndarray(items)


def asarray(given: Any, to: Any = None) -> ndarray:
    return given if isinstance(given, ndarray) else array(given)


def fromiter(given: Iterable[Any], to: Any = None, count: int = -1) -> ndarray:
    return ndarray([int(v) for v in given] if to is int64 else list(given))


def full(shape: Any, value: Any, to: Any = None) -> ndarray:
    dims: tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(shape)
    return ndarray([value] * math.prod(dims), dims)


def zeros(shape: Any, to: Any = None) -> ndarray:
    return full(shape, False if to is bool else 0)


def ones(shape: Any, to: Any = None) -> ndarray:
    return full(shape, True if to is bool else 1)


empty = zeros


def arange(*given: int) -> ndarray:
    return ndarray(list(range(*given)))


def stack(arrays: Any) -> ndarray:
    some = [asarray(one) for one in arrays]
    return ndarray([v for one in some for v in one.data], (len(some), *some[0].shape))


def concatenate(arrays: Any) -> ndarray:
    return ndarray([v for one in arrays for v in asarray(one).data])


def append(one: Any, more: Any) -> ndarray:
    return ndarray([*asarray(one).data, *asarray(more).data])


def ravel(given: Any) -> ndarray:
    return ndarray(list(asarray(given).data))


def shape(given: Any) -> tuple[int, ...]:
    return asarray(given).shape


def broadcast_to(given: Any, to: Any) -> ndarray:
    return _paired(zeros(to), asarray(given), lambda _, v: v)


def pad(one: ndarray, width: tuple[int, int]) -> ndarray:
    return ndarray([0] * width[0] + one.data + [0] * width[1])


def repeat(one: ndarray, times: ndarray) -> ndarray:
    return ndarray([v for v, k in zip(one.data, times.data) for _ in range(k)])


def split(one: ndarray, places: ndarray) -> list[ndarray]:
    cuts = [0, *places.data, len(one.data)]
    return [ndarray(one.data[a:b]) for a, b in pairwise(cuts)]


# --- asking them --------------------------------------------------------------------------------------------------------


def where(yes: ndarray, a: Any, b: Any) -> ndarray:
    def spread(v: Any) -> list[Any]:
        return v.data if isinstance(v, ndarray) else [v] * len(yes.data)

    return ndarray([p if y else q for y, p, q in zip(yes.data, spread(a), spread(b))], yes.shape)


def flatnonzero(one: ndarray) -> ndarray:
    return ndarray([k for k, v in enumerate(one.data) if v])


def isin(one: ndarray, these: Iterable[Any]) -> ndarray:
    some = set(these)
    return ndarray([v in some for v in one.data], one.shape)


def unique(
    one: Any, axis: int | None = None, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    one = asarray(one)
    items = list(zip(*one)) if axis == 1 else one.data
    found = sorted(set(items))
    kept = ndarray(found)
    if axis == 1:
        kept = ndarray([v for row in zip(*found) for v in row], (len(one), len(found)))
    place = {v: k for k, v in enumerate(found)}
    inverse = [place[v] for v in items]
    counts = bincount(ndarray(inverse), len(found)) if return_counts else None
    more = [ndarray(inverse)] if return_inverse else []
    more += [counts] if counts is not None else []
    return (kept, *more) if more else kept


def bincount(one: ndarray, minlength: int = 0) -> ndarray:
    counts = [0] * max(minlength, 1 + max(one.data, default=-1))
    for v in one.data:
        counts[v] += 1
    return ndarray(counts)


def argsort(one: ndarray, kind: str = "stable") -> ndarray:
    return ndarray(sorted(range(len(one.data)), key=one.data.__getitem__))


def lexsort(keys: Any) -> ndarray:
    columns = [asarray(key).data for key in reversed(keys)]
    return ndarray(sorted(range(len(columns[0])), key=lambda k: [column[k] for column in columns]))


def searchsorted(one: ndarray, values: Any, side: str = "left") -> ndarray:
    find = bisect_right if side == "right" else bisect_left
    return ndarray([find(one.data, v) for v in asarray(values).data])


def cumsum(one: Any, axis: int | None = None) -> ndarray:
    one = asarray(one)
    if axis is None:
        return ndarray(list(accumulate(one.data)))
    rows, columns = one.shape
    lines = (accumulate(one.data[r * columns : (r + 1) * columns]) for r in range(rows))
    return ndarray([v for line in lines for v in line], one.shape)


def diff(one: ndarray) -> ndarray:
    return ndarray([b - a for a, b in pairwise(one.data)])


def isclose(a: float, b: float, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return a == b or (equal_nan and a != a and b != b) or abs(a - b) <= atol + rtol * abs(b)


def all(one: Any) -> bool:
    return bool(asarray(one).all())


class ufunc:
    """A function of two scalars, on arrays, along one, and into one."""

    def __init__(self, fn: Callable[[Any, Any], Any]):
        self.fn = fn

    def __call__(self, a: Any, b: Any) -> Any:
        if isinstance(a, ndarray):
            return _paired(a, b, self.fn)
        return _paired(b, a, self.fn) if isinstance(b, ndarray) else self.fn(a, b)

    def accumulate(self, one: Any) -> ndarray:
        return ndarray(list(accumulate(asarray(one).data, self.fn)))

    def at(self, into: ndarray, places: ndarray, values: Any) -> None:
        some = values.data if isinstance(values, ndarray) else [values] * len(places.data)
        for place, value in zip(places.data, some):
            into.data[place] = self.fn(into.data[place], value)


maximum, minimum, add = ufunc(max), ufunc(min), ufunc(lambda a, b: a + b)
multiply = ufunc(lambda a, b: a * b)
logical_or, logical_and = ufunc(lambda a, b: bool(a or b)), ufunc(lambda a, b: bool(a and b))
