"""A sequence of several components is a tuple; one component goes without its tuple."""

from __future__ import annotations

from typing import Any


def tupled(given: Any) -> tuple[Any, ...]:
    """The components of a sequence that a user gave.

    >>> tupled(3), tupled((3, 4))
    ((3,), (3, 4))
    """
    return given if isinstance(given, tuple) else (given,)


def bare(parts: Any) -> Any:
    """Components as a user gets them.

    >>> bare([3]), bare([3, 4]), bare(3)
    (3, (3, 4), 3)
    """
    return parts if not isinstance(parts, (list, tuple)) else parts[0] if len(parts) == 1 else tuple(parts)
