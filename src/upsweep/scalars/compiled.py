"""Scalars in one compiler: what numba, or numba-cuda, is told of them, and a Python function made over for it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.typing.templates import signature
from numba.core.typing.typeof import Purpose, typeof

from upsweep.keys import freeze, is_function, is_numpys, rebuilt
from upsweep.scalars import either
from upsweep.scalars.either import on_each_path
from upsweep.scalars.functions import ITEM, LENGTH, METHODS, PARTS, PYTHONS, operation_of
from upsweep.scalars.operations import IN_PLACE, OPERATORS, Operation
from upsweep.scalars.rules import Refused
from upsweep.scalars.types import Either, Library, Ruled, Scalar, Table, parts_of, plain, scalar_of, settled


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


class Given:
    """Stands in a function's scope for a value whose type the compiler asks for."""

    __module__: Any

    def __init__(self, ty: Any, value: Any) -> None:
        self._numba_type_, self.value = ty, value
        # The compiler asks by these whether `view` is called on a scalar.
        self.__name__, self.__module__ = getattr(value, "__name__", ""), getattr(value, "__module__", None)


class Compiler:
    """numba or numba-cuda, once it knows of Scalars. Each has its own registries under the same names."""

    def __init__(
        self,
        compiled: Callable[[Any], Any],
        intrinsic: Any,
        templates: Any,
        imputils: Any,
        register_model: Any,
    ) -> None:
        self.compiled, self.intrinsic, self.lower = compiled, intrinsic, imputils.lower_builtin
        self.known: dict[Any, Given] = {}
        self.members: dict[Any, Any] = {}
        _models(register_model)
        _operators(templates, imputils.lower_builtin)
        _casts(imputils)
        _constants(imputils)
        _attributes(templates, imputils, self)
        _tables(templates, imputils.lower_builtin)

    def made_over(self, fn: Any, module: str) -> FunctionType:
        """A function that takes Scalars, as one of `module`; `compiled` takes the functions that it calls."""
        try:
            return rebuilt(fn, self.taken, module, PYTHONS)
        except RecursionError as error:
            raise Refused("a function that calls itself") from error

    def taken(self, value: Any) -> Any:
        """The value that stands for one that a function uses."""
        called = getattr(value, "py_func", value)
        if isinstance(called, FunctionType) and not is_numpys(called):
            return self.compiled(called)
        if isinstance(value, ModuleType):
            return Given(Library(value), value)
        if isinstance(value, (np.generic, np.ndarray)):
            return Given(scalar_of(typeof(value, Purpose.constant)), value)
        if isinstance(value, (tuple, list)):
            return tuple(map(self.taken, value))
        return self.called(value) if callable(value) else value

    def member(self, value: Any) -> Any:
        """The value that stands for an attribute of a module. The compiler asks for it twice, and holds no function itself."""
        if not is_function(value):
            return self.taken(value)
        return self.members.setdefault(freeze(value), self.taken(value))

    def called(self, fn: Any) -> Given:
        """The function that stands for one of Python's, math's or NumPy's."""
        if fn not in self.known:
            ty = Called(fn)
            self.lower(ty, types.VarArg(types.Any))(ty.operation.code)
            self.known[fn] = Given(ty, fn)
        return self.known[fn]

    def strong(self) -> Any:
        """A compiled function from values of the compiler's own types to Scalars."""

        @self.intrinsic
        def strong(typing, value):
            return scalar_of(value)(value), lambda context, builder, signature, values: values[0]

        return strong

    def multiply_add(self) -> Any:
        """A compiled function: the processor's own a * b + c, rounded once."""

        @self.intrinsic
        def multiply_add(typing, a, b, c):
            return c(a, b, c), lambda context, builder, signature, values: builder.fma(*values)

        return multiply_add

    def returned(self, dtypes: Sequence[np.dtype], bare: bool) -> Any:
        """A compiled function from the values that an operator returns to values of these dtypes, of the compiler's own types."""
        want = [from_dtype(d) for d in dtypes]
        made = want[0] if bare else types.Tuple(want)

        @self.intrinsic
        def returned(typing, value):
            _check(value, want, bare)

            def code(context, builder, signature, values):
                (have,), (value,) = signature.args, values
                if bare:
                    return context.cast(builder, value, have, made)
                parts = zip(cgutils.unpack_tuple(builder, value), have, want)
                return context.make_tuple(
                    builder, made, [context.cast(builder, part, ty, to) for part, ty, to in parts]
                )

            return made(value), code

        return returned


def _check(value: Any, want: Sequence[Any], bare: bool) -> None:
    """A TypingError where an operator returns something else than items of these types."""
    got = [value] if bare else parts_of(value) or []
    if len(got) != len(want) or any(parts_of(part) is not None for part in got):
        wanted = want[0] if bare else types.Tuple(want)
        raise TypingError(f"the operator returns {_said(value)} where {_said(wanted)} is wanted")
    for part, ty in zip(got, want):
        if _rank(part) > _rank(ty):
            raise TypingError(
                f"the operator returns {_said(part)} for items of {ty}; pass dtype={_said(part)}"
            )


def _said(ty: Any) -> str:
    """A type by the names of its dtypes."""
    parts = parts_of(ty)
    return str(plain(ty)) if parts is None else f"({', '.join(map(_said, parts))})"


def _rank(ty: Any) -> int:
    ty = settled(ty)
    for rank, kind in enumerate((types.Boolean, types.Integer, types.Float, types.Complex)):
        if isinstance(plain(ty), kind):
            # Comparisons give booleans: these and integers may stand for each other, as NumPy's "same kind" allows.
            return max(rank, 1)
    raise TypingError(f"the operator returns {_said(ty)}, which is not a number")


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


def _attributes(templates: Any, imputils: Any, compiler: Compiler) -> None:
    @templates.infer_getattr
    class OfLibrary(templates.AttributeTemplate):
        key = Library

        def generic_resolve(self, ty: Any, name: str) -> Any:
            return (
                self.context.resolve_value_type(_member(compiler, ty, name))
                if hasattr(ty.module, name)
                else None
            )

    @imputils.lower_getattr_generic(Library)
    def of_library(context, builder, ty, value, name):
        member = _member(compiler, ty, name)
        return context.get_constant_generic(
            builder, context.typing_context.resolve_value_type(member), member
        )

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


def _member(compiler: Compiler, ty: Library, name: str) -> Any:
    return compiler.member(getattr(ty.module, name))


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
