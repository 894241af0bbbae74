"""What numba, or numba-cuda, is told of Scalars: how they lie in registers, and what is computed with them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.datamodel import models
from numba.core.typing.templates import signature

from upsweep.scalars import either
from upsweep.scalars.either import on_each_path
from upsweep.scalars.functions import ITEM, LENGTH, METHODS, PARTS, operation_of
from upsweep.scalars.operations import IN_PLACE, OPERATORS, Operation
from upsweep.scalars.rules import Refused
from upsweep.scalars.types import Either, Library, Ruled, Scalar, Table, plain, settled


class Called(types.Callable, types.Opaque):
    """A function that takes Scalars, as the compiler's type of it."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.operation = fn, on_each_path(fn, operation_of(fn))
        super().__init__(name=f"scalars.{getattr(fn, '__module__', '')}.{fn.__name__}")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        made = None if kws else self.operation.typed(context, args)
        return None if made is None else made(*args)

    def get_call_signatures(self) -> tuple[tuple[()], bool]:
        return (), False

    def get_impl_key(self, signature: Any) -> Any:
        return self


def tell(member: Callable[[Any], Any], templates: Any, imputils: Any, register_model: Any) -> None:
    """Tell a compiler, by its registries. `member` gives the value that stands for an attribute of a module."""
    _models(register_model)
    _operators(templates, imputils.lower_builtin)
    _casts(imputils)
    _constants(imputils)
    _attributes(templates, imputils, member)
    _tables(templates, imputils.lower_builtin)


def _models(register_model: Any) -> None:
    """A value lies in memory and in registers as the compiler's own does."""

    @register_model(Scalar)
    @register_model(Table)
    class Model(models.ProxyModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type)
            self._proxied_model = dmm.lookup(plain(fe_type))

    @register_model(Either)
    class OfEither(models.StructModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            parts = (
                ("pythons", types.boolean),
                ("scalar", fe_type.scalar),
                ("number", plain(fe_type.number)),
            )
            super().__init__(dmm, fe_type, parts)

    register_model(Library)(models.OpaqueModel)
    register_model(Called)(models.OpaqueModel)


def _operators(templates: Any, lower: Any) -> None:
    for op, operation in OPERATORS.items():
        operation = on_each_path(op, operation)
        _typed(templates, op, operation)
        for operands in ((Ruled,), (Ruled, Ruled), (Ruled, types.Any), (types.Any, Ruled)):
            lower(op, *operands)(operation.code)
    for place, op in IN_PLACE.items():
        _typed(templates, place, on_each_path(op, OPERATORS[op]))


def _typed(templates: Any, name: Any, operation: Operation) -> None:
    class Template(templates.AbstractTemplate):
        key = name
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            made = None if kws else operation.typed(self.context, args)
            return None if made is None else made(*args)

    templates.infer_global(name)(Template)


def _casts(imputils: Any) -> None:
    def code(context, builder, have, want, value):
        if isinstance(have, Either) or isinstance(want, Either):
            return either.cast(context, builder, have, want, value)
        return context.cast(builder, value, plain(have), plain(want))

    for have, want in (
        (Ruled, Ruled),
        *((ty, Ruled) for ty in _NUMBERS),
        *((Ruled, ty) for ty in _NUMBERS),
    ):
        imputils.lower_cast(have, want)(code)


_NUMBERS = (types.Number, types.Boolean)


def _constants(imputils: Any) -> None:
    def number(context, builder, ty, given):
        return context.get_constant_generic(builder, plain(ty), given.value)

    def nothing(context, builder, ty, given):
        return context.get_dummy_value()

    for ty, code in ((Scalar, number), (Table, number), (Library, nothing), (Called, nothing)):
        imputils.lower_constant(ty)(code)


def _attributes(templates: Any, imputils: Any, member: Callable[[Any], Any]) -> None:
    @templates.infer_getattr
    class OfLibrary(templates.AttributeTemplate):
        key = Library

        def generic_resolve(self, ty: Any, name: str) -> Any:
            return (
                self.context.resolve_value_type(member(getattr(ty.module, name)))
                if hasattr(ty.module, name)
                else None
            )

    @imputils.lower_getattr_generic(Library)
    def of_library(context, builder, ty, value, name):
        found = member(getattr(ty.module, name))
        return context.get_constant_generic(builder, context.typing_context.resolve_value_type(found), found)

    methods = {
        name: _method(templates, imputils.lower_builtin, name, operation)
        for name, operation in METHODS.items()
    }

    @templates.infer_getattr
    class OfScalar(templates.AttributeTemplate):
        key = Ruled

        def generic_resolve(self, ty: Any, name: str) -> Any:
            if name in _TEXTS:
                # numba would write down the type in place of the number.
                raise Refused("a compiled function makes no text of numbers")
            if name in PARTS:
                return PARTS[name].typed(self.context, (settled(ty),))
            return types.BoundFunction(methods[name], ty) if name in methods and ty is settled(ty) else None

    @imputils.lower_getattr_generic(Ruled)
    def of_scalar(context, builder, ty, value, name):
        one = settled(ty)
        made = PARTS[name].typed(context.typing_context, (one,))
        return PARTS[name].code(context, builder, made(one), [context.cast(builder, value, ty, one)])


_TEXTS = {"__str__", "__repr__", "__format__"}


def _method(templates: Any, lower: Any, name: str, operation: Operation) -> Any:
    class Template(templates.AbstractTemplate):
        key = f"Scalar.{name}"

        def generic(self, args: Any, kws: Any) -> Any:
            made = operation.typed(self.context, (self.this, *args))
            return None if made is None else signature(made, *args, recvr=self.this)

    lower(f"Scalar.{name}", types.VarArg(types.Any))(operation.code)
    return Template


def _tables(templates: Any, lower: Any) -> None:
    item = on_each_path(operator.getitem, ITEM)
    _typed(templates, operator.getitem, item)
    for operands in ((Table, types.Any), (types.Any, Ruled), (Table, Ruled)):
        lower(operator.getitem, *operands)(item.code)
    _typed(templates, len, LENGTH)
    lower(len, Table)(LENGTH.code)
