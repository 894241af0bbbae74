"""Times of the GPU's table, on a device that is simulated: the host's work is no part of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

# The folder holds a distributed.py, which would hide Dask's package from other tests.
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(Path(__file__).parents[2] / "benchmarks"), *sys.path])
    import gpu_table

MILLISECOND = 2_000_000
"""Cycles."""


class Device:
    """A stream that the host fills, with a clock of cycles for each of the two. A call takes `host` cycles until its launch is
    there, and `work` cycles on the device; `waits` is whether the host then waits for the device.
    """

    def __init__(self, host: int, work: int, waits: bool = False) -> None:
        self.host, self.work, self.waits = host, work, waits
        self.now = self.free = 0
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        self.now += self.host
        self.free = max(self.free, self.now) + self.work
        if self.waits:
            self.now = self.free

    def sleep(self, cycles: int) -> None:
        self.free = max(self.free, self.now) + cycles

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)

    def event(self, enable_timing: bool) -> SimpleNamespace:
        event = SimpleNamespace(at=0)

        def record() -> None:
            event.at = max(self.free, self.now)

        event.record, event.query = record, lambda: self.now >= event.at
        event.synchronize, event.elapsed_time = (
            self.synchronize,
            lambda end: (end.at - event.at) / MILLISECOND,
        )
        return event


@pytest.fixture
def timed(monkeypatch):
    def run(device: Device, reps: int = 9) -> float:
        cuda = SimpleNamespace(synchronize=device.synchronize, _sleep=device.sleep, Event=device.event)
        monkeypatch.setattr(gpu_table, "torch", SimpleNamespace(cuda=cuda))
        monkeypatch.setattr(gpu_table, "WARM", 0)
        return gpu_table.timed(device.call, reps)

    return run


@pytest.mark.parametrize("host", [10_000, 190_000, 300_000, 1_000_000])
def test_the_hosts_work_is_no_part_of_a_time(timed, host):
    assert timed(Device(host, work=MILLISECOND // 4)) == 0.25


def test_calls_that_wait_for_the_device_end(timed):
    device = Device(10_000, work=MILLISECOND // 4, waits=True)
    assert timed(device, reps=3) >= 0.25
    assert device.calls < 20
