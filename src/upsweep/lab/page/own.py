"""A kernel of the user's own: from a file to the setting that plays it."""

from __future__ import annotations

import ast
from pathlib import Path

from upsweep.lab.page.dials import Dials


def read(file: str, like: str = "", expect: str = "inclusive") -> Dials:
    """The setting that a file opens with, as `mine.py` or, where it holds several functions, `mine.py:name`.

    The file is read and not run: its kernel is traced, and of the rest only sizes such as `TILE = 64` are taken.

    Raises:
        ValueError: where it holds no such kernel.
    """
    path, _, wanted = file.partition(".py:")
    place = Path(path if path.endswith(".py") else f"{path}.py")
    text = place.read_text(encoding="utf-8")
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"{place.name}:{error.lineno}: {error.msg}") from error
    found = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if wanted and wanted not in found:
        raise ValueError(f"{place.name} holds no function {wanted}; it holds {', '.join(found) or 'none'}")
    if not wanted and len(found) != 1:
        some = f"{place.name}:{next(iter(found), 'kernel')}"
        raise ValueError(
            f"{place.name} holds {len(found)} functions ({', '.join(found)}): name one, as {some}"
        )
    kernel = found[wanted] if wanted else next(iter(found.values()))
    source = ast.get_source_segment(text, kernel)
    assert source is not None
    return Dials(kernel.name, source=source, like=like, expect="" if like else expect, sizes=_sizes(module))


def _sizes(module: ast.Module) -> dict[str, int]:
    """The names that stand for whole numbers, by the convention that these are in capitals."""
    return {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper() and isinstance(node.value.value, int)
    }
