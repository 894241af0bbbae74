"""The functions of CUDA's driver that the C part calls by their addresses, for machines without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from upsweep.gpu import driver

CONTEXT, FAILED = 4096, 719
_address, _number = ctypes.c_void_p, ctypes.c_uint
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, _address, *[_number] * 7, _address, ctypes.POINTER(_address), _address
)
_CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_address))
_MAKE_CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, _address)


class Functions:
    """They launch by `driver.launch`, whatever stands there. `kernel` gives the kernel that a handle means, and the bytes of its
    parameters."""

    def __init__(self, kernel: Callable[[int], tuple[Any, int]]) -> None:
        self.kernel, self.context = kernel, CONTEXT
        self.made_current: list[int] = []
        self.raised: Exception | None = None
        self.functions = _LAUNCH(self._launch), _CURRENT(self._current), _MAKE_CURRENT(self._make_current)

    def patch(self, patch: Any) -> None:
        """Have a pytest `MonkeyPatch` put these in the place of the driver's."""
        addresses = tuple([ctypes.cast(f, _address).value for f in self.functions])
        patch.setattr(driver, "entries", lambda: addresses)
        patch.setattr(driver, "primary_context", lambda device: CONTEXT)
        patch.setattr(driver, "fail", self._fail)

    def _launch(self, handle, grid, y, z, block, by, bz, shared, stream, parameters, extra) -> int:
        assert (y, z, by, bz, extra) == (1, 1, 1, 1, None)
        try:
            kernel, size = self.kernel(handle)
            driver.launch(kernel, grid, block, shared, stream or 0, ctypes.string_at(parameters[0], size))
        except Exception as raised:
            self.raised = raised
            return FAILED
        return 0

    def _current(self, context) -> int:
        context[0] = self.context
        return 0

    def _make_current(self, context) -> int:
        self.context = context or 0
        self.made_current.append(self.context)
        return 0

    def _fail(self, status: int) -> None:
        raised, self.raised = self.raised, None
        assert status == FAILED
        assert raised is not None
        raise raised
