"""How many threads a scan uses on the CPU: one setting for the process, and a default where nothing is set."""

from __future__ import annotations

import math
import os
import sys
import threading
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

_CGROUP = Path("/sys/fs/cgroup")
setting: int | None = None
"""The number that `set_threads` has set."""


class set_threads:
    """Set how many threads scans use on the CPU in this process. The number changes no bit of any result.

    Without a setting `UPSWEEP_THREADS` counts, if it is in the environment; else all cores that this process may use, by its
    affinity and by the quota of its container. A task of Dask and a worker of a PyTorch DataLoader use one thread, as there are
    several of them at once. The argument `threads=` of a call comes before all of this. A scan uses fewer where its items are too
    few: there is a thread for each half MiB, and one alone below 4.

    Args:
        n: how many, at least 1; None takes the setting away.

    Raises:
        ValueError: n is no number of at least 1.

    >>> import upsweep as up
    >>> up.set_threads(2)
    set_threads(2)
    >>> with up.set_threads(1):  # until the end of the block
    ...     y = up.scan([1, 2, 3])
    >>> up.set_threads(None)
    set_threads(None)
    """

    def __init__(self, n: int | None) -> None:
        global setting
        if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
            raise ValueError(
                f"threads={n!r}: pass a number of at least 1, or None for the number that is right here"
            )
        self._n, self._before = n, setting
        setting = None if n is None else int(n)

    def __repr__(self) -> str:
        return f"set_threads({self._n})"

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global setting
        setting = self._before


def wanted() -> int:
    """The number of threads of a scan that names none."""
    if setting is not None:
        return setting
    return _told() or (1 if _one_of_many() else cores())


def _told() -> int:
    """The number in UPSWEEP_THREADS, or 0."""
    text = os.environ.get("UPSWEEP_THREADS", "")
    if text and not (text.isdecimal() and int(text)):
        raise ValueError(f"UPSWEEP_THREADS={text}: set a number of at least 1")
    return int(text or 0)


def _one_of_many() -> bool:
    """Whether this is a task of a Dask worker or of Dask's threads, or a worker of a PyTorch DataLoader. A module that another
    thread is importing has its names later."""
    state = getattr(sys.modules.get("distributed.worker"), "thread_state", None)
    worker = getattr(sys.modules.get("torch.utils.data"), "get_worker_info", None)
    return hasattr(state, "execution_state") or _of_dasks_threads() or bool(worker and worker())


def _of_dasks_threads() -> bool:
    """Whether this thread belongs to a pool of Dask's threaded scheduler."""
    dask, here = sys.modules.get("dask.threaded"), threading.current_thread()
    if dask is None or here is threading.main_thread():
        return False
    known = getattr(dask, "pools", {}).values()
    pools = [getattr(dask, "default_pool", None), *(pool for each in known for pool in each.values())]
    # A pool lists a thread after it has started it, and the thread may be at work by then. The names are the pool's own.
    prefixes = (getattr(pool, "_thread_name_prefix", None) for pool in pools)
    return any(prefix and here.name.startswith(f"{prefix}_") for prefix in prefixes)


@cache
def cores() -> int:
    """The cores that this process may use."""
    # Python 3.13 knows more than the affinity: its own setting.
    count: Any = getattr(os, "process_cpu_count", os.cpu_count)
    have = count()
    if hasattr(os, "sched_getaffinity"):
        have = min(have or math.inf, len(os.sched_getaffinity(0)))
    allowed = quota(_CGROUP, Path("/proc/self/cgroup"))
    return max(1, math.ceil(min(have or 1, allowed)))


def quota(root: Path, member: Path) -> float:
    """The cores that control groups allow, of the group that `member` names and of those above it; inf where none does."""
    allowed = math.inf
    for line in _lines(member):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "cpu,cpuacct", "cpuacct,cpu", "cpu"):
            continue
        folder = root / controllers if controllers else root
        here = folder / path.lstrip("/")
        for group in (here, *here.parents):
            if group != folder and folder not in group.parents:
                break
            allowed = min(allowed, _quota_of(group))
    return allowed


def _quota_of(group: Path) -> float:
    """Version 2 has one file of two numbers, version 1 two files of one."""
    told = " ".join(_lines(group / "cpu.max")).split() or [
        *_lines(group / "cpu.cfs_quota_us"),
        *_lines(group / "cpu.cfs_period_us"),
    ]
    return int(told[0]) / int(told[1]) if len(told) == 2 and told[0].isdigit() else math.inf


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split("\n")[:-1]
    except OSError:
        return []
