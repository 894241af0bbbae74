"""numba-cuda takes every textbook kernel: each is compiled to PTX here, without a GPU."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from no_device import HOPPER
from portions import every
from upsweep.operators import as_operator
from upsweep.textbook import KERNELS, gpu
from upsweep.textbook.mistakes import MISTAKES

numba_cuda = pytest.importorskip("numba.cuda")
pytest.importorskip(
    "numba_cuda", reason="numba's own, older CUDA target has no PTX compiler without a driver"
)

INTEGERS = ("radix-split", "range-histogram", "range-query")
BOTH = ("kogge-stone", "brent-kung", "blelloch", "warp-shuffle", "domino-dynamic")


def compile_all(setup, dtype, op="max"):
    from numba import from_dtype, types

    kinds = {
        key: from_dtype(words.dtype)[::1] for key, words in gpu.buffers(setup, np.zeros(100, dtype)).items()
    }
    for launch in setup.launches:
        kernel = gpu.bound(launch, as_operator(op), dtype)
        # The very code that the lab traces.
        assert kernel.__code__ is launch.kernel.__code__
        given = tuple(kinds[a] if isinstance(a, str) else types.int64 for a in launch.args)
        ptx, _ = numba_cuda.compile_ptx(kernel, given, cc=HOPPER)
        assert launch.kernel.__name__ in ptx
        assert ("bar" in ptx) >= ("syncthreads" in launch.kernel.__code__.co_names)


@pytest.mark.parametrize("name", every(8, KERNELS))
def test_textbook_compiles(name, no_device_needed):
    row = KERNELS[name]
    for dtype in (
        (np.int32,) if name in INTEGERS else (np.float32, np.int64) if name in BOTH else (np.float32,)
    ):
        compile_all(row.setup(100, row.block(100), 32), np.dtype(dtype))


def test_an_operator_that_calls_functions_compiles(no_device_needed):
    compile_all(KERNELS["brent-kung"].setup(100, 64, 32), np.dtype(np.float64), "logaddexp")


@pytest.mark.parametrize("name", every(6, MISTAKES))
def test_mistakes_compile(name, no_device_needed):
    compile_all(MISTAKES[name].setup, np.dtype(np.int32))


def test_a_block_that_no_gpu_has_is_refused():
    with pytest.raises(
        ValueError, match="compaction would need a block of 5000 threads; it is for any n of one block"
    ):
        gpu.run(KERNELS["compaction"], np.arange(5000))


SIMULATED = """
import numpy as np
from numba import cuda
jit = cuda.jit
cuda.jit = lambda *args, lineinfo=None, **options: jit(*args, **options)  # the simulator knows no line numbers
from upsweep import lab
from upsweep.textbook import KERNELS, run
for name, row in KERNELS.items():
    if name == "warp-shuffle":
        continue  # nor shuffles
    x = np.arange(21, dtype=np.int32) % 8
    op = "max" if row.needs == "idempotent" else "add"
    assert run(name, x, op).tolist() == lab.trace(name, x=x.tolist(), op=op).values, name
"""


@pytest.mark.slow
def test_numba_simulator_agrees():
    """Another executor of the same dialect gives the same results as the tracer."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-c", SIMULATED], check=True, env=environment, timeout=300)


class _Kernel:
    """numba's, which warns of a small grid when it is configured."""

    def __getitem__(self, sizes):
        from numba.core.errors import NumbaPerformanceWarning

        warnings.warn(
            NumbaPerformanceWarning(f"Grid size {sizes[0]} will likely result in ..."), stacklevel=2
        )
        return lambda *args: args[1].fill(7)


class _Cuda:
    to_device = staticmethod(lambda words: words)
    device_array_like = staticmethod(lambda words: words.view(_Array))
    jit = staticmethod(lambda kernel, lineinfo: _Kernel())


class _Array(np.ndarray):
    copy_to_host = np.ndarray.copy


def test_a_small_run_warns_of_nothing(monkeypatch):
    """A warning is an error here."""
    monkeypatch.setattr(gpu, "_cuda", _Cuda)
    monkeypatch.setattr(gpu, "bound", lambda *what: None)
    assert gpu.run(KERNELS["kogge-stone"], [3, 1, 2]).tolist() == [7, 7, 7]
