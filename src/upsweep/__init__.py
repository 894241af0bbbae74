"""upsweep: parallel prefix scans with the same bits on every machine, at the speed of a copy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from upsweep import segments
from upsweep.api import (
    cumlogsumexp,
    cummax,
    cummin,
    cumulative_prod,
    cumulative_sum,
    linear_recurrence,
    prepared,
    scan,
)
from upsweep.arguments import OutputError, ShapeError
from upsweep.cores import set_threads
from upsweep.elsewhere import absent
from upsweep.engine import DTypeError, EngineError
from upsweep.laws import LawError, check
from upsweep.operator import Operator, OperatorError
from upsweep.operators import ops
from upsweep.reductions import reduce
from upsweep.segments import SegmentError

if TYPE_CHECKING:
    from upsweep import apps, lab
    from upsweep.apps.filters import lfilter
    from upsweep.apps.recurrences import ema
    from upsweep.apps.rewards import discounted_sum, gae
    from upsweep.files import FileError, scan_file
    from upsweep.stream import Stream

__all__ = [
    "DTypeError",
    "EngineError",
    "FileError",
    "LawError",
    "Operator",
    "OperatorError",
    "OutputError",
    "SegmentError",
    "ShapeError",
    "Stream",
    "apps",
    "check",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumulative_prod",
    "cumulative_sum",
    "discounted_sum",
    "ema",
    "gae",
    "lab",
    "lfilter",
    "linear_recurrence",
    "ops",
    "prepared",
    "reduce",
    "scan",
    "scan_file",
    "segments",
    "set_threads",
]


_LATER = {
    "FileError": "files",
    "Stream": "stream",
    "discounted_sum": "apps.rewards",
    "ema": "apps.recurrences",
    "gae": "apps.rewards",
    "lfilter": "apps.filters",
    "scan_file": "files",
}
_ROOMS = ("apps", "dask", "jax", "lab", "pandas", "polars", "textbook", "torch", "xarray")


# These names are loaded on first use, so that `import upsweep` stays cheap.
def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = globals()[name] = getattr(import_module(f"upsweep.{_LATER[name]}"), name)
        return value
    if name == "__version__":
        return import_module("importlib.metadata").version("upsweep")
    if name in _ROOMS:
        return import_module(f"upsweep.{name}")
    return absent("upsweep")(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
