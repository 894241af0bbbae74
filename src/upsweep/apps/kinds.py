"""Whatever array comes in, the same kind goes out. Only this module of the applications looks at libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep import engine as engines
from upsweep.arguments import ShapeError, result_dtypes
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError, EngineError, library_of
from upsweep.host import give as back
from upsweep.host import labelled, view
from upsweep.host.labels import check_alike, check_beside, marks_of
from upsweep.segments import Segments

REAL = ("b", "i", "u", "f")
INTEGRAL = ("i", "u")
_PLAIN = {np.ndarray, float, int, type(None)}


def enter(*given: Any, labels: bool = False) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    """The array namespace to compute with, the arrays in it, and a function that turns a result into the kind of the first array,
    with its labels where `labels` says that each item of the result belongs to the item in its place.

    Arrays in this machine's memory are computed with NumPy, whatever library made them. Arrays on a GPU are computed with their
    own library, which must be CuPy or PyTorch. None stays None behind the first array.

    >>> xp, (x, nothing), give = enter([1, 2], None)
    >>> type(x).__name__, nothing, give(x + 1).tolist()
    ('ndarray', None, [2, 3])
    """
    for x in given:
        if type(x) is not np.ndarray or not x.dtype.isnative:
            break
    else:
        return np, [*given], given_back
    if _PLAIN.issuperset(map(type, given)):
        return np, [view(given[0]), *[x if x is None else view(x) for x in given[1:]]], given_back
    there = next((x for x in given if engines.on_gpu(x)), None)
    if there is None:
        views: list[Any] = [view(given[0]), *[x if x is None else view(x) for x in given[1:]]]
        like = next((x for x in given if labelled.has(x) or hasattr(x, "__dlpack__")), given[0])
        like = np.empty(0) if labelled.has(like) and not labels else like
        return np, views, lambda y: back(like, _plain(y))
    library = library_of(there)
    if library not in ("cupy", "torch"):
        raise EngineError(
            f"on a GPU the applications compute with CuPy and PyTorch, and a {type(there).__name__} is neither's: "
            "pass cupy.from_dlpack(x) or torch.from_dlpack(x)"
        )
    xp = _namespace(library)
    # Python's numbers go by way of NumPy: PyTorch would make float32 of them, and it warns of memory that may not be written.
    arrays = [
        x if x is None or engines.on_gpu(x) else xp.asarray(np.array(host(x)), device=there.device)
        for x in given
    ]
    return xp, arrays, lambda y: y


def check_labels(
    given: Sequence[Any], shape: Sequence[int], axis: int, marks: dict[str, Any], starts: dict[str, Any] | None = None,
    segments: Segments | None = None,
) -> None:  # fmt: skip
    """An EngineError where labels differ: those of arrays that broadcast to that shape, of marks of items, of values that rows
    start from, and of segments."""
    if any(map(labelled.has, given)):
        check_alike(given)
        beside = [*marks.items(), *marks_of(segments)]
        check_beside(given, tuple(shape), axis, beside, [*(starts or {}).items()])


def computed_in(xp: Any, x: Any) -> Any:
    """The dtype that x is computed in: narrow floats are summed in float32."""
    known = dtypes.row_of(x.dtype)
    return x.dtype if known is None or known.narrow is None else xp.float32


def parameter(xp: Any, value: Any, x: Any, dtype: Any = None) -> Any:
    """A weight for x. A number stays one: a scan takes it in the dtype that x is computed in, on a GPU without a wait. An array
    takes a `dtype`, that one by default: half precision would make 1 of 0.999. If it has the dtype of x, it is left so.

    >>> parameter(np, 0.5, np.zeros(3, np.float32)), parameter(np, np.ones(1), np.zeros(3, np.float16)).dtype.name
    (0.5, 'float32')
    """
    known = dtypes.row_of(x.dtype)
    if isinstance(value, (int, float, complex)) and known is not None:
        if isinstance(value, complex) and known.kind != "c":
            raise DTypeError(
                f"{value!r} is no value of {x.dtype}, in which this is computed: pass complex items"
            )
        # NumPy's numbers have a dtype of their own, and truths another one.
        return value.item() if isinstance(value, np.generic) else +value
    weights = view(value) if xp is np and type(value) is np.ndarray else enter(value, x)[1][0]
    if kind_of(weights.dtype) not in (REAL if kind_of(x.dtype) != "c" else (*REAL, "c")):
        raise DTypeError(
            f"weights of {weights.dtype} do not go with items of {x.dtype}: convert the weights first"
        )
    if weights.ndim > x.ndim:
        raise ShapeError(
            f"weights of shape {tuple(weights.shape)} cannot be broadcast to shape {tuple(x.shape)}"
        )
    if dtype is None:
        dtype = x.dtype if weights.dtype == x.dtype else computed_in(xp, x)
    return weights if weights.dtype == dtype else xp.astype(weights, dtype)


def common(xp: Any, *arrays: Any) -> Any:
    """The dtype that holds the items of all arrays.

    >>> common(np, np.zeros(1, "f4"), np.zeros(1)).name
    'float64'
    """
    try:
        return xp.result_type(*[x.dtype for x in arrays])
    except TypeError as error:
        names = " and ".join(str(x.dtype) for x in arrays)
        raise DTypeError(
            f"no dtype holds {names}: pass all of them as one, x.astype('float32') for instance"
        ) from error


def count_of(value: Any, what: str) -> int:
    """A number of items that somebody passes, or a ShapeError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ShapeError(f"{what}={value!r} is no number of items: pass an integer from 0 on")
    return int(value)


def real(xp: Any, x: Any, what: str) -> Any:
    """Real numbers as float64. Of complex ones the imaginary part would be lost."""
    if x is None:
        raise DTypeError(f"{what} must hold real numbers, got None")
    if kind_of(x.dtype) not in REAL:
        raise DTypeError(f"{what} must hold real numbers, got {x.dtype}")
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def summed(xp: Any, dtype: Any) -> Any:
    """The widest dtype of a kind, in which an application sums: integers and booleans in 64 bits, floats in float64."""
    wide = {"b": xp.int64, "i": xp.int64, "u": xp.int64, "f": xp.float64, "c": xp.complex128}.get(
        kind_of(dtype)
    )
    if wide is None:
        raise DTypeError(f"{dtype} cannot be summed; numbers and booleans can")
    return xp.uint64 if dtype == xp.uint64 else wide


def _standard() -> Any:
    """The module that gives CuPy's and PyTorch's arrays the names of the array API standard. NumPy has them itself."""
    try:
        import array_api_compat
    except ImportError as missing:
        raise EngineError(
            "on a GPU the applications need a package that is not here: pip install array-api-compat"
        ) from missing
    return array_api_compat


@cache
def _namespace(library: str) -> Any:
    """The names of the array API standard for a library. `array_namespace`, which looks at an array, takes two microseconds."""
    return import_module(f"{_standard().__name__}.{library}")


def _plain(y: Any) -> np.ndarray:
    """A C-contiguous array. A single item of a flipped array counts as contiguous too, but PyTorch takes no negative stride."""
    if type(y) is np.ndarray and y.flags.c_contiguous and min(y.strides, default=0) >= 0:
        return y
    y = np.asarray(y)
    return np.asarray(y if min(y.strides, default=0) >= 0 else y.copy(), order="C")


def given_back(y: Any) -> Any:
    """A result as it is given back where NumPy's arrays came in, in C's order."""
    if type(y) is not np.ndarray or not y.flags.c_contiguous:
        y = np.asarray(y, order="C")
    return y if y.ndim else y[()]


def host(x: Any) -> np.ndarray:
    """A few numbers (coefficients, automata) as a NumPy array, wherever they lie."""
    if engines.on_gpu(x):
        x = np.asarray(x) if library_of(x) in ("jax", "jaxlib") else _standard().to_device(x, "cpu")
    return view(x)


def floating(xp: Any, x: Any) -> Any:
    """`x` in a floating or complex dtype: integers and booleans become float64, as in NumPy."""
    known = dtypes.row_of(x.dtype)
    if known is None and xp is np:
        # A DTypeError: a number beside x would be one of no dtype.
        result_dtypes((x.dtype,), None)
    return xp.astype(x, xp.float64) if known is not None and known.kind in "biu" else x
