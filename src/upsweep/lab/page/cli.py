"""The command `upsweep lab`."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import typer.core

from upsweep.lab.exercises import EXERCISES
from upsweep.lab.exercises.grade import grade as graded
from upsweep.lab.page.bundle import NoPyodide
from upsweep.lab.page.html import known, offline, with_python
from upsweep.lab.page.items import OPERATORS
from upsweep.lab.page.own import read
from upsweep.lab.page.server import Lab
from upsweep.lab.page.variants import ISSUE, SCHEDULES, Dials, first, payload


class _OpensKernels(typer.core.TyperGroup):
    """`upsweep lab brent-kung` is short for `upsweep lab open brent-kung`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["open", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_OpensKernels,
    add_completion=False,
    help="Play the textbook's kernels step by step, and do the exercises.",
)


@app.command("open")
def open_(
    kernel: Annotated[
        str, typer.Argument(help="A kernel of the textbook, a mistake, or a file of yours: mine.py.")
    ] = "",
    html: Annotated[
        Path | None, typer.Option(help="Write the page to this file instead, to be read offline.")
    ] = None,
    python: Annotated[
        bool, typer.Option("--python", help="Put Python itself into that file, from npm: nothing to install.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    n: Annotated[int | None, typer.Option(help="Items.")] = None,
    block: Annotated[int | None, typer.Option(help="Threads of a block.")] = None,
    op: Annotated[str | None, typer.Option(help=f"The operator: {', '.join(OPERATORS)}.")] = None,
    x: Annotated[str | None, typer.Option(help="The items, such as '3 1 7 0 4 1 6 3'.")] = None,
    own: Annotated[
        str | None, typer.Option(help="Your operator, an expression of a and b, such as 'a * 3 + b'.")
    ] = None,
    like: Annotated[
        str, typer.Option(help="For your file: the textbook kernel whose launch it takes over.")
    ] = "",
    expect: Annotated[
        str, typer.Option(help="For your file: what it must give: inclusive, exclusive or reduction.")
    ] = "inclusive",
    schedule: Annotated[str | None, typer.Option(help=f"Order of threads: {', '.join(SCHEDULES)}.")] = None,
    resident: Annotated[int | None, typer.Option(help="How many blocks are held at once.")] = None,
    issue: Annotated[
        str | None, typer.Option(help=f"Order in which blocks start: {', '.join(ISSUE)}.")
    ] = None,
    padding: Annotated[
        int | None, typer.Option(help="The shift of padded indices, for kernels that pad them.")
    ] = None,
) -> None:
    """Show a kernel step by step: a page served to this machine alone, or a file."""
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
    given["n"] = n or (len(x.replace(",", " ").split()) if x else None)
    turned = {name: value for name, value in given.items() if value is not None}

    def opening() -> Dials:
        mine = kernel.partition(":")[0].endswith(".py")
        opened = read(kernel, like, expect) if mine else first(known(kernel or "brent-kung"))
        return replace(opened, **turned)

    try:
        start = opening()
        if not start.source:
            payload(start)
    except (KeyError, ValueError, OSError) as wrong:
        _fail(str(wrong.args[0]) if not isinstance(wrong, OSError) else str(wrong))
    if html is not None:
        try:
            size = (with_python if python else offline)(html, start, welcome=not kernel)
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
def exercise(
    number: Annotated[int | None, typer.Argument(help="Which one; without it, all are listed.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the starter file goes; by default here, under its own name.")
    ] = None,
) -> None:
    """Write the starter file of an exercise, and print its task."""
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
def grade(file: Annotated[Path, typer.Argument(help="Your answer to an exercise.")]) -> None:
    """Mark an answer on values, races, work and banks, and say which line is to blame; fails below full marks."""
    try:
        result = graded(file)
    except (OSError, ValueError) as mistake:
        _fail(str(mistake))
    print(result)
    raise typer.Exit(0 if result.passed else 1)


def _fail(message: str) -> NoReturn:
    print(f"upsweep: {message}", file=sys.stderr)
    raise typer.Exit(1)
