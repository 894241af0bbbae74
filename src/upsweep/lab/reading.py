"""A kernel's text as the reader knows it: its file, its lines, its name. A text that is no kernel is refused."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple


class KernelError(ValueError):
    """A kernel uses Python that no GPU kernel has; the message names the file and the line."""


class Spot(NamedTuple):
    """A line of a kernel, by the kernel's name: other kernels of a run may have such a line, too."""

    kernel: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


@dataclass(frozen=True)
class Source:
    """The text of a kernel: its lines as the reader knows them."""

    text: str
    file: str
    first: int
    name: str

    @property
    def lines(self) -> list[str]:
        return self.text.rstrip("\n").split("\n")

    def line(self, number: int) -> str:
        return self.lines[number - self.first].strip()


def source_of(kernel: Callable | str | Source) -> Source:
    """The source of a kernel, from a function or from its text; a source is its own."""
    if isinstance(kernel, Source):
        return kernel
    if isinstance(kernel, str):
        # Empty lines before the kernel count.
        first = 1 + len(kernel) - len(kernel.lstrip("\n"))
        source = Source(textwrap.dedent(kernel).strip("\n"), "<kernel>", first, "")
        return replace(source, name=definition(source, parsed(source)).name)
    return _read(getattr(kernel, "py_func", kernel))


@functools.lru_cache(maxsize=512)
def _read(function: Callable) -> Source:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as missing:
        raise KernelError(
            f"{function!r} has no source to trace: define it in a file or pass its text"
        ) from missing
    return Source(
        textwrap.dedent("".join(lines)), inspect.getsourcefile(function) or "?", first, function.__name__
    )


def parsed(source: Source) -> ast.Module:
    """The syntax tree of a kernel's text; a KernelError, with file and line, where it is not Python."""
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        line = (error.lineno or 1) + source.first - 1
        raise KernelError(f"{source.file}:{line}: {error.msg}\n    {(error.text or '').strip()}") from error


def definition(source: Source, module: ast.Module) -> ast.FunctionDef:
    """The one function in a kernel's text; a KernelError where there are none or several."""
    found = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if len(found) != 1:
        raise KernelError(f"{source.file}: expected one kernel, a single def, and found {len(found)}")
    return found[0]
