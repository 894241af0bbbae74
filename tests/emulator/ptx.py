"""A kernel's PTX as machine code of this processor.

A thread's registers, and what it waits for, lie in memory of its own, so that it may stop anywhere: it notes where it goes on,
and returns. It stops where threads meet (barriers, shuffles, votes), and now and then where it jumps back, so that others have
a turn.
"""

from __future__ import annotations

import ctypes
import re
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from emulator.arithmetic import BITS, TABLES, Unknown, Writer, compared, constant, plain


class Word(IntEnum):
    """The 64-bit words of a thread."""

    PLACE = 0
    """Where it goes on."""
    STATE = 1
    A, B, C = 2, 3, 4
    """What it brings to a meeting."""
    MASK = 5
    RESULT = 6
    TRUTH = 7
    """What it takes away."""
    PATIENCE = 8
    """How often it may still jump back before others have a turn."""
    THREAD, BLOCK, THREADS, BLOCKS = 9, 10, 11, 12
    WINDOWS = 13
    """Where the shared memory of each block of its cluster lies."""
    ARRIVALS = 14
    """How often it has arrived at the barrier of its cluster."""
    ASTRAY = 15
    """Not 0 where it read or wrote at an address that is no multiple of the size, for which a GPU ends the launch."""
    END = 16


class State(IntEnum):
    RUNS, ENDED, BARRIER, WAITS, ARRIVES, AWAITS_CLUSTER = range(6)
    SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_IDX, SHUFFLE_BFLY = range(10, 14)
    VOTE_ALL, VOTE_ANY, BALLOT, MATCH, MEET = range(14, 19)
    REDUCE_ADD, REDUCE_OR, REDUCE_AND, REDUCE_XOR, REDUCE_MIN, REDUCE_MAX, REDUCE_UMIN, REDUCE_UMAX = range(
        19, 27
    )


class Kernel(NamedTuple):
    """`run(words, registers, lanes, shared, parameter)` runs those lanes of a warp until they stop."""

    run: Any
    shared: int
    """Bytes of shared memory that it has without being given any."""
    registers: int
    cluster: int
    """The number of blocks that read each other's shared memory."""
    parameter: int
    """Bytes of its parameter."""
    keeps: Any

    def __int__(self) -> int:
        """Its handle."""
        return id(self.keeps)


_SPECIAL = {"%tid.x": Word.THREAD, "%ctaid.x": Word.BLOCK, "%ntid.x": Word.THREADS, "%nctaid.x": Word.BLOCKS}
_NOTHING = ("membar", "fence", "prefetch", "prefetchu", "cp.async.bulk.prefetch", "cp.async.commit_group",
            "cp.async.wait_group", "cp.async.wait_all", "applypriority", "discard", "griddepcontrol")  # fmt: skip
_ATOMS = {"add": "add", "or": "or", "and": "and", "xor": "xor", "exch": "xchg", "min": "min", "max": "max"}
_BARRIER = """
define void @arrive(ptr %at) {
  %whole = load i64, ptr %at
  %less = sub i64 %whole, 1
  %left = and i64 %less, 1048575
  %none = icmp eq i64 %left, 0
  %count = lshr i64 %less, 20
  %full = and i64 %count, 1048575
  %turned = xor i64 %less, 1152921504606846976
  %next = or i64 %turned, %full
  %now = select i1 %none, i64 %next, i64 %less
  store i64 %now, ptr %at
  ret void
}
"""
"""A barrier of shared memory: 20 bits count the arrivals that are missing, 20 those of a phase; bit 60 is the phase."""

IN_SHARED = 1 << 62
"""The bit of an address that says it is one of shared memory. What an instruction for global memory finds there is `nowhere`."""

_WINDOW = 24
"""Bits of an address within a block's shared memory; above them an address within a cluster has the block's number."""


class _Translation:
    def __init__(self, text: str, entry: str) -> None:
        self.w = Writer()
        self.slots: dict[str, tuple[int, int]] = {}
        self.shared: dict[str, int] = {}
        self.shared_end = 0
        self.globals: dict[str, str] = {}
        self.params: set[str] = set()
        self.resumes: list[str] = []
        self.seen: set[str] = set()
        self.scopes: list[dict[str, str]] = [{}]
        self.tables: dict[str, list[str]] = {}
        self.known: dict[int, str] = {}
        """What registers hold, of those that were read or written since the last label."""
        self.places: dict[int, int] = {}
        """Where registers lie in memory that are read from there. Most are read right behind the line that writes them."""
        self.stores: list[tuple[int, int, str]] = []
        """The lines that write registers: a line's number, the register, the type and the value."""
        self.body(text, entry)

    # --- registers and operands ---------------------------------------------------------------------------------------

    def register(self, name: str) -> tuple[int, int]:
        for scope in reversed(self.scopes):
            if name in scope:
                return self.slots[scope[name]]
        raise Unknown(f"register {name}")

    def declare(self, kind: str, names: str) -> None:
        for name in (n.strip() for n in names.split(",")):
            many = re.fullmatch(r"(.*)<(\d+)>", name)
            for each in [f"{many[1]}{k}" for k in range(int(many[2]))] if many else [name]:
                unique = f"{each} {len(self.scopes)} {len(self.slots)}" if len(self.scopes) > 2 else each
                self.scopes[-1][each] = unique
                self.slots[unique] = len(self.slots), BITS[kind]

    def get(self, text: str, bits: int, signed: bool = False) -> str:
        """An operand as an integer of so many bits."""
        text = text.strip()
        if text[0] == "!":
            return self.w.let(f"xor i1 {self.get(text[1:], 1)}, true")
        if text in _SPECIAL:
            return self.w.sized(self.word(_SPECIAL[text]), 64, bits)
        if text == "%laneid":
            return self.w.sized(self.w.let(f"and i64 {self.word(Word.THREAD)}, 31"), 64, bits)
        if text in ("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"):
            return "0"
        if text == "WARP_SZ":
            return "32"
        if text[0] in "0123456789-":
            value = constant(text)
            return str(value if value < 1 << 63 else value - (1 << 64))
        if text in self.params:
            return self.w.let("ptrtoint ptr %param to i64")
        if text in self.shared:
            return str(self.shared[text])
        if text in self.globals:
            return self.w.let(f'ptrtoint ptr @"{text}" to i64')
        index, have = self.register(text)
        if index not in self.known:
            place = self.places.setdefault(index, len(self.places))
            at = self.w.let(f"getelementptr i64, ptr %r, i64 {place}")
            self.known[index] = self.w.let(f"load i{have}, ptr {at}")
        return self.w.sized(self.known[index], have, bits, signed)

    def put(self, text: str, value: str, bits: int, signed: bool = False) -> None:
        if text == "_":
            return
        index, have = self.register(text)
        self.known[index] = self.w.sized(value, bits, have, signed)
        self.stores.append((len(self.w.lines), index, f"i{have} {self.known[index]}"))
        self.w.say("")

    def word(self, which: Word) -> str:
        return self.w.let(f"load i64, ptr {self.place(which)}")

    def place(self, which: Word) -> str:
        return self.w.let(f"getelementptr i64, ptr %c, i64 {int(which)}")

    def note(self, which: Word, value: str) -> None:
        self.w.say(f"store i64 {value}, ptr {self.place(which)}")

    def address(self, text: str, space: str, size: int = 1) -> str:
        """A pointer of `[register + bytes]`, to so many bytes."""
        told = re.fullmatch(r"\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\w+))?\s*\]", text)
        if told is None:
            raise Unknown(f"address {text}")
        offset = constant(told[2]) if told[2] else 0
        at = self.get(told[1], 64 if space in ("", "global") else 32)
        if space == "shared::cluster":
            within = self.w.let(f"and i32 {self.w.let(f'add i32 {at}, {offset}')}, {(1 << _WINDOW) - 1}")
            self.aligned(within, 32, size)
            windows = self.w.let(f"inttoptr i64 {self.word(Word.WINDOWS)} to ptr")
            block = self.w.let(f"lshr i32 {at}, {_WINDOW}")
            window = self.w.let(
                f"load ptr, ptr {self.w.let(f'getelementptr ptr, ptr {windows}, i32 {block}')}"
            )
            return self.w.let(f"getelementptr i8, ptr {window}, i32 {within}")
        if space == "shared":
            at = self.w.sized(self.w.let(f"add i32 {at}, {offset}"), 32, 64)
            self.aligned(at, 64, size)
            return self.w.let(f"getelementptr i8, ptr %shared, i64 {at}")
        at = self.w.let(f"add i64 {at}, {offset}")
        self.aligned(at, 64, size)
        if space == "global":
            known = self.w.let(f"icmp ult i64 {at}, {IN_SHARED}")
            at = self.w.choose(known, "i64", at, self.w.let("ptrtoint ptr @nowhere to i64"))
        else:
            at = self.w.let(f"and i64 {at}, {~IN_SHARED}")
        return self.w.let(f"inttoptr i64 {at} to ptr")

    def aligned(self, at: str, bits: int, size: int) -> None:
        """Note where an address is no multiple of a size."""
        if size > 1:
            astray = self.w.sized(self.w.let(f"and i{bits} {at}, {size - 1}"), bits, 64)
            self.note(Word.ASTRAY, self.w.let(f"or i64 {self.word(Word.ASTRAY)}, {astray}"))

    # --- control --------------------------------------------------------------------------------------------------------

    def begin(self, label: str) -> None:
        """The next lines may be come to from elsewhere."""
        self.w.say(f"{label}:")
        self.known.clear()

    def stop(self, state: State, values: dict[Word, str]) -> None:
        """Return, and go on behind this place."""
        for which, value in values.items():
            self.note(which, value)
        behind = self.w.label()
        self.note(Word.PLACE, str(len(self.resumes) + 1))
        self.note(Word.STATE, str(int(state)))
        self.resumes.append(behind)
        self.w.say("ret void")
        self.begin(behind)

    def jump(self, label: str) -> str:
        """The block to go to for a label. On the way back, others may have a turn first."""
        if label not in self.seen:
            return f'"{label}"'
        way, over = self.w.label(), self.w.label()
        self.later.append((way, over, label))
        return way

    def jumps_back(self) -> None:
        self.w.say("unreachable")
        for way, over, label in self.later:
            self.begin(way)
            left = self.w.let(f"sub i64 {self.word(Word.PATIENCE)}, 1")
            self.note(Word.PATIENCE, left)
            self.w.say(f'br i1 {self.w.let(f"icmp sgt i64 {left}, 0")}, label %"{label}", label %{over}')
            self.begin(over)
            self.note(Word.PLACE, str(len(self.resumes) + 1))
            self.resumes.append(f'"{label}"')
            self.w.say("ret void")

    def write_stores(self) -> None:
        for line, register, value in self.stores:
            if register in self.places:
                at = f"%s{line}"
                self.w.lines[line] = (
                    f"{at} = getelementptr i64, ptr %r, i64 {self.places[register]}\nstore {value}, ptr {at}"
                )

    # --- the text -------------------------------------------------------------------------------------------------------

    def body(self, text: str, entry: str) -> None:
        self.later: list[tuple[str, str, str]] = []
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
        head = re.search(rf"\.visible\s+\.entry\s+{entry}\s*\((.*?)\)", text, re.S)
        if head is None:
            raise Unknown("no entry")
        if re.search(r"^\s*\.func|\n\.func", text):
            raise Unknown("functions")
        clustered = re.search(r"\.reqnctapercluster\s+(\d+)", text[head.end() : text.index("{", head.end())])
        self.cluster = int(clustered[1]) if clustered else 1
        self.params = set(re.findall(r"(\w+)(?:\[\d+\])?\s*(?:,|$)", head[1].strip()))
        for align, kind, name, size, init in re.findall(
            r"\.(?:global|const)\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*([^;]+))?;",
            text[: head.start()],
        ):
            self.globals[name] = f"{align} {kind} {size} {init.strip()}"
        for name in re.findall(r"\.extern\s+\.shared\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\]", text):
            self.shared[name] = -1
        body = text[text.index("{", head.end()) :]
        body = body[: body.find(".entry")] if ".entry" in body else body
        for align, name, size in re.findall(r"\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)\[(\d+)\]", text):
            begin = -(-self.shared_end // int(align)) * int(align)
            self.shared[name], self.shared_end = begin, begin + int(size)
        for kind, name in re.findall(r"\.shared\s+\.align\s+\d+\s+\.(\w+)\s+([\w$]+);", text):
            size = BITS[kind] // 8
            begin = -(-self.shared_end // size) * size
            self.shared[name], self.shared_end = begin, begin + size
        self.shared_end = -(-self.shared_end // 128) * 128
        for name, at in self.shared.items():
            if at < 0:
                self.shared[name] = self.shared_end
        body = re.sub(r"(\$?\w+):\s*\.branchtargets\s*([^;]+);", self._table, body)
        body = re.sub(
            r"(?m)^\s*\.(?:loc|file|pragma|shared|maxntid|minnctapersm)\b[^;\n]*(?:;|\n)", "\n", body
        )
        said = ""
        for part in re.split(r"([;{}])", body):
            label = re.fullmatch(r"\s*(\$?\w+):\s*", said)
            if part in ("{", "}") and (label or not said.strip()):
                self.statement(said.strip())
                self.statement(part)
                said = ""
            elif part == ";":
                self.statement(said.strip())
                said = ""
            else:
                said += part

    def _table(self, told: re.Match[str]) -> str:
        self.tables[told[1]] = [x.strip() for x in told[2].split(",")]
        return ""

    def statement(self, text: str) -> None:
        while label := re.match(r"(\$?\w+):(?!:)\s*", text):
            self.seen.add(label[1])
            self.w.say(f'br label %"{label[1]}"')
            self.begin(f'"{label[1]}"')
            text = text[label.end() :]
        if not text:
            return
        if text == "{":
            self.scopes.append({})
            return
        if text == "}":
            self.scopes.pop()
            return
        text = " ".join(text.split())
        if text.startswith(".reg"):
            _, kind, names = text.split(" ", 2)
            self.declare(kind[1:], names)
            return
        if text.startswith("."):
            raise Unknown(text)
        condition = None
        if text[0] == "@":
            condition, text = text[1:].split(" ", 1)
        name, _, rest = text.partition(" ")
        operands = [x.strip() for x in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)]
        if name.startswith("bra") and not name.startswith("brx"):
            self.branch(condition, operands[0])
            return
        if condition is not None:
            inside, behind = self.w.label(), self.w.label()
            self.w.say(f"br i1 {self.get(condition, 1)}, label %{inside}, label %{behind}")
            self.begin(inside)
            self.instruction(name, operands)
            self.w.say(f"br label %{behind}")
            self.begin(behind)
        else:
            self.instruction(name, operands)

    def branch(self, condition: str | None, label: str) -> None:
        to = self.jump(label)
        if condition is None:
            self.w.say(f"br label %{to}")
            self.begin(self.w.label())
            return
        behind = self.w.label()
        self.w.say(f"br i1 {self.get(condition, 1)}, label %{to}, label %{behind}")
        self.begin(behind)

    # --- instructions ---------------------------------------------------------------------------------------------------

    def instruction(self, full: str, ops: list[str]) -> None:
        if full.startswith(_NOTHING):
            return
        name, *mods = full.split(".")
        special = getattr(self, f"_{name}", None)
        if special is not None:
            special(mods, ops)
            return
        kind = mods[-1]
        if name == "mov" and ("{" in ops[0] or "{" in ops[1]):
            self._packed(kind, ops)
            return
        if name == "cvt":
            to = mods[-2]
            values = [self.get(x, BITS[kind]) for x in ops[1:]]
            value = plain(self.w, name, mods[:-1], kind, values)
            self.put(ops[0], value, BITS[to], to[0] == "s")
            return
        sizes = [BITS[kind]] * (len(ops) - 1)
        if name in ("shl", "shr"):
            sizes[1] = 32
        if name in ("bfe", "bfi"):
            sizes[-2:] = [32, 32]
        if name == "selp":
            sizes[2] = 1
        wide = "wide" in mods
        if name == "mad" and wide:
            sizes[2] *= 2
        if name == "lop3":
            values = [self.get(x, 32) for x in ops[1:4]] + [ops[4]]
        else:
            values = [self.get(x, n, kind[0] == "s") for x, n in zip(ops[1:], sizes)]
        value = plain(self.w, name, mods[:-1], kind, values)
        bits = 32 if name in ("popc", "clz", "bfind") else BITS[kind] * (2 if wide else 1)
        self.put(ops[0], value, bits, kind[0] == "s")

    def _packed(self, kind: str, ops: list[str]) -> None:
        if "{" in ops[0]:
            parts, whole = _inside(ops[0]), self.get(ops[1], BITS[kind])
            each = BITS[kind] // len(parts)
            for k, part in enumerate(parts):
                self.put(
                    part,
                    self.w.sized(self.w.let(f"lshr i{BITS[kind]} {whole}, {k * each}"), BITS[kind], each),
                    each,
                )
            return
        parts, total = _inside(ops[1]), "0"
        each = BITS[kind] // len(parts)
        for k, part in enumerate(parts):
            wide = self.w.sized(self.get(part, each), each, BITS[kind])
            total = self.w.let(
                f"or i{BITS[kind]} {total}, {self.w.let(f'shl i{BITS[kind]} {wide}, {k * each}')}"
            )
        self.put(ops[0], total, BITS[kind])

    def _ld(self, mods: list[str], ops: list[str]) -> None:
        parts, bits = _inside(ops[0]), BITS[mods[-1]]
        at = self.address(ops[1], _space(mods), len(parts) * bits // 8)
        for k, part in enumerate(parts):
            place = self.w.let(f"getelementptr i8, ptr {at}, i64 {k * bits // 8}")
            self.put(part, self.w.let(f"load i{bits}, ptr {place}, align 1"), bits, mods[-1][0] == "s")

    _ldu = _ld

    def _st(self, mods: list[str], ops: list[str]) -> None:
        bits = BITS[mods[-1]]
        values = [self.get(part, bits) for part in _inside(ops[1])]
        at = self.address(ops[0], _space(mods), len(values) * bits // 8)
        for k, value in enumerate(values):
            place = self.w.let(f"getelementptr i8, ptr {at}, i64 {k * bits // 8}")
            self.w.say(f"store i{bits} {value}, ptr {place}, align 1")

    def _cvta(self, mods: list[str], ops: list[str]) -> None:
        value = self.get(ops[1], 64)
        if "shared" in mods:
            base = self.w.let(f"add i64 {self.w.let('ptrtoint ptr %shared to i64')}, {IN_SHARED}")
            value = self.w.let(f"{'sub' if mods[0] == 'to' else 'add'} i64 {value}, {base}")
        elif not {"global", "param"} & set(mods):
            raise Unknown("cvta." + ".".join(mods))
        self.put(ops[0], value, 64)

    def _setp(self, mods: list[str], ops: list[str]) -> None:
        kind = mods[-1]
        a, b = (self.get(x, BITS[kind], kind[0] == "s") for x in ops[1:3])
        truth = compared(self.w, mods, kind, a, b)
        if "|" in ops[0]:
            raise Unknown("setp of two")
        if len(ops) == 4:
            truth = self.w.let(f"{mods[1]} i1 {truth}, {self.get(ops[3], 1)}")
        self.put(ops[0], truth, 1)

    def _atom(self, mods: list[str], ops: list[str]) -> None:
        self._red(mods, ops[1:], ops[0])

    def _red(self, mods: list[str], ops: list[str], result: str = "_") -> None:
        kind = mods[-1]
        bits, at = BITS[kind], self.address(ops[0], _space(mods), BITS[kind] // 8)
        values = [self.get(x, bits) for x in ops[1:]]
        if "cas" in mods:
            old = self.w.let(f"load i{bits}, ptr {at}, align 1")
            met = self.w.let(f"icmp eq i{bits} {old}, {values[0]}")
            self.w.say(f"store i{bits} {self.w.choose(met, f'i{bits}', values[1], old)}, ptr {at}, align 1")
        else:
            word = next((_ATOMS[m] for m in mods if m in _ATOMS), None)
            if word is None or kind[0] == "f":
                raise Unknown("atom." + ".".join(mods))
            word = "u" + word if word in ("min", "max") and kind[0] != "s" else word
            old = self.w.let(f"atomicrmw {word} ptr {at}, i{bits} {values[0]} monotonic")
        self.put(result, old, bits)

    def _cp(self, mods: list[str], ops: list[str]) -> None:
        if mods[:2] == ["async", "mbarrier"]:
            self.w.say(f"call void @arrive(ptr {self.address(ops[0], 'shared')})")
            return
        if mods[0] != "async" or mods[1] not in ("ca", "cg"):
            raise Unknown("cp." + ".".join(mods))
        size = constant(ops[2])
        to, source = self.address(ops[0], "shared", size), self.address(ops[1], "global", size)
        if len(ops) > 3:
            self.w.say(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {size}, i1 false)")
            length = self.get(ops[3], 64)
        else:
            length = str(size)
        self.w.say(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {length}, i1 false)")

    def _mbarrier(self, mods: list[str], ops: list[str]) -> None:
        if mods[0] == "init":
            count = self.get(ops[1], 64)
            whole = self.w.let(f"or i64 {count}, {self.w.let(f'shl i64 {count}, 20')}")
            self.w.say(f"store i64 {whole}, ptr {self.address(ops[0], 'shared')}, align 8")
        elif mods[0] == "arrive" and "expect_tx" not in mods:
            self.w.say(f"call void @arrive(ptr {self.address(ops[1], 'shared')})")
        elif mods[0] in ("test_wait", "try_wait") and mods[1] == "parity":
            whole = self.w.let(f"load i64, ptr {self.address(ops[1], 'shared')}")
            phase = self.w.let(f"and i64 {self.w.let(f'lshr i64 {whole}, 60')}, 1")
            self.put(ops[0], self.w.let(f"icmp ne i64 {phase}, {self.get(ops[2], 64)}"), 1)
        elif mods[0] != "inval":
            raise Unknown("mbarrier." + ".".join(mods))

    def _bar(self, mods: list[str], ops: list[str]) -> None:
        if mods[0] == "warp":
            self.stop(State.MEET, {Word.MASK: self.get(ops[0], 64)})
            return
        if mods == ["red", "or", "pred"]:
            brought = self.w.sized(self.get(ops[-1], 1), 1, 64)
            values = {Word.A: self.get(ops[1], 64), Word.B: "0", Word.C: brought}
            self._meeting(State.BARRIER, values, "_", 1, truth=ops[0])
            return
        if mods[0] not in ("sync", "arrive"):
            raise Unknown("bar." + ".".join(mods))
        count = self.get(ops[1], 64) if len(ops) > 1 else "0"
        state = State.ARRIVES if mods[0] == "arrive" else State.BARRIER
        self.stop(state, {Word.A: self.get(ops[0], 64), Word.B: count})

    def _barrier(self, mods: list[str], ops: list[str]) -> None:
        if mods[0] != "cluster":
            self._bar([m for m in mods if m not in ("cta", "aligned")], ops)
        elif mods[1] == "arrive":
            self.note(Word.ARRIVALS, self.w.let(f"add i64 {self.word(Word.ARRIVALS)}, 1"))
        else:
            self.stop(State.AWAITS_CLUSTER, {})

    def _mapa(self, mods: list[str], ops: list[str]) -> None:
        if mods != ["shared::cluster", "u32"]:
            raise Unknown("mapa." + ".".join(mods))
        block = self.w.let(f"shl i32 {self.get(ops[2], 32)}, {_WINDOW}")
        self.put(ops[0], self.w.let(f"or i32 {block}, {self.get(ops[1], 32)}"), 32)

    def _meeting(
        self, state: State, values: dict[Word, str], result: str, bits: int, truth: str = "_"
    ) -> None:
        self.stop(state, values)
        self.put(result, self.w.sized(self.word(Word.RESULT), 64, bits), bits)
        self.put(truth, self.w.sized(self.word(Word.TRUTH), 64, 1), 1)

    def _shfl(self, mods: list[str], ops: list[str]) -> None:
        result, _, truth = ops[0].partition("|")
        values = {Word.A: self.get(ops[1], 32), Word.B: self.get(ops[2], 32), Word.C: self.get(ops[3], 32)}
        wide = {which: self.w.sized(value, 32, 64) for which, value in values.items()}
        state = State[f"SHUFFLE_{mods[1].upper()}"]
        self._meeting(state, {**wide, Word.MASK: self.get(ops[4], 64)}, result, 32, truth or "_")

    def _vote(self, mods: list[str], ops: list[str]) -> None:
        brought = {Word.A: self.w.sized(self.get(ops[1], 1), 1, 64), Word.MASK: self.get(ops[2], 64)}
        state = {"all": State.VOTE_ALL, "any": State.VOTE_ANY, "ballot": State.BALLOT}[mods[1]]
        self._meeting(state, brought, ops[0], 1 if state != State.BALLOT else 32)

    def _match(self, mods: list[str], ops: list[str]) -> None:
        if mods[0] != "any":
            raise Unknown("match.all")
        self._meeting(
            State.MATCH, {Word.A: self.get(ops[1], 64), Word.MASK: self.get(ops[2], 64)}, ops[0], 32
        )

    def _redux(self, mods: list[str], ops: list[str]) -> None:
        unsigned = "U" if mods[1] in ("min", "max") and mods[-1] == "u32" else ""
        brought = {Word.A: self.get(ops[1], 64), Word.MASK: self.get(ops[2], 64)}
        self._meeting(State[f"REDUCE_{unsigned}{mods[1].upper()}"], brought, ops[0], 32)

    def _brx(self, mods: list[str], ops: list[str]) -> None:
        index, over = self.get(ops[0], 32), self.w.label()
        ways = [f"i32 {k}, label %{self.jump(label)}" for k, label in enumerate(self.tables[ops[1]])]
        self.w.say(f"switch i32 {index}, label %{over} [{' '.join(ways)}]")
        self.begin(over)

    def _ret(self, mods: list[str], ops: list[str]) -> None:
        self.note(Word.STATE, str(int(State.ENDED)))
        self.w.say("ret void")
        self.begin(self.w.label())

    _exit = _ret

    def _nanosleep(self, mods: list[str], ops: list[str]) -> None:
        self.stop(State.RUNS, {})


def _inside(text: str) -> list[str]:
    return [x.strip() for x in text.strip("{}").split(",")]


_INTRINSICS = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@nowhere = internal global [256 x i8] zeroinitializer
"""


def _space(mods: list[str]) -> str:
    """The memory that an instruction names; none where its address tells."""
    return next((space for space in ("shared", "shared::cluster", "global") if space in mods), "")


def _global(name: str, told: str) -> str:
    align, kind, size, init = told.split(" ", 3)
    bits = BITS[kind]
    if size == "" and "{" not in init:
        value = constant(init) if init else 0
        return f'@"{name}" = internal global i{bits} {value}, align {align}'
    numbers = [constant(x.strip()) for x in init.strip("{} ").split(",")] if init else []
    numbers += [0] * ((int(size) if size else len(numbers)) - len(numbers))
    return f'@"{name}" = internal global [{len(numbers)} x i{bits}] [{", ".join(f"i{bits} {x}" for x in numbers)}], align {align}'


def written(text: str, entry: str) -> tuple[str, _Translation]:
    """LLVM's code of a kernel."""
    t = _Translation(text, entry)
    t.jumps_back()
    t.write_stores()
    lines = "\n".join(t.w.lines)
    named = set(re.findall(r'@"([\w$]+)"', lines))
    declared = sorted(set(re.findall(r"call (\S+) @(llvm\.[\w.]+)\(([^()]*)\)", lines)))
    intrinsics = {
        f"declare {ty} @{name}({', '.join(x.strip().split(' ')[0] for x in args.split(','))})"
        for ty, name, args in declared if "mem" not in name
    }  # fmt: skip
    ways = " ".join(f"i64 {k + 1}, label %{label}" for k, label in enumerate(t.resumes))
    return "\n".join([
        *[_global(name, told) for name, told in t.globals.items() if name in named], _INTRINSICS, *sorted(intrinsics), _BARRIER,
        *[table for name, table in TABLES.items() if name in named],
        "define internal void @thread(ptr noalias %c, ptr noalias %r, ptr %shared, ptr %param) {",
        "%place = load i64, ptr %c",
        f"switch i64 %place, label %start [{ways}]",
        "start:", lines, "}", _WARP.format(words=int(Word.END), registers=max(1, len(t.places))),
    ]), t  # fmt: skip


_WARP = """
define void @warp(ptr %words, ptr %registers, i32 %lanes, ptr %shared, ptr %param) {{
  br label %next
next:
  %lane = phi i64 [0, %0], [%after, %behind]
  %l = trunc i64 %lane to i32
  %bit = lshr i32 %lanes, %l
  %one = and i32 %bit, 1
  %on = icmp ne i32 %one, 0
  br i1 %on, label %inside, label %behind
inside:
  %w = mul i64 %lane, {words}
  %g = mul i64 %lane, {registers}
  %c = getelementptr i64, ptr %words, i64 %w
  %r = getelementptr i64, ptr %registers, i64 %g
  call void @thread(ptr %c, ptr %r, ptr %shared, ptr %param)
  br label %behind
behind:
  %after = add i64 %lane, 1
  %ended = icmp eq i64 %after, 32
  br i1 %ended, label %out, label %next
out:
  ret void
}}
"""


@cache
def _parameter(text: str, entry: str) -> int:
    found = re.search(rf"{entry}_param_0\[(\d+)\]", text)
    return int(found[1]) if found else 8


def translated(text: str, entry: str) -> Kernel:
    source, t = written(text, entry)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # A kernel runs once or a few times, so optimising it takes longer than it saves: .66 of the processor time without.
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=0, jit=True
    )
    module = llvm.parse_assembly(source)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = ctypes.c_void_p
    run = ctypes.CFUNCTYPE(None, address, address, ctypes.c_uint32, address, address)
    return Kernel(
        run(engine.get_function_address("warp")),
        t.shared_end,
        max(1, len(t.places)),
        t.cluster,
        _parameter(text, entry),
        engine,
    )
