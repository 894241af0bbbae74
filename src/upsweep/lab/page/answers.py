"""The questions that the page may ask, by their names; the server's worker and an offline page's Python answer alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from upsweep.lab.page.dials import Dials
from upsweep.lab.page.played import payload
from upsweep.lab.page.practice import grade


def trace(given: Mapping[str, Any]) -> dict[str, Any]:
    """A setting of the dials, played."""
    return payload(Dials.read(given))


def ready(given: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing but that somebody answers."""
    return {}


QUESTIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "trace": trace,
    "grade": grade,
    "ready": ready,
}


def answer(name: str, given: str) -> str:
    """The answer to a question, both as JSON; or the mistake in the dials or in the user's text."""
    try:
        found = QUESTIONS[name](json.loads(given))
    except Exception as problem:
        # The user's kernel may raise anything, and the page shows it.
        said = str(problem) if isinstance(problem, ValueError) else f"{type(problem).__name__}: {problem}"
        found = {"error": said}
    return json.dumps(found, separators=(",", ":"))
