"""The C part of the memory of calls, where it was built: it runs remembered calls without Python.

It does what `recall`, `replay`, `cpu.again` and `gpu.again` do for such calls; they stay the only definition. It knows a call by
the types, dtypes, shapes and strides of NumPy's arrays, offsets and lengths of segments by their dtype, other arrays by
`engine.LIKENESS`, numbers by their type, and all other arguments by identity. Any other call goes the long way.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _here() -> Any:
    # The module counts on the GIL.
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        return import_module("upsweep._short_way")
    except ImportError:
        return None


part = _here()
"""The extension module; None where the package was installed without a C compiler."""


def runs(known: Any) -> bool:
    """Whether the C part runs what is known."""
    return part is not None and type(known) in (part.Launch, part.Launches)
