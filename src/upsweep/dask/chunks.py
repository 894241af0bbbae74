"""The chunks of Dask arrays: their sizes must be known, and some have no items."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from upsweep.arguments import ShapeError


def known(x: Any) -> Any:
    """A Dask array whose chunks all have known sizes."""
    for sizes in x.chunks:
        check_sizes(sizes)
    return x


def check_sizes(sizes: tuple[Any, ...]) -> None:
    """A ShapeError where the sizes of the chunks along an axis are not known."""
    if any(np.isnan(n) for n in sizes):
        raise ShapeError(
            "the sizes of chunks are unknown: call x.compute_chunk_sizes() first, or take "
            "table.to_dask_array(lengths=True)"
        )


def filled(x: Any) -> Any:
    """An array without the chunks that have no items, as a selection may leave them: beside these Dask's own functions, such as
    x[::-1], lose items or do not run."""
    return x.rechunk({d: tuple(filter(None, sizes)) or (0,) for d, sizes in gaps(x).items()})


def gaps(x: Any) -> dict[int, tuple[int, ...]]:
    """The sizes of the chunks along axes where some have no items."""
    return {d: sizes for d, sizes in enumerate(x.chunks) if 0 in sizes}


def native(x: Any) -> Any:
    """A Dask array, in this machine's order of bytes."""
    x = da.asarray(x)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
