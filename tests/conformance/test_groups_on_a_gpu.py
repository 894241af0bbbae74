"""Groups whose items lie in any order, on a GPU: each group has the bits of a scan of its items alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import upsweep as up
from portions import every
from table import CASES
from test_groups import alone
from upsweep.gpu import compile
from upsweep.gpu.arrays import view

N = 700
RNG = np.random.default_rng(5)
# Some groups are large, some have one item.
CODES = RNG.choice(30, N, p=RNG.dirichlet(np.full(30, 0.3)))


@pytest.fixture(params=["emulated", "gpu"])
def there(request):
    """A GPU, or the emulator that stands for one."""
    return request.getfixturevalue(request.param)


def scanned(there, xs, op, keys, out=None, initial=None, **keywords):
    """The results of a scan on the device, as arrays of NumPy's."""
    ys = [there.value(np.full_like(x, 77)) for x in (xs if out is None else out)]
    if isinstance(initial, np.ndarray) and initial.ndim:
        initial = there.value(initial)
    given, written = (tuple(map(there.value, xs)), tuple(ys)) if len(xs) > 1 else (there.value(xs[0]), ys[0])
    up.scan(given, op, segments=up.segments.groups(*keys), out=written, initial=initial, **keywords)
    return [there.host(y) for y in ys]


DRAWN = {
    "hash-u64": lambda: (CASES["hash-u64"].op, CASES["hash-u64"].draw(N), np.uint64(9)),
    "add-f4": lambda: ("add", (RNG.standard_normal(N).astype("f4"),), np.float32(0.1)),
    "affine-f8": lambda: ("affine", (RNG.random(N), RNG.standard_normal(N)), (1.0, 0.3)),
}


@pytest.mark.parametrize(
    ("name", "keywords"),
    every(
        2,
        [
            ("hash-u64", {}),
            ("add-f4", {"order": "sequential", "reverse": True}),
            ("affine-f8", {"reverse": True, "exclusive": True}),
        ],
    ),
)
def test_each_group_has_the_bits_of_its_items_alone(there, name, keywords):
    op, xs, initial = DRAWN[name]()
    got = scanned(there, xs, op, [there.value(CODES)], initial=initial, **keywords)
    for y, want in zip(got, alone(xs, op, CODES, initial=initial, **keywords)):
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("axis", every(3, [1, 0, 2]))
def test_rows_share_the_groups(there, axis):
    shape = [3, 2, 4]
    shape[axis] = 90
    x = RNG.standard_normal(shape)
    start = RNG.standard_normal([n for d, n in enumerate(shape) if d != axis])
    keywords = {"axis": axis, "reverse": True, "exclusive": True, "initial": start}
    (got,) = scanned(there, [x], "add", [there.value(CODES[:90])], **keywords)
    np.testing.assert_array_equal(got, alone([x], "add", CODES[:90], **keywords)[0])


def test_keys_of_several_kinds_here_and_there(there):
    """Both zeros are one key, so are all NaNs; text stays in this machine's memory."""
    x = RNG.integers(0, 99, N)
    floats = RNG.choice([0.0, -0.0, np.nan, -np.nan, 1.5], N).astype("f4")
    text = np.array(["ab", "b", "c"])[RNG.integers(0, 3, N)]
    number = np.where(np.isnan(floats), 7, floats + 0.0)
    pairs = np.unique(
        np.stack([CODES, 2 * number, np.unique(text, return_inverse=True)[1]]), axis=1, return_inverse=True
    )[1]
    (got,) = scanned(there, [x], "add", [there.value(CODES), text, there.value(floats)])
    np.testing.assert_array_equal(got, alone([x], "add", pairs.reshape(-1))[0])


def test_maps_numbers_and_results_in_place(there):
    x, keys = RNG.integers(-100, 100, N).astype("i2"), there.value(CODES)
    y = there.value(x)
    up.scan(y, segments=up.segments.groups(keys), out=y)
    np.testing.assert_array_equal(there.host(y), alone([x], "add", CODES)[0])
    f, one = RNG.standard_normal(N), RNG.standard_normal(1)
    for weight, given in ((0.3, 0.3), (one, there.value(one))):
        keywords = {"map": lambda x, w: x * w, "finish": lambda s, x, w: (s - x * w, s > 0)}
        got = up.scan((there.value(f), given), segments=up.segments.groups(keys), **keywords)
        want = up.scan((f, weight), segments=up.segments.groups(CODES), engine="numpy", **keywords)
        for a, b in zip(got, want):
            np.testing.assert_array_equal(there.host(a), b)


def test_an_index_is_that_of_the_item(there):
    """A map and a finish know the index among all items, whichever of them asks for it."""
    x, keys = RNG.standard_normal((2, N)), there.value(CODES)
    for keywords in (
        {"map": lambda x, index: x * index, "finish": lambda s, x: s - x},
        {"finish": lambda s, x, index: s * index + x},
    ):
        got = up.scan(there.value(x), axis=1, segments=up.segments.groups(keys), reverse=True, **keywords)
        want = up.scan(
            x, axis=1, segments=up.segments.groups(CODES), reverse=True, engine="numpy", **keywords
        )
        np.testing.assert_array_equal(there.host(got), want)


def test_mistakes_and_nothing(there):
    x = there.value(np.arange(3.0))
    for key in (there.value(np.arange(2)), np.arange(2), there.value(np.zeros((3, 1)))):
        with pytest.raises(up.SegmentError, match="pass 3 of them"):
            up.scan(x, segments=up.segments.groups(key))
    with pytest.raises(up.SegmentError, match="must be numbers"):
        up.scan(x, segments=up.segments.groups(there.value(np.zeros(3, "c8"))))
    none = there.value(np.empty(0))
    assert up.scan(none, segments=up.segments.groups(there.value(np.empty(0)))).shape == (0,)


def test_arrays_of_other_libraries_are_refused(emulated):
    memory = view(emulated.value(np.arange(3.0)))
    other = SimpleNamespace(
        __cuda_array_interface__={"shape": (3,), "typestr": "<f8", "data": (memory.ptr, False), "version": 3}
    )
    with pytest.raises(up.SegmentError, match=r"pass cupy\.from_dlpack"):
        up.scan(other, segments=up.segments.groups([0, 1, 0]))


@pytest.mark.parametrize(
    ("right", "wrong"),
    every(
        4,
        [
            ("items - 1 - (i - start)", "i - start"),
            ("&& !(differ(a, a) && differ(b, b))", ""),
            ("p.more &&", "false &&"),
            ("<< bits) + rank", "<< bits) + rank / 2"),
        ],
    ),
)
def test_planted_faults_are_found(emulated, monkeypatch, right, wrong):
    whole = compile.text
    assert any(right in whole(kernel, "") for kernel in ("group_heads", "group_places"))
    monkeypatch.setattr(compile, "text", lambda *what: whole(*what).replace(right, wrong))
    x = RNG.integers(0, 99, N)
    keys = [CODES, np.where(CODES % 2, np.nan, 0.0)]
    (got,) = scanned(emulated, [x], "add", [emulated.value(k) for k in keys], reverse=True)
    assert (got != alone([x], "add", CODES, reverse=True)[0]).any()
