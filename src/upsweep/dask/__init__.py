"""Scans of Dask arrays, lazily, with the bits of one machine whatever the chunks: two tasks a chunk, and a tree of carries.

Every function here gives the bits of its namesake in `upsweep`, which calls it for a Dask array.

>>> import dask.array as da, upsweep as up
>>> up.scan(da.arange(6, chunks=4)).compute().tolist()
[0, 1, 3, 6, 10, 15]
"""

from upsweep.dask.recurrences import discounted_sum, ema, linear_recurrence
from upsweep.dask.scans import cumlogsumexp, cummax, cummin, cumulative_prod, cumulative_sum, reduce, scan
from upsweep.elsewhere import absent

__all__ = [
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumulative_prod",
    "cumulative_sum",
    "discounted_sum",
    "ema",
    "linear_recurrence",
    "reduce",
    "scan",
]

__getattr__ = absent("upsweep.dask")
