"""Plans as the kernels of this engine take them: a finish that sees the items has a map, which has them lie in lines."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from upsweep.dtypes import accumulator
from upsweep.function import Function
from upsweep.plan import Plan


@lru_cache(4096)
def with_map(plan: Plan) -> Plan:
    """A plan whose finish sees the items, which are therefore read as those of a map."""
    if plan.map is not None or plan.finish is None or plan.finish.arity == 1:
        return plan
    seen = tuple(map(accumulator, plan.loads))
    return replace(plan, map=Function(_itself if len(seen) == 1 else _all, len(seen), seen))


def _itself(x):
    return x


def _all(*xs):
    return xs
