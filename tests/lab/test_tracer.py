"""The tracer makes an event of every access, loses none and invents none. Clear errors name what no kernel may do."""

import json
import subprocess
import sys

import numpy as np
import pytest

from upsweep import lab
from upsweep.lab.reading import source_of
from upsweep.operator import OperatorError
from upsweep.textbook import KERNELS
from upsweep.textbook.dialect import cuda, dtype, op

ALL_NAMES = list(KERNELS)


def twice(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(4, dtype)
    xy[t] = x[t]
    xy[t] += xy[t]
    y[t] = op(xy[t], x[t])


def events(t, thread):
    mine = t.thread == thread
    return [
        (t.sites[s].kind, t.sites[s].line - t.kernels[0].source.first, t.sites[s].text) for s in t.site[mine]
    ]


def test_every_access_is_an_event():
    t = lab.trace(twice, n=4)
    assert events(t, 2) == [
        ("load", 3, "x[t]"), ("store", 3, "xy[t]"),
        ("load", 4, "xy[t]"), ("load", 4, "xy[t]"), ("op", 4, "xy[t] + xy[t]"), ("store", 4, "xy[t]"),
        ("load", 5, "xy[t]"), ("load", 5, "x[t]"), ("op", 5, "op(xy[t], x[t])"), ("store", 5, "y[t]"),
    ]  # fmt: skip
    assert t.values == [3, 6, 9, 12]
    assert t.place(int(t.word[t.thread == 2][1])) == "xy[2]"


def test_columns_tell_line_and_column():
    t = lab.trace(twice, n=4)
    lines = source_of(twice).lines
    for site in t.sites:
        if site.kind in ("load", "store"):
            assert lines[site.line - t.kernels[0].source.first][site.column :].startswith(
                site.text.split("[")[0]
            )


def test_a_launch_with_arguments():
    x, table = np.array([4, 5, 6]), [2, 0, 1]

    def gather(x, table, y):
        i = cuda.grid(1)
        if i < table.size:
            y[i] = x[table[i]]

    t = lab.trace(gather, 2, 2, (x, table, lab.empty(3)))
    assert t.values == [6, 4, 5]
    assert np.array_equal(np.asarray(t), [6, 4, 5])
    assert not lab.check(t)


def test_closures_and_text():
    shift = 3

    def shifted(x, y, n):
        i = cuda.threadIdx.x
        y[(i + shift) % n] = x[i]

    assert lab.trace(shifted, n=5).values == [3, 4, 5, 1, 2]
    text = "def shifted(x, y, n):\n    i = cuda.threadIdx.x\n    y[(i + SHIFT) % n] = x[i]\n"
    t = lab.trace(text, n=5, SHIFT=3)
    assert t.values == [3, 4, 5, 1, 2]
    assert t.sites[0].line == 3


def test_two_dimensions_and_dynamic_memory():
    text = """
def transpose(x, y):
    t = cuda.threadIdx.x
    tile = cuda.shared.array(0, dtype)
    tile[t] = x[t // 3, t % 3]
    cuda.syncthreads()
    y[t] = tile[t % 2 * 3 + t // 2]
"""
    t = lab.trace(text, 1, 6, (np.arange(6).reshape(2, 3), lab.empty(6)), shared=6)
    assert t.values == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("space", ["shared", "local"])
def test_an_array_that_no_gpu_has_is_not_made(space):
    text = f"def kernel(x, y, n):\n    wide = cuda.{space}.array(2000000, dtype)\n    y[0] = x[0]\n"
    with pytest.raises(lab.KernelError, match=rf":2: .*wide asks for 2000000 words of {space} memory"):
        lab.trace(text, n=8)


def test_registers_are_private():
    text = """
def reverse(x, y, n):
    mine = cuda.local.array(2, dtype)
    t = cuda.threadIdx.x
    mine[0] = x[2 * t]
    mine[1] = x[2 * t + 1]
    y[2 * t] = op(mine[0], mine[1])
    y[2 * t + 1] = mine[2]
"""
    t = lab.trace(text, 1, 2, ([1, 2, 3, 4], lab.empty(4), 4))
    assert [v for k, v in enumerate(t.values) if k % 2 == 0] == [3, 7]
    assert lab.check(t).kinds == {"out of bounds"}
    assert lab.counts(t).shared_loads == 0


def test_warp_primitives():
    text = """
def warp(x, y, n):
    t = cuda.threadIdx.x
    lane = cuda.laneid
    down = cuda.shfl_down_sync(255, x[t], 1)
    across = cuda.shfl_xor_sync(255, x[t], 3)
    first = cuda.shfl_sync(255, x[t], 0)
    odd = cuda.ballot_sync(255, x[t] % 2 == 1)
    y[t] = 1000 * down + 100 * across + 10 * first + cuda.popc(odd) + lane - lane
"""
    t = lab.trace(text, n=8, warp=8)
    x = np.arange(1, 9)
    down = np.append(x[1:], x[-1])
    assert t.values == (1000 * down + 100 * x[np.arange(8) ^ 3] + 10 * x[0] + 4).tolist()


REFUSED = [
    ("y[t] = [v for v in x]", "a list comprehension"),
    ("y[0:2] = x[0]", "not a slice"),
    ("t = cuda.threadIdx.y", "one dimension"),
    ("t = cuda.grid(0)", r"a launch has one dimension here: cuda.grid\(1\)"),
    ("t = cuda.gridsize(2)", r"a launch has one dimension here: cuda.gridsize\(1\)"),
    ("print(f'{t}')", "an f-string"),
    ("with x: pass", "cannot use with"),
    ("import math", "cannot use import"),
    ("return x", "a kernel returns nothing"),
    ("for v in x: pass", "range"),
    ("x.sort()", "cannot call x.sort"),
    ("t = op(x[0])", "op takes 2 arguments"),
    ("t = cuda.whatever(1)", "does not know cuda.whatever"),
    ("a = b = 1", "one name at a time"),
    ("y[t] = max(x[t], key=1)", "plain positional"),
    ("t = lambda a: a", "a lambda"),
    ("XY{", "<kernel>:3: "),
    ("cuda.syncthreads", r"without parentheses does nothing: write cuda.syncthreads\(\)"),
    ("cuda.syncthread()", r"did you mean cuda.syncthreads\?"),
    ("t = cuda.threadidx.x", r"did you mean cuda.threadIdx.x\?"),
    ("xy = cuda.shared.array(cuda.blockDim.x, dtype)", "cuda.blockDim.x is known only when the kernel runs"),
    ("xy = cuda.shared.array((2, n), dtype)", "the size of a shared array must be a constant"),
    ("size = 2 * t; xy = cuda.local.array(size, dtype)", "the size of a local array must be a constant"),
]


@pytest.mark.parametrize(("line", "why"), REFUSED)
def test_unsupported_python_names_its_line(line, why):
    text = f"def bad(x, y, n):\n    t = cuda.threadIdx.x\n    {line}\n"
    with pytest.raises(lab.KernelError, match=why) as caught:
        lab.trace(text, n=4)
    assert "<kernel>:3:" in str(caught.value)
    assert line.split("\n")[0] in str(caught.value)


def test_errors_while_running_name_their_line():
    with pytest.raises(lab.KernelError, match=r"<kernel>:2: NameError: name 'nobody'"):
        lab.trace("def bad(x, y, n):\n    y[0] = nobody\n", n=2)
    with pytest.raises(
        lab.KernelError, match=r"<kernel>:3: thread \d has given \w+ no value when it comes here"
    ):
        lab.trace("def bad(x, y, n):\n    if n < 0: v = 1\n    y[0] = v\n", n=2)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("y[n / 2] = x[0]", "y is indexed by 2.0, and an index is a whole number: divide by //"),
        ("xy[0] = x[0]", r"write xy\[i, j\], a number for each dimension; here they are 1"),
        ("y[0, 0] = x[0]", r"write y\[i\], a number for each dimension; here they are 2"),
    ],
)
def test_an_index_that_no_gpu_kernel_has_names_its_line(line, why):
    text = f"def bad(x, y, n):\n    xy = cuda.shared.array((2, 4), dtype)\n    {line}\n"
    with pytest.raises(lab.KernelError, match=f"<kernel>:3: .*{why}"):
        lab.trace(text, n=4)


def test_a_launch_with_other_arguments_than_the_kernel_takes():
    with pytest.raises(
        lab.KernelError, match=r"<kernel>:1: bad\(x, y\) is launched with 3 arguments: x, y, 4"
    ):
        lab.trace("def bad(x, y):\n    y[0] = x[0]\n", n=4)


def test_arrays_have_a_length():
    assert lab.trace("def k(x, y, n):\n    y[cuda.threadIdx.x] = len(y)\n", n=4).values == [4] * 4


def test_a_loop_that_never_ends(monkeypatch):
    monkeypatch.setattr("upsweep.lab.hooks.ENDLESS", 1000)
    (found,) = lab.check(
        lab.trace("def bad(x, flag):\n    while flag[0] == 0:\n        pass\n", 1, 1, ([1], [0]))
    ).causes
    assert found.kind == "endless loop"
    assert "line 2: this loop never ends: nothing in it lets another thread run" in found.text


def test_a_missing_identity_is_asked_for():
    with pytest.raises(OperatorError, match=r"blelloch needs the identity of .*: pass identity="):
        lab.trace("blelloch", n=4, op=lambda a, b: b)
    assert lab.trace("blelloch", n=4, op=lambda a, b: b, identity=0).values == [0, 1, 2, 3]


def test_a_compiled_kernel_is_traced_by_its_source():
    """A `cuda.jit` dispatcher keeps its Python function. The tracer needs nothing else."""

    class Dispatcher:
        py_func = staticmethod(twice)

    assert lab.trace(Dispatcher(), n=4).values == [3, 6, 9, 12]


def test_names():
    with pytest.raises(KeyError, match="no textbook kernel is called 'brent-kong'"):
        lab.trace("brent-kong", n=4)
    with pytest.raises(ValueError, match="n >= 1"):
        lab.trace("brent-kung", n=0)
    with pytest.raises(ValueError, match="needs n >= 1"):
        lab.trace("brent-kung", x=[])
    with pytest.raises(ValueError, match="no schedule is called 'backwards'"):
        lab.trace("brent-kung", n=4, schedule="backwards")


def test_order_of_threads_is_a_dial():
    text = "def who(x, y, n):\n    y[0] = x[cuda.threadIdx.x]\n"
    assert lab.trace(text, n=4).values[0] == 4
    assert lab.trace(text, n=4, schedule="descending").values[0] == 1
    assert lab.trace(text, n=4, schedule=[3, 0, 2, 1]).values[0] == 2
    last = {lab.trace(text, n=4, schedule=f"random-{k}").values[0] for k in range(12)}
    assert len(last) > 1


def test_a_lost_update_needs_fine_steps():
    text = "def count(x, y):\n    y[0] = y[0] + 1\n"
    assert lab.trace(text, 1, 4, ([1], [0])).values == [4]
    assert lab.trace(text, 1, 4, ([1], [0]), schedule="lockstep").values == [1]


def test_waiting_threads_leave_no_events():
    t = lab.trace("domino", n=16, block=4, issue="descending")
    spins = [e for e in np.flatnonzero(t.at("atomic")) if t.sites[int(t.site[e])].text.endswith("bid, 0)")]
    # One answer for each block that waits.
    assert len(spins) == 3
    assert lab.counts(t).waits > 0


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_page_can_replay_it(name):
    """The steps, applied to the words, give the memory that the run left."""
    t = lab.trace(name, n=12, warp=4)
    page = json.loads(json.dumps(lab.to_dict(t)))
    memory = {word: text for word, text, *_ in page["words"]}
    for step in page["steps"]:
        for kind, block, thread, line, _, word, text, node, _ in step["events"]:
            assert line in step["lines"]
            assert block in step["blocks"]
            assert 0 <= thread < page["launches"][step["launch"]]["block"]
            assert node is None or 0 <= node < len(page["nodes"])
            if kind == "load":
                assert any(a["first"] <= word < a["first"] + a["size"] for a in page["arrays"]), text
        for word, text, ranges, flaw in step["words"]:
            assert flaw is None
            assert len(ranges) <= 1 or KERNELS[name].needs or KERNELS[name].answer
            memory[word] = text
    result = page["result"]
    assert [memory[result["first"] + k] for k in range(result["size"])] == [str(v) for v in t.values]
    assert page["format"] == 1
    for launch, kernel in zip(page["launches"], t.kernels):
        assert set(launch["barriers"]) == {s.line for s in kernel.sites if s.kind == "barrier"}
        assert set(launch["barriers"]) <= set(launch["places"])
        assert launch["lines"][0].startswith(f"def {launch['name']}(")


def test_steps_lie_between_barriers():
    page = lab.to_dict(lab.trace("kogge-stone", n=8))
    kinds = [{e[0] for e in step["events"]} - {"branch", "loop"} for step in page["steps"]]
    assert kinds == [{"load", "store"}, *([{"load", "op"}, {"store"}] * 3), {"load", "store"}]
    assert [len(step["words"]) for step in page["steps"]] == [8, 0, 7, 0, 6, 0, 4, 8]


def test_blocks_run_side_by_side_until_one_waits():
    page = lab.to_dict(lab.trace("kogge-stone", n=16, block=4))
    assert all(step["blocks"] == [0, 1, 2, 3] for step in page["steps"])
    page = lab.to_dict(lab.trace("domino", n=16, block=4))
    raised = [
        k for k, step in enumerate(page["steps"]) for e in step["events"] if e[0] == "atomic" and e[6] == "1"
    ]
    assert raised == sorted(raised)
    assert len(set(raised)) >= 4


def test_one_thousand_threads_are_quick():
    """Calls of functions are counted, which are as many on a slow machine: some 460,000, or 60 ms."""
    lab.trace("kogge-stone", n=1024)
    calls = []
    sys.setprofile(lambda frame, event, what: calls.append(event) if "call" in event else None)
    try:
        lab.trace("kogge-stone", n=1024)
    finally:
        sys.setprofile(None)
    assert 100_000 < len(calls) < 600_000


def test_the_lab_needs_no_gpu_library():
    code = (
        "import sys; from upsweep import lab; lab.check(lab.trace('brent-kung', n=16));"
        "bad = {'numba', 'cuda', 'numba_cuda', 'PIL', 'torch'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
