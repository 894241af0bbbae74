"""From the words of a launch to threads at work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.launch import Launch
from upsweep.cpu.objects import address_of
from upsweep.cpu.words import PART_WORDS, WORDS, Part, Word
from upsweep.operator import OperatorError
from upsweep.plan import Plan


def at_work(plan: Plan, launch: Launch, arrays: Sequence[np.ndarray]) -> None:
    """Run a launch on its arrays."""
    words = launch.words.copy()
    words[launch.addresses] = [address_of(a) for a in arrays]
    # Until all threads are done, this holds the memory in which they tell each other of their sums.
    shared = _shared_memory(launch, words)
    here = address_of(words)
    if launch.threads == 1:
        memory = threads.scratch(launch.scratch)
        failed = launch.run(memory + launch.results, memory + launch.results + 8, here, memory)
    else:
        failed = threads.together(launch.address, here, launch.threads, launch.scratch)
    del shared
    if failed:
        raise OperatorError(f"operator {plan.op} raised an exception")


def _shared_memory(launch: Launch, words: np.ndarray) -> list[np.ndarray]:
    """The memory in which the threads of a look-back tell each other of their sums."""
    if not launch.sync_words:
        return []
    sync = np.zeros(launch.sync_words, np.int64)
    nodes = [np.empty(size, np.uint8) for size in launch.node_bytes]
    words[Word.SYNC] = address_of(sync)
    for c, node in enumerate(nodes):
        words[WORDS + c * PART_WORDS + Part.NODES] = address_of(node)
    return [sync, *nodes]
