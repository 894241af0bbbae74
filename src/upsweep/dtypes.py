"""The one table of dtypes: the accumulator of each, its names in C and in the frameworks, the order of its bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

import numpy as np


class Narrow(NamedTuple):
    """The bits of a float that is stored narrower than it is computed with: a sign, then these."""

    exponent: int
    mantissa: int
    infinite: bool = True
    """Whether the highest exponent means infinity and NaN, as in IEEE 754; else all ones alone are NaN."""

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def largest(self) -> int:
        """The code of the largest number, without its sign; the next code is infinity, or NaN where there is none."""
        most = (1 << (self.exponent + self.mantissa)) - 1
        return most - (1 << self.mantissa) if self.infinite else most - 1

    @property
    def nan(self) -> int:
        """The code that a NaN is stored as, without its sign."""
        return self.largest + 1 + (self.infinite << (self.mantissa - 1))


class DType(NamedTuple):
    """All that upsweep knows of one dtype."""

    name: str
    """NumPy's, or that of ml_dtypes."""
    kind: str
    """NumPy's kind code of the numbers that it holds."""
    accumulator: str
    """The name of the dtype that its scans are computed in."""
    memory: str
    """The C type that holds an item in memory."""
    value: str
    """The C type that an item is computed with: that of the accumulator."""
    order: str = ""
    """How its bits are ordered: as "signed" or "unsigned" integers, as "float" or as "time"; "" where they are not."""
    torch: bool = True
    """Whether PyTorch has it, under the same name (JAX has all that ml_dtypes and NumPy have, but times)."""
    narrow: Narrow | None = None
    module: str = "numpy"
    """Where the scalar type comes from."""


TABLE: dict[str, DType] = {
    row.name: row
    for row in (
        DType("bool", "b", "bool", "b8", "bool", "signed"),
        DType("int8", "i", "int8", "i8", "i8", "signed"),
        DType("int16", "i", "int16", "i16", "i16", "signed"),
        DType("int32", "i", "int32", "i32", "i32", "signed"),
        DType("int64", "i", "int64", "i64", "i64", "signed"),
        DType("uint8", "u", "uint8", "u8", "u8", "unsigned"),
        DType("uint16", "u", "uint16", "u16", "u16", "unsigned"),
        DType("uint32", "u", "uint32", "u32", "u32", "unsigned"),
        DType("uint64", "u", "uint64", "u64", "u64", "unsigned"),
        DType(
            "float8_e4m3fn", "f", "float32", "e4m3", "f32", "float", True, Narrow(4, 3, False), "ml_dtypes"
        ),
        DType("float8_e5m2", "f", "float32", "e5m2", "f32", "float", True, Narrow(5, 2), "ml_dtypes"),
        DType("bfloat16", "f", "float32", "bf16", "f32", "float", True, Narrow(8, 7), "ml_dtypes"),
        DType("float16", "f", "float32", "f16", "f32", "float", True, Narrow(5, 10)),
        DType("float32", "f", "float32", "f32", "f32", "float"),
        DType("float64", "f", "float64", "f64", "f64", "float"),
        DType("complex64", "c", "complex64", "c64", "c64"),
        DType("complex128", "c", "complex128", "c128", "c128"),
        DType("timedelta64", "m", "int64", "i64", "i64", "time", torch=False),
        DType("datetime64", "M", "int64", "i64", "i64", "time", torch=False),
    )
}


KINDS = {
    "b": "booleans", "i": "integers", "u": "integers", "f": "floats", "c": "complex numbers", "m": "timedelta64",
    "M": "datetime64",
}  # fmt: skip
"""The words of error messages for NumPy's kind codes."""


# NumPy makes a dtype's name anew each time.
@lru_cache(1024)
def row_of(name: object) -> DType | None:
    """The row of a dtype by its name in any library, or None where it cannot be scanned.

    >>> row_of("torch.float16").accumulator, row_of("timedelta64[ns]").order
    ('float32', 'time')
    """
    return TABLE.get(str(name).rpartition(".")[2].partition("[")[0])


def kind_of(dtype: object) -> str:
    """NumPy's kind code of the numbers that a dtype of any library holds, also of bfloat16; "" of what cannot be scanned."""
    known = row_of(dtype)
    return "" if known is None else known.kind


# NumPy makes a dtype's name anew each time.
@lru_cache(1024)
def row(dtype: np.dtype) -> DType | None:
    """The row of a NumPy dtype, or None where it cannot be scanned."""
    return TABLE.get(dtype.name.partition("[")[0])


def named(name: str) -> np.dtype:
    """The NumPy dtype of that name; those that NumPy lacks are ml_dtypes'.

    >>> named("float32")
    dtype('float32')
    """
    known = TABLE.get(name)
    if known is not None and known.module != "numpy":
        return np.dtype(getattr(import_module(known.module), name))
    return np.dtype(name)


@lru_cache(1024)
def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype that a scan computes in: narrow floats sum in float32, times in int64, all else in itself."""
    known = row(dtype)
    return dtype if known is None or known.accumulator == known.name else np.dtype(known.accumulator)


def carried(dtype: np.dtype) -> np.dtype:
    """The dtype of block sums between chunks: that of the result, but for narrow floats, which are rounded at the store
    only."""
    return accumulator(dtype) if narrow(dtype) else dtype


def narrow(dtype: np.dtype) -> Narrow | None:
    """The bits of a float that is stored narrower than it is computed with; None for every other dtype."""
    known = row(dtype)
    return None if known is None else known.narrow


def foreign(dtype: np.dtype) -> bool:
    """Whether NumPy itself lacks the dtype, so that libraries hand over its bits alone."""
    known = row(dtype)
    return known is not None and known.module != "numpy"


def raw(dtype: np.dtype) -> np.dtype:
    """A dtype that moves the bits of narrow floats untouched; every other dtype itself."""
    return np.dtype(f"u{dtype.itemsize}") if narrow(dtype) else dtype


def number(dtype: np.dtype) -> np.dtype:
    """The dtype that an engine reads and writes: int64 for times, each other dtype itself."""
    return np.dtype(np.int64) if dtype.kind in "mM" else dtype


def kind(dtype: np.dtype) -> str:
    """NumPy's kind code of the numbers that a dtype holds; NumPy itself has none for ml_dtypes'."""
    known = row(dtype)
    return dtype.kind if known is None else known.kind


def code(dtype: np.dtype) -> str:
    """Kind and bytes of a dtype's accumulator, such as "f4"; times have their own."""
    computed = dtype if dtype.kind in "mM" else accumulator(dtype)
    return f"{computed.kind}{computed.itemsize}"


# NumPy's own answer takes longer than the launch of a kernel.
@lru_cache(1024)
def fits(have: np.dtype, want: np.dtype) -> bool:
    """Whether values of one dtype may be stored as another of the same kind; NumPy does not know that of ml_dtypes'. Times of
    another unit would have to be multiplied, where a scan moves their integers; and no kernel writes objects or long doubles.

    >>> fits(np.dtype("f8"), np.dtype("f4")), fits(np.dtype("m8[s]"), np.dtype("m8[ms]"))
    (True, False)
    """
    if have.kind in "mM" and want.kind in "mM":
        return np.datetime_data(have) == np.datetime_data(want) and have.kind == want.kind
    if row(want) is None:
        return False
    half = np.dtype(np.float16)
    have, want = (half if narrow(d) else d for d in (have, want))
    return np.can_cast(have, want, "same_kind")


def bits_of(size: int) -> np.dtype:
    """A dtype that moves items of so many bytes as they are."""
    return np.dtype({1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[size])


def as_bits(dtypes: Sequence[np.dtype], kinds: str) -> tuple[np.dtype, ...]:
    """The dtypes with those of these kinds as the bits of their size."""
    return tuple(bits_of(d.itemsize) if d.kind in kinds else d for d in dtypes)
