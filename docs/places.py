"""Which place has which function, from the code; and why the others lack it."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any

MODULES = {
    place: import_module(name)
    for place, name in (
        ("up", "upsweep"),
        ("torch", "upsweep.torch"),
        ("jax", "upsweep.jax"),
        ("dask", "upsweep.dask"),
    )
}
_HERE, *_ELSEWHERE = [module.__all__ for module in MODULES.values()]
FUNCTIONS = [name for name in _HERE if any(name in names for names in _ELSEWHERE)]
"""The names in upsweep that a framework has too."""

LAYERS = (
    ("rg_lru", "rg_lru_step"), ("min_gru", "min_gru_step"), ("hgrn", "hgrn_step"), ("s5", "s5_step"),
    ("selective_scan", "selective_step"),
)  # fmt: skip
"""Layers of recurrent models and their steps. `upsweep.torch` and `upsweep.jax` have them."""

WHY_NOT = {
    ("dask", "gae"): '`scan((a, b), "affine", reverse=True)[1]` of a and b made of what is given',
    (
        "dask",
        "lfilter",
    ): "one scan a pole, each over all chunks: filter before, or a chunk with its state at a time",
}
"""The call to write instead, or the reason why there is none."""

_NAMED = {
    "cumulative_sum": "add", "cumulative_prod": "mul", "cummax": "max", "cummin": "min", "cumlogsumexp": "logaddexp",
}  # fmt: skip
_BACKWARD = "it runs from the end, which no chunk knows"

IN_CHUNKS = {
    "Stream": {
        "scan": "`Stream(op).push(x)`, *s*",
        "reduce": "the last item of the last chunk",
        **{name: f'`Stream("{op}")`, *s*' for name, op in _NAMED.items()},
        "linear_recurrence": '`Stream("affine").push((a, b))[1]`, *s*',
        "ema": '`Stream("affine")` of `1 - alpha` and `alpha x`',
        "discounted_sum": _BACKWARD,
        "gae": _BACKWARD,
        "lfilter": "`up.lfilter`, whose `zi` goes from chunk to chunk",
    },
    "command line": {
        "scan": "`upsweep scan FILE --op OP`, *s*",
        "reduce": "the last line of a scan",
        **{name: f"`upsweep scan FILE --op {op}`, *s*" for name, op in _NAMED.items()},
        "linear_recurrence": '`--op affine --column A --column B --map "A, B" --finish "prefix[1]"`, *s*',
        "ema": '`--op affine --map "0.9, 0.1 * x" --finish "prefix[1]" --initial 1,Y`, *s*',
        "discounted_sum": '`--op affine --reverse --map "0.9, x" --finish "prefix[1]"`, *s*',
        "gae": "a script of Python's: it takes three columns",
        "lfilter": "a script of Python's: its coefficients are lists",
    },
}
"""The form of each function where data come in parts, or the reason why there is none."""

WITHOUT_SEGMENTS = {
    "discounted_sum": "`dones` are its segments",
    "gae": "`dones` and `truncated` are its segments",
    "lfilter": "each segment has a state of its own: pass `zi`",
}


def places() -> dict[tuple[str, str], Any]:
    """The function of each name in each place, where there is one."""
    return {
        (place, name): getattr(module, name)
        for place, module in MODULES.items()
        for name in FUNCTIONS
        if name in module.__all__
    }


def page() -> str:
    """The table, as a page of the site."""
    there = places()
    lines = [
        "# Which function where",
        "Made from the code. A function of `up` calls its namesake in another module for arrays that only this one can scan.",
        "*s* takes `segments=`. `up.Stream` and the command line (`upsweep scan`) scan under every operator, "
        "by its name.",
        f"| function | {' | '.join([*MODULES, *IN_CHUNKS])} |\n|{' --- |' * (1 + len(MODULES) + len(IN_CHUNKS))}",
    ]
    for name in FUNCTIONS:
        cells = [_cell(there.get((place, name)), place, name) for place in MODULES]
        cells += [functions[name] for functions in IN_CHUNKS.values()]
        lines[-1] += f"\n| `{name}` | {' | '.join(cells)} |"
    lines.append(
        "\n".join(f"* No `segments=` for {names}: {why}." for names, why in WITHOUT_SEGMENTS.items())
    )
    named = ", ".join(f"`{layer}` (`{step}`)" for layer, step in LAYERS)
    lines.append(f"Layers of recurrent models and their steps are in torch and jax, with gradients: {named}.")
    return "\n\n".join(lines) + "\n"


def _cell(function: Any, place: str, name: str) -> str:
    if function is None:
        return WHY_NOT[place, name]
    return "yes, *s*" if takes_segments(function) else "yes"


def takes_segments(function: Any) -> bool:
    return "segments" in signature(function).parameters
