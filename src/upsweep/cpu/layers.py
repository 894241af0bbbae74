"""Layers of recurrent models on a CPU: strips of channels, which threads take by ticket. See `upsweep.layer_protocol.Layers`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from upsweep import cores
from upsweep.cpu import threads, tuning
from upsweep.cpu.code import Unit, address
from upsweep.cpu.layer_words import CHUNK, GATED_WIDTH, WIDTH, States, scratch_rows
from upsweep.cpu.layer_words import Gated as GatedWord
from upsweep.cpu.objects import address_of
from upsweep.dtypes import accumulator
from upsweep.layer_protocol import Gated, Selective

__all__ = ["CHUNK", "gated", "gated_back", "selective", "selective_back"]


def selective(s: Selective, out: Any, last: Any, marks: Any) -> None:
    """Write `out`, and where they are asked for the last state of each sequence and the states at its chunks."""
    _run(("states", "forwards"), s, out=out, last=last, marks=marks)


def selective_back(
    s: Selective, g: Any, dlast: Any, marks: Any, into: Sequence[Any], states: Sequence[Any]
) -> None:
    """Write `into`: the gradients of u, delta, z, b and c. Write `states`: the gradients of a, skip and bias for each sequence
    by itself, and of initial.
    """
    du, ddelta, dz, db, dc = into
    da, dskip, dbias, dinitial = states
    n = s.a.shape[1]
    parts = np.empty((-(-s.u.shape[2] // WIDTH), *s.u.shape[:2], 2 * n), accumulator(s.u.dtype))
    _run(
        ("states_back", "backwards"), s, out=g, last=dlast, marks=marks, du=du, ddelta=ddelta, dz=dz, da=da, dskip=dskip,
        dbias=dbias, dinitial=dinitial, parts=parts,
    )  # fmt: skip
    total = np.add.reduce(parts, axis=0)
    db[...], dc[...] = total[..., :n], total[..., n:]


def gated(s: Gated, out: Any, last: Any) -> None:
    """Write `out`, and the last state of each sequence where it is asked for."""
    _run_gated(s, False, out=out, last=last)


def gated_back(
    s: Gated, h: Any, g: Any, dlast: Any, into: Sequence[Any], dparameter: Any, dinitial: Any
) -> None:
    """Write `into`: the gradients of the inputs, the gradient of the parameter for each sequence by itself, and that of
    initial.
    """
    made = {f"dx{i}": d for i, d in enumerate(into)}
    _run_gated(s, True, out=h, g=g, last=dlast, dparameter=dparameter, dinitial=dinitial, **made)


def _run(way: tuple[str, str], s: Selective, **arrays: Any) -> None:
    lines, steps, _ = s.u.shape
    states, real = s.a.shape[1], accumulator(s.u.dtype)
    numbers = {"states": states, "softplus": int(s.softplus), "lines": lines * steps}
    known = {**s._asdict(), **arrays, **numbers}
    code = _compiled(*way, s.u.dtype)
    _share(
        code,
        s.u,
        s.sequences,
        WIDTH,
        known,
        States,
        scratch_rows(states) * WIDTH * real.itemsize,
    )


def _run_gated(s: Gated, back: bool, **arrays: Any) -> None:
    x = s.inputs[0]
    known = {"offsets": s.offsets, "parameter": s.parameter, "initial": s.initial, **arrays}
    known |= {f"x{i}": v for i, v in enumerate(s.inputs)}
    code = _compiled("gated", "walker", s.layer, x.dtype, back)
    _share(
        code,
        x,
        s.sequences,
        GATED_WIDTH,
        known,
        GatedWord,
        3 * GATED_WIDTH * accumulator(x.dtype).itemsize,
    )


def _share(
    code: int, x: Any, sequences: int, width: int, known: dict[str, Any], order: Any, scratch: int
) -> None:
    """Run code on the words of a launch, a ticket for each sequence and strip of channels."""
    _, steps, channels = x.shape
    strips = -(-channels // width)
    known |= {
        "ticket": 0,
        "strips": strips,
        "tickets": strips * sequences,
        "steps": steps,
        "channels": channels,
    }
    words = []
    for word, behind in zip(order, [*list(order)[1:], None]):
        array: Any = known.get(word.name.lower(), 0)
        array = 0 if array is None else array
        words.append(array if isinstance(array, int) else address_of(array))
        if behind is None or behind > word + 1:
            words += (0, 0) if isinstance(array, int) else array.strides[:2]
    told = np.array(words, np.int64)

    small = x.nbytes < tuning.PARALLEL_BYTES
    wanted = 1 if small else min(cores.wanted(), strips * sequences)
    threads.together(code, address_of(told), wanted, scratch)


@cache
def _compiled(module: str, function: str, *how: Any) -> int:
    def make():
        return getattr(import_module(f"upsweep.cpu.{module}"), function)(*how)

    what = module, function, *(v.name if isinstance(v, np.dtype) else v for v in how)
    return address(Unit(what, 2, make, f"the layer {' '.join(map(str, what))}", door=True))
