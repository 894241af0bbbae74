"""A machine that runs rewritten kernels: blocks of threads as generators, under a schedule that you choose.

Threads run until they wait: at a barrier, a shuffle, or before an atomic. In which order is the schedule's business:
races do not depend on it (they are a matter of epochs, the stretches between barriers), wrong values do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from upsweep.lab.expressions import ATOMIC, Site
from upsweep.lab.hooks import Endless, hooks, signs
from upsweep.lab.meetings import AT_BARRIER, AT_WARP, DONE, READY, Block, meet_block, meet_warps, who
from upsweep.lab.reading import KernelError, Source, source_of
from upsweep.lab.rewrite import Rewritten, rewrite
from upsweep.lab.schedule import Schedule
from upsweep.lab.values import Array, Item


@dataclass(frozen=True)
class Fault:
    """Something that a run itself noticed, at a site, by a thread."""

    kind: str
    site: int
    thread: int
    block: int
    text: str
    index: Any = None
    """The place of an access out of bounds."""


LARGEST_BLOCK = 1024
STATIC_SHARED, MOST_SHARED = 48 << 10, 227 << 10
"""Bytes that a block may have by the text of its kernel, and by its launch on the largest GPUs."""


class Machine:
    """Runs launches one after the other on the same global memory, and logs every event."""

    def __init__(
        self, fn: Callable[[Any, Any], Any], schedule: Schedule, warp: int = 32, x: Sequence[Any] = ()
    ):
        self.fn, self.schedule, self.warp = fn, schedule, warp
        self.signs = signs(fn, x) if len(x) else frozenset()
        """How a kernel may write the operator out."""
        self.sites: list[Site] = []
        self.site_launch: list[int] = []
        self.site_source: list[Source] = []
        self.log: list[int] = []
        """Flat triples (site, where, node): a word's number, an iteration or an outcome; and the value's node."""
        self.marks: list[tuple[int, int, int, int, int]] = []
        """(first event, block number, thread, epoch, warp epoch) of each stretch that one thread ran."""
        self.left: list[int] = []
        self.right: list[int] = []
        self.values: list[Any] = []
        self.stored: list[Any] = []
        """The words that the stores and atomics of the log left behind, in its order."""
        self.arrays: list[Array] = []
        self.blocks: list[Block] = []
        self.faults: list[Fault] = []
        self.passed: list[tuple[int, int, int]] = []
        """(block number, epoch, site) of every barrier that a block passed."""
        self.waits = 0
        self.launches = 0
        self.words = 0
        self.itemsize = 4
        self.names: dict[str, Any] = {}
        self.geometry: dict[str, int] = {}
        self.called: dict[Any, Callable[..., Generator]] = {}
        self.limits: list[tuple[int, str]] = []
        """(launch, what no GPU can give it)."""
        self.stopped = False
        """Whether a loop was found that never ends."""
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

    def fault(self, kind: str, site: int, text: str, index: Any = None) -> None:
        block, thread = self.place
        self.faults.append(Fault(kind, site, thread, block, text, index))

    def call(self, fn: Any, site: int, args: Sequence[Any]) -> Generator:
        """A call of another function: one with a source is rewritten like the kernel, any other is Python's own."""
        code = fn if isinstance(fn, Source) else getattr(getattr(fn, "py_func", fn), "__code__", None)
        if code is None:
            return _directly(fn, args)
        key = (code, self.launches)
        if key not in self.called:
            self.called[key] = self.scoped(
                rewrite(source_of(fn), self.schedule.fine, function=True),
                self.names if isinstance(fn, Source) else scope(fn),
            )
        block, t = self.place
        inner = self.blocks[block]
        return self.called[key](*args, t, inner.index, t % self.warp)

    def scoped(self, kernel: Rewritten, names: dict[str, Any]) -> Callable[..., Generator]:
        """The generator of a kernel or of a function, with the hooks and these names around it."""
        base, launch = len(self.sites), self.launches - 1
        self.sites += kernel.sites
        self.site_launch += [launch] * len(kernel.sites)
        self.site_source += [kernel.source] * len(kernel.sites)
        around = {**names, **hooks(self, base, self.itemsize), "_base": base, **self.geometry}
        exec(kernel.code, around)
        return around["thread"]

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
        """Run one launch; False where it came to a deadlock, or to a loop that never ends."""
        launch = self.launches
        self.launches, self.dynamic, self.itemsize, self.names = launch + 1, dynamic, itemsize, names
        self.geometry = {"_block": block, "_grid": grid, "_warp": self.warp}
        thread = self.scoped(kernel, names)
        queue, active = self.schedule.blocks(grid), []
        if block > LARGEST_BLOCK:
            self.limits.append((launch, f"a block of {block} threads: no GPU runs more than {LARGEST_BLOCK}"))
        while (queue or active) and not self.stopped:
            while queue and len(active) < (self.schedule.resident or grid):
                index = queue.pop(0)
                number = len(self.blocks)
                threads = [thread(*args, t, index, t % self.warp) for t in range(block)]
                self.blocks.append(Block(number, launch, index, threads, self.warp))
                active.append(self.blocks[-1])
            moved = [self.round(b) for b in active if not self.stopped]
            held = active
            active = [b for b in active if any(s != DONE for s in b.state)]
            if not any(moved) and len(active) == len(held) and not self.stopped:
                self.deadlock(active, queue)
                return False
        self.weigh(launch)
        return not self.stopped

    def weigh(self, launch: int) -> None:
        """Whether the launch's shared memory exists."""
        for block in (b for b in self.blocks if b.launch == launch):
            mine = [a for a in self.arrays if a.block == block.number]
            every = sum(a.size * a.itemsize for a in mine)
            fixed = sum(a.size * a.itemsize for a in mine if not a.dynamic)
            if every > MOST_SHARED:
                text = f"{every} bytes of shared memory a block: no GPU has more than {MOST_SHARED}"
            elif fixed > STATIC_SHARED:
                text = (f"{fixed} bytes of shared memory by the kernel's text: more than {STATIC_SHARED} must be given by the "
                        "launch, for cuda.shared.array(0, dtype)")  # fmt: skip
            else:
                continue
            self.limits.append((launch, text))
            return

    def deadlock(self, active: list[Block], queue: list[int]) -> None:
        waiting = [(b, t) for b in active for t in b.ready()]
        block, thread = waiting[0]
        self.place = (block.number, thread)
        held = who("block", [b.index for b in active], "waits", "wait")
        rest = f"; {who('block', queue, 'cannot', 'cannot')} start before one of these ends" if queue else ""
        self.fault(
            "deadlock",
            block.spun[thread],
            f"{held} for ever, and nobody is left to release {'it' if len(active) == 1 else 'them'}{rest}",
        )

    def round(self, block: Block) -> bool:
        """Let every thread of a block that can run do so once; whether anything changed."""
        moved, fine = False, self.schedule.fine
        for t in self.schedule.order(block.ready()):
            for _ in range(self.schedule.bursts() if fine else 1):
                moved |= self.resume(block, t)
                if block.state[t] != READY:
                    break
            if self.stopped:
                return True
        if any(s == AT_WARP for s in block.state):
            moved |= meet_warps(self, block)
        live = [t for t, s in enumerate(block.state) if s != DONE]
        if live and all(block.state[t] == AT_BARRIER for t in live):
            meet_block(self, block, live)
            moved = True
        return moved

    def resume(self, block: Block, t: int) -> bool:
        log = self.log
        start = len(log)
        self.place = (block.number, t)
        self.marks.append((start // 3, block.number, t, block.epoch, block.warp_epoch[t // block.warp]))
        try:
            request = block.threads[t].send(block.sends[t])
        except StopIteration:
            block.state[t] = DONE
            return True
        except Endless as found:
            self.fault(found.kind, found.site, found.text)
            self.stopped = True
            block.state[t] = DONE
            return True
        except KernelError:
            raise
        except Exception as error:
            raise self.failure(error) from error
        if request.__class__ is tuple:
            block.state[t], block.site[t], block.wants[t] = AT_WARP, request[1], request
        elif request >= 0:
            block.sends[t] = None
            block.state[t], block.site[t] = AT_BARRIER, request
        elif request <= ATOMIC:
            return self.before_atomic(block, t, ATOMIC - request, start)
        return True

    def failure(self, error: Exception) -> KernelError:
        trace = error.__traceback__
        while (
            trace is not None
            and trace.tb_next is not None
            and trace.tb_next.tb_frame.f_code.co_name == "thread"
        ):
            trace = trace.tb_next
        if trace is not None and trace.tb_frame.f_code.co_name != "thread":
            trace = trace.tb_next or trace
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "kernel"
        if isinstance(error, UnboundLocalError):
            name = str(error).split("'")[1]
            return KernelError(
                f"{where}: thread {self.place[1]} has given {name} no value when it comes here"
            )
        said = f"{error}" or "it takes too much"
        return KernelError(f"{where}: {type(error).__name__}: {said} (thread {self.place[1]})")

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


def _directly(fn: Any, args: Sequence[Any]) -> Generator:
    return fn(*args)
    yield


def scope(kernel: Any) -> dict[str, Any]:
    """The globals and the closure that a kernel's names refer to."""
    if isinstance(kernel, (str, Source)):
        return {}
    function = getattr(kernel, "py_func", kernel)
    cells = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ())))
    return {**function.__globals__, **cells}
