"""Files that end in .gz or .zst: unpacked into the work folder, and packed on the way out of it, by pyarrow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from upsweep.files.arrays import CODECS, FileError, bare

_ROOM = 1 << 22


def unpacked(source: Path, folder: Path) -> Path:
    """The source itself, or its plain content in the work folder."""
    if source.suffix not in CODECS:
        return source
    pa = pyarrow_for(source)
    plain = folder / f"source{bare(source).suffix}"
    if not plain.exists():
        growing = folder / "source.part"
        try:
            with pa.input_stream(str(source), CODECS[source.suffix]) as packed, open(growing, "wb") as file:
                shutil.copyfileobj(packed, file, _ROOM)
        except OSError as error:
            raise FileError(f"{source.name} cannot be unpacked: {error}") from None
        os.replace(growing, plain)
    return plain


def packed(result: Path, target: Path) -> Path:
    """The result, or a file beside it packed as the target's name says."""
    if target.suffix not in CODECS:
        return result
    path = result.with_name(f"packed{target.suffix}")
    with (
        open(result, "rb") as file,
        pyarrow_for(target).output_stream(str(path), CODECS[target.suffix]) as out,
    ):
        shutil.copyfileobj(file, out, _ROOM)
    return path


def pyarrow_for(path: Path) -> Any:
    """pyarrow, or a FileError that says how to get it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise FileError(f"{path.name} needs a package that is not here: pip install pyarrow") from missing
    return pyarrow
