"""The protocol of layers of recurrent models: their operands as an engine sees them, and its functions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from upsweep.engine import ENGINES, EngineError
from upsweep.engine_protocol import View


class Selective(NamedTuple):
    """The operands of a selective scan as an engine sees them: `h[t] = exp(delta a) h[t-1] + delta u b`, `y = c h + skip u`."""

    u: Any
    """(sequences, steps, channels), as delta and z: neighbouring channels touch. Packed sequences lie in one."""
    delta: Any
    a: Any
    """(channels, states), in the accumulator's dtype, as skip, bias and initial; contiguous."""
    b: Any
    """(sequences, steps, states), as c, of u's dtype: neighbouring states touch."""
    c: Any
    skip: Any
    z: Any
    bias: Any
    softplus: bool
    initial: Any
    """(sequences, channels, states), or None."""
    offsets: Any
    """Where packed sequences begin, and the end of the last, as int64; or None."""
    sequences: int


class Gated(NamedTuple):
    """The operands of a gated layer as an engine sees them: `h[t] = a[t] h[t-1] + b[t]`, a and b made of the inputs."""

    layer: str
    """rg_lru, min_gru or hgrn."""
    inputs: Sequence[Any]
    """(sequences, steps, channels): neighbouring channels touch. Packed sequences lie in one."""
    parameter: Any
    """(channels,), in the accumulator's dtype, as initial; None where the layer has none."""
    initial: Any
    """(sequences, channels), or None."""
    offsets: Any
    """Where packed sequences begin, and the end of the last, as int64; or None."""
    sequences: int


class Layers(Protocol):
    """Layers of recurrent models, where an engine has them."""

    CHUNK: int
    """A state is kept at each CHUNK of a sequence; those of sequence s begin at `first step // CHUNK + s`."""

    def selective(self, s: Selective, out: View, last: View | None, marks: View | None) -> None: ...

    def selective_back(
        self, s: Selective, g: View, dlast: View | None, marks: View, into: Sequence[View | None], states: Sequence[View | None]
    ) -> None: ...  # fmt: skip

    def gated(self, s: Gated, out: View, last: View | None) -> None: ...

    def gated_back(
        self, s: Gated, h: View, g: View, dlast: View | None, into: Sequence[View], dparameter: View | None, dinitial: View
    ) -> None: ...  # fmt: skip


def layers(name: str) -> Layers:
    """The layers of recurrent models of the engine of that name."""
    module = ENGINES[name].layers
    if module is None:
        raise EngineError(f"the {name} engine has no layers of recurrent models: pip install numba")
    return cast(Layers, import_module(module))
