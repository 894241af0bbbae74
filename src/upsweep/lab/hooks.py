"""What a rewritten kernel calls: each hook does what the line says, and logs it.

They are closures over the machine's lists, not methods, because a trace calls them a hundred thousand times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from upsweep.lab.rewrite import KernelError
from upsweep.lab.values import POISON, Array, Item, plain

if TYPE_CHECKING:
    from upsweep.lab.machine import Machine

ENDLESS = 100_000
"""Rounds of a loop after which it is taken never to end."""


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
            machine.fault("out of bounds", base + site, array.name)
            return POISON
        item = array.words[index]
        if array.base >= 0:
            log.extend((base + site, array.base + index, item.node if item.__class__ is Item else -1))
        if item is None:
            machine.fault("uninitialised", base + site, f"{array.name}[{index}]")
            return POISON
        return item

    def store(array: Array, index: Any, value: Any, site: int, _: Any = None) -> None:
        if index.__class__ is not int or len(array.shape) > 1:
            index = array.flat(index)
        if not 0 <= index < len(array.words):
            machine.fault("out of bounds", base + site, array.name)
            return
        array.words[index] = value
        if array.base >= 0:
            log.extend((base + site, array.base + index, value.node if value.__class__ is Item else -1))
            stored.append(value)

    def atomic(kind: str, array: Array, index: Any, operands: tuple, site: int, _: Any = None) -> Any:
        place = array.flat(index)
        if place < 0:
            machine.fault("out of bounds", base + site, array.name)
            return 0
        old = array.words[place]
        log.extend((base + site, array.base + place, -1))
        if old is None:
            machine.fault("uninitialised", base + site, f"{array.name}[{place}]")
            old = 0
        array.words[place] = ATOMIC[kind](plain(old), *[plain(v) for v in operands])
        stored.append(array.words[place])
        machine.changed = array.words[place] != old
        return old

    return {"_load": load, "_store": store, "_atomic": atomic}


def _arrays(machine: Machine, base: int, itemsize: int) -> dict[str, Callable]:
    shared: dict[tuple[int, int], Array] = {}

    def array(space: str, name: str, shape: Any, _: Any, block: int, site: int) -> Array:
        shape = shape or machine.dynamic  # shape 0 is numba's way to ask for what the launch gives
        words: list[Any] = [None] * (shape if isinstance(shape, int) else math.prod(shape))
        if space == "local":
            return machine.array(name, space, shape, words, itemsize)
        key = (machine.place[0], site)
        if key not in shared:
            shared[key] = machine.array(name, space, shape, words, itemsize, machine.place[0], written=False)
        return shared[key]

    return {"_array": array}


def _operators(machine: Machine, base: int) -> dict[str, Callable]:
    log, left, right, values, fn = machine.log, machine.left, machine.right, machine.values, machine.fn

    def apply(a: Any, b: Any, site: int) -> Item:
        if a.__class__ is not Item:
            a = machine.leaf(a)
        if b.__class__ is not Item:
            b = machine.leaf(b)
        x, y = a.value, b.value
        value = POISON if x is POISON or y is POISON else fn(x, y)
        item = Item(value, len(left))
        left.append(a.node)
        right.append(b.node)
        values.append(value)
        log.extend((base + site, 0, item.node))
        return item

    def add(a: Any, b: Any, site: int) -> Any:
        return apply(a, b, site) if a.__class__ is Item or b.__class__ is Item else a + b

    return {"_op": apply, "_add": add, "_popc": lambda word: int(word).bit_count()}


def _control(machine: Machine, base: int) -> dict[str, Callable]:
    log = machine.log

    def branch(taken: Any, site: int) -> bool:
        taken = bool(taken)
        log.extend((base + site, taken, -1))
        return taken

    def loop(taken: Any, site: int, k: int) -> bool:
        taken = bool(taken)
        log.extend((base + site, 2 * k + taken, -1))
        if k > ENDLESS:
            text = "this loop never ends: nothing in it lets another thread run (wait with cuda.atomic)"
            raise KernelError(f"line {machine.sites[base + site].line}: {text}")
        return taken

    def counted(bounds: range, site: int) -> Iterator[int]:
        k = -1
        for k, i in enumerate(bounds):
            loop(True, site, k)
            yield i
        loop(False, site, k + 1)

    def fence(site: int) -> None:
        log.extend((base + site, 0, -1))

    return {"_if": branch, "_loop": loop, "_range": counted, "_fence": fence}


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
