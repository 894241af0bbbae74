"""PyTorch's tensors are told apart by all that a scan of them is checked for."""

import warnings

import pytest

import upsweep as up
from upsweep import recall
from upsweep.host import tensors
from upsweep.host.tensors import likeness

torch = pytest.importorskip("torch")

X = torch.arange(12.0).reshape(3, 4)


def _sparse():
    # PyTorch 2.11 warns once that nobody has said whether to check such tensors, also where this one says it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning)
        return torch.sparse_coo_tensor(
            torch.zeros(2, 1, dtype=torch.int64), torch.ones(1), (3, 4), check_invariants=True
        )


OTHERS = {
    "dtype": X.double(),
    "shape": X.reshape(4, 3),
    "strides": X.T.contiguous().T,
    "negated": torch._neg_view(X),
    "meta": X.to("meta"),
    "gradients": X.clone().requires_grad_(),
    "no memory": _sparse(),
}


@pytest.fixture(autouse=True, params=["guard", "questions"])
def afresh(request, monkeypatch):
    monkeypatch.setattr(tensors, "_known", {})
    if request.param == "questions":
        monkeypatch.setattr(tensors, "_guard", lambda: None)


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_told(name):
    first, beside = likeness((X,)), likeness((X, OTHERS["dtype"]))
    assert likeness((X.clone(),)) == first
    assert likeness((X + 1, OTHERS["dtype"] + 1)) == beside
    other = OTHERS[name]
    for _ in range(2):
        assert likeness((other,)) != first
        assert likeness((X, other)) != beside or name == "dtype"
    assert likeness((X,)) == first


def test_conjugated():
    z = torch.ones(3, dtype=torch.complex64)
    assert likeness((z.conj(),)) != likeness((z,)) == likeness((z + 1,))


def test_gradients_that_are_recorded():
    x = X.clone().requires_grad_()
    with torch.no_grad():
        quiet = likeness((x,))
    for _ in range(2):
        assert likeness((x,)) != quiet
        with torch.no_grad():
            assert likeness((x,)) == quiet


# PyTorch's own transforms import what it calls deprecated.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_tangents_and_transforms():
    plain = likeness((X,))
    with torch.autograd.forward_ad.dual_level():
        assert likeness((torch.autograd.forward_ad.make_dual(X, X),)) != plain
    seen = []
    torch.func.vmap(lambda x: seen.append(likeness((x,))) or x)(X.expand(2, 3, 4))
    torch.func.jvp(lambda x: seen.append(likeness((x,))) or x, (X,), (X,))
    assert plain not in seen
    assert len(seen) == 2


def test_one_tensor_twice():
    both = likeness((X, X))
    assert both == likeness((X, X))
    assert sum(map(len, tensors._known.values())) == 0


def test_few_are_kept():
    """The first ones stay: were they forgotten for the next ones, nine that take turns would all be met for the first time."""
    wide, first = torch.zeros(3, 100), likeness((X,))
    for n in range(5, 30):
        likeness((wide[:, :n].clone().as_strided((3, 4), (n, 1)),))
    assert likeness((X,)) == first
    assert sum(map(len, tensors._known.values())) <= tensors._EACH


def test_calls_in_place_and_beside(monkeypatch):
    """An array that is written over itself, beside another, and over another again."""
    # The first tensor of all tells that there are tensors.
    up.scan(X, axis=1)
    checked, execute = [], recall.execute
    monkeypatch.setattr(recall, "execute", lambda *given: checked.append(1) or execute(*given))
    monkeypatch.setattr(recall, "known_calls", {})
    want = X.cumsum(1)
    for _ in range(3):
        x, y = X.clone(), torch.zeros(3, 4)
        assert torch.equal(up.scan(x, axis=1, out=y), want)
        assert up.scan(x, axis=1, out=x) is x
        assert torch.equal(x, want)
        assert len(checked) == 2
    followed = X.clone().requires_grad_()
    with torch.no_grad():
        assert not up.scan(followed, axis=1).requires_grad
    assert up.scan(followed, axis=1).requires_grad
