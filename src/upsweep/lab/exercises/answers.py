"""A student's file, read and not run: its kernels as sources to trace, its constants as data.

Nothing in the file is executed but the kernels, which are rewritten for the tracer and see no more of Python than a
kernel has: `import` at the top, code beside the functions, and names of this package have no effect on the marks.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from upsweep.lab.flow import DIRECT
from upsweep.lab.reading import Source

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
SAFE = {
    **{name: getattr(builtins, name) for name in DIRECT},
    "math": math,
    "np": SimpleNamespace(**{name: getattr(np, name) for name in TYPES}),
    **{name: getattr(np, name) for name in TYPES},
}
"""The meanings that a kernel's names may have besides the dialect's own."""


@dataclass(frozen=True)
class Answer:
    """The content of a file: functions by their names, constants, and where there are still blanks."""

    file: str
    functions: Mapping[str, Source]
    parameters: Mapping[str, int]
    """How many parameters each function takes."""
    constants: Mapping[str, Any]
    blanks: tuple[int, ...]
    """Lines that still hold `...`."""

    @property
    def surroundings(self) -> dict[str, Any]:
        """The names around each of its kernels: nothing of this package, and nothing of Python that reaches out of it."""
        return {"__builtins__": {}, **SAFE, **self.constants, **self.functions}


def read(text: str, file: str) -> Answer:
    """The answer that a file's text gives.

    Raises:
        ValueError: where it is no Python, with its line.
    """
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"{file}:{error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{file}: {error}") from None
    lines = text.splitlines(keepends=True)
    functions, parameters, constants = {}, {}, {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            own = "".join(lines[node.lineno - 1 : node.end_lineno])
            functions[node.name] = Source(own, file, node.lineno, node.name)
            parameters[node.name] = len(node.args.args)
        elif (
            isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        ):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                # The value is no constant, and the kernels do not need it.
                continue
    blanks = sorted({n.lineno for n in ast.walk(module) if isinstance(n, ast.Constant) and n.value is ...})
    return Answer(file, functions, parameters, constants, tuple(blanks))
