"""The parameters of a launch: one list of fields, from which the kernels' struct is written and the host packs its bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from upsweep.plan import Plan

LEVELS = 11
"""The levels of nodes: by radix 8, the radix of columns, they are enough for more tiles than tickets count."""


class Field(NamedTuple):
    """A field of the kernels' struct Params; everything in it is made of words of eight bytes."""

    type: str
    name: str
    count: str = ""
    """The constant of the kernel's text with the number of words; one word where this is empty."""
    says: str = ""


POINTERS = (
    Field(
        "u32*",
        "control",
        says="ticket, blocks done, epoch, ticket beside it: zero between launches, but the epoch is not",
    ),
    Field("u32*", "arrivals", says="of each group of nodes: zero between launches"),
    Field("u64*", "nodes", says="words of {payload, epoch}"),
    Field("u64", "node_words", says="how many there are, to clear when the epoch wraps"),
    Field("char*", "in", "INPUTS"),
    Field("char*", "out", "OUTPUTS"),
    Field("char*", "heads"),
    Field("char*", "start", "COMPONENTS", "null: the value below"),
)
"""Only these fields change from call to call."""
VALUES = (
    Field(
        "Start", "start_value", "COMPONENTS", "initial values or the identity, as bytes of the accumulator"
    ),
    Field("Start", "in_value", "TOLD", "inputs that are numbers, as bytes of their dtype"),
)
FROZEN = (
    Field("i64", "n", says="items of a row"),
    Field("i64", "rows"),
    Field("i64", "tiles", says="of a row"),
    Field("i64", "tickets", says="tiles of all rows"),
    Field("i64", "ahead", says="tickets between a block's own and the one whose tile it asks the cache for"),
    Field("i64", "levels", says="of nodes"),
    Field("i64", "level_first", "LEVELS", "where the nodes of a level begin"),
    Field("i64", "level_size", "LEVELS", "how many there are for each row"),
    Field("i64", "dim", "RANK", "the shape of the rows, slowest first"),
    Field("Strides", "in_strides", "INPUTS"),
    Field("Strides", "out_strides", "OUTPUTS"),
    Field("Strides", "heads_strides"),
    Field("Strides", "start_strides", "COMPONENTS"),
    Field("i64", "heads_first", says="1: the head of item 0 lies outside (a reverse scan)"),
    Field("i64", "columns", says="column scans: neighbours in memory"),
    Field("i64", "column_groups", says="groups of them, one a tile"),
    Field("i64", "in_column", "INPUTS", "strides from column to column"),
    Field("i64", "out_column", "OUTPUTS"),
    Field("i64", "heads_column"),
    Field("i64", "start_column", "COMPONENTS"),
    Field(
        "i64",
        "crosswise",
        says="of columns, CROSS of them a tile, where the columns of a tile are a rectangle",
    ),
)
"""These fields are the same for every call of a launch."""


class Arity(NamedTuple):
    """The numbers of arrays that a scan reads, of components of its items, of arrays it writes, and of inputs that are
    numbers.
    """

    inputs: int
    components: int
    outputs: int
    told: int = 0


def stored(plan: Plan) -> list[np.dtype]:
    """The dtypes of the arrays that are written."""
    return [d for d in plan.stores if d is not None]


def text(of: Arity, dims: int) -> str:
    """The struct as the kernels see it. Its size must be the size that the host packs."""
    counts = _counts(of, dims)
    fields = "\n".join(
        f"  {f.type} {f.name}{f'[{f.count}]' if f.count else ''};{f'  // {f.says}' if f.says else ''}"
        for f in (*POINTERS, *VALUES, *FROZEN)
        if counts[f.count]
    )
    size = 8 * (_padded(POINTERS, counts) + _padded((*VALUES, *FROZEN), counts))
    return (
        f"constexpr int INPUTS = {of.inputs}, COMPONENTS = {of.components}, OUTPUTS = {of.outputs}, TOLD = {of.told};\n"
        f"constexpr int LEVELS = {LEVELS}, RANK = {counts['RANK']};\n"
        "struct alignas(16) Start { u64 value[2]; };\n"
        "struct Strides { i64 along, row[RANK]; };\n"
        f"struct Params {{\n{fields}\n}};\n"
        f'static_assert(sizeof(Params) == {size}, "the host packs other parameters");\n'
    )


def packer(of: Arity) -> struct.Struct:
    """Packs the words of POINTERS."""
    counts = _counts(of, 0)
    words = sum(_words(f, counts) for f in POINTERS)
    return struct.Struct(f"<{words}Q{8 * (_padded(POINTERS, counts) - words)}x")


def frozen(of: Arity, dims: int, **values: int | Sequence[Any]) -> bytes:
    """The bytes of FROZEN. A field of several words takes a list, filled up with zeros. Strides are such lists themselves."""
    counts = _counts(of, dims)
    words: list[int] = []
    for field in FROZEN:
        value = values.pop(field.name)
        parts = list(value) if isinstance(value, Sequence) else [value]
        wanted = _words(field, counts)
        if len(parts) > wanted:
            raise ValueError(f"{field.name} has room for {wanted} words, got {len(parts)}")
        words += parts + [0] * (wanted - len(parts))
    if values:
        raise ValueError(f"there are no fields {', '.join(values)}")
    return struct.pack(f"<{len(words)}q{8 * (len(words) % 2)}x", *words)


def _counts(of: Arity, dims: int) -> dict[str, int]:
    numbers = {"INPUTS": of.inputs, "COMPONENTS": of.components, "OUTPUTS": of.outputs, "TOLD": of.told}
    return {"": 1, **numbers, "LEVELS": LEVELS, "RANK": max(1, dims)}


def _words(field: Field, counts: dict[str, int]) -> int:
    size = {"Strides": 1 + counts["RANK"], "Start": 2}.get(field.type, 1)
    return size * counts[field.count]


def _padded(fields: Sequence[Field], counts: dict[str, int]) -> int:
    """Words of these fields, an even number: the field that follows is aligned to 16 bytes."""
    words = sum(_words(f, counts) for f in fields)
    return words + words % 2
