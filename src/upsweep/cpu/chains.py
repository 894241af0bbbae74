"""Hidden Markov chains, step after step: the loops of `upsweep.apps.trellis`, compiled."""

from __future__ import annotations

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.jitted import jitted

_njit = jitted(error_model="numpy")


def forward_in_order(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sequences side by side are shared by threads."""
    likelihood = np.ascontiguousarray(likelihood)
    joint, sizes = np.empty_like(likelihood), np.empty(likelihood.shape[:-1])
    initial, transition = map(np.ascontiguousarray, (initial, transition))
    threads.each(
        lambda k: _forward(initial, transition, likelihood[k], joint[k], sizes[k]),
        [*np.ndindex(likelihood.shape[:-2])],
    )
    return joint, sizes


def best_path_in_order(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    states, last = np.empty(len(likelihood), np.int64), np.empty(len(initial))
    _best_path(*map(np.ascontiguousarray, (initial, transition, likelihood)), states, last)
    return states, last


@_njit
def _forward(initial, transition, likelihood, joint, sizes):
    states = len(initial)
    for t in range(len(likelihood)):
        row = joint[t]
        if t == 0:
            row[:] = initial
        else:
            before = joint[t - 1]
            for j in range(states):
                row[j] = before[0] * transition[0, j]
            for i in range(1, states):
                for j in range(states):
                    row[j] += before[i] * transition[i, j]
        size = -np.inf
        for j in range(states):
            row[j] *= likelihood[t, j]
            if row[j] > size or (row[j] != row[j] and size == size):
                size = row[j]
        sizes[t] = size
        if size > 0:
            for j in range(states):
                row[j] /= size


@_njit
def _best_path(initial, transition, likelihood, path, score):
    steps, states = likelihood.shape
    choices = np.empty((steps, states), np.int32)
    before = np.empty(states)
    for t in range(steps):
        if t == 0:
            score[:] = initial
        else:
            choice = choices[t]
            before[:] = score
            for j in range(states):
                score[j] = before[0] + transition[0, j]
                choice[j] = 0
            for i in range(1, states):
                for j in range(states):
                    value, best = before[i] + transition[i, j], score[j]
                    # The first NaN is the largest, as in NumPy.
                    if value > best or (value != value and best == best):
                        score[j] = value
                        choice[j] = i
        for j in range(states):
            score[j] += likelihood[t, j]
    if steps:
        last = np.argmax(score)
        for t in range(steps - 1, 0, -1):
            path[t] = last
            last = choices[t, last]
        path[0] = last
