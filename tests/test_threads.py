"""Scans run from many threads at once, after a fork, and inside numba's own threads. None stops or changes a bit."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from table import CASES
from upsweep import cores
from upsweep.cpu import threads

HASH = CASES["hash-u64"]
# So many items that seven threads join.
(X,) = HASH.draw(2_000_000)
(WANT,) = oracle(HASH.arrays, (X,))


def same(_=None, threads=3):
    return bool(np.array_equal(up.scan(X, HASH.op, threads=threads), WANT))


def test_many_python_threads_at_once():
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(same, range(40)))


def test_scans_within_scans_threads():
    with ThreadPoolExecutor(2) as outer:
        assert all(outer.map(lambda _: all(map(same, range(3))), range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork():
    """Run in a process of its own, where no other library's threads disturb a fork."""
    code = (
        "import multiprocessing, numpy as np, upsweep as up\n"
        "x = np.ones(1_000_000)\n"
        "def good(_): return up.scan(x, threads=3)[-1] == 1_000_000\n"
        "assert good(0)\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert all(pool.map_async(good, range(4)).get(timeout=300))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_another_thread_compiles():
    """The child has no such thread, and must not wait for what it holds."""
    code = """if True:
        import os, signal, threading, upsweep as up
        from upsweep.cpu import code

        inside, go = threading.Event(), threading.Event()

        def compiling():
            with code._lock:
                inside.set()
                go.wait()

        threading.Thread(target=compiling).start()
        inside.wait()
        # Of these, the latest comes first.
        os.register_at_fork(before=go.set)
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(0 if up.scan([1, 2], "max").tolist() == [1, 2] else 1)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize("before", ["pass", "scanned()"])
def test_at_the_end_of_a_process(before):
    """No thread starts any more, whether there were some before or not."""
    code = (
        "import atexit, numpy as np, upsweep as up\n"
        "x = np.ones(1_000_000)\n"
        "def scanned(): print(up.scan(x, threads=3)[-1])\n"
        f"atexit.register(scanned); {before}"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=300, capture_output=True, text=True
    )
    assert made.stdout.split() == ["1000000.0"] * (1 if before == "pass" else 2)


def test_a_signals_handler_may_scan_while_code_is_compiled():
    from upsweep.cpu import code

    with code._lock:
        assert code._lock.acquire(blocking=False)
        code._lock.release()


def test_beside_numbas_threads():
    @numba.njit(parallel=True)
    def busy(x):
        total = 0.0
        for i in numba.prange(x.size):
            total += np.sqrt(x[i])
        return total

    stop, x = threading.Event(), np.ones(100_000)

    def keep_busy():
        while not stop.is_set():
            busy(x)

    worker = threading.Thread(target=keep_busy)
    worker.start()
    try:
        assert all(map(same, range(10)))
    finally:
        stop.set()
        worker.join()


def test_within_numbas_object_mode():
    @numba.njit
    def caller():
        with numba.objmode(ok="boolean"):
            ok = same()
        return ok  # noqa: RET504

    assert caller()


killable = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system interrupts no thread")


@killable
@pytest.mark.parametrize("interrupted", [True, False])
def test_the_caller_leaves_no_thread_at_work(interrupted, heeded):
    """Threads write to memory that the caller frees: an interruption waits for them, and so does the exception of one."""
    main = threading.main_thread()
    for turn in range(6):
        started, slow, done = threading.Barrier(3), [turn % 2 == 0, turn % 2 == 1], []

        def work(_, started=started, slow=slow, done=done):
            started.wait(timeout=300)
            if threading.current_thread() is main:
                if interrupted:
                    signal.pthread_kill(main.ident, signal.SIGINT)
                return
            if slow.pop():
                time.sleep(0.2)
                done.append(1)
            elif not interrupted:
                raise ArithmeticError

        with pytest.raises(KeyboardInterrupt if interrupted else ArithmeticError):
            threads.each(work, range(3), 3)
        assert done


@killable
def test_an_interruption_waits_for_compiled_code(heeded):
    """It comes when the call is done, and all helpers are there for the next one."""
    x, main = np.zeros(1 << 24, np.float32), threading.main_thread()
    same(threads=3)
    helpers = len(threads._team.idle)
    timer = threading.Timer(0.001, lambda: signal.pthread_kill(main.ident, signal.SIGINT))

    def scans():
        timer.start()
        for _ in range(10_000):
            up.scan(x, threads=3, out=x)

    with pytest.raises(KeyboardInterrupt):
        scans()
    assert len(threads._team.idle) == helpers


@pytest.mark.parametrize("name", ["numpy.ma", "distributed.worker", "torch.utils.data", "dask.threaded"])
def test_while_another_thread_imports(name, monkeypatch):
    """An import announces a module before the module has its names."""
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: up.scan(np.arange(9))[-1]).result() == 36
        assert pool.submit(cores.wanted).result() >= 1


def test_one_setting_for_the_process(monkeypatch):
    here = cores.wanted()
    assert here == cores.cores()
    monkeypatch.setenv("UPSWEEP_THREADS", "3")
    assert cores.wanted() == 3
    up.set_threads(np.int64(5))
    with up.set_threads(7):
        assert cores.wanted() == 7
        seen = []
        together = threads.together
        monkeypatch.setattr(threads, "together", lambda *call: seen.append(call[2]) or together(*call))
        # Also where a call of this kind has been planned with another number.
        assert same(threads=None)
        with up.set_threads(4):
            assert same(threads=None)
        assert seen == [7, 4]
    assert cores.wanted() == 5
    up.set_threads(None)
    assert cores.wanted() == 3
    monkeypatch.setenv("UPSWEEP_THREADS", "²")
    with pytest.raises(ValueError, match="UPSWEEP_THREADS=²: set"):
        cores.wanted()
    with pytest.raises(ValueError, match="at least 1"):
        up.set_threads(0)


def test_quotas_of_control_groups_count(tmp_path):
    member, root = tmp_path / "cgroup", tmp_path / "fs"
    (root / "a" / "b").mkdir(parents=True)
    member.write_text("0::/a/b\n")
    assert cores.quota(root, member) == math.inf
    (root / "a" / "cpu.max").write_text("250000 100000\n")
    (root / "a" / "b" / "cpu.max").write_text("max 100000\n")
    # The quota of the group above is the smaller one.
    assert cores.quota(root, member) == 2.5
    (root / "a" / "b" / "cpu.max").write_text("50000 100000\n")
    assert cores.quota(root, member) == 0.5
    (root / "cpu,cpuacct" / "c").mkdir(parents=True)
    member.write_text("4:memory:/x\n3:cpu,cpuacct:/c\n")
    (root / "cpu,cpuacct" / "c" / "cpu.cfs_quota_us").write_text("150000\n")
    (root / "cpu,cpuacct" / "c" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores.quota(root, member) == 1.5


# JAX warns of every fork, and another test may have loaded it.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_one_of_many_workers_uses_one_thread():
    pytest.importorskip("torch")
    distributed = pytest.importorskip("distributed")
    from torch.utils.data import DataLoader, IterableDataset

    class Threads(IterableDataset):
        def __iter__(self):
            yield cores.wanted()

    with up.set_threads(None):
        assert next(iter(DataLoader(Threads(), num_workers=1, multiprocessing_context="fork"))).item() == 1
        with distributed.Client(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as c:
            assert c.submit(cores.wanted).result() == 1
        assert cores.wanted() == cores.cores()


def test_a_thread_that_flushes_to_zero_changes_no_bit():
    """Libraries set this in the thread of the caller, and no other thread that takes a tile knows of it."""
    torch = pytest.importorskip("torch")
    x, keys = np.full(1 << 18, 3e-310), np.arange(1 << 18) % 5

    def results():
        return [
            up.scan(x, threads=1), up.scan(x, threads=2), up.scan(x, threads=2), up.scan(x[:7], "max"), up.reduce(x),
            up.scan(x.reshape(-1, 4), axis=0, order="sequential"), up.scan(x, segments=up.segments.groups(keys)),
        ]  # fmt: skip

    wanted = results()
    flushes = torch.set_flush_denormal(True)
    try:
        got = results()
        assert not flushes or (torch.tensor([1e-310], dtype=torch.float64) * 0.5).item() == 0.0
    finally:
        torch.set_flush_denormal(False)
    for y, w in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.atleast_1d(y).view(np.int64), np.atleast_1d(w).view(np.int64))


def test_helpers_that_do_not_come_are_called_off():
    """More threads than cores, all at once: those that wake late find that their call is over, and take the next one."""

    def calls(_):
        return all(same(threads=20) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))
    assert len(threads._team.idle) == threads._team.count <= max(64, cores.cores())
