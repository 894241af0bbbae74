"""Automata over text, a chunk a thread: the tokens that each byte ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.chunked import SHARE
from upsweep.cpu.jitted import jitted

_njit = jitted()


def run_automaton(lexer: Any, text: np.ndarray) -> tuple[np.ndarray, int]:
    """The code of the tokens that each byte of text ends, and the last configuration, by a lexer's tables.

    Each chunk's transition function is found first, then these functions are composed, and each chunk is run from its start.
    """
    n, states = len(text), len(lexer.after)
    text = np.ascontiguousarray(text)
    codes, starts = np.empty(n, np.uint16), np.zeros(max(1, -(-n // SHARE)) + 1, np.int64)
    functions = np.empty((len(starts) - 2, states), np.int64)
    run = lexer.after, lexer.emits, lexer.classes, text
    threads.each(
        lambda k: _function_of_chunk(*run[::2], text, k * SHARE, (k + 1) * SHARE, functions[k]),
        range(len(functions)),
    )
    for k in range(len(functions)):
        starts[k + 1] = functions[k][starts[k]]
    finals = np.zeros(len(starts), np.int64)

    def emit(lo: int, hi: int) -> None:
        finals[lo // SHARE] = _emit_chunk(*run, lo, hi, starts[lo // SHARE], codes)

    threads.each(lambda k: emit(k * SHARE, min(n, (k + 1) * SHARE)), range(-(-n // SHARE)))
    return codes, int(finals[-2])


@_njit
def _function_of_chunk(after, classes, text, lo, hi, function):
    """The state that a chunk leads to from every state. States that have met stay together, and only one of them goes on."""
    states = len(after)
    different = np.arange(states)
    slot = np.arange(states)
    renamed = np.empty(states, np.int64)
    count, check = states, lo + 8
    for i in range(lo, hi):
        row = classes[text[i]]
        for d in range(count):
            different[d] = after[different[d], row]
        if i == check and count > 1:
            check = i + 2 * (i - lo)
            at = np.full(states, -1)
            kept = 0
            for d in range(count):
                state = different[d]
                if at[state] < 0:
                    at[state] = kept
                    different[kept] = state
                    kept += 1
                renamed[d] = at[state]
            for s in range(states):
                slot[s] = renamed[slot[s]]
            count = kept
    for s in range(states):
        function[s] = different[slot[s]]


@_njit
def _emit_chunk(after, emits, classes, text, lo, hi, state, codes):
    for i in range(lo, hi):
        row = classes[text[i]]
        codes[i] = emits[state, row]
        state = np.int64(after[state, row])
    return state
