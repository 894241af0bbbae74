"""The names of `upsweep.operator` that the lab uses."""

from upsweep.operators import OperatorError as OperatorError
