"""The command `upsweep lab`."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from upsweep.lab.exercises import EXERCISES
from upsweep.lab.exercises.grade import grade as graded
from upsweep.lab.page.bundle import NoPyodide
from upsweep.lab.page.dials import ISSUE, SCHEDULES, Dials, first
from upsweep.lab.page.html import known, offline, with_python
from upsweep.lab.page.items import OPERATORS
from upsweep.lab.page.own import read
from upsweep.lab.page.played import payload
from upsweep.lab.page.server import Lab

_PATH = click.Path(path_type=Path)


class _OpensKernels(click.Group):
    """`upsweep lab brent-kung` is short for `upsweep lab open brent-kung`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["open", *args]
        return super().parse_args(ctx, args)


@click.group("lab", cls=_OpensKernels)
def app() -> None:
    """Play the textbook's kernels step by step, and do the exercises.

    \b
    upsweep lab               the course, in your browser
    upsweep lab brent-kung    a kernel of the textbook, short for `upsweep lab open brent-kung`
    upsweep lab mine.py       a kernel of your own
    upsweep lab --html FILE   the page as one file; `upsweep lab open --help` lists all options
    """


@app.command("open")
@click.argument("kernel", default="")
@click.option("--html", type=_PATH, help="Write the page to this file instead, to be read offline.")
@click.option(
    "--python", is_flag=True, help="Put Python itself into that file, from npm: nothing to install."
)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser.", show_default=True)
@click.option("--n", type=int, help="Items.")
@click.option("--block", type=int, help="Threads of a block.")
@click.option("--op", help=f"The operator: {', '.join(OPERATORS)}.")
@click.option("--x", help="The items, such as '3 1 7 0 4 1 6 3'.")
@click.option("--own", help="Your operator, an expression of a and b, such as 'a * 3 + b'.")
@click.option("--like", default="", help="For your file: the textbook kernel whose launch it takes over.")
@click.option(
    "--expect",
    type=click.Choice(["inclusive", "exclusive", "reduction"]),
    default="inclusive",
    show_default=True,
    help="For your file: the result that it must give.",
)
@click.option("--schedule", help=f"Order of threads: {', '.join(SCHEDULES)}.")
@click.option("--resident", type=int, help="How many blocks are held at once.")
@click.option("--issue", help=f"Order in which blocks start: {', '.join(ISSUE)}.")
@click.option("--padding", type=int, help="The shift of padded indices, for kernels that pad them.")
def open_(
    kernel: str, html: Path | None, python: bool, browser: bool, n: int | None, block: int | None, op: str | None,
    x: str | None, own: str | None, like: str, expect: str, schedule: str | None, resident: int | None, issue: str | None,
    padding: int | None,
) -> None:  # fmt: skip
    """Show KERNEL step by step. It is shown on a page served to this machine alone, or in a file.

    KERNEL is one of the textbook, a mistake, or a file of yours: mine.py.
    """
    given = {
        "n": n,
        "block": block,
        "op": "own" if own else op,
        "x": x,
        "own": own,
        "schedule": schedule,
        "resident": resident,
        "issue": issue,
        "padding": padding,
    }
    given["n"] = len(x.replace(",", " ").split()) if n is None and x else n
    turned = {name: value for name, value in given.items() if value is not None}

    if python and html is None:
        _fail("--python goes into a file: name it by --html")
    if html is not None and (html.is_dir() or not html.parent.is_dir()):
        _fail(f"{html} cannot be written: it is a folder, or its folder is not there")

    def opening() -> Dials:
        mine = kernel.partition(":")[0].endswith(".py")
        opened = read(kernel, like and known(like), expect) if mine else first(known(kernel or "brent-kung"))
        return replace(opened, **turned)

    try:
        start = opening()
        if html is not None or not start.source:
            payload(start)
    except OSError as missing:
        _fail(_said(missing))
    except (KeyError, ValueError) as wrong:
        _fail(str(wrong.args[0]))
    if html is not None:
        try:
            size = (
                with_python(html, start, welcome=not kernel)
                if python
                else offline(html, start, not kernel, _seen)
            )
        except NoPyodide as missing:
            _fail(str(missing))
        print(f"{html}: {size / 1e6:.1f} MB, needs no network")
        return
    server = Lab(opening, welcome=not kernel)
    print(f"{server.url}\nfor you alone; ends with Ctrl-C", flush=True)
    if browser:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


@app.command()
@click.argument("number", type=int, required=False)
@click.option("--out", type=_PATH, help="Where the starter file goes; by default here, under its own name.")
def exercise(number: int | None, out: Path | None) -> None:
    """Write an exercise's starter file. Print its task; without NUMBER, list all."""
    if number is None:
        for row in EXERCISES.values():
            print(row.task.splitlines()[0])
        return
    if number not in EXERCISES:
        _fail(f"there are exercises 1 to {len(EXERCISES)}, and no {number}")
    row = EXERCISES[number]
    path = out or Path(f"{row.name}.py")
    if path.exists():
        _fail(f"{path} is there already, perhaps with your answer: choose another name with --out")
    path.write_text(row.starter, encoding="utf-8")
    print(f"{row.task}\n\nIt is in {path}. When you are done: upsweep lab grade {path}")


@app.command()
@click.argument("file", type=_PATH)
def grade(file: Path) -> None:
    """Mark FILE, an answer. Judges values, races, work and banks, names the line to blame, and fails below full marks."""
    try:
        result = graded(file)
    except OSError as missing:
        _fail(_said(missing))
    except ValueError as mistake:
        _fail(str(mistake))
    print(result)
    raise click.exceptions.Exit(0 if result.passed else 1)


def _seen(runs: Collection[Dials]) -> Iterator[Dials]:
    """Runs one by one, with a bar where somebody sees it."""
    with click.progressbar(runs, label=f"{len(runs)} runs", file=sys.stderr) as bar:
        yield from bar


def _said(missing: OSError) -> str:
    return f"{missing.filename}: {missing.strerror}"


def _fail(message: str) -> NoReturn:
    print(f"upsweep: {message}", file=sys.stderr)
    raise click.exceptions.Exit(1)
