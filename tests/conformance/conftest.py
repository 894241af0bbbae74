"""The engines that a test of this suite runs on: those that work here, and any that UPSWEEP_REQUIRE names."""

from __future__ import annotations

import pytest

from conformance.memory import Emulated, Host, device
from upsweep.engine import ENGINES


@pytest.fixture(params=[name for name in ENGINES if name != "cuda"])
def here(request) -> Host:
    """An engine that works in this machine's memory."""
    return device(request.param)


@pytest.fixture
def gpu(cuda) -> Host:
    pytest.importorskip("cupy", reason="the suite lays out a GPU's memory by CuPy")
    return device("cuda")


@pytest.fixture
def emulated(request, monkeypatch) -> Emulated:
    """The CUDA engine on this processor, for machines without a GPU. A test may name another compute capability than 90."""
    pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")
    from cuda.bindings import runtime  # pyright: ignore[reportAttributeAccessIssue]

    if runtime.cudaGetDeviceCount()[1]:
        pytest.skip("the kernels run on the GPU that is here")
    return Emulated(monkeypatch, getattr(request, "param", 90))
