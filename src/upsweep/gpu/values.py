"""The small operands of a scan, brought to the device: initial values, broadcast operands, segments as flags.

Operands on the host are checked there. Operands on the device stay there and are not waited for: offsets that do not fit are
then cut off rather than reported.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import Any, Literal

import numpy as np

from upsweep.dtypes import raw
from upsweep.engine import DTypeError, on_gpu
from upsweep.gpu import driver
from upsweep.gpu.arrays import scratch, view
from upsweep.gpu.launch import THREADS, run, run_small
from upsweep.gpu.marks import Marks
from upsweep.gpu.shapes import power_of_two
from upsweep.gpu.view import View, c_strides
from upsweep.host import heads as host_heads
from upsweep.operator import Operator, OperatorError
from upsweep.operators import ops
from upsweep.plan import Plan
from upsweep.segments import SegmentError, Segments

_BATCH = 8
"""Items that a thread takes, by kernels/marks.cuh."""
_SPANS, _BLOCKS = (8192, 131072), 512
"""The fewest and the most items that a block marks, by kernels/mark.cu, and the blocks of which many have fewer than the most."""
_FEW = 8192
"""The most lengths of which each block makes ends by itself, without a scan before. Calls of 40 to 110 MB took .90 to .98 of the
time so (H200)."""
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def start(value: Any, dtype: np.dtype, like: Any) -> View:
    """The values that a scan starts from, in the accumulator's dtype: a value that travels with the launch, or device memory."""
    if on_gpu(value):
        seen = view(value)
        # Nobody waits for these numbers: wider integers are refused by their dtype, where the host looks at each number.
        whole = seen.dtype.kind in "iu" and dtype.kind in "iu"
        return _cast(seen, dtype, "initial", "safe" if whole else "same_kind")
    host = np.asarray(value)
    host = host.view(np.int64) if host.dtype.kind in "mM" else host.astype(dtype)
    return view(host) if host.ndim == 0 else uploaded(host, view(like))


def broadcast(value: Any, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> View:
    """A scalar or a smaller array as one of `shape`: missing dimensions have stride 0. A number in host memory travels with
    the launch.
    """
    if on_gpu(value):
        seen = _cast(view(value), dtype, "an operand")
    else:
        host, place = np.asarray(value, dtype), view(like)
        if host.ndim == 0:
            flat = (0,) * len(shape)
            return View(0, shape, flat, dtype, place.device, place.kind, place.owner, True, value=host)
        seen = uploaded(host, place)
    missing = len(shape) - len(seen.shape)
    have = (1,) * missing + seen.shape
    if missing < 0 or any(h not in (1, n) for h, n in zip(have, shape)):
        raise OperatorError(f"shape {seen.shape} does not broadcast to {shape}")
    strides = tuple(0 if h == 1 else s for h, s in zip(have, (0,) * missing + seen.strides))
    return seen.over(seen.ptr, shape, strides, dtype)


def heads(segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> View | Marks:
    """Flags of `shape`, or 1-D along the axis, that are non-zero where a segment starts; or an object that will write the 1-D
    ones down.
    """
    n = shape[axis]
    if not on_gpu(segments.values):
        # They are checked where they are.
        flags = host_heads(segments, shape, axis, None)
        return uploaded(np.ascontiguousarray(flags), view(like))
    values = view(segments.values)
    if segments.spelling in ("flags", "keys") and values.shape not in (shape, (n,)):
        raise SegmentError(
            f"{segments.spelling} have shape {values.shape}; pass {n} of them, or the data's shape {shape}"
        )
    if segments.spelling == "flags":
        if values.dtype.kind not in "biu":
            raise SegmentError(f"flags must be booleans or integers, got {values.dtype}")
        return values if values.dtype.itemsize == 1 else converted(values, _BOOL)
    if segments.spelling == "keys":
        if len(values.shape) > 1:
            return _changes(values, axis)
        keys = _dense(values)
        return Marks(keys, n, partial(_write_changes, keys.dtype, n), given=keys is values)
    if len(values.shape) != 1 or values.dtype.kind not in "iu":
        raise SegmentError(
            f"{segments.spelling} must be 1-D integers, got {values.dtype}, shape {values.shape}"
        )
    lengths = segments.spelling == "lengths"
    if lengths and values.shape[0] > _FEW:
        values, lengths = _offsets(values), False
    write = partial(_write_starts, values.dtype, *values.shape, *values.strides, n, lengths)
    return Marks(values, n, write, given=False)


def _new(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    return scratch(like, prod(shape) * dtype.itemsize).over_all(shape, dtype)


def _stream(x: View) -> int:
    assert x.kind is not None
    return x.kind.stream(x)


def uploaded(host: np.ndarray, like: View) -> View:
    """An array of this machine's memory, on the device and in the order of the stream of `like`."""
    host = np.ascontiguousarray(host).reshape(host.shape)
    made = _new(like, host.shape, host.dtype)
    with driver.on_device(made.device):
        driver.upload(made.ptr, host, _stream(made))
    return made


def downloaded(x: View) -> np.ndarray:
    """The items of an array without gaps, in this machine's memory; the stream is waited for."""
    with driver.on_device(x.device):
        return driver.download(x.ptr, prod(x.shape) * x.dtype.itemsize, _stream(x)).view(x.dtype)


def _cast(x: View, dtype: np.dtype, what: str, casting: Literal["safe", "same_kind"] = "same_kind") -> View:
    """x in another dtype, C-contiguous: the scan of rows of one item."""
    if x.dtype == dtype:
        return x
    if not np.can_cast(x.dtype, dtype, casting):
        raise DTypeError(
            f"{what} of {x.dtype} does not fit a scan that is computed in {dtype}: convert it first"
        )
    return converted(x, dtype)


def converted(x: View, dtype: np.dtype) -> View:
    made = _new(x, x.shape, dtype)
    shape = (*x.shape, 1)
    # A copy moves bits.
    load, store = (raw(dtype), raw(dtype)) if x.dtype == dtype else (x.dtype, dtype)
    plan = _plan(ops.OR if dtype == _BOOL else ops.ADD, load, store, shape)
    thin = x.over(x.ptr, shape, (*x.strides, load.itemsize), load)
    run(plan, [thin], [made.over(made.ptr, shape, (*made.strides, store.itemsize), store)], None, None)
    return made


# A launch is known by its plan.
@lru_cache(4096)
def _plan(op: Operator, load: np.dtype, dtype: np.dtype, shape: tuple[int, ...]) -> Plan:
    """A scan of rows in the last axis."""
    return Plan(op, (load,), (dtype,), (dtype,), shape, len(shape) - 1)


def _offsets(lengths: View) -> View:
    """The end of each segment: the scan of the lengths."""
    ends = _new(lengths, lengths.shape, _INT64)
    plan = _plan(ops.ADD, lengths.dtype, _INT64, lengths.shape)
    run(plan, [lengths], [ends], None, None)
    return ends


def _dense(x: View) -> View:
    return x if x.strides == c_strides(x.shape, x.dtype.itemsize) else converted(x, x.dtype)


def _write_starts(
    dtype: np.dtype, m: int, stride: int, n: int, lengths: bool,
    starts: int, at: int, bits: bool, reverse: bool, stream: int, device: int,
) -> None:  # fmt: skip
    """Marks for n items, of m places where segments start, or of m lengths."""
    backwards = bits and reverse
    if backwards and not lengths:
        starts, stride = starts + (m - 1) * stride, -stride
    span = min(_SPANS[1], max(_SPANS[0], power_of_two(n // _BLOCKS)))
    numbers = [starts, m, stride, at, n, bits, backwards, span, lengths]
    run_small("mark", dtype, numbers, -(-n // span) * THREADS, stream, device)


def _write_changes(
    key: np.dtype, n: int, keys: int, at: int, bits: bool, reverse: bool, stream: int, device: int
) -> None:
    """Marks for n items, of their keys."""
    backwards = bits and reverse
    first = keys + backwards * (n - 1) * key.itemsize
    numbers = [first, at, n, n, -1 if backwards else 1]
    run_small("changes_bits" if bits else "changes", key, numbers, -(-n // _BATCH), stream, device)


def _changes(keys: View, axis: int) -> View:
    """Flags of keys that are as many as the items of all rows."""
    keys = _dense(keys)
    made = _new(keys, keys.shape, _BOOL)
    count, inner = prod(keys.shape), prod(keys.shape[axis + 1 :])
    numbers = [keys.ptr, made.ptr, count, keys.shape[axis], inner]
    with driver.on_device(made.device):
        run_small("changes", keys.dtype, numbers, -(-count // _BATCH), _stream(made), made.device)
    return made
