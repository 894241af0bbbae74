"""Integers in the order of the keys, made from the keys' bits with an array library's own operations."""

from __future__ import annotations

from typing import Any

from upsweep import dtypes


def keys(xp: Any, x: Any, falling: bool) -> Any:
    """Signed integers of x's size in the order of x, or, falling, the other way round: NaNs are one, so are the zeros."""
    order, found = ordering(x), bits(xp, x)
    top = 2 ** (8 * x.itemsize - 1) - 1
    if order == "unsigned":
        made = found ^ (-top - 1)
    elif order == "float":
        # -0.0 alone has the key -1. CuPy's comparison of floats takes subnormals for zero.
        made = _folded(found)
        made = xp.where(x != x, xp.full_like(found, top), made + (made == -1))
    else:
        # Not-a-time, the lowest number, becomes the highest.
        made = found - 1 if order == "time" else found
    return ~made if falling else made


def unkeyed(keys: Any, x: Any, falling: bool) -> Any:
    """The bits that keys were made from, where different items had different keys."""
    keys = ~keys if falling else keys
    order = ordering(x)
    if order == "unsigned":
        return keys ^ -(2 ** (8 * x.itemsize - 1))
    if order == "float":
        return _folded(keys)
    return keys + 1 if order == "time" else keys


def bits(xp: Any, x: Any) -> Any:
    """The items as signed integers of their size."""
    return x.view(getattr(xp, f"int{8 * x.itemsize}"))


def ordering(x: Any) -> str:
    """How the bits of x are ordered, by the table of dtypes; "" where they are not."""
    known = dtypes.row_of(x.dtype)
    return known.order if known is not None else ""


def _folded(bits: Any) -> Any:
    """All bits but the sign flipped where that is set: from a float's order of bits to integers' and back."""
    width = 8 * bits.itemsize - 1
    return bits ^ ((bits >> width) & (2**width - 1))
