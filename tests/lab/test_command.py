"""`upsweep lab` as a command: what it refuses in one line, before anything long begins."""

import re

import pytest

pytest.importorskip("click", reason="the command needs click: pip install 'upsweep[lab]'")
from click.testing import CliRunner

from upsweep.lab.page.cli import app
from upsweep.lab.page.dials import first

KERNEL = "def mine(x, y, n):\n    t = cuda.threadIdx.x\n    y[t] = x[t]\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("brent-kung --n 0", "at least one item, not 0"),
        ("nosuch", "no kernel is called nosuch; there are sequential"),
        ("--python", "--python goes into a file: name it by --html"),
        ("--html nowhere/lab.html", "nowhere/lab.html cannot be written"),
        ("--html .", "cannot be written: it is a folder"),
        ("missing.py", "missing.py: No such file"),
        ("mine.py --like nosuch", "no kernel is called nosuch"),
        ("mine.py --expect sideways", "'sideways' is not one of"),
        ("brent-kung --op own", "your operator must be an expression"),
        ("grade missing.py", "missing.py: No such file"),
    ],
)
def test_mistakes_end_in_one_line(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(KERNEL)
    # No server is opened, and no page is written.
    for name in ("Lab", "offline", "with_python"):
        monkeypatch.setattr(f"upsweep.lab.page.cli.{name}", None)
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code in (1, 2), result.output
    assert says in result.output
    assert isinstance(result.exception, SystemExit)


def test_help_says_what_the_short_forms_do():
    said = CliRunner().invoke(app, ["--help"]).output
    assert all(
        form in said for form in ("upsweep lab brent-kung", "upsweep lab mine.py", "upsweep lab --html FILE")
    )


def test_a_long_page_says_that_it_is_being_made(tmp_path, monkeypatch):
    """Every kernel is run at a few settings, which takes minutes: one setting is enough here."""
    monkeypatch.setattr("upsweep.lab.page.html.grid", lambda one, every: [first("brent-kung")])
    result = CliRunner().invoke(app, ["--html", str(tmp_path / "lab.html")])
    assert result.exit_code == 0, result.output
    assert re.search(r"\d+ runs", result.stderr)
    assert "needs no network" in result.stdout
