"""The page with Python inside: the runs are the same without NumPy. The file needs no network, and nothing is installed."""

import io
import json
import subprocess
import sys
import zipfile

import pytest

from portions import parts
from upsweep.lab.exercises import EXERCISES
from upsweep.lab.page import bundle
from upsweep.lab.page.dials import first
from upsweep.lab.page.html import with_python
from upsweep.lab.page.played import payload
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

ASK = """
import json, sys
sys.path[:] = [sys.argv[1], *(p for p in sys.path if "site-packages" not in p and not p.endswith("src"))]
from upsweep.lab.page.answers import answer
import numpy
assert numpy.__file__.startswith(sys.argv[1]), numpy.__file__
for line in sys.stdin:
    print(answer("trace", line))
"""
LARGEST = 12_000_000
"""The number of bytes of the file."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    zipfile.ZipFile(io.BytesIO(bundle.lab())).extractall(folder)
    return folder


@parts(16)
def test_what_stands_in_for_numpy_gives_the_same(unpacked, part):
    """Every kernel and some mistakes, traced by the page's parts and by NumPy: the answers are the same, letter by letter."""
    dials = [first(name) for name in (*KERNELS, *list(MISTAKES)[::4])][part::16]
    asked = "".join(json.dumps(vars(one)) + "\n" for one in dials)
    command = [sys.executable, "-I", "-c", ASK, str(unpacked)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for one, line in zip(dials, done.stdout.splitlines(), strict=True):
        assert json.loads(line) == json.loads(json.dumps(payload(one))), one.kernel


def test_npm_missing_is_said(monkeypatch):
    monkeypatch.setattr(bundle.shutil, "which", lambda name: None)
    with pytest.raises(bundle.NoPyodide, match="npm is not on the PATH"):
        bundle.python()


@pytest.fixture(scope="module")
def alone(chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("inside") / "lab.html"
    try:
        size = with_python(path, first("brent-kung"))
    except bundle.NoPyodide as missing:
        pytest.skip(f"Pyodide comes from npm: {missing}")
    assert size < LARGEST
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.chrome("Network.enable")
    chromium.chrome(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    chromium.open(path.as_uri())
    chromium.until("document.documentElement.dataset.python")
    assert chromium.do("return document.documentElement.dataset.python") == "ready"
    yield chromium
    chromium.chrome(
        "Network.emulateNetworkConditions",
        offline=False,
        latency=0,
        downloadThroughput=-1,
        uploadThroughput=-1,
    )
    assert chromium.complaints() == []


def result(browser):
    return browser.do("return lab.panes[0].run.result(lab.last)")


@pytest.mark.slow
def test_any_setting_is_traced_inside(alone):
    alone.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), n: 37, x: '3 1 7 0 4 1 6 3' })"
    )
    x = [int(k) for k in ("31704163" * 5)[:37]]
    assert result(alone) == [str(sum(x[: k + 1])) for k in range(37)]
    assert alone.do("return document.querySelector('.trouble').hidden")


@pytest.mark.slow
def test_an_edit_runs_inside(alone):
    text = "def mine(x, y, n):\n    t = cuda.threadIdx.x\n    y[t] = op(x[t], x[t])"
    alone.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), n: 4, edits: { kogge_stone: args[0] } })",
        text,
    )
    assert result(alone) == ["2", "4", "6", "8"]
    assert "wrong value" in alone.do("return document.querySelector('.pane').dataset.findings")
    alone.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), edits: { kogge_stone: 'def k(x, y, n:' } })"
    )
    assert "<kernel>:1" in alone.do("return document.querySelector('.trouble').textContent")


@pytest.mark.slow
def test_an_exercise_is_marked_inside(alone):
    text = EXERCISES[1].starter
    alone.wait_for(
        "await lab.panes[0].practice.open(lab.data.exercises[0]); await lab.panes[0].practice.mark(args[0])",
        text,
    )
    assert alone.do("return document.querySelector('.total').textContent") == "0 of 100"
    text = text.replace("op(..., xy[t])", "op(xy[t - stride], xy[t])").replace("xy[t] = ...", "xy[t] = temp")
    alone.do("lab.marked = lab.panes[0].practice.mark(arguments[0])", text)
    alone.until("document.querySelector('.total').textContent.includes('100 of')")
    alone.do("lab.panes[0].practice.leave()")


@pytest.mark.slow
def test_a_run_inside_can_be_stopped(alone):
    slow = "sum(0 for k in range(10 ** 9)) or a + b"
    alone.do(
        "lab.slow = lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), op: 'own', own: arguments[0] })",
        slow,
    )
    alone.until("document.querySelector('.busy').checkVisibility()")
    alone.do("document.querySelector('.stop').click()")
    alone.wait_for("await lab.slow")
    assert "stopped" in alone.do("return document.querySelector('.trouble').textContent")
    alone.do("lab.next = lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), n: 5 })")
    alone.until("document.querySelector('.pane').dataset.n === '5'")
    assert result(alone) == ["1", "3", "6", "10", "15"]
