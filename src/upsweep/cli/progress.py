"""How far a command is: bars on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def told() -> Iterator[tuple[Any, dict[str, int]]]:
    """A callback that is told the task, how much of it is done, and how much there is; and the last of these, by the first."""
    totals: dict[str, int] = {}
    with _bars() as show:

        def report(doing: str, done: int, total: int) -> None:
            if doing not in totals and 0 < done < total:
                click.echo(f"{doing}: going on at {100 * done // total} %", err=True)
            totals[doing] = total
            show(doing, done, total)

        yield report, totals


@contextmanager
def _bars() -> Iterator[Any]:
    """Bars, where somebody sees them, and where the terminal can go back in a line."""
    console = _terminal()
    if console is None:
        yield lambda doing, done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total, completed=done)
            bars.update(tasks[doing], completed=done, total=total)

        yield show


def _terminal() -> Any:
    """rich's console, where standard error is a terminal that can go back in a line. Pipes need not wait for rich."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console
