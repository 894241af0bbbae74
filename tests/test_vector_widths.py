"""Vectors of 16, 32 and 64 bytes give the same bits: the engine's code is compiled for processors without wider ones."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROCESSORS = {
    "x86-64": "+sse2",
    "haswell": "+avx2,+fma",
    "skylake-avx512": "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,-prefer-256-bit",
}
CODE = """
import numpy as np, upsweep as up
from oracle import oracle
from table import CASES
for name in ("hash-u64", "add-f32", "add-i8", "add-i32"):
    case = CASES[name]
    (x,) = case.draw(9_001)
    (want,) = oracle(case.arrays, (x,))
    for n in (1, 5, 16, 255, 256, 4_097, 9_001):
        assert up.scan(x[:n], case.op).tobytes() == want[:n].tobytes(), (name, n)
    for shape in ((37, 70), (600, 5)):
        (x,) = case.draw(shape, 1)
        for axis in (0, 1):
            got = np.moveaxis(up.scan(x, case.op, axis=axis), axis, 1)
            for row, given in zip(got, np.moveaxis(x, axis, 1)):
                assert row.tobytes() == oracle(case.arrays, (given.copy(),))[0].tobytes(), (name, shape, axis)
for name in ("hash-u64", "add-f32"):
    case = CASES[name]
    (x,) = case.draw((37, 70), 1)
    heads, start = np.arange(x.size).reshape(x.shape) % 7 == 0, x.dtype.type(3)
    for form in (
        {"reverse": True},
        {"order": "sequential"},
        {"reverse": True, "order": "sequential"},
        {"exclusive": True, "heads": heads},
    ):
        (want,) = oracle(case.arrays, (x,), axis=1, initial=(start,), **form)
        if "heads" in form:
            form["segments"] = up.segments.flags(form.pop("heads"))
        assert up.scan(x, case.op, axis=1, initial=start, **form).tobytes() == want.tobytes(), (name, form)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are names of x86 processors")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_vector_width(processor, tmp_path):
    known = Path("/proc/cpuinfo")
    if "512" in processor and not (known.exists() and "avx512vl" in known.read_text()):
        pytest.skip("this processor has no vectors of 64 bytes")
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": PROCESSORS[processor],
        "UPSWEEP_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    subprocess.run([sys.executable, "-c", CODE], env=env, check=True, timeout=600)
