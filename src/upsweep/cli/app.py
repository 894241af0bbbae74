"""The commands."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import upsweep as up
from upsweep.cli import formulas, pipes
from upsweep.cli.progress import told
from upsweep.files.arrays import TABLES, bare
from upsweep.operators import TABLE
from upsweep.segments import Segments

LAB = "upsweep.lab.page.cli"


class _Words(click.types.StringParamType):
    """Names of columns, and expressions of them. They are in UTF-8, as tables are, whatever the locale is."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value.encode(errors="surrogateescape").decode(errors="surrogateescape")


class _WithLab(click.Group):
    """`upsweep lab` is loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "lab"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _lab() if cmd_name == "lab" else super().get_command(ctx, cmd_name)


def _lab() -> click.Command:
    """The commands of the lab, or one that says which package is missing."""
    try:
        return import_module(LAB).app
    except ModuleNotFoundError as missing:
        return _absent(f"it needs {missing.name}, which is not here: pip install 'upsweep[lab]'")


def _absent(message: str) -> click.Command:
    @click.command(
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        help=f"Play the textbook's kernels step by step ({message}).",
    )
    def lab() -> None:
        _fail(message)

    return lab


@click.group(cls=_WithLab)
@click.version_option(
    package_name="upsweep", message="upsweep %(version)s", help="Say which version this is."
)
def app() -> None:
    """Parallel prefix scans with the same bits on every machine."""


@app.command()
@click.argument("folder", type=click.Path(path_type=Path), default="demo")
def demo(folder: Path) -> None:
    """Scan real data, and check the results. Race NumPy, SciPy and pandas, and draw what came out in FOLDER."""
    from upsweep import demo as demonstrations

    with _explained("demo"):
        for story in demonstrations.run(folder):
            click.secho(story.title, bold=True)
            click.echo(f"  checked: {story.checked}")
            for name, ratio in story.ratios:
                click.echo(f"  {ratio:.1f} times as fast as {name}" + _slower(ratio))
            click.echo(f"  drawn:   {story.picture}")


def _slower(ratio: float) -> str:
    return " (slower, that is)" if ratio < 1 else ""


@app.command()
@click.argument("file", type=click.Path())
@click.option(
    "--op",
    default="add",
    show_default=True,
    help=f"{', '.join(TABLE)}.",
    shell_complete=lambda ctx, param, typed: [name for name in TABLE if name.startswith(typed)],
)
@click.option(
    "--column",
    type=_Words(),
    multiple=True,
    help="Of a table: the column to scan; may be given several times.",
)
@click.option(
    "--keep",
    type=_Words(),
    multiple=True,
    help="Of a table: a column to keep beside the result. By default all are kept.",
)
@click.option("--only", is_flag=True, help="Keep no other columns of a table.")
@click.option("--axis", type=int, help="The axis to scan along; may be left out for 1-D data.")
@click.option("--exclusive", is_flag=True, help="Leave each item out of its own prefix.")
@click.option("--reverse", is_flag=True, help="Scan from the end.")
@click.option("--initial", help="What stands before the first item: 2.5, or 1,0 for a tuple.")
@click.option(
    "--dtype",
    help="The dtype to compute and store, such as float64; by default that of the data, in which integers wrap. "
    "Floats read missing values as NaN.",
)
@click.option(
    "--segments",
    type=_Words(),
    help="Where the scan starts anew: flags=, ends=, offsets=, lengths= or keys= (rows sorted by key), then a .npy or .zarr "
    "file or a column; or groups=, then such keys in any order, with commas between several.",
)
@click.option(
    "--map",
    "map_",
    type=_Words(),
    help="What is scanned, as an expression of columns (of x, where FILE is an array): 'price * units', or 'w, w * y' "
    "for an operator on tuples.",
)
@click.option(
    "--finish",
    type=_Words(),
    help="What comes out, as an expression of the prefix, the columns and the index: '(prefix - price) / prefix'.",
)
@click.option(
    "--as",
    "name",
    type=_Words(),
    multiple=True,
    help="What a result is called; by default as its column, in whose place it stands.",
)
@click.option(
    "--out",
    "to",
    type=click.Path(),
    help="Where the result goes: of any of these kinds, or - for standard output. By default next to FILE.",
)
@click.option("--force", is_flag=True, help="Replace a target that exists, even FILE.")
def scan(
    file: str, op: str, column: tuple[str, ...], keep: tuple[str, ...], only: bool, axis: int | None, exclusive: bool,
    reverse: bool, initial: str | None, dtype: str | None, segments: str | None, map_: str | None, finish: str | None,
    name: tuple[str, ...], to: str | None, force: bool,
) -> None:  # fmt: skip
    """Scan FILE. It is a .npy, .zarr, .csv or .parquet file, also with .gz or .zst behind it, or - for standard input.

    FILE may be larger than memory. If this is killed, the same command goes on where it stopped. The result appears under its
    final name when it is complete, not before.
    """
    began = time.perf_counter()
    with _explained("cli"), pipes.ends(file, to) as (source, target):
        with told() as (progress, totals):
            if keep and only:
                raise ValueError("--only keeps no other columns, and --keep names some: pass one of them")
            columns, functions = _functions(source, column, map_, finish)
            up.scan_file(
                source, target, op, columns=columns, names=name, axis=axis, exclusive=exclusive, reverse=reverse,
                initial=_value(initial), dtype=dtype, segments=_segments(segments), keep=() if only else keep or None,
                overwrite=force, progress=progress, **functions,
            )  # fmt: skip
        items, seconds = totals["scanning"], time.perf_counter() - began
        rate = items / seconds
        speed = f"{rate / 1e6:.1f} million" if rate >= 1e5 else f"{rate:,.0f}"
        piped = (to or file) == pipes.PIPE
        line = (
            f"{pipes.PIPE if piped else target}: {items:,} items by {op} in {seconds:.1f} s, {speed} a second"
        )
        click.echo(line, err=piped)


def _functions(
    source: Path, columns: tuple[str, ...], map_: str | None, finish: str | None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The columns of a table that are scanned, and the functions that its expressions say."""
    table = bare(source).suffix in TABLES
    if table and map_ is not None and not columns:
        columns = formulas.columns_in(map_)
    inputs = columns if table or columns else ("x",)
    functions: dict[str, Any] = {}
    if map_ is not None:
        functions["map"] = formulas.function_of(map_, inputs)
    if finish is not None:
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
            f"--segments {text}: pass flags=, ends=, offsets=, lengths=, keys= or groups=, then a .npy or .zarr file or a column"
        )
    return _SPELLINGS[spelling](where)


_SPELLINGS = {
    "flags": up.segments.flags,
    "ends": up.segments.ends,
    "offsets": up.segments.offsets,
    "lengths": up.segments.lengths,
    "keys": up.segments.keys,
    "groups": lambda keys: up.segments.groups(*keys.split(",")),
}


@app.command()
def doctor() -> None:
    """Say which engines are here. Name their versions, and the commands that add the others."""
    from upsweep.cli import doctor as checkup

    for line in checkup.engines():
        mark = click.style("yes", "green") if line.here else click.style("no ", "red")
        click.echo(f"{mark} {line.name:<22} {line.version}")
        if line.add:
            click.echo(f"    to add it: {line.add}")
    for name, value in checkup.surroundings():
        click.echo(f"{name}: {value}")


@app.command()
def bench() -> None:
    """Race scans against a parallel copy. The arrays take 256 MiB, and the races a minute and a half on two cores."""
    from upsweep import bench as races

    for row in races.measure():
        click.secho(str(row), fg=None if row.met else "yellow")


@contextmanager
def _explained(extra: str) -> Iterator[None]:
    """Mistakes of the call end in one line, without a traceback."""
    try:
        yield
    except ModuleNotFoundError as missing:
        _fail(f"this needs {missing.name}: pip install 'upsweep[{extra}]'")
    except BrokenPipeError:
        # The status that a shell sees of other tools whose reader went; nothing is flushed into the pipe.
        os._exit(141)
    except MemoryError as full:
        _fail(f"there is not enough memory: {full}")
    except (ValueError, TypeError, RuntimeError, OSError) as mistake:
        _fail(str(mistake))


def _fail(message: str) -> None:
    print(f"upsweep: {' '.join(message.split())}", file=sys.stderr)
    raise click.exceptions.Exit(1)
