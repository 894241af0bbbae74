"""The devices that the tests of other libraries run on."""

from __future__ import annotations

import os

import pytest

# Without this setting JAX takes the GPU's memory from the others.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Every device of this machine."""
    if request.param == "cuda":
        request.getfixturevalue("cuda")
    return request.param
