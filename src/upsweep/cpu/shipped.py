"""Code that the package ships: built-in operators of the common dtypes, compiled ahead for classes of processors.

A package from a registry has a file of it for each class (packaging/kernels.py makes them), and a clone has none. Code is found
by its meaning and by the texts that it is made of. Where one letter of these differs, nothing is found, and the code is
compiled.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from upsweep.cpu.kept import Code, digest, features

FOLDER = Path(__file__).parent / "built"


class Class(NamedTuple):
    """A class of processors."""

    name: str
    """LLVM's name of it."""
    machine: str
    triple: str
    wants: frozenset[str]
    """Linux's names of the features that a processor of the class must have."""


_V3 = frozenset(["avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
CLASSES = (
    Class("x86-64-v4", "x86_64", "x86_64-unknown-linux-gnu", _V4),
    Class("x86-64-v3", "x86_64", "x86_64-unknown-linux-gnu", _V3),
    Class("generic", "aarch64", "aarch64-unknown-linux-gnu", frozenset()),
)
"""The best class first."""


def path_of(kind: Class) -> Path:
    return FOLDER / f"{kind.machine}-{kind.name}.kernels"


def shipped(what: tuple[Any, ...]) -> Code | None:
    """The code of a unit, where the package ships it."""
    found = _shelf()
    place = found and found.places.get(digest(what))
    if not found or not place:
        return None
    start, size, *rest = place
    with found.path.open("rb") as file:
        file.seek(found.start + start)
        return Code(file.read(size), *rest)


class _Shelf(NamedTuple):
    path: Path
    start: int
    places: dict[str, Any]


@cache
def _shelf() -> _Shelf | None:
    """The file for this processor; none where another processor was asked for."""
    mine = [kind for kind in CLASSES if kind.machine == platform.machine() and kind.wants <= features()]
    if sys.platform != "linux" or not mine or {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} & os.environ.keys():
        return None
    try:
        with path_of(mine[0]).open("rb") as file:
            places = json.loads(file.readline())
            return _Shelf(path_of(mine[0]), file.tell(), places)
    except (OSError, ValueError):
        return None


def write(kind: Class, made: dict[str, Code]) -> None:
    """Make the file of a class."""
    places, codes = {}, []
    for name, (code, *rest) in made.items():
        places[name] = [sum(map(len, codes)), len(code), *rest]
        codes.append(code)
    FOLDER.mkdir(exist_ok=True)
    path_of(kind).write_bytes(json.dumps(places).encode() + b"\n" + b"".join(codes))
