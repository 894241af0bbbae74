"""A kernel's Python, rewritten so that every access, operator, branch and barrier reports itself.

The kernel becomes a generator for one thread: it yields where threads wait for each other, and calls a hook with a
site number everywhere else. Nothing about its control flow changes. `Site` tells where in the source a number is.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

PAUSE, ATOMIC = -1, -2
"""What a thread yields besides a barrier's site: between two accesses, and before an atomic."""

GEOMETRY = {
    "cuda.threadIdx.x": "_t", "cuda.blockIdx.x": "_b", "cuda.blockDim.x": "_block", "cuda.gridDim.x": "_grid",
    "cuda.laneid": "_lane", "cuda.warpsize": "_warp",
}  # fmt: skip
SHUFFLES = ("shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync", "ballot_sync")
ATOMICS = ("add", "sub", "max", "min", "exch", "cas", "and_", "or_", "xor")
FENCES = ("cuda.threadfence", "cuda.threadfence_block", "cuda.threadfence_system")
PLAIN = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Constant, ast.Name, ast.Tuple, ast.expr_context,
         ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Pass, ast.Expr)  # fmt: skip


class KernelError(ValueError):
    """A kernel uses Python that no GPU kernel has; the message names the file and the line."""


class Spot(NamedTuple):
    """A line of a kernel, by the kernel's name: other kernels of a run may have such a line, too."""

    kernel: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


@dataclass(frozen=True)
class Site:
    """A place in a kernel's source where something happens."""

    kind: str
    """load, store, op, branch, loop, barrier, warp barrier, shuffle, atomic or fence"""
    line: int
    column: int
    text: str
    inside: int = 0
    """Of a loop: how many of the sites that follow lie in it."""


@dataclass(frozen=True)
class Source:
    """The text of a kernel: its lines as the reader knows them."""

    text: str
    file: str
    first: int
    name: str

    @property
    def lines(self) -> list[str]:
        return self.text.rstrip("\n").split("\n")

    def line(self, number: int) -> str:
        return self.lines[number - self.first].strip()


@dataclass(frozen=True)
class Rewritten:
    """The code of a kernel's generator, and the sites that its numbers mean."""

    source: Source
    code: types.CodeType
    sites: tuple[Site, ...]
    parameters: tuple[str, ...]
    statements: tuple[int, ...]
    """Lines before which a barrier could stand: those that every thread of a block passes."""


def source_of(kernel: Callable | str) -> Source:
    """The source of a kernel, from a function or from its text."""
    if isinstance(kernel, str):
        source = Source(textwrap.dedent(kernel).strip("\n"), "<kernel>", 1, "")
        return replace(source, name=_definition(source, _parse(source)).name)
    return _read(getattr(kernel, "py_func", kernel))


@functools.lru_cache(maxsize=512)
def _read(function: Callable) -> Source:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as missing:
        raise KernelError(
            f"{function!r} has no source to trace: define it in a file or pass its text"
        ) from missing
    return Source(
        textwrap.dedent("".join(lines)), inspect.getsourcefile(function) or "?", first, function.__name__
    )


@functools.lru_cache(maxsize=512)
def rewrite(
    source: Source,
    fine: bool = False,
    without: frozenset[int] = frozenset(),
    before: frozenset[int] = frozenset(),
) -> Rewritten:
    """Rewrite one kernel.

    Args:
        source: its text.
        fine: pause before every access, so that a schedule may interleave single accesses.
        without: lines whose barriers are left out.
        before: lines before which a barrier is put in.
    """
    module = _parse(source)
    ast.increment_lineno(module, source.first - 1)
    definition = _definition(source, module)
    work = _Rewriter(source, definition, fine, without, before)
    thread = work.kernel(definition)
    code = compile(ast.fix_missing_locations(ast.Module([thread], [])), source.file, "exec")
    parameters = tuple(a.arg for a in definition.args.args)
    return Rewritten(source, code, tuple(work.sites), parameters, tuple(work.statements))


def _parse(source: Source) -> ast.Module:
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        line = (error.lineno or 1) + source.first - 1
        raise KernelError(f"{source.file}:{line}: {error.msg}\n    {(error.text or '').strip()}") from error


def _definition(source: Source, module: ast.Module) -> ast.FunctionDef:
    found = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if len(found) != 1:
        raise KernelError(f"{source.file}: expected one kernel, a single def, and found {len(found)}")
    return found[0]


def dotted(node: ast.AST) -> str:
    """`cuda.atomic.add` for the expression of that name, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def _hook(name: str, *args: ast.expr | int | str) -> ast.Call:
    return ast.Call(
        ast.Name(name, ast.Load()), [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args], []
    )


class _Rewriter(ast.NodeTransformer):
    def __init__(
        self,
        source: Source,
        definition: ast.FunctionDef,
        fine: bool,
        without: frozenset[int],
        before: frozenset[int],
    ):
        self.source, self.fine, self.without, self.before = source, fine, without, before
        self.sites: list[Site] = []
        self.statements: list[int] = []
        self.loops: list[int] = []
        self.data = _data_names(definition)
        self.target = ""

    # --- small things -------------------------------------------------------------------------------------------

    def refuse(self, node: ast.AST, why: str) -> KernelError:
        line = getattr(node, "lineno", self.source.first)
        return KernelError(f"{self.source.file}:{line}: {why}\n    {self.source.line(line)}")

    def site(self, kind: str, node: ast.expr | ast.stmt, text: str = "") -> int:
        self.sites.append(Site(kind, node.lineno, node.col_offset, text or ast.unparse(node)))
        return len(self.sites) - 1

    def access(self, name: str, *args: ast.expr | int | str) -> ast.Call:
        """A hook before which, in fine schedules, other threads may run."""
        return _hook(name, *args, *([ast.Yield(ast.Constant(PAUSE))] if self.fine else []))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, PLAIN):
            raise self.refuse(node, f"a kernel cannot use {_spoken(node)}")
        return super().generic_visit(node)

    # --- statements ---------------------------------------------------------------------------------------------

    def kernel(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
            raise self.refuse(node, "a kernel takes plain positional arguments")
        arguments = [ast.arg(a.arg) for a in node.args.args] + [ast.arg(a) for a in ("_t", "_b", "_lane")]
        thread = ast.parse("def thread():\n    if False: yield").body[
            0
        ]  # a generator, whatever the kernel does
        assert isinstance(thread, ast.FunctionDef)
        thread.args.args = arguments
        thread.body += self.block(node.body, uniform=True)
        return thread

    def block(self, body: list[ast.stmt], uniform: bool = False) -> list[ast.stmt]:
        """Rewrite a list of statements; `uniform` where all threads of a block pass it."""
        out: list[ast.stmt] = []
        for statement in body:
            if uniform and not _docstring(statement):
                self.statements.append(statement.lineno)
                if statement.lineno in self.before:
                    out.append(self.barrier(statement))
            self.uniform = uniform
            new = self.visit(statement)
            out.extend(new if isinstance(new, list) else [new])
        return out or [ast.Pass()]

    def barrier(self, node: ast.stmt) -> ast.Expr:
        return ast.Expr(ast.Yield(ast.Constant(self.site("barrier", node, "cuda.syncthreads()"))))

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if _docstring(node):
            return ast.Pass()
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "cuda.syncthreads":
            return ast.Pass() if node.lineno in self.without else self.barrier(node)
        return ast.Expr(self.visit(node.value))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        if len(node.targets) != 1:
            raise self.refuse(node, "assign to one name at a time")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self.store(target, self.visit(node.value))
        self.target = target.id if isinstance(target, ast.Name) else ""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(name, ast.Name) for name in names):
            raise self.refuse(node, "assign to a name, or to one element of an array")
        return ast.Assign([target], self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.Pass()
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        read = copy.deepcopy(node.target)
        read.ctx = ast.Load()  # the same element, first read and then written
        value = self.visit(ast.copy_location(ast.BinOp(read, node.op, node.value), node))
        if isinstance(node.target, ast.Subscript):
            return self.store(node.target, value)
        return ast.Assign([node.target], value)

    def store(self, target: ast.Subscript, value: ast.expr) -> ast.stmt:
        number = self.site("store", target)
        return ast.Expr(self.access("_store", self.visit(target.value), self.index(target), value, number))

    def visit_If(self, node: ast.If) -> ast.stmt:
        test = _hook("_if", self.visit(node.test), self.site("branch", node, ast.unparse(node.test)))
        return ast.If(test, self.block(node.body), self.block(node.orelse) if node.orelse else [])

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        number, uniform = self.loop(node, ast.unparse(node.test)), self.uniform
        count = ast.Name(f"_k{number}", ast.Store())
        tick = ast.NamedExpr(count, ast.BinOp(ast.Name(count.id, ast.Load()), ast.Add(), ast.Constant(1)))
        test = _hook("_loop", self.visit(node.test), number, tick)
        body = self.loop_body(node, uniform)
        return [ast.Assign([count], ast.Constant(-1)), ast.While(test, body, [])]

    def visit_For(self, node: ast.For) -> ast.stmt:
        if not (
            isinstance(node.iter, ast.Call)
            and dotted(node.iter.func) == "range"
            and isinstance(node.target, ast.Name)
        ):
            raise self.refuse(node, "a for loop in a kernel runs over range(...)")
        number, uniform = self.loop(node, ast.unparse(node.iter)), self.uniform
        bounds = _hook("range", *[self.visit(a) for a in node.iter.args])
        body = self.loop_body(node, uniform)
        return ast.For(node.target, _hook("_range", bounds, number), body, [])

    def loop(self, node: ast.While | ast.For, text: str) -> int:
        if node.orelse:
            raise self.refuse(node, "a loop in a kernel has no else")
        number = self.site("loop", node, text)
        self.loops.append(number)
        return number

    def loop_body(self, node: ast.While | ast.For, uniform: bool) -> list[ast.stmt]:
        body, number = self.block(node.body, uniform), self.loops.pop()
        self.sites[number] = replace(self.sites[number], inside=len(self.sites) - 1 - number)
        return body

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [ast.Expr(_hook("_loop", ast.Constant(False), self.loops[-1], -1)), node]

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None:
            raise self.refuse(node, "a kernel returns nothing; it stores its result")
        return node

    # --- expressions --------------------------------------------------------------------------------------------

    def index(self, node: ast.Subscript) -> ast.expr:
        if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
            raise self.refuse(node, "a thread touches one element at a time, not a slice")
        return self.visit(node.slice)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node
        if not isinstance(node.value, ast.Name):
            raise self.refuse(node, "index an array by its name; two dimensions are a[i, j]")
        number = self.site("load", node)
        return self.access("_load", node.value, self.index(node), number)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.Add) and _is_data(node, self.data):
            number = self.site("op", node)
            return _hook("_add", self.visit(node.left), self.visit(node.right), number)
        return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = dotted(node)
        if name in GEOMETRY:
            return ast.Name(GEOMETRY[name], ast.Load())
        if name.startswith(("cuda.threadIdx", "cuda.blockIdx", "cuda.blockDim", "cuda.gridDim")):
            raise self.refuse(node, f"{name}: the lab's blocks and grids have one dimension, x")
        if name.startswith("cuda."):
            raise self.refuse(node, f"the tracer does not know {name}")
        if node.attr in ("size", "shape", "dtype") or name.startswith(("math.", "np.", "numpy.")):
            return node
        raise self.refuse(node, f"a kernel cannot use {ast.unparse(node)}")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse(node, "calls in a kernel have plain positional arguments")
        name = dotted(node.func)
        if name == "op":
            number = self.site("op", node)
            return _hook("_op", *self.arguments(node, 2), number)
        if name.startswith("cuda."):
            return self.cuda_call(name, node)
        if not isinstance(node.func, ast.Name) and not name.startswith(("math.", "np.", "numpy.")):
            raise self.refuse(node, f"a kernel cannot call {ast.unparse(node.func)}")
        return ast.Call(node.func, self.arguments(node), [])

    def arguments(self, node: ast.Call, *counts: int) -> list[ast.expr]:
        if counts and len(node.args) not in counts:
            raise self.refuse(node, f"{dotted(node.func)} takes {' or '.join(map(str, counts))} arguments")
        return [self.visit(a) for a in node.args]

    def cuda_call(self, name: str, node: ast.Call) -> ast.expr:
        kind = name.removeprefix("cuda.")
        if kind in ("shared.array", "local.array"):
            return _hook("_array", kind.split(".")[0], self.target, *self.arguments(node, 2), ast.Name("_b", ast.Load()),
                         self.site("array", node))  # fmt: skip
        if name in FENCES:
            return _hook("_fence", self.site("fence", node))
        if kind == "grid":
            return ast.parse("_b * _block + _t", mode="eval").body
        if kind == "gridsize":
            return ast.parse("_grid * _block", mode="eval").body
        if kind == "syncwarp":
            return self.exchange(node, "warp barrier", [])
        if kind in SHUFFLES:
            return self.exchange(node, "shuffle", self.arguments(node, 2, 3))
        if kind.startswith("atomic.") and kind[7:] in ATOMICS:
            array, index, *values = self.arguments(node, 3, 4)
            number = self.site("atomic", node)
            pause = ast.Yield(ast.Constant(ATOMIC - number))
            return _hook("_atomic", kind[7:], array, index, ast.Tuple(values, ast.Load()), number, pause)
        if kind in ("popc", "min", "max"):
            return _hook(f"_{kind}" if kind == "popc" else kind, *self.arguments(node))
        if kind == "syncthreads":
            raise self.refuse(node, "cuda.syncthreads() is a statement of its own")
        raise self.refuse(node, f"the tracer does not know {name}")

    def exchange(self, node: ast.Call, kind: str, values: list[ast.expr]) -> ast.expr:
        """A meeting of a warp: the thread yields what it brings and is sent what it gets."""
        number = self.site(kind, node)
        name = ast.Constant(dotted(node.func).removeprefix("cuda."))
        return ast.Yield(ast.Tuple([name, ast.Constant(number), *values], ast.Load()))


def _spoken(node: ast.AST) -> str:
    words = {"ListComp": "a list comprehension", "List": "a list", "Dict": "a dict", "JoinedStr": "an f-string",
             "Try": "try", "With": "with", "Raise": "raise", "Import": "import", "Lambda": "a lambda",
             "FunctionDef": "a function inside", "ClassDef": "a class", "Assert": "assert", "Global": "global",
             "NamedExpr": "the walrus", "Yield": "yield", "Delete": "del"}  # fmt: skip
    return words.get(type(node).__name__, type(node).__name__)


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_data(node: ast.expr, data: set[str]) -> bool:
    """Whether an expression may hold an item of an array, rather than an index: then its `+` is the operator."""
    if isinstance(node, ast.Name):
        return node.id in data
    if isinstance(node, ast.Subscript):
        return True
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        return name == "op" or name.startswith("cuda.shfl")
    if isinstance(node, ast.BinOp):
        return _is_data(node.left, data) or _is_data(node.right, data)
    return isinstance(node, ast.IfExp) and (_is_data(node.body, data) or _is_data(node.orelse, data))


def _data_names(definition: ast.FunctionDef) -> set[str]:
    data: set[str] = set()
    while True:
        found = {
            node.targets[0].id if isinstance(node, ast.Assign) else node.target.id  # type: ignore[union-attr]
            for node in ast.walk(definition)
            if ((isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name))
                or (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)))
            and _is_data(node.value, data)
        }  # fmt: skip
        if found <= data:
            return data
        data |= found
