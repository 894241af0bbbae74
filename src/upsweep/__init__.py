"""upsweep: parallel prefix scans with the same bits on every machine, at the speed of a copy."""

from upsweep import segments
from upsweep.api import (
    OutputError,
    ShapeError,
    cumlogsumexp,
    cummax,
    cummin,
    cumulative_prod,
    cumulative_sum,
    linear_recurrence,
    reduce,
    scan,
)
from upsweep.engine import DTypeError, EngineError
from upsweep.laws import LawError, check
from upsweep.operator import Operator, OperatorError, ops
from upsweep.segments import SegmentError

__all__ = [
    "DTypeError",
    "EngineError",
    "LawError",
    "Operator",
    "OperatorError",
    "OutputError",
    "SegmentError",
    "ShapeError",
    "check",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumulative_prod",
    "cumulative_sum",
    "linear_recurrence",
    "ops",
    "reduce",
    "scan",
    "segments",
]
