"""What CUDA arrays get: every application by its own library's operations alone, here with PyTorch on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from upsweep import apps
from upsweep.apps import kinds, moving

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def as_if_on_a_gpu(monkeypatch):
    shim = SimpleNamespace(
        choose=lambda xs: "cuda", on_gpu=lambda x: isinstance(x, torch.Tensor), load=kinds.engines.load
    )
    monkeypatch.setattr(kinds, "engines", shim)
    monkeypatch.setattr(moving, "fast", lambda x: None)


X, KEEP = RNG.standard_normal(300), RNG.random(300) < 0.5
CODES, COUNTS = RNG.integers(0, 20, 300), RNG.integers(0, 5, 50)
PARENTS = np.append(-1, (RNG.random(49) * np.arange(1, 50)).astype(np.int64))
CHAIN = RNG.dirichlet(np.ones(3)), RNG.dirichlet(np.ones(3), 3), RNG.random((40, 3))
MODEL = RNG.standard_normal((30, 1)), np.eye(2), np.ones((1, 2)), np.eye(2), np.eye(1), np.zeros(2), np.eye(2)
TEXT = np.frombuffer(b"x = ['a', 1.5e3] # no\n" * 100, np.uint8)
CORNERS = np.sort(RNG.integers(0, 11, (2, 9, 2)), axis=0)
CASES = {
    "ema": (lambda x: apps.ema(x, 0.5), X),
    "discounted_sum": (lambda x, done: apps.discounted_sum(x, 0.5, done, initial=1.0), X, KEEP),
    "lfilter": (lambda x, zi: apps.lfilter([1.0, 0.5], [1.0, -0.5, 0.3], x, zi=zi), X, X[:2]),
    "compact": (apps.compact, X, KEEP),
    "partition": (lambda x, keep: apps.partition(x, keep)[0], X, KEEP),
    "where": (apps.where, KEEP),
    "unique_consecutive": (apps.unique_consecutive, CODES // 5),
    "run_length_encode": (apps.run_length_encode, CODES // 5),
    "run_length_decode": (apps.run_length_decode, X[:50], COUNTS),
    "expand": (apps.expand, COUNTS),
    "radix_sort": (apps.radix_sort, X),
    "argsort": (lambda x: apps.argsort(x, descending=True), CODES),
    "quicksort": (apps.quicksort, X),
    "histogram": (lambda x: apps.histogram(x, 20), CODES),
    "ranges": (lambda x, a: apps.RangeHistogram(x, 20).count(a, a + 3), CODES, np.arange(10)),
    "areas": (lambda x, a, b: apps.SummedAreaTable(x).sum(a, b), CODES[:100].reshape(10, 10), *CORNERS),
    "strings": (apps.compare_strings, CODES.reshape(100, 3), CODES[::-1].copy().reshape(100, 3)),
    "polyval": (apps.polyval, X[:9], X),
    "tridiagonal": (apps.solve_tridiagonal, X, np.abs(X) + 5, X, X),
    "depths": (lambda p: apps.Tree(p).depths(), PARENTS),
    "sums": (lambda p, w: apps.Tree(p).subtree_sums(w), PARENTS, COUNTS),
    "tokenize": (lambda t: apps.tokenize(t, apps.python_lexer()), TEXT),
    "forward": (apps.hmm_forward, *CHAIN),
    "viterbi": (lambda *v: apps.viterbi(*v)[0], *CHAIN),
    "kalman": (apps.kalman_filter, *MODEL),
}


@pytest.mark.parametrize("name", CASES)
def test_torch_alone_gives_what_numpy_gives(name, monkeypatch):
    call, *arrays = CASES[name]
    got = call(*(torch.tensor(v) for v in arrays))
    monkeypatch.undo()
    want = call(*arrays)
    for g, w in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert isinstance(g, torch.Tensor)
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-12, atol=1e-13)
