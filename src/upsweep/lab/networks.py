"""The network that a run built: its name, the laws that it relies on, and a comparison with another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from upsweep.lab.cases import case
from upsweep.lab.costs import counts
from upsweep.lab.intervals import Intervals, flaw, join
from upsweep.lab.traces import Trace, of_run
from upsweep.lab.values import Item
from upsweep.textbook import circuits

Node = tuple[Intervals, Intervals]
"""A node, told by the inputs of its left and of its right operand."""


# --- identification ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """The name and the measures of a network."""

    name: str | None
    """The family, or None where it is none of those known."""
    n: int
    size: int
    """Nodes, those that only meet an identity left out."""
    depth: int
    """The longest path, every node as soon as it can be."""
    issued: int
    """The levels in which the kernel issues it."""
    fan_out: int
    """The most nodes that take one value in one level as issued, and one more where the value also goes on."""
    asap_fan_out: int
    """The fan-out with every node as soon as it can be."""
    deficiency: int | None
    """size + depth - (2m - 2), never negative (Snir 1986), where m inputs are scanned: n, or n - 1 of an exclusive scan.

    None where the results are not all prefixes of the input.
    """
    idle: int
    """Nodes that only meet an identity."""

    @property
    def text(self) -> str:
        """All of it in one line."""
        if not self.size and self.name is None:
            return f"no network: no two of the {self.n} items are combined"
        name = self.name or "an unnamed network"
        issued = f" ({self.issued} levels as issued)" if self.issued != self.depth else ""
        snir = f", deficiency {self.deficiency}" if self.deficiency is not None else ""
        return f"{name} {self.n}: size {self.size}, depth {self.depth}{issued}, fan-out {self.fan_out}{snir}"

    def __str__(self) -> str:
        return self.text


@of_run
def identify(trace: Trace) -> Identity:
    """The circuit that a run built, by the inputs that each node combines.

    >>> from upsweep import lab
    >>> print(lab.identify(lab.trace("brent-kung", n=16)))
    Brent-Kung 16: size 26, depth 6 (7 levels as issued), fan-out 2, deficiency 2
    """
    nodes = _nodes(trace)
    real = [k for k in nodes if all(trace.intervals[c] for c in _operands(trace, k))]
    depth = _depths(trace, real)
    ops = np.flatnonzero(trace.at("op"))
    step = dict(zip(trace.node[ops].tolist(), trace.step[ops].tolist()))
    levels = {s: k for k, s in enumerate(sorted({step[k] for k in real}))}
    issued = {k: levels[step[k]] + 1 for k in real}
    deepest = max(depth.values(), default=0)
    shift = int(_shifted(trace))
    scan = _scans(trace, shift)
    snir = len(real) + deepest - max(2 * (trace.n - shift) - 2, 0)
    return Identity(
        _name(trace, real) if scan else None, trace.n, len(real), deepest, len(levels), _fan_out(trace, real, issued),
        _fan_out(trace, real, depth), snir if scan else None, len(nodes) - len(real),
    )  # fmt: skip


def _scans(trace: Trace, shift: int) -> bool:
    """Whether word i of the result is made of the first i inputs, and of input i too where it is not shifted by one."""
    words = trace.result.words
    if len(words) != trace.n or any(word is None for word in words):
        return False
    made = [trace.intervals[w.node] if isinstance(w, Item) else () for w in words]
    loose = trace.case.needs == "idempotent"
    return all(
        (loose and set(m) and {i for a, b in m for i in range(a, b + 1)} == set(range(k + 1 - shift)))
        or m == (((0, k - shift),) if k >= shift else ())
        for k, m in enumerate(made)
    )


def _operands(trace: Trace, node: int) -> tuple[int, int]:
    return trace.machine.left[node], trace.machine.right[node]


def _nodes(trace: Trace) -> list[int]:
    return [k for k, left in enumerate(trace.machine.left) if left >= 0]


def _through(trace: Trace, node: int) -> int:
    """The node whose value this is, past nodes that only meet an identity."""
    while trace.machine.left[node] >= 0:
        left, right = _operands(trace, node)
        if trace.intervals[left] and trace.intervals[right]:
            return node
        node = left if trace.intervals[left] else right
    return node


def _depths(trace: Trace, real: list[int]) -> dict[int, int]:
    depth: dict[int, int] = {}
    for k in real:
        depth[k] = 1 + max(depth.get(_through(trace, c), 0) for c in _operands(trace, k))
    return depth


def _fan_out(trace: Trace, real: list[int], level: dict[int, int]) -> int:
    uses: Counter[tuple[int, int]] = Counter()
    last: dict[int, int] = {}
    for k in real:
        for c in {_through(trace, c) for c in _operands(trace, k)}:
            uses[c, level[k]] += 1
            last[c] = max(last.get(c, 0), level[k])
    kept = {_through(trace, w.node) for w in trace.result.words if isinstance(w, Item)}
    return max((count + (last[c] > at or c in kept) for (c, at), count in uses.items()), default=0)


def _name(trace: Trace, real: list[int]) -> str | None:
    def called(which: Iterable[int], n: int) -> str | None:
        nodes = frozenset(
            (trace.intervals[trace.machine.left[k]], trace.intervals[trace.machine.right[k]]) for k in which
        )
        alike = ((name, levels) for name, levels in families(n) if sum(map(len, levels)) == len(nodes))
        return next((name for name, levels in alike if nodes_of(levels, n) == nodes), None)

    if not _shifted(trace):
        return called(real, trace.n)
    alive = _reached(trace)
    name = called((k for k in real if k in alive), trace.n - 1) if trace.n > 1 else None
    # An up-sweep also takes the last input.
    up_sweep = any(trace.intervals[k][-1][1] == trace.n - 1 for k in real)
    return "Blelloch" if up_sweep and name == "Brent-Kung" else name and f"{name} (exclusive)"


def _reached(trace: Trace) -> set[int]:
    """The nodes and leaves that a result depends on."""
    reached: set[int] = set()
    stack = [w.node for w in trace.result.words if isinstance(w, Item)]
    while stack:
        node = stack.pop()
        if node >= 0 and node not in reached:
            reached.add(node)
            stack += _operands(trace, node)
    return reached


def _shifted(trace: Trace) -> bool:
    """Whether the first result is an identity, as in an exclusive scan."""
    first = trace.result.words[0] if trace.result.words else None
    return not trace.intervals[first.node] if isinstance(first, Item) else first is not None


@lru_cache(maxsize=64)
def families(n: int) -> tuple[tuple[str, circuits.Levels], ...]:
    """Every family that the lab knows by name, for n inputs."""
    levels = max(n - 1, 0).bit_length()
    sparsities = [1 << k for k in range(1, levels) if 1 << k < n]
    fans = [1 << level for level in reversed(range(levels))]
    found = [("Brent-Kung", circuits.brent_kung(n)), ("Kogge-Stone", circuits.kogge_stone(n)),
             ("Sklansky", circuits.sklansky(n)), ("serial", circuits.serial(n))]  # fmt: skip
    found += [
        ("Han-Carlson" if m == 2 else f"Han-Carlson {m}", circuits.han_carlson(n, m)) for m in sparsities
    ]
    found += [
        (f"Ladner-Fischer P{k}", circuits.ladner_fischer(n, k)) for k in range(max(n.bit_length() - 1, 1))
    ]
    found.append((f"Knowles {fans}", circuits.knowles(n, fans)))
    found += [
        (f"Harris ({sparse}, {wide}, {levels - 1 - sparse - wide})", circuits.harris(n, sparse, wide))
        for sparse in range(levels)
        for wide in range(1, levels - sparse)
    ]
    return tuple(found)


def nodes_of(levels: circuits.Levels, n: int) -> frozenset[Node]:
    """The nodes of a circuit by the inputs that they combine."""
    found: set[Node] = set()

    def combine(a: Intervals, b: Intervals) -> Intervals:
        found.add((a, b))
        return join(a, b)

    circuits.evaluate(levels, combine, [((i, i),) for i in range(n)])
    return frozenset(found)


# --- laws -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laws:
    """The laws that an operator must promise for this kernel to be right."""

    associative: bool
    identity: bool
    commutative: bool
    idempotent: bool

    def __str__(self) -> str:
        return ", ".join(name for name, needed in vars(self).items() if needed) or "none"


@of_run
def laws(trace: Trace) -> Laws:
    """The laws that a kernel's own network relies on, read off what its results are made of.

    A result that is not the fold from the left needs associativity; one that meets a constant needs an identity; one
    whose inputs come out of order needs commutativity, and one that takes an input twice needs idempotence.

    >>> from upsweep import lab
    >>> print(lab.laws(lab.trace("vector-reduction", n=8)))
    associative, commutative
    """
    reached = _reached(trace)
    inner = [k for k in reached if trace.machine.left[k] >= 0]
    flaws = {flaw(trace.intervals[w.node]) for w in trace.result.words if isinstance(w, Item)}
    right_trees = [k for k in inner if trace.machine.left[trace.machine.right[k]] >= 0]
    constants = any(trace.machine.left[k] < 0 and k >= trace.n for k in reached)
    unmade = trace.case.answer is None and any(
        w is not None and not isinstance(w, Item) for w in trace.result.words
    )
    return Laws(bool(right_trees), constants or unmade, "order" in flaws, "overlap" in flaws)


# --- comparison -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Two kernels side by side."""

    names: tuple[str, str]
    rows: dict[str, tuple[object, object]]
    same_network: bool

    def __str__(self) -> str:
        wide = max(len(str(v)) for pair in (self.names, *self.rows.values()) for v in pair)
        lines = [f"{'':>14} {self.names[0]:>{wide}} {self.names[1]:>{wide}}"]
        lines += [
            f"{name.replace('_', ' '):>14} {a!s:>{wide}} {b!s:>{wide}}" for name, (a, b) in self.rows.items()
        ]
        return "\n".join(
            [*lines, f"the two build {'the same network' if self.same_network else 'different networks'}"]
        )


@of_run
def compare(a: Trace, b: Trace | str) -> Comparison:
    """Counts and circuits of two traces, or of a trace and a textbook kernel on the same items, side by side.

    >>> from upsweep import lab
    >>> print(str(lab.compare(lab.trace("kogge-stone", n=8), "brent-kung")).splitlines()[-1])
    the two build different networks
    """
    if isinstance(b, str):
        b = case(b, x=a.case.x, op=a.case.op, identity=a.case.identity).run()
    mine, other = counts(a), counts(b)
    rows: dict[str, tuple[object, object]] = {k: (v, vars(other)[k]) for k, v in vars(mine).items()}
    ours, theirs = identify(a), identify(b)
    for name in ("depth", "fan_out", "deficiency"):
        rows[name] = (getattr(ours, name), getattr(theirs, name))
    nodes = [{tuple(t.intervals[c] for c in _operands(t, k)) for k in _nodes(t)} for t in (a, b)]
    return Comparison((a.case.name, b.case.name), rows, nodes[0] == nodes[1])
