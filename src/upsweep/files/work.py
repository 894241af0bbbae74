"""The folder beside a result in which it is made: what is done survives a kill, and the result moves out when complete."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.files.arrays import FileError
from upsweep.tree import Carry


@contextmanager
def work_on(source: Path, target: Path, call: str) -> Iterator[Path]:
    """The work folder of this job. It is emptied where it belongs to another job, and removed when this one is done or
    cannot be done; a kill and a full disk leave it."""
    folder = target.with_name(target.name + ".part")
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        stat = source.stat()
        job = repr((str(source.resolve()), stat.st_size, stat.st_mtime_ns, call))
        if load(folder, "job") != job:
            for left in folder.iterdir():
                if left.is_dir():
                    shutil.rmtree(left)
                elif left.name != "lock":
                    left.unlink()
            store(folder, "job", job)
        try:
            yield folder
        except Exception as error:
            if getattr(error, "errno", None) != errno.ENOSPC:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """The system lets go of the lock when the process ends, however it ends."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not on Windows
        yield
        return
    with open(folder / "lock", "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"another process is at work in {folder}") from None
        yield


def load(folder: Path, name: str) -> Any:
    """What was stored under a name, or None."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def store(folder: Path, name: str, value: Any) -> None:
    """Keep a value of JSON; whoever reads it sees the old one or the new one."""
    fresh = folder / f"{name}.json.new"
    fresh.write_text(json.dumps(value))
    os.replace(fresh, folder / f"{name}.json")


def load_state(folder: Path) -> tuple[int, Carry | None] | None:
    """The number of blocks that are done and the carry behind them, or None where nothing was stored."""
    path = folder / "done.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as kept:
        done, count, parts, blocks = (int(v) for v in kept["sizes"])
        return done, Carry(count, [tuple(kept[f"{b}.{c}"] for c in range(parts)) for b in range(blocks)])


def store_state(folder: Path, done: int, carry: Carry | None) -> None:
    """Keep that state, in one step like `store`."""
    sums = carry.sums if carry else []
    sizes = np.array([done, carry.count if carry else 0, len(sums[0]) if sums else 0, len(sums)])
    parts = {f"{b}.{c}": np.asarray(part) for b, block in enumerate(sums) for c, part in enumerate(block)}
    fresh = folder / "done.npz.new"
    with open(fresh, "wb") as file:
        np.savez(file, allow_pickle=False, sizes=sizes, **parts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, folder / "done.npz")
