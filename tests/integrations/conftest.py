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


@pytest.fixture
def jax_device(device, absent):
    """The same as JAX's device."""
    jax = pytest.importorskip("jax")
    try:
        return jax.devices(device)[0]
    except RuntimeError as error:
        absent(device, f"JAX has no such device: {error}")


@pytest.fixture
def wide():
    """JAX with 64 bits allowed, while the context lasts."""
    jax = pytest.importorskip("jax")
    # The name before JAX 0.8.
    return (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True)
