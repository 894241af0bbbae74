"""Every application on every kind of array, on every path: the bits are those that NumPy's arrays get."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep.apps

LONG = 20_011


def cases(n):
    """Each application's call, and n items to call it with (or as many as it needs)."""
    rng = np.random.default_rng(n)
    x, y, keep = rng.standard_normal(n), rng.standard_normal(n).astype(np.float32), rng.random(n) < 0.5
    codes, counts = rng.integers(0, 20, n), rng.integers(0, 5, n)
    rows, small = codes.reshape(-1, 1) + np.arange(3), codes.astype(np.int8)
    parents = np.append(-1, (rng.random(n - 1) * np.arange(1, n)).astype(np.int64))
    opening = np.repeat([True, False], n)
    corners = np.sort(rng.integers(0, [n + 1, 4], (2, 9, 2)), axis=0)
    initial, transition, likelihood = rng.dirichlet([1] * 3), rng.dirichlet([1] * 3, 3), rng.random((n, 3))
    model = np.eye(2) + 0.1, np.ones((1, 2)), np.eye(2), np.eye(1), np.zeros(2), np.eye(2)
    text = np.resize(np.frombuffer(b"x = ['a', 1.5e3] # no\n", np.uint8), n)
    lexer = upsweep.apps.python_lexer()
    complex_filter = [1.0, 0.5j], [2.0, -0.5, 0.3j]
    return {
        "ema": lambda apps: apps.ema(x, 0.1),
        "ema float32": lambda apps: apps.ema(y, 0.1, initial=0.3),
        "ema of rows": lambda apps: apps.ema(rows, np.array([0.1, 0.2, 0.3]), axis=0),
        "discounted_sum": lambda apps: apps.discounted_sum(x, 0.9, keep, initial=0.1),
        "discounted_sum of rows": lambda apps: apps.discounted_sum(rows, 0.9, keep, axis=0, initial=np.ones(3)),
        "lfilter": lambda apps: apps.lfilter([1.0, 0.5], [1.0, -0.5, 0.3], x, zi=np.array([0.1, 0.2])),
        "lfilter of real poles": lambda apps: apps.lfilter([0.3], [1.0, -0.7, 0.1], y),
        "lfilter by arrays": lambda apps: apps.lfilter(np.array([1.0]), np.array([1.0, -1.8, 0.97]), rows, axis=0),
        "lfilter complex": lambda apps: apps.lfilter(*complex_filter, x + 1j * x[::-1]),
        "linear_recurrence": lambda apps: apps.linear_recurrence(np.array([0.5, 0.2]), x, initial=np.array([0.1, 0.3])),
        "compact": lambda apps: apps.compact(x, keep),
        "compact rows": lambda apps: apps.compact(rows, keep),
        "partition": lambda apps: apps.partition(y, keep),
        "where": lambda apps: apps.where(keep),
        "unique_consecutive": lambda apps: apps.unique_consecutive(codes // 5),
        "run_length_encode": lambda apps: apps.run_length_encode(rows // 5),
        "run_length_decode": lambda apps: apps.run_length_decode(x, counts),
        "allocate": lambda apps: apps.allocate(counts),
        "expand": lambda apps: apps.expand(small // 4),
        "radix_sort": lambda apps: apps.radix_sort(x),
        "radix_sort of pairs": lambda apps: apps.radix_sort(codes, x),
        "argsort": lambda apps: apps.argsort(small, descending=True),
        "quicksort": lambda apps: apps.quicksort(y),
        "histogram": lambda apps: apps.histogram(small, 300),
        "range counts": lambda apps: apps.RangeHistogram(codes, 20).count(np.arange(10), np.arange(10) + 3),
        "one range": lambda apps: apps.RangeHistogram(codes, 20).count(1, 3),
        "box sums": lambda apps: apps.SummedAreaTable(rows).sum(*corners),
        "box means": lambda apps: apps.SummedAreaTable(rows.astype(np.uint8)).mean(*corners),
        "compare_strings": lambda apps: apps.compare_strings(rows, rows[::-1]),
        "carry_lookahead_add": lambda apps: apps.carry_lookahead_add(small.view(np.uint8), ~small.view(np.uint8)),
        "polyval": lambda apps: apps.polyval(x, np.array([0.5, -0.9])),
        "polyval of many": lambda apps: apps.polyval(x[:9, None] * np.ones(4), 0.3),
        "solve_tridiagonal": lambda apps: apps.solve_tridiagonal(x, np.abs(x) + 5, 1.0, x[::-1]),
        "depths": lambda apps: apps.Tree(parents).depths(),
        "preorder": lambda apps: apps.Tree(parents).preorder(),
        "postorder": lambda apps: apps.Tree(parents).postorder(),
        "subtree_sums": lambda apps: apps.Tree(parents).subtree_sums(counts),
        "parentheses": lambda apps: apps.Tree.from_parentheses(opening).depths(),
        "tokenize": lambda apps: apps.tokenize(text, lexer),
        "compress": lambda apps: apps.compress(codes),
        "compress bytes": lambda apps: apps.compress(text),
        "hmm_forward": lambda apps: apps.hmm_forward(initial, transition, likelihood),
        "viterbi": lambda apps: apps.viterbi(*map(np.log, (initial, transition, likelihood))),
        "kalman_filter": lambda apps: apps.kalman_filter(x[:, None], *model),
    }  # fmt: skip


ROUNDED = {"hmm_forward", "kalman_filter"}
"""Each library has its own sums of rows and its own logarithms."""


@pytest.mark.parametrize("n", [1, 300, LONG])
@pytest.mark.parametrize("name", cases(1))
def test_the_bits_are_numpys(apps, name, n):
    call = cases(n)[name]
    got, want = call(apps), call(upsweep.apps)
    for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        if isinstance(w, bytes):
            assert g == w
            continue
        np.testing.assert_allclose(g, w, rtol=1e-12 if name in ROUNDED else 0)
        assert np.asarray(g).dtype == np.asarray(w).dtype


def test_other_libraries_on_a_gpu_are_refused():
    class Foreign:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (0, False), "version": 3}  # noqa: RUF012

    with pytest.raises(upsweep.EngineError, match="CuPy and PyTorch"):
        upsweep.apps.ema(Foreign(), 0.5)


@pytest.mark.parametrize(
    "name", ["compact", "where", "radix_sort", "argsort", "quicksort", "allocate", "ema"]
)
def test_nothing_stays_nothing(apps, name):
    arguments = {
        "compact": (np.zeros(0), np.zeros(0, bool)),
        "where": (np.zeros(0, bool),),
        "ema": (np.zeros(0), 0.1),
    }
    given = arguments.get(name, (np.zeros(0, int),))
    np.testing.assert_array_equal(getattr(apps, name)(*given), getattr(upsweep.apps, name)(*given))
