"""Lexical analysis as a scan of an automaton's transition functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from upsweep import homes
from upsweep.apps import moving
from upsweep.apps.expressions import automaton
from upsweep.apps.kinds import enter
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError, choose
from upsweep.moves import automata

_LONGEST = 8
_CHUNK = 1 << 10
_Config = tuple[int, int, tuple[int, ...] | None]
"""A state of the rules' automaton, the rule that last ended in this token, and the classes of the bytes since then (None:
no rule has ended yet)."""


class Lexer:
    """A lexer, which cuts bytes into tokens: a table of rules, compiled into one automaton whose every step is known beforehand.

    A token is the longest text from where the last one ended that some rule matches; among rules that match it, the first
    counts. Where no rule matches, the longest text that might have begun a match (at least one byte) is an "error".

    Args:
        rules: pairs of a kind and a regular expression on bytes: literals, `. [] () | * + ? {m,n}`, the escapes
            `\\d \\w \\s \\D \\W \\S \\n \\t \\r \\f \\v \\0 \\xhh`. Kinds may repeat.

    Raises:
        ValueError: an expression that cannot be read or matches nothing at all, or rules that must look further ahead than 8
            bytes to know that a token has ended; the message holds such a text, and a rule for unfinished tokens mends it.

    >>> from upsweep import apps
    >>> lexer = apps.Lexer([("number", r"[0-9]+"), ("space", r" +")])
    >>> kinds, starts, ends = apps.tokenize(b"12 345", lexer)
    >>> [lexer.kinds[k] for k in kinds], starts.tolist(), ends.tolist()
    (['number', 'space', 'number'], [0, 2, 3], [2, 3, 6])

    Source: Hillis and Steele, "Data parallel algorithms" (1986), "parsing a regular language".
    """

    def __init__(self, rules: Iterable[tuple[str, str]]) -> None:
        rules = list(rules)
        self.rules = rules
        self.kinds: tuple[str, ...] = (*dict.fromkeys(kind for kind, _ in rules), "error")
        classes, self._table, accepts = automaton([text for _, text in rules])
        if accepts[0] >= 0:
            raise ValueError(f"rule {rules[accepts[0]]} matches the empty text: no token would ever end")
        self._kind = [self.kinds.index(rules[a][0]) if a >= 0 else -1 for a in accepts]
        self._error = len(self.kinds) - 1
        self._build(classes)

    def _build(self, classes: Sequence[int]) -> None:
        start: _Config = (0, -1, None)
        numbers: dict[_Config, int] = {start: 0}
        configs: list[_Config] = [start]
        emitted: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        after: list[list[int]] = []
        emits: list[list[int]] = []
        for config in configs:
            after.append([])
            emits.append([])
            for c in range(max(classes) + 1):
                ends: list[tuple[int, int]] = []
                new = self._step(config, c, 0, ends, config == start)
                if new not in numbers:
                    numbers[new] = len(configs)
                    configs.append(new)
                after[-1].append(numbers[new])
                emits[-1].append(emitted.setdefault(tuple(ends), len(emitted)))
        width = max(map(len, emitted))
        self.classes = np.array(classes, np.uint8)
        self.after, self.emits = np.array(after, np.uint16), np.array(emits, np.uint16)
        self.counts = np.array([len(e) for e in emitted], np.int64)
        self.back, self.kind = (
            np.array([[end[part] for end in e] + [0] * (width - len(e)) for e in emitted], np.int64)
            for part in (0, 1)
        )
        self.last = [self._flush(config, config == start) for config in configs]

    def _step(
        self, config: _Config, c: int, ahead: int, ends: list[tuple[int, int]], fresh: bool = False
    ) -> _Config:
        """The configuration after a byte of class c, which lies `ahead` bytes before the newest. The tokens that end are added
        to `ends` as (bytes before the newest, kind).
        """
        state, kind, since = config
        to = self._table[state][c] if state >= 0 else -1
        if to >= 0:
            if self._kind[to] >= 0:
                return (to, self._kind[to], ())
            if since is not None and len(since) == _LONGEST:
                raise ValueError(
                    f"to know that a token of kind {self.kinds[kind]!r} has ended takes more than {_LONGEST} bytes of "
                    "look-ahead: add a rule that matches what follows it while that is unfinished"
                )
            return (to, kind, None if since is None else (*since, c))
        if fresh:
            return (-1, self._error, ())
        if since is None:
            ends.append((ahead, self._error))
            return self._step((0, -1, None), c, ahead, ends, True)
        ends.append((ahead + len(since), kind))
        config, fresh = (0, -1, None), True
        for k, again in enumerate((*since, c)):
            config, fresh = self._step(config, again, ahead + len(since) - k, ends, fresh), False
        return config

    def _flush(self, config: _Config, fresh: bool) -> list[tuple[int, int]]:
        """The tokens that end with the text: their bytes before the end, and their kinds."""
        ends: list[tuple[int, int]] = []
        while not fresh:
            _, kind, since = config
            ends.append((len(since or ()), self._error if since is None else kind))
            config, fresh = (0, -1, None), True
            rest, since = since or (), since
            for k, again in enumerate(rest):
                config, fresh = self._step(config, again, len(rest) - k, ends, fresh), False
        return ends


@homes.apart
def tokenize(text: Any, lexer: Lexer) -> tuple[Any, Any, Any]:
    """Cut text into tokens.

    The text is cut into chunks; each chunk's transition function (where does it lead from every configuration?) is found
    independently; a scan composes them, which tells each chunk where it starts; a second pass finds where tokens end, and
    compaction brings them together.

    Args:
        text: bytes, str (taken as UTF-8), or a 1-D array of uint8.
        lexer: see `Lexer`, `json_lexer` and `python_lexer`.

    Returns:
        `(kinds, starts, ends)`, int64 each: token t is `text[starts[t]:ends[t]]`, of kind `lexer.kinds[kinds[t]]`. Every byte
        belongs to one token. Arrays are of the text's kind, NumPy's for bytes and str.

    Raises:
        ShapeError, DTypeError: an array that is no 1-D uint8. TypeError: a lexer that is none.

    >>> from upsweep import apps
    >>> lexer = apps.json_lexer()
    >>> kinds, starts, ends = apps.tokenize('{"a": 1e5}', lexer)
    >>> [lexer.kinds[k] for k in kinds]
    ['punctuation', 'string', 'punctuation', 'space', 'number', 'punctuation']

    Source: Hillis and Steele (1986); Mytkowicz, Musuvathi and Schulte, "Data-parallel finite-state machines" (2014).
    """
    if not isinstance(lexer, Lexer):
        raise TypeError(f"pass a Lexer, as json_lexer() makes one, not this {type(lexer).__name__}")
    if isinstance(text, (str, bytes, bytearray, memoryview)):
        text = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)
    xp, (text,), give = enter(text)
    if text.ndim != 1:
        raise ShapeError(f"text must be 1-D, got shape {tuple(text.shape)}")
    if text.dtype != xp.uint8 and text.shape[0]:
        raise DTypeError(f"text must be bytes (uint8), got {text.dtype}")
    fast = automata(choose((text,)))
    found = fast.run_automaton(lexer, text) if fast else None
    codes, final = found or _run(xp, lexer, text)
    last = np.array(lexer.last[final], np.int64).reshape(-1, 2)
    ends, kinds = _tokens(xp, lexer, codes)
    ends = xp.concat([ends, text.shape[0] - xp.asarray(last[:, 0], device=codes.device)])
    kinds = xp.concat([kinds, xp.asarray(last[:, 1], device=codes.device)])
    starts = xp.concat([xp.zeros_like(ends[:1]), ends[:-1]])
    return give(kinds), give(starts), give(ends)


def _tokens(xp: Any, lexer: Lexer, codes: Any) -> tuple[Any, Any]:
    """Ends and kinds of the tokens that the automaton's steps end. A step ends one token or a few."""
    codes, at = moving.found(xp, codes, codes != 0)
    codes = xp.astype(codes, xp.int64)
    back, kind, counts = (xp.asarray(v, device=codes.device) for v in (lexer.back, lexer.kind, lexer.counts))
    if back.shape[1] == 1:
        return at - back[codes, 0], kind[codes, 0]
    owner, rank = moving.owners(xp, counts[codes])
    return at[owner] - back[codes[owner], rank], kind[codes[owner], rank]


def _run(xp: Any, lexer: Lexer, text: Any) -> tuple[Any, int]:
    """The code of the tokens that each byte ends, and the last configuration: all chunks side by side, one byte at a time."""
    n, where = text.shape[0], text.device
    size = min(_CHUNK, max(1, n))
    pad = -n % size if n else size
    states, width = lexer.after.shape
    # The bytes that fill up the last chunk change nothing.
    idle = np.arange(states)[:, None]
    after = xp.asarray(np.concatenate([lexer.after, idle], 1).astype(np.int64).ravel(), device=where)
    emits = xp.asarray(np.concatenate([lexer.emits, 0 * idle], 1).astype(np.int64).ravel(), device=where)
    classes = xp.asarray(lexer.classes.astype(np.int64), device=where)[xp.astype(text, xp.int64)]
    classes = xp.concat([classes, xp.full((pad,), width, dtype=xp.int64, device=where)])
    classes = xp.reshape(classes, (-1, size)).T
    chunks = classes.shape[1]
    function = xp.broadcast_to(xp.arange(states, dtype=xp.int64, device=where), (chunks, states))
    for row in classes:
        function = after[function * (width + 1) + row[:, None]]
    state = compose(xp, function)
    codes = xp.empty(classes.shape, dtype=xp.int64, device=where)
    state = xp.concat([xp.zeros_like(state[:1]), state])
    final, state = int(state[-1]), state[:-1]
    for k, row in enumerate(classes):
        codes[k] = emits[state * (width + 1) + row]
        state = after[state * (width + 1) + row]
    return xp.reshape(codes.T, (-1,))[:n], final


def compose(xp: Any, functions: Any) -> Any:
    """The configuration that 0 leads to after each chunk: the scan of the chunks' functions, by doubling (Hillis and Steele)."""
    stride = 1
    while stride < functions.shape[0]:
        later = xp.take_along_axis(functions[stride:], functions[:-stride], axis=1)
        functions = xp.concat([functions[:stride], later])
        stride *= 2
    return functions[:, 0]


@cache
def json_lexer() -> Lexer:
    """The `Lexer` of JSON (RFC 8259) for `tokenize`. Its kinds of tokens are string, number, literal, punctuation, space.

    >>> from upsweep import apps
    >>> lexer = apps.json_lexer()
    >>> kinds, _, _ = apps.tokenize(b"[true]", lexer)
    >>> [lexer.kinds[kind] for kind in kinds]
    ['punctuation', 'literal', 'punctuation']
    """
    digits, escape = r"[0-9]+", r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
    return Lexer([
        ("string", rf'"(?:[^"\\\x00-\x1f]|{escape})*"'),
        ("number", rf"-?(?:0|[1-9][0-9]*)(?:\.{digits})?(?:[eE][+\-]?{digits})?"),
        ("literal", "true|false|null"),
        ("punctuation", r"[\[\]{},:]"),
        ("space", r"[ \t\r\n]+"),
    ])  # fmt: skip


@cache
def python_lexer() -> Lexer:
    """The `Lexer` of Python source for `tokenize`. Its kinds of tokens are name, number, string (an f-string is one), comment,
    operator, newline, space, unfinished (a string without its end).

    >>> from upsweep import apps
    >>> lexer = apps.python_lexer()
    >>> kinds, _, _ = apps.tokenize(b"x += 1", lexer)
    >>> [lexer.kinds[kind] for kind in kinds]
    ['name', 'space', 'operator', 'space', 'number']
    """
    digits, prefix = "[0-9](?:_?[0-9])*", "(?:[rRuUbBfF]|[rR][bBfF]|[bBfF][rR])?"
    exponent, escape = rf"[eE][+\-]?{digits}", r"\\(?:\r\n|[\x00-\xff])"
    point = rf"(?:{digits}\.(?:{digits})?|\.{digits})"
    line = {q: rf"(?:[^{q}\\\r\n]|{escape})*" for q in "'\""}
    lines = {q: rf"(?:{q}?{q}?(?:[^{q}\\]|{escape}))*" for q in "'\""}
    whole = "|".join(f"{prefix}(?:{q * 3}{lines[q]}{q * 3}|{q}{line[q]}{q})" for q in "'\"")
    begun = "|".join(rf"{prefix}(?:{q * 3}{lines[q]}{q}?{q}?\\?|{q}{line[q]}\\?)" for q in "'\"")
    number = rf"(?:{point}(?:{exponent})?|{digits}{exponent}|{digits})[jJ]?"
    based = "0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+"
    return Lexer([
        ("string", whole),
        ("unfinished", begun),
        ("name", r"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*"),
        ("number", f"{based}|{number}"),
        ("comment", r"#[^\r\n]*"),
        ("newline", r"\r?\n|\r"),
        ("space", r"(?:[ \t\f]|\\\r?\n)+"),
        ("operator", r"->|:=|\*\*=?|//=?|>>=?|<<=?|[!=<>+\-*/%&|\^@]=?|\.\.\.|[()\[\]{},:;.~]"),
    ])  # fmt: skip
