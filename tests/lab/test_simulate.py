"""The simulator of numba.cuda's dialect: results are right on arrays of any size, and a test fails where a GPU might fail."""

import unittest

import numpy as np
import pytest

from upsweep.lab.simulate import SimulationError, cuda, simulated


def found(kernel, *args, grid=1, block=64):
    with pytest.raises(SimulationError) as caught:
        kernel[grid, block](*args)
    return str(caught.value)


@cuda.jit
def reverse(x, y):
    t = cuda.threadIdx.x
    tile = cuda.shared.array(64, np.int64)
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - 1 - t]


@cuda.jit
def reverse_racing(x, y):
    t = cuda.threadIdx.x
    tile = cuda.shared.array(64, np.int64)
    tile[t] = x[t]
    y[t] = tile[cuda.blockDim.x - 1 - t]


@cuda.jit
def early_return(x, y):
    t = cuda.threadIdx.x
    if t >= len(x):
        return
    cuda.syncthreads()
    y[t] = x[t]


@cuda.jit
def two_barriers(x, y):
    if cuda.threadIdx.x % 2:
        cuda.syncthreads()
    else:
        cuda.syncthreads()
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]


@cuda.jit
def unwritten(x, y):
    t = cuda.threadIdx.x
    tile = cuda.shared.array(64, np.float32)
    if t < 10:
        tile[t] = x[t]
    y[t] = tile[t]


def test_a_right_kernel_gives_its_result():
    y = np.zeros(64, np.int64)
    reverse[1, 64](np.arange(64), y)
    assert y.tolist() == list(range(63, -1, -1))


def test_a_race_fails_with_both_lines():
    said = found(reverse_racing, np.arange(64), np.zeros(64, np.int64))
    assert "race: test_simulate.py:" in said
    first = reverse_racing.py_func.__code__.co_firstlineno
    assert f":{first + 4}: shared memory" in said
    assert f"in line {first + 5} by thread" in said


def test_a_divergent_barrier_fails():
    assert "divergent barrier" in found(early_return, np.arange(50), np.zeros(50, np.int64))
    assert "wait at different barriers" in found(two_barriers, np.arange(64), np.zeros(64, np.int64))


def test_an_uninitialised_read_fails():
    assert "uninitialised: test_simulate.py" in found(
        unwritten, np.ones(64, np.float32), np.zeros(64, np.float32)
    )
    x, y = cuda.device_array(64, np.int64), np.zeros(64, np.int64)
    assert "uninitialised" in found(reverse, x, y)
    x = cuda.to_device(np.arange(64))
    reverse[1, 64](x, y)
    assert y[0] == 63


def test_out_of_bounds_fails_with_its_line():
    @cuda.jit
    def over(x):
        x[cuda.grid(1)] = 1

    assert "out of bounds: test_simulate.py" in found(over, np.zeros(63))


def test_blocks_race_unless_flags_are_fenced():
    @cuda.jit
    def handed(x, y, flag, fenced):
        if cuda.blockIdx.x == 0:
            x[0] = 7
            if fenced:
                cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            if fenced:
                cuda.threadfence()
            y[0] = x[0]

    y = np.zeros(1, np.int32)
    handed[2, 1](np.zeros(1, np.int32), y, np.zeros(1, np.int32), True)
    assert y[0] == 7
    assert "race" in found(handed, np.zeros(1, np.int32), y, np.zeros(1, np.int32), False, grid=2, block=1)


def test_a_wait_for_nobody_is_a_deadlock():
    @cuda.jit
    def waits(flag):
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass

    assert "deadlock" in found(waits, np.zeros(1, np.int32), block=1)


def test_two_dimensions_views_and_device_functions():
    def twice(v):
        return 2 * v

    @cuda.jit
    def transpose(x, y):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            row = x[i, :]
            y[j, i] = twice(row[j])

    x = np.arange(35).reshape(5, 7)
    y = np.zeros((7, 5), x.dtype)
    transpose[(2, 2), (4, 4)](x, y)
    assert np.array_equal(y, 2 * x.T)


def test_warps():
    @cuda.jit
    def warps(x, y):
        t = cuda.threadIdx.x
        total = x[t]
        d = 16
        while d > 0:
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, d)
            d //= 2
        odd = cuda.popc(cuda.ballot_sync(0xFFFFFFFF, x[t] % 2 == 1))
        y[t] = 100 * total + odd

    x = np.arange(64)
    y = np.zeros(64, np.int64)
    warps[1, 64](x, y)
    assert y.tolist() == [100 * int(x[:32].sum()) + 16] * 32 + [100 * int(x[32:].sum()) + 16] * 32


FENCES = {
    "none": (False, False, False, False), "device": (True, False, True, False), "block": (False, True, False, True),
    "a narrow release": (False, True, True, False), "a narrow acquire": (True, False, False, True),
}  # fmt: skip
"""For each case: device and block fence of the writing thread, then of the reading thread."""


@cuda.jit
def handed_on(x, y, flag, block, wide_before, narrow_before, wide_after, narrow_after):
    me = cuda.grid(1)
    if me == 0:
        x[0] = 7
        if wide_before:
            cuda.threadfence()
        if narrow_before:
            cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    elif me == block:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        if wide_after:
            cuda.threadfence()
        if narrow_after:
            cuda.threadfence_block()
        y[0] = x[0]


@pytest.mark.parametrize("fences", FENCES)
@pytest.mark.parametrize("apart", [False, True])
def test_a_fence_reaches_as_far_as_its_scope(fences, apart):
    """Between blocks, only fences of the device order accesses. Within a block, any fences on both sides do."""
    args = (np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), 32 if apart else 1)
    if fences == "device" or (not apart and fences != "none"):
        handed_on[2, 32](*args, *FENCES[fences])
        assert args[1][0] == 7
    else:
        assert "race" in found(handed_on, *args, *FENCES[fences], grid=2, block=32)


def test_what_a_block_has_met_over_is_handed_on():
    """A fence hands on the writes that other threads of its block made before a barrier. After a barrier all threads have
    them.
    """

    @cuda.jit
    def pipeline(x, y, flag, synced):
        t = cuda.threadIdx.x
        if cuda.blockIdx.x == 0:
            x[t] = t
            if synced:
                cuda.syncthreads()
            if t == 0:
                cuda.threadfence()
                cuda.atomic.exch(flag, 0, 1)
        else:
            if t == 0:
                while cuda.atomic.add(flag, 0, 0) == 0:
                    pass
                cuda.threadfence()
            cuda.syncthreads()
            y[t] = x[t]

    args = (np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(1, np.int64))
    pipeline[2, 64](*args, True)
    assert args[1].tolist() == list(range(64))
    args[2][:] = 0
    assert "race" in found(pipeline, *args, False, grid=2)


def test_a_partial_mask_orders_its_own_threads_alone():
    @cuda.jit
    def pairs(x, y, mask, reader):
        t = cuda.threadIdx.x
        if t == 0:
            x[0] = 1
        if mask >> t & 1:
            cuda.syncwarp(mask)
        if t == reader:
            y[0] = x[0]

    y = np.zeros(1, np.int64)
    pairs[1, 32](np.zeros(1, np.int64), y, 0b11, 1)
    assert y[0] == 1
    assert "race" in found(pairs, np.zeros(1, np.int64), y, 0b11, 2, block=32)

    @cuda.jit
    # Thread 0 meets 1, then 1 meets 2.
    def chain(x, y):
        t = cuda.threadIdx.x
        if t == 0:
            x[0] = 1
        if t < 2:
            cuda.syncwarp(0b11)
        if t == 1 or t == 2:
            cuda.syncwarp(0b110)
        if t == 2:
            y[0] = x[0]

    chain[1, 32](np.zeros(1, np.int64), y)

    @cuda.jit
    # Thread 0 meets 1, and 2 meets 3.
    def apart(x, y):
        t = cuda.threadIdx.x
        if t == 0:
            x[0] = 1
        if t < 4:
            cuda.syncwarp(0b11 if t < 2 else 0b1100)
        if t == 2:
            y[0] = x[0]

    assert "race" in found(apart, np.zeros(1, np.int64), y, block=32)


def test_a_shuffle_from_a_missing_lane_is_found_where_it_is_used():
    @cuda.jit
    def halves(x, y, guarded):
        t = cuda.threadIdx.x
        v = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 16)
        if not guarded or t + 16 < cuda.blockDim.x:
            y[t] = x[t] + v

    x, y = np.arange(20), np.zeros(20, np.int64)
    halves[1, 20](x, y, True)
    assert y[:4].tolist() == [16, 18, 20, 22]
    said = found(halves, x, y, False, block=20)
    assert "undefined shuffle: test_simulate.py" in said
    assert "lane 20 does not take part" in said
    # Also where the value is only stored.
    for kind in (np.float32, np.float64):
        stored = np.zeros(20, kind)

        @cuda.jit
        def bare(x, y):
            y[cuda.threadIdx.x] = cuda.shfl_down_sync(0xFFFFFFFF, x[cuda.threadIdx.x], 16)

        assert "undefined shuffle" in found(bare, x.astype(kind), stored, block=20)
    whole = np.zeros(32, np.int64)
    # Past the end of a warp, a thread keeps its own value.
    halves[1, 32](np.arange(32), whole, False)
    assert whole[31] == 62


def test_widths():
    @cuda.jit
    def wraps(x, y):
        y[0] = x[0] + 1
        cuda.atomic.add(y, 1, 200)

    y = np.array([0, 100], np.int8)
    wraps[1, 1](np.array([127], np.int8), y)
    assert y.tolist() == [-128, 44]


def test_many_items():
    """As many threads as a test needs: here a reduction of 20,000 items by blocks, with atomics."""

    @cuda.jit
    def total(x, out):
        part = cuda.shared.array(128, np.int64)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        part[t] = x[i] if i < x.size else 0
        s = 64
        while s > 0:
            cuda.syncthreads()
            if t < s:
                part[t] += part[t + s]
            s //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])

    out = np.zeros(1, np.int64)
    total[-(-20000 // 128), 128](np.arange(20000), out)
    assert out[0] == 19999 * 10000


def test_kernels_of_numba_under_the_fixture(simulated_cuda):
    numba_cuda = pytest.importorskip("numba.cuda")

    # With a signature the kernel would be compiled at once.
    @numba_cuda.jit("void(float32[:], float32[:])")
    def add_one(x, y):
        i = numba_cuda.grid(1)
        if i < x.size:
            y[i] = x[i] + 1

    x = numba_cuda.to_device(np.arange(300, dtype=np.float32))
    y = numba_cuda.device_array_like(x)
    add_one[3, 128](x, y)
    assert np.array_equal(y.copy_to_host(), np.arange(1, 301, dtype=np.float32))

    @numba_cuda.jit
    def everyone(y):
        y[0] = numba_cuda.grid(1)

    with pytest.raises(SimulationError, match="race"):
        everyone[2, 32](y)


def test_numba_is_itself_again_afterwards():
    numba_cuda = pytest.importorskip("numba.cuda")
    before = numba_cuda.jit
    with simulated():
        assert numba_cuda.jit is not before
    assert numba_cuda.jit is before


def test_grids_that_wait_for_each_other(simulated_cuda):
    numba_cuda = pytest.importorskip("numba.cuda")

    @numba_cuda.jit
    def rows(m):
        col = numba_cuda.grid(1)
        g = numba_cuda.cg.this_grid()
        for row in range(1, m.shape[0]):
            m[row, col] = m[row - 1, m.shape[1] - col - 1] + 1
            g.sync()

    m = np.zeros((12, 64), np.int32)
    rows[2, 32](m)
    assert np.array_equal(m, np.tile(np.arange(12), (64, 1)).T)

    @numba_cuda.jit
    def rows_racing(m):
        col = numba_cuda.grid(1)
        for row in range(1, m.shape[0]):
            m[row, col] = m[row - 1, m.shape[1] - col - 1] + 1

    with pytest.raises(SimulationError, match="race"):
        rows_racing[2, 32](m)


OTHERS = {
    "cudapy.test_sync": 16, "cudapy.test_warp_ops": 15, "cudapy.test_atomics": 80, "cudapy.test_sm": 15,
    "doc_examples.test_reduction": 1, "doc_examples.test_cpu_gpu_compat": 1,
}  # fmt: skip
"""numba-cuda's own tests, and how many tests of each file run and pass. The others ask for machine code, or for a driver."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_kernels_that_others_wrote(name):
    pytest.importorskip("numba_cuda")
    pytest.importorskip("filecheck", reason="numba-cuda's tests need it: pip install filecheck")
    import importlib

    with simulated():
        try:
            module = importlib.import_module(f"numba.cuda.tests.{name}")
        except ImportError:
            pytest.skip("this numba-cuda comes without its tests")
        result = unittest.TestResult()
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        suite.run(result)
    # Subtests count as one.
    wrong = {test.id().split(" ")[0] for test, _ in (*result.errors, *result.failures, *result.skipped)}
    assert result.testsRun - len(wrong) >= OTHERS[name]
