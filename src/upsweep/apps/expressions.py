"""Regular expressions over bytes, to one deterministic automaton for a whole table of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Bytes = frozenset[int]
Node = tuple
_ALL = frozenset(range(256))
_NAMED: dict[str, Bytes] = {
    "d": frozenset(b"0123456789"),
    "s": frozenset(b" \t\n\r\f\v"),
    "w": frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
}
_ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "0": 0}


class Parser:
    """Recursive descent over one expression: alternatives of sequences of repeated atoms."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def parse(self) -> Node:
        node = self._alternatives()
        if self.at < len(self.text):
            raise self._error("unbalanced )")
        return node

    def _alternatives(self) -> Node:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return ("or", *branches)

    def _sequence(self) -> Node:
        items = []
        while self._next() not in ("", "|", ")"):
            items.append(self._repeated())
        return ("then", *items)

    def _repeated(self) -> Node:
        atom = self._atom()
        while self._next() in ("*", "+", "?", "{"):
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark := self._read(), (0, 0))
            if mark == "{":
                low, high = self._bounds()
            rest = [("star", atom)] if high is None else [("or", ("then",), atom)] * (high - low)
            atom = ("then", *[atom] * low, *rest)
        return atom

    def _bounds(self) -> tuple[int, int | None]:
        text, _, rest = self.text[self.at :].partition("}")
        self.at = len(self.text) - len(rest)
        low, comma, high = text.partition(",")
        if (
            not re.fullmatch("[0-9]+", low)
            or not re.fullmatch("[0-9]*", high)
            or (high and int(high) < int(low))
        ):
            raise self._error("a repetition is spelled {m}, {m,} or {m,n}, where n is not below m")
        return int(low), (int(high) if high else None) if comma else int(low)

    def _atom(self) -> Node:
        c = self._read()
        if c == "(":
            if self._take("?") and not self._take(":"):
                raise self._error(
                    "a group starts with ( or (?:, and with nothing else after the question mark"
                )
            node = self._alternatives()
            if not self._take(")"):
                raise self._error("missing )")
            return node
        if c == "[":
            return ("byte", self._class())
        if c == ".":
            return ("byte", _ALL - {10})
        if c in "*+?{^$":
            raise self._error(f"{c} has nothing to apply to here; \\{c} matches the character")
        return ("byte", self._escaped() if c == "\\" else self._literal(c))

    def _class(self) -> Bytes:
        negated, found = self._take("^"), set()
        begin = self.at
        # A ] that stands first is one of the bytes.
        while self.at == begin or not self._take("]"):
            c = self._read()
            low = self._escaped() if c == "\\" else self._literal(c)
            if self._next() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self._read()
                c = self._read()
                high = self._escaped() if c == "\\" else self._literal(c)
                if len(low) > 1 or len(high) > 1 or min(low) > min(high):
                    raise self._error("a range in [] goes from one byte up to another one")
                low = frozenset(range(min(low), min(high) + 1))
            found |= low
        return _ALL - found if negated else frozenset(found)

    def _escaped(self) -> Bytes:
        c = self._read()
        if c == "x":
            self.at += 2
            digits = self.text[self.at - 2 : self.at]
            if not re.fullmatch("[0-9a-fA-F]{2}", digits):
                raise self._error("a byte is spelled \\x and two digits of base 16")
            return frozenset([int(digits, 16)])
        if c.lower() in _NAMED:
            return _NAMED[c] if c.islower() else _ALL - _NAMED[c.lower()]
        if c in _ESCAPES:
            return frozenset([_ESCAPES[c]])
        if c.isalnum():
            raise self._error(f"\\{c} is no escape that is known here")
        return self._literal(c)

    def _literal(self, c: str) -> Bytes:
        if ord(c) > 127:
            raise self._error(f"{c!r} is more than one byte; spell it as \\x.. of its UTF-8 bytes")
        return frozenset([ord(c)])

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _read(self) -> str:
        if self.at >= len(self.text):
            raise self._error("the expression ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, c: str) -> bool:
        if self._next() != c:
            return False
        self.at += 1
        return True

    def _error(self, what: str) -> ValueError:
        return ValueError(f"regular expression {self.text!r}, character {self.at}: {what}")


class _Machine:
    """A nondeterministic automaton in the making (Thompson 1968)."""

    def __init__(self) -> None:
        self.free: list[list[int]] = []
        self.on: list[tuple[Bytes, int] | None] = []

    def state(self) -> int:
        self.free.append([])
        self.on.append(None)
        return len(self.free) - 1

    def add(self, node: Node, start: int) -> int:
        """Add a node from a state; returns the state where it ends."""
        kind, *parts = node
        if kind == "byte":
            end = self.state()
            self.on[start] = (parts[0], end)
            return end
        if kind == "then":
            for part in parts:
                start = self.add(part, self._fresh(start))
            return start
        if kind == "star":
            loop = self._fresh(start)
            self.free[self.add(parts[0], self._fresh(loop))].append(loop)
            return self._fresh(loop)
        end = self.state()
        for part in parts:
            self.free[self.add(part, self._fresh(start))].append(end)
        return end

    def _fresh(self, start: int) -> int:
        new = self.state()
        self.free[start].append(new)
        return new

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            for after in self.free[todo.pop()]:
                if after not in found:
                    found.add(after)
                    todo.append(after)
        return frozenset(found)


def automaton(expressions: Sequence[str]) -> tuple[list[int], list[list[int]], list[int]]:
    """One deterministic automaton for all expressions.

    Returns:
        The class of each byte; for each state (0 is the start) the state after each class, -1 for none; and for each state
        the first expression that ends there, -1 for none.
    """
    machine = _Machine()
    start, ends = machine.state(), {}
    for number, text in enumerate(expressions):
        ends[machine.add(Parser(text).parse(), machine._fresh(start))] = number
    sets = {on[0] for on in machine.on if on}
    signature = [tuple(b in s for s in sets) for b in range(256)]
    kinds = {s: k for k, s in enumerate(dict.fromkeys(signature))}
    classes = [kinds[s] for s in signature]
    sample = [classes.index(c) for c in range(len(kinds))]
    first = machine.closure([start])
    numbers, states, table = {first: 0}, [first], []
    for state in states:
        moves = [machine.on[s] for s in state if machine.on[s]]
        row = []
        for byte in sample:
            after = machine.closure([to for on, to in moves if byte in on])  # type: ignore[misc]
            if after and after not in numbers:
                numbers[after] = len(states)
                states.append(after)
            row.append(numbers[after] if after else -1)
        table.append(row)
    accepts = [min((ends[s] for s in state if s in ends), default=-1) for state in states]
    return _smallest(classes, table, accepts)


def _smallest(
    classes: list[int], table: list[list[int]], accepts: list[int]
) -> tuple[list[int], list[list[int]], list[int]]:
    """Merge the states that no text tells apart, and then the classes (Moore 1956)."""
    part = list(accepts)
    while True:
        seen: dict[tuple, int] = {}
        signature = [(part[s], *(part[t] if t >= 0 else -2 for t in row)) for s, row in enumerate(table)]
        refined = [seen.setdefault(s, len(seen)) for s in signature]
        if len(set(refined)) == len(set(part)):
            break
        part = refined
    first = {p: s for s, p in reversed(list(enumerate(refined)))}
    small = [[refined[t] if t >= 0 else -1 for t in table[first[p]]] for p in range(len(first))]
    columns: dict[tuple, int] = {}
    merged = [columns.setdefault(column, len(columns)) for column in zip(*small)]
    keep = [merged.index(c) for c in range(len(columns))]
    return (
        [merged[c] for c in classes],
        [[row[c] for c in keep] for row in small],
        [accepts[first[p]] for p in range(len(first))],
    )
