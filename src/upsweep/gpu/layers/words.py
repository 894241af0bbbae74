"""The words for arrays in the launches of all layers, and the parts of a text that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.gpu import compile, driver
from upsweep.gpu.functions import memory_type, value_type
from upsweep.gpu.view import View

CHANNELS = 32
"""Channels of a group, as in serving.cuh."""
MOST_MEMORY = 227 << 10
"""Bytes of shared memory that a block may have."""
STEP_THREADS = 128
"""Threads of a block that takes single steps, as in gated_step.cu and selective_step.cu."""
FEW_STEPS = 4
"""The most steps that such a block takes."""


def line_words(v: View | None) -> tuple[int, int, int]:
    return (0, 0, 0) if v is None else (v.ptr, v.strides[0], v.strides[1])


def address_of(v: View | None) -> int:
    return 0 if v is None else v.ptr


def grain_of(arrays: Sequence[View], most: int = 16) -> int:
    """The bytes by which lines are moved: at most `most`, and a divisor of the places at which lines begin and end."""
    whole = most
    for v in arrays:
        for place in (v.ptr, v.shape[2] * v.dtype.itemsize, *v.strides[:2]):
            whole = min(whole, place & -place or most)
    return whole


def stream_of(x: View) -> int:
    assert x.kind is not None
    return x.kind.stream(x)


@lru_cache(256)
def loaded(name: str, spec: str, memory: int, device: int) -> Any:
    code = compile.cubin(name, spec, (), driver.architecture(device))
    return driver.load(code, f"upsweep_{name}", memory, device)


def few_groups(x: View, sequences: int) -> bool:
    """Whether a multiprocessor has one block at most."""
    blocks = sequences * -(-x.shape[2] // CHANNELS)
    return blocks <= driver.attribute(x.device, "MULTIPROCESSOR_COUNT")


def typedefs(dtype: np.dtype) -> str:
    return f"typedef {value_type(dtype)} Real;\ntypedef {memory_type(dtype)} Value;\n"


def constants(numbers: Mapping[str, int]) -> str:
    return "".join(f"constexpr int {key} = {value};\n" for key, value in numbers.items())
