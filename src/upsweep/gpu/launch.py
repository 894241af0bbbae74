"""One frozen launch for each plan and class of layout; running it again packs pointers and calls the driver, no more."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import numpy as np

from upsweep.engine import EngineError
from upsweep.gpu import (
    alike_lines,
    bringing,
    bytewise,
    compile,
    crosswise,
    driver,
    functions,
    lanes,
    params,
    shapes,
    shortwise,
    stepwise,
    sweeps,
)
from upsweep.gpu.arrays import Kind
from upsweep.gpu.choice import Choice, tickets_ahead
from upsweep.gpu.layout import Layout, arrange
from upsweep.gpu.marks import Marks
from upsweep.gpu.shapes import Chip
from upsweep.gpu.shapes.columns import RAGGED, RAGGED_SEGMENTED
from upsweep.gpu.sharing import node_words
from upsweep.gpu.text import arity
from upsweep.gpu.view import View
from upsweep.gpu.workspaces import NOWHERE, workspace
from upsweep.operator import identity_of
from upsweep.plan import Plan


@dataclass(frozen=True)
class Launch:
    """All that does not change from call to call."""

    plan: Plan
    kernel: Any
    grid: int
    block: int
    shared: int
    offsets: tuple[int, ...]
    """Bytes from the pointers of loads, stores, heads and starts to the places where the scan begins."""
    packer: struct.Struct
    values: bytes
    """The identity, or space for an initial value from the host."""
    frozen: bytes
    arrivals: int
    nodes: int
    """Words of memory in which blocks hand sums to each other."""
    meets: bool
    """Whether blocks take tickets, and so need a workspace."""
    told: tuple[int, ...]
    """The inputs that are numbers."""
    bits: bool
    """Whether segments are read as bits."""
    early: bool
    """Whether blocks may begin before the launch ends that writes their marks. Without -> so, by the time of a whole call (H200):
    by offsets 10 to 60 MB of copies .92 to .96, by lengths .93 to .95, by keys .93 to .94; from 500 MB on .98 to 1.00."""


# Launches that are kept: a program that never repeats itself must not keep them all.
_MOST = 4096
_launches: dict[Any, Launch] = {}
_lock = Lock()


def run(
    plan: Plan,
    xs: Sequence[View],
    ys: Sequence[View | None],
    initial: Sequence[View] | None,
    heads: View | Marks | None,
) -> None:
    written = [y for y in ys if y is not None]
    first = xs[0]
    if plan.n == 0 or 0 in plan.row_shape:
        if plan.reduce and 0 not in plan.row_shape:
            run(*_of_nothing(plan, written), initial, heads)
        return
    marks = heads.values if isinstance(heads, Marks) else heads
    _check_devices(first, (*xs[1:], *written, marks, *(initial or ())))
    with driver.on_device(first.device):
        launch = launch_of(plan, xs, written, initial or (), heads)
        if isinstance(heads, Marks):
            heads = heads.written(launch.bits, plan.reverse)
        arrays = [*xs, *written, heads, *(initial or ())]
        values = launch.values
        pointers = [v.ptr + o if v is not None else 0 for v, o in zip(arrays, launch.offsets)]
        if not initial:
            pointers += [0] * len(plan.accumulators)
        elif any(v.on_host for v in initial):
            values = b"".join(value_bytes(v.value, v.dtype) if v.on_host else bytes(16) for v in initial)
        if launch.told:
            values += b"".join(value_bytes(xs[i].value, plan.loads[i]) for i in launch.told)
        start(launch, pointers, values, _kind(first).stream(first), first.device)


def _check_devices(first: View, others: Sequence[View | None]) -> None:
    """An EngineError where arrays lie on several GPUs: a kernel that reads another one's memory may end the process's CUDA."""
    for v in others:
        if v is not None and v.device != first.device and not v.on_host:
            raise EngineError(
                f"the arrays of a scan lie on GPU {first.device} and on GPU {v.device}: bring them to one"
            )


def launch_of(
    plan: Plan, xs: Sequence[View], ys: Sequence[View], initial: Sequence[View], heads: View | Marks | None
) -> Launch:
    """The launch of a plan on arrays that lie like these, on the current device."""
    device = xs[0].device
    # A launch keeps its plan alive, so that no other plan gets the same id.
    key = (id(plan), device, type(heads), *[v and v.place for v in (*xs, *ys, heads, *initial)])
    launch = _launches.get(key)
    if launch is None:
        launch = _prepare(plan, xs, ys, initial, heads, device)
        with _lock:
            if len(_launches) >= _MOST:
                _launches.clear()
            _launches[key] = launch
    return launch


def start(launch: Launch, pointers: Sequence[int], values: bytes, stream: int, device: int) -> None:
    """Launch on arrays that begin at `pointers`, on the current device."""
    work = workspace(launch.arrivals, launch.nodes, stream, device) if launch.meets else None
    place = work.place if work else NOWHERE
    parameter = launch.packer.pack(*place, *pointers) + values + launch.frozen
    # Graphs of older drivers know no such launches.
    early = launch.early and not (stream and driver.capturing(stream))
    begin = driver.launch_early if early else driver.launch
    begin(launch.kernel, launch.grid, launch.block, launch.shared, stream, parameter)


THREADS = 256
"""Threads of a block, by kernels/marks.cuh."""


def run_small(
    name: str, key: np.dtype, numbers: Sequence[int], threads: int, stream: int, device: int
) -> None:
    """Run one of the kernels that write segments as flags or bits, of some numbers, on a stream of the current device."""
    if threads:
        kernel = _small(name, key, device)
        driver.launch(
            kernel, -(-threads // THREADS), THREADS, 0, stream, struct.pack(f"<{len(numbers)}q", *numbers)
        )


@cache
def _small(name: str, key: np.dtype, device: int) -> Any:
    code = compile.cubin(name, f"#define KEY {functions.memory_type(key)}\n", (), driver.architecture(device))
    return driver.load(code, f"upsweep_{name}", 0, device)


def _kind(v: View) -> Kind:
    assert v.kind is not None
    return v.kind


def _of_nothing(plan: Plan, ys: Sequence[View]) -> tuple[Plan, Sequence[View], Sequence[View]]:
    """The reduction of no items is the first exclusive prefix of one item, whatever that item is."""
    longer = [
        View(v.ptr, (*v.shape, 1), (*v.strides, v.dtype.itemsize), v.dtype, v.device, v.kind, v.owner)
        for v in ys
    ]
    shape, parts = (*plan.row_shape, 1), len(plan.accumulators)
    loads = (params.stored(plan)[0],) * parts
    one = replace(plan, loads=loads, map=None, shape=shape, axis=len(shape) - 1, exclusive=True, reduce=False)
    return one, longer[:1] * parts, longer


def _prepare(plan: Plan, xs, ys, initial, heads, device: int) -> Launch:
    loads, stores, starts = ([v.place for v in views] for views in (xs, ys, initial))
    layout = arrange(plan, loads, stores, starts, heads and heads.place)
    chip = shapes.chip(driver.architecture(device))
    asked = plan
    plan, choice = choose(plan, layout, chip)
    if isinstance(heads, Marks) and choice.reads_bits(plan):
        choice = replace(choice, bits=True)
    shared = choice.shared_bytes(plan)
    kernel = _kernel(choice.kernel, choice.spec(plan), functions.linked(plan), shared, device)
    grid = choice.grid(
        lambda: (
            driver.blocks_per_multiprocessor(kernel, choice.threads, shared)
            * driver.attribute(device, "MULTIPROCESSOR_COUNT")
        )
    )
    _, sizes, nodes = choice.levels()
    words = node_words(plan) * choice.node_items
    return Launch(
        asked,
        kernel, grid, choice.threads, shared, _offsets(choice, plan),
        params.packer(arity(plan, choice.layout)), _start_values(plan), _freeze(plan, choice, grid),
        arrivals=nodes - sizes[0] * (nodes and _rows_of(choice)), nodes=nodes * words, meets=choice.meets,
        told=tuple([i for i, x in enumerate(choice.layout.loads) if x.told]), bits=choice.bits,
        early=isinstance(heads, Marks) and driver.architecture(device) >= 90,
    )  # fmt: skip


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Choice]:
    """The kernel of a scan, and the plan that it is made for: of words, where bytes of columns may be joined."""
    if (lines := alike_lines.choose(plan, layout, chip)) is not None:
        return plan, lines
    if (copies := bringing.choose(plan, layout, chip)) is not None:
        return plan, copies
    if (shorts := shortwise.choose(plan, layout, chip)) is not None:
        return shorts
    across = crosswise.choose(plan, layout, chip)
    steps = None if across and across[1].kernel == "crosswise" else stepwise.choose(plan, layout, chip)
    if (made := steps or across) is not None:
        return made
    plan, layout = bytewise.joined(plan, layout)
    plan = bytewise.in_words(plan)
    choice = lanes.choose(plan, layout, chip)
    if choice is None:
        plan = replace(plan, order="tree")
        choice = sweeps.choose(plan, layout, chip)
    words = bytewise.ragged(plan, layout) if choice.shape.loose else None
    if words is not None:
        joined = sweeps.choose(*words, chip)
        least = RAGGED_SEGMENTED if plan.segmented else RAGGED
        uncut = layout.dims[-1] >= least or bytewise.are_whole(plan, layout)
        loose = joined.shape.stretch if plan.reduce else joined.shape.loose
        by_lines = loose and plan.accumulators[0].itemsize == 1 and uncut
        if joined.shape.flat or by_lines:
            return words[0], joined
    return plan, choice


# Scans of other lengths share a kernel: a second copy of the kernel would take its memory again.
@lru_cache(_MOST)
def _kernel(name: str, spec: str, python: tuple[functions.Linked, ...], shared: int, device: int) -> Any:
    code = compile.cubin(name, spec, python, driver.architecture(device))
    return driver.load(code, f"upsweep_{name}", shared, device)


def _rows_of(choice: Choice) -> int:
    return choice.rows * choice.column_groups * choice.shape.vector


def _offsets(choice: Choice, plan: Plan) -> tuple[int, ...]:
    layout = choice.layout
    starts = [x.offset for x in layout.starts] or [0] * len(plan.accumulators)
    # Bits are in the order of the scan.
    heads = layout.heads.offset if layout.heads and not choice.bits else 0
    return (*[x.offset for x in layout.arrays()], heads, *starts)


def value_bytes(value: Any, dtype: np.dtype) -> bytes:
    """A number as it travels with a launch: over and over, so that a word of narrow numbers has it in each."""
    return np.asarray(value, dtype).tobytes() * (16 // dtype.itemsize)


def _start_values(plan: Plan) -> bytes:
    identity = identity_of(plan.op, plan.accumulators) if plan.exclusive and not plan.initial else None
    return b"".join(
        value_bytes(v, d) for v, d in zip(identity or [0] * len(plan.accumulators), plan.accumulators)
    )


def _freeze(plan: Plan, choice: Choice, grid: int) -> bytes:
    """The parameters after the pointers and the values to start from."""
    layout, columns = choice.layout, choice.across
    first, sizes, _ = choice.levels()
    dims = layout.dims[: len(layout.dims) - columns]
    rank = max(1, len(dims))

    def strides(*lanes) -> list[int]:
        rows = [(lane.along, *lane.rows[: len(dims)]) if lane else () for lane in lanes]
        return [word for row in rows for word in (*row, *[0] * (1 + rank - len(row)))]

    starts = layout.starts or [None] * len(plan.accumulators)
    return params.frozen(
        arity(plan, layout), len(dims), n=layout.n, rows=choice.rows, tiles=choice.tiles, tickets=choice.tickets,
        ahead=tickets_ahead(plan, choice, grid), levels=len(sizes), level_first=first, level_size=sizes, dim=dims,
        in_strides=strides(*layout.loads), out_strides=strides(*layout.stores), heads_strides=strides(layout.heads),
        start_strides=strides(*starts), heads_first=1, columns=choice.columns, column_groups=choice.column_groups,
        crosswise=choice.crosswise,
        in_column=[x.rows[-1] if columns else 0 for x in layout.loads],
        out_column=[x.rows[-1] if columns else 0 for x in layout.stores],
        heads_column=layout.heads.rows[-1] if columns and layout.heads else 0,
        start_column=[x.rows[-1] if columns and x else 0 for x in starts],
    )  # fmt: skip
