"""One headless Chromium for all tests of the page, and the fixture that simulates a GPU, as a user's own tests would have it."""

import os
import threading

import pytest
from browser import CHROMIUM, DRIVER, Browser, resize

from upsweep.lab.page.dials import first
from upsweep.lab.page.server import Lab
from upsweep.lab.page.worker import Worker
from upsweep.lab.simulate import simulated_cuda

__all__ = ["chromium", "served", "server", "simulated_cuda"]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    missing = [name for name, there in (("chromium", CHROMIUM), ("chromedriver", DRIVER)) if not there]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"CI must have {' and '.join(missing)}")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} on the PATH: apt-get install chromium chromium-driver")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def worker():
    """The process that traces for all servers: starting it takes as long as ten traces."""
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def served(worker):
    """The server of an opening: `served(dials)` or `served(function)` gives the running server."""
    running = []

    def serve(opening=lambda: first("brent-kung"), **given):
        server = Lab(opening, **given)
        server.worker = worker
        running.append((server, threading.Thread(target=server.serve_forever)))
        running[-1][1].start()
        return server

    yield serve
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.worker = Worker()  # the other one stays
        server.server_close()


@pytest.fixture
def server(served):
    return served()


@pytest.fixture
def opened(chromium, server):
    """The page, as wide as a desk has it."""
    resize(chromium, 1280, 900)
    chromium.open(server.url)
    yield chromium
    assert chromium.complaints() == []
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
