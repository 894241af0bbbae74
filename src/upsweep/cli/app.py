"""The commands."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import upsweep as up
from upsweep.cli import doctor as checkup
from upsweep.cli import formulas, pipes
from upsweep.files.arrays import TABLES, bare
from upsweep.operators import TABLE
from upsweep.segments import Segments

LAB = "upsweep.lab.page.cli"

out = Console()
err = Console(stderr=True)


class _WithLab(typer.core.TyperGroup):
    """`upsweep lab` is loaded when it is asked for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:
        return [*super().list_commands(ctx), "lab"]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:
        return _lab() if cmd_name == "lab" else super().get_command(ctx, cmd_name)


def _lab() -> Any:
    """Its own commands, or one that says what is missing."""
    try:
        command: Any = typer.main.get_group(import_module(LAB).app)
    except ModuleNotFoundError as missing:
        message = f"it needs {missing.name}, which is not here: pip install 'upsweep[lab]'"
        command = typer.main.get_command(_absent(message))
    command.name = "lab"
    return command


def _absent(message: str) -> typer.Typer:
    absent = typer.Typer(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})

    @absent.command(help=f"Play the textbook's kernels step by step ({message}).")
    def lab() -> None:
        _fail(message)

    return absent


app = typer.Typer(
    cls=_WithLab,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"upsweep {up.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Parallel prefix scans with the same bits on every machine."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the pictures go.")] = Path("demo"),
) -> None:
    """Scan real data, check every result, race NumPy, SciPy and pandas, and draw what came out."""
    from upsweep import demo as demonstrations

    with _explained("demo"):
        for story in demonstrations.run(folder):
            out.print(f"[bold]{escape(story.title)}[/]")
            out.print(f"  checked: {escape(story.checked)}")
            for name, ratio in story.ratios:
                out.print(f"  {ratio:.1f} times as fast as {escape(name)}" + _slower(ratio))
            out.print(f"  drawn:   {escape(str(story.picture))}", highlight=False)


def _slower(ratio: float) -> str:
    return " (slower, that is)" if ratio < 1 else ""


@app.command()
def scan(
    file: Annotated[
        str,
        typer.Argument(
            help="A .npy, .zarr, .csv or .parquet file, also with .gz or .zst behind it; it may be larger than memory. "
            "- is standard input."
        ),
    ],
    op: Annotated[str, typer.Option(help=f"{', '.join(TABLE)}.")] = "add",
    column: Annotated[
        list[str] | None, typer.Option(help="Of a table: the column to scan; may be given several times.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Of a table: a column to keep beside the result. By default all are kept."),
    ] = None,
    only: Annotated[bool, typer.Option("--only", help="Keep no other columns of a table.")] = False,
    axis: Annotated[
        int | None, typer.Option(help="The axis to scan along; may be left out for 1-D data.")
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Leave each item out of its own prefix.")
    ] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="Scan from the end.")] = False,
    initial: Annotated[
        str | None, typer.Option(help="What stands before the first item: 2.5, or 1,0 for a tuple.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="The dtype to compute and store, such as float64.")
    ] = None,
    segments: Annotated[
        str | None,
        typer.Option(
            help="Where the scan starts anew: flags=, ends=, offsets=, lengths= or keys=, then a .npy file or a column."
        ),
    ] = None,
    map_: Annotated[
        str | None,
        typer.Option(
            "--map",
            help="What is scanned, as an expression of columns (of x, where FILE is an array): 'price * units', or 'w, w * y' "
            "for an operator on tuples.",
        ),
    ] = None,
    finish: Annotated[
        str | None,
        typer.Option(
            help="What comes out, as an expression of the prefix, the columns and the index: '(prefix - price) / prefix'."
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--as", help="What a result is called; by default as its column, in whose place it stands."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="Where the result goes: of any of these kinds, or - for standard output. By default next to FILE.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a target that exists, even FILE.")] = False,
) -> None:
    """Scan a file. If this is killed, the same command goes on where it stopped.

    The result appears under its final name when it is complete, not before.
    """
    began = time.perf_counter()
    with _explained("cli"), pipes.ends(file, to) as (source, target):
        with _progress() as (progress, totals):
            columns, functions = _functions(source, tuple(column or ()), map_, finish)
            up.scan_file(
                source, target, op, columns=columns, names=name or (), axis=axis, exclusive=exclusive, reverse=reverse,
                initial=_value(initial), dtype=dtype, segments=_segments(segments), keep=() if only else keep,
                overwrite=force, progress=progress, **functions,
            )  # fmt: skip
        items, seconds = totals["scanning"], time.perf_counter() - began
        rate = f"{items / seconds / 1e6:.1f} million a second"
        piped = (to or file) == pipes.PIPE
        line = f"{pipes.PIPE if piped else target}: {items:,} items by {op} in {seconds:.1f} s, {rate}"
        (err if piped else out).print(escape(line), highlight=False, soft_wrap=True)


def _functions(
    source: Path, columns: tuple[str, ...], map_: str | None, finish: str | None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The columns of a table that are scanned, and the functions that its expressions say."""
    table = bare(source).suffix in TABLES
    if table and map_ and not columns:
        columns = formulas.columns_in(map_)
    inputs = columns if table or columns else ("x",)
    functions: dict[str, Any] = {}
    if map_:
        functions["map"] = formulas.function_of(map_, inputs)
    if finish:
        functions["finish"] = formulas.function_of(finish, inputs, finish=True)
    return columns, functions


def _value(text: str | None) -> Any:
    """A number, or a tuple of numbers."""
    if text is None:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        # Infinities and NaN.
        return float(text)
    except ValueError:
        raise ValueError(
            f"--initial {text} is neither a number nor numbers with commas between them"
        ) from None


def _segments(text: str | None) -> Segments | None:
    """Segments in the spelling that stands before the `=`, in the file or the column that is named behind it."""
    if text is None:
        return None
    spelling, equals, where = text.partition("=")
    if not equals or spelling not in _SPELLINGS:
        raise ValueError(
            f"--segments {text}: pass flags=, ends=, offsets=, lengths= or keys=, then a .npy file or a column"
        )
    return _SPELLINGS[spelling](where)


_SPELLINGS = {
    "flags": up.segments.flags,
    "ends": up.segments.ends,
    "offsets": up.segments.offsets,
    "lengths": up.segments.lengths,
    "keys": up.segments.keys,
}


@contextmanager
def _progress() -> Iterator[tuple[Any, dict[str, int]]]:
    """A callback that is told the task, how much of it is done, and how much there is; and the last of these, by the first."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    # Before version 14.3 of rich a bar that is not shown ends with an empty line.
    with bars if err.is_terminal else nullcontext():
        tasks: dict[str, Any] = {}
        totals: dict[str, int] = {}

        def report(doing: str, done: int, total: int) -> None:
            totals[doing] = total
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total)
                if 0 < done < total:
                    err.print(f"{doing}: going on at {100 * done // total} %", highlight=False)
            bars.update(tasks[doing], completed=done, total=total)

        yield report, totals


@app.command()
def doctor() -> None:
    """Say which engines are here, in which versions, and which command adds the others."""
    for line in checkup.engines():
        mark = "[green]yes[/]" if line.here else "[red]no [/]"
        out.print(f"{mark} {line.name:<22} {escape(line.version)}", highlight=False, soft_wrap=True)
        if line.add:
            out.print(f"    to add it: {escape(line.add)}", highlight=False, soft_wrap=True)
    for name, value in checkup.surroundings():
        out.print(f"{name}: {escape(value)}", highlight=False, soft_wrap=True)


@app.command()
def bench() -> None:
    """Race scans of 256 MiB arrays against a parallel copy; about a minute and a half on two cores."""
    from upsweep import bench as races

    for row in races.measure():
        out.print(escape(str(row)), style="" if row.met else "yellow", highlight=False, soft_wrap=True)


@contextmanager
def _explained(extra: str) -> Iterator[None]:
    """Mistakes of the call end in one line, without a traceback."""
    try:
        yield
    except ModuleNotFoundError as missing:
        _fail(f"this needs {missing.name}: pip install 'upsweep[{extra}]'")
    except (ValueError, TypeError, RuntimeError, OSError) as mistake:
        _fail(str(mistake))


def _fail(message: str) -> None:
    print(f"upsweep: {message}", file=sys.stderr)
    raise typer.Exit(1)
