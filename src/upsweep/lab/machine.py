"""A machine that runs rewritten kernels: blocks of threads as generators, under a schedule that you choose.

Threads run until they wait: at a barrier, a shuffle, or before an atomic. In which order is the schedule's business:
races do not depend on it (they are a matter of epochs, the stretches between barriers), wrong values do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from upsweep.lab.hooks import hooks
from upsweep.lab.rewrite import ATOMIC, KernelError, Rewritten, Site
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
        scope = {**names, **hooks(self, base, itemsize), "_block": block, "_grid": grid, "_warp": self.warp}
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
            raise self.failure(error) from error
        if request.__class__ is tuple:
            block.state[t], block.site[t], block.wants[t] = AT_WARP, base + request[1], request
        elif request >= 0:
            block.sends[t] = None
            block.state[t], block.site[t] = AT_BARRIER, base + request
        elif request <= ATOMIC:
            return self.before_atomic(block, t, base + ATOMIC - request, start)
        return True

    def failure(self, error: Exception) -> KernelError:
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


def _several(numbers: Sequence[int]) -> str:
    if len(numbers) > 4 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "")
