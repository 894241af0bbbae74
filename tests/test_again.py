"""A small call that is like an earlier one goes a shorter way, to the same bits and the same errors: through Python, and through
the C part, where it was built."""

import threading

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from table import CASES
from upsweep import engine, recall, short_way
from upsweep.cpu import threads as pool
from upsweep.engine import LIKENESS

HASH = CASES["hash-u64"]
(X,) = HASH.draw((24, 36))
HASHED = up.Operator(HASH.op.fn, identity=0)
FORMS = [{}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}]
LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[3:4, :17]]


def afresh(call, *given, **how):
    """A call where nothing is remembered."""
    known = dict(recall.known_calls)
    recall.forget()
    try:
        return call(*given, **how)
    finally:
        recall.forget()
        recall.known_calls.update(known)


def the_long_way(x, op, **how):
    return afresh(up.scan, x, op, **how)


@pytest.fixture(autouse=True, params=["C", "Python"])
def way(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(short_way, "part", None)
    elif short_way.part is None:
        pytest.skip("the C part was not built")


@pytest.fixture(autouse=True)
def checked(way, monkeypatch):
    """Counts the calls that are checked."""
    calls, execute = [], recall.execute
    monkeypatch.setattr(recall, "execute", lambda *given: calls.append(given) or execute(*given))
    recall.forget()
    return calls


def same(got, want):
    for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (got, want)], strict=True):
        assert type(a) is type(b)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_same_bits(form):
    op = HASHED
    for layout in LAYOUTS:
        for axis in (0, 1):
            want = the_long_way(layout(X), op, axis=axis, **form)
            for again in range(3):
                x = layout(X + np.uint64(again)) if again == 1 else layout(X)
                np.testing.assert_array_equal(
                    up.scan(x, op, axis=axis, **form),
                    the_long_way(x, op, axis=axis, **form) if again == 1 else want,
                )
                out = layout(np.full_like(X, 77))
                assert up.scan(layout(X), op, axis=axis, out=out, **form) is out
                np.testing.assert_array_equal(out, want)
    assert recall.known_calls


def test_a_tuple_of_one_array():
    """Of a map it has one result, of an operator alone a tuple of one."""
    x = np.arange(9)
    for _ in range(3):
        same(up.scan((x,), "add", map=lambda v: v * 2), np.cumsum(2 * x))
        same(up.scan((x,), "add"), (np.cumsum(x),))
        same(up.reduce((x,), "add", map=lambda v: v * 2), np.int64(72))


def test_lists_are_told_apart_as_the_arrays_that_they_become(checked):
    for k in range(3):
        same(up.scan([1, 2, 3 + k]), np.array([1, 3, 6 + k]))
        same(up.reduce([1.0, 2.0, k], "max"), np.float64(max(2, k)))
        same(up.scan([[1, 2], [k, 4]], axis=0), np.array([[1, 2], [1 + k, 6]]))
    assert len(checked) == 3
    with pytest.raises(up.EngineError, match="lengths"):
        up.scan([[1, 2], [3]])
    with pytest.raises(up.OutputError):
        up.scan([1, 2], out=[0, 0])


def test_a_call_with_one_thread_leaves_later_ones_their_threads(monkeypatch, checked):
    together, asked = pool.together, []
    monkeypatch.setattr(pool, "together", lambda *call: asked.append(call[2]) or together(*call))
    for x in (np.ones(1 << 12), np.ones(1 << 21)):
        for wanted in (1, 1, 2):
            with up.set_threads(wanted):
                up.scan(x)
    assert asked == [2]
    assert len(checked) == 2 * 2  # of each array, the first with one thread and the first with two


def test_an_identity_that_is_not_zero():
    x = np.arange(1.0, 9.0)
    for _ in range(3):
        assert up.scan(x, "mul", exclusive=True).tolist() == [1, 1, 2, 6, 24, 120, 720, 5040]
        # This call leaves other data in scratch memory.
        up.scan(x + 1e300)


@pytest.mark.parametrize("by", [0, 1, 7, 64])
def test_overlapping_memory(by):
    x = np.random.default_rng(1).normal(size=500)
    want = up.scan(x)
    for _ in range(3):
        both = np.concatenate([x, np.zeros(64)])
        up.scan(both[:500], out=both[by : by + 500])
        np.testing.assert_array_equal(both[by : by + 500], want)


def test_errors_stay():
    x, out = np.arange(9.0), np.zeros(9)
    for _ in range(3):
        up.scan(x, out=out)
    out.flags.writeable = False
    with pytest.raises(up.OutputError):
        up.scan(x, out=out)
    with pytest.raises(up.ShapeError):
        up.scan(x, axis=1)
    with pytest.raises(up.ShapeError):
        up.scan(x, axis=0.0)
    up.scan(x, threads=1)
    for threads in (1.0, 0):
        with pytest.raises(ValueError, match="threads"):
            up.scan(x, threads=threads)
    with pytest.raises(up.OperatorError, match="no operator"):
        up.scan(x, "ad")


def test_a_function_that_changes_is_looked_at():
    x = np.ones(3)
    for factor in (2.0, 3.0):
        assert up.scan(x, lambda a, b, f=factor: a * f + b)[1] == factor + 1


DONES = np.arange(24) % 7 == 3
SEEN = [
    ("threads", lambda x, i: {"threads": 1}),
    ("initial", lambda x, i: {"initial": i}),
    ("initial of a row", lambda x, i: {"initial": x[0] + np.uint64(i)}),
    ("narrow initial of a row", lambda x, i: {"initial": x[0].astype("u2") + np.uint16(i)}),
    ("dtype", lambda x, i: {"dtype": "u8"}),
    ("order", lambda x, i: {"order": "sequential"}),
    ("order reversed", lambda x, i: {"order": "sequential", "reverse": True, "initial": np.uint64(i)}),
    ("flags", lambda x, i: {"segments": up.segments.flags(np.roll(DONES, i))}),
    ("flags of each row", lambda x, i: {"segments": up.segments.flags(x % (5 + i) == 0)}),
    ("flags in reverse", lambda x, i: {"segments": up.segments.flags(np.roll(DONES, i)), "reverse": True}),
    ("ends", lambda x, i: {"segments": up.segments.ends(np.roll(DONES, i))}),
    (
        "ends in reverse",
        lambda x, i: {"segments": up.segments.ends(np.roll(DONES, i)), "reverse": True, "initial": i},
    ),
    ("keys", lambda x, i: {"segments": up.segments.keys(np.arange(24) // (3 + i))}),
    ("offsets", lambda x, i: {"segments": up.segments.offsets([0, 3 + i, 3 + i, 24])}),
    (
        "lengths",
        lambda x, i: {"segments": up.segments.lengths(np.array([3 + i, 0, 21 - i])), "exclusive": True},
    ),
    ("map", lambda x, i: {"map": lambda v: v + 1}),
    ("finish", lambda x, i: {"finish": lambda p, v, index: (p, p ^ v, index)}),
    (
        "map and finish",
        lambda x, i: {"map": lambda v: v + 1, "finish": lambda p, v: p ^ v, "exclusive": True},
    ),
]


@pytest.mark.parametrize(("name", "how"), every(3, SEEN), ids=[name for name, _ in SEEN])
def test_every_keyword(name, how, checked):
    for layout in (np.ascontiguousarray, np.asfortranarray, lambda x: x[:, ::-2]):
        for i in range(3):
            x = layout(X + np.uint64(i))
            given = how(x, i)
            want = the_long_way(x, HASHED, axis=0, **given)
            checked.clear()
            same(up.scan(x, HASHED, axis=0, **given), want)
            assert len(checked) == (i == 0)
            out = (
                tuple(np.full_like(y, 77) for y in want)
                if isinstance(want, tuple)
                else np.full_like(want, 77)
            )
            assert up.scan(x, HASHED, axis=0, out=out, **given) is out
            same(out, want)


@pytest.mark.parametrize(
    "how",
    every(2, [{}, {"axis": 0}, {"reverse": True}, {"map": lambda v: v ^ 5}, {"initial": 9}]),
    ids=" ".join,
)
def test_reductions(how, checked):
    for i in range(3):
        x = X + np.uint64(i) if "axis" in how else X[i].copy()
        want = afresh(up.reduce, x, HASHED, **how)
        checked.clear()
        same(up.reduce(x, HASHED, **how), want)
        assert len(checked) == (i == 0)


@pytest.mark.parametrize("dtype", ["m8[s]", "m8[ns]", "M8[D]"])
def test_times(dtype, checked):
    for i in range(3):
        x = (X[i] % np.uint64(1000)).astype(dtype)
        x[5 + i] = "NaT"
        op = "add" if dtype[0] == "m" else "max"
        want = afresh(up.scan, x, op), afresh(up.reduce, x, op)
        checked.clear()
        got = up.scan(x, op), up.reduce(x, op)
        assert len(checked) == 2 * (i == 0)
        same(got, want)
        out = np.zeros_like(x)
        same(up.scan(x, op, out=out), want[0])


@pytest.mark.parametrize("dtype", ["f4", "f8", "u8"])
def test_one_number_is_written(dtype, checked):
    out = np.zeros((), dtype)
    for i in range(3):
        assert up.reduce(X[i].astype(dtype), out=out) is out
        assert out == up.reduce(X[i].astype(dtype))
    assert len(checked) == 2


def scaled(x, y, factor):
    return x * y * factor


HUGE = 1e300
NUMBERS = [0.1, -3.5, np.nan, np.inf, -np.inf, -0.0, 2, True, np.float32(0.1), np.float64(0.1), HUGE, 2**60]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_another_number_is_looked_at(dtype, checked):
    """It compiles nothing, whatever it is; the same number as an array of one item has the same bits."""
    x = np.linspace(-1, 1, 50).astype(dtype)
    for _ in range(2):
        for number in NUMBERS:
            if number is HUGE and dtype == "f4":
                with pytest.raises(up.DTypeError):
                    up.scan((x, x, number), map=scaled)
                continue
            own = (
                number
                if isinstance(number, np.generic)
                else np.asarray(number, bool if number is True else dtype)
            )
            got = up.scan((x, x, number), map=scaled)
            want = up.scan((x, x, np.broadcast_to(own, x.shape).copy()), map=scaled)
            assert got.dtype == want.dtype
            assert got.tobytes() == want.tobytes()
            start = up.scan(x, "max", initial=number) if number is not True else None
            if start is not None:
                assert (
                    start.tobytes() == afresh(up.scan, x, "max", initial=np.asarray(number, dtype)).tobytes()
                )
    numbers = [0.5, 0.25, 3.0]
    up.scan((x, x, 0.75), map=scaled)
    checked.clear()
    for number in numbers:
        up.scan((x, x, number), map=scaled)
    assert not checked


@pytest.mark.parametrize(
    ("dtype", "start"),
    every(3, [("f2", "f2"), ("f4", "f2"), ("f8", "f4"), ("i8", "u4"), ("f8", "?"), ("c16", "f8")]),
)
def test_starts_of_narrower_dtypes(dtype, start, checked):
    x = (X[0] % np.uint64(7)).astype(dtype)
    for i in range(3):
        number = np.dtype(start).type(3 * i + 1)
        computed = np.asarray(number, "f4" if dtype == "f2" else dtype)
        want = afresh(up.scan, x, initial=computed)
        checked.clear()
        got = up.scan(x, initial=number)
        assert len(checked) == (i == 0)
        same(got, want)


def test_integers_that_fit_and_some_that_do_not():
    x = np.arange(5, dtype="i1")
    for _ in range(2):
        assert up.scan(x, initial=100).tolist() == [100, 101, 103, 106, 110]
        for large in (128, -129, 2**63, 2**64):
            with pytest.raises(up.DTypeError):
                up.scan(x, initial=large)
    x = np.arange(3.0)
    for number in (1, 2**62, 2**63, 5):  # beside floats, as floats
        assert up.scan((x, number), map=lambda v, w: v + w).tolist()[0] == float(number)
    x = np.zeros(3, bool)
    for number, name in ((2**63, "uint64"), (3, "int64"), (2**63, "uint64"), (-1, "int64")):
        assert up.scan((x, number), map=lambda v, w: w).dtype.name == name


FACTOR, TABLE = 2.0, np.array([2.0])


@pytest.mark.parametrize("where", ["map", "finish"])
def test_functions_that_change_are_looked_at(where, monkeypatch):
    x, held = np.ones(3), [2.0]

    def in_closure(factor):
        return lambda v: v * factor

    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        TABLE[0] = held[0] = factor
        for fn in (
            lambda v: v * FACTOR,
            in_closure(factor),
            lambda v: v * TABLE[0],
            lambda v, f=factor: v * f,
        ):
            assert up.scan(x, **{where: fn})[0] == factor


def test_shapes_and_strides_of_what_is_broadcast():
    x, y = X[:, :24].astype("f8") % 97, X[:, 10:34].astype("f8") % 89
    ways = [y, y[:1], y[:, :1], y[0], y.T, y[::-1], y[:1, :1], np.float64(3), 3.0, y[0].astype("f4")]
    for _ in range(2):
        for other in ways:
            whole = np.array(np.broadcast_to(other, x.shape))
            for axis in (0, 1):
                want = afresh(up.scan, (x, whole), axis=axis, map=lambda v, w: v * w)
                same(up.scan((x, other), axis=axis, map=lambda v, w: v * w), want)


@pytest.mark.parametrize("by", [0, 1, 40, 499, 500])
def test_outputs_over_inputs(by):
    memory = np.random.default_rng(1).normal(size=2000)
    (x, y), other = memory[:1000].reshape(2, 500), memory[1500:].copy()
    want = up.scan((x.copy(), y.copy(), 0.5), map=scaled)
    first, second = up.scan((x.copy(), y.copy()), "affine")
    for _ in range(3):
        both = memory.copy()
        up.scan((both[:500], both[500:1000], 0.5), map=scaled, out=both[by : by + 500])
        np.testing.assert_array_equal(both[by : by + 500], want)
        both = memory.copy()
        up.scan((both[:500], both[500:1000]), "affine", out=(both[by : by + 500], other))
        np.testing.assert_array_equal(both[by : by + 500], first)
        np.testing.assert_array_equal(other, second)
        both = memory.copy()
        up.linear_recurrence(0.5, both[:500], out=both[by : by + 500])
        np.testing.assert_array_equal(both[by : by + 500], up.linear_recurrence(0.5, x.copy()))
        rows = np.arange(100.0).reshape(10, 10)
        up.reduce(rows, axis=1, initial=rows[0], out=rows[0])
        np.testing.assert_array_equal(
            rows[0], up.reduce(np.arange(100.0).reshape(10, 10), axis=1, initial=np.arange(10.0))
        )
    with pytest.raises(up.OutputError):
        up.scan((x, y), "affine", out=(other, other))


@pytest.mark.parametrize("scalar", [0.5, 2, np.float64(0.25)], ids=repr)
def test_recurrences(scalar, checked):
    x, done = X[0].astype("f8") % 97, X[1] % 5 == 0
    calls = [
        lambda i: up.linear_recurrence(scalar + i, x),
        lambda i: up.linear_recurrence(x, x, initial=scalar + i),
        lambda i: up.ema(x, (scalar + i) / 16),
        lambda i: up.ema(x, 0.5, initial=scalar + i),
        lambda i: up.discounted_sum(x, scalar + i, done),
        lambda i: up.discounted_sum(x, scalar + i),
        lambda i: up.gae(x, x, float(scalar + i), done, gamma=0.5, lam=scalar + i),
    ]
    for call in calls:
        recall.forget()
        short = [call(i) for i in range(3)]
        checked.clear()
        call(7)
        assert not checked
        for i, got in enumerate(short):
            recall.forget()
            same(got, call(i))


def test_a_stream_remembers_its_pieces(checked):
    pieces = np.array_split(X[:4].ravel(), 9)
    for _ in range(2):
        checked.clear()
        stream = up.Stream(HASHED)
        got = np.concatenate([stream.push(piece) for piece in pieces])
        np.testing.assert_array_equal(got, the_long_way(X[:4].ravel(), HASHED))
    assert len(checked) == 1


@pytest.mark.parametrize("form", every(2, [*FORMS, {"exclusive": True, "initial": 3}]), ids=str)
def test_groups_are_remembered(form, checked):
    """Only their keys are looked at in every call, wherever these lie. Results that lie one item apart are checked each time."""
    how = {"axis": 1, **form}
    for k in range(3):
        keys = np.random.default_rng(k).integers(0, 2 + k, 72)[:: 1 + k % 2][:36]
        x = X + np.uint64(k)
        got = up.scan(x, HASHED, segments=up.segments.groups(keys), **how)
        out = np.zeros((24, 37), np.uint64)
        out[:, :36] = x
        y = up.scan(out[:, :36], HASHED, segments=up.segments.groups(keys), out=out[:, 1:], **how)
        for key in range(2 + k):
            want = the_long_way(x[:, keys == key], HASHED, **how)
            np.testing.assert_array_equal(got[:, keys == key], want)
            np.testing.assert_array_equal(y[:, keys == key], want)
    assert len(checked) == 2 + 3 + sum(2 + k for k in range(3))
    with pytest.raises(up.SegmentError):
        up.scan(X, HASHED, segments=up.segments.groups(np.zeros(35, int)), **how)


@pytest.mark.parametrize("kind", every(2, ["?", "u8", "M8[s]", "f8"]))
def test_remembered_groups_have_keys_of_every_kind(kind, checked):
    """Sets of rows lie apart here. Keys are near and far apart, and floats are numbered before a call that is known."""
    x = np.arange(2 * 40 * 3 * 5, dtype=np.float32).reshape(2, 40, 3, 5).transpose(2, 1, 0, 3) ** 3
    for k in range(3):
        codes = np.random.default_rng(k).integers(0, 2 + 9 * k, 40)
        keys = (codes * ((1 << 59) if k == 1 and kind[1:2] == "8" else 1)).astype(kind)
        got = up.scan(x, axis=1, reverse=True, segments=up.segments.groups(keys))
        for key in np.unique(keys):
            want = the_long_way(x[:, keys == key], "add", axis=1, reverse=True)
            np.testing.assert_array_equal(got[:, keys == key], want)
    assert sum(call[0].shape == x.shape for call in checked) == 1


def test_a_nan_among_remembered_groups():
    """The largest of floats goes item by item while no item is NaN."""
    x, keys = np.arange(3000.0), np.arange(3000) % 3
    for k in (0, 1, 0, 2):
        x[k] = np.nan if k else 0
        got = up.scan(x, "max", segments=up.segments.groups(keys))
        for key in range(3):
            same(got[keys == key], the_long_way(x[keys == key], "max"))


def test_groups_of_remembered_recurrences_and_of_results_in_one_place(checked):
    x, keys = np.arange(24.0), np.arange(24) % 3
    for k in range(2):
        got = up.linear_recurrence(0.5 + k, x, segments=up.segments.groups(keys))
        for key in range(3):
            want = afresh(up.linear_recurrence, 0.5 + k, x[keys == key])
            np.testing.assert_array_equal(got[keys == key], want)
    assert len(checked) == 1 + 6
    op = up.Operator(lambda a, b: (a[0] + b[0], a[1] * b[1]))
    outs = np.zeros(24), np.zeros(24)
    for _ in range(2):
        up.scan((x, x), op, segments=up.segments.groups(keys), out=outs)
    with pytest.raises(up.OutputError):
        up.scan((x, x), op, segments=up.segments.groups(keys), out=(outs[0], outs[0]))


def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(recall, "MOST", 5)
    for n in range(1, 20):
        assert up.scan(np.ones(n))[-1] == n
        assert 1 <= len(recall.known_calls) <= 5


def test_a_large_run_of_one_thread_is_remembered(checked):
    with up.set_threads(1):
        for k in range(3):
            x = np.random.default_rng(k).integers(0, 2**64, 2**19, dtype=np.uint64)
            same(up.scan(x, HASHED, reverse=True), the_long_way(x, HASHED, reverse=True))
    assert len(checked) == 3 + 1  # the long way each time, and the first


def test_numbers_beside_an_array_wake_no_threads(checked):
    """A run of several threads is checked each time."""
    x = np.arange(100_000.0)
    with up.set_threads(2):
        for k in range(3):
            y = up.scan((x, *[k + 0.5] * 6), map=lambda x, a, b, c, d, e, f: x + a)
            np.testing.assert_array_equal(y, up.scan(x + (k + 0.5)))
    assert len(checked) == 1 + 1  # the first with a map, and the first without


def test_threads_at_once():
    x = np.linspace(0, 1, 300)
    want = [up.scan((x, x, float(k)), map=scaled, threads=1) for k in range(8)]
    wrong = []

    def work(k):
        got = [up.scan((x, x, float(k)), map=scaled) for _ in range(300)]
        wrong.extend(k for y in got if y.tobytes() != want[k].tobytes())

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64", "int64"])
def test_tensors_on_the_host(name, checked):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    up.scan(torch.zeros(1))  # the type is known from now on
    for i in range(3):
        x = torch.arange(i, 60 + i).reshape(6, 10).to(dtype)
        checked.clear()
        got = up.scan(x, axis=1)
        assert len(checked) == (i == 0)
        assert torch.equal(got, afresh(up.scan, x, axis=1))
        out = torch.zeros_like(x)
        assert up.scan(x, axis=1, out=out) is out
        assert torch.equal(out, got)
        assert torch.equal(up.scan(x.T, axis=0), got.T)
        total = up.reduce((x, 2), axis=1, map=scaled_once)
        assert torch.equal(total, afresh(up.reduce, (x, 2), axis=1, map=scaled_once))
        if dtype.is_complex:
            assert torch.equal(
                up.scan((x * 1j).conj(), axis=1), up.scan((x * 1j).conj().resolve_conj(), axis=1)
            )
        if dtype.is_floating_point:
            followed = up.scan(x.clone().requires_grad_(), axis=1)
            assert followed.requires_grad
            assert torch.equal(followed.detach(), got)


def scaled_once(x, factor):
    return x * factor


def test_the_first_array_of_a_library_is_remembered_by_prepared(checked, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delitem(LIKENESS, torch.Tensor, raising=False)
    running = up.prepared(torch.zeros(4))
    assert running(torch.ones(4)).tolist() == [1, 2, 3, 4]
    assert len(checked) == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "xarray"])
def test_a_call_with_labels_is_one_of_its_items(library, checked):
    made = {"pandas": "Series", "polars": "Series", "pyarrow": "array", "xarray": "DataArray"}[library]
    labelled = getattr(pytest.importorskip(library), made)
    for x in X[:2]:
        for finish in (None, lambda prefix: (prefix, prefix + 1)):
            got, want = (up.scan(each, "add", initial=2, finish=finish) for each in (labelled(x), x))
            for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (got, want)], strict=True):
                assert library == "pyarrow" or type(a) is type(labelled(x))
                np.testing.assert_array_equal(a, b)
            assert up.reduce(labelled(x)) == up.reduce(x)
    assert len(checked) == 3


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_large_results_lie_in_memory_that_was_cleared(layout, checked, monkeypatch):
    """Each time, in every component, before results are written there."""
    cleared, clear = [], engine._cleared
    monkeypatch.setattr(engine, "NEW", 1)
    monkeypatch.setattr(engine, "CLEARING", np.inf)
    monkeypatch.setattr(engine, "HUGE", 16)
    monkeypatch.setattr(engine, "_cleared", lambda y: cleared.append(y) or clear(y))
    for times in (1, 2, 3):
        x = layout(np.random.default_rng(times).integers(0, 2**64, X.shape, dtype=np.uint64))
        y = up.scan(x, HASHED, axis=1)
        assert len(cleared) == times
        assert y is cleared[-1]
        assert y.flags.f_contiguous == np.empty_like(x).flags.f_contiguous
        np.testing.assert_array_equal(y, oracle(HASH.arrays, (x,), axis=1)[0])
    assert len(checked) == 1
    cleared.clear()
    for times in (1, 2, 3):
        ys = up.scan((X / 2.0**64, X / 2.0**63), "affine", axis=0)
        assert len(cleared) == 2 * times
        assert all(y is z for y, z in zip(ys, cleared[-2:], strict=True))
