"""The folder beside a result in which it is made: finished blocks survive a kill, and the result moves out when complete."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from upsweep.files.arrays import FileError
from upsweep.tree import Carry

SAVE_SECONDS = 2.0


@contextmanager
def work_on(source: Path, target: Path, call: str) -> Iterator[Path]:
    """The work folder of this job. It is emptied where it belongs to another job, and removed when this one is done or
    cannot be done; a kill, a full disk and a full memory leave it."""
    folder = target.with_name(target.name + ".part")
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        stat = source.stat()
        job = repr((str(source.resolve()), stat.st_size, stat.st_mtime_ns, call))
        if load(folder, "job") != job:
            _empty(folder)
            store(folder, "job", job)
        try:
            yield folder
        except Exception as error:
            if getattr(error, "errno", None) != errno.ENOSPC and not isinstance(error, MemoryError):
                _empty(folder)
            raise
        _empty(folder)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """The system lets go of the lock when the process ends, however it ends."""
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise FileError(f"another process works on this file, in {folder}: wait until it has ended") from None
    try:
        yield
    finally:
        lock.release()
        if not any(path.name != "lock" for path in folder.iterdir()):
            # The folder stays where another process has come to work in it.
            with suppress(OSError):
                shutil.rmtree(folder)


def _empty(folder: Path) -> None:
    """Take away all but the lock, which Windows does not let go of while it is held."""
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != "lock":
            left.unlink()


def load(folder: Path, name: str) -> Any:
    """The value that was stored under a name, or None."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def store(folder: Path, name: str, value: Any) -> None:
    """Keep a value of JSON; whoever reads it sees the old one or the new one."""
    fresh = folder / f"{name}.json.new"
    fresh.write_text(json.dumps(value))
    os.replace(fresh, folder / f"{name}.json")


def cut(files: list[tuple[Path, np.dtype]], items: int) -> None:
    """Cut off the bytes that were written after the last checkpoint."""
    for path, dtype in files:
        with open(path, "ab") as file:
            file.truncate(items * dtype.itemsize)


def append(path: Path, items: np.ndarray) -> None:
    """Add items to a plain file. Of a full disk NumPy's own `tofile` tells no error number."""
    with open(path, "ab") as file:
        file.write(np.ascontiguousarray(items).view(np.uint8).data)


def load_state(folder: Path) -> tuple[Any, list[Any]] | None:
    """The work that is done, a value of JSON, and the carries behind it; None where nothing was stored."""
    path = folder / "done.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as kept:
        done, carries = json.loads(str(kept["done"])), []
        for s, (count, parts, blocks) in enumerate(kept["sizes"].tolist()):
            sums = [tuple(kept[f"{s}.{b}.{c}"] for c in range(parts)) for b in range(blocks)]
            carries.append(Carry(count, sums))
        return done, carries


def store_state(folder: Path, done: Any, carries: Sequence[Carry]) -> None:
    """Keep that state, in one step like `store`."""
    sizes = [(carry.count, len(carry.sums[0]) if carry.sums else 0, len(carry.sums)) for carry in carries]
    parts = {
        f"{s}.{b}.{c}": np.asarray(part)
        for s, carry in enumerate(carries)
        for b, block in enumerate(carry.sums)
        for c, part in enumerate(block)
    }
    fresh = folder / "done.npz.new"
    with open(fresh, "wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            done=json.dumps(done),
            sizes=np.array(sizes, np.int64).reshape(-1, 3),
            **parts,
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, folder / "done.npz")
