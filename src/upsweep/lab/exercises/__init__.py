"""Graded exercises: mend or finish a kernel, or say what it will cost, and be told which line is wrong and why.

>>> from upsweep.lab.exercises import EXERCISES
>>> print(EXERCISES[3].task.splitlines()[0])
Exercise 3: the missing barrier (notes on scan kernels, "write after read").
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from upsweep.lab.exercises.questions import BRANCHES, CONFLICTS, COSTS, COURSE, Question


@dataclass(frozen=True)
class Exercise:
    """One row of the table: what to write, what it is measured by, and why typical answers are wrong."""

    number: int
    name: str
    """The name of the starter file, and of its function."""
    like: str
    """The textbook kernel whose launch it takes over and whose costs it must not exceed; none where questions are asked."""
    why: Mapping[str, str]
    """For a kind of finding, or for `operations`, `barriers` and `banks`: the reason, in the words of this exercise."""
    sizes: tuple[int, ...] = (16, 13)
    block: int | None = None
    hidden: tuple[tuple[int, int | None], ...] = ((70, None), (70, 32), (1000, None))
    """(n, block) of further runs, on items drawn at random: several warps, several blocks, more than a starter's sizes."""
    functions: Mapping[int, str] = field(default_factory=dict)
    """Which launch each function of the file takes over; by default the first one is the exercise's name."""
    lean: bool = False
    """Whether barriers count as work."""
    spare: int = 0
    """Operations that an answer may have beyond the textbook's, which writes some as differences."""
    held: tuple[int | None, ...] = (None,)
    """How many blocks the GPU holds at once, one run for each; where it is a number, blocks are issued backwards."""

    questions: tuple[Question, ...] = ()
    """The values that the file's constants must have, where it holds no kernel."""

    @property
    def starter(self) -> str:
        """The text of the file that the student starts from."""
        return (files("upsweep.lab.exercises") / "starters" / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def task(self) -> str:
        """The task, from the starter's docstring."""
        return ast.get_docstring(ast.parse(self.starter)) or ""

    @property
    def takes_over(self) -> Mapping[int, str]:
        """For each launch that the file provides, the name of its function."""
        return {} if self.questions else self.functions or {0: self.name}


_LEVELS = "a level must not begin to read before the last one has written, nor write before all have read"
_TREE = "a level of the tree reads what other threads wrote on the level before: a barrier belongs between two levels"
_TAIL = "in the last section there are only n - start items: compare with that, not with TILE"

_ROWS = [
    Exercise(1, "fill_the_blanks", "kogge-stone", {
        "wrong value": "after the level with this stride, xy[t] must hold the 2 * stride items that end at t",
        "race": _LEVELS + "; that is what `temp` and the second barrier are for",
        "out of bounds": "the neighbour lies `stride` places to the left, and only threads with t >= stride have one",
        "operations": "each thread combines once a level"}),
    Exercise(2, "make_it_exclusive", "kogge-stone-exclusive", {
        "wrong value": "y[i] must leave x[i] out: shift the load by one, and let thread 0 of each block begin with the identity",
        "out of bounds": "shift the load, not the store: thread 0 has no item to its left, and loads `identity`",
        "race": "a shifted store reads what another thread has only just written: shift the load instead",
        "operations": "the shift needs no further operation: an exclusive scan cannot be had by taking x[i] away again"}),
    Exercise(3, "missing_barrier", "kogge-stone", {
        "wrong value": "the levels are right as they stand: a word was overwritten while it was still needed",
        "race": "one thread overwrites xy[t] while its neighbour has yet to read it: all must have read before anyone writes",
        "divergent barrier": "a barrier must be met by all threads of the block: it cannot stand inside `if t >= stride`",
        "barriers": "one barrier for what was written and one for what was read are all that a level needs"}, lean=True),
    Exercise(4, "redundant_barrier", "kogge-stone-double", {
        "race": "this barrier was needed: it separates one level's writes from the next one's reads",
        "barriers": "with two buffers, one barrier a level separates both; before the first level, the loop's own does it, and "
        "after the last level each thread reads only its own word"}, lean=True),
    Exercise(5, "double_buffer", "kogge-stone-double-exclusive", {
        "wrong value": "temp[pout, t] still holds the sums of two levels ago: both operands lie in temp[pin], and the result, "
        "after the last level, in temp[pout]",
        "uninitialised": "on the first level nobody has written temp[pout] yet: both operands lie in temp[pin]; and a thread "
        "that combines nothing copies its word, which the next level reads",
        "race": "the level before wrote temp[pin] and nobody may read temp[pout]; with one barrier a level that suffices",
        "operations": "each thread with t >= offset combines once a level, the others copy"}),
    Exercise(6, "tail_guard", "brent-kung", {
        "out of bounds": _TAIL, "uninitialised": _TAIL + "; words past the end hold nothing, so no node may take them in",
        "wrong value": "guard with the number of items, and every prefix below it stays as it was",
        "divergent barrier": "a thread without items must not return: the others wait for it at the next barrier",
        "operations": "a node past the end is work for nothing: guard the tree's nodes, too", "race": _TREE},
        sizes=(16, 13, 5, 1), block=4, hidden=((70, 40), (70, 8), (1000, 64))),
    Exercise(7, "work_efficient", "brent-kung", {
        "wrong value": "from the largest stride down: xy[index + stride] = op(xy[index], xy[index + stride]), where index is the "
        "last word of a finished prefix",
        "uninitialised": "the reverse tree must stay below `items`", "out of bounds": "the reverse tree must stay below `items`",
        "race": _TREE, "operations": "n - 1 of them are in the reduction tree, and only n - 1 - log2 n more are needed: no word "
        "that is finished is added to again"}, sizes=(16, 32, 13)),
    Exercise(8, "bank_conflict", "blelloch-padded", {
        "banks": "words whose padded indices differ by a multiple of 32 share a bank: pad every index by its own a >> LOG_BANKS",
        "wrong value": "a word must be padded everywhere in the same way: where it is loaded, in both sweeps, at the root, "
        "and where it is stored",
        "uninitialised": "a word is written at one padded index and read at another",
        "race": _TREE + "; and where only some indices are padded, two threads may meet in one word",
        "out of bounds": "the highest padded index is n - 1 + ((n - 1) >> LOG_BANKS)",
        "operations": "padding moves words and adds none"}, sizes=(128, 100)),
    Exercise(9, "noncommutative", "brent-kung", {
        "wrong value": "the left operand must be the earlier one: xy[index - stride] comes before xy[index], and xy[index] "
        "before xy[index + stride]",
        "race": _TREE, "operations": "only the order of the operands changes, not their number"}, sizes=(16, 13)),
    Exercise(10, "three_phase", "three-phase", {
        "wrong value": "a section lacks the prefix that ends where it begins, xy[first - 1]; its last item has it already",
        "race": "xy[first - 1] is another thread's last item: phase 3 begins when phase 2 has ended for all",
        "operations": "thread 0 lacks nothing, and the last item of a section is finished: both are left out of phase 3",
        "out of bounds": "thread 0 has no section before it: xy[first - 1] is xy[-1]",
        "divergent barrier": "a barrier must be met by all threads: it cannot stand inside `if t > 0`"}, sizes=(32, 27), block=8,
        hidden=((71, 8), (70, 40), (1000, 64))),
    Exercise(11, "hierarchical", "hierarchical", {
        "out of bounds": "block 0 comes first and adds nothing, scanned[-1] is no word; and threads with i >= n have no item",
        "never written": "every item must be written, and every block that has items must leave its sum",
        "uninitialised": "the last block may not be full: its sum lies in the last item that it has, i == n - 1",
        "wrong value": "each item lacks scanned[blockIdx.x - 1], the sum of all blocks before its own, as the left operand",
        "operations": "block 0 lacks nothing"}, sizes=(16, 13), block=4, functions={0: "scan_sections", 2: "uniform_add"},
        hidden=((71, 8), (70, 40), (1000, 64))),
    Exercise(12, "domino", "domino-dynamic", {
        "deadlock": "a block waits for one that cannot start before it ends: number the blocks by "
        "cuda.atomic.add(counter, 0, 1), once a block, and let all of its threads know the number",
        "race": "what one block writes, another sees only through a fence: cuda.threadfence() between writing the carry and "
        "raising the flag, and between seeing the flag and reading the carry; within the block, a barrier before a word of "
        "shared memory is read by others",
        "wrong value": "one thread takes the number, and all of the block use it for i and for the flags",
        "uninitialised": "the number must be in shared memory before the others read it: a barrier",
        "out of bounds": "one thread a block takes a number; if all do, the numbers run past the last block"},
        sizes=(16, 13), block=4, held=(None, 2), hidden=((71, 8), (70, 40), (1000, 64))),
    Exercise(13, "nine_blanks", "kogge-stone", {
        "wrong value": "after the level with this stride, xy[t] must hold the 2 * stride items that end at i; and blocks scan "
        "their own sections",
        "race": _LEVELS + "; and blocks that do not tell their items apart by i write the same words of y",
        "out of bounds": "i counts through all blocks and t within one: x and y take i, xy takes t, and both "
        "must be compared with what bounds them",
        "never written": "every block writes its own section: i must tell the blocks apart",
        "operations": "each thread combines once a level"}),
    Exercise(14, "predict_conflicts", "", {}, questions=CONFLICTS),
    Exercise(15, "predict_costs", "", {}, questions=COSTS),
    Exercise(16, "predict_branches", "", {}, questions=BRANCHES),
    Exercise(17, "course_questions", "", {}, questions=COURSE),
    Exercise(18, "compact", "compaction", {
        "wrong value": "item t goes to the place that counts the flags before it: the exclusive scan of the flags",
        "never written": "a flag before the first item counts nothing: kept[0] must be 0, and the scan exclusive",
        "out of bounds": "an inclusive scan counts the item itself, and sends the last one past the end",
        "race": _LEVELS + "; and two threads write one word of y where items that are not kept are written, too",
        "written twice": "only items that are kept have a place: the others must not write"},
        hidden=((70, None), (1000, None))),
    Exercise(19, "split_by_a_bit", "radix-split", {
        "wrong value": "a zero goes to the number of zeros before it; a one goes to all zeros, and the ones before it: "
        "total + t - zeros[t]",
        "out of bounds": "t - zeros[t] counts the ones before t; the zeros are all in front of them",
        "race": _LEVELS + "; the total belongs to all threads only after a barrier; and two items with one place race for it"},
        hidden=((70, None), (1000, None))),
    Exercise(20, "range_query", "range-query", {
        "wrong value": "y[B] - y[A - 1] counts bins A to B; y[B] - y[A] leaves bin A out",
        "out of bounds": "before bin 0 there is nothing: do not read prefixes[-1]; and threads with i >= n have no question"},
        functions={1: "range_query"}, hidden=((70, None), (1000, None))),
    Exercise(21, "summed_area", "summed-area-table", {
        "wrong value": "line b begins at b * lead, and its items lie `step` apart: rows have step 1, columns the width",
        "out of bounds": "place is in x and y, t is in the line", "never written": "every thread with an item writes it",
        "race": _LEVELS}, functions={0: "summed_area", 1: "summed_area"}, sizes=(16, 12), hidden=((70, None), (1000, None))),
    Exercise(22, "four_reads", "box-sums", {
        "wrong value": "A - B - C + D: what both strips take away is given back once",
        "out of bounds": "a box at the upper or left edge has nothing above it, or to its left; and threads with i >= n "
        "have no box"},
        functions={2: "four_reads"}, spare=6, sizes=(16, 12), hidden=((70, None), (1000, None))),
]  # fmt: skip

EXERCISES: dict[int, Exercise] = {row.number: row for row in _ROWS}
"""Every exercise by its number."""
