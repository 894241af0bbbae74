"""Expressions of a kernel, rewritten: accesses, operators, shuffles and atomics become calls of hooks that are told the site."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from upsweep.lab.flow import DIRECT, data_names, dotted, index_names, is_data, names_of_a_run, varies
from upsweep.lab.reading import KernelError, Source

PAUSE, ATOMIC = -1, -2
"""The values that a thread yields besides a barrier's site: between two accesses, and before an atomic."""

GEOMETRY = {
    "cuda.threadIdx.x": "_t", "cuda.blockIdx.x": "_b", "cuda.blockDim.x": "_block", "cuda.gridDim.x": "_grid",
    "cuda.laneid": "_lane", "cuda.warpsize": "_warp",
}  # fmt: skip
SHUFFLES = ("shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync", "ballot_sync")
ATOMICS = ("add", "sub", "max", "min", "exch", "cas", "and_", "or_", "xor")
ALL_LANES = 0xFFFFFFFF
INT32 = 1 << 31
FENCES = ("cuda.threadfence", "cuda.threadfence_block", "cuda.threadfence_system")
PLACES = {"grid": "_b * _block + _t", "gridsize": "_grid * _block"}
CALLED = (
    "cuda.syncthreads", "cuda.syncwarp", "cuda.grid", "cuda.gridsize", "cuda.shared.array", "cuda.local.array", "cuda.popc",
    *FENCES, *(f"cuda.{name}" for name in SHUFFLES), *(f"cuda.atomic.{name}" for name in ATOMICS),
)  # fmt: skip
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
    """How many of the sites that follow a loop lie in it."""


def hook(name: str, *args: ast.expr | int | str) -> ast.Call:
    """A call of the hook of that name; numbers and texts become constants."""
    return ast.Call(
        ast.Name(name, ast.Load()), [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args], []
    )


def numbered(site: int) -> ast.expr:
    """The number of a site in the whole run: `_base` is that of the kernel's, or the function's, first one."""
    return ast.BinOp(ast.Name("_base", ast.Load()), ast.Add(), ast.Constant(site))


def _fitting(value: ast.expr, site: int) -> ast.expr:
    """`value` where an int32 holds it, else the answer of the hook `_wide`: calling a hook for each sum would be slow."""
    kept = f"_v{site}"
    low, high = ast.Constant(-INT32), ast.Constant(INT32)
    test = ast.Compare(low, [ast.LtE(), ast.Lt()], [ast.NamedExpr(ast.Name(kept, ast.Store()), value), high])
    now = ast.Name(kept, ast.Load())
    return ast.IfExp(test, now, hook("_wide", now, site))


class Expressions(ast.NodeTransformer):
    """One kernel while it is rewritten, and the expressions of its statements."""

    def __init__(self, source: Source, definition: ast.FunctionDef, fine: bool, function: bool):
        self.source, self.fine, self.function = source, fine, function
        self.sites: list[Site] = []
        self.data, self.indices = data_names(definition), index_names(definition)
        self.definition = definition
        # The arguments of a function may be items.
        if function:
            self.data |= {a.arg for a in definition.args.args}
        self.target = ""

    def refuse(self, node: ast.AST, why: str) -> KernelError:
        line = getattr(node, "lineno", self.source.first)
        return KernelError(f"{self.source.file}:{line}: {why}\n    {self.source.line(line)}")

    def site(self, kind: str, node: ast.expr | ast.stmt, text: str = "") -> int:
        self.sites.append(Site(kind, node.lineno, node.col_offset, text or ast.unparse(node)))
        return len(self.sites) - 1

    def access(self, name: str, *args: ast.expr | int | str) -> ast.Call:
        """A hook before which, in fine schedules, other threads may run."""
        return hook(name, *args, *([ast.Yield(ast.Constant(PAUSE))] if self.fine else []))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, PLAIN):
            raise self.refuse(node, f"a kernel cannot use {_spoken(node)}")
        return super().generic_visit(node)

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
        """The sum, product or other sign of two operands. It counts as the operator, written out, if it does what the scan's
        operator does.
        """
        both = is_data(left, self.data) and is_data(right, self.data)
        number = self.site("op", node)
        return hook(
            "_infix", ast.Constant(sign), self.visit(left), self.visit(right), number, ast.Constant(both)
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = dotted(node)
        if name in GEOMETRY:
            return ast.Name(GEOMETRY[name], ast.Load())
        if name.startswith(("cuda.threadIdx", "cuda.blockIdx", "cuda.blockDim", "cuda.gridDim")):
            raise self.refuse(node, f"{name}: the lab's blocks and grids have one dimension, x")
        if name.startswith("cuda."):
            raise self.unknown(name, node)
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
            return hook("_op", *self.arguments(node, 2), number)
        if name.startswith("cuda."):
            return self.cuda_call(name, node)
        if not isinstance(node.func, ast.Name) and not name.startswith(("math.", "np.", "numpy.")):
            raise self.refuse(node, f"a kernel cannot call {ast.unparse(node.func)}")
        if name in ("min", "max") and len(node.args) == 2 and any(is_data(a, self.data) for a in node.args):
            return self.maybe_op(name, node, node.args[0], node.args[1])
        if isinstance(node.func, ast.Name) and name not in DIRECT:
            return ast.YieldFrom(hook("_call", node.func, self.site("call", node), *self.arguments(node)))
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
            space, made = kind.split(".")[0], self.arguments(node, 2)
            self.lasting(space, node.args[0])
            return hook(
                "_array", space, self.target, *made, ast.Name("_b", ast.Load()), self.site("array", node)
            )
        if name in FENCES:
            return hook("_fence", self.site("fence", node, name))
        if kind in PLACES:
            if [ast.unparse(a) for a in node.args] != ["1"]:
                raise self.refuse(node, f"a launch has one dimension here: cuda.{kind}(1)")
            return ast.parse(PLACES[kind], mode="eval").body
        if kind == "syncwarp":
            return self.exchange(
                node, "warp barrier", self.arguments(node, 0, 1) or [ast.Constant(ALL_LANES)]
            )
        if kind in SHUFFLES:
            return self.exchange(node, "shuffle", self.arguments(node, 2 if kind == "ballot_sync" else 3))
        if kind.startswith("atomic.") and kind[7:] in ATOMICS:
            array, index, *values = self.arguments(node, 3, 4)
            number = self.site("atomic", node)
            pause = ast.Yield(ast.BinOp(ast.Constant(ATOMIC), ast.Sub(), numbered(number)))
            return hook("_atomic", kind[7:], array, index, ast.Tuple(values, ast.Load()), number, pause)
        if kind in ("popc", "min", "max"):
            return hook(f"_{kind}" if kind == "popc" else kind, *self.arguments(node))
        if kind == "syncthreads":
            raise self.refuse(node, "cuda.syncthreads() is a statement of its own")
        raise self.unknown(name, node)

    def lasting(self, space: str, shape: ast.expr) -> None:
        """Refuse an array whose size only a run knows: numba makes it when it compiles."""
        if not varies(shape, names_of_a_run(self.definition)):
            return
        given = "; cuda.shared.array(0, dtype) is as large as the launch says" if space == "shared" else ""
        raise self.refuse(
            shape,
            f"the size of a {space} array must be a constant, such as BLOCK, and {ast.unparse(shape)} is known only when the "
            f"kernel runs{given}",
        )

    def unknown(self, name: str, node: ast.expr) -> KernelError:
        """What to write in the place of a name of cuda's that is none, or that is a function without its parentheses."""
        if name in CALLED:
            return self.refuse(node, f"{name} without parentheses does nothing: write {name}()")
        known = [known.removeprefix("cuda.") for known in (*GEOMETRY, *CALLED)]
        near = difflib.get_close_matches(name.removeprefix("cuda."), known, 1, 0.85)
        return self.refuse(
            node, f"the lab does not know {name}" + (f": did you mean cuda.{near[0]}?" if near else "")
        )

    def exchange(self, node: ast.Call, kind: str, values: list[ast.expr]) -> ast.expr:
        """A meeting of a warp: the thread yields the value that it brings, and is sent the value that it gets."""
        number = self.site(kind, node)
        name = ast.Constant(dotted(node.func).removeprefix("cuda."))
        return ast.Yield(ast.Tuple([name, numbered(number), *values], ast.Load()))


def _spoken(node: ast.AST) -> str:
    words = {"ListComp": "a list comprehension", "List": "a list", "Dict": "a dict", "JoinedStr": "an f-string",
             "Try": "try", "With": "with", "Raise": "raise", "Import": "import", "Lambda": "a lambda",
             "FunctionDef": "a function inside", "ClassDef": "a class", "Assert": "assert", "Global": "global",
             "NamedExpr": "the walrus", "Yield": "yield", "Delete": "del"}  # fmt: skip
    return words.get(type(node).__name__, type(node).__name__)
