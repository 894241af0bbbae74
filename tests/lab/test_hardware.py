"""Verdicts know what GPUs have, and have not: masks, fences, indices of 32 bits, limits of a launch, memory beyond an array."""

import pytest

from upsweep import lab
from upsweep.textbook.mistakes import MISTAKES

SHUFFLED = """\
def scan(x, y, n):
    t = cuda.threadIdx.x
    value = x[t]
    d = 1
    while d < WARP:
        earlier = cuda.shfl_up_sync(MASK, value, d)
        if t >= d:
            value = op(earlier, value)
        d *= 2
    y[t] = value
"""
UNDER_A_BRANCH = """\
def scan(x, y, n):
    t = cuda.threadIdx.x
    value = x[t]
    d = 1
    while d < WARP:
        if t >= d:
            value = op(cuda.shfl_up_sync(MASK, value, d), value)
        d *= 2
    y[t] = value
"""


def test_masks_of_shuffles():
    def found(mask, text=SHUFFLED):
        return lab.check(lab.trace(text, n=8, warp=8, expect="inclusive", MASK=mask))

    assert not found(0xFF)
    assert not found(0xFFFFFFFF)
    assert "wrong mask" in found(0x0F).kinds
    assert "threads 4, 5, 6, 7 come to this shfl_up_sync" in str(found(0x0F))


def test_a_shuffle_under_a_branch_is_blamed_in_its_line():
    report = lab.check(lab.trace(UNDER_A_BRANCH, n=8, warp=8, expect="inclusive", MASK=0xFF))
    assert "undefined shuffle" in report.kinds
    assert all(f.lines == (7,) for f in report.causes)


HALVES = """\
def halves(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    xy[t] = x[t]
    if t < 4:
        cuda.syncwarp(LOW)
    else:
        cuda.syncwarp(HIGH)
    y[t] = xy[t ^ OTHER]
"""


def test_masks_of_syncwarp():
    def found(low, high, other):
        return lab.check(lab.trace(HALVES, n=8, warp=8, LOW=low, HIGH=high, OTHER=other)).kinds

    assert not found(0x0F, 0xF0, 1)
    # The two halves meet separately, and are not ordered with each other.
    assert found(0x0F, 0xF0, 4) == {"race"}
    assert not found(0xFF, 0xFF, 4)
    assert "wrong mask" in found(0xF0, 0xF0, 1)


def test_a_mask_that_names_who_never_comes():
    text = HALVES.replace("    else:\n        cuda.syncwarp(HIGH)\n", "    cuda.syncthreads()\n")
    report = lab.check(lab.trace(text, n=8, warp=8, LOW=0xFF, OTHER=1))
    (finding,) = [f for f in report if f.kind == "divergent shuffle"]
    assert "names threads that never come to it: threads 4, 5, 6, 7 wait elsewhere" in finding.text


def test_shuffles_order_no_memory():
    text = HALVES.replace("    if t < 4:\n        cuda.syncwarp(LOW)\n    else:\n        cuda.syncwarp(HIGH)\n",
                          "    v = cuda.shfl_sync(255, t, 0)\n")  # fmt: skip
    assert lab.check(lab.trace(text, n=8, warp=8, OTHER=1)).kinds == {"race"}


HANDED = """\
def handed(x, y, data, flag):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x * SAME + t == 0:
        data[0] = x[0]
        FENCE
        cuda.atomic.add(flag, 0, 1)
    elif t == OTHER:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        FENCE
        y[0] = data[0]
"""


def handed(fence, same):
    text = HANDED.replace("FENCE", fence).replace("SAME", str(int(not same))).replace("OTHER", str(int(same)))
    grid, block = (1, 2) if same else (2, 1)
    return lab.check(lab.trace(text, grid, block, ([1], lab.empty(1), lab.empty(1), [0]))).kinds


def test_a_fence_is_as_wide_as_its_scope():
    assert not handed("cuda.threadfence()", same=False)
    assert handed("cuda.threadfence_block()", same=False) == {"race"}


def test_a_flag_within_a_block_with_fences():
    assert not handed("cuda.threadfence()", same=True)
    assert not handed("cuda.threadfence_block()", same=True)
    assert handed("pass", same=True) == {"race"}


RELAXED = """\
def relaxed(x, y, data, flag):
    if cuda.blockIdx.x == 0:
        cuda.atomic.exch(data, 0, x[0])
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = cuda.atomic.add(data, 0, 0)
"""


def test_relaxed_atomics_need_fences():
    def found(text):
        return lab.check(lab.trace(text, 2, 1, ([7], lab.empty(1), [0], [0])))

    assert not found(RELAXED)
    (race,) = found(RELAXED.replace("        cuda.threadfence()\n", ""))
    assert race.kind == "race"
    assert "relaxed atomics on other words, without fences" in race.text


def test_an_index_beyond_an_int32():
    text = "def far(x, y, n):\n    i = cuda.threadIdx.x\n    k = i * 3000000000\n    y[k % n] = x[i]\n"
    report = lab.check(lab.trace(text, n=4))
    (finding,) = [f for f in report if f.kind == "overflow"]
    assert "line 3: i * 3000000000 is 3000000000, which no int32 holds" in finding.text
    assert not lab.check(lab.trace(text.replace("3000000000", "30"), n=4)).kinds & {"overflow"}


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("low + high", 2**31),
        ("low + high - 9", 2**31),
        ("0 - low - high - i", -(2**31) - 1),
        ("x[0] + high", 2**31),
    ],
)
def test_a_sum_in_an_index_beyond_an_int32(term, value):
    """The middle of two places, as everybody once wrote it: no product is too large, but the sum is."""
    text = (
        "def middle(x, y, n):\n    i = cuda.threadIdx.x\n    low, high = 1 << 30, 1 << 30\n"
        f"    k = ({term}) // 2\n    y[k % n] = x[i]\n"
    )
    report = lab.check(lab.trace(text, n=4, x=[1 << 30, 1, 2, 3]))
    (finding,) = [f for f in report if f.kind == "overflow"]
    assert f"is {value}, which no int32 holds" in finding.text
    assert finding.lines == (4,)
    assert not lab.check(lab.trace(text.replace("1 << 30, 1", "7, 1"), n=4)).kinds & {"overflow"}


def test_blocks_that_no_gpu_runs():
    text = "def copy(x, y, n):\n    i = cuda.grid(1)\n    y[i] = x[i]\n"
    assert not lab.check(lab.trace(text, n=1024))
    (finding,) = lab.check(lab.trace(text, n=1025))
    assert finding.kind == "launch limit"
    assert "a block of 1025 threads: no GPU runs more than 1024" in finding.text


def test_shared_memory_that_no_gpu_has():
    text = (
        "def copy(x, y, n):\n    xy = cuda.shared.array(WORDS, dtype)\n    xy[0] = x[0]\n    y[0] = xy[0]\n"
    )

    def limits(text, words, **given):
        report = lab.check(lab.trace(text, 1, 1, ([1], lab.empty(1), 1), WORDS=words, **given))
        return [f.text for f in report if f.kind == "launch limit"]

    assert not limits(text, 12 << 10)
    assert "must be given by the launch" in limits(text, (12 << 10) + 1)[0]
    assert limits(text, 7 << 10, itemsize=8)
    assert limits(text.replace("dtype", "'float64'"), 7 << 10)
    assert not limits(text.replace("dtype", "'int16'"), 24 << 10)
    assert not limits(text, 0, shared=56 << 10)
    assert "no GPU has more" in limits(text, 0, shared=59 << 10)[0]


def test_an_overlap_of_arrays_is_named():
    text = """\
def spill(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(6, dtype)
    sums = cuda.shared.array(2, dtype)
    xy[t] = x[t]
    y[t] = x[t]
"""
    (finding,) = lab.check(lab.trace(text, n=8))
    assert "place 6, which overlaps sums[0]" in finding.text


def test_figure_11_3_as_printed():
    t = lab.trace("figure-11-3")
    assert not lab.check(t)
    assert lab.laws(t).commutative
    report = lab.check(lab.trace("ks-small-section"))
    assert "place 6" in report[0].text
    assert "overlaps what lies behind XY" in MISTAKES["ks-small-section"].says
