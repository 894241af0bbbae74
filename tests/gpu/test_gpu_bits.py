"""On a GPU: the bits of the oracle and of the CPU engine. `benchmarks/gpu_check.py` runs far more of the same."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from upsweep.tree import prefixes

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture
def put(cuda):
    """NumPy to the device and back."""
    try:
        import cupy

        return cupy.asarray, cupy.asnumpy
    except ImportError:
        torch = pytest.importorskip("torch")
        return lambda x: torch.as_tensor(x, device="cuda"), lambda x: x.cpu().numpy()


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 511, 513, 1025, 4096, 4097, 40_000])
@pytest.mark.filterwarnings("ignore:overflow")
def test_the_tree_is_the_canonical_one(
    put, n
):  # the operator is not associative: equal bits mean the same tree
    to, back = put
    x = np.random.default_rng(n).integers(0, 1 << 62, n).astype(np.int64)
    op = up.Operator(lambda a, b: (a * 31) ^ (b * 17 + 5), name="mix")
    with np.errstate(all="ignore"):
        want = np.array(prefixes(lambda a, b: (a * np.int64(31)) ^ (b * np.int64(17) + np.int64(5)), list(x)))
    np.testing.assert_array_equal(back(up.scan(to(x), op)), want)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "extra", [{}, {"reverse": True}, {"exclusive": True}, {"initial": 0.25, "reverse": True}]
)
def test_axes_equal_the_cpu(put, axis, extra):
    to, back = put
    x = np.random.default_rng(axis).random((19, 131, 43), np.float32) - np.float32(0.5)
    np.testing.assert_array_equal(back(up.scan(to(x), axis=axis, **extra)), up.scan(x, axis=axis, **extra))


def test_segments_equal_the_cpu(put):
    to, back = put
    rng = np.random.default_rng(5)
    x, flags = rng.random(50_001, np.float32), rng.random(50_001) < 0.01
    want = up.scan(x, segments=up.segments.flags(flags))
    np.testing.assert_array_equal(back(up.scan(to(x), segments=up.segments.flags(to(flags)))), want)
