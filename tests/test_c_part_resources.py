"""The C part keeps no references or memory too many, and lets other threads and other Python run."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import upsweep as up
from test_c_part import X, same, the_long_way
from upsweep import recall, short_way

pytestmark = pytest.mark.usefixtures("found")


REFERENCES = """
import gc, sys, numpy as np, upsweep as up
from upsweep import recall, short_way

part, x, out, over, threads = short_way.part, np.ones(24, "f4"), np.zeros(24, "f4"), np.zeros(48, "f4"), 10**6 + len(sys.argv)
pair, outs = (x / 64, x.copy()), (out, out.copy())
number, start, marks, cuts, wrong = 1234.5, np.float32(7), np.arange(24) % 5 == 0, np.array([0, 0, 24]), np.array([0, 9, 3, 24])
kept, kept_pair = recall.Scan(), recall.Scan()

def refused(call):
    try:
        call()
    except (ValueError, TypeError):
        return
    raise AssertionError("no error")

calls = [
    lambda: up.scan(x), lambda: up.scan(x, out=out), lambda: up.reduce(x), lambda: up.scan(x, threads=threads, out=out),
    lambda: up.scan(pair, "affine"), lambda: up.scan(pair, "affine", out=outs), lambda: up.scan((x,)),
    lambda: up.scan(over[:24], out=over[:24]), lambda: up.scan(over[:24], out=over[1:25]), lambda: up.prepared(x)(x),
    lambda: up.scan(x, initial=number), lambda: up.scan(x, initial=start), lambda: up.linear_recurrence(number, x, initial=1),
    lambda: up.scan(x, segments=up.segments.flags(marks)), lambda: up.scan(x, segments=up.segments.ends(marks), out=out),
    lambda: up.scan(x, segments=up.segments.offsets(cuts)), lambda: up.scan(x, segments=up.segments.lengths(cuts)),
    lambda: refused(lambda: up.scan(x, segments=up.segments.offsets(wrong))), lambda: refused(lambda: up.scan(x, initial=1e99)),
    lambda: kept(x, "add"), lambda: kept_pair(pair, "affine", out=outs, initial=(1.0, number)),
    part.find, lambda: part.find(*[None] * 17), lambda: part.find(*[x] * 17), lambda: part.find(*[(x, 1.0, None)] * 17),
    lambda: part.find(*[(x, 1.0)] * 17), part.remember, lambda: part.remember(None, *[x] * 17),
]
held = [
    number, start, marks, cuts, wrong, cuts.dtype, marks.dtype, x, out, pair, outs, *pair, *outs, over,
    threads, x.dtype, np.ndarray, part.Launch, True, "add", "tree", None,
]

def counts():
    gc.collect()
    return [sys.getrefcount(each) for each in held]

# In the first turns compilers leave objects behind, which go when the first calls are forgotten.
for turn in range(4):
    for call in calls:
        for _ in range(4):
            call()
    if turn == 1:
        recall.forget()
        counts()
before = counts()
for turn in range(400):
    for call in calls:
        for _ in range(4):
            call()
    if turn % 10 == 0:
        recall.forget()
for call in calls * 4:
    call()
changed = [after - before for before, after in zip(before, counts())]
# Four hundred turns of four calls each; some objects of a turn live on until the next.
assert max(map(abs, changed)) < 200, changed

# An argument that holds what runs the call, as a function may.
def hold(count):
    for _ in range(count):
        argument = [up.prepared(np.ones(5), "max")]
        part.remember(argument[0]._known[1], np.ones(5), None, None, None, argument, *[None] * 12)
        recall.forget()
    gc.collect()
    return sys.getrefcount(part.Launch)

assert hold(2) == hold(50)

# More kinds of calls than there is room for: a launch makes room for another one.
def crowd(count):
    for n in range(1, count):
        for _ in range(3):
            up.scan(np.ones(n))
    recall.forget()
    gc.collect()
    return sys.getrefcount(part.Launch)

assert crowd(2) == crowd(2000)
"""


def test_references():
    """Nothing is kept but what is remembered, and nothing is given back too often, on all ways."""
    subprocess.run([sys.executable, "-c", REFERENCES], check=True)


MEMORY = """
import resource, numpy as np, upsweep as up
from upsweep import recall

x = np.ones(1000)

def most(count):
    for k in range(count):
        up.scan(x), up.scan(x, out=x), up.reduce(x), up.scan((x, x), "affine"), up.linear_recurrence(k / 2, x, initial=k)
        up.scan(x, segments=up.segments.lengths(np.array([k % 9, 1000 - k % 9])))
        if k % 100 == 0:
            recall.forget()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

first = most(1000)
# A hundred bytes a call would be 4 MB.
assert most(10_000) - first < 2000
"""


def test_memory_is_given_back():
    pytest.importorskip("resource")
    subprocess.run([sys.executable, "-c", MEMORY], check=True)


@pytest.mark.parametrize("n", [50, 20_000])
def test_threads_side_by_side(n):
    """Other threads run while a large call runs, and forget all calls meanwhile."""
    xs = [np.random.default_rng(k).integers(0, 99, n) for k in range(4)]
    want = [the_long_way(up.scan, x) for x in xs]
    stop, wrong, done = threading.Event(), [], [0] * 4

    def work(k):
        x, y = xs[k], np.zeros(n, int)
        while not stop.is_set():
            if not (np.array_equal(up.scan(x), want[k]) and np.array_equal(up.scan(x, out=y), want[k])):
                wrong.append(k)
            done[k] += 1

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    while min(done) < 300:
        recall.forget()
        stop.wait(0.001)
    stop.set()
    for worker in workers:
        worker.join()
    assert not wrong


def test_other_threads_run_during_a_large_call(found):
    x, y = np.ones(1 << 22), np.zeros(1 << 22)
    ran, stop, interval = [0], threading.Event(), sys.getswitchinterval()

    def work():
        while not stop.is_set():
            ran[0] += 1
            time.sleep(0)

    worker = threading.Thread(target=work)
    with up.set_threads(1):
        for _ in range(3):
            up.scan(x, out=y)
        # From now on a thread runs only where another one lets it.
        sys.setswitchinterval(1000)
        try:
            worker.start()
            for _ in range(200):
                before = ran[0]
                up.scan(x, out=y)
                if ran[0] > before:
                    break
            else:
                pytest.fail("no other thread ran meanwhile")
        finally:
            stop.set()
            sys.setswitchinterval(interval)
            worker.join()
    assert len(found) >= 2


def test_python_that_runs_within_a_call(found):
    """Making a result may collect garbage, which may call, and forget, anything."""
    x = X[0, 0].astype("f8")
    want, ran = the_long_way(up.scan, x), []

    class Last:
        def __init__(self):
            self.me = self

        def __del__(self):
            ran.append(1)
            recall.forget()
            up.scan(np.ones(5))

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(300):
            Last()
            same(up.scan(x), want)
            same(up.scan((x, x), "affine"), up.scan((x, x), "affine"))
    finally:
        gc.set_threshold(*before)
    assert ran


def test_no_memory_is_an_error():
    class Broken:
        pass

    with pytest.raises(TypeError):
        short_way.part.Launch(Broken())
    launch = short_way.part.Launch(0, 0, sys.maxsize - 64, False, False, None)
    with pytest.raises(MemoryError):
        launch((np.zeros(3),))
    with pytest.raises(TypeError):
        launch(np.zeros(3))
