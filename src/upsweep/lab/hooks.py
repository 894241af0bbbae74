"""The functions that a rewritten kernel calls: each hook does the work of its line, and logs it.

They are closures over the machine's lists, not methods, because a trace calls them a hundred thousand times.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from upsweep.lab.values import POISON, Array, Item, Poison, plain

if TYPE_CHECKING:
    from upsweep.lab.machine import Machine

ENDLESS = 10_000
"""Rounds of a `while` that waits for memory, after which nobody is taken to write there."""
REPEATED = 7
"""The round of a loop from which on repeated states are looked for."""
MOST_EVENTS = 4_000_000
"""Events after which a run is stopped: each takes about a hundred bytes."""
MOST_WORDS = 1 << 20
"""Words of an array that a kernel may ask for: more than any GPU has for a block (227 KiB) or a thread (512 KiB)."""
UNCHANGED = -2
"""The node of an atomic that left its word as it was."""


class Endless(Exception):
    """A loop that never ends, found while a thread runs; it ends the run."""

    def __init__(self, kind: str, site: int, text: str):
        super().__init__(text)
        self.kind, self.site, self.text = kind, site, text


def hooks(machine: Machine, base: int, itemsize: int) -> dict[str, Callable]:
    """The hooks of one launch, whose sites are numbered from `base`."""
    return {
        **_accesses(machine, base),
        **_arrays(machine, base, itemsize),
        **_operators(machine, base),
        **_control(machine, base),
    }


def _accesses(machine: Machine, base: int) -> dict[str, Callable]:
    log, stored = machine.log, machine.stored

    def load(array: Array, index: Any, site: int, _: Any = None) -> Any:
        if index.__class__ is not int or len(array.shape) > 1:
            index = array.flat(index)
        if not 0 <= index < len(array.words):
            machine.fault("out of bounds", base + site, array.name, index)
            return POISON
        item = array.words[index]
        if array.base >= 0:
            log.extend((base + site, array.base + index, item.node if item.__class__ is Item else -1))
        if item is None:
            machine.fault("uninitialised", base + site, array.place(index))
            return POISON
        return item

    def store(array: Array, index: Any, value: Any, site: int, _: Any = None) -> None:
        if index.__class__ is not int or len(array.shape) > 1:
            index = array.flat(index)
        if not 0 <= index < len(array.words):
            machine.fault("out of bounds", base + site, array.name, index)
            return
        if value.__class__ is Poison and value.site >= 0:
            machine.fault("undefined shuffle", value.site, value.text)
        array.words[index] = value
        if array.base >= 0:
            log.extend((base + site, array.base + index, value.node if value.__class__ is Item else -1))
            stored.append(value)

    def atomic(kind: str, array: Array, index: Any, operands: tuple, site: int, _: Any = None) -> Any:
        place = array.flat(index)
        if place < 0:
            machine.fault("out of bounds", base + site, array.name, index)
            return 0
        old = array.words[place]
        log.extend((base + site, array.base + place, -1))
        if old is None and kind == "exch":
            # The old value is the caller's affair, and only if it is used.
            old = POISON
        if old is None:
            machine.fault("uninitialised", base + site, array.place(place))
            old = 0
        array.words[place] = ATOMIC[kind](plain(old), *[plain(v) for v in operands])
        stored.append(array.words[place])
        machine.changed = array.words[place] != old
        if not machine.changed:
            log[-1] = UNCHANGED
        return old

    return {"_load": load, "_store": store, "_atomic": atomic}


def _arrays(machine: Machine, base: int, itemsize: int) -> dict[str, Callable]:
    shared: dict[tuple[int, int], Array] = {}

    def array(space: str, name: str, shape: Any, dtype: Any, block: int, site: int) -> Array:
        key = (machine.place[0], site)
        if space == "shared" and key in shared:
            return shared[key]
        # By a shape of 0 numba asks for the memory that the launch gives.
        dynamic = isinstance(shape, int) and shape == 0
        shape = machine.dynamic if dynamic else shape
        count = shape if isinstance(shape, int) else math.prod(shape)
        if count > MOST_WORDS:
            raise MemoryError(f"{name} asks for {count} words of {space} memory, which no GPU has")
        words: list[Any] = [None] * count
        size = width(dtype, itemsize)
        if space == "local":
            return machine.array(name, space, shape, words, size)
        shared[key] = machine.array(name, space, shape, words, size, machine.place[0], written=False)
        shared[key].dynamic = dynamic
        return shared[key]

    return {"_array": array}


def width(dtype: Any, otherwise: int) -> int:
    """The bytes of an item of this type, where the kernel names one: "int32", np.float64, numba's own types."""
    try:
        return np.dtype(getattr(dtype, "name", dtype) or "V").itemsize or otherwise
    except TypeError:
        return otherwise


NATIVE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor, "min": min, "max": max,
}  # fmt: skip
"""The signs that a kernel may write the operator out with."""


def signs(fn: Callable[[Any, Any], Any], x: Any) -> frozenset[str]:
    """The signs that do what the operator does, tried on pairs of items and of some other numbers."""
    samples = list(x[:5])
    if isinstance(x[0], (int, float)) and not isinstance(x[0], bool):
        samples += [type(x[0])(v) for v in (2, 3, 5, -1, 6)]
    return frozenset(sign for sign, native in NATIVE.items() if _alike(fn, native, samples))


def _alike(fn: Callable[[Any, Any], Any], native: Callable[[Any, Any], Any], samples: Sequence[Any]) -> bool:
    try:
        return all(np.all(fn(a, b) == native(a, b)) for a in samples for b in samples)
    except Exception:
        # The operator or the sign is not for such values.
        return False


def _operators(machine: Machine, base: int) -> dict[str, Callable]:
    log, left, right, values, fn = machine.log, machine.left, machine.right, machine.values, machine.fn

    def apply(a: Any, b: Any, site: int) -> Item:
        if a.__class__ is not Item:
            a = machine.leaf(a)
        if b.__class__ is not Item:
            b = machine.leaf(b)
        x, y = a.value, b.value
        if x.__class__ is Poison or y.__class__ is Poison:
            spoilt = x if x.__class__ is Poison else y
            if spoilt.site >= 0:
                machine.fault("undefined shuffle", spoilt.site, spoilt.text)
            value: Any = POISON
        else:
            value = fn(x, y)
        item = Item(value, len(left))
        left.append(a.node)
        right.append(b.node)
        values.append(value)
        log.extend((base + site, 0, item.node))
        return item

    def infix(sign: str, a: Any, b: Any, site: int, both: bool) -> Any:
        if sign in machine.signs and (a.__class__ is Item or b.__class__ is Item):
            return apply(a, b, site)
        # Numbers from memory, such as flags, are combined: that is work, and makes no input.
        if sign in machine.signs and both:
            log.extend((base + site, 0, -1))
        return NATIVE[sign](a, b)

    def wide(value: Any, site: int) -> Any:
        if plain(value).__class__ is int:
            machine.fault("overflow", base + site, f"{value}")
        return value

    def call(fn: Any, site: int, *args: Any) -> Generator:
        return machine.call(fn, base + site, args)

    return {
        "_op": apply,
        "_infix": infix,
        "_wide": wide,
        "_call": call,
        "_popc": lambda word: int(word).bit_count(),
    }


def _control(machine: Machine, base: int) -> dict[str, Callable]:
    log = machine.log

    def branch(taken: Any, site: int) -> bool:
        taken = bool(taken)
        log.extend((base + site, taken, -1))
        return taken

    def loop(taken: Any, site: int, k: int) -> bool:
        taken = bool(taken)
        log.extend((base + site, 2 * k + taken, -1))
        if len(log) > 3 * MOST_EVENTS:
            raise Endless("too long", base + site, f"the run was stopped after {MOST_EVENTS} events")
        return taken

    states: dict[tuple[tuple[int, int], int], tuple] = {}

    def again(taken: Any, site: int, k: int, state: tuple, names: str | None) -> bool:
        """The test of a `while`: a loop that comes to the same state twice never ends."""
        if k >= REPEATED and taken:
            if names is None and k > ENDLESS:
                text = "this loop never ends: nothing in it lets another thread run (wait with cuda.atomic)"
                raise Endless("endless loop", base + site, text)
            key = (machine.place, site)
            if k & (k + 1) == 0:
                states[key] = state
            elif names is not None and states[key] == state:
                raise Endless(
                    "endless loop", base + site, f"this loop never ends: {_repeats(names, state, k)}"
                )
        return loop(taken, site, k)

    def counted(bounds: range, site: int) -> Iterator[int]:
        k = -1
        for k, i in enumerate(bounds):
            loop(True, site, k)
            yield i
        loop(False, site, k + 1)

    def fence(site: int) -> None:
        log.extend((base + site, 0, -1))

    def place(site: int) -> None:
        log.extend((base + site, 0, -1))

    return {
        "_if": branch,
        "_loop": loop,
        "_while": again,
        "_range": counted,
        "_fence": fence,
        "_place": place,
    }


def _repeats(names: str, state: tuple, k: int) -> str:
    if not names:
        return "nothing that its test reads is a variable"
    shown = ", ".join(f"{name} = {value!r}" for name, value in zip(names.split(", "), state))
    return f"after {k} rounds {shown} again, and nothing else decides when it ends"


ATOMIC: dict[str, Callable] = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "max": max,
    "min": min,
    "exch": lambda old, v: v,
    "cas": lambda old, expected, v: v if old == expected else old,
    "and_": lambda old, v: old & v,
    "or_": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
}
