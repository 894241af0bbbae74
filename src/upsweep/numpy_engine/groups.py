"""Scans of groups whose items lie in any order, by sorting: groups of about one size are the rows of one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from upsweep.host.codes import Codes, numbered
from upsweep.numpy_engine import finished, inputs_of, operands, prefixes_of, shown, write
from upsweep.numpy_engine.operators import on_arrays
from upsweep.numpy_engine.sweep import Steps
from upsweep.plan import Plan


def run_groups(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray | None],
    initial: Sequence[np.ndarray] | None,
    keys: tuple[Any, ...],
) -> None:
    """Run a plan for each group by itself: see `upsweep.engine_protocol.Grouping.run_groups`."""
    codes, groups = codes_of(keys, plan.n)
    counts = np.bincount(codes, minlength=groups)
    with np.errstate(all="ignore"):
        inputs = inputs_of(plan, xs)
        items = operands(plan, inputs)
        known = [np.empty_like(x) for x in items]
        for places, there in _alike(codes[::-1] if plan.reverse else codes, counts):
            rows = (places.shape[1], *plan.row_shape)
            before = None if initial is None else [np.broadcast_to(s, rows) for s in initial]
            steps = Steps(on_arrays(plan.op, plan.accumulators), before)
            results = shown(plan, prefixes_of(plan, steps, [x[places] for x in items], None), None, before)
            for y, result in zip(known, results):
                y[places[there]] = result[there]
        write(plan, known if plan.finish is None else finished(plan, plan.finish, known, inputs), ys)


def _alike(codes: np.ndarray, counts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The places of groups of about one size, a column for each, and a mask of the items among them. A column is filled up to
    a power of two, so all columns together have at most twice the items.
    """
    order, behind = np.argsort(codes, kind="stable"), np.cumsum(counts)
    sizes = np.frexp(np.maximum(counts - 1, 0).astype(np.float64))[1]
    for size in np.unique(sizes):
        groups = np.flatnonzero(sizes == size)
        along = np.arange(1 << size)[:, None]
        there = along < counts[groups]
        yield order[np.where(there, (behind - counts)[groups] + along, 0)], there


def codes_of(keys: tuple[Any, ...], n: int) -> Codes:
    """The group of each of n items, int32, by first appearance, and how many groups there are. Items are of one group where all
    keys agree."""
    return numbered(keys, n, _dense, _of_texts)


def _dense(values: np.ndarray) -> Codes:
    _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return rank[codes], len(order)


def _of_texts(data: np.ndarray, offsets: np.ndarray) -> Codes:
    texts, ends, known = data.tobytes(), offsets.tolist(), {}
    codes = [known.setdefault(texts[a:b], len(known)) for a, b in pairwise(ends)]
    return np.array(codes, np.int32), len(known)
