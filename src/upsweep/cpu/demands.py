"""What a plan is worth on this machine: threads, code of its own, a way past the cache."""

from __future__ import annotations

from upsweep import cores
from upsweep.cpu import tuning
from upsweep.cpu.rows import Strides, item_size
from upsweep.cpu.words import LINE, ROW
from upsweep.operators import free
from upsweep.plan import Plan


def wanted_threads(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """The threads that pay for a plan. One row that is scanned straight through takes one thread less time than others do."""
    most = plan.threads or cores.wanted()
    alone = plan.rows == 1 and not (plan.reduce or plan.segmented) and free(plan.op, plan.accumulators)
    fast = alone and most < tuning.PARALLEL_MANY
    least = tuning.PARALLEL_BYTES * (tuning.PARALLEL_STRAIGHT if fast else 1)
    size = read_size(plan, strides) * plan.n * plan.rows
    pay = tuning.PARALLEL * size // max(1, least) if size >= least else 1
    return max(1, min(most, pay))


def past_cache(plan: Plan) -> bool:
    """Whether results are too large for the cache."""
    return plan.n * plan.rows * item_size(plan) >= tuning.STREAM_BYTES and not plan.reduce


def worth_code(plan: Plan) -> bool:
    """Whether arrays are so large that code of their own is worth compiling."""
    return plan.n * plan.rows * item_size(plan) >= tuning.OWN_CODE_BYTES


def passes_short(plan: Plan) -> bool:
    """Whether the last rows of columns, less than 16, have code of their own. Less than four rows need none. An exclusive scan in
    place would write on items that are yet to be read.
    """
    return plan.n % ROW > 3 and not plan.exclusive and worth_code(plan)


def read_size(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """Bytes of one item as it is swept, or as it is read where a map makes fewer bytes of it. Numbers stay where they are."""
    moved = sum(d.itemsize for d, array in zip(plan.loads, strides) if array[plan.axis])
    return max(item_size(plan), moved + plan.segmented)


def shortest_straight(plan: Plan) -> int:
    """The items of a short row from which on it may be scanned straight through: a line at least, of pairs of values."""
    line = LINE // plan.accumulators[0].itemsize
    return line if past_cache(plan) and len(plan.accumulators) == 1 else max(tuning.SHORT_STRAIGHT, line)
