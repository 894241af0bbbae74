"""The command line in its shell: names are completed, a terminal gets a bar, and a command that is asked to end leaves
nothing behind."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
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
            assert time.monotonic() - start < 300
            time.sleep(0.01)
        process.terminate()
        assert process.wait(300) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("upsweep scan x.npy --op log", "plain,logaddexp"),
        # The shell itself lists files then.
        ("upsweep scan x", "file,x"),
        ("upsweep scan x.npy --out y", "file,y"),
    ],
)
def test_operators_and_files_are_completed(typed: str, offered: str) -> None:
    asked = {
        "_UPSWEEP_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1),
    }  # fmt: skip
    got = subprocess.run(
        [sys.executable, "-c", START], env=os.environ | asked, capture_output=True, text=True, timeout=300
    )
    assert got.stdout.split() == [offered]


def seen(folder: Path, width: int, environment: dict[str, str], *words: str) -> str:
    """What a command writes on a terminal."""
    pty, termios, fcntl = map(pytest.importorskip, ("pty", "termios", "fcntl"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "upsweep", *words], cwd=folder, stdout=theirs, stderr=theirs,
        env={**os.environ, **environment},
    )  # fmt: skip
    os.close(theirs)
    told = b""
    # Linux ends a terminal that nobody writes to any more by an error.
    with os.fdopen(ours, "rb", 0) as terminal, suppress(OSError):
        while part := terminal.read(1 << 16):
            told += part
    assert process.wait(300) == 0, told
    return told.decode()


@pytest.mark.parametrize("width", [20, 80])
def test_a_bar_on_a_terminal(tmp_path: Path, width: int) -> None:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    bar, line = seen(tmp_path, width, {"TERM": "xterm", "NO_COLOR": ""}, "scan", "x.npy").split("\x1b[?25h")
    assert "scanning" in bar
    assert "100%" in bar
    # Back to where the bar stood, which goes.
    assert line.startswith("\r\x1b[1A\x1b[2Kx.scan.npy: 10 items by add in")
    assert line.count("\n") == 1


def test_no_bar_on_a_terminal_that_cannot_go_back(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    # Another run compiles, where that is to be done.
    subprocess.run([sys.executable, "-m", "upsweep", "scan", "x.npy"], cwd=tmp_path, check=True, timeout=300)
    told = seen(tmp_path, 80, {"TERM": "dumb"}, "scan", "x.npy", "--force")
    assert told.startswith("x.scan.npy: 10 items by add in")
