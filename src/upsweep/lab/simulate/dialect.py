"""A kernel of numba.cuda's dialect, rewritten into a generator: one thread, which yields where it waits for others.

More of Python is let through than in `upsweep.lab.rewrite`, because nothing is counted or drawn here: accesses to arrays and
calls report themselves, and everything else runs as it is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

from upsweep.lab.flow import DIRECT, dotted

PLAIN_MODULES = ("math.", "np.", "numpy.", "cmath.", "operator.")
SIZES = (*DIRECT, "enumerate", "zip", "print", "isinstance", "tuple", "reversed", "slice")


def generator(function: Callable[..., Any], around: dict[str, Any]) -> Callable[..., Generator]:
    """The generator of a kernel or of a device function, with these names in place of its surroundings'."""
    code, name = _rewritten(function)
    scope = {**function.__globals__, **_closure(function), **around}
    exec(code, scope)
    made = scope[name]
    made.__defaults__ = function.__defaults__
    return made


def surroundings(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that a function can see, those of its closure first."""
    return {**function.__globals__, **_closure(function)}


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    def content(cell: types.CellType) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            # The name is bound later.
            return None

    return dict(zip(function.__code__.co_freevars, map(content, function.__closure__ or ())))


@lru_cache(maxsize=512)
def _rewritten(function: Callable[..., Any]) -> tuple[types.CodeType, str]:
    lines, first = inspect.getsourcelines(function)
    module = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(module, first - 1)
    node = module.body[0]
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    else:
        # A lambda stands somewhere in a statement.
        found = next(n for n in ast.walk(module) if isinstance(n, ast.Lambda))
        node = ast.FunctionDef("_lambda", found.args, [ast.Return(found.body)], [], None)
        ast.copy_location(node, found)
    made = _Generator().visit(node)
    made.args.defaults, made.args.kw_defaults = [], []
    made.body = [*ast.parse("if False: yield").body, *made.body]
    text = inspect.getsourcefile(function) or "<kernel>"
    return compile(ast.fix_missing_locations(ast.Module([made], [])), text, "exec"), made.name


def _call(name: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), keywords or [])


class _Generator(ast.NodeTransformer):
    """Accesses become calls of `_load` and `_store`, calls a `yield from _call`, both with their line."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [new for statement in node.body for new in _listed(self.visit(statement))]
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return node

    def opaque(self, node: ast.AST) -> ast.AST:
        """Code that cannot wait within: a lambda, a comprehension."""
        return node

    visit_Lambda = visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = opaque
    visit_Import = visit_ImportFrom = opaque

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return node
        load = _call(
            "_load", self.visit(node.value), self.visit(_as_value(node.slice)), ast.Constant(node.lineno)
        )
        return ast.copy_location(load, node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return self.store(node.targets[0], value, node)
        if not any(isinstance(n, ast.Subscript) for target in node.targets for n in ast.walk(target)):
            return ast.copy_location(ast.Assign(node.targets, value), node)
        # An assignment to several places at once is made one after the other.
        names = ast.Name(f"_v{node.lineno}", ast.Store())
        out: list[ast.stmt] = [ast.Assign([names], value)]
        held = ast.Name(names.id, ast.Load())
        for target in node.targets:
            parts = target.elts if isinstance(target, ast.Tuple) else None
            for k, part in enumerate(parts or [target]):
                one = ast.Subscript(held, ast.Constant(k), ast.Load()) if parts else held
                out.append(
                    self.store(part, one, node)
                    if isinstance(part, ast.Subscript)
                    else ast.Assign([part], one)
                )
        return [ast.copy_location(o, node) for o in out]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Subscript):
            return ast.copy_location(ast.AugAssign(node.target, node.op, self.visit(node.value)), node)
        read = ast.copy_location(ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target)
        value = ast.BinOp(self.visit(read), node.op, self.visit(node.value))
        return self.store(node.target, ast.copy_location(value, node), node)

    def store(self, target: ast.Subscript, value: ast.expr, node: ast.stmt) -> ast.stmt:
        place = self.visit(_loaded(target.value)), self.visit(_as_value(target.slice))
        return ast.copy_location(ast.Expr(_call("_store", *place, value, ast.Constant(node.lineno))), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = dotted(node.func)
        args = [self.visit(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        if name in SIZES or name.startswith(PLAIN_MODULES):
            return ast.copy_location(ast.Call(node.func, args, keywords), node)
        called = _call("_call", self.visit(node.func), ast.Constant(node.lineno), *args, keywords=keywords)
        return ast.copy_location(ast.YieldFrom(called), node)


def _listed(made: Any) -> list[ast.stmt]:
    return made if isinstance(made, list) else [made]


def _loaded(node: ast.expr) -> ast.expr:
    return node


def _as_value(node: ast.expr) -> ast.expr:
    """An index as a value: `1:n` is slice(1, n)."""
    if isinstance(node, ast.Slice):
        parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        return ast.copy_location(_call("slice", *parts), node)
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([_as_value(e) for e in node.elts], ast.Load()), node)
    return node
