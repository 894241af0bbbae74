"""Each public function says what its arguments are, what it raises and how it is called, or names a public function that does."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import upsweep as up

NEEDS = {
    "upsweep": None, "upsweep.apps": None, "upsweep.torch": "torch", "upsweep.torch.distributed": "torch",
    "upsweep.jax": "jax", "upsweep.dask": "dask.array",
}  # fmt: skip


def public(room):
    """The functions and classes of a module, without errors and without the names of the built-in operators."""
    module = importlib.import_module(room)
    for name in module.__all__:
        what = getattr(module, name)
        error = inspect.isclass(what) and issubclass(what, BaseException)
        if callable(what) and not error and what is not up.ops:
            yield name, what


def said(room, name, depth=4):
    """A docstring, and those of the public names in it, which are of the same module or have the name of theirs."""
    if name.startswith("upsweep."):
        room, _, name = name.rpartition(".")
    what = getattr(importlib.import_module(room), name, None) if room in NEEDS else None
    text = (inspect.getdoc(what) or "") if callable(what) else ""
    others = set(re.findall(r"`([\w.]+)`", text)) - {name} if depth else ()
    return "\n".join([text, *(said(room, other, depth - 1) for other in others)])


@pytest.mark.parametrize("room", NEEDS)
def test_what_a_user_must_know_is_said(room):
    if NEEDS[room]:
        pytest.importorskip(NEEDS[room])
    for name, what in public(room):
        text = said(room, name)
        assert inspect.getdoc(what), f"{room}.{name} has no docstring"
        assert ">>> " in text, f"{room}.{name} has no example"
        assert re.search(r"Error\b|\bRaises\b", text), f"{room}.{name} does not say what it raises"
        # The first argument is what the function is about.
        unsaid = [p for p in list(inspect.signature(what).parameters)[1:] if not re.search(rf"\b{p}\b", text)]
        assert not unsaid, f"{room}.{name} does not say what {', '.join(unsaid)} means"
