"""numba-cuda on a machine without a GPU."""

from types import SimpleNamespace

import pytest

HOPPER = (9, 0)


def tell_capability(patch: pytest.MonkeyPatch, capability: tuple[int, int] = HOPPER) -> None:
    """numba-cuda asks the current device for its compute capability, whatever it compiles for."""
    device = SimpleNamespace(compute_capability=capability)
    patch.setattr("numba.cuda.dispatcher.get_current_device", lambda: device)
