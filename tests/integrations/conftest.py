"""The devices that the tests of other libraries run on."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault(
    "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
)  # else JAX takes the GPU's memory from the others


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Every device that there is."""
    if request.param == "cuda":
        request.getfixturevalue("cuda")
    return request.param
