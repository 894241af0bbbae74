"""Meetings of threads: the barriers of a block, and the exchanges of a warp under a mask."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from upsweep.lab.values import Item, Poison

if TYPE_CHECKING:
    from upsweep.lab.machine import Machine

READY, AT_BARRIER, AT_WARP, DONE = range(4)
"""Where a thread is: able to run, waiting for its block, waiting for its warp, gone."""


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
        self.meetings: list[list[frozenset[int]]] = [[] for _ in self.warp_epoch]
        """For each warp and each `syncwarp`, the threads that met."""

    def ready(self) -> list[int]:
        return [t for t, state in enumerate(self.state) if state == READY]


def meet_block(machine: Machine, block: Block, live: list[int]) -> None:
    """Let a block go on: all of its threads that have not ended wait at a barrier."""
    sites = {block.site[t] for t in live}
    machine.place = (block.number, live[0])
    if len(live) < len(block.state):
        gone = [t for t, s in enumerate(block.state) if s == DONE]
        machine.fault(
            "divergent barrier",
            min(sites),
            f"{who('thread', gone, 'has', 'have')} left the kernel, {who('thread', live, 'waits', 'wait')}",
        )
    elif len(sites) > 1:
        lines = ", ".join(str(machine.sites[s].line) for s in sorted(sites))
        machine.fault(
            "divergent barrier",
            min(sites),
            f"threads of one block wait at different barriers, lines {lines}",
        )
    for t in live:
        block.state[t] = READY
    machine.passed.append((block.number, block.epoch, min(sites)))
    block.epoch += 1


def meet_warps(machine: Machine, block: Block) -> bool:
    """Let those warps go on whose threads have all come to the meeting that their masks name."""
    moved = False
    for first in range(0, len(block.state), block.warp):
        members = range(first, min(first + block.warp, len(block.state)))
        groups: dict[tuple[str, int], list[int]] = {}
        for t in members:
            if block.state[t] == AT_WARP:
                groups.setdefault((block.wants[t][0], int(block.wants[t][2])), []).append(t)
        stuck = not any(block.state[t] == READY for t in members)
        absent = {key: _awaited(block, key[1], here, members) for key, here in groups.items()}
        whole = [key for key in groups if not absent[key]]
        for key in whole or list(groups)[: int(stuck)]:
            machine.place = (block.number, groups[key][0])
            _judge_mask(machine, block, key, groups[key], absent[key])
            _meet(machine, block, key[0], groups[key])
            moved = True
    return moved


def _awaited(block: Block, mask: int, here: list[int], members: range) -> list[int]:
    """The threads that a mask names and that have neither come nor left the kernel."""
    return [t for t in members if mask >> (t - members[0]) & 1 and block.state[t] != DONE and t not in here]


def _judge_mask(
    machine: Machine, block: Block, key: tuple[str, int], here: list[int], absent: list[int]
) -> None:
    kind, mask = key
    site = block.site[here[0]]
    outside = [t for t in here if not mask >> t % block.warp & 1]
    if outside:
        text = (
            f"{who('thread', outside, 'comes', 'come')} to this {kind}, which its mask {mask:#x} does not say"
        )
        machine.fault("wrong mask", site, text)
    if absent:
        lines = sorted({machine.sites[block.site[t]].line for t in absent if block.site[t] >= 0})
        where = f" (line {', '.join(map(str, lines))})" if lines else ""
        late = who("thread", absent, "waits elsewhere", "wait elsewhere")
        text = f"the mask {mask:#x} of this {kind} names threads that never come to it: {late}{where}"
        machine.fault("divergent shuffle", site, text)


def _meet(machine: Machine, block: Block, kind: str, here: list[int]) -> None:
    for t, value in zip(here, [_exchanged(machine, block, t, here) for t in here]):
        block.sends[t], block.state[t] = value, READY
    # The other meetings move values, and order no memory.
    if kind == "syncwarp":
        warp = here[0] // block.warp
        block.warp_epoch[warp] += 1
        block.meetings[warp].append(frozenset(here))


def _exchanged(machine: Machine, block: Block, t: int, here: list[int]) -> Any:
    """The value that lane `t` gets from the meeting that all of `here` have come to."""
    kind, _, mask, *values = block.wants[t]
    if kind == "syncwarp":
        return None
    if kind == "ballot_sync":
        return sum(1 << (u % block.warp) for u in here if block.wants[u][3])
    by = int(values[1])
    first, lane = t - t % block.warp, t % block.warp
    lane = {
        "shfl_up_sync": lane - by,
        "shfl_down_sync": lane + by,
        "shfl_xor_sync": lane ^ by,
        "shfl_sync": by % block.warp,
    }[kind]
    source = first + lane if 0 <= lane < block.warp else t
    if source not in here:
        why = (
            f"thread {t} takes what thread {source} brings, which is not in this {kind} (mask {int(mask):#x})"
        )
        return Poison(block.site[t], why)
    got = block.wants[source][3]
    machine.marks.append(
        (len(machine.log) // 3, block.number, t, block.epoch, block.warp_epoch[t // block.warp])
    )
    machine.log.extend((block.site[t], source, got.node if isinstance(got, Item) else -1))
    return got


def who(noun: str, numbers: Sequence[int], one: str, several: str) -> str:
    """These threads or blocks, and their verb: thread 3 waits, threads 0 to 6 wait."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]} {one}"
    if len(numbers) > 4 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{noun}s {numbers[0]} to {numbers[-1]} {several}"
    return f"{noun}s {', '.join(map(str, numbers[:8]))}{' ...' if len(numbers) > 8 else ''} {several}"
