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

from upsweep.lab.expressions import Expressions, Site, hook, numbered
from upsweep.lab.flow import dotted, loop_state
from upsweep.lab.reading import Source, definition, parsed


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


class _Rewriter(Expressions):
    """The statements of one kernel."""

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
        super().__init__(source, definition, fine, function)
        self.without, self.before, self.reports = without, set(before), reports
        self.statements: list[int] = []
        self.places: list[int] = []
        self.loops: list[int] = []

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
            # `if a: b` is two statements on one line.
            self.before.remove(statement.lineno)
            out.append(self.barrier(statement))
        if self.reports and statement.lineno not in self.places:
            out.append(ast.Expr(hook("_place", self.site("place", statement, " "))))
        self.places.append(statement.lineno)
        return out

    def barrier(self, node: ast.stmt) -> ast.Expr:
        return ast.Expr(ast.Yield(numbered(self.site("barrier", node, "cuda.syncthreads()"))))

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
        test = hook("_if", self.visit(node.test), self.site("branch", node, ast.unparse(node.test)))
        return ast.If(test, self.block(node.body), self.block(node.orelse) if node.orelse else [])

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        number, uniform = self.loop(node, ast.unparse(node.test)), self.uniform
        count = ast.Name(f"_k{number}", ast.Store())
        tick = ast.NamedExpr(count, ast.BinOp(ast.Name(count.id, ast.Load()), ast.Add(), ast.Constant(1)))
        state = loop_state(self.definition, node)
        kept = ast.Tuple([ast.Name(n, ast.Load()) for n in state or ()], ast.Load())
        said = ast.Constant(None if state is None else ", ".join(state))
        test = hook("_while", self.visit(node.test), number, tick, kept, said)
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
        bounds = hook("range", *[self.visit(a) for a in node.iter.args])
        body = self.loop_body(node, uniform)
        return ast.For(node.target, hook("_range", bounds, number), body, [])

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
        return [ast.Expr(hook("_loop", ast.Constant(False), self.loops[-1], -1)), node]

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is None:
            return node
        if not self.function:
            raise self.refuse(node, "a kernel returns nothing; it stores its result")
        return ast.Return(self.visit(node.value))


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
