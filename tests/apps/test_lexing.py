"""Tokens against a sequential lexer: of the whole standard library, of JSON, of any bytes at all."""

from __future__ import annotations

import json
import re
import sysconfig
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import upsweep as up
from upsweep import apps
from upsweep.apps.expressions import automaton

SMALL = apps.Lexer([("a", "a"), ("abc", "abc?d"), ("b", "b+|bbcb"), ("c", "c|ca[ab]"), ("any", "[^a-c]")])
LOOKAHEAD = apps.Lexer([("word", "a|aab|aabaabb"), ("b", "b(ab)?")])


@lru_cache(4)
def sequential(text, lexer):
    """The longest match from each token's start, byte by byte, then back to where the last rule ended."""
    classes, table, accepts = automaton([rule for _, rule in lexer.rules])
    tokens, start = [], 0
    while start < len(text):
        state, at, end, kind = 0, start, None, len(lexer.kinds) - 1
        while at < len(text) and table[state][classes[text[at]]] >= 0:
            state = table[state][classes[text[at]]]
            at += 1
            if accepts[state] >= 0:
                end, kind = at, lexer.kinds.index(lexer.rules[accepts[state]][0])
        end = max(at, start + 1) if end is None else end
        tokens.append((kind, start, end))
        start = end
    return tokens


def by_re(text, lexer):
    """The same by Python's own engine, for tables whose first matching alternative is the longest."""
    pattern = re.compile("|".join(f"({rule})" for _, rule in lexer.rules).encode("latin-1"))
    kinds = [0, *(lexer.kinds.index(kind) for kind, _ in lexer.rules)]
    found = [(kinds[m.lastindex], m.end()) for m in pattern.finditer(text)]
    return np.array(found, np.int64).reshape(-1, 2).T


def tokens(text, lexer, apps=apps):
    return list(zip(*(v.tolist() for v in apps.tokenize(text, lexer))))


@settings(max_examples=100)
@given(st.lists(st.sampled_from(b"aaabbbccd"), max_size=40).map(bytes))
def test_any_bytes_are_cut_as_by_a_sequential_lexer(text):
    for lexer in (SMALL, LOOKAHEAD):
        assert tokens(text, lexer) == sequential(text, lexer)


PIECES = [
    "'",
    '"',
    '"""',
    "'''",
    "\\",
    "\n",
    "\r\n",
    "a",
    "rb",
    "f",
    "1",
    "1.",
    "e",
    "+",
    "_",
    "0x",
    ".",
    "..",
    "#",
    "=",
    "é",
    "!",
    "{",
    '"',
    "tru",
    "e",
    "-",
]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_broken_source_too(text):
    for lexer in (apps.python_lexer(), apps.json_lexer()):
        assert tokens(text, lexer) == sequential(text.encode(), lexer)


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 3000, (1 << 17) - 1, (1 << 17) + 1, 400_000])
def test_chunks_meet(apps, n):
    if n > 3000 and not apps.moves:
        n //= 16  # chunks without tiles around them
    text = np.random.default_rng(n).choice(np.frombuffer(b"aaabbbccd", np.uint8), n)
    assert tokens(text, SMALL, apps) == sequential(text.tobytes(), SMALL)
    quoted, lexer = (b'x = """' + b"a'b # \\\" " * (n // 9))[:n], up.apps.python_lexer()
    assert tokens(np.frombuffer(quoted, np.uint8), lexer, apps) == sequential(quoted, lexer)


def test_the_standard_library():
    lexer = apps.python_lexer()
    here = Path(sysconfig.get_path("stdlib"))
    files = [
        f for f in sorted(here.rglob("*.py")) if "site-packages" not in f.parts and "test" not in f.parts
    ]
    assert len(files) > 500
    text = b"\n".join(f.read_bytes() for f in files[::9])
    kinds, starts, ends = apps.tokenize(text, lexer)
    want_kinds, want_ends = by_re(text, lexer)
    np.testing.assert_array_equal(ends[kinds < len(lexer.kinds) - 1], want_ends)
    np.testing.assert_array_equal(kinds[kinds < len(lexer.kinds) - 1], want_kinds)
    np.testing.assert_array_equal(starts, np.append(0, ends[:-1]))
    assert ends[-1] == len(text)


def test_json_is_cut_where_it_should(apps):
    data = [{'k\\"é': [1, -2.5e-10, True, None, "x" * 50], "": {}}] * 30
    text = json.dumps(data, ensure_ascii=False, indent=1)
    lexer = up.apps.json_lexer()
    raw = text.encode()
    kinds, starts, ends = apps.tokenize(np.frombuffer(raw, np.uint8), lexer)
    assert "error" not in {lexer.kinds[k] for k in kinds}
    space = lexer.kinds.index("space")
    kept = [raw[a:b] for k, a, b in zip(kinds, starts, ends) if k != space]
    assert json.loads(b" ".join(kept)) == data


@settings(max_examples=70)
@given(
    st.recursive(
        st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "\\x61", "\\w"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
                "(?:{0[0]}){0[1]}".format
            ),
        ),
        max_leaves=6,
    ),
    st.text("abc", max_size=6),
)
@example("[]a]", "]")
@example("[^]a-b]", "c")
def test_expressions_match_what_re_matches(expression, text):
    classes, table, accepts = automaton([expression])
    state = 0
    for byte in text.encode():
        state = table[state][classes[byte]] if state >= 0 else -1
    assert (state >= 0 and accepts[state] == 0) == bool(re.fullmatch(expression, text))


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        ")",
        "a)",
        "*",
        "[a",
        "[]",
        "[b-a]",
        r"[\d-z]",
        r"[a-\d]",
        "a{x}",
        "a{2,1}",
        "a{²}",
        "\\q",
        r"\xg1",
        r"\x 1",
        "(?=a)",
        "é",
        "^a",
        "\\",
    ],
)
def test_unreadable_expressions_are_refused(expression):
    with pytest.raises(ValueError, match="regular expression"):
        apps.Lexer([("x", expression)])


def test_rules_that_need_too_much_are_refused():
    with pytest.raises(ValueError, match="look-ahead"):
        apps.Lexer([("a", "a"), ("far", "ab*c")])
    with pytest.raises(ValueError, match="empty"):
        apps.Lexer([("a", "a*")])
    with pytest.raises(TypeError, match="pass a Lexer, as json_lexer"):
        apps.tokenize(b"1", "python")
    with pytest.raises(up.DTypeError):
        apps.tokenize([1, 2], SMALL)
    with pytest.raises(up.ShapeError):
        apps.tokenize(np.zeros((2, 2), np.uint8), SMALL)
