"""Calls of an operator that are like earlier ones: neither what follows their tensors nor how they run is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from upsweep import recall
from upsweep.homes import compiling
from upsweep.host.tensors import likeness
from upsweep.torch.followers import PLAIN, watched

Way = Callable[..., Any]
"""Takes the arguments of a call, and gives what the operator gives; None where it does not know the call. `recall.never` knows
none."""


class Ways:
    """The ways of an operator's calls with `count` tensors, its first arguments, and with no other ones. `shorter` finds the way
    of calls like one that ran; None where it may find one later."""

    def __init__(self, count: int, shorter: Callable[..., Way | None]) -> None:
        self.count, self.shorter = count, shorter

    def likeness(self, args: tuple[Any, ...]) -> Any:
        """The key of a call in `recall`; None for one that is not remembered, such as one that PyTorch's compiler traces."""
        kinds = tuple(map(type, args))
        if not PLAIN.issuperset(kinds[self.count :]) or compiling() or watched():
            return None
        alike = likeness(args[: self.count])
        # reverse=1 is a mistake also where reverse=True is known.
        return None if type(alike) is tuple else (self, alike, args[self.count :], kinds)

    def learn(self, like: Any, args: tuple[Any, ...], through: Callable[[Way], Way] | None = None) -> None:
        """Keep the way of a call that ran, and that nothing but autograd follows, for calls like it: `through` makes of it one
        that autograd records."""
        with torch.no_grad():
            way = self.shorter(*args)
        if way is not None:
            recall.keep(like, through(way) if through and way is not recall.never else way)


def remembered(ways: Ways | None, args: tuple[Any, ...]) -> tuple[Any, Way | None, Any]:
    """The key of a call, the way of calls like it, and what that way gives; None for each that there is not."""
    like = ways and ways.likeness(args)
    known = like and recall.known_calls.get(like)
    return like, known, known(*args) if known else None
