"""Every function and type of `upsweep.lab` shows how it is called, and the example runs."""

import doctest
import inspect

import pytest

from upsweep import lab

RESULTS = {"Case", "KernelError"}
"""What `lab.trace` holds and raises: nobody calls them."""


@pytest.mark.parametrize("name", sorted(set(lab.__all__) - RESULTS))
def test_a_docstring_has_an_example_that_runs(name):
    text = inspect.getdoc(getattr(lab, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert example.examples, f"lab.{name} has no example"
    said = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert not said, "".join(said)
