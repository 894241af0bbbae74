"""An interruption (Ctrl-C) while code is compiled comes when it is compiled: the compiler stays whole."""

import signal
import threading

import numpy as np
import pytest

import upsweep as up

compiler = pytest.importorskip("upsweep.cpu.compile")
from upsweep.cpu.interrupts import held_back  # noqa: E402
from upsweep.cpu.jitted import jitted  # noqa: E402

X = np.arange(1.0, 9.0)
pytestmark = pytest.mark.usefixtures("heeded")


def test_a_kernel_is_compiled_to_its_end(monkeypatch):
    ended, written = [], compiler._written

    def interrupted(*given):
        signal.raise_signal(signal.SIGINT)
        made = written(*given)
        ended.append(made)
        return made

    monkeypatch.setattr(compiler, "_written", interrupted)
    number = np.random.default_rng().random()
    with pytest.raises(KeyboardInterrupt):
        up.scan(X, lambda a, b: a * number + b * (1 - number))
    assert ended
    monkeypatch.undo()
    y = up.scan(X, lambda a, b: a * number + b * (1 - number))
    assert y[1] == X[0] * number + X[1] * (1 - number)


def test_a_loop_is_compiled_to_its_end(monkeypatch):
    loop = jitted()(lambda x: x + 1)
    ended, made = [], loop.compile

    def interrupted(signature):
        signal.raise_signal(signal.SIGINT)
        code = made(signature)
        ended.append(code)
        return code

    # numba's dispatcher asks itself for this.
    monkeypatch.setattr(loop, "compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop(1)
    assert ended
    assert loop(1) == 2


def test_the_handler_is_as_it_was():
    def own(*_):
        raise ArithmeticError

    signal.signal(signal.SIGINT, own)
    with pytest.raises(ArithmeticError), held_back():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is own
    with pytest.raises(ZeroDivisionError), held_back():
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_handlers_that_are_not_pythons_stay(handler):
    signal.signal(signal.SIGINT, handler)
    with held_back():
        assert signal.getsignal(signal.SIGINT) == handler


def test_threads_are_not_interrupted():
    seen = []

    def work():
        with held_back():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
