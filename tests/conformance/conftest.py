"""The engines that a test of this suite runs on: those that work here, and any that UPSWEEP_REQUIRE names."""

from __future__ import annotations

import pytest

from conformance.memory import Host, device
from upsweep.engine import ENGINES


@pytest.fixture(params=[name for name in ENGINES if name != "cuda"])
def here(request) -> Host:
    """An engine that works in this machine's memory."""
    return device(request.param)


@pytest.fixture
def gpu(cuda) -> Host:
    pytest.importorskip("cupy", reason="the suite lays out a GPU's memory by CuPy")
    return device("cuda")
