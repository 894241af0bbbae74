"""The meaning of every scan's arguments: one shape, an axis, dtypes. A mistake ends here, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.engine import DTypeError, library_of, load
from upsweep.plan import ORDERS


class ShapeError(ValueError):
    """Shapes or an axis that do not fit together."""


class OutputError(ValueError):
    """`out` has the wrong shape, number or kind, or cannot be written."""


def check_any(xs: tuple[Any, ...]) -> None:
    """A ShapeError where there is nothing to scan."""
    if not xs:
        raise ShapeError("an empty tuple is no sequence; pass one array or a tuple of arrays")


def shape_of(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The one shape that all arrays of a tuple have."""
    if any(s != shapes[0] for s in shapes):
        raise ShapeError(f"the arrays of a tuple must have one shape, got {', '.join(map(str, shapes))}")
    return shapes[0]


def check_broadcasts(what: str, shape: Sequence[Any], like: Sequence[Any]) -> None:
    """A ShapeError where an array of this shape does not broadcast to the other shape as it stands."""
    if shape != like and (
        len(shape) > len(like) or any(m not in (1, n) for m, n in zip(reversed(shape), reversed(like)))
    ):
        raise ShapeError(f"{what} of shape {tuple(shape)} cannot be broadcast to shape {tuple(like)}")


def check_starts(shape: Sequence[int], rows: Sequence[int]) -> None:
    """A ShapeError where `initial` is neither one value for all rows nor one for each."""
    if tuple(shape) not in ((), tuple(rows)):
        raise ShapeError(
            f"initial has shape {tuple(shape)}; pass a scalar or one value a row, shape {tuple(rows)}"
        )


def parts_of(value: Any, count: int, what: str) -> tuple[Any, ...]:
    """The parts of a value that a scan of `count` components is given, one for each."""
    if count == 1 and not isinstance(value, tuple):
        return (value,)
    if not isinstance(value, tuple) or len(value) != count:
        raise ShapeError(f"{what} must be a tuple of {count}, one for each component, got {value!r}")
    return value


def fields_of(records: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The fields of structured data, which are scanned as the arrays of a tuple are."""
    return tuple([records[name] for name in names])


def starts_of_fields(initial: Any, names: tuple[str, ...]) -> Any:
    """The values that the fields of structured data start from."""
    structured = isinstance(initial, (np.void, np.ndarray)) and initial.dtype.names
    return fields_of(initial, names) if structured else initial


def written_fields(record: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The fields of structured memory that results go to; an OutputError where it has others."""
    if record.dtype.names != names:
        raise OutputError(f"out has dtype {record.dtype}; the result has the fields {', '.join(names)}")
    return fields_of(record, names)


def axis_of(axis: int | None, shape: tuple[int, ...]) -> int:
    """The axis to scan along, counted from the front; it may be left out for one dimension only.

    >>> axis_of(-1, (3, 4))
    1
    """
    if not shape:
        raise ShapeError(
            "a 0-dimensional array has no axis to scan along; pass x.reshape(1), or a list where a tuple of numbers was meant"
        )
    if axis is None:
        if len(shape) == 1:
            return 0
        raise ShapeError(
            f"the array has {len(shape)} dimensions {shape}: say which to scan along, axis=0 to axis={len(shape) - 1}, "
            "or pass x.ravel()"
        )
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        named = (
            ": dimensions have names in upsweep.xarray, x.upsweep.scan(dim=...)"
            if isinstance(axis, str)
            else ""
        )
        raise ShapeError(f"axis={axis!r} is not an integer{named}")
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"axis={axis} is out of range for an array of {len(shape)} dimensions {shape}")
    return int(axis) % len(shape)


def check_order(order: str) -> None:
    if not isinstance(order, str) or order not in ORDERS:
        raise ValueError(f"order={order!r}: pass one of {', '.join([repr(o) for o in ORDERS])}")


def dtypes_of(dtype: Any) -> tuple[np.dtype, ...] | None:
    """The dtypes that `dtype=` names: one for all arrays, a tuple with one for each, or None."""
    if dtype is None:
        return None
    return tuple(dtype_of(d) for d in dtype) if isinstance(dtype, tuple) else (dtype_of(dtype),)


def dtype_of(dtype: Any) -> np.dtype:
    """A NumPy dtype from whatever names one, PyTorch's included."""
    if type(dtype).__module__ == "torch":
        dtype = str(dtype).removeprefix("torch.")
    try:
        made = dtypes.named(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except ModuleNotFoundError as missing:
        raise DTypeError(f"{dtype} needs a package that is not here: pip install {missing.name}") from missing
    except (TypeError, ValueError) as error:
        raise DTypeError(f"dtype={dtype!r} is no dtype: pass 'float64' for instance") from error
    # Results have this machine's order of bytes.
    return made if made.isnative else made.newbyteorder("=")


def result_dtypes(given: Sequence[np.dtype], dtype: Sequence[np.dtype] | None) -> tuple[np.dtype, ...]:
    """The dtype of each component's result."""
    for d in given:
        if dtypes.row(d) is None:
            what = f"text ({d})" if d.kind in "SUT" else d
            raise DTypeError(
                f"{what} cannot be scanned; numbers, booleans, times and structures of them can: convert it first, "
                "x.astype('float64') or x.astype('M8[us]') for instance"
            )
    if dtype is None:
        return tuple(given)
    wanted = tuple(dtype) * len(given) if len(dtype) == 1 else tuple(dtype)
    if len(wanted) != len(given):
        raise DTypeError(f"dtype= names {len(wanted)} dtypes for {len(given)} arrays")
    for have, want in zip(given, wanted):
        if dtypes.row(want) is None:
            raise DTypeError(f"nothing is scanned as dtype={want}: pass one of numbers, booleans or times")
        if not dtypes.fits(have, want):
            raise DTypeError(
                f"{have} cannot be scanned as dtype={want}: convert the array first, x.astype({str(want)!r})"
            )
    return wanted


SUMMED: Any = object()
"""Stands in a checked call for the dtype that `summed_dtype` says, which is not known before the array is looked at."""


def summed_dtype(dtype: np.dtype, wanted: Any, size: int = np.dtype(np.int_).itemsize) -> Any:
    """The dtype that `cumulative_sum` and `cumulative_prod` compute in: the default integer, of `size` bytes, where the data's is
    narrower."""
    if wanted is None and dtype.kind in "biu" and dtype.itemsize < size:
        return np.dtype(f"{'u' if dtype.kind == 'u' else 'i'}{size}")
    return wanted


def alone(include_initial: bool, segments: Any) -> None:
    """A ValueError where a result with one item more is asked for each segment."""
    if include_initial and segments is not None:
        raise ValueError(
            "include_initial adds one item to a row, and segments have no place for it: pass exclusive=True to scan instead"
        )


def followed(last_value: Any, next_values: Any, truncated: Any) -> None:
    """A ValueError where `gae` is not told the values that follow the items, or told twice."""
    if (last_value is None) == (next_values is None):
        raise ValueError(
            "pass last_value, the value after the last item, or next_values, those after every item"
        )
    if truncated is not None and next_values is None:
        raise ValueError("pass next_values: where an episode is truncated, values[t+1] is the next episode's")


def check_flags(flags: Any, kind: str, shape: Sequence[int], axis: int) -> None:
    """An error where flags of episodes, an array of any library with numbers of this kind, are no real numbers, or have neither
    the data's shape nor one flag for each place along the axis.
    """
    shape = tuple(shape)
    if kind not in ("b", "i", "u", "f"):
        raise DTypeError(f"flags must be booleans or numbers, got {flags.dtype}")
    if tuple(flags.shape) not in (shape, (shape[axis],)):
        raise ShapeError(
            f"flags have shape {tuple(flags.shape)}; pass {shape[axis]} of them, or the data's shape {shape}"
        )


def number_of(item: int) -> np.integer:
    """The number of an item, to compare indices with: a GPU compares words of 32 bits faster, where these are enough."""
    return np.int32(item) if item < 1 << 31 else np.int64(item)


def is_number(x: Any) -> bool:
    """Whether something among arrays is a number, which is a parameter of a map."""
    return isinstance(x, (bool, int, float, complex, np.generic)) or (
        isinstance(x, np.ndarray) and x.ndim == 0
    )


def number(value: Any, what: str) -> float:
    """A number as Python's; an error where it is none. NumPy's float32 would be multiplied in its own few digits."""
    if isinstance(value, (int, float)):
        return float(value)
    made = held(value, np.dtype("f8"), what, "a tensor or array of PyTorch or JAX")
    if made.ndim:
        raise ShapeError(f"{what} has shape {made.shape}: pass a number")
    return made.item()


def number_dtype(value: Any, arrays: Sequence[np.dtype]) -> np.dtype:
    """The dtype that a number is a parameter in beside arrays: its own, where it has one. A number of Python takes that of the
    arrays that hold such numbers.

    >>> number_dtype(0.5, [np.dtype("i8"), np.dtype("f4")]), number_dtype(3, [np.dtype("u1")])
    (dtype('float32'), dtype('uint8'))
    """
    if not isinstance(value, (bool, int, float, complex)) or isinstance(value, (bool, np.generic)):
        return np.asarray(value).dtype
    computed = [dtypes.accumulator(dtypes.number(d)) for d in arrays]
    kinds = "iu" if isinstance(value, int) else "c" if isinstance(value, complex) else "fc"
    alike = [d for d in computed if d.kind in kinds] or [d for d in computed if d.kind in "fc"]
    return np.result_type(*alike, value)


def held(
    value: Any, dtype: np.dtype, what: str = "initial", instead: str = "dtype={!r} for instance"
) -> np.ndarray:
    """A value from the host as an array of `dtype`; a DTypeError where it would become another value. Numbers of Python have no
    dtype of their own, and real numbers may be rounded. `instead` is the other thing to do, with a place for a wider dtype.

    >>> held(3.0, np.dtype("i1"))
    array(3, dtype=int8)
    """
    if type(value) is float and dtype == np.float64:
        return np.array(value)
    # Arrays, also those of NumPy, may have a mask.
    plain = library_of(value) in ("builtins", "numpy", "datetime") and not isinstance(value, np.ndarray)
    have: Any = np.asarray(value) if plain else load("numpy").view(value)
    if have.dtype == dtype:
        return have
    try:
        if have.dtype == object:
            have = _of_objects(have, dtype)
        with np.errstate(all="ignore"):
            fitting = _kinds_fit(value, have.dtype, dtype)
            made = have.astype(dtype, copy=False) if fitting else have
    except (TypeError, ValueError, OverflowError):
        fitting, made = False, have
    if not fitting or not np.all(_as_before(have, made)):
        wider = "complex128" if have.dtype.kind == "c" else "float64"
        other = (
            f", or {instead.format(wider)}"
            if have.dtype.kind in "biufc" and dtype.kind not in "mM" and dtype != wider
            else ""
        )
        raise DTypeError(
            f"{what}={value!r} is no value of {dtype}, in which this is computed: pass one that is{other}"
        )
    return made


def _of_objects(objects: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Objects as numbers or times; a TypeError, or an array of objects, where they are neither. NumPy would make NaN of None,
    truths of anything, and fewer digits of times."""
    made = np.asarray(objects.tolist())
    kinds = set(map(type, made.ravel().tolist())) if made.dtype == object else set()
    if kinds and all(issubclass(kind, (date, timedelta)) for kind in kinds):
        return made.astype(f"{dtype.kind}8[us]")
    # Whole numbers of more than 64 bits.
    return made.astype(dtype) if kinds == {int} and dtype.kind in "fc" else made


def _kinds_fit(value: Any, have: np.dtype, want: np.dtype) -> bool:
    if have.kind in "mM" or want.kind in "mM":
        return have.kind in (want.kind, "i", "u")
    if isinstance(value, (bool, int, float, complex)):
        return have.kind != "c" or want.kind == "c"
    return dtypes.fits(have, want) or (have.kind in "iu" and want.kind in "iu")


def _as_before(have: np.ndarray, made: np.ndarray) -> Any:
    """True at each value that a conversion has kept: whole numbers must be equal, finite numbers must stay finite."""
    if made.dtype.kind in "mM":
        # Of integers, the largest unsigned ones would come back.
        back = made.astype(np.int64 if have.dtype.kind in "iu" else have.dtype)
        return (back == have) | (have != have)
    return made == have if made.dtype.kind in "biu" else np.isfinite(made) | ~np.isfinite(have)
