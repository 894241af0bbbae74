"""Where numba is told to compile nothing, an error says what to do, and "auto" takes the next engine, whatever is kept."""

import os
import subprocess
import sys

import pytest

import upsweep as up

pytest.importorskip("numba")

CODE = "import upsweep as up\nprint(up.scan([3, 1, 7], {op}, engine={engine!r}).tolist())"


def called(op, engine):
    # The kernel is kept, so that this process compiles nothing for a built-in operator.
    up.scan([3, 1, 7], "max", engine="cpu")
    told = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    code = CODE.format(op=op, engine=engine)
    return subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("op", ["'max'", "lambda a, b: a - 2 * b"])
def test_the_next_engine_runs(op):
    made = called(op, "auto")
    wanted = "[3, 3, 7]" if op == "'max'" else "[3, 1, -13]"
    assert made.stdout.split("\n")[0] == wanted, made.stderr
    assert "unset NUMBA_DISABLE_JIT" in made.stderr


def test_the_cpu_engine_says_what_to_do():
    made = called("lambda a, b: a - 2 * b", "cpu")
    assert made.returncode
    said = made.stderr.strip().split("\n")[-1]
    assert said.startswith(
        "upsweep.engine.EngineError: numba is told to compile nothing: unset NUMBA_DISABLE_JIT"
    )
