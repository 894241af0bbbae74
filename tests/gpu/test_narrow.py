"""The GPU's conversions of 8-bit floats have the bits of ml_dtypes. They are plain C, and are compiled for this machine."""

import ctypes
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from upsweep import dtypes
from upsweep.gpu.compile import KERNELS, made

NARROW = [name for name, row in dtypes.TABLE.items() if row.narrow and name.startswith("float8")]

PROGRAM = """
#include <cstring>
#define __device__
#define __forceinline__ inline
#include "narrow.cuh"
extern "C" void decode(const TYPE* x, float* y, long n) { for (long i = 0; i < n; i++) y[i] = decoded(x[i]); }
extern "C" void encode(const float* x, TYPE* y, long n) { for (long i = 0; i < n; i++) y[i] = encoded<TYPE>(x[i]); }
"""


@pytest.fixture(scope="module", params=NARROW)
def narrow(request, tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "narrow.cpp").write_text(PROGRAM.replace("TYPE", dtypes.TABLE[request.param].memory))
    words = [
        compiler,
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        f"-I{KERNELS}",
        "narrow.cpp",
        "-o",
        "narrow.so",
    ]
    subprocess.run(words, check=True, cwd=folder)
    return getattr(ml_dtypes, request.param), ctypes.CDLL(str(folder / "narrow.so"))


def floats(dtype):
    """Every code, every midpoint of two codes, the floats one bit beside each, and floats of all sizes."""
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.sort(codes[np.isfinite(codes)])
    ties = ((finite[1:].astype(float) + finite[:-1]) / 2).astype(np.float32)
    near = (
        np.concatenate([codes, ties, [finite[-1] * 1.03, finite[-1] * 1.07]])
        .astype(np.float32)
        .view(np.uint32)
    )
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 200_000, np.uint32)
    return np.concatenate([near, near + 1, near - 1, drawn, drawn & 0x8FFFFFFF | 0x38000000]).view(np.float32)


def test_the_kernels_conversions_have_the_bits_of_ml_dtypes(narrow):
    dtype, code = narrow
    codes, decoded = np.arange(256, dtype=np.uint8), np.empty(256, np.float32)
    code.decode(codes.ctypes.data_as(ctypes.c_void_p), decoded.ctypes.data_as(ctypes.c_void_p), 256)
    np.testing.assert_array_equal(decoded.view("u4"), codes.view(dtype).astype(np.float32).view("u4"))
    x = floats(dtype)
    encoded = np.empty(x.size, np.uint8)
    code.encode(x.ctypes.data_as(ctypes.c_void_p), encoded.ctypes.data_as(ctypes.c_void_p), x.size)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(encoded, x.astype(dtype).view(np.uint8))


def test_a_float_without_instructions_compiles_for_a_chip_that_has_them_for_others():
    pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")
    kernel = 'typedef Narrow<3, 4, true> e3m4; extern "C" __global__ void both(e3m4* x) { *x = encoded<e3m4>(decoded(*x)); }'
    text = (KERNELS / "narrow.cuh").read_text().replace("#pragma once", "")
    assert made(text + kernel, (), 90)


@pytest.mark.parametrize("name", NARROW)
def test_a_gpu_rounds_many_at_once_to_the_same_bits(cuda, name):
    """Where every item is a segment, a prefix is the item itself."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip(f"PyTorch has no {name}")
    dtype = getattr(ml_dtypes, name)
    x = floats(dtype)
    heads = torch.ones(x.size, dtype=torch.bool, device="cuda")
    y = up.scan(torch.from_numpy(x).cuda(), "add", dtype=dtype, segments=up.segments.flags(heads))
    with np.errstate(all="ignore"):
        want, got = x.astype(dtype), y.view(torch.uint8).cpu().numpy().view(dtype)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    np.testing.assert_array_equal(got.view(np.uint8)[numbers], want.view(np.uint8)[numbers])
