"""Gated layers on a GPU: a launch for each direction."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from upsweep.dtypes import accumulator
from upsweep.gpu import driver
from upsweep.gpu.layers.words import (
    CHANNELS,
    FEW_STEPS,
    MOST_MEMORY,
    STEP_THREADS,
    address_of,
    constants,
    few_groups,
    grain_of,
    line_words,
    loaded,
    stream_of,
    typedefs,
)
from upsweep.gpu.view import View
from upsweep.layer_protocol import Gated

LAYERS = {"rg_lru": "RgLru", "min_gru": "MinGru", "hgrn": "Hgrn"}
WARPS = {
    ("gated", "many"): (8, 2, 2, 16),
    ("gated", "few"): (7, 3, 1, 32),
    ("gated", "wide"): (15, 2, 1, 16),
    ("gated_back", "many"): (4, 2, 3, 16),
    ("gated_back", "few"): (8, 2, 1, 16),
    ("gated_back", "wide"): (8, 2, 1, 16),
}
"""The warps that serve, the tiles that each brings at once, the blocks of a multiprocessor, and the steps of a tile: by the
kernel, and by whether a multiprocessor has several blocks (many), one at most (few), or states of float64 (wide). Where shared
memory has no room for so many warps, there are fewer; where it has room for less than _LEAST of few, they serve as wide ones do.

Of a copy, on an H200, in bfloat16 and float32: forwards .75 and .91 with (8, 2, 2), .62 and .91 with (6, 2, 3), .52 and .90 with
(4, 3, 3); back .67 and .86 with (4, 2, 3), .61 and .86 with (8, 2, 2), .48 and .86 with (6, 2, 3). With one block forwards .66
and .84 with (15, 2, 1), .74 and .87 with (7, 3, 1) and 32 steps; back .82 and .86 with (8, 2, 1), .68 and .81 with (15, 2, 1)."""
_LEAST = 5


def gated(s: Gated, out: View, last: View | None) -> None:
    """Write `out`, and the last state of each sequence where it is asked for."""
    inputs = [*s.inputs, *[None] * (3 - len(s.inputs))]
    words = [
        *_all_lines([*inputs, out, None, None, None, None]),
        address_of(s.parameter),
        address_of(s.initial),
        address_of(last),
        *_sizes(s),
        *[0] * 3,
    ]
    arrays = [*s.inputs, out]
    if s.offsets is None and s.inputs[0].shape[1] <= FEW_STEPS:
        _launch("gated_step", s, _step_grain(arrays, (s.parameter, s.initial, last)), words)
    else:
        _launch("gated", s, _grain(arrays), words)


def gated_back(
    s: Gated,
    h: View,
    g: View,
    dlast: View | None,
    into: Sequence[View],
    dparameter: View | None,
    dinitial: View,
) -> None:
    """`into`: the gradients of the inputs; that of the parameter for each sequence by itself, and that of initial."""
    none = [None] * (3 - len(s.inputs))
    words = [
        *_all_lines([*s.inputs, *none, h, *into, *none, g]),
        address_of(s.parameter),
        address_of(s.initial),
        0,
    ]
    words += [*_sizes(s), address_of(dlast), address_of(dparameter), dinitial.ptr]
    _launch("gated_back", s, _grain([*s.inputs, h, g, *into]), words)


def _sizes(s: Gated) -> list[int]:
    _, steps, channels = s.inputs[0].shape
    return [address_of(s.offsets), steps, channels, -(-channels // CHANNELS)]


def _all_lines(arrays: Sequence[View | None]) -> list[int]:
    return [word for v in arrays for word in line_words(v)]


def _launch(name: str, s: Gated, grain: int, words: Sequence[int]) -> None:
    x = s.inputs[0]
    room = driver.attribute(x.device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    how = s.layer, x.dtype, grain, len(s.inputs), few_groups(x, s.sequences), room
    spec, threads, memory = spec_of(name, *how)
    width = grain // x.dtype.itemsize * threads if name == "gated_step" else CHANNELS
    blocks = s.sequences * -(-x.shape[2] // width)
    with driver.on_device(x.device):
        kernel = loaded(name, spec, memory, x.device)
        driver.launch(kernel, blocks, threads, memory, stream_of(x), struct.pack(f"<{len(words)}q", *words))


def _grain(arrays: Sequence[View]) -> int:
    """The bytes of a piece, of four channels at most."""
    return grain_of(arrays, min(16, 4 * arrays[0].dtype.itemsize))


def _step_grain(arrays: Sequence[View], states: Sequence[View | None]) -> int:
    """The bytes of a piece, where states are moved as pieces too."""
    grain, size = _grain(arrays), arrays[0].dtype.itemsize
    for v in states:
        while v is not None and v.ptr % min(16, grain // size * v.dtype.itemsize):
            grain //= 2
    return grain


@lru_cache(256)
def spec_of(
    name: str, layer: str, dtype: np.dtype, grain: int, arrays: int, few: bool, room: int = MOST_MEMORY
) -> tuple[str, int, int]:
    """The part of a kernel's text that differs, its threads and its shared memory, where a multiprocessor has `room` for it."""
    real, size = accumulator(dtype), dtype.itemsize
    threads, memory = STEP_THREADS, 0
    numbers = {"GRAIN": grain}
    if name == "gated_step":
        numbers["THREADS"] = threads
    else:
        kind = "wide" if real.itemsize > 4 else "few" if few else "many"
        fits, each, depth, blocks, steps = _tiles(name, kind, arrays, size, real, room)
        if kind == "few" and fits < _LEAST:
            fits, each, depth, blocks, steps = _tiles(name, "wide", arrays, size, real, room)
        servers = max(1, fits)
        memory, threads = servers * each, 32 + 32 * servers
        numbers |= {"SERVERS": servers, "DEPTH": depth, "BLOCKS": blocks, "MEMORY": memory, "STEPS": steps}
    return f"{typedefs(dtype)}typedef {LAYERS[layer]} Layer;\n{constants(numbers)}", threads, memory


def _tiles(
    name: str, kind: str, arrays: int, size: int, real: np.dtype, room: int
) -> tuple[int, int, int, int, int]:
    """How many serving warps fit, the shared memory of each, and the other numbers of WARPS."""
    servers, depth, blocks, steps = WARPS[name, kind]
    read = arrays if name == "gated" else arrays + 2
    each = steps * CHANNELS * (depth * read * size + 2 * real.itemsize) + 16
    return min(servers, (room // blocks - 1024) // each), each, depth, blocks, steps
