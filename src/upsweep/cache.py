"""Where compiled code is kept between processes."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path


def folder() -> Path:
    """$UPSWEEP_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("UPSWEEP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    # Code that the package ships asks for no folder, and this import would take a twentieth of a first call's time.
    from platformdirs import user_cache_path

    return user_cache_path("upsweep", appauthor=False)


def read(path: Path) -> bytes | None:
    """The contents of a file. A file that is cut off, or holds the contents of another, counts as missing: a driver may crash
    over its code.
    """
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    contents = kept[sha256().digest_size :]
    return contents if kept == _checked(path, contents) else None


def write(path: Path, contents: bytes) -> None:
    """The file appears whole or not at all, also where another process writes it. Raises OSError where the disk refuses."""
    # Imported here, as a first call that finds its code on disk writes none.
    from tempfile import TemporaryDirectory

    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as own:
        Path(own, path.name).write_bytes(_checked(path, contents))
        os.replace(Path(own, path.name), path)


def _checked(path: Path, contents: bytes) -> bytes:
    """The contents behind a digest of them and of the file's name."""
    return sha256(path.name.encode() + contents).digest() + contents
