"""A kernel's Python, rewritten so that every access, operator, branch and barrier reports itself.

The kernel becomes a generator for one thread: it yields where threads wait for each other, and calls a hook with a
site number everywhere else. Nothing about its control flow changes. `Site` tells where in the source a number is.
"""

from __future__ import annotations

import ast
import copy
import functools
import types
from dataclasses import dataclass, replace

from upsweep.lab.flow import DIRECT, data_names, dotted, index_names, is_data, loop_state
from upsweep.lab.reading import KernelError, Source, definition, parsed

PAUSE, ATOMIC = -1, -2
"""What a thread yields besides a barrier's site: between two accesses, and before an atomic."""

GEOMETRY = {
    "cuda.threadIdx.x": "_t", "cuda.blockIdx.x": "_b", "cuda.blockDim.x": "_block", "cuda.gridDim.x": "_grid",
    "cuda.laneid": "_lane", "cuda.warpsize": "_warp",
}  # fmt: skip
SHUFFLES = ("shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync", "ballot_sync")
ATOMICS = ("add", "sub", "max", "min", "exch", "cas", "and_", "or_", "xor")
ALL_LANES = 0xFFFFFFFF
INT32 = 1 << 31
FENCES = ("cuda.threadfence", "cuda.threadfence_block", "cuda.threadfence_system")
INFIX = {ast.Add: "+", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
"""The signs that may stand for the operator where both sides hold items."""
PLAIN = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Constant, ast.Name, ast.Tuple, ast.expr_context,
         ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Pass, ast.Expr)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A place in a kernel's source where something happens."""

    kind: str
    """load, store, op, branch, loop, barrier, warp barrier, shuffle, atomic, fence, call, index or place"""
    line: int
    column: int
    text: str
    inside: int = 0
    """Of a loop: how many of the sites that follow lie in it."""


@dataclass(frozen=True)
class Rewritten:
    """The code of a kernel's generator, and the sites that its numbers mean."""

    source: Source
    code: types.CodeType
    sites: tuple[Site, ...]
    parameters: tuple[str, ...]
    statements: tuple[int, ...]
    """Lines before which a barrier could stand whatever the data are: outside of every branch."""
    places: tuple[int, ...] = ()
    """All lines before which a statement could stand, those within branches too."""


@functools.lru_cache(maxsize=512)
def rewrite(
    source: Source,
    fine: bool = False,
    without: frozenset[int] = frozenset(),
    before: frozenset[int] = frozenset(),
    places: bool = False,
    function: bool = False,
) -> Rewritten:
    """Rewrite one kernel.

    Args:
        source: its text.
        fine: pause before every access, so that a schedule may interleave single accesses.
        without: lines whose barriers are left out.
        before: lines before which a barrier is put in.
        places: report every statement that a thread comes to, as an event of kind `place`.
        function: it is no kernel but a function that one calls, and may return something.
    """
    module = parsed(source)
    ast.increment_lineno(module, source.first - 1)
    kernel = definition(source, module)
    work = _Rewriter(source, kernel, fine, without, before, places, function)
    thread = work.kernel(kernel)
    code = compile(ast.fix_missing_locations(ast.Module([thread], [])), source.file, "exec")
    parameters = tuple(a.arg for a in kernel.args.args)
    every = tuple(dict.fromkeys(work.places))
    return Rewritten(source, code, tuple(work.sites), parameters, tuple(work.statements), every)


def _hook(name: str, *args: ast.expr | int | str) -> ast.Call:
    return ast.Call(
        ast.Name(name, ast.Load()), [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args], []
    )


def _numbered(site: int) -> ast.expr:
    """The number of a site in the whole run: `_base` is that of the kernel's, or the function's, first one."""
    return ast.BinOp(ast.Name("_base", ast.Load()), ast.Add(), ast.Constant(site))


def _fitting(value: ast.expr, site: int) -> ast.expr:
    """`value` where an int32 holds it, else the answer of the hook `_wide`: calling a hook for each sum would be slow."""
    kept = f"_v{site}"
    low, high = ast.Constant(-INT32), ast.Constant(INT32)
    test = ast.Compare(low, [ast.LtE(), ast.Lt()], [ast.NamedExpr(ast.Name(kept, ast.Store()), value), high])
    now = ast.Name(kept, ast.Load())
    return ast.IfExp(test, now, _hook("_wide", now, site))


class _Rewriter(ast.NodeTransformer):
    def __init__(
        self,
        source: Source,
        definition: ast.FunctionDef,
        fine: bool,
        without: frozenset[int],
        before: frozenset[int],
        reports: bool,
        function: bool,
    ):
        self.source, self.fine, self.without, self.before = source, fine, without, set(before)
        self.reports, self.function = reports, function
        self.sites: list[Site] = []
        self.statements: list[int] = []
        self.places: list[int] = []
        self.loops: list[int] = []
        self.data, self.indices = data_names(definition), index_names(definition)
        self.definition = definition
        # The arguments of a function may be items.
        if function:
            self.data |= {a.arg for a in definition.args.args}
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
        # The `yield` makes a generator of the function, whatever the kernel does.
        thread = ast.parse("def thread():\n    if False: yield").body[0]
        assert isinstance(thread, ast.FunctionDef)
        thread.args.args = arguments
        thread.body += self.block(node.body, uniform=True)
        return thread

    def block(self, body: list[ast.stmt], uniform: bool = False) -> list[ast.stmt]:
        """Rewrite a list of statements; `uniform` where all threads of a block pass it."""
        out: list[ast.stmt] = []
        for statement in body:
            if not _docstring(statement):
                out += self.ahead(statement, uniform)
            self.uniform = uniform
            new = self.visit(statement)
            for made in new if isinstance(new, list) else [new]:
                out.append(ast.fix_missing_locations(ast.copy_location(made, statement)))
        return out or [ast.Pass()]

    def ahead(self, statement: ast.stmt, uniform: bool) -> list[ast.stmt]:
        """The statements that are put in before one: a barrier that was asked for, a report that a thread came here."""
        out: list[ast.stmt] = []
        if uniform:
            self.statements.append(statement.lineno)
        if statement.lineno in self.before:
            self.before.remove(statement.lineno)  # `if a: b` is two statements on one line
            out.append(self.barrier(statement))
        if self.reports and statement.lineno not in self.places:
            out.append(ast.Expr(_hook("_place", self.site("place", statement, " "))))
        self.places.append(statement.lineno)
        return out

    def barrier(self, node: ast.stmt) -> ast.Expr:
        return ast.Expr(ast.Yield(_numbered(self.site("barrier", node, "cuda.syncthreads()"))))

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
        if self.target in self.indices:
            return ast.Assign([target], self.index_math(node.value))
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
        # The same element is first read and then written.
        read.ctx = ast.Load()
        made = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        indexes = isinstance(node.target, ast.Name) and node.target.id in self.indices
        value = self.index_math(made) if indexes else self.visit(made)
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
        state = loop_state(self.definition, node)
        kept = ast.Tuple([ast.Name(n, ast.Load()) for n in state or ()], ast.Load())
        said = ast.Constant(None if state is None else ", ".join(state))
        test = _hook("_while", self.visit(node.test), number, tick, kept, said)
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
        if node.value is None:
            return node
        if not self.function:
            raise self.refuse(node, "a kernel returns nothing; it stores its result")
        return ast.Return(self.visit(node.value))

    # --- expressions --------------------------------------------------------------------------------------------

    def index(self, node: ast.Subscript) -> ast.expr:
        if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
            raise self.refuse(node, "a thread touches one element at a time, not a slice")
        return self.index_math(node.slice)

    def index_math(self, node: ast.expr) -> ast.expr:
        """An expression that indexes: what may grow in it must fit an int32, as in CUDA C."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.LShift)):
            made = ast.BinOp(self.index_math(node.left), node.op, self.index_math(node.right))
            return _fitting(made, self.site("index", node))
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self.index_math(node.left), node.op, self.index_math(node.right))
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index_math(e) for e in node.elts], ast.Load())
        return self.visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node
        if not isinstance(node.value, ast.Name):
            raise self.refuse(node, "index an array by its name; two dimensions are a[i, j]")
        number = self.site("load", node)
        return self.access("_load", node.value, self.index(node), number)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.value is ...:
            raise self.refuse(node, "a blank is left: put your code in the place of the three dots")
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        sign = INFIX.get(type(node.op))
        if sign and is_data(node, self.data):
            return self.maybe_op(sign, node, node.left, node.right)
        return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))

    def maybe_op(self, sign: str, node: ast.expr, left: ast.expr, right: ast.expr) -> ast.expr:
        """What is the operator written out, if it is what the scan's operator does."""
        both = is_data(left, self.data) and is_data(right, self.data)
        number = self.site("op", node)
        return _hook(
            "_infix", ast.Constant(sign), self.visit(left), self.visit(right), number, ast.Constant(both)
        )

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
        name = dotted(node.func)
        if name in ("cuda.shared.array", "cuda.local.array"):
            node = self.positional(node, "shape", "dtype")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse(node, "calls in a kernel have plain positional arguments")
        if name == "op":
            number = self.site("op", node)
            return _hook("_op", *self.arguments(node, 2), number)
        if name.startswith("cuda."):
            return self.cuda_call(name, node)
        if not isinstance(node.func, ast.Name) and not name.startswith(("math.", "np.", "numpy.")):
            raise self.refuse(node, f"a kernel cannot call {ast.unparse(node.func)}")
        if name in ("min", "max") and len(node.args) == 2 and any(is_data(a, self.data) for a in node.args):
            return self.maybe_op(name, node, node.args[0], node.args[1])
        if isinstance(node.func, ast.Name) and name not in DIRECT:
            return ast.YieldFrom(_hook("_call", node.func, self.site("call", node), *self.arguments(node)))
        return ast.Call(node.func, self.arguments(node), [])

    def positional(self, node: ast.Call, *names: str) -> ast.Call:
        """The call with its keywords in their places."""
        given = {k.arg: k.value for k in node.keywords}
        args = [*node.args, *(given.pop(name) for name in names[len(node.args) :] if name in given)]
        if given:
            raise self.refuse(
                node, f"{dotted(node.func)} takes {' and '.join(names)}, and no {next(iter(given))}"
            )
        return ast.copy_location(ast.Call(node.func, args, []), node)

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
            return _hook("_fence", self.site("fence", node, name))
        if kind == "grid":
            return ast.parse("_b * _block + _t", mode="eval").body
        if kind == "gridsize":
            return ast.parse("_grid * _block", mode="eval").body
        if kind == "syncwarp":
            return self.exchange(
                node, "warp barrier", self.arguments(node, 0, 1) or [ast.Constant(ALL_LANES)]
            )
        if kind in SHUFFLES:
            return self.exchange(node, "shuffle", self.arguments(node, 2 if kind == "ballot_sync" else 3))
        if kind.startswith("atomic.") and kind[7:] in ATOMICS:
            array, index, *values = self.arguments(node, 3, 4)
            number = self.site("atomic", node)
            pause = ast.Yield(ast.BinOp(ast.Constant(ATOMIC), ast.Sub(), _numbered(number)))
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
        return ast.Yield(ast.Tuple([name, _numbered(number), *values], ast.Load()))


def _spoken(node: ast.AST) -> str:
    words = {"ListComp": "a list comprehension", "List": "a list", "Dict": "a dict", "JoinedStr": "an f-string",
             "Try": "try", "With": "with", "Raise": "raise", "Import": "import", "Lambda": "a lambda",
             "FunctionDef": "a function inside", "ClassDef": "a class", "Assert": "assert", "Global": "global",
             "NamedExpr": "the walrus", "Yield": "yield", "Delete": "del"}  # fmt: skip
    return words.get(type(node).__name__, type(node).__name__)


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
