"""The use of a kernel's names, read off its text: which hold items, which make an index, which decide when a loop ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

DIRECT = (
    "range",
    "len",
    "min",
    "max",
    "abs",
    "int",
    "float",
    "bool",
    "round",
    "pow",
    "divmod",
    "sum",
    "complex",
)
"""Python's own functions that a kernel calls; any other name is a function of the user's, which is rewritten, too."""


def dotted(node: ast.AST) -> str:
    """`cuda.atomic.add` for the expression of that name, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def is_data(node: ast.expr, data: set[str]) -> bool:
    """Whether an expression may hold an item of an array, rather than an index: then its `+` is the operator."""
    if isinstance(node, ast.Name):
        return node.id in data
    if isinstance(node, ast.Subscript):
        return True
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        chosen = name in ("min", "max") and any(is_data(a, data) for a in node.args)
        return chosen or name == "op" or name.startswith("cuda.shfl")
    if isinstance(node, ast.BinOp):
        return is_data(node.left, data) or is_data(node.right, data)
    return isinstance(node, ast.IfExp) and (is_data(node.body, data) or is_data(node.orelse, data))


def data_names(definition: ast.FunctionDef) -> set[str]:
    """The variables of a kernel that hold data: each is given some by an assignment, perhaps from another such variable."""
    data: set[str] = set()
    while True:
        found = {
            node.targets[0].id if isinstance(node, ast.Assign) else node.target.id  # type: ignore[union-attr]
            for node in ast.walk(definition)
            if ((isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name))
                or (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)))
            and is_data(node.value, data)
        }  # fmt: skip
        if found <= data:
            return data
        data |= found


def index_names(definition: ast.FunctionDef) -> set[str]:
    """The names that an index is made of, by way of other names too."""
    parts = [node.slice for node in ast.walk(definition) if isinstance(node, ast.Subscript)]
    names = {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}
    while True:
        made = {n.id for target, value in _assignments(definition) if target in names
                for n in ast.walk(value) if isinstance(n, ast.Name)}  # fmt: skip
        if made <= names:
            return names
        names |= made


def names_of_a_run(definition: ast.FunctionDef) -> set[str]:
    """The names whose values a compiler cannot know: parameters, counters of loops, and what is made of them or of threads."""
    counters = {
        n.target.id for n in ast.walk(definition) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)
    }
    names = counters | {a.arg for a in definition.args.args}
    assigned = list(_assignments(definition))
    while True:
        made = {target for target, value in assigned if varies(value, names)}
        if made <= names:
            return names
        names |= made


def varies(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression reads one of these names, memory, or something of cuda's such as `cuda.blockDim.x`."""
    return any(
        isinstance(part, ast.Subscript)
        or (isinstance(part, ast.Name) and part.id in names)
        or (isinstance(part, ast.Attribute) and dotted(part).startswith("cuda."))
        for part in ast.walk(node)
    )


def loop_state(definition: ast.FunctionDef, loop: ast.While) -> tuple[str, ...] | None:
    """The names that alone decide when a loop ends; None where memory or another thread has a say.

    Where these hold the same values at two tests of one thread, the loop never ends. Parameters that nobody assigns to are
    left out.
    """
    names = _reads(loop.test)
    while names is not None:
        more = _deciders(loop.body, names, [])
        if more is not None and more <= names:
            known = names <= _known_before(definition, loop)
            given = {a.arg for a in definition.args.args} - {target for target, _ in _assignments(definition)}
            return tuple(sorted(n for n in names - given if not n.isupper())) if known else None
        names = None if more is None else names | more
    return None


def _deciders(body: list[ast.stmt], names: set[str], tests: list[ast.expr]) -> set[str] | None:
    """The names that the assignments to these names, and the ways out of the loop, depend on."""
    found: set[str] = set()
    for node in body:
        asked: list[ast.expr] = []
        if isinstance(node, (ast.Break, ast.Return, ast.Continue)):
            asked = tests
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            hit = any(target in names for target, _ in _assignments(node))
            asked = [*tests, node.value] if hit else []
        elif isinstance(node, (ast.If, ast.While, ast.For)):
            head = node.iter if isinstance(node, ast.For) else node.test
            counts = (
                isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id in names
            )
            asked = [*tests, head] if counts else []
            more = _deciders([*node.body, *node.orelse], names, [*tests, head])
            if more is None:
                return None
            found |= more
        for part in asked:
            read = _reads(part)
            if read is None:
                return None
            found |= read
    return found


def _reads(node: ast.expr) -> set[str] | None:
    """The names that an expression reads; None where it reads memory or calls what may."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    pure = (*DIRECT, "cuda.grid", "cuda.gridsize")
    if any(isinstance(part, ast.Subscript) for part in ast.walk(node)) or any(
        dotted(call.func) not in pure for call in calls
    ):
        return None
    called = {dotted(call.func) for call in calls}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - called - {"cuda"}


def _known_before(definition: ast.FunctionDef, loop: ast.While) -> set[str]:
    """Parameters, names bound before the loop, and names of the kernel's surroundings."""
    earlier = [n for n in ast.walk(definition) if isinstance(n, ast.stmt) and n.lineno < loop.lineno]
    bound = {target for node in earlier for target, _ in _assignments(node) if node is not definition}
    bound |= {n.target.id for n in earlier if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    inside = {target for target, _ in _assignments(loop)}
    inside |= {
        n.target.id for n in ast.walk(loop) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)
    }
    free = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name)} - inside
    return bound | free | {a.arg for a in definition.args.args}


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Each name that is assigned to, and what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((n.id, node.value) for n in names if isinstance(n, ast.Name))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
