"""What PTX's instructions compute, in LLVM's words. Registers hold integers; floats are their bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np

BITS = {
    "pred": 1,
    **{f"{kind}{n}": n for kind in "bsu" for n in (8, 16, 32, 64)},
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
}
BITS |= {"f16x2": 32, "bf16x2": 32, "s16x2": 32, "u16x2": 32, "e4m3x2": 16, "e5m2x2": 16}
NARROW = {"e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2x2": np.dtype(ml_dtypes.float8_e5m2)}
FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
ORDERS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
HEXADECIMAL = re.compile(r"0[fFdD]([0-9a-fA-F]+)")


class Unknown(Exception):
    """An instruction that the emulator does not know."""


def constant(text: str) -> int:
    """The bits of a number in PTX's text."""
    told = HEXADECIMAL.fullmatch(text)
    return int(told[1], 16) if told else int(text.rstrip("U"), 0)


class Writer:
    """LLVM's code of one function, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def say(self, line: str) -> None:
        self.lines.append(line)

    def let(self, value: str) -> str:
        """The name of a new value."""
        self.count += 1
        self.say(f"%v{self.count} = {value}")
        return f"%v{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def sized(self, value: str, have: int, want: int, signed: bool = False) -> str:
        """An integer of another size."""
        if have == want:
            return value
        return self.let(
            f"{'trunc' if have > want else 'sext' if signed else 'zext'} i{have} {value} to i{want}"
        )

    def as_float(self, value: str, kind: str) -> str:
        return self.let(f"bitcast i{BITS[kind]} {value} to {FLOATS[kind]}")

    def as_bits(self, value: str, kind: str) -> str:
        return self.let(f"bitcast {FLOATS[kind]} {value} to i{BITS[kind]}")

    def call(self, name: str, ty: str, *values: str) -> str:
        return self.let(f"call {ty} @llvm.{name}({', '.join(f'{ty} {v}' for v in values)})")

    def choose(self, truth: str, ty: str, a: str, b: str) -> str:
        return self.let(f"select i1 {truth}, {ty} {a}, {ty} {b}")


def plain(w: Writer, name: str, mods: list[str], kind: str, v: list[str]) -> str:
    """The result of an instruction on operands that have its type, `kind`."""
    if name == "cvt":
        return converted(w, mods, kind, v)
    found = _FLOAT.get(name) if kind in FLOATS else None
    made = found or _INTEGER.get(name)
    if made is None or (kind in FLOATS and found is None and name not in ("mov", "selp", "not")):
        raise Unknown(".".join((name, *mods, kind)))
    return made(w, mods, kind, v)


def _binary(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        if not kind.endswith("x2"):
            return w.let(f"{word} i{BITS[kind]} {v[0]}, {v[1]}")
        return _by_halves(w, v, lambda a, b: w.let(f"{word} <2 x i16> {a}, {b}"))

    return made


def _by_halves(w: Writer, v: list[str], made: Callable[..., str]) -> str:
    halves = [w.let(f"bitcast i32 {x} to <2 x i16>") for x in v]
    return w.let(f"bitcast <2 x i16> {made(*halves)} to i32")


def _divided(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        n = BITS[kind]
        nothing = w.let(f"icmp eq i{n} {v[1]}, 0")
        return w.let(
            f"{'s' if kind[0] == 's' else 'u'}{word} i{n} {v[0]}, {w.choose(nothing, f'i{n}', '1', v[1])}"
        )

    return made


def _shifted(left: bool) -> Callable[..., str]:
    """A shift by all bits or more leaves none."""

    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        n, signed = BITS[kind], kind[0] == "s"
        by = w.sized(v[1], 32, n)
        far = w.let(f"icmp uge i32 {v[1]}, {n}")
        near = w.choose(far, f"i{n}", str(n - 1 if signed else 0), by)
        done = w.let(f"{'shl' if left else 'ashr' if signed else 'lshr'} i{n} {v[0]}, {near}")
        return done if signed and not left else w.choose(far, f"i{n}", "0", done)

    return made


def _multiplied(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    n, signed = BITS[kind], kind[0] == "s"
    if "lo" in mods:
        return w.let(f"mul i{n} {v[0]}, {v[1]}")
    a, b = (w.sized(x, n, 2 * n, signed) for x in v[:2])
    whole = w.let(f"mul i{2 * n} {a}, {b}")
    return whole if "wide" in mods else w.sized(w.let(f"lshr i{2 * n} {whole}, {n}"), 2 * n, n)


def _multiplied_added(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    n = BITS[kind] * (2 if "wide" in mods else 1)
    return w.let(f"add i{n} {_multiplied(w, mods, kind, v)}, {v[2]}")


def _extreme(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        name, whole = f"{'s' if kind[0] == 's' else 'u'}{word}", f"i{BITS[kind]}"
        if not kind.endswith("x2"):
            return w.call(f"{name}.{whole}", whole, *v)
        return _by_halves(w, v, partial(w.call, f"{name}.v2i16", "<2 x i16>"))

    return made


def _field(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """bfe: `len` bits from `pos` on."""
    n = BITS[kind]
    if kind[0] == "s":
        raise Unknown("bfe.s")
    pos, size = (w.let(f"and i32 {x}, 255") for x in v[1:])
    down = _shifted(False)(w, mods, f"u{n}", [v[0], pos])
    ones = _shifted(True)(w, mods, f"b{n}", ["-1", size])
    return w.let(f"and i{n} {down}, {w.let(f'xor i{n} {ones}, -1')}")


def _inserted(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """bfi: the low `len` bits of a at `pos` of b."""
    n = BITS[kind]
    pos, size = (w.let(f"and i32 {x}, 255") for x in v[2:])
    ones = w.let(f"xor i{n} {_shifted(True)(w, mods, f'b{n}', ['-1', size])}, -1")
    mask = _shifted(True)(w, mods, f"b{n}", [ones, pos])
    put = w.let(f"and i{n} {_shifted(True)(w, mods, f'b{n}', [v[0], pos])}, {mask}")
    kept = w.let(f"and i{n} {v[1]}, {w.let(f'xor i{n} {mask}, -1')}")
    return w.let(f"or i{n} {put}, {kept}")


def _bytes_of(w: Writer, value: str, signed: bool = False) -> list[str]:
    parts = [w.sized(w.let(f"lshr i32 {value}, {8 * k}"), 32, 8) for k in range(4)]
    return [w.sized(part, 8, 32, signed) for part in parts]


def _permuted(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """prmt: bytes of b and a by four selectors; the highest bit of a selector asks for the byte's sign."""
    if mods:
        raise Unknown("prmt." + mods[0])
    pool = w.let(f"or i64 {w.let(f'shl i64 {w.sized(v[1], 32, 64)}, 32')}, {w.sized(v[0], 32, 64)}")
    total = "0"
    for k in range(4):
        chosen = w.let(f"lshr i32 {v[2]}, {4 * k}")
        by = w.let(f"shl i64 {w.sized(w.let(f'and i32 {chosen}, 7'), 32, 64)}, 3")
        byte = w.sized(w.let(f"lshr i64 {pool}, {by}"), 64, 8)
        sign = w.let(f"ashr i8 {byte}, 7")
        asked = w.let(f"icmp ne i32 {w.let(f'and i32 {chosen}, 8')}, 0")
        one = w.sized(w.choose(asked, "i8", sign, byte), 8, 32)
        total = w.let(f"or i32 {total}, {w.let(f'shl i32 {one}, {8 * k}')}")
    return total


def _dotted(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """dp4a: the products of four bytes each, summed; the first type is in `mods`."""
    a, b = _bytes_of(w, v[0], mods[0][0] == "s"), _bytes_of(w, v[1], kind[0] == "s")
    total = v[2]
    for x, y in zip(a, b):
        total = w.let(f"add i32 {total}, {w.let(f'mul i32 {x}, {y}')}")
    return total


def _dotted_pairs(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """dp2a: the products of two numbers of two bytes by the two lower or upper bytes of a word, summed."""
    a, b = v[0], _bytes_of(w, v[1], kind[0] == "s")
    b, signed, total = b[:2] if "lo" in mods else b[2:], mods[-1][0] == "s", v[2]
    for k, y in enumerate(b):
        half = w.let(f"trunc i32 {w.let(f'lshr i32 {a}, {16 * k}')} to i16")
        total = w.let(f"add i32 {total}, {w.let(f'mul i32 {w.sized(half, 16, 32, signed)}, {y}')}")
    return total


def _funnel(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    if "wrap" not in mods:
        raise Unknown("shf.clamp")
    return w.call("fshl.i32" if "l" in mods else "fshr.i32", "i32", v[1], v[0], v[2])


def _looked_up(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """lop3: any function of three bits, by its table."""
    table, total = constant(v[3]), "0"
    for k in range(8):
        if table >> k & 1:
            bits = [x if k >> shift & 1 else w.let(f"xor i32 {x}, -1") for x, shift in zip(v, (2, 1, 0))]
            both = w.let(f"and i32 {bits[1]}, {bits[2]}")
            total = w.let(f"or i32 {total}, {w.let(f'and i32 {bits[0]}, {both}')}")
    return total


def _counted(word: str, *more: str) -> Callable[..., str]:
    """Of 32 or 64 bits; the count has 32."""

    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        n = BITS[kind]
        operands = ", ".join((f"i{n} {v[0]}", *more))
        return w.sized(w.let(f"call i{n} @llvm.{word}.i{n}({operands})"), n, 32)

    return made


def _highest(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """bfind: the place of the highest bit, or how far it is from the top; -1 where there is none."""
    if kind[0] != "u":
        raise Unknown("bfind." + kind)
    place = w.let(f"sub i32 {BITS[kind] - 1}, {_counted('ctlz', 'i1 false')(w, [], kind, v)}")
    far = w.let(f"sub i32 {BITS[kind] - 1}, {place}")
    return w.choose(w.let(f"icmp eq i32 {place}, -1"), "i32", "-1", far) if mods else place


_INTEGER: dict[str, Callable[..., str]] = {
    **{name: _binary(name) for name in ("add", "sub", "and", "or", "xor")},
    "mov": lambda w, mods, kind, v: v[0],
    "not": lambda w, mods, kind, v: w.let(f"xor i{BITS[kind]} {v[0]}, -1"),
    "neg": lambda w, mods, kind, v: w.let(f"sub i{BITS[kind]} 0, {v[0]}"),
    "abs": lambda w, mods, kind, v: w.let(f"call i{BITS[kind]} @llvm.abs.i{BITS[kind]}(i{BITS[kind]} {v[0]}, i1 false)"),
    "div": _divided("div"), "rem": _divided("rem"), "shl": _shifted(True), "shr": _shifted(False),
    "mul": _multiplied, "mad": _multiplied_added, "min": _extreme("min"), "max": _extreme("max"),
    "bfe": _field, "bfi": _inserted, "prmt": _permuted, "dp4a": _dotted, "dp2a": _dotted_pairs, "shf": _funnel,
    "lop3": _looked_up,
    "popc": _counted("ctpop"), "clz": _counted("ctlz", "i1 false"), "bfind": _highest,
    "brev": lambda w, mods, kind, v: w.call(f"bitreverse.i{BITS[kind]}", f"i{BITS[kind]}", v[0]),
    "selp": lambda w, mods, kind, v: w.choose(v[2], f"i{BITS[kind]}", v[0], v[1]),
}  # fmt: skip


def _floating(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        if kind in ("f16", "bf16") or not {"rn"} >= set(mods):
            raise Unknown(".".join((word, *mods, kind)))
        a, b = (w.as_float(x, kind) for x in v)
        return w.as_bits(w.let(f"{word} {FLOATS[kind]} {a}, {b}"), kind)

    return made


def _called(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        if kind in ("f16", "bf16") or not {"rn"} >= set(mods):
            raise Unknown(".".join((word, *mods, kind)))
        values = [w.as_float(x, kind) for x in v]
        return w.as_bits(w.call(f"{word}.{kind}", FLOATS[kind], *values), kind)

    return made


def _about(made: Callable[[Writer, str], str]) -> Callable[..., str]:
    """An approximation of f32, here by the number that it approximates. Nothing is flushed to zero."""

    def rounded(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        if kind != "f32" or mods != ["approx", "ftz"]:
            raise Unknown(".".join((*mods, kind)))
        return w.as_bits(made(w, w.as_float(v[0], kind)), kind)

    return rounded


def _root(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    about = _about(lambda w, x: w.call("sqrt.f32", "float", x))
    return (about if "approx" in mods else _called("sqrt"))(w, mods, kind, v)


def _inverse(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    if mods != ["rn"]:
        return _about(lambda w, x: w.let(f"fdiv float 1.0, {x}"))(w, mods, kind, v)
    return w.as_bits(w.let(f"fdiv {FLOATS[kind]} 1.0, {w.as_float(v[0], kind)}"), kind)


def _float_extreme(word: str, zero: str) -> Callable[..., str]:
    """Without NaN, the other operand is the result. Of two zeros, -0 is the smaller one."""

    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        if kind in ("f16", "bf16") or not {"NaN"} >= set(mods):
            raise Unknown(".".join((word, *mods, kind)))
        ty, n = FLOATS[kind], BITS[kind]
        a, b = (w.as_float(x, kind) for x in v)
        won = w.let(f"fcmp {word} {ty} {a}, {b}")
        same = w.let(f"fcmp oeq {ty} {a}, {b}")
        found = w.choose(
            same, f"i{n}", w.let(f"{zero} i{n} {v[0]}, {v[1]}"), w.choose(won, f"i{n}", v[0], v[1])
        )
        canonical = str(constant("0x7fffffff") if n == 32 else 0x7FFFFFFFFFFFFFFF)
        lost = [w.let(f"fcmp uno {ty} {x}, {x}") for x in (a, b)]
        if mods:
            return w.choose(w.let(f"or i1 {lost[0]}, {lost[1]}"), f"i{n}", canonical, found)
        found = w.choose(lost[0], f"i{n}", v[1], w.choose(lost[1], f"i{n}", v[0], found))
        return w.choose(w.let(f"and i1 {lost[0]}, {lost[1]}"), f"i{n}", canonical, found)

    return made


def _sign(word: str) -> Callable[..., str]:
    def made(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
        top = 1 << BITS[kind] - 1
        return w.let(
            f"xor i{BITS[kind]} {v[0]}, {top}" if word == "neg" else f"and i{BITS[kind]} {v[0]}, {top - 1}"
        )

    return made


_FLOAT: dict[str, Callable[..., str]] = {
    "add": _floating("fadd"), "sub": _floating("fsub"), "mul": _floating("fmul"), "div": _floating("fdiv"),
    "fma": _called("fma"), "sqrt": _root, "neg": _sign("neg"), "abs": _sign("abs"),
    "max": _float_extreme("ogt", "and"), "min": _float_extreme("olt", "or"),
    "ex2": _about(lambda w, x: w.call("exp2.f32", "float", x)),
    "rcp": _inverse,
}  # fmt: skip


def compared(w: Writer, mods: list[str], kind: str, a: str, b: str) -> str:
    order = ORDERS.get(mods[0], mods[0])
    if kind in FLOATS:
        if order in ("num", "nan"):
            word = {"num": "ord", "nan": "uno"}[order]
        else:
            word = f"u{order[:2]}" if len(order) == 3 else f"o{order}"
        return w.let(f"fcmp {word} {FLOATS[kind]} {w.as_float(a, kind)}, {w.as_float(b, kind)}")
    sign = "" if order in ("eq", "ne") else "s" if kind[0] == "s" and mods[0] not in ORDERS else "u"
    return w.let(f"icmp {sign}{order} i{BITS[kind]} {a}, {b}")


def converted(w: Writer, mods: list[str], kind: str, v: list[str]) -> str:
    """cvt: the last of `mods` is the result's type."""
    to, how = mods[-1], mods[:-1]
    n, m = BITS[kind], BITS[to]
    if to == "bf16x2" and kind == "f32" and how == ["rn"]:
        high, low = (w.sized(converted(w, ["rn", "bf16"], "f32", [x]), 16, 32) for x in v)
        return w.let(f"or i32 {w.let(f'shl i32 {high}, 16')}, {low}")
    if to == "f16x2" and kind == "f32" and how == ["rn"]:
        high, low = (w.sized(converted(w, ["rn", "f16"], "f32", [x]), 16, 32) for x in v)
        return w.let(f"or i32 {w.let(f'shl i32 {high}, 16')}, {low}")
    if to in NARROW and kind == "f32" and how == ["rn", "satfinite"]:
        high, low = (w.sized(_narrowed(w, NARROW[to], x), 32, 16) for x in v)
        return w.let(f"or i16 {w.let(f'shl i16 {high}, 8')}, {low}")
    if kind in NARROW and to == "f16x2":
        high, low = (
            w.sized(_widened(w, kind, w.let(f"lshr i16 {v[0]}, {shift}")), 16, 32) for shift in (8, 0)
        )
        return w.let(f"or i32 {w.let(f'shl i32 {high}, 16')}, {low}")
    if kind not in FLOATS and to not in FLOATS and not how:
        return w.sized(v[0], n, m, kind[0] == "s")
    if to == "bf16" and kind == "f32" and how == ["rn"]:
        return _bfloat(w, v[0])
    if kind == "bf16" and to == "f32":
        return w.let(f"shl i32 {w.sized(v[0], 16, 32)}, 16")
    if kind in FLOATS and to in FLOATS and {"rn"} >= set(how):
        word = "fptrunc" if n > m else "fpext"
        return w.as_bits(w.let(f"{word} {FLOATS[kind]} {w.as_float(v[0], kind)} to {FLOATS[to]}"), to)
    if kind in FLOATS and to not in FLOATS and how == ["rzi"]:
        sign = "s" if to[0] == "s" else "u"
        value = w.as_float(v[0], kind)
        return w.let(f"call i{m} @llvm.fpto{sign}i.sat.i{m}.{kind}({FLOATS[kind]} {value})")
    if kind not in FLOATS and to in FLOATS and how == ["rn"]:
        return w.as_bits(w.let(f"{'s' if kind[0] == 's' else 'u'}itofp i{n} {v[0]} to {FLOATS[to]}"), to)
    raise Unknown(".".join(("cvt", *mods, kind)))


def _narrowed(w: Writer, dtype: np.dtype, bits: str) -> str:
    """To the nearest float of eight bits, ties to even, at most the largest number; any NaN becomes 0x7f. The number is counted
    in steps, whose size is that of its exponent, or of the least exponent below that."""
    told = ml_dtypes.finfo(dtype)
    value = w.as_float(bits, "f32")
    lost = w.let(f"fcmp uno float {value}, {value}")
    size = w.call("minnum.f32", "float", w.call("fabs.f32", "float", value), _float(told.max))
    exponent = w.let(f"lshr i32 {w.as_bits(size, 'f32')}, 23")
    exponent = w.call("smax.i32", "i32", exponent, str(127 + told.minexp))
    steps_of_one = w.let(f"shl i32 {w.let(f'sub i32 {254 + told.nmant}, {exponent}')}, 23")
    steps = w.call("rint.f32", "float", w.let(f"fmul float {size}, {w.as_float(steps_of_one, 'f32')}"))
    before = w.let(f"shl i32 {w.let(f'sub i32 {exponent}, {127 + told.minexp}')}, {told.nmant}")
    code = w.let(f"add i32 {w.let(f'fptoui float {steps} to i32')}, {before}")
    sign = w.let(f"and i32 {w.let(f'lshr i32 {bits}, 24')}, 128")
    return w.choose(lost, "i32", "127", w.let(f"or i32 {code}, {sign}"))


def _float(value: float) -> str:
    """A number in LLVM's text, which has the bits of a float64."""
    return f"0x{np.float64(value).view(np.uint64):016X}"


def _widened(w: Writer, kind: str, bits: str) -> str:
    """The float16 that a float of eight bits is; any NaN becomes 0x7fff."""
    place = w.let(f"and i16 {bits}, 255")
    at = w.let(f'getelementptr [256 x i16], ptr @"{kind}", i16 0, i16 {place}')
    return w.let(f"load i16, ptr {at}")


def _table(kind: str) -> str:
    halves = np.arange(256, dtype=np.uint8).view(NARROW[kind]).astype(np.float16)
    codes = np.where(np.isnan(halves), 0x7FFF, halves.view(np.uint16))
    return f'@"{kind}" = internal constant [256 x i16] [{", ".join(f"i16 {code}" for code in codes)}]'


TABLES = {kind: _table(kind) for kind in NARROW}
"""What `_widened` reads."""


def _bfloat(w: Writer, bits: str) -> str:
    """To nearest, ties to even; any NaN becomes 0x7fff."""
    odd = w.let(f"and i32 {w.let(f'lshr i32 {bits}, 16')}, 1")
    up = w.let(f"add i32 {odd}, 32767")
    rounded = w.let(f"lshr i32 {w.let(f'add i32 {bits}, {up}')}, 16")
    value = w.as_float(bits, "f32")
    lost = w.let(f"fcmp uno float {value}, {value}")
    return w.sized(w.choose(lost, "i32", "32767", rounded), 32, 16)
