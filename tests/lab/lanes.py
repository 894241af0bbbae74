"""The fast path for counting: all threads of a block at once, as lanes of NumPy arrays under a mask.

The tracer runs one thread after the other and remembers everything. This module runs a kernel statement by statement, as a warp
does, and remembers numbers only: so "for every size up to 4096" takes seconds. The tests hold its counts to the tracer's.
Blocks run one after the other, in order.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep.lab.expressions import GEOMETRY
from upsweep.lab.flow import data_names, dotted, is_data
from upsweep.lab.machine import scope
from upsweep.lab.reading import source_of
from upsweep.lab.traces import Case

COMPARE = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
           ast.NotEq: operator.ne}  # fmt: skip
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
          ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitOr: operator.or_,
          ast.BitAnd: operator.and_, ast.BitXor: operator.xor}  # fmt: skip
CALLS = {"min": np.minimum, "max": np.maximum, "abs": np.abs}


@dataclass
class Tally:
    """Counts of a run, named as in `counts.Counts`; steps and barriers are the most that any block has."""

    work: int = 0
    steps: int = 0
    barriers: int = 0
    shared_loads: int = 0
    shared_stores: int = 0
    global_loads: int = 0
    global_stores: int = 0


@dataclass
class Memory:
    """An array, and whether it is shared."""

    words: np.ndarray
    space: str


def tally(case: Case) -> tuple[Tally, list[int]]:
    """The counts of a case under addition of integers, and the case's result."""
    total = Tally()
    memory: dict[str, Any] = {"x": Memory(np.array(case.x, np.int64).reshape(case.shape or -1), "global")}
    for name, content in case.setup.buffers.items():
        words = np.zeros(content, np.int64) if isinstance(content, int) else np.array(content, np.int64)
        memory[name] = Memory(words, "global")
    for launch in case.setup.launches:
        names = {**scope(launch.kernel), **launch.names, "identity": 0, "dtype": None}
        steps = barriers = 0
        for block in range(launch.grid):
            args = [memory[a] if isinstance(a, str) else a for a in launch.args]
            lanes = _Block(names, block, launch.block, launch.grid, case.warp, launch.shared, total)
            lanes.run(_parsed(launch.kernel), args)
            steps, barriers = max(steps, lanes.steps), max(barriers, lanes.barriers)
        total.steps, total.barriers = total.steps + steps, total.barriers + barriers
    return total, memory["y"].words.tolist()


@functools.lru_cache(maxsize=256)
def _parsed(kernel: Callable | str) -> ast.FunctionDef:
    definition = ast.parse(source_of(kernel).text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


@functools.lru_cache(maxsize=256)
def _data(kernel: ast.FunctionDef) -> set[str]:
    return data_names(kernel)


class _Block:
    """One block: its names, a mask of the threads that run, and the counts so far."""

    def __init__(
        self, names: dict[str, Any], index: int, threads: int, grid: int, warp: int, shared: int, total: Tally
    ):
        self.names, self.total, self.threads, self.shared, self.warp = names, total, threads, shared, warp
        lane = np.arange(threads)
        self.geometry = {
            "_t": lane,
            "_b": index,
            "_block": threads,
            "_grid": grid,
            "_lane": lane % warp,
            "_warp": warp,
        }
        self.local: dict[str, Any] = {}
        self.alive = np.ones(threads, bool)
        self.steps = self.barriers = 0
        self.indexing = False

    def run(self, kernel: ast.FunctionDef, args: list[Any]) -> None:
        self.data = _data(kernel)
        self.local.update(zip((a.arg for a in kernel.args.args), args))
        self.block(kernel.body, self.alive)

    def count(self, name: str, times: int) -> None:
        setattr(self.total, name, getattr(self.total, name) + int(times))

    # --- statements ---------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], mask: np.ndarray) -> None:
        for statement in body:
            now = mask & self.alive
            if not now.any():
                return
            getattr(self, f"do_{type(statement).__name__}")(statement, now)

    def do_Pass(self, node: ast.Pass, mask: np.ndarray) -> None:
        pass

    def do_Expr(self, node: ast.Expr, mask: np.ndarray) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value, mask)

    def do_Return(self, node: ast.Return, mask: np.ndarray) -> None:
        self.alive = self.alive & ~mask

    def do_Assign(self, node: ast.Assign, mask: np.ndarray) -> None:
        self.assign(node.targets[0], self.value(node.value, mask), mask)

    def do_AugAssign(self, node: ast.AugAssign, mask: np.ndarray) -> None:
        old = self.value(node.target, mask)
        self.assign(node.target, BINARY[type(node.op)](old, self.value(node.value, mask)), mask)

    def assign(self, target: ast.expr, value: Any, mask: np.ndarray) -> None:
        if isinstance(target, ast.Tuple):
            for one, part in zip(target.elts, value):
                self.assign(one, part, mask)
        elif isinstance(target, ast.Name):
            if not isinstance(value, Memory) and not mask.all():
                value = np.where(mask, value, self.local.get(target.id, 0))
            self.local[target.id] = value
        elif isinstance(target, ast.Subscript):
            memory = self.value(target.value, mask)
            memory.words[self.place(target, mask)] = np.broadcast_to(value, self.threads)[mask]
            self.count(f"{memory.space}_stores", mask.sum())

    def do_If(self, node: ast.If, mask: np.ndarray) -> None:
        taken = mask & self.value(node.test, mask)
        self.block(node.body, taken)
        self.block(node.orelse, mask & ~taken)

    def do_While(self, node: ast.While, mask: np.ndarray) -> None:
        while (mask := mask & self.alive & self.value(node.test, mask)).any():
            self.block(node.body, mask)

    def do_For(self, node: ast.For, mask: np.ndarray) -> None:
        assert isinstance(node.iter, ast.Call)
        bounds = [self.value(a, mask) for a in node.iter.args]
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        at = start
        while (mask := mask & self.alive & (at < stop)).any():
            self.assign(node.target, at, mask)
            self.block(node.body, mask)
            at = at + step

    # --- expressions --------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, mask: np.ndarray) -> Any:
        return getattr(self, f"get_{type(node).__name__}")(node, mask)

    def get_Constant(self, node: ast.Constant, mask: np.ndarray) -> Any:
        return node.value

    def get_Name(self, node: ast.Name, mask: np.ndarray) -> Any:
        return self.local[node.id] if node.id in self.local else self.names[node.id]

    def get_Attribute(self, node: ast.Attribute, mask: np.ndarray) -> Any:
        return self.geometry[GEOMETRY[dotted(node)]]

    def get_Tuple(self, node: ast.Tuple, mask: np.ndarray) -> Any:
        return tuple(self.value(e, mask) for e in node.elts)

    def get_BinOp(self, node: ast.BinOp, mask: np.ndarray) -> Any:
        both = is_data(node.left, self.data) and is_data(node.right, self.data)
        # The operator is written out.
        if isinstance(node.op, ast.Add) and both and not self.indexing:
            self.steps += 1
            self.count("work", mask.sum())
        return BINARY[type(node.op)](self.value(node.left, mask), self.value(node.right, mask))

    def get_UnaryOp(self, node: ast.UnaryOp, mask: np.ndarray) -> Any:
        value = self.value(node.operand, mask)
        return -value if isinstance(node.op, ast.USub) else np.logical_not(value)

    def get_Compare(self, node: ast.Compare, mask: np.ndarray) -> Any:
        return COMPARE[type(node.ops[0])](self.value(node.left, mask), self.value(node.comparators[0], mask))

    def get_BoolOp(self, node: ast.BoolOp, mask: np.ndarray) -> Any:
        every = isinstance(node.op, ast.And)
        result = np.full(self.threads, every)
        # A later part is asked only where the earlier parts leave the answer open.
        for part in node.values:
            open_ = mask & (result if every else ~result)
            if open_.any():
                result = np.where(open_, self.value(part, open_), result)
        return result

    def get_IfExp(self, node: ast.IfExp, mask: np.ndarray) -> Any:
        test = np.broadcast_to(self.value(node.test, mask), self.threads)
        chosen = [(mask & test, node.body), (mask & ~test, node.orelse)]
        values = [self.value(part, where) if where.any() else 0 for where, part in chosen]
        return np.where(test, *values)

    def get_Subscript(self, node: ast.Subscript, mask: np.ndarray) -> Any:
        memory = self.value(node.value, mask)
        out = np.zeros(self.threads, np.int64)
        out[mask] = memory.words[self.place(node, mask)]
        self.count(f"{memory.space}_loads", mask.sum())
        return out

    def place(self, node: ast.Subscript, mask: np.ndarray) -> Any:
        self.indexing = True
        index = self.value(node.slice, mask)
        self.indexing = False
        parts = index if isinstance(index, tuple) else (index,)
        chosen = tuple(np.broadcast_to(part, self.threads)[mask] for part in parts)
        assert all((part >= 0).all() for part in chosen), "a negative index"
        return chosen

    def get_Call(self, node: ast.Call, mask: np.ndarray) -> Any:
        name = dotted(node.func)
        if name == "cuda.syncthreads":
            self.barriers += 1
            return None
        args = [] if name.startswith("cuda.atomic") else [self.value(a, mask) for a in node.args]
        if name == "op":
            self.steps += 1
            self.count("work", mask.sum())
            return args[0] + args[1]
        if name == "cuda.shared.array":
            return Memory(np.zeros(args[0] or self.shared, np.int64), "shared")
        if name == "cuda.shfl_up_sync":
            lane = self.geometry["_t"]
            return np.broadcast_to(args[1], self.threads)[
                np.where(lane % self.warp >= args[2], lane - args[2], lane)
            ]
        if name == "cuda.grid":
            return self.geometry["_b"] * self.threads + self.geometry["_t"]
        if name == "cuda.atomic.add":
            return self.atomic_add(node, mask)
        return CALLS[name](*args) if name in CALLS else None

    def atomic_add(self, node: ast.Call, mask: np.ndarray) -> np.ndarray:
        memory, index, value = (self.value(a, mask) for a in node.args)
        place = np.broadcast_to(index, self.threads)[mask]
        old = np.zeros(self.threads, np.int64)
        old[mask] = memory.words[place]
        np.add.at(memory.words, place, np.broadcast_to(value, self.threads)[mask])
        return old
