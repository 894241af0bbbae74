"""Values that are a Scalar on one path of a function and a number of Python's on another, as `0 if a > 4 else a` is.

Such a value holds one of each, of which the other is 0, and a bit that says which of them it is. An operation is computed with
both, and the bit chooses the result. So the number of Python's takes the dtype of the other operand, and no other dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types

from upsweep.scalars.operations import Operation, own
from upsweep.scalars.rules import weak
from upsweep.scalars.types import Either, Scalar, kind_of, plain


def on_each_path(fn: Any, operation: Operation) -> Operation:
    """The operation, which is that of `fn`, on such values too."""

    def made_of(context: Any, args: Sequence[Any]) -> Any:
        made = operation.typed(context, args)
        if made is None and all(map(_is_own, args)):
            signature = context.resolve_function_type(fn, tuple(map(plain, args)), {})
            made = signature and signature.return_type
        return made

    def typed(context: Any, args: Sequence[Any]) -> Any:
        if not any(isinstance(ty, Either) for ty in args):
            return operation.typed(context, args)
        made = [made_of(context, chosen) for chosen in product(*map(_types, args))]
        return None if None in made else context.unify_types(*made)

    def code(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        if not any(isinstance(ty, Either) for ty in signature.args):
            return operation.code(context, builder, signature, values)
        result = None
        for holds, args, parts in _choices(builder, signature.args, values):
            ty = made_of(context.typing_context, args)
            if operation.typed(context.typing_context, args) is None:
                made = own(fn, context, builder, parts, list(map(plain, args)), ty)
            else:
                made = operation.code(context, builder, ty(*args), parts)
            made = context.cast(builder, made, ty, signature.return_type)
            result = made if result is None else builder.select(holds, made, result)
        return result

    return Operation(typed, code)


def _is_pythons(ty: Any) -> bool:
    kind = kind_of(ty)
    return kind is not None and weak(kind)


def _is_own(ty: Any) -> bool:
    """Whether it is a number of the compiler's, as Python's bool is too."""
    return kind_of(ty) is not None and not isinstance(types.unliteral(ty), Scalar)


def _types(ty: Any) -> tuple[Any, ...]:
    return (ty.scalar, ty.number) if isinstance(ty, Either) else (ty,)


def _choices(
    builder: Any, args: Sequence[Any], values: Sequence[Any]
) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Which operands are numbers of Python's: whether they are, the types and the values."""
    for choice in product(*(range(len(_types(ty))) for ty in args)):
        holds, parts = ir.Constant(ir.IntType(1), 1), []
        for ty, value, number in zip(args, values, choice):
            if isinstance(ty, Either):
                bit = builder.extract_value(value, 0)
                holds = builder.and_(holds, bit if number else builder.not_(bit))
                value = builder.extract_value(value, 1 + number)
            parts.append(value)
        yield holds, [_types(ty)[number] for ty, number in zip(args, choice)], parts


def cast(context: Any, builder: Any, have: Any, want: Any, value: Any) -> Any:
    """A value of one type as one of another, one of which is of this kind."""
    if not isinstance(have, Either):
        number = int(_is_pythons(have))
        made = ir.Constant(context.get_value_type(want), None)
        made = builder.insert_value(made, ir.IntType(1)(number), 0)
        part = context.cast(builder, value, plain(have), plain(_types(want)[number]))
        return builder.insert_value(made, part, 1 + number)
    bit, *parts = (builder.extract_value(value, k) for k in range(3))
    if not isinstance(want, Either):
        one, other = (
            context.cast(builder, part, plain(ty), plain(want)) for part, ty in zip(parts, _types(have))
        )
        return builder.select(bit, other, one)
    made = builder.insert_value(ir.Constant(context.get_value_type(want), None), bit, 0)
    for k, (part, ty, to) in enumerate(zip(parts, _types(have), _types(want)), 1):
        made = builder.insert_value(made, context.cast(builder, part, plain(ty), plain(to)), k)
    return made
