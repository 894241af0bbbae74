"""The process in which a solution is graded: text in, marks out, and limits on what lies between."""

from __future__ import annotations

import json
import sys

from upsweep.lab.exercises.grade import MEMORY, SECONDS, graded, to_json


def limit() -> None:
    """Let the process end itself where a solution takes too much; Windows has the limit of time alone."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


if __name__ == "__main__":
    limit()
    given = json.load(sys.stdin)
    print(to_json(graded(given["text"], given["file"])))
