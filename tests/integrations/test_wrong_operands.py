"""Operands that are missing, of another type, or on another device: every library refuses them in words, and none reads memory
that is not there.
"""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from upsweep.arguments import ShapeError
from upsweep.segments import SegmentError

S = up.segments
X = np.array([1.0, 2, 3, 4, 5, 6])


def layers(library: str):
    """The functions of a library's layers, with a call of each: their operands that must be there, by name."""
    if library == "torch":
        torch = pytest.importorskip("torch")
        layer, made, wide = pytest.importorskip("upsweep.torch"), torch.ones, torch.complex64
    else:
        layer, made = pytest.importorskip("upsweep.jax"), pytest.importorskip("jax").numpy.ones
        wide = np.complex64
    along, states, row = made((1, 4, 2)), made((1, 4, 3)), made(2)
    one, few = made((1, 2)), made((1, 3))
    items, turns = made((1, 4, 2), dtype=wide), made(2, dtype=wide)
    yield layer.rg_lru, {"x": along, "input_gate": along, "recurrence_gate": along, "decay": row}
    yield layer.min_gru, {"x": along, "gate": along}
    yield layer.hgrn, {"forget_gate": along, "x": along}
    yield layer.s5, {"x": items, "eigenvalues": turns}
    yield layer.selective_scan, {"u": along, "delta": along, "A": made((2, 3)), "B": states, "C": states}
    gates = {"x": one, "input_gate": one, "recurrence_gate": one, "decay": row}
    yield layer.rg_lru_step, {"state": made((1, 2)), **gates}
    yield layer.hgrn_step, {"state": made((1, 2)), "x": one, "forget_gate": one}
    yield layer.s5_step, {"state": items[:, 0], "x": items[:, 0], "eigenvalues": turns}
    given = {"u": one, "delta": one, "A": made((2, 3)), "B": few, "C": few}
    yield layer.selective_step, {"state": made((1, 2, 3)), **given}


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_layer_says_which_operand_is_missing(library):
    """A selective scan without delta, A, B or C ended the process; `rg_lru` took a missing decay for some number."""
    for function, given in layers(library):
        for name in given:
            # JAX's steps give their state back, so that none there is may be the first.
            if library == "jax" and name == "state":
                continue
            with pytest.raises(ShapeError, match=f"{name} is None"):
                function(**{**given, name: None})


def test_tensors_on_two_devices_are_refused():
    """The rule for tensors without memory gave memory with anything in it, for a result that has some."""
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    here, nowhere = torch.ones(4), torch.ones(4, device="meta")
    for call in (
        lambda x, y: ut.linear_recurrence(x, y),
        lambda x, y: ut.discounted_sum(y, x),
        lambda x, y: ut.scan((x, y), "affine"),
        lambda x, y: ut.gae(x, y, 0.0, gamma=0.5, lam=0.5),
    ):
        for x, y in ((nowhere, here), (here, nowhere)):
            with pytest.raises(ShapeError, match="one device"):
                call(x, y)
    with pytest.raises(ShapeError, match="one device"):
        ut.lfilter(nowhere, [1.0], here)
    assert ut.lfilter([1.0], [1.0], nowhere).is_meta
    with pytest.raises(up.EngineError, match="to_dense"):
        ut.scan(torch.ones(2, 4), dim=1, initial=torch.ones(2).to_sparse())


def test_numbers_beyond_a_dtype_are_refused():
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    for x, beyond in (
        (torch.ones(3), 10**400), (torch.ones(3, dtype=torch.complex64), 1e300),
        (torch.ones(3, dtype=torch.complex64), 1e300j), (torch.ones(3), 1j),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="no value of"):
            ut.scan(x, initial=beyond)
    assert ut.scan(torch.ones(1, dtype=torch.complex64), initial=complex("inf+nanj")).isinf().all()


@pytest.mark.parametrize(
    "dtype", ["nonsense", object(), np.ones(2), 3.5], ids=["text", "object", "array", "number"]
)
def test_a_dtype_that_is_none(dtype):
    with pytest.raises(up.DTypeError, match="is no dtype: pass 'float64'"):
        up.scan(X, dtype=dtype)


def test_text_and_nothing_in_recurrences():
    with pytest.raises(up.DTypeError, match="text"):
        up.linear_recurrence(0.5, np.array(["a", "b"]))
    with pytest.raises(ShapeError, match="values is None"):
        up.gae(X, None, 0.0, gamma=0.5, lam=0.5)
    with pytest.raises(ValueError, match="'tree', 'sequential'"):
        up.scan(X, order=np.array(["tree", "tree"]))


def test_the_form_of_traced_segments_is_checked():
    """Keys of one item held for all, and a flag a row for a whole row; narrow lengths wrapped where they were summed."""
    jax, uj = pytest.importorskip("jax"), pytest.importorskip("upsweep.jax")
    x = jax.numpy.ones((2, 6))
    for spelling, values in (
        (S.keys, np.ones(1, int)), (S.keys, np.ones((2, 1), int)), (S.flags, np.ones((2, 1), bool)), (S.ends, np.ones(3, bool)),
        (S.flags, np.ones(6)), (S.offsets, np.array([[0, 6]])), (S.lengths, np.ones(6, bool)),
    ):  # fmt: skip
        with pytest.raises(SegmentError, match=r"have shape|must be"):
            jax.jit(lambda v, spelling=spelling: uj.scan(x, axis=1, segments=spelling(v)))(values)
    for dtype in ("uint8", "int8", "int32"):
        lengths, x = np.array([120, 110, 100, 70], dtype), jax.numpy.arange(400.0)
        for function in (uj.scan, uj.reduce):
            got = jax.jit(lambda v, f=function, x=x: f(x, segments=S.lengths(v)))(lengths)
            np.testing.assert_array_equal(got, function(x, segments=S.lengths(lengths)))


def test_operands_that_jax_makes_no_array_of():
    uj = pytest.importorskip("upsweep.jax")
    for wrong in (object(), [1, "b"], {1}, None):
        with pytest.raises(up.DTypeError, match="JAX makes no array of this"):
            uj.scan(wrong)
    with pytest.raises(ShapeError, match="zi has shape"):
        uj.lfilter([1.0], [1.0, 0.5], X, zi=0.5)
    with pytest.raises(up.DTypeError, match="next_values are complex"):
        uj.gae(X, X, next_values=X * 1j, gamma=0.5, lam=0.5)
    for step in (1j, "text"):
        with pytest.raises(up.DTypeError, match=r"step is complex|JAX makes no array"):
            uj.s5(np.ones((1, 4, 2), "c8"), np.ones(2, "c8"), step)


def test_what_does_not_go_with_a_dask_array():
    """Imaginary parts of weights were lost with a warning, and weights of more dimensions made a result of their shape."""
    da, ud = pytest.importorskip("dask.array"), pytest.importorskip("upsweep.dask")
    x = da.from_array(X, chunks=2)
    for weights, error, words in (
        (np.full(6, 0.5 + 1j), up.DTypeError, "weights of complex128"),
        (np.full((2, 6), 0.5), ShapeError, "cannot be broadcast"),
        (np.full(3, 0.5), ShapeError, "cannot be broadcast"),
        (np.array(["a"] * 6), up.DTypeError, "weights of <U1"),
    ):
        for call in (ud.ema, ud.discounted_sum):
            with pytest.raises(error, match=words):
                call(x, weights)
    with pytest.raises(ShapeError, match="flags have shape"):
        ud.discounted_sum(x, 0.5, np.zeros(3, bool), initial=1.0)
    with pytest.raises(ShapeError, match="initial has shape"):
        ud.discounted_sum(x, 0.5, np.zeros(6, bool), initial=np.ones(1))
    with pytest.raises(up.DTypeError, match="flags must be"):
        ud.discounted_sum(x, 0.5, np.array(["a"] * 6))
    with pytest.raises(up.DTypeError, match="have no differences"):
        ud.ema(x, halflife=1.0, times=np.array(["a"] * 6))
    flags = np.array([0, 0.5, 0, 0, 0, 0])
    for initial in (None, 2.0):
        wanted = up.discounted_sum(X, 0.5, flags, initial=initial)
        start = initial if initial is None else da.full((), initial)
        np.testing.assert_array_equal(ud.discounted_sum(x, 0.5, flags, initial=start), wanted)


def test_chunks_of_unknown_size_are_named():
    da, ud = pytest.importorskip("dask.array"), pytest.importorskip("upsweep.dask")
    x = da.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 2))
    rows = x[x[:, 0] > 2]
    np.testing.assert_array_equal(ud.reduce(rows, axis=1), np.arange(12.0).reshape(4, 3)[1:].sum(1))
    for call in (
        lambda: ud.ema(rows, 0.5, axis=0),
        lambda: ud.ema(rows, 0.5, axis=1),
        lambda: ud.discounted_sum(rows, 0.5, [0, 1, 0], axis=1),
        lambda: ud.linear_recurrence(0.5, rows, axis=1),
        lambda: ud.scan(rows, axis=1, segments=S.lengths([1, 2])),
        lambda: ud.cumulative_sum(rows, axis=1, include_initial=True),
        lambda: ud.reduce(rows, axis=0),
    ):
        with pytest.raises(ShapeError, match="compute_chunk_sizes"):
            call()


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_discounts_that_do_not_fit_the_values(library):
    """Discounts of more dimensions made values of theirs, in PyTorch along another axis."""
    home = pytest.importorskip(f"upsweep.{library}")
    make = pytest.importorskip({"jax": "jax.numpy"}.get(library, library)).asarray
    x, half = make(np.ones((3, 4), "f4")), make(np.full((2, 3, 4), 0.5, "f4"))
    for gamma, lam in ((half, half), (half, 0.5), (0.5, half), (half[0, :, 0], 0.5)):
        with pytest.raises(ShapeError, match="broadcast"):
            home.gae(x, x, 0.0, gamma=gamma, lam=lam, axis=0)
    for gamma, lam in (("a", half[0]), (half[0], "a")):
        with pytest.raises(up.DTypeError, match=r"(gamma|lam)='a'"):
            home.gae(x, x, 0.0, gamma=gamma, lam=lam, axis=0)
