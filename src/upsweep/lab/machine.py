"""A machine that runs rewritten kernels: blocks of threads as generators, under a schedule that you choose.

Threads run until they wait: at a barrier, a shuffle, or before an atomic. In which order is the schedule's business:
races do not depend on it (they are a matter of epochs, the stretches between barriers), wrong values do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from upsweep.lab.rewrite import ATOMIC, KernelError, Rewritten, Site

ENDLESS = 2_000_000
"""Rounds of a loop after which it is taken never to end."""


class Item:
    """A value that remembers where it came from: a leaf of the input, or a node of the network."""

    __slots__ = ("node", "value")

    def __init__(self, value: Any, node: int):
        self.value, self.node = value, node

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _unwrapping(name: str, stays: bool) -> Callable:
    """Arithmetic on an item's value; what is made of one item alone, such as x*x, still comes from that item."""

    def method(self: Item, *others: Any) -> Any:
        value = getattr(self.value, name)(*[plain(o) for o in others])
        alone = all(not isinstance(o, Item) or o.node == self.node for o in others)
        return Item(value, self.node) if stays and alone and value is not NotImplemented else value

    return method


for _name in ["lt", "le", "gt", "ge", "eq", "ne", "int", "float"]:
    setattr(Item, f"__{_name}__", _unwrapping(f"__{_name}__", stays=False))
for _name in [
    "sub",
    "mul",
    "and",
    "or",
    "xor",
    "floordiv",
    "truediv",
    "mod",
    "neg",
    "abs",
    "lshift",
    "rshift",
]:
    setattr(Item, f"__{_name}__", _unwrapping(f"__{_name}__", stays=True))
for _name in ["rsub", "rmul", "rand", "ror", "rxor", "rfloordiv", "rtruediv", "rmod"]:
    setattr(Item, f"__{_name}__", _unwrapping(f"__{_name}__", stays=True))


class Poison:
    """What a word holds that nobody has written: it spoils what it meets, compares with nothing, and indexes nothing."""

    def _spoil(self, *_: Any) -> Poison:
        return self

    def _no(self, *_: Any) -> bool:
        return False

    def __int__(self) -> int:
        return -1

    def __repr__(self) -> str:
        return "?"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = __neg__ = _spoil
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _no
    __index__ = __int__


POISON = Poison()


def plain(value: Any) -> Any:
    """The value without its memory."""
    return value.value if isinstance(value, Item) else value


@dataclass(eq=False)
class Array:
    """Memory: global, or shared by the threads of one block, or one thread's own."""

    name: str
    space: str
    shape: tuple[int, ...]
    words: list[Any]
    base: int
    """The machine-wide number of its first word; -1 for a thread's own registers."""
    itemsize: int = 4
    block: int = -1
    """Whose it is, as the machine's running number of blocks; -1 for global memory."""
    written: bool = True
    """Whether it held something before the first launch."""

    @property
    def size(self) -> int:
        return len(self.words)

    def flat(self, index: Any) -> int:
        """The place of a[i] or a[i, j]; -1 where there is none."""
        if not isinstance(index, tuple):
            index = (index,)
        if len(index) != len(self.shape):
            return -1
        place = 0
        for i, extent in zip(index, self.shape):
            i = int(i)
            if not 0 <= i < extent:
                return -1
            place = place * extent + i
        return place


@dataclass(frozen=True)
class Fault:
    """Something that a run itself noticed, at a site, by a thread."""

    kind: str
    site: int
    thread: int
    block: int
    text: str


@dataclass
class Schedule:
    """Who runs when: one of `ascending`, `descending`, `lockstep`, `random-<seed>`, or a list of thread numbers."""

    name: str | Sequence[int] = "ascending"
    resident: int | None = None
    """How many blocks the machine holds at once; None for all of them."""
    issue: Sequence[int] | str = "ascending"
    """The order in which blocks are started: `ascending`, `descending`, or a list."""
    chance: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = ("ascending", "descending", "lockstep")
        if isinstance(self.name, str) and self.name not in known and not self.name.startswith("random-"):
            raise ValueError(
                f"no schedule is called {self.name!r}; there are {', '.join(known)}, random-<seed>, or a list"
            )
        self.chance = random.Random(str(self.name))

    @property
    def fine(self) -> bool:
        return isinstance(self.name, str) and (self.name == "lockstep" or self.name.startswith("random"))

    def order(self, threads: list[int]) -> list[int]:
        if self.name == "descending":
            return threads[::-1]
        if isinstance(self.name, str):
            return self.chance.sample(threads, len(threads)) if self.name.startswith("random") else threads
        first = {t: k for k, t in enumerate(self.name)}
        return sorted(threads, key=lambda t: first.get(t, len(first) + t))

    def bursts(self) -> int:
        """How many accesses a thread makes before the next one's turn."""
        return self.chance.randint(1, 6) if self.name != "lockstep" else 1

    def blocks(self, grid: int) -> list[int]:
        if isinstance(self.issue, str):
            return list(range(grid))[:: -1 if self.issue == "descending" else 1]
        return list(self.issue)

    def __str__(self) -> str:
        name = self.name if isinstance(self.name, str) else f"thread {', '.join(map(str, self.name))} first"
        held = f", {self.resident} blocks at a time, issued {self.issue}" if self.resident else ""
        return name + held


READY, AT_BARRIER, AT_WARP, DONE = range(4)


class Block:
    """The threads of one block and where each of them waits."""

    def __init__(self, number: int, launch: int, index: int, threads: list[Generator], warp: int):
        self.number, self.launch, self.index, self.warp = number, launch, index, warp
        self.threads, self.state = threads, [READY] * len(threads)
        self.site = [-1] * len(threads)
        self.wants: list[Any] = [None] * len(threads)
        self.sends: list[Any] = [None] * len(threads)
        self.spun = [-1] * len(threads)
        self.epoch, self.warp_epoch = 0, [0] * (-(-len(threads) // warp))

    def ready(self) -> list[int]:
        return [t for t, state in enumerate(self.state) if state == READY]


class Machine:
    """Runs launches one after the other on the same global memory, and logs every event."""

    def __init__(self, fn: Callable[[Any, Any], Any], schedule: Schedule, warp: int = 32):
        self.fn, self.schedule, self.warp = fn, schedule, warp
        self.sites: list[Site] = []
        self.site_launch: list[int] = []
        self.log: list[int] = []
        """Flat triples (site, where, node): a word's number, an iteration or an outcome; and the value's node."""
        self.marks: list[tuple[int, int, int, int, int]] = []
        """(first event, block number, thread, epoch, warp epoch) of each stretch that one thread ran."""
        self.left: list[int] = []
        self.right: list[int] = []
        self.values: list[Any] = []
        self.stored: list[Any] = []
        """What the stores and atomics of the log left behind, in its order."""
        self.arrays: list[Array] = []
        self.owner: list[Array] = []
        self.blocks: list[Block] = []
        self.faults: list[Fault] = []
        self.passed: list[tuple[int, int, int]] = []
        """(block number, epoch, site) of every barrier that a block passed."""
        self.waits = 0
        self.launches = 0
        self.words = 0
        self.place = (0, 0)
        self.changed = False
        self.dynamic = 0

    # --- memory ---------------------------------------------------------------------------------------------------

    def array(
        self,
        name: str,
        space: str,
        shape: Any,
        words: list[Any],
        itemsize: int,
        block: int = -1,
        written: bool = True,
    ) -> Array:
        shape = tuple(map(int, shape)) if isinstance(shape, tuple) else (int(shape),)
        base = -1 if space == "local" else self.words
        array = Array(name, space, shape, words, base, itemsize, block, written)
        if base >= 0:
            self.words += len(words)
            self.arrays.append(array)
        return array

    def leaf(self, value: Any) -> Item:
        """A value that no operator made: an item of the input, or a constant."""
        self.left.append(-1)
        self.right.append(-1)
        self.values.append(value)
        return Item(value, len(self.left) - 1)

    def fault(self, kind: str, site: int, text: str) -> None:
        block, thread = self.place
        self.faults.append(Fault(kind, site, thread, block, text))

    # --- running --------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Rewritten,
        names: dict[str, Any],
        grid: int,
        block: int,
        args: Sequence[Any],
        itemsize: int,
        dynamic: int = 0,
    ) -> bool:
        """Run one launch; False where it came to a deadlock."""
        launch = self.launches
        self.launches, self.dynamic = launch + 1, dynamic
        base = len(self.sites)
        self.sites += kernel.sites
        self.site_launch += [launch] * len(kernel.sites)
        scope = {**names, **self.hooks(base, itemsize), "_block": block, "_grid": grid, "_warp": self.warp}
        exec(kernel.code, scope)
        thread, queue, active = scope["thread"], self.schedule.blocks(grid), []
        while queue or active:
            while queue and len(active) < (self.schedule.resident or grid):
                index = queue.pop(0)
                number = len(self.blocks)
                threads = [thread(*args, t, index, t % self.warp) for t in range(block)]
                self.blocks.append(Block(number, launch, index, threads, self.warp))
                active.append(self.blocks[-1])
            moved = [self.round(b, base) for b in active]
            held = active
            active = [b for b in active if any(s != DONE for s in b.state)]
            if not any(moved) and len(active) == len(held):
                self.deadlock(active, queue)
                return False
        return True

    def deadlock(self, active: list[Block], queue: list[int]) -> None:
        waiting = [(b, t) for b in active for t in b.ready()]
        block, thread = waiting[0]
        self.place = (block.number, thread)
        held = ", ".join(str(b.index) for b in active)
        rest = f"; blocks {', '.join(map(str, queue))} cannot start before one of these ends" if queue else ""
        self.fault(
            "deadlock",
            block.spun[thread],
            f"blocks {held} wait for ever, and nobody is left to release them{rest}",
        )

    def round(self, block: Block, base: int) -> bool:
        """Let every thread of a block that can run do so once; whether anything changed."""
        moved, fine = False, self.schedule.fine
        for t in self.schedule.order(block.ready()):
            for _ in range(self.schedule.bursts() if fine else 1):
                moved |= self.resume(block, t, base)
                if block.state[t] != READY:
                    break
        if any(s == AT_WARP for s in block.state):
            moved |= self.meet_warps(block)
        live = [t for t, s in enumerate(block.state) if s != DONE]
        if live and all(block.state[t] == AT_BARRIER for t in live):
            self.meet_block(block, live)
            moved = True
        return moved

    def resume(self, block: Block, t: int, base: int) -> bool:
        log = self.log
        start = len(log)
        self.place = (block.number, t)
        self.marks.append((start // 3, block.number, t, block.epoch, block.warp_epoch[t // block.warp]))
        try:
            request = block.threads[t].send(block.sends[t])
        except StopIteration:
            block.state[t] = DONE
            return True
        except KernelError:
            raise
        except Exception as error:
            raise self.failure(error, start) from error
        if request.__class__ is tuple:
            block.state[t], block.site[t], block.wants[t] = AT_WARP, base + request[1], request
        elif request >= 0:
            block.sends[t] = None
            block.state[t], block.site[t] = AT_BARRIER, base + request
        elif request <= ATOMIC:
            return self.before_atomic(block, t, base + ATOMIC - request, start)
        return True

    def failure(self, error: Exception, start: int) -> KernelError:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_name != "thread":
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "kernel"
        return KernelError(f"{where}: {type(error).__name__}: {error} (thread {self.place[1]})")

    def before_atomic(self, block: Block, t: int, site: int, start: int) -> bool:
        """A thread that only asked again, and found nothing new, leaves no events behind: it waits."""
        asked = [(self.log[k], self.log[k + 1]) for k in range(start, min(len(self.log), start + 9), 3)]
        again = (
            len(asked) == 2
            and asked[0][0] == site == block.spun[t]
            and self.sites[asked[1][0]].kind == "loop"
        )
        if again and not self.changed:
            del self.log[start:]
            self.marks.pop()
            self.stored.pop()
            self.waits += 1
            return False
        block.spun[t] = site
        return True

    def meet_block(self, block: Block, live: list[int]) -> None:
        sites = {block.site[t] for t in live}
        self.place = (block.number, live[0])
        if len(live) < len(block.state):
            gone = [t for t, s in enumerate(block.state) if s == DONE]
            self.fault(
                "divergent barrier",
                min(sites),
                f"threads {_several(gone)} have left the kernel, threads {_several(live)} wait",
            )
        elif len(sites) > 1:
            lines = ", ".join(str(self.sites[s].line) for s in sorted(sites))
            self.fault(
                "divergent barrier",
                min(sites),
                f"threads of one block wait at different barriers, lines {lines}",
            )
        for t in live:
            block.state[t] = READY
        self.passed.append((block.number, block.epoch, min(sites)))
        block.epoch += 1

    def meet_warps(self, block: Block) -> bool:
        moved = False
        for first in range(0, len(block.state), block.warp):
            lanes = [
                t for t in range(first, min(first + block.warp, len(block.state))) if block.state[t] != DONE
            ]
            here = [t for t in lanes if block.state[t] == AT_WARP]
            if not here or any(block.state[t] == READY for t in lanes):
                continue
            self.place = (block.number, here[0])
            if len(here) < len(lanes) or len({block.site[t] for t in here}) > 1:
                self.fault(
                    "divergent shuffle",
                    block.site[here[0]],
                    f"threads {_several(here)} of a warp are alone here",
                )
            for t, value in zip(here, [self.exchanged(block, t, here) for t in here]):
                block.sends[t], block.state[t] = value, READY
            block.warp_epoch[first // block.warp] += 1
            moved = True
        return moved

    def exchanged(self, block: Block, t: int, here: list[int]) -> Any:
        """What lane `t` gets from the meeting that all of `here` have come to."""
        kind, _, *values = block.wants[t]
        if kind == "syncwarp":
            return None
        if kind == "ballot_sync":
            return sum(1 << (u % block.warp) for u in here if block.wants[u][3])
        by = int(values[2])
        first, lane = t - t % block.warp, t % block.warp
        lane = {
            "shfl_up_sync": lane - by,
            "shfl_down_sync": lane + by,
            "shfl_xor_sync": lane ^ by,
            "shfl_sync": by,
        }[kind]
        source = first + lane if 0 <= lane < block.warp and first + lane in here else t
        got = block.wants[source][3]
        self.marks.append(
            (len(self.log) // 3, block.number, t, block.epoch, block.warp_epoch[t // block.warp])
        )
        self.log.extend((block.site[t], source, got.node if isinstance(got, Item) else -1))
        return got

    # --- what a rewritten kernel calls ----------------------------------------------------------------------------

    def hooks(self, base: int, itemsize: int) -> dict[str, Callable]:
        log, left, right, values, stored, fn = (
            self.log,
            self.left,
            self.right,
            self.values,
            self.stored,
            self.fn,
        )
        shared: dict[tuple[int, int], Array] = {}

        def load(array: Array, index: Any, site: int, _: Any = None) -> Any:
            if index.__class__ is not int or len(array.shape) > 1:
                index = array.flat(index)
            if not 0 <= index < len(array.words):
                self.fault("out of bounds", base + site, array.name)
                return POISON
            item = array.words[index]
            if array.base >= 0:
                log.extend((base + site, array.base + index, item.node if item.__class__ is Item else -1))
            if item is None:
                self.fault("uninitialised", base + site, f"{array.name}[{index}]")
                return POISON
            return item

        def store(array: Array, index: Any, value: Any, site: int, _: Any = None) -> None:
            if index.__class__ is not int or len(array.shape) > 1:
                index = array.flat(index)
            if not 0 <= index < len(array.words):
                self.fault("out of bounds", base + site, array.name)
                return
            array.words[index] = value
            if array.base >= 0:
                log.extend((base + site, array.base + index, value.node if value.__class__ is Item else -1))
                stored.append(value)

        def apply(a: Any, b: Any, site: int) -> Item:
            if a.__class__ is not Item:
                a = self.leaf(a)
            if b.__class__ is not Item:
                b = self.leaf(b)
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

        def branch(taken: Any, site: int) -> bool:
            taken = bool(taken)
            log.extend((base + site, taken, -1))
            return taken

        def loop(taken: Any, site: int, k: int) -> bool:
            taken = bool(taken)
            log.extend((base + site, 2 * k + taken, -1))
            if k > ENDLESS:
                text = "this loop never ends: nothing in it lets another thread run (wait with cuda.atomic)"
                raise KernelError(f"line {self.sites[base + site].line}: {text}")
            return taken

        def counted(bounds: range, site: int) -> Iterator[int]:
            k = -1
            for k, i in enumerate(bounds):
                loop(True, site, k)
                yield i
            loop(False, site, k + 1)

        def array(space: str, name: str, shape: Any, _: Any, block: int, site: int) -> Array:
            shape = shape or self.dynamic  # shape 0 is numba's way to ask for what the launch gives
            size = shape if isinstance(shape, int) else math.prod(shape)
            if space == "local":
                return self.array(name, space, shape, [None] * size, itemsize)
            key = (self.place[0], site)
            if key not in shared:
                shared[key] = self.array(
                    name, space, shape, [None] * size, itemsize, self.place[0], written=False
                )
            return shared[key]

        def atomic(kind: str, array: Array, index: Any, operands: tuple, site: int, _: Any = None) -> Any:
            place = array.flat(index)
            if place < 0:
                self.fault("out of bounds", base + site, array.name)
                return 0
            old = array.words[place]
            log.extend((base + site, array.base + place, -1))
            if old is None:
                self.fault("uninitialised", base + site, f"{array.name}[{place}]")
                old = 0
            array.words[place] = _ATOMIC[kind](plain(old), *[plain(v) for v in operands])
            stored.append(array.words[place])
            self.changed = array.words[place] != old
            return old

        return {
            "_load": load, "_store": store, "_op": apply, "_add": add, "_if": branch, "_loop": loop, "_range": counted,
            "_array": array, "_atomic": atomic, "_fence": lambda site: log.extend((base + site, 0, -1)),
            "_popc": lambda word: int(word).bit_count(),
        }  # fmt: skip


def _several(numbers: Sequence[int]) -> str:
    if len(numbers) > 4 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "")


_ATOMIC: dict[str, Callable] = {
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
