"""Strings, polynomials, tridiagonal systems, long integers and trees against their sequential definitions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

import upsweep as up
from upsweep import apps
from upsweep.apps import kinds, moving

RNG = np.random.default_rng(8)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text("ab\0é😀", max_size=6), st.text("ab\0é😀", max_size=6)), max_size=10))
def test_strings_compare_as_in_python(pairs):
    want = [(a > b) - (a < b) for a, b in pairs]
    assert apps.compare_strings([a for a, _ in pairs], [b for _, b in pairs]).tolist() == want
    raw = [(a.encode(), b.encode()) for a, b in pairs]
    want = [(a > b) - (a < b) for a, b in raw]
    assert apps.compare_strings([a for a, _ in raw], [b for _, b in raw]).tolist() == want


def test_long_strings_and_arrays_of_codes(apps):
    a = RNG.integers(0, 256, (5, 200_001)).astype(np.uint8)
    b = a.copy()
    b[1, -1], a[1, -1], b[2, 0], a[2, 0], b[3, 100_000], a[3, 100_000] = 1, 0, 0, 1, 2, 1
    assert apps.compare_strings(a, b).tolist() == [0, -1, 1, -1, 0]
    with pytest.raises(up.ShapeError):
        apps.compare_strings(a, b[:, :5])


def test_strings_in_columns_of_tables():
    words, others = ["a", "b", "b"], ["b", "b", "a"]
    for library, kind in (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "array")):
        column = getattr(pytest.importorskip(library), kind)
        assert apps.compare_strings(column(words), column(others)).tolist() == [-1, 0, 1]


def test_arrays_of_strings():
    assert apps.compare_strings(np.array(["a", "b"]), np.array(["b", "a"])).tolist() == [-1, 1]
    words, others = ["a", "b", "b"], ["b", "b", "a"]
    for kind in (lambda x: np.array(x, object), lambda x: np.array(x, np.dtypes.StringDType())):
        assert apps.compare_strings(kind(words), kind(others)).tolist() == [-1, 0, 1]
        assert apps.compare_strings(kind(words), others).tolist() == [-1, 0, 1]
    plane = np.array([words, others], object)
    assert apps.compare_strings(plane, plane[::-1]).tolist() == [[-1, 0, 1], [1, 0, -1]]
    for a in (["a"], np.array(["a"]), np.array(["a"], object)):
        for b in ([b"a"], np.array([b"a"]), np.array([None], object)):
            with pytest.raises(TypeError, match="str is compared with str"):
                apps.compare_strings(a, b)
    with pytest.raises(up.ShapeError):
        apps.compare_strings(["a"], ["a", "b"])


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("kind", [list, lambda x: np.array(x, object)])
def test_a_missing_string_is_not_compared(kind, missing):
    words = kind(["a", missing])
    with pytest.raises(TypeError, match="none may be missing: here are"):
        apps.compare_strings(words, words)


@pytest.mark.parametrize("codes", [[None, 1], [1.5, 2.0]])
def test_codes_of_strings_are_integers(codes):
    with pytest.raises(up.DTypeError):
        apps.compare_strings(codes, codes)


@settings(max_examples=25)
@given(st.integers(0, 2**200), st.integers(0, 2**200))
@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_long_integers_add(apps, dtype, x, y):
    if not apps.takes(dtype):
        pytest.skip("this library only stores these")
    width = np.dtype(dtype).itemsize
    digits = [np.frombuffer(v.to_bytes(32, "little"), dtype) for v in (x, y)]
    got = apps.carry_lookahead_add(*digits)
    assert got.dtype == dtype
    assert int.from_bytes(got.tobytes(), "little") == x + y
    assert len(got) == 32 // width + 1


def test_a_carry_runs_all_the_way(apps):
    ones, one = np.full((2, 100_000), 255, np.uint8), np.zeros((2, 100_000), np.uint8)
    one[1, 0] = 1
    got = apps.carry_lookahead_add(ones, one)
    np.testing.assert_array_equal(got[0, :-1], ones[0])
    np.testing.assert_array_equal(got[1], np.arange(100_001) == 100_000)
    for a, b, error in [
        (ones.view(np.int8), one.view(np.int8), up.DTypeError),
        (ones, ones[:1], up.ShapeError),
        (ones, ones.view(np.int8), up.DTypeError),
    ]:
        with pytest.raises(error):
            apps.carry_lookahead_add(a, b)


@pytest.mark.parametrize("degree", [0, 1, 2, 7, 1000])
def test_polynomials_are_numpys(apps, degree):
    p, x = RNG.standard_normal(degree + 1), RNG.uniform(-1, 1, (3, 4))
    np.testing.assert_allclose(apps.polyval(p, x), np.polyval(p, x), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(apps.polyval(p, 0.5), np.polyval(p, 0.5), rtol=1e-12, atol=1e-14)
    # From so many items on, the scan is in order.
    points = RNG.uniform(-1, 1, degree + 1)
    np.testing.assert_array_equal(apps.polyval(p, points), np.polyval(p, points))
    many = RNG.standard_normal((degree + 1, 4))
    want = np.stack([np.polyval(many[:, k], x[:, k]) for k in range(4)], 1)
    np.testing.assert_allclose(apps.polyval(many, x), want, rtol=1e-9, atol=1e-11)
    assert apps.polyval(np.array([1, 2]), [3]).tolist() == [5.0]


@pytest.mark.dear
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int16"])
@pytest.mark.parametrize("shape", [(40,), (513,), (3, 700), (2000,)])
def test_polynomials_at_many_points_have_the_bits_of_the_loop(dtype, shape):
    p, x = ((RNG.standard_normal(s) * 2).astype(dtype) for s in ((40,), shape[::-1]))
    x = x.T
    h = np.broadcast_to(p[0], x.shape).astype(np.result_type(dtype, "float64" if dtype == "int16" else dtype))
    for c in p[1:]:
        h = h * x + c
    items = [np.broadcast_to(v, (40, *x.shape)).astype(h.dtype) for v in (x, p.reshape(-1, *[1] * x.ndim))]
    scanned = up.reduce(tuple(items), "affine", axis=0, order="sequential")[1]
    got = apps.polyval(p, x)
    assert got.dtype == h.dtype
    np.testing.assert_array_equal(got, scanned)
    if not np.iscomplexobj(h):  # whose products NumPy fuses on some processors
        np.testing.assert_array_equal(got, h)


def test_no_polynomial_is_refused():
    with pytest.raises(up.ShapeError):
        apps.polyval([], 1.0)
    with pytest.raises(up.ShapeError):
        apps.polyval(np.ones((2, 3)), np.ones(4))


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 100_000])
def test_tridiagonal_systems_are_lapacks(apps, n, order):
    a, c, d = RNG.standard_normal((3, n))
    b = np.abs(a) + np.abs(c) + RNG.random(n) + 0.01
    bands = np.stack([np.roll(c, 1), b, np.roll(a, -1)])
    want = linalg.solve_banded((1, 1), bands, d) if n > 1 else d / b
    np.testing.assert_allclose(
        apps.solve_tridiagonal(a, b, c, d, order=order), want, rtol=1e-9, atol=1e-11 * np.abs(want).max()
    )
    if n < 10:
        return
    batch = apps.solve_tridiagonal(a, b, c, np.stack([d, 2 * d]), order=order)
    np.testing.assert_allclose(batch[1], 2 * want, rtol=1e-9, atol=1e-11 * np.abs(want).max())


def test_poisson_in_one_dimension():
    n = 4095
    x = apps.solve_tridiagonal(-1.0, 2.0, -1.0, np.full(n, 1 / (n + 1) ** 2))
    s = np.arange(1, n + 1) / (n + 1)
    np.testing.assert_allclose(x, s * (1 - s) / 2, rtol=1e-8)
    assert apps.solve_tridiagonal(1.0, 1.0, 1.0, []).shape == (0,)
    with pytest.raises(up.ShapeError):
        apps.solve_tridiagonal(np.ones(3), 1.0, 1.0, np.ones(4))
    for refuse in (apps.solve_tridiagonal, apps.hmm_forward, apps.viterbi):
        with pytest.raises(ValueError, match="order='loop': pass one of 'tree', 'sequential'"):
            refuse(*[np.ones(3)] * (4 if refuse is apps.solve_tridiagonal else 3), order="loop")


def sequential_tree(parents):
    n = len(parents)
    children = [[v for v in range(n) if parents[v] == p] for p in range(n)]
    depths, pre, post, sizes = ([0] * n for _ in range(4))
    clocks = [0, 0]

    def visit(v, depth):
        depths[v], pre[v] = depth, clocks[0]
        clocks[0] += 1
        sizes[v] = v + 1 + sum(visit(c, depth + 1) for c in children[v])
        post[v] = clocks[1]
        clocks[1] += 1
        return sizes[v]

    for v in range(n):
        if parents[v] < 0:
            visit(v, 0)
    return depths, pre, post, sizes


@st.composite
def forests(draw):
    n = draw(st.integers(0, 25))
    names = draw(st.permutations(range(n)))
    parents = [-1] * n
    for k in range(n):
        above = draw(st.integers(-1, k - 1))
        parents[names[k]] = names[above] if above >= 0 else -1
    return parents


@settings(max_examples=30)
@given(forests())
def test_trees_are_toured_as_by_recursion(apps, parents):
    tree = apps.Tree(np.array(parents, np.int32))
    weights = np.arange(1, len(parents) + 1)
    got = tree.depths(), tree.preorder(), tree.postorder(), tree.subtree_sums(weights)
    assert tuple(v.tolist() for v in got) == sequential_tree(parents)
    np.testing.assert_array_equal(tree.subtree_sums(weights / 4), got[3] / 4)


@settings(max_examples=25)
@given(forests())
def test_parentheses_spell_their_tree(apps, parents):
    text = np.full(2 * len(parents), ")", "U1")
    tree = apps.Tree(np.array(parents, int))
    text[tree.opens] = "("
    spelt = apps.Tree.from_parentheses(text == "(")
    assert up.apps.Tree.from_parentheses("".join(text)).opens.tolist() == spelt.opens.tolist()
    renamed = tree.preorder()
    np.testing.assert_array_equal(spelt.depths()[renamed], tree.depths())
    np.testing.assert_array_equal(spelt.postorder()[renamed], tree.postorder())


def test_deep_and_wide_trees(apps):
    n = 100_000
    chain = apps.Tree(np.arange(-1, n - 1))
    np.testing.assert_array_equal(chain.depths(), np.arange(n))
    np.testing.assert_array_equal(chain.subtree_sums(np.ones(n, int)), np.arange(n, 0, -1))
    star = np.zeros(n, int)
    star[0] = -1
    np.testing.assert_array_equal(apps.Tree(star).preorder(), np.arange(n))


def kinds_of_trees(n):
    order, nodes = RNG.permutation(n), np.arange(n)
    recursive = np.array([RNG.integers(0, v) if v else -1 for v in range(n)])
    mixed = np.empty(n, int)
    mixed[order] = np.where(recursive < 0, -1, order[recursive])
    path = np.empty(n, int)
    path[order] = np.append(-1, order[:-1])
    return {
        "path": nodes - 1, "path back": np.where(nodes == n - 1, -1, nodes + 1), "path anywhere": path, "recursive": recursive,
        "anywhere": mixed, "forest": np.where(RNG.random(n) < 0.1, -1, recursive), "legs": np.maximum(nodes - 3, nodes // 2 - 1),
    }  # fmt: skip


@pytest.mark.parametrize("n", [300, 5000, 270_001])
def test_trees_of_every_kind(apps, n):
    for name, parents in kinds_of_trees(n).items():
        tree = apps.Tree(parents)
        depths, opens, closes = tree.depths(), tree.opens, tree.closes
        below = parents >= 0
        np.testing.assert_array_equal(depths[~below], 0, name)
        np.testing.assert_array_equal(depths[below], depths[parents[below]] + 1, name)
        np.testing.assert_array_equal(np.sort(np.concatenate([opens, closes])), np.arange(2 * n), name)
        assert (opens[parents[below]] < opens[below]).all()
        assert (closes[below] < closes[parents[below]]).all()
        sizes = (closes - opens + 1) // 2
        np.testing.assert_array_equal(tree.subtree_sums(np.ones(n, int)), sizes, name)
        older = np.lexsort([np.arange(n), parents])
        together = np.flatnonzero(parents[older[1:]] == parents[older[:-1]])
        np.testing.assert_array_equal(opens[older[together + 1]], closes[older[together]] + 1, name)


def links_that_lead_anywhere(n):
    yield from kinds_of_trees(n).values()
    yield RNG.integers(-3, n + 3, n)
    yield np.where(np.arange(n) < n // 2, RNG.integers(0, max(1, n // 2), n), np.arange(n) - 1)
    yield np.roll(np.arange(n), 1)
    # Nearly all lead one way, so that others meet what a sweep has found.
    anywhere = np.where(np.arange(n) % 17 == 13, RNG.integers(-3, n + 3, n), np.arange(n) - 1)
    yield anywhere
    yield np.where((anywhere < 0) | (anywhere >= n), anywhere, n - 1 - anywhere)[::-1]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 200])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_links_are_followed_to_their_ends(apps, dtype, n):
    for links in links_that_lead_anywhere(n):
        want = []
        for at in range(n):
            steps = 0
            while 0 <= at < n and steps <= n:
                at, steps = links[at], steps + 1
            want.append(steps - 1 if at == -1 else -1)
        with apps.kind.patched():
            xp, (given,), _ = kinds.enter(apps.kind.make(links.astype(dtype)))
            got = kinds.host(moving.distances(xp, given))
        assert got.dtype == np.int64
        assert got.tolist() == want


def test_a_tree_keeps_the_parents_that_it_was_given():
    parents = np.array([-1, 0, 1])
    tree = up.apps.Tree(parents)
    parents[:] = [-1, 0, 0]
    assert tree.preorder().tolist() == [0, 1, 2]
    assert tree.subtree_sums([1, 1, 1]).tolist() == [3, 2, 1]


def test_weights_are_summed_in_the_widest_dtype_of_their_kind(apps):
    tree = apps.Tree(np.array([-1, 0, 0]))
    for weights in ([1j, 2 + 1j, 3], [0.5, 1, 2], [True, True, True], np.array([1, 2, 3], np.int8)):
        weights = np.array(weights)
        assert tree.subtree_sums(weights).tolist() == [weights.sum(), weights[1], weights[2]]


def test_large_and_narrow_weights():
    tree = up.apps.Tree([-1, 0])
    sums = tree.subtree_sums(np.array([1, 2**63], np.uint64))
    assert sums.dtype == np.uint64
    assert sums.tolist() == [2**63 + 1, 2**63]
    assert tree.subtree_sums(np.array([1.5, 2], ml_dtypes.bfloat16)).tolist() == [3.5, 2]
    for weights in (["1", "2"], np.array([1, 2], "m8[s]"), [None, 1]):
        with pytest.raises(up.DTypeError, match="cannot be summed"):
            tree.subtree_sums(weights)


@pytest.mark.parametrize("parents", [[-1, 0.5], [-1.0, 0.0], ["-1", "0"], [True, False]])
def test_parents_are_integers(parents):
    with pytest.raises(up.DTypeError, match="parents are integers"):
        up.apps.Tree(parents)


def test_parentheses_are_a_text_or_truths():
    assert up.apps.Tree.from_parentheses(bytearray(b"(())")).depths().tolist() == [0, 1]
    with pytest.raises(up.DTypeError, match="spelled"):
        up.apps.Tree.from_parentheses(list("(())"))
    with pytest.raises(up.ShapeError, match="1-D"):
        up.apps.Tree.from_parentheses([[True, False]])


def test_polynomials_and_systems_are_of_numbers():
    with pytest.raises(up.DTypeError, match="pass numbers"):
        up.apps.polyval(np.array([1, 2], "m8[s]"), [1.0])
    for bands in ([[0, 1j], [2, 2], [1, 0], [1, 1]], [[0, 1], [2, 2], [1, 0], [1, 1j]]):
        with pytest.raises(up.DTypeError, match="real numbers, got complex128"):
            up.apps.solve_tridiagonal(*bands)


@pytest.mark.parametrize("parents", [[0], [1, 0], [-1, 2, 1], [5], [-2], [1, 2, 0, -1]])
def test_what_is_no_tree_is_refused(apps, parents):
    with pytest.raises(ValueError):
        apps.Tree(np.array(parents))


@pytest.mark.parametrize("text", ["(", ")", ")(", "(()", "a", "())("])
def test_unbalanced_parentheses_are_refused(text):
    with pytest.raises(ValueError):
        apps.Tree.from_parentheses(text)


def test_a_string_alone_is_no_list_of_strings():
    with pytest.raises(up.ShapeError, match=r"pass lists, \[a\] and \[b\]"):
        apps.compare_strings("apple", "apply")
