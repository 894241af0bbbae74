"""Every engine gives the oracle's bits, in every form and layout, and touches no other byte. `everything.py` runs all calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from conformance.cases import FACTORS, KERNELS, Call, everything, sample, sample_of_kernel, sensible
from conformance.check import known, wrong
from conformance.large import large
from conformance.memory import Host, device
from portions import every, parts


def all_right(on: Host, calls: Iterable[Call]) -> None:
    found = [(call, wrong(call, on)) for call in calls if known(call, on)]
    assert len(found) > 5
    faults = [f"{call}: {text}" for call, text in found if text]
    assert not faults, "\n".join([f"{len(faults)} of {len(found)} calls", *faults[:5]])


@parts(3)
def test_the_numpy_engine(part):
    all_right(device("numpy"), sample()[part::3])


@pytest.mark.parametrize(
    ("subject", "shapes", "segments", "initial"),
    every(3, KERNELS),
    ids=[
        f"{subject}-{len(shapes[-1][0])}D-{segments}-{initial}"
        for subject, shapes, segments, initial in KERNELS
    ],
)
def test_the_cpu_engine(subject, shapes, segments, initial):
    all_right(device("cpu"), sample_of_kernel(subject, shapes, segments, initial))


@pytest.mark.parametrize("part", range(8))
def test_the_cuda_engine(gpu, part):
    all_right(gpu, sample()[part::8])


def test_the_library_has_every_large_call():
    assert large()


def test_every_two_values_meet_that_can():
    """Of any two factors, each value of one meets each value of the other, unless no valid call has both."""
    calls = everything()
    some = [calls[i] for i in np.random.default_rng(0).integers(0, len(calls), 200)]
    for (f, these), (g, those) in itertools.combinations(FACTORS.items(), 2):
        met = {(getattr(call, f), getattr(call, g)) for call in calls}
        for one, other in set(itertools.product(these, those)) - met:
            assert not [call for call in some if sensible(call._replace(**{f: one, g: other}))], (one, other)
