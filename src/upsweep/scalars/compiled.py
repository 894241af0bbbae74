"""Scalars in one compiler: a Python function made over for numba, or for numba-cuda."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.typeof import Purpose, typeof

from upsweep.keys import freeze, is_function, is_numpys, rebuilt
from upsweep.scalars.functions import PYTHONS
from upsweep.scalars.registries import Called, tell
from upsweep.scalars.rules import Refused
from upsweep.scalars.types import Library, parts_of, plain, scalar_of, settled


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
        tell(self.member, templates, imputils, register_model)

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
