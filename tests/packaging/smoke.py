"""The calls that must work with numpy and numba alone. An interpreter runs them that has the wheel and nothing else of ours."""

import importlib.util
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import upsweep as up
from upsweep import short_way

for absent in ("torch", "jax", "dask", "click", "cuda", "array_api_compat", "scipy"):
    assert importlib.util.find_spec(absent) is None, f"{absent} is installed: this is no clean environment"
loaded = "import sys, upsweep; print([m for m in ('numba', 'scipy') if m in sys.modules])"
assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "[]"

# A release has them.
if list(Path(up.__file__).parent.glob("cpu/built/*.kernels")):
    first = "import sys, numpy, upsweep; upsweep.scan(numpy.ones(9)); print({'numba', 'llvmlite'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", first], text=True).strip() == "set()"

# A wheel for one kind of machine has the C part.
pure = "Root-Is-Purelib: true" in (distribution("upsweep").read_text("WHEEL") or "")
assert (short_way.part is None) == pure

x = np.arange(1, 100_001, dtype=np.float32)
y = up.scan(x)
assert y.dtype == np.float32
np.testing.assert_array_equal(y[:4], [1, 3, 6, 10])
np.testing.assert_allclose(y[-1], 5000050000.0, rtol=1e-6)
np.testing.assert_array_equal(up.scan([5, 6, 7], lambda a, b: b), [5, 6, 7])
np.testing.assert_array_equal(up.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0]), [1, 0.5, 0.25])
stream = up.Stream()
np.testing.assert_array_equal(np.concatenate([stream.push(c) for c in np.split(x, [1, 999, 70_000])]), y)
few = x[:9].astype(np.int64)
assert [up.scan(few, out=few[:]).tolist() for few in np.tile(few, (4, 1))] == [np.cumsum(few).tolist()] * 4
try:
    up.scan(x, engine="cuda")
except up.EngineError as error:
    assert "pip install" in str(error), error  # noqa: PT017
else:
    raise AssertionError("the CUDA engine ran without its packages")
part = "without" if pure else "with"
print("smoke test passed on", sys.version.split()[0], "with numpy", np.__version__, part, "the C part")
