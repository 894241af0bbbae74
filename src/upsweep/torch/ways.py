"""Calls of an operator that are like earlier ones: neither what follows their tensors nor how they run is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.homes import compiling
from upsweep.host.tensors import likeness
from upsweep.torch.followers import PLAIN, watched

Way = Callable[..., Any]
"""Takes the arguments of a call, and gives what the operator gives; None where it does not know the call. `recall.never` knows
none."""


class Ways:
    """The ways of an operator's calls. Its first `count` arguments are tensors, and others may be. `shorter` finds the way of
    calls like one that ran; None where it may find one later."""

    def __init__(self, count: int, shorter: Callable[..., Way | None]) -> None:
        self.count, self.shorter = count, shorter

    def likeness(self, args: tuple[Any, ...]) -> Any:
        """The key of a call in `recall`; None for one that is not remembered, such as one that PyTorch's compiler traces."""
        kinds, rest, tensors = tuple(map(type, args)), args[self.count :], args[: self.count]
        if not PLAIN.issuperset(kinds[self.count :]):
            tensors = (*tensors, *[x for x in rest if isinstance(x, Tensor)])
            rest = tuple([None if isinstance(x, Tensor) else x for x in rest])
            if not PLAIN.issuperset(map(type, rest)):
                return None
        if compiling() or watched():
            return None
        alike = likeness(tensors)
        # reverse=1 is a mistake also where reverse=True is known.
        return None if type(alike) is tuple else (self, alike, rest, kinds)

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


class Call(NamedTuple):
    """A scan, as `upsweep.scan` takes it."""

    xs: tuple[Any, ...]
    op: Any
    out: Any
    segments: Any
    how: dict[str, Any]
    initial: Any = None


def called(xs: tuple[Any, ...], op: Any, *, out: Any, segments: Any, **how: Any) -> Call:
    """The call of `upsweep.scan` with these arguments."""
    return Call(xs, op, out, segments, how)


def run(call: Call) -> Any:
    return up.scan(call.xs, call.op, initial=call.initial, out=call.out, segments=call.segments, **call.how)


def shorter(make: Callable[..., Call], then: Callable[..., Any] | None = None) -> Callable[..., Way | None]:
    """The `shorter` of an operator that runs the scan that `make` makes of its arguments; `then` makes results of what the scan
    gives, and of the arguments."""

    def found(*args: Any) -> Way | None:
        # A call without items runs no scan.
        if not args[0].numel():
            return recall.never
        xs, op, out, segments, how, initial = make(*args)
        known = recall.known(recall.scan_like(xs, op, initial, out, segments, **how))
        if known is None or known is recall.never:
            return known

        def way(*args: Any) -> Any:
            xs, _, out, segments, _, initial = make(*args)
            made = known(xs, initial, out, segments)
            return made if made is None or then is None else then(made, *args)

        return way

    return found
