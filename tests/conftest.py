"""A backend named in UPSWEEP_REQUIRE that is absent fails the tests instead of skipping them."""

from __future__ import annotations

import os

import pytest

from upsweep import engine


def _present(name: str) -> bool:
    try:
        engine.load(name)
        if name == "cuda":
            from cuda.bindings import runtime

            error, count = runtime.cudaGetDeviceCount()
            return int(error) == 0 and count > 0
    except engine.EngineError:
        return False
    return True


@pytest.fixture
def cuda():
    """For tests that need a GPU."""
    if _present("cuda"):
        return
    if "cuda" in os.environ.get("UPSWEEP_REQUIRE", "").split(","):
        pytest.fail("UPSWEEP_REQUIRE names cuda, and there is no CUDA engine here")
    pytest.skip("no GPU here")
