"""Selective scans on a GPU: a launch for each direction."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.dtypes import accumulator
from upsweep.engine import EngineError
from upsweep.gpu import driver
from upsweep.gpu.layers.words import (
    CHANNELS,
    FEW_STEPS,
    MOST_MEMORY,
    STEP_THREADS,
    address_of,
    constants,
    grain_of,
    line_words,
    loaded,
    stream_of,
    typedefs,
)
from upsweep.gpu.view import View
from upsweep.layer_protocol import Selective

CHUNK = 16
"""Steps from one kept state to the next, as in selective.cuh."""
_STEPS = 16
"""Steps of a tile."""
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


def selective(s: Selective, out: View, last: View | None, marks: View | None) -> None:
    """Write `out` and, where they are asked for, the last state of each sequence and the states at its chunks."""
    words = [
        *_operands(s, out),
        address_of(s.initial),
        address_of(last),
        address_of(marks),
        *_sizes(s),
        *[0] * 17,
    ]
    if s.offsets is None and marks is None and s.u.shape[1] <= FEW_STEPS:
        _selective_step(s, last, words)
        return
    channels = grain_of(
        [v for v in (s.u, s.delta, s.z, out) if v is not None], min(16, 4 * s.u.dtype.itemsize)
    )
    kernel, threads, memory, _ = _kernel("selective", s, channels, grain_of([s.b, s.c]))
    _launch(kernel, s, s.sequences * _groups(s), threads, memory, words)


def _selective_step(s: Selective, last: View | None, words: Sequence[int]) -> None:
    kernel, threads, _, _ = _kernel("selective_step", s, s.u.dtype.itemsize, _states_grain(s, last))
    channels = threads // lanes_of(s.a.shape[1])
    _launch(kernel, s, s.sequences * -(-s.u.shape[2] // channels), threads, 0, words)


def _states_grain(s: Selective, last: View | None) -> int:
    """The most bytes by which the states of a lane may be moved."""
    whole, size = 16, s.a.dtype.itemsize
    for place in (s.a.ptr, address_of(s.initial), address_of(last), s.a.shape[1] * size):
        whole = min(whole, place & -place or whole)
    return whole


def selective_back(
    s: Selective, g: View, dlast: View | None, marks: View, into: Sequence[View | None], states: Sequence[View | None]
) -> None:  # fmt: skip
    """`into`: the gradients of u, delta, z, b and c; `states`: those of a, skip and bias for each sequence by itself, and of
    initial."""
    du, ddelta, dz, db, dc = into
    channels = grain_of(
        [v for v in (s.u, s.delta, s.z, g, du, ddelta, dz) if v is not None], min(16, 4 * s.u.dtype.itemsize)
    )
    kernel, threads, memory, teams = _kernel("selective_back", s, channels, grain_of([s.b, s.c]))
    lines = s.u.shape[0] * s.u.shape[1]
    n, real = s.a.shape[1], accumulator(s.u.dtype)
    assert s.u.kind is not None
    assert du
    assert ddelta
    assert db
    assert dc
    parts = s.u.kind.empty(s.u, (_groups(s), lines, 2 * n), real)
    words = [*_operands(s, g), address_of(s.initial), 0, address_of(marks), *_sizes(s)]
    tasks = s.sequences * _groups(s)
    words += [
        *line_words(du),
        *line_words(ddelta),
        *line_words(dz),
        address_of(dlast),
        *map(address_of, states),
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
    spec = typedefs(db.dtype)
    with driver.on_device(s.u.device):
        kernel = loaded("total", spec, 0, s.u.device)
        words = [parts.ptr, db.ptr, dc.ptr, groups, lines * 2 * n, n]
        blocks = -(-lines * 2 * n // 256)
        driver.launch(kernel, blocks, 256, 0, stream_of(s.u), struct.pack("<6q", *words))


def _launch(kernel: Any, s: Selective, blocks: int, threads: int, memory: int, words: Sequence[int]) -> None:
    with driver.on_device(s.u.device):
        driver.launch(kernel, blocks, threads, memory, stream_of(s.u), struct.pack(f"<{len(words)}q", *words))


def _groups(s: Selective) -> int:
    return -(-s.u.shape[2] // CHANNELS)


def _operands(s: Selective, out: View) -> list[int]:
    arrays = s.u, s.delta, s.z, s.b, s.c, out
    return [*[word for v in arrays for word in line_words(v)], *map(address_of, (s.a, s.skip, s.bias))]


def _sizes(s: Selective) -> list[int]:
    return [address_of(s.offsets), s.u.shape[1], s.u.shape[2], _groups(s), int(s.softplus)]


def _kernel(name: str, s: Selective, grain: int, state_grain: int) -> tuple[Any, int, int, int]:
    """A loaded kernel, its threads, its shared memory, and the groups of channels that a block takes."""
    room = driver.attribute(s.u.device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    spec, threads, memory, teams = spec_of(name, s.u.dtype, s.a.shape[1], grain, state_grain, _crowd(s), room)
    with driver.on_device(s.u.device):
        return loaded(name, spec, memory, s.u.device), threads, memory, teams


def _crowd(s: Selective) -> int:
    """How many groups of channels a multiprocessor has, `_MOST` at most."""
    return min(_MOST, -(-s.sequences * _groups(s) // driver.attribute(s.u.device, "MULTIPROCESSOR_COUNT")))


@lru_cache(256)
def spec_of(
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
    threads, memory, teams = STEP_THREADS, 0, 1
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
    return typedefs(dtype) + constants(numbers), threads, memory, teams


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
    numbers = 2 * _BACK_SERVERS * CHANNELS * real
    return 2 * (tile + 24) + _STEPS // 2 * CHANNELS * padded * real + numbers
