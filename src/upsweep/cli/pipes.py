"""`-` in place of a file: standard input and output, by way of a folder that goes when the command ends."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upsweep.files.arrays import CODECS, bare, is_zarr

PIPE = "-"
_FIRST_BYTES = {b"\x93NUMPY": ".npy", b"PAR1": ".parquet"}
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


@contextmanager
def ends(file: str, to: str | None) -> Iterator[tuple[Path, Path]]:
    """The files that a command reads and writes. By default the result goes next to FILE, or from a pipe into a pipe; what
    goes into a pipe is of the kind that came in."""
    to = PIPE if to is None and file == PIPE else to
    for name, end, stream in (("input", file, sys.stdin), ("output", to, sys.stdout)):
        if end == PIPE and stream is None:
            raise ValueError(f"standard {name} is closed")
    # A kill by SIGKILL leaves a folder behind.
    folder = TemporaryDirectory(prefix="upsweep-") if PIPE in (file, to) else nullcontext("")
    with folder as held:
        source = _received(Path(held)) if file == PIPE else Path(file)
        plain = bare(source)
        if source.is_dir() and not is_zarr(source):
            raise ValueError(f"{file} is a folder: pass a file")
        if to == PIPE:
            target = Path(held) / f"result{plain.suffix}"
        elif to is None:
            target = source.with_name(f"{plain.stem}.scan{plain.suffix}{source.name[len(plain.name) :]}")
        else:
            target = Path(to)
        yield source, target
        if to == PIPE:
            with open(target, "rb") as made:
                shutil.copyfileobj(made, sys.stdout.buffer)


def _received(folder: Path) -> Path:
    """Standard input as a file, whose first bytes say of which kind it is; text is a table. Errors name the file."""
    path = folder / "input"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    packed = _kind(path, _PACKED, "")
    kind = _kind(path, _FIRST_BYTES, ".csv", CODECS.get(packed))
    return path.rename(path.with_name(f"standard input{kind}{packed}"))


def _kind(path: Path, known: dict[bytes, str], otherwise: str, codec: str | None = None) -> str:
    with _reading(path, codec) as file:
        first = file.read(max(map(len, known)))
    return next((kind for mark, kind in known.items() if first.startswith(mark)), otherwise)


def _reading(path: Path, codec: str | None) -> Any:
    if codec is None:
        return open(path, "rb")
    import pyarrow

    return pyarrow.input_stream(str(path), codec)
