"""Gated layers on a GPU: a launch for each direction."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

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


class Serving(NamedTuple):
    """A kernel in which one warp walks and others serve it."""

    servers: int
    """Where shared memory has no room for so many, there are fewer; where it has room for less than _LEAST of few, they serve as
    wide ones do."""
    depth: int
    """The tiles that each brings at once."""
    blocks: int
    """The blocks of a multiprocessor: fewer where one has no room for _BOTH else."""
    steps: int
    """The steps of a tile."""
    ahead: int = 2
    """The runs that the walk reads ahead of their turn."""
    apart: bool = False
    """Whether the walk has a scheduler to itself."""


SERVING = {
    ("gated", "many"): Serving(8, 2, 2, 16),
    ("gated", "many narrow"): Serving(6, 2, 2, 16, 2, True),
    ("gated", "many of three"): Serving(7, 2, 2, 16),
    ("gated", "few"): Serving(7, 3, 1, 32, 3),
    ("gated", "few narrow"): Serving(6, 3, 1, 32, 6, True),
    ("gated", "few of three"): Serving(12, 3, 1, 16, 2, True),
    ("gated", "wide"): Serving(15, 2, 1, 16),
    ("gated_back", "many"): Serving(4, 2, 3, 16),
    ("gated_back", "few"): Serving(8, 2, 1, 16),
    ("gated_back", "wide"): Serving(8, 2, 1, 16),
}
"""By the kernel, and by whether a multiprocessor has several blocks (many), one at most (few), or states of float64 (wide).
On the way forward narrow floats have their own, and so have layers of three arrays.

Of a copy, on an H200, in bfloat16 and float32: forwards .75 and .91 with (8, 2, 2), .62 and .91 with (6, 2, 3), .52 and .90
with (4, 3, 3); back .67 and .86 with (4, 2, 3), .61 and .86 with (8, 2, 2), .48 and .86 with (6, 2, 3). With one block back
.82 and .86 with (8, 2, 1), .68 and .81 with (15, 2, 1). In bfloat16 forwards, 8 x 4096 x 1536 and 4 x 4096 x 4096, two arrays
.78 and .67 with (8, 2, 2), .825 and .71 with (6, 2, 2, 16, 2, apart); three arrays .80 and .83, with (7, 2, 2) .83 and .84.
With one block two arrays .75 with (7, 3, 1, 32, 3), .835 with (6, 3, 1, 32, 6, apart), but in float32 .91 and .90; three
arrays .77, with (12, 3, 1, 16, 2, apart) .80, in float32 .94 and .95."""
_LEAST = 5
_BOTH = 2
"""The fewest warps that serve: the walk asks for the next tile before it has done with the one at hand."""


class Lanes(NamedTuple):
    """A kernel whose lanes walk alone."""

    steps: int
    """Steps of a lane that are worked on together."""
    depth: int
    """How many times as many are on their way."""
    blocks: int
    """The blocks, of one warp, that a multiprocessor has registers for."""


LANES = {8: Lanes(4, 3, 8), 4: Lanes(8, 2, 16)}
"""Of narrow floats, by the bytes of a lane's piece. Of a copy, on an H200, in bfloat16, forwards and back, with 8 bytes, with 4
and by warps that serve: 32 x 2048 x 4096 with two arrays .98 and .90, .86 and .86, .81 and .89, with three .90 and .94, .84 and
.82, .86 and .72; 16 x 1000 x 4160 .83 and .82, .87 and .86, .69 and .76, with three .78 and .79, .82 and .77, .71 and .59. In
float32 two arrays ran at .93 and .94 with 8 bytes, by warps that serve at .97 and .95."""
LANES_LEAST = 6
"""Warps of a multiprocessor from which on lanes walk alone. 16 x 1000 x 4160 has 4 with 8 bytes and 8 with 4 bytes; 8 x 4096 x
1536, which has 1.5 with 4 bytes, ran at .34 of a copy instead of .78."""


def gated(s: Gated, out: View, last: View | None) -> None:
    """Write `out`, and the last state of each sequence where it is asked for."""
    inputs = [*s.inputs, *[None] * (3 - len(s.inputs))]
    words = [*_all_lines([*inputs, out, None, None, None, None]), *_states(s), address_of(last)]
    arrays = [*s.inputs, out]
    if s.offsets is None and s.inputs[0].shape[1] <= FEW_STEPS:
        name, grain = "gated_step", _step_grain(arrays, (s.parameter, s.initial, last))
    else:
        name, grain = _walk("gated", s, _grain(arrays))
    _launch(name, s, grain, words, [0] * 3)


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
    words = [*_all_lines([*s.inputs, *none, h, *into, *none, g]), *_states(s), 0]
    gradients = [address_of(dlast), address_of(dparameter), dinitial.ptr]
    name, grain = _walk("gated_back", s, _grain([*s.inputs, h, g, *into]))
    _launch(name, s, grain, words, gradients)


def _states(s: Gated) -> list[int]:
    return [address_of(s.parameter), address_of(s.initial)]


def _all_lines(arrays: Sequence[View | None]) -> list[int]:
    return [word for v in arrays for word in line_words(v)]


def _walk(name: str, s: Gated, grain: int) -> tuple[str, int]:
    """The kernel that goes this way and the bytes of its pieces: that of lanes that walk alone, where it has warps enough."""
    x = s.inputs[0]
    least = LANES_LEAST * driver.attribute(x.device, "MULTIPROCESSOR_COUNT")
    for piece in LANES:
        warps = s.sequences * -(-x.shape[2] * x.dtype.itemsize // (32 * piece))
        if accumulator(x.dtype) != x.dtype and piece <= grain and warps >= least:
            return f"{name}_lanes", piece
    return name, grain


def _launch(name: str, s: Gated, grain: int, before: Sequence[int], after: Sequence[int]) -> None:
    x = s.inputs[0]
    _, steps, channels = x.shape
    room = driver.attribute(x.device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    how = s.layer, x.dtype, grain, len(s.inputs), few_groups(x, s.sequences), room
    spec, threads, memory = spec_of(name, *how)
    width = CHANNELS if (name, "many") in SERVING else grain // x.dtype.itemsize * threads
    groups = -(-channels // width)
    words = [*before, address_of(s.offsets), steps, channels, groups, *after]
    with driver.on_device(x.device):
        kernel = loaded(name, spec, memory, x.device)
        packed = struct.pack(f"<{len(words)}q", *words)
        driver.launch(kernel, s.sequences * groups, threads, memory, stream_of(x), packed)


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
    threads, memory = STEP_THREADS, 0
    numbers = {"GRAIN": grain}
    if name == "gated_step":
        numbers["THREADS"] = threads
    elif name.endswith("_lanes"):
        steps, depth, blocks = LANES[grain]
        threads, memory = 32, 32 * grain * steps * depth * _read(name, arrays)
        numbers |= {"STEPS": steps, "DEPTH": depth, "BLOCKS": blocks}
    else:
        serving, each = _tiles(name, _kind(name, dtype, arrays, few), arrays, dtype, room)
        if few and serving.servers < _LEAST:
            serving, each = _tiles(name, "wide", arrays, dtype, room)
        servers = max(_BOTH, serving.servers)
        memory, threads = servers * each, 32 * (1 + servers + (servers - 1) // 3 * serving.apart)
        numbers |= {"SERVERS": servers, "DEPTH": serving.depth, "BLOCKS": serving.blocks, "MEMORY": memory}
        numbers |= {"STEPS": serving.steps, "AHEAD": serving.ahead, "APART": int(serving.apart)}
    return f"{typedefs(dtype)}typedef {LAYERS[layer]} Layer;\n{constants(numbers)}", threads, memory


def _kind(name: str, dtype: np.dtype, arrays: int, few: bool) -> str:
    real, count = accumulator(dtype), "few" if few else "many"
    if real.itemsize > 4:
        return "wide"
    if name == "gated" and arrays > 2:
        return f"{count} of three"
    return f"{count} narrow" if name == "gated" and real != dtype else count


def _tiles(name: str, kind: str, arrays: int, dtype: np.dtype, room: int) -> tuple[Serving, int]:
    """The numbers of SERVING with as many warps as fit, and the shared memory of each."""
    serving = SERVING[name, kind]
    item = serving.depth * _read(name, arrays) * dtype.itemsize + 2 * accumulator(dtype).itemsize
    each = serving.steps * CHANNELS * item + 16
    fits = {blocks: (room // blocks - 1024) // each for blocks in range(1, serving.blocks + 1)}
    blocks = max((b for b in fits if fits[b] >= _BOTH), default=1)
    return serving._replace(servers=min(serving.servers, fits[blocks]), blocks=blocks), each


def _read(name: str, arrays: int) -> int:
    """The arrays that a kernel reads: on the way back the gradient and the states, too."""
    return arrays + 2 if name.startswith("gated_back") else arrays
