"""Layers of recurrent models on a GPU: a launch for each direction. See `upsweep.layer_protocol.Layers`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.dtypes import accumulator
from upsweep.engine import EngineError
from upsweep.gpu import compile, driver
from upsweep.gpu.functions import memory_type, value_type
from upsweep.gpu.view import View
from upsweep.layer_protocol import Gated, Selective

CHANNELS = 32
"""Channels of a group, as in serving.cuh."""
MOST_MEMORY = 227 << 10
"""Bytes of shared memory that a block may have."""
CHUNK = 16
"""Steps from one kept state to the next, as in selective.cuh."""
_STEPS = 16
"""Steps of a tile, as in serving.cuh."""


_MOST = 4
"""The most groups of channels that a multiprocessor walks back at once."""
_SERVERS = {(False, False): (8, 1), (False, True): (8, 1), (True, False): (4, 2), (True, True): (6, 2)}
"""Warps that serve the walking warps, and blocks of a multiprocessor, by whether it has several groups, and by whether items are
narrow floats.

Of the exponentials, on an H200: 16 x 2048 x 4096 float32 .51 with (4, 2), .525 with (6, 2), where registers spill, and .46 with
(8, 1); bfloat16 .52, .53 and .46; 1 x 16384 x 4096 float32 .37, .39 and .46."""
_SERVED = 120 << 10
"""Bytes of shared memory that they have together, so that each of their threads has registers enough."""
_BACK_SERVERS = 2
"""Warps that serve a group of channels on the way back. The sums over steps depend on it: it is the same on every machine."""
_SIDE = 2
"""Channels that a lane walks back at once, of up to 16 states. The sums over channels depend on it."""
_STEP_THREADS = 128
"""Threads of a block that takes single steps, as in gated_step.cu and selective_step.cu."""
_FEW_STEPS = 4
"""The most steps that such a block takes."""


def selective(s: Selective, out: View, last: View | None, marks: View | None) -> None:
    """Write `out` and, where they are asked for, the last state of each sequence and the states at its chunks."""
    words = [*_operands(s, out), _ptr(s.initial), _ptr(last), _ptr(marks), *_sizes(s), *[0] * 17]
    if s.offsets is None and marks is None and s.u.shape[1] <= _FEW_STEPS:
        _selective_step(s, last, words)
        return
    channels = _grain([v for v in (s.u, s.delta, s.z, out) if v is not None], min(16, 4 * s.u.dtype.itemsize))
    kernel, threads, memory, _ = _kernel("selective", s, channels, _grain([s.b, s.c]))
    _launch(kernel, s, s.sequences * _groups(s), threads, memory, words)


def _selective_step(s: Selective, last: View | None, words: Sequence[int]) -> None:
    kernel, threads, _, _ = _kernel("selective_step", s, s.u.dtype.itemsize, _states_grain(s, last))
    channels = threads // lanes_of(s.a.shape[1])
    _launch(kernel, s, s.sequences * -(-s.u.shape[2] // channels), threads, 0, words)


def _states_grain(s: Selective, last: View | None) -> int:
    """The most bytes by which the states of a lane may be moved."""
    whole, size = 16, s.a.dtype.itemsize
    for place in (s.a.ptr, _ptr(s.initial), _ptr(last), s.a.shape[1] * size):
        whole = min(whole, place & -place or whole)
    return whole


def selective_back(
    s: Selective, g: View, dlast: View | None, marks: View, into: Sequence[View | None], states: Sequence[View | None]
) -> None:  # fmt: skip
    """`into`: the gradients of u, delta, z, b and c; `states`: those of a, skip and bias for each sequence by itself, and of
    initial."""
    du, ddelta, dz, db, dc = into
    channels = _grain(
        [v for v in (s.u, s.delta, s.z, g, du, ddelta, dz) if v is not None], min(16, 4 * s.u.dtype.itemsize)
    )
    kernel, threads, memory, teams = _kernel("selective_back", s, channels, _grain([s.b, s.c]))
    lines = s.u.shape[0] * s.u.shape[1]
    n, real = s.a.shape[1], accumulator(s.u.dtype)
    assert s.u.kind is not None
    assert du
    assert ddelta
    assert db
    assert dc
    parts = s.u.kind.empty(s.u, (_groups(s), lines, 2 * n), real)
    words = [*_operands(s, g), _ptr(s.initial), 0, _ptr(marks), *_sizes(s)]
    tasks = s.sequences * _groups(s)
    words += [
        *_lines(du),
        *_lines(ddelta),
        *_lines(dz),
        _ptr(dlast),
        *map(_ptr, states),
        parts.ptr,
        lines,
        tasks,
    ]
    _launch(kernel, s, -(-tasks // teams), threads, memory, words)
    _total(s, parts, db, dc)


def _total(s: Selective, parts: View, db: View, dc: View) -> None:
    """Sum db and dc from the parts that the blocks of channels have written."""
    groups, lines, _ = parts.shape
    n = s.a.shape[1]
    spec = _types(db.dtype)
    with driver.on_device(s.u.device):
        kernel = _loaded("total", spec, 0, s.u.device)
        words = [parts.ptr, db.ptr, dc.ptr, groups, lines * 2 * n, n]
        blocks = -(-lines * 2 * n // 256)
        driver.launch(kernel, blocks, 256, 0, _stream(s.u), struct.pack("<6q", *words))


def _launch(kernel: Any, s: Selective, blocks: int, threads: int, memory: int, words: Sequence[int]) -> None:
    with driver.on_device(s.u.device):
        driver.launch(kernel, blocks, threads, memory, _stream(s.u), struct.pack(f"<{len(words)}q", *words))


def _stream(x: View) -> int:
    assert x.kind is not None
    return x.kind.stream(x)


def _groups(s: Selective) -> int:
    return -(-s.u.shape[2] // CHANNELS)


def _operands(s: Selective, out: View) -> list[int]:
    arrays = s.u, s.delta, s.z, s.b, s.c, out
    return [*[word for v in arrays for word in _lines(v)], *map(_ptr, (s.a, s.skip, s.bias))]


def _sizes(s: Selective) -> list[int]:
    return [_ptr(s.offsets), s.u.shape[1], s.u.shape[2], _groups(s), int(s.softplus)]


def _lines(v: View | None) -> tuple[int, int, int]:
    return (0, 0, 0) if v is None else (v.ptr, v.strides[0], v.strides[1])


def _ptr(v: View | None) -> int:
    return 0 if v is None else v.ptr


def _grain(arrays: Sequence[View], most: int = 16) -> int:
    """The bytes by which lines are moved: at most `most`, and a divisor of the places at which lines begin and end."""
    whole = most
    for v in arrays:
        for place in (v.ptr, v.shape[2] * v.dtype.itemsize, *v.strides[:2]):
            whole = min(whole, place & -place or most)
    return whole


def _kernel(name: str, s: Selective, grain: int, state_grain: int) -> tuple[Any, int, int, int]:
    """A loaded kernel, its threads, its shared memory, and the groups of channels that a block takes."""
    room = driver.attribute(s.u.device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    spec, threads, memory, teams = _spec(name, s.u.dtype, s.a.shape[1], grain, state_grain, _crowd(s), room)
    with driver.on_device(s.u.device):
        return _loaded(name, spec, memory, s.u.device), threads, memory, teams


def _crowd(s: Selective) -> int:
    """How many groups of channels a multiprocessor has, `_MOST` at most."""
    return min(_MOST, -(-s.sequences * _groups(s) // driver.attribute(s.u.device, "MULTIPROCESSOR_COUNT")))


@lru_cache(256)
def _loaded(name: str, spec: str, memory: int, device: int) -> Any:
    code = compile.cubin(name, spec, (), driver.architecture(device))
    return driver.load(code, f"upsweep_{name}", memory, device)


@lru_cache(256)
def _spec(
    name: str, dtype: np.dtype, states: int, grain: int, state_grain: int, crowd: int, room: int = MOST_MEMORY
) -> tuple[str, int, int, int]:
    """The part of a text that differs, its threads, its shared memory, of which a block may have `room`, and the groups of
    channels that a block takes."""
    real, lanes = accumulator(dtype), lanes_of(states)
    own, narrow = -(-states // lanes), real.itemsize == 4
    numbers = {
        "STATES": states,
        "LANES": lanes,
        "OWN": own,
        "GRAIN": grain,
        "STATE_GRAIN": state_grain,
        "STEPS": _STEPS,
    }
    threads, memory, teams = _STEP_THREADS, 0, 1
    if name == "selective_step":
        numbers["THREADS"] = threads
    elif name == "selective":
        servers, blocks = _SERVERS[crowd > 1 and narrow and lanes <= 4, dtype.itemsize == 2]
        each = _memory(real.itemsize, lanes, lanes * own)
        servers = max(2, min(servers, _SERVED // each))
        threads, memory = 32 * (lanes + servers), servers * each
        numbers |= {"SERVERS": servers, "BLOCKS": blocks}
    else:
        own = 1 << (own - 1).bit_length()
        side = min(lanes, max(_SIDE, lanes // 4))
        each = _memory_back(real.itemsize, lanes, own, lanes // side)
        # All groups of a multiprocessor in one block: their walking warps then share its schedulers evenly.
        teams = max(1, min(crowd, room // each))
        threads, memory = 32 * teams * (lanes // side + _BACK_SERVERS), teams * each
        numbers |= {"OWN": own, "SIDE": side, "BODY": 4, "TEAMS": teams}
        numbers |= {"SERVERS": _BACK_SERVERS}
    if memory > MOST_MEMORY:
        raise EngineError(
            f"the cuda engine has no room for {states} states of {dtype} a channel: 64 fit, of float64 32"
        )
    numbers["MEMORY"] = memory
    return _types(dtype) + _constants(numbers), threads, memory, teams


def _few(x: View, sequences: int) -> bool:
    """Whether a multiprocessor has one block at most."""
    blocks = sequences * -(-x.shape[2] // CHANNELS)
    return blocks <= driver.attribute(x.device, "MULTIPROCESSOR_COUNT")


def _types(dtype: np.dtype) -> str:
    return f"typedef {value_type(dtype)} Real;\ntypedef {memory_type(dtype)} Value;\n"


def _constants(numbers: Mapping[str, int]) -> str:
    return "".join(f"constexpr int {key} = {value};\n" for key, value in numbers.items())


def lanes_of(states: int) -> int:
    """Lanes that share a channel: each has four states at most of up to 64."""
    return max(1, min(16, 1 << (-(-states // 4) - 1).bit_length()))


def _memory(real: int, lanes: int, padded: int) -> int:
    """Bytes of shared memory that a serving warp needs forwards."""
    return _STEPS * real * ((2 + lanes) * CHANNELS + 2 * padded) + 16


def _memory_back(real: int, lanes: int, own: int, walkers: int) -> int:
    """Bytes of shared memory that a group of channels needs on the way back."""
    turns, padded = min(own, 32 // lanes), lanes * own
    tile = _STEPS * real * (4 * CHANNELS + 2 * turns * padded + 2 * walkers * padded)
    return 2 * (tile + 24) + _STEPS // 2 * CHANNELS * padded * real


# --- gated layers -------------------------------------------------------------------------------------------------------

_LAYERS = {"rg_lru": "RgLru", "min_gru": "MinGru", "hgrn": "Hgrn"}
_GATED = {
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
        _ptr(s.parameter),
        _ptr(s.initial),
        _ptr(last),
        *_gated_sizes(s),
        *[0] * 3,
    ]
    arrays = [*s.inputs, out]
    if s.offsets is None and s.inputs[0].shape[1] <= _FEW_STEPS:
        _launch_gated("gated_step", s, _step_grain(arrays, (s.parameter, s.initial, last)), words)
    else:
        _launch_gated("gated", s, _gated_grain(arrays), words)


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
    words = [*_all_lines([*s.inputs, *none, h, *into, *none, g]), _ptr(s.parameter), _ptr(s.initial), 0]
    words += [*_gated_sizes(s), _ptr(dlast), _ptr(dparameter), dinitial.ptr]
    _launch_gated("gated_back", s, _gated_grain([*s.inputs, h, g, *into]), words)


def _gated_sizes(s: Gated) -> list[int]:
    _, steps, channels = s.inputs[0].shape
    return [_ptr(s.offsets), steps, channels, -(-channels // CHANNELS)]


def _all_lines(arrays: Sequence[View | None]) -> list[int]:
    return [word for v in arrays for word in _lines(v)]


def _launch_gated(name: str, s: Gated, grain: int, words: Sequence[int]) -> None:
    x = s.inputs[0]
    room = driver.attribute(x.device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    how = s.layer, x.dtype, grain, len(s.inputs), _few(x, s.sequences), room
    spec, threads, memory = _gated_spec(name, *how)
    width = grain // x.dtype.itemsize * threads if name == "gated_step" else CHANNELS
    blocks = s.sequences * -(-x.shape[2] // width)
    with driver.on_device(x.device):
        kernel = _loaded(name, spec, memory, x.device)
        driver.launch(kernel, blocks, threads, memory, _stream(x), struct.pack(f"<{len(words)}q", *words))


def _gated_grain(arrays: Sequence[View]) -> int:
    """The bytes of a piece, of four channels at most."""
    return _grain(arrays, min(16, 4 * arrays[0].dtype.itemsize))


def _step_grain(arrays: Sequence[View], states: Sequence[View | None]) -> int:
    """The bytes of a piece, where states are moved as pieces too."""
    grain, size = _gated_grain(arrays), arrays[0].dtype.itemsize
    for v in states:
        while v is not None and v.ptr % min(16, grain // size * v.dtype.itemsize):
            grain //= 2
    return grain


@lru_cache(256)
def _gated_spec(
    name: str, layer: str, dtype: np.dtype, grain: int, arrays: int, few: bool, room: int = MOST_MEMORY
) -> tuple[str, int, int]:
    """The part of a kernel's text that differs, its threads and its shared memory, where a multiprocessor has `room` for it."""
    real, size = accumulator(dtype), dtype.itemsize
    threads, memory = _STEP_THREADS, 0
    numbers = {"GRAIN": grain}
    if name == "gated_step":
        numbers["THREADS"] = threads
    else:
        kind = "wide" if real.itemsize > 4 else "few" if few else "many"
        fits, each, depth, blocks, steps = _gated_tiles(name, kind, arrays, size, real, room)
        if kind == "few" and fits < _LEAST:
            fits, each, depth, blocks, steps = _gated_tiles(name, "wide", arrays, size, real, room)
        servers = max(1, fits)
        memory, threads = servers * each, 32 + 32 * servers
        numbers |= {"SERVERS": servers, "DEPTH": depth, "BLOCKS": blocks, "MEMORY": memory, "STEPS": steps}
    return f"{_types(dtype)}typedef {_LAYERS[layer]} Layer;\n{_constants(numbers)}", threads, memory


def _gated_tiles(
    name: str, kind: str, arrays: int, size: int, real: np.dtype, room: int
) -> tuple[int, int, int, int, int]:
    """How many serving warps fit, the shared memory of each, and the other numbers of _GATED."""
    servers, depth, blocks, steps = _GATED[name, kind]
    read = arrays if name == "gated" else arrays + 2
    each = steps * CHANNELS * (depth * read * size + 2 * real.itemsize) + 16
    return min(servers, (room // blocks - 1024) // each), each, depth, blocks, steps
