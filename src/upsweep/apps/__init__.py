"""Applications of scans, each for any array that a scan takes. The protocol of `moves.py` lists the work that an engine does for
them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "compaction": (
        "compact",
        "partition",
        "run_length_decode",
        "run_length_encode",
        "unique_consecutive",
        "where",
    ),
    "counting": ("RangeHistogram", "histogram"),
    "areas": ("SummedAreaTable",),
    "big_integers": ("carry_lookahead_add",),
    "compression": ("CompressionError", "compress", "decompress"),
    "hidden_markov": ("hmm_forward", "viterbi"),
    "kalman": ("kalman_filter",),
    "lexing": ("Lexer", "json_lexer", "python_lexer", "tokenize"),
    "polynomials": ("polyval",),
    "sorting": ("argsort", "quicksort", "radix_sort"),
    "strings": ("compare_strings",),
    "trees": ("Tree",),
    "tridiagonal": ("solve_tridiagonal",),
    "work": ("allocate", "expand"),
    "recurrences": ("ema",),
    "rewards": ("discounted_sum",),
    "filters": ("lfilter", "linear_recurrence"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'upsweep.apps' has no attribute {name!r}; it has {', '.join(__all__)}")
    # A call of a name that is looked up here each time takes a microsecond and a half more.
    value = globals()[name] = getattr(import_module(f"upsweep.apps.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
