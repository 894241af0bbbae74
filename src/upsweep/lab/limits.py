"""The limits of a process that runs a user's kernels: one line of a kernel can ask for more memory than there is."""

from __future__ import annotations

import os

MEMORY = 3 << 30
"""The bytes that such a process may take."""


def environment() -> dict[str, str]:
    """Its environment: the threads of linear algebra would take a part of its memory each, and have nothing to do."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def limit(seconds: int | None = None) -> None:
    """Let this process fail where it takes too much memory, and end after so many seconds; Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
