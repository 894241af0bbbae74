"""An operator is what it computes: its key sees code, defaults, closure, globals and laws, and nothing else."""

import enum
import functools
import math
import operator
import pickle
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import upsweep as up
from upsweep import recall
from upsweep.arithmetic import fma
from upsweep.keys import freeze
from upsweep.operator import Operator, segmented
from upsweep.operators import BUILTIN, ROWS, as_operator
from upsweep.plan import Plan

SCALE = 2.0


def scaled(a, b):
    return a + b * SCALE


def make(constant):
    return lambda a, b: a + b * constant


def test_equal_functions_are_one_operator():
    assert Operator(make(2)) == Operator(make(2))
    assert hash(Operator(make(2))) == hash(Operator(make(2)))


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), (1, 2), ((1,), (1.0,)), (np.int8(1), np.int16(1))]
)
def test_close_constants_are_two(one, other):
    assert Operator(make(one)) != Operator(make(other))
    assert freeze(one) != freeze(other)


def test_an_edited_global_or_array_makes_another_operator():
    x = np.arange(3.0)
    global SCALE
    try:
        SCALE = 2.0
        doubled = up.scan(x, scaled)
        SCALE = 3.0
        tripled = up.scan(x, scaled)
    finally:
        SCALE = 2.0
    np.testing.assert_array_equal(doubled, [0, 2, 6])
    np.testing.assert_array_equal(tripled, [0, 3, 9])
    table = np.array([1.0])
    assert freeze(make(table)) == freeze(make(table.copy()))
    before = as_operator(make(table))
    table[0] = 5
    assert before != as_operator(make(table))


def test_operators_with_other_laws_are_others():
    times = np.array([1, "NaT", 3], "m8[s]")
    up.scan(times, Operator(lambda a, b: a + b, identity=0))
    assert np.isnat(up.scan(times, "add")[1:]).all()
    up.scan(times, Operator(lambda a, b: a * b, identity=1))
    with pytest.raises(up.OperatorError, match="not defined for timedelta"):
        up.scan(times, "mul")
    plain = Operator(scaled, 0)
    assert plain != Operator(scaled, 0, kinds="f")
    assert plain != Operator(scaled, 0, special={"f4": Operator(make(2))})
    assert Operator(scaled, 0, special={"f4": Operator(make(2))}) != Operator(
        scaled, 0, special={"f4": Operator(make(3))}
    )


def nested(a, b):
    def grown(x):
        return x * SCALE

    return a + grown(b)


@pytest.mark.parametrize(
    "fn", [nested, lambda a, b: scaled(a, b)], ids=["a function within", "a function called"]
)
def test_an_edited_global_of_an_inner_function_makes_another_operator(fn):
    global SCALE
    before = as_operator(fn)
    assert as_operator(fn) is before
    try:
        SCALE = 3.0
        assert as_operator(fn) != before
    finally:
        SCALE = 2.0


OTHER = types.ModuleType("other")
exec("def scaled(x): return x * FACTOR", vars(OTHER))


def by_keyword(factor):
    def op(a, b, *, f=factor):
        return a + b * f

    return op


def by_a_table_by_keyword(factor):
    def op(a, b, *, table=np.array([factor])):  # noqa: B008
        return a + b * table[0]

    return op


def by_a_list(factor):
    table = [factor, 5.0]
    return lambda a, b: a + b * table[0]


def by_names_of_fields(factor):
    table = np.array([(2.0, 3.0)], [(name, "f8") for name in ("fg" if factor == 2.0 else "gf")])
    return lambda a, b: a + b * table[0]["f"]


def by_a_module(factor):
    OTHER.FACTOR = factor
    return lambda a, b: a + b * OTHER.FACTOR


def by_a_function_of_a_module(factor):
    OTHER.FACTOR = factor
    return lambda a, b: a + OTHER.scaled(b)


def by_the_place_of_a_function(factor):
    def of(first, second, third):
        return lambda a, b: a + first(b) + second(b) * 0 + third(b) * 0

    return of(_twice, _thrice, _twice) if factor == 2.0 else of(_thrice, _twice, _thrice)


def by_the_last_place_of_a_function(factor):
    def of(first, second, third):
        return lambda a, b: a + first(b) * 0 + second(b) * 0 + third(b)

    return of(_twice, _thrice, _twice if factor == 2.0 else _thrice)


def _twice(x):
    return x * 2.0


def _thrice(x):
    return x * 3.0


EDITED = [
    by_keyword, by_a_table_by_keyword, by_a_list, by_names_of_fields, by_a_module, by_a_function_of_a_module,
    by_the_place_of_a_function, by_the_last_place_of_a_function,
]  # fmt: skip
COMPILED = [by_keyword, by_a_list, by_a_function_of_a_module]


@pytest.mark.parametrize(
    ("edited", "engine"), [*((e, "numpy") for e in EDITED), *((e, "cpu") for e in COMPILED)]
)
def test_all_that_an_operator_uses_is_looked_at(edited, engine):
    keys = []
    for factor in (2.0, 3.0, 2.0):
        op = edited(factor)
        keys.append(as_operator(op).key)
        assert up.scan(np.ones(3), op, engine=engine).tolist() == [1, 1 + factor, 1 + 2 * factor]
        if engine == "numpy":
            assert up.scan((np.ones(3), np.ones(3)), map=op, engine=engine)[0] == 1 + factor
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_functions_of_one_name_are_different_functions(engine):
    """math's floor gives an integer, NumPy's a float; beside integers math's pow gives a float, that of operator an integer."""

    def of(floor):
        return lambda x: floor(x)

    def power(pow):
        return lambda total, x: pow(x, 2)

    for floor, dtype in ((math.floor, int), (np.floor, float), (math.floor, int)):
        assert up.scan(np.array([1.5]), map=of(floor), engine=engine).dtype == dtype
    for pow, dtype in ((operator.pow, int), (math.pow, float), (operator.pow, int)):
        assert up.scan(np.array([3]), finish=power(pow), engine=engine).dtype == dtype


class Scaled:
    FACTOR = 2.0

    def method(self, a, b):
        return a + b * self.FACTOR

    def __call__(self, a, b):
        return a + b


class Number(float):
    pass


class Whole(enum.IntEnum):
    TWO = 2


def before_its_value():
    def op(a, b):
        return a + b * later

    for each in ():
        later = each
    return op


OBJECTS, NUMBER = np.array([2.0], object), Number(2)
REFUSED = {
    "part of a function": functools.partial(make(2), 1.0),
    "method": Scaled().method,
    "object that is called": Scaled(),
    "attribute of a class": lambda a, b: a + b * Scaled.FACTOR,
    "method of an object of C": lambda a, b, of={1: 2}.get: a + of(b),
    "function for each item": np.vectorize(make(2)),
    "ufunc of Python": np.frompyfunc(make(2), 2, 1),
    "objects": lambda a, b: a + b * OBJECTS[0],
    "number of a type of the user's": lambda a, b: a + b * NUMBER,
    "member of an enumeration": lambda a, b, of=Whole.TWO: a + b * of,
    "a variable without a value": before_its_value(),
}


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_function_without_a_key_is_refused(name, engine):
    x = np.ones(3)
    for call in ({"op": REFUSED[name]}, {"map": REFUSED[name]}):
        with pytest.raises(up.OperatorError, match=r"cannot be compiled in|before it has a value"):
            up.scan((x, x) if "map" in call else x, engine=engine, **call)


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("scope", [{}, {"__name__": None}], ids=["no name", "None"])
def test_functions_of_no_module(scope, engine):
    exec("def scaled(b): return b * 2\ndef op(a, b): return a + scaled(b)", scope)
    assert up.scan(np.ones(3), scope["op"], engine=engine).tolist() == [1, 3, 5]
    assert up.scan((np.ones(3), 1.0), map=scope["op"], engine=engine).tolist() == [3, 6, 9]


def test_a_global_may_have_the_name_of_an_attribute(monkeypatch):
    monkeypatch.setitem(globals(), "real", {})
    assert up.scan(np.ones(3), lambda a, b: a.real + b).tolist() == [1, 2, 3]


def test_types_and_functions_of_python_are_maps():
    for engine in ("cpu", "numpy"):
        made = up.scan(np.arange(3), map=float, engine=engine)
        assert made.dtype == float
        assert made.tolist() == [0, 1, 3]


def test_a_function_that_calls_itself_is_told_so():
    def op(a, b):
        return a if a > 9 else op(a + b, b)

    with pytest.raises(up.OperatorError, match="calls itself"):
        up.scan(np.ones(3), op, engine="cpu")


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_an_operator_that_changed_since_it_was_made_is_refused(engine, monkeypatch):
    held, table = Operator(scaled), np.array([2.0])
    holding = Operator(lambda a, b: a + b * table[0])
    for op in (held, holding):
        assert up.scan(np.ones(3), op, engine=engine).tolist() == [1, 3, 5]
    prepared = up.prepared(np.ones(3), scaled)
    assert prepared(np.ones(3)).tolist() == [1, 3, 5]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    table[0] = 3.0
    for op in (held, holding):
        with pytest.raises(up.OperatorError, match="has changed since the operator was made"):
            up.scan(np.ones(3), op, engine=engine)
    with pytest.raises(up.OperatorError, match="has changed since the operator was made"):
        prepared(np.ones(3))
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert up.scan(np.ones(3), held, engine=engine).tolist() == [1, 3, 5]


def test_threads_that_freeze_one_function_get_one_key():
    def deep(a, b):
        return make(2)(scaled(a, b), nested(a, b))

    want, interval = freeze(deep), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            keys = list(pool.map(lambda _: freeze(deep), range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert all(key == want for key in keys)


def test_functions_may_call_functions():
    def helper(a):
        return a * 2

    def op(a, b):
        return helper(a) + b

    np.testing.assert_array_equal(up.scan(np.array([1, 1]), op), [1, 3])


OF_OTHERS = [
    (np.gcd, "gcd"), (math.gcd, "gcd"), (np.add, "add"), (max, "maximum"), (min, "minimum"), (operator.add, "add"),
    (operator.mul, "multiply"), (operator.and_, "bitwise_and"), (operator.sub, "subtract"), (np.fmax, "fmax"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "ufunc"), OF_OTHERS, ids=str)
def test_functions_of_numpy_and_of_python(fn, ufunc):
    x = np.array([[12, 18], [4, 6], [7, 7]])
    want = getattr(np, ufunc)(x[:, 0], x[:, 1])
    np.testing.assert_array_equal(up.scan(x, fn, axis=1)[:, 1], want)
    assert as_operator(fn) is as_operator(fn)
    assert pickle.loads(pickle.dumps(as_operator(fn))) == as_operator(fn)


def test_the_identity_of_a_ufunc_is_known():
    assert up.scan([12, 18, 8], np.gcd, exclusive=True).tolist() == [0, 12, 6]
    assert up.scan([True, False, True], np.logical_xor).tolist() == [True, True, False]


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_operators_travel(name):
    op = BUILTIN[name]
    for each in (op, *op.special.values()):
        assert pickle.loads(pickle.dumps(each)) is each


def test_operators_in_any_order_have_an_instruction_on_vectors():
    for row in ROWS:
        assert bool(row.variant.free) == bool(row.variant.vector)
        for code, variant in row.variants.items():
            # The largest and the smallest float are found by their bits, unless one is NaN.
            assert bool(variant.free) == (bool(variant.vector) and code[0] != "f"), (row.name, code)


def test_a_plan_prints_compares_and_travels():
    f4 = np.dtype("f4")
    plan = Plan(up.ops.ADD, (f4,), (f4,), (f4,), (5, 6), 1)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert hash(again) == hash(plan)
    assert "axis=1" in repr(plan)
    assert (plan.n, plan.row_shape, plan.rows) == (6, (5,), 5)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_fma_rounds_once(real):
    eps = np.finfo(real).eps
    one, more, less = real(1), real(1 + eps), real(1 - eps)
    assert fma(more, less, -one) == -real(eps) * real(eps)
    assert fma(more, more, -(one + 2 * real(eps))) == real(eps) * real(eps)
    half = real(2.0 ** -(np.finfo(real).nmant + 1))
    # A tie goes to even.
    assert fma(half, one, one) == one
    assert fma(half, one, more) == one + 2 * real(eps)
    # Slightly more than a tie: 1 + half + tiny.
    assert fma(half, more, one) == more
    assert fma(half, real(1 - eps / 2), more) == more
    assert fma(real(np.finfo(real).max), one, one) == np.finfo(real).max
    assert np.signbit(fma(-one, real(0), -real(0)))
    assert type(fma(one, one, one)) is real


def test_fma_of_float32_is_not_rounded_by_way_of_float64():
    eps = np.finfo(np.float32).eps
    # Slightly less than half of c's last place.
    a, b, c = np.float32(2.0**-24) * (1 + eps), 1 - eps, 1 + eps
    assert fma(a, b, c) == c
    assert np.float32(float(a) * float(b) + float(c)) > c


@given(st.lists(st.tuples(st.booleans(), st.integers(-9, 9)), min_size=3, max_size=3))
def test_the_lifted_operator_is_associative(pairs):
    a, b, c = pairs
    lifted = segmented(up.ops.ADD).fn
    assert lifted(lifted(a, b), c) == lifted(a, lifted(b, c))


def test_the_lifted_operator_scans_segments():
    rng = np.random.default_rng(0)
    flags, x = rng.random(300) < 0.1, rng.integers(-9, 9, 300)
    _, lifted = up.scan((flags, x), segmented(up.ops.ADD))
    np.testing.assert_array_equal(lifted, up.scan(x, segments=up.segments.flags(flags)))


def test_a_prepared_scan_that_another_thread_teaches_meanwhile(monkeypatch):
    """While it learns one array, a call with such an array must not run as the calls before."""
    known, other = np.arange(4.0), np.arange(3, dtype=np.int32)
    prepared, seen = up.prepared(known), []

    remembered = recall.known

    def meanwhile(like):
        if not seen:
            seen.append(True)
            seen.append(prepared(other + 1).tolist())
        return remembered(like)

    monkeypatch.setattr(recall, "known", meanwhile)
    prepared.learn(other, None)
    assert seen == [True, [1, 3, 6]]


def test_a_prepared_scan_goes_to_another_process():
    x = np.array([[1, 3], [2, 1]])
    sent = pickle.loads(pickle.dumps(up.prepared(x, np.gcd, axis=1, exclusive=True, reverse=True)))
    for _ in range(3):
        assert sent(x).tolist() == [[3, 0], [1, 0]]
    assert sent(x[:, :1].astype(np.int8)).tolist() == [[0], [0]]


def test_an_operator_loops():
    steps = np.array([1, 2, 3], np.int8)

    def op(a, b):
        s = a
        for k in range(1, len(steps)):
            s = s * steps[k] + b
        return s

    x = np.array([3, 1, 7, 5], np.int8)
    wanted = [x[0]]
    with np.errstate(over="ignore"):
        for v in x[1:]:
            wanted.append(op(wanted[-1], v))
    for engine in ("cpu", "numpy"):
        assert up.scan(x, op, order="sequential", engine=engine).tolist() == wanted
