"""Calls of an operator that are like earlier ones: neither what follows their tensors nor how they run is asked again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.host.tensors import likeness
from upsweep.torch.followers import PLAIN, unseen

Way = Callable[..., Any]
"""Takes the arguments of a call, and gives what the operator gives; None where it does not know the call. `recall.never` knows
none."""


class Ways:
    """The ways of an operator's calls. `shorter` finds the way of calls like one that ran; None where it may find one later."""

    call: Way
    """The operator, which looks for ways itself."""

    def __init__(self, shorter: Callable[..., Way | None]) -> None:
        self.shorter = shorter

    def learn(self, like: Any, args: tuple[Any, ...], through: Callable[[Way], Way] | None = None) -> None:
        """Keep the way of a call that ran, and that nothing but autograd follows, for calls like it: `through` makes of it one
        that autograd records."""
        with torch.no_grad():
            way = self.shorter(*args)
        if way is not None:
            recall.keep(like, through(way) if through and way is not recall.never else way)


Run = tuple[Ways, tuple[Any, ...]]
"""An operator, by its ways, and its operands."""


def key_of(owner: Any, args: tuple[Any, ...]) -> Any:
    """The key of a call in `recall`; None for one that is not remembered, such as one that PyTorch's compiler traces."""
    kinds = tuple(map(type, args))
    parts = _parts(kinds)
    if parts is None or not unseen():
        return None
    alike = likeness(parts[0](args))
    # reverse=1 is a mistake also where reverse=True is known.
    return None if type(alike) is tuple else (owner, alike, parts[1](args), kinds)


@lru_cache(1024)
def _parts(kinds: tuple[type, ...]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]] | None:
    """A function that picks the tensors among arguments of these types, and one that picks the others. None where there are
    no tensors, or another argument's type is not in PLAIN."""
    tensors = [at for at, kind in enumerate(kinds) if issubclass(kind, Tensor)]
    rest = [at for at in range(len(kinds)) if at not in tensors]
    if not tensors or not PLAIN.issuperset([kinds[at] for at in rest]):
        return None
    return _picked(tensors), _picked(rest)


def _picked(places: list[int]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that picks the items at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def remembered(ways: Ways | None, args: tuple[Any, ...]) -> tuple[Any, Way | None, Any]:
    """The key of a call, the way of calls like it, and what that way gives; None for each that there is not."""
    like = ways and key_of(ways, args)
    known = like and recall.known_calls.get(like)
    return like, known, known(*args) if known else None


def run_by(prepare: Callable[..., Run | Tensor], *args: Any) -> Any:
    """The result of a public function. `prepare` turns the function's arguments into an operator's ways and operands, or into the
    result. Later calls take the operator's way at once, where its tensors are those that the function was given: `key_of` says
    for which calls this holds.
    """
    if torch.compiler.is_dynamo_compiling():
        made = prepare(*args)
        return made if isinstance(made, Tensor) else made[0].call(*made[1])
    like = None if torch._C._is_any_autocast_enabled() else key_of(prepare, args)
    known = like and recall.known_calls.get(like)
    if known:
        way, operands, constants = known
        output = way(*operands((*args, *constants)))
        if output is not None:
            return output
    made = prepare(*args)
    if isinstance(made, Tensor):
        return made
    ways, operands = made
    output = ways.call(*operands)
    if like and not known:
        _learn(like, args, ways, operands)
    return output


def _learn(like: Any, args: tuple[Any, ...], ways: Ways, operands: tuple[Any, ...]) -> None:
    """Keep the operator's way, if it has one and its tensors are among the arguments. Constants are kept with it, so that no call
    by a zero is: keys do not tell 0.0 from -0.0."""
    if any(isinstance(x, float) and x == 0 for x in args):
        return
    way, given = recall.known_calls.get(key_of(ways, operands)), [id(x) for x in args]
    tensors = [id(x) for x in operands if isinstance(x, Tensor)]
    if way is None or way is recall.never or not {*tensors} <= {*given}:
        return
    constants = [x for x in operands if not isinstance(x, Tensor)]
    behind = iter(range(len(args), len(args) + len(constants)))
    places = [given.index(id(x)) if isinstance(x, Tensor) else next(behind) for x in operands]
    recall.keep(like, (way, _picked(places), constants))


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
