"""The command line in its shell: names are completed, and a command that is asked to end leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("pyarrow")
START = "import sys; sys.argv[0] = 'upsweep'; from upsweep.cli import main; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows is not asked to end")
def test_a_command_that_is_asked_to_end_leaves_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, "scan", "-"]
    with subprocess.Popen(
        command, env=os.environ | {"TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        start = time.monotonic()
        while not list(tmp_path.glob("upsweep-*/input")):
            assert process.poll() is None, "it ended before it was asked to"
            assert time.monotonic() - start < 200
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


def test_operators_are_completed() -> None:
    asked = {
        "_UPSWEEP_COMPLETE": "bash_complete", "COMP_WORDS": "upsweep scan x.npy --op log", "COMP_CWORD": "4",
    }  # fmt: skip
    got = subprocess.run(
        [sys.executable, "-c", START], env=os.environ | asked, capture_output=True, text=True, timeout=300
    )
    assert got.stdout.split() == ["plain,logaddexp"]
