"""Arrays of every library that lie in this machine's memory, as NumPy arrays and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from upsweep import dtypes, homes
from upsweep.engine import LIKENESS, EngineError, Likeness, Way, library_of, memory, on_gpu
from upsweep.host import labelled, tensors
from upsweep.operator import identity_of
from upsweep.plan import Plan


def view(x: Any) -> np.ndarray:
    """The memory of `x` as a NumPy array; lists and scalars become arrays first. Where the memory does not hold the numbers as
    they are computed with, this is a copy that cannot be written to."""
    if type(x) is np.ndarray and x.dtype.isnative:
        return x
    if type(x) in _PYTHONS:
        return _made(x)
    # Nothing is masked where numpy.ma is not imported (the import takes 10 ms), or while another thread is importing it.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(x, masked):
        raise EngineError(
            "a masked array would lose its mask: pass x.filled(e) with the operator's identity e, 0 for a sum, and "
            "np.ma.array(y, mask=x.mask) of the result"
        )
    if isinstance(x, np.ndarray):
        if type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__:
            raise EngineError(
                f"a {type(x).__name__} computes in its own way, with units for instance, and a scan would lose that: pass "
                "np.asarray(x), whose numbers alone are scanned"
            )
        # A product of np.matrix would be one of matrices.
        x = np.asarray(x)
        return x if x.dtype.isnative else _copied(x.astype(x.dtype.newbyteorder("=")))
    if on_gpu(x):
        raise EngineError(
            f"this {type(x).__name__} lies on a GPU: pass engine='cuda' or 'auto', or bring it to the host"
        )
    if library_of(x) == "torch":
        return _from_torch(x)
    homes.check(x)
    if labelled.has(x):
        return labelled.items(x)
    if hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
        return _made(x)
    return np.from_dlpack(x)


_PYTHONS = {bool, int, float, complex, list, tuple}
"""Types that no library has."""


def _made(x: Any) -> np.ndarray:
    """An array of what NumPy makes one of."""
    if isinstance(x, str):
        raise EngineError(
            f"{x!r} is a text and no array: pass the array or the column itself; scan_file takes names of files and columns"
        )
    try:
        made = np.asarray(x)
    except ValueError as error:
        raise EngineError(
            f"this {type(x).__name__} is no array: if it holds lists of several lengths, pass one list of all items, with "
            "segments=upsweep.segments.lengths(...)"
        ) from error
    if made.ndim == 0 and made.dtype.kind in "OSU":
        raise EngineError(f"this {type(x).__name__} is no array: pass an array, or a list of the numbers")
    return made


def writable(view: np.ndarray) -> bool:
    """Whether results may be written there."""
    return view.flags.writeable


def copied(x: Any, seen: Any) -> bool:
    """Whether the view of `x` is a copy that can be written to, as of a tuple or a column in chunks: results that are written
    there would not be in `x`. A second view shows it, as a second copy lies elsewhere than the first.
    """
    if seen is x or not isinstance(seen, np.ndarray) or not seen.size or not writable(seen):
        return False
    return not np.may_share_memory(seen, view(x))


def empty(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory."""
    return memory(like, shape, dtype)(like)


def give(like: Any, view: np.ndarray) -> Any:
    """A result as the kind of array that came in."""
    if type(like) is np.ndarray:
        return view if view.ndim else view[()]
    library = library_of(like)
    if library == "torch":
        return _to_torch(view)
    if library in ("jax", "jaxlib"):
        import jax

        # A value of another shape is spread over several devices in another way.
        several = view.shape != like.shape and len(like.sharding.device_set) > 1
        return jax.device_put(view, None if several else like.sharding)
    if labelled.has(like):
        return labelled.labelled(like, view)
    if isinstance(like, (np.ndarray, np.generic)) or not hasattr(like, "__array_namespace__"):
        return view if view.ndim else view[()]
    return like.__array_namespace__().from_dlpack(view)


def of_nothing(plan: Plan, initial: Sequence[np.ndarray] | None) -> tuple[Plan, list[np.ndarray]]:
    """The reduction of no items is the reduction of one: of `initial`, or the identity."""
    values = identity_of(plan.op, plan.accumulators) if initial is None else initial
    shape = (1, *plan.row_shape)
    one = replace(plan, map=None, loads=plan.accumulators, shape=shape, axis=0, initial=False)
    return one, [np.broadcast_to(v, shape) for v in values or ()]


def cut(view: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    """The part `[start, stop)` of a view along an axis."""
    return view[(slice(None),) * axis + (slice(start, stop),)]


def numbers(view: np.ndarray) -> np.ndarray:
    """Times as the int64 that they are stored as; any other array as it is."""
    return view.view(dtypes.number(view.dtype)) if view.dtype.kind in "mM" else view


def start(value: Any, dtype: np.dtype, like: Any) -> np.ndarray:
    """The values that a scan starts from, in the accumulator's dtype."""
    return numbers(view(value)).astype(dtype, copy=False)


def broadcast(value: Any, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> np.ndarray:
    """A scalar or a smaller array as one of `shape`, without a copy for each item."""
    return np.broadcast_to(view(value).astype(dtype, copy=False), shape)


def apart(x: np.ndarray, ys: Sequence[np.ndarray]) -> np.ndarray:
    """`x`, or a copy where writing `ys` would spoil it: they share memory other than item for item."""
    for y in ys:
        if np.may_share_memory(x, y) and place(x) != place(y):
            return x.copy()
    return x


def place(x: np.ndarray) -> tuple[Any, ...]:
    """The places of the items, without the dimensions of length one between them."""
    return x.ctypes.data, tuple((n, s) for n, s in zip(x.shape, x.strides) if n != 1), x.itemsize


def _from_torch(x: Any) -> np.ndarray:
    homes.check(x)
    LIKENESS[sys.modules["torch"].Tensor] = TORCH_LIKENESS
    return _read_torch(x)


def _read_torch(x: Any) -> np.ndarray:
    """The memory of a tensor that nothing follows, as its likeness says of those of scans that are known."""
    import torch

    known = dtypes.row_of(x.dtype)
    # PyTorch hands NumPy the bits of such a dtype.
    if known is not None and known.module != "numpy":
        return x.view(getattr(torch, f"int{8 * x.itemsize}")).numpy().view(dtypes.named(known.name))
    if x.is_conj() or x.is_neg():
        return _copied(x.resolve_conj().resolve_neg().numpy())
    try:
        return x.numpy()
    except (TypeError, RuntimeError) as error:
        # PyTorch's own operators alone take tensors without memory.
        if x.is_meta or isinstance(x, torch._subclasses.FakeTensor):
            raise homes.Elsewhere("torch") from None
        tensors.check_dense(x)
        raise EngineError(f"PyTorch does not show the memory of this tensor: {error}") from error


def _torch_reader(x: Any) -> Callable[[Any], np.ndarray]:
    """A function that shows the memory of tensors like this one, the bits of dtypes that NumPy lacks."""
    import torch

    if x.is_conj() or x.is_neg():
        return _read_torch
    known = dtypes.row_of(x.dtype)
    if known is None or known.module == "numpy":
        return torch.Tensor.numpy
    bits = getattr(torch, f"int{8 * x.itemsize}")
    return lambda x: x.view(bits).numpy()


def _wrote_torch(y: Any) -> None:
    # A gradient that has kept the tensor as it was would be another one now: PyTorch refuses that by this count.
    if not y.is_inference():
        _increment()(y)


@cache
def _increment() -> Callable[[Any], None]:
    return sys.modules["torch"].autograd.graph.increment_version


TORCH_LIKENESS = Likeness(
    lambda x: tensors.likeness((x,)),
    {"cpu": Way(memory, lambda shape, dtype: _torch_giver(dtype), _torch_reader)},
    wrote=_wrote_torch,
    together=tensors.likeness,
)
"""The likeness of PyTorch's tensors, wherever they lie."""


def _copied(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


def _to_torch(view: np.ndarray) -> Any:
    return _torch_giver(view.dtype)(view)


def _torch_giver(dtype: np.dtype) -> Callable[[np.ndarray], Any]:
    """A function that makes tensors of memory of a dtype."""
    import torch

    if not dtypes.foreign(dtype):
        return torch.from_numpy
    bits, own = f"i{dtype.itemsize}", getattr(torch, dtype.name)
    return lambda view: torch.from_numpy(view.view(bits)).view(own)


@lru_cache(1024)
def without_ahead(plan: Plan) -> Plan:
    """A plan with a component that is read ahead as one without: that component comes in its accumulator's dtype, as `shifted`
    makes it."""
    loads = tuple(plan.accumulators[i] if i == plan.ahead else d for i, d in enumerate(plan.loads))
    return replace(plan, loads=loads, ahead=None)


def shifted(plan: Plan, xs: Sequence[np.ndarray], initial: Sequence[np.ndarray] | None) -> list[np.ndarray]:
    """The inputs of a plan with a component that is read ahead, for one without: the component is moved to where the others
    are."""
    c = plan.ahead
    assert c is not None
    moved, last = np.empty(plan.shape, plan.accumulators[c]), initial[c] if initial else 0
    along = (slice(None),) * plan.axis
    here, there, end = (
        (slice(1, None), slice(None, -1), 0) if plan.reverse else (slice(None, -1), slice(1, None), -1)
    )
    moved[(*along, here)], moved[(*along, end)] = xs[c][(*along, there)], last
    return [moved if i == c else x for i, x in enumerate(xs)]
