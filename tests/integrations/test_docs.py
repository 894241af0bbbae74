"""Every snippet of the documentation runs and prints what it says. The pictures are those of their scripts."""

from __future__ import annotations

import doctest
import functools
import itertools
import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import apps

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("applications/*.md")])
NEEDS = {"frameworks.md": ("torch", "jax", "dask"), "returns.md": ("torch",), "gpus.md": ("torch",)}
NEEDS |= {"training.md": ("torch", "jax"), "serving.md": ("torch",)}
NEEDS["phrasebook.md"] = ("pandas", "polars", "xarray")
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)
SNIPPET = re.compile(r"^```(?:python|pycon)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", every(4, PAGES), ids=lambda p: str(p.relative_to(DOCS)))
@pytest.mark.filterwarnings("default")
def test_snippets_run(page):
    for name in NEEDS.get(page.name, ()):
        pytest.importorskip(name)
    names: dict = {}
    snippets = SNIPPET.findall(page.read_text(encoding="utf-8"))
    for number, snippet in enumerate(snippets):
        if ">>>" not in snippet:
            exec(compile(snippet, f"{page.name}, snippet {number}", "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(snippet, names, page.name, str(page), 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        assert not runner.failures, "".join(report)
        names = test.globs


def test_every_example_stands_in_a_snippet():
    """The pages of the course and of the applications. The test of all pages checks them."""
    counts = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        counts[str(page.relative_to(DOCS))] = len(re.findall(r"^>>> ", text, re.MULTILINE))
        assert counts[str(page.relative_to(DOCS))] == sum(
            s.count("\n>>> ") for s in map("\n{}".format, SNIPPET.findall(text))
        )
    assert counts["course.md"] >= 5
    assert counts["applications/index.md"] >= 5
    assert sum(bool(SNIPPET.search(p.read_text(encoding="utf-8"))) for p in PAGES) >= 9


def test_pictures_are_those_of_the_script():
    for name, svg in runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"].items():
        assert (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == svg, (
            "run python docs/pictures.py"
        )


def test_every_function_is_in_every_place_or_says_why_not():
    for name in ("torch", "jax", "dask"):
        pytest.importorskip(name)
    table = runpy.run_path(str(DOCS / "places.py"))
    there, why_not = table["places"](), table["WHY_NOT"]
    for place in table["MODULES"]:
        for name in table["FUNCTIONS"]:
            assert ((place, name) in there) != ((place, name) in why_not), (place, name)
    for functions in table["IN_CHUNKS"].values():
        assert set(functions) == set(table["FUNCTIONS"])
    said = {tuple(names.partition(" in ")[::2]) for names in table["WITHOUT_SEGMENTS"]}
    for (place, name), function in there.items():
        lacking = any(name in names.split(", ") and where in ("", place) for names, where in said)
        assert table["takes_segments"](function) != lacking, (place, name)
    assert "| `gae` | yes | yes | yes |" in table["page"]()


def test_every_layer_is_in_both_libraries():
    modules = [pytest.importorskip(f"upsweep.{name}") for name in ("torch", "jax")]
    layers = runpy.run_path(str(DOCS / "places.py"))["LAYERS"]
    for module in modules:
        assert {name for names in layers for name in names} == set(module.layers.__all__)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_both_sides_of_the_phrasebook_give_the_same_numbers():
    page = (DOCS / "phrasebook.md").read_text(encoding="utf-8")
    rows = ROW.findall(page)
    assert len(rows) == len(re.findall("^[|] `", page, re.MULTILINE)) >= 30
    names = {name: pytest.importorskip(name) for name in ("pandas", "polars", "scipy", "torch", "jax")}
    x, k = np.random.default_rng(0).random(60) + 0.5, np.arange(60) * 7 % 5
    # Uneven gaps.
    times = np.datetime64("2026-01-01", "us") + np.cumsum(k * 7200).astype("m8[s]")
    from jax import lax

    import upsweep.jax as uj
    import upsweep.polars  # noqa: F401 (its accessor)
    import upsweep.torch as ut

    names |= {
        "itertools": itertools, "functools": functools, "math": math,
        "np": np, "up": up, "ut": ut, "uj": uj, "lax": lax, "jnp": names["jax"].numpy, "x": x, "xs": x.reshape(6, 10),
        "k": k, "times": times, "s": names["pandas"].Series(x), "t": names["torch"].tensor(x),
        "j": names["jax"].numpy.asarray(x), "pl": names["polars"],
        "f": names["polars"].DataFrame({"v": x, "k": k, "day": times}),
    }  # fmt: skip
    for theirs, ours in rows:
        got, want = (np.asarray(eval(text, names)) for text in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=f"{theirs} and {ours}")
    for ours in re.findall(r"^\| \w[^`\n]*\| `(.+?)` \|$", page, re.MULTILINE):
        eval(ours, names)


def test_every_application_has_a_page_that_shows_it():
    pages = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    shown = {name for name in apps.__all__ if re.search(rf"(?:apps|up|ut)\.{name}\(", pages)}
    assert set(apps.__all__) - shown == {"CompressionError", "Lexer", "json_lexer", "quicksort"}


def test_every_cost_that_a_page_asks_for_is_measured():
    """A row is found by the beginning of its name; a page that asks for another one would show none."""
    pages = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    folder = DOCS.parent / "benchmarks"
    races = "".join(p.read_text(encoding="utf-8") for p in folder.glob("*apps.py"))
    races += (folder / "gpu_races.py").read_text(encoding="utf-8")
    for asked in re.findall(r"<!-- the cost of (.*?) -->", pages):
        for name in asked.split(", "):
            assert re.search(rf'Race\(\s*f?"{re.escape(name)}', races), name


def test_the_reference_lists_every_public_name():
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    one_by_one = set(re.findall(r"^::: upsweep\.(\w+)$", page, re.MULTILINE))
    as_a_whole = re.findall(r"^<!-- every name of upsweep\.([\w.]+) -->$", page, re.MULTILINE)
    assert set(up.__all__) <= one_by_one | set(as_a_whole)
    assert {"apps", "lab", "lab.simulate", "textbook", "torch", "torch.distributed", "jax", "dask"} == set(
        as_a_whole
    )


def test_each_picture_of_an_application_is_drawn_from_its_page():
    folder = DOCS / "applications"
    drawn = runpy.run_path(str(folder / "pictures.py"))["PICTURES"]
    assert {p.stem for p in folder.glob("*.png")} == set(drawn)
    for name in drawn:
        assert f"]({name}.png)" in (folder / f"{name}.md").read_text(encoding="utf-8")
