"""Arrays of other libraries: a result is of the kind that came in, and nothing is copied on the way in."""

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from table import CASES
from upsweep import engine

HASH = CASES["hash-u64"]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    y = up.scan(x, axis=1)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.cumsum(x, 1))
    out = torch.full((3, 4), 77.0)
    assert up.scan(x, axis=0, out=out) is out
    assert torch.equal(out, torch.cumsum(x, 0))
    halves = torch.ones(300, dtype=torch.bfloat16)
    assert torch.equal(up.scan(halves), torch.arange(1.0, 301.0).to(torch.bfloat16))
    a, _ = up.scan((x, x), "affine", axis=1)
    assert isinstance(a, torch.Tensor)
    assert up.scan(x, axis=1, dtype=torch.float64).dtype is torch.float64
    # upsweep.torch scans it.
    assert up.scan(x.requires_grad_(), axis=1).requires_grad


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(12.0).reshape(3, 4)
    y = up.scan(x, axis=1)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, np.cumsum(x, 1))


class OnlyDLPack:
    """A library that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return self

    @staticmethod
    def from_dlpack(array):
        return OnlyDLPack(array)


def test_anything_with_dlpack():
    y = up.scan(OnlyDLPack(np.arange(5)))
    assert isinstance(y, OnlyDLPack)
    np.testing.assert_array_equal(y.array, [0, 1, 3, 6, 10])


@pytest.mark.parametrize("n", [0, 1])
def test_short_input(n):
    (x,) = HASH.draw(n)
    np.testing.assert_array_equal(up.scan(x, HASH.op), x)
    np.testing.assert_array_equal(up.scan(x, exclusive=True), np.zeros(n, "u8"))
    assert up.reduce(x) == x.sum()
    assert up.reduce(x, initial=np.uint64(3)) == 3 + x.sum()
    np.testing.assert_array_equal(up.reduce(np.ones((0, 4)), axis=0), np.zeros(4))
    assert up.reduce(np.ones((0, 4)), axis=1).shape == (0,)


def test_a_list_and_a_scalar_result():
    assert up.scan([1, 2, 3]).tolist() == [1, 3, 6]
    assert isinstance(up.reduce([1, 2, 3]), np.integer)
    assert up.scan(([1.0, 2.0],))[0].tolist() == [1.0, 3.0]


def test_in_place_on_tuples():
    case = CASES["affine-f32"]
    a, b = case.draw(70_000)
    want = oracle(case.arrays, (a, b))
    kept = a.copy()
    up.scan((a, b), "affine", out=(a, b))
    np.testing.assert_array_equal(a, want[0])
    np.testing.assert_array_equal(b, want[1])
    a, b = case.draw(70_000)
    h = up.linear_recurrence(a, b, out=a)
    assert h is a
    np.testing.assert_array_equal(h, want[1])
    np.testing.assert_array_equal(kept, case.draw(70_000)[0])


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_memory_is_cleared_by_the_last_byte_of_each_huge_page(axes):
    y = np.full((100, 101, 103), 0x7777777777777777).transpose(axes)
    assert engine._cleared(y) is y
    written = np.flatnonzero(y.ravel("K").view(np.uint8) == 0) + y.ctypes.data
    ends = np.arange(y.ctypes.data, y.ctypes.data + y.nbytes + 1) // engine.HUGE
    assert len(written) == ends[-1] - ends[0]
    assert (written % engine.HUGE == engine.HUGE - 1).all()
