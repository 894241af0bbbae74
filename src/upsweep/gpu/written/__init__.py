"""Python functions of plain arithmetic, written as C++."""

from upsweep.gpu.written.paths import written
from upsweep.gpu.written.values import Unwritten

__all__ = ["Unwritten", "written"]
