"""A backend named in UPSWEEP_REQUIRE that is absent fails the tests instead of skipping them."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict

import hypothesis
import pytest
from filelock import FileLock

from no_device import tell_capability
from portions import met
from upsweep import engine, recall, short_way

# The same examples in every run, however slow the machine is; `pytest --hypothesis-profile=default` draws others.
hypothesis.settings.register_profile(
    "alike",
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("alike")


def _present(name: str) -> bool:
    try:
        engine.load(name)
        if name == "cuda":
            from cuda.bindings import runtime

            error, count = runtime.cudaGetDeviceCount()
            return int(error) == 0 and count > 0
    except engine.EngineError:
        return False
    return True


@pytest.fixture(scope="session")
def absent():
    """What to call where an engine is missing, or where a library that works on one is missing."""

    def end(name: str, why: str) -> None:
        if name in os.environ.get("UPSWEEP_REQUIRE", "").split(","):
            pytest.fail(f"UPSWEEP_REQUIRE names {name}, but {why}")
        pytest.skip(why)

    return end


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """`shared(name, text)`: a file with the text that `text` returns. The first process of a run that asks writes the file,
    and the others wait.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def written(name, text):
        path = folder / name
        with FileLock(f"{path}.lock"):
            if not path.exists():
                half = path.with_suffix(".half")
                half.write_text(text(), encoding="utf-8")
                half.replace(path)
        return path

    return written


@pytest.fixture(scope="session", autouse=True)
def _kernel_is_compiled():
    """The kernel that all scans of the CPU engine go through takes a quarter of a minute to compile. The first process of a run
    does it for the others, and for the commands that tests start and wait for.
    """
    from upsweep.cpu.code import address
    from upsweep.cpu.units import kernel

    address(kernel())


@pytest.fixture
def heeded():
    """Interruptions are heeded: a shell lets what it runs in the background ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def no_device_needed(monkeypatch):
    tell_capability(monkeypatch)


@pytest.fixture(scope="session")
def cuda(absent):
    """For tests that need a GPU."""
    if not _present("cuda"):
        absent("cuda", "there is no GPU here, or no CUDA engine")


@pytest.fixture
def tuned(monkeypatch):
    """Sets numbers of the CPU engine's `tuning`. Launches are planned anew with them, and again after the test."""
    from upsweep.cpu import launch, tuning

    def forget():
        launch._launch.cache_clear()
        recall.forget()

    def tune(**numbers):
        for name, value in numbers.items():
            monkeypatch.setattr(tuning, name, value)
        forget()

    yield tune
    forget()


@pytest.fixture
def found(monkeypatch):
    """The results of the calls that the C part ran; nothing is remembered before."""
    if short_way.part is None:
        pytest.skip("the C part was not built")
    calls, part = [], short_way.part

    class Part:
        Launch, Launches, remember, forget = part.Launch, part.Launches, part.remember, part.forget

        @staticmethod
        def find(*call):
            y = part.find(*call)
            if y is not None:
                calls.append(y)
            return y

    monkeypatch.setattr(short_way, "part", Part)
    recall.forget()
    yield calls
    recall.forget()


ON_GPU = {"cuda", "gpu", "cupy", "torch cuda"}
"""The names of parameters with which a test needs a GPU."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a product of lists, each run takes a few cases; the others are slow."""
    products = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            values = item.callspec._idlist
            key = item.nodeid.partition("[")[0], frozenset(ON_GPU.intersection(values))
            products[key].append((item, values))
    for (name, _), cases in products.items():
        taken = met([values for _, values in cases], name, cases[0][0].get_closest_marker("dear") is not None)
        for k, (item, _) in enumerate(cases):
            if k not in taken:
                item.add_marker("slow")


def pytest_collection_finish():
    """The collector of garbage skips what the imported libraries hold: it lives to the end. By its own count of new objects it
    would look so often that compiling takes a fifth more of processor time.
    """
    gc.freeze()
    gc.set_threshold(1_000_000)
