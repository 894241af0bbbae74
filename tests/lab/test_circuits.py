"""The network of a run is recognised by name, with the sizes, depths and fan-outs of the literature."""

from collections import Counter

import pytest
from printed import figure_11_6

from upsweep import lab
from upsweep.lab.intervals import flaw, join, spoken
from upsweep.lab.networks import families, nodes_of
from upsweep.textbook import KERNELS, circuits
from upsweep.textbook.formulas import fibonacci, harris_work, ks_work, lf_work

POWERS = [8, 16, 32, 64, 128, 256, 512, 1024]


def size(levels):
    return sum(map(len, levels))


def depth(levels, n):
    """The longest path, where every node runs as soon as it can."""
    return max(
        circuits.evaluate(
            [[(s, t)] for level in levels for s, t in level], lambda a, b: 1 + max(a, b), [0] * n
        )
    )


@pytest.mark.parametrize("n", POWERS)
def test_sizes_and_depths(n):
    lg = n.bit_length() - 1
    assert (size(circuits.serial(n)), depth(circuits.serial(n), n)) == (n - 1, n - 1)
    assert (size(circuits.sklansky(n)), depth(circuits.sklansky(n), n)) == (n // 2 * lg, lg)
    assert (size(circuits.kogge_stone(n)), len(circuits.kogge_stone(n))) == (n * lg - n + 1, lg)
    assert (size(circuits.brent_kung(n)), len(circuits.brent_kung(n))) == (2 * n - 2 - lg, 2 * lg - 1)
    assert depth(circuits.brent_kung(n), n) == 2 * lg - 2
    assert (size(circuits.han_carlson(n)), len(circuits.han_carlson(n))) == (n // 2 * lg, lg + 1)
    for sp in range(1, lg):
        levels = circuits.han_carlson(n, 1 << sp)
        assert size(levels) == harris_work(n, sp, 0)
        assert len(levels) == lg + sp
    for k in range(4):
        levels = circuits.ladner_fischer(n, k)
        assert size(levels) == lf_work(n, k) == 2 * n + (2 * n >> k) - fibonacci(5 + lg - k) - k + 1
        assert depth(levels, n) <= lg + k
        assert len(levels) == depth(levels, n)


@pytest.mark.parametrize("n", POWERS[:5])
def test_harris_taxonomy(n):
    """(l, f, t): l levels more than the least, a fan-out of 2^f + 1 as issued, 2^t tracks. The corners have other names."""
    lg = n.bit_length() - 1
    for sparse in range(lg):
        for wide in range(lg - sparse):
            levels = circuits.harris(n, sparse, wide)
            tracks = lg - 1 - sparse - wide
            assert len(levels) == lg + sparse
            assert size(levels) == harris_work(n, sparse, wide)
            assert circuits.evaluate(levels, lambda a, b: a + b, [(k,) for k in range(n)])[-1] == tuple(
                range(n)
            )
            readers = max(max(Counter(s for s, _ in level).values()) for level in levels)
            assert readers + 1 == 2**wide + 1
            across = max(len({s for s, t in level if s <= k < t}) for level in levels for k in range(n))
            assert across == 2**tracks
    assert circuits.harris(n, lg - 1, 0) == circuits.brent_kung(n)
    assert circuits.harris(n, 0, lg - 1) == circuits.sklansky(n)
    assert circuits.harris(n, 0, 0) == circuits.kogge_stone(n)
    assert circuits.harris(n, 1, 0) == circuits.han_carlson(n)


@pytest.mark.parametrize("n", [4, 7, 16, 33])
def test_snir(n):
    for name, levels in families(n):
        assert size(levels) + depth(levels, n) >= 2 * n - 2, name


@pytest.mark.parametrize("fans", [[1, 1, 1, 1], [2, 1, 1, 1], [4, 2, 1, 1], [8, 4, 2, 1]])
def test_knowles_needs_idempotence(fans):
    x = list(range(1, 17))
    levels = circuits.knowles(16, fans)
    assert size(levels) == ks_work(16)
    sums = circuits.evaluate(levels, lambda a, b: a + b, x)
    assert (sums == [k * (k + 1) // 2 for k in x]) == (fans == [1, 1, 1, 1])
    assert circuits.evaluate(levels, max, x) == x
    if fans == [1, 1, 1, 1]:
        assert nodes_of(levels, 16) == nodes_of(circuits.kogge_stone(16), 16)


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items() if row.family])
def test_recognised(name):
    for n in (16, 32, 64, 100):
        wanted = KERNELS[name].family
        got = lab.identify(lab.trace(name, n=n)).name
        assert got is not None
        assert got == wanted or got.startswith((f"{wanted} [", f"{wanted} (")), n


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kogge-stone", "Kogge-Stone 16: size 49, depth 4, fan-out 2, deficiency 23"),
        ("sklansky", "Sklansky 16: size 32, depth 4, fan-out 9, deficiency 6"),
        ("brent-kung", "Brent-Kung 16: size 26, depth 6 (7 levels as issued), fan-out 2, deficiency 2"),
        ("sequential", "serial 16: size 15, depth 15, fan-out 2, deficiency 0"),
        ("ladner-fischer-1", "Ladner-Fischer P1 16: size 27, depth 5, fan-out 6, deficiency 2"),
        ("han-carlson", "Han-Carlson 16: size 32, depth 5, fan-out 2, deficiency 7"),
        ("harris", "Harris (1, 1, 1) 16: size 29, depth 5, fan-out 3, deficiency 4"),
    ],
)
def test_identity_cards(name, text):
    assert lab.identify(lab.trace(name, n=16)).text == text


def test_fan_out_of_brent_kung():
    for n in POWERS[:5]:
        card = lab.identify(lab.trace("brent-kung", n=n))
        assert card.fan_out == 2
        # log2 n + 1.
        assert card.asap_fan_out == n.bit_length()


@pytest.mark.parametrize("n", [8, 16, 64])
def test_fan_out_of_sklansky(n):
    assert lab.identify(lab.trace("sklansky", n=n)).fan_out == n // 2 + 1


def test_unnamed():
    assert lab.identify(lab.trace("three-phase", n=16)).name is None
    for name in ("vector-reduction", "segmented"):
        assert lab.identify(lab.trace(name, n=16)).deficiency is None
    stuck = lab.trace("domino", n=16, block=4, resident=2, issue="descending")
    assert lab.identify(stuck).deficiency is None


def test_figure_11_6():
    """The range table of the reverse tree: x0..x11, then 5, 9 and 13, then the even ones, XY[14] among them."""
    after_reduction, *levels = figure_11_6()
    assert after_reduction[15] == ((0, 15),)
    assert after_reduction[11] == ((8, 11),)
    now_complete = [{k for k in range(16) if words[k] == ((0, k),)} for words in (after_reduction, *levels)]
    assert now_complete[0] == {0, 1, 3, 7, 15}
    assert now_complete[1] - now_complete[0] == {11}
    assert now_complete[2] - now_complete[1] == {5, 9, 13}
    assert now_complete[3] - now_complete[2] == {2, 4, 6, 8, 10, 12, 14}


@pytest.mark.parametrize("n", [8, 16, 31])
def test_invariant_of_kogge_stone(n):
    """After k levels a word holds at most 2^k inputs, ending at its own (PMPP; notes on scan kernels)."""
    for k, state in enumerate(lab.provenance(lab.trace("kogge-stone", n=n))):
        for i in range(n):
            wanted = (max(0, i - 2**k + 1), i)
            assert state.words.get(f"xy[{i}]", ((0, i),)) == (wanted,) or k >= n.bit_length()


def test_provenance_names_flaws():
    states = lab.provenance(lab.trace("ks-in-place"))
    assert {f for state in states for f in state.flaws.values()} == {"overlap"}
    states = lab.provenance(lab.trace("wrong-order"))
    assert "order" in {f for state in states for f in state.flaws.values()}


def test_what_a_kernel_asks_for_is_no_flaw():
    """A rectangle of a table is no stretch of the input, and neither is half of a vector: both are as they should be."""
    for name in ("vector-reduction", "summed-area-table", "box-sums"):
        t = lab.trace(name, n=16)
        assert any(len(ranges) > 1 for ranges in t.intervals)
        assert not any(state.flaws for state in lab.provenance(t))
        assert "flaw" not in {mark.kind for mark in lab.network(t).marks}
    twice = lab.trace("knowles", n=16, op="max")
    assert {flaw(ranges) for ranges in twice.intervals} == {None, "overlap"}
    assert "flaw" not in {mark.kind for mark in lab.network(twice).marks}


def test_ranges():
    assert join(((0, 3),), ((4, 5),)) == ((0, 5),)
    assert join((), ((4, 5),)) == ((4, 5),)
    assert [flaw(r) for r in (((0, 3),), ((0, 3), (5, 6)), ((0, 3), (2, 6)), ((2, 3), (0, 1)))] == [
        None,
        "gap",
        "overlap",
        "order",
    ]
    assert spoken(((0, 3), (5, 5))) == "x0..x3 x5"
    assert spoken(()) == "e"


def test_laws():
    needs = {name: str(lab.laws(lab.trace(name, n=16))) for name in KERNELS}
    assert needs["sequential"] == "none"
    assert needs["sequential-exclusive"] == "identity"
    assert needs["brent-kung"] == "associative"
    assert needs["blelloch"] == "associative, identity"
    assert needs["vector-reduction"] == "associative, commutative"
    assert needs["knowles"] == "associative, idempotent"


def test_laws_by_probes():
    """The same circuits, seen in values: letters show the order, a sum shows what is taken twice."""
    x = list(range(1, 17))
    assert lab.trace("vector-reduction", x=[chr(96 + k) for k in x], op=lambda a, b: a + b).values != [
        "abcdefghijklmnop"
    ]
    assert lab.trace("knowles", x=x).values != [k * (k + 1) // 2 for k in x]
    assert lab.trace("knowles", x=x, op="max").values == x


def test_comparison():
    c = lab.compare(lab.trace("brent-kung", n=16), "kogge-stone")
    assert c.rows["work"] == (26, 49)
    assert not c.same_network
    assert lab.compare(lab.trace("brent-kung", n=16), "blelloch-inclusive").same_network


def test_pictures(tmp_path):
    pytest.importorskip("PIL")
    t = lab.trace("brent-kung", n=16)
    picture = lab.network(t)
    assert picture.svg(tmp_path / "a.svg").count("<circle") == 26
    assert t._repr_svg_() == (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert picture.png(tmp_path / "a.png").startswith(b"\x89PNG")
    assert (tmp_path / "a.png").stat().st_size > 5000
    assert "flaw" in "".join(m.kind for m in lab.network(lab.trace("ks-in-place")).marks)
