"""Items of several arrays at once, by address, converted on the way; and functions compiled for kernels alone.

A sequence of c components is a tuple of c addresses. `Items` makes the functions that read and write one item of all
components: they convert between the stored dtype and the computed one, and take any alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.core import cgutils, imputils
from numba.core.typing import templates
from numba.extending import intrinsic, register_model

from upsweep.arithmetic import fma, horner
from upsweep.cpu.address import I8, I64, fetch, pointer
from upsweep.cpu.lowering import Ours, Users
from upsweep.cpu.narrow import decoded, encoded, to_odd
from upsweep.cpu.words import LINE
from upsweep.dtypes import narrow, raw
from upsweep.keys import rebuilt
from upsweep.scalars.compiled import Compiler as Scalars


def inner(fn: Any, pipeline: Any = Ours, **options: Any) -> Any:
    """Compile a function that only kernels call: without wrappers for Python, and without machine code of its own."""
    return njit(
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=pipeline,
        **options,
    )(fn)


def of_words(fn: Any) -> Any:
    """Like `inner`, for a function of int64 alone. It is compiled once, when the first kernel that calls it is compiled. With
    `inner`, numba would compile it again for each constant that it is called with.
    """
    code = inner(fn)
    resolved = code.get_call_template

    def resolve(args, kws):
        if not code.overloads:
            code.compile((types.int64,) * len(args))
            code.disable_compile()
        return resolved(args, kws)

    # numba asks for this when it meets a call.
    code.get_call_template = resolve
    return code


def once(fn: Any) -> Any:
    """Like `inner`, for a function that is large or called from several places. It is compiled once for arguments of the same
    types. With `inner`, numba would compile it again for each constant that it is called with.
    """
    code = inner(fn)
    resolved = code.get_call_template
    # numba asks for this when it meets a call.
    code.get_call_template = lambda args, kws: resolved(tuple(map(types.unliteral, args)), kws)
    return code


def adopted(fn: Any) -> Any:
    """A user's function of numbers or tuples of them, compiled as the kernel's own: it computes as NumPy's scalars do."""
    made = _of_scalars(fn)

    @inner
    def call(*operands):
        return made(*_strong(operands))

    return call


def _of_scalars(fn: Any) -> Any:
    """A function that takes Scalars, and so the functions that it calls."""
    if fn in _OURS:
        return _OURS[fn]
    # Cached code asks for the module that a function came from.
    return inner(NUMBA.made_over(fn, __name__), Users)


NUMBA = Scalars(_of_scalars, intrinsic, templates, imputils, register_model)
_strong = NUMBA.strong()


@intrinsic
def _horner(typing, terms, x):
    """One straight line of code: LLVM leaves a long loop as it is, and makes no vector code of the code around it."""

    def code(context, builder, signature, arguments):
        total, *rest = cgutils.unpack_tuple(builder, arguments[0])
        for term in rest:
            total = builder.fma(total, arguments[1], term)
        return total

    return x(terms, x), code


@intrinsic
def _fma(typing, a, b, c):
    """The processor's own fused multiply-add."""

    def code(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return c(a, b, c), code


def typed(fn: Any) -> Any:
    """A function of ours as the kernel's own, with the functions that it uses. Such a function names the precision of every
    number. Any other value is itself.
    """
    known = _fma if fn is fma else _horner if fn is horner else fn
    return inner(rebuilt(fn, typed, __name__)) if isinstance(known, FunctionType) else known


_OURS = {fma: NUMBA.multiply_add(), horner: _horner}


class Items:
    """Typed access to sequences stored as `stored` and computed with as `computed`, one dtype a component.

    A sequence of one component reads and writes bare scalars, a sequence of several reads and writes tuples (`bare` decides).
    Only the components `pick` of a written value are stored.
    """

    def __init__(
        self,
        stored: Sequence[np.dtype],
        computed: Sequence[np.dtype],
        bare: bool,
        pick: Sequence[int] | None = None,
    ):
        narrowed = [narrow(d) for d in stored]
        stored_types = [from_dtype(raw(d)) for d in stored]
        computed_types = [from_dtype(d) for d in computed]
        sizes = [d.itemsize for d in stored]
        value_type = computed_types[0] if bare else types.Tuple(computed_types)

        @intrinsic
        def read(typing, addresses, index):
            """Item `index` of adjacent items."""

            def code(context, builder, signature, arguments):
                offsets = [builder.mul(arguments[1], I64(size)) for size in sizes]
                return load(context, builder, arguments[0], offsets)

            return value_type(addresses, types.int64), code

        @intrinsic
        def read_strided(typing, addresses, strides, index):
            """Item `index` of items that lie `strides` bytes apart."""

            def code(context, builder, signature, arguments):
                steps = cgutils.unpack_tuple(builder, arguments[1])
                return load(
                    context, builder, arguments[0], [builder.mul(arguments[2], step) for step in steps]
                )

            return value_type(addresses, strides, types.int64), code

        @intrinsic
        def write(typing, addresses, index, value):
            """Store `value` as item `index` of adjacent items."""

            def code(context, builder, signature, arguments):
                offsets = [builder.mul(arguments[1], I64(size)) for size in sizes]
                store(context, builder, arguments[0], offsets, signature.args[2], arguments[2])
                return context.get_dummy_value()

            return types.void(addresses, types.int64, value), code

        @intrinsic
        def write_strided(typing, addresses, strides, index, value):
            """Store `value` as item `index` of items that lie `strides` bytes apart."""

            def code(context, builder, signature, arguments):
                steps = cgutils.unpack_tuple(builder, arguments[1])
                offsets = [builder.mul(arguments[2], step) for step in steps]
                store(context, builder, arguments[0], offsets, signature.args[3], arguments[3])
                return context.get_dummy_value()

            return types.void(addresses, strides, types.int64, value), code

        @intrinsic
        def at(typing, addresses, index):
            """The addresses `index` items further on."""

            def code(context, builder, signature, arguments):
                starts = cgutils.unpack_tuple(builder, arguments[0])
                moved = [builder.add(a, builder.mul(arguments[1], I64(s))) for a, s in zip(starts, sizes)]
                return context.make_tuple(builder, signature.return_type, moved)

            return addresses(addresses, types.int64), code

        @intrinsic
        def fetch_at(typing, addresses, index):
            """Have the nearest cache fetch the line of an item that will be read and written. It need not be there."""

            def code(context, builder, signature, arguments):
                for start, item in zip(cgutils.unpack_tuple(builder, arguments[0]), sizes):
                    place = builder.add(start, builder.mul(arguments[1], I64(item)))
                    fetch(builder, pointer(builder, place, I8), written=True, near=True)
                return context.get_dummy_value()

            return types.void(addresses, types.int64), code

        def load(context, builder, addresses, offsets):
            parts = []
            for address, offset, bits, ty, computed_ty in zip(
                cgutils.unpack_tuple(builder, addresses), offsets, narrowed, stored_types, computed_types
            ):
                model = context.data_model_manager[ty]
                pointer = _item(builder, address, offset, model.get_data_type())
                value = model.from_data(builder, builder.load(pointer, align=1))
                if bits:
                    value, ty = decoded(builder, value, bits), types.float32
                parts.append(context.cast(builder, value, ty, computed_ty))
            return parts[0] if bare else context.make_tuple(builder, value_type, parts)

        def store(context, builder, addresses, offsets, value_ty, value):
            values = [value] if bare else cgutils.unpack_tuple(builder, value)
            value_types = [value_ty] if bare else list(value_ty)
            if pick is not None:
                values, value_types = [values[i] for i in pick], [value_types[i] for i in pick]
            for address, offset, bits, ty, computed_ty, part_ty, part in zip(
                cgutils.unpack_tuple(builder, addresses),
                offsets,
                narrowed,
                stored_types,
                computed_types,
                value_types,
                values,
            ):
                model = context.data_model_manager[ty]
                part = context.cast(builder, part, part_ty, computed_ty)
                if bits and computed_ty == types.float64:
                    part = encoded(builder, to_odd(builder, part), bits)
                elif bits:
                    part = encoded(builder, context.cast(builder, part, computed_ty, types.float32), bits)
                else:
                    part = context.cast(builder, part, computed_ty, ty)
                pointer = _item(builder, address, offset, model.get_data_type())
                builder.store(model.as_data(builder, part), pointer, align=1)

        self.read, self.read_strided, self.write, self.write_strided = (
            read,
            read_strided,
            write,
            write_strided,
        )
        self.fetch = fetch_at
        self.at, self.cast, self.bare, self.sizes = at, NUMBA.returned(computed, bare), bare, sizes


def _item(builder: Any, address: Any, offset: Any, ty: Any) -> Any:
    """An address, a number or a pointer, and an offset, in the form that LLVM's loop analysis wants: one invariant pointer and
    an index.
    """
    start = builder.gep(pointer(builder, address, I8) if address.type == I64 else address, [offset])
    return builder.bitcast(start, ty.as_pointer())


def placed(offsets: Sequence[int]) -> Any:
    """A function from an address to the addresses that lie `offsets` bytes behind it."""

    @intrinsic
    def place(typing, address):
        def code(context, builder, signature, arguments):
            moved = [builder.add(arguments[0], I64(offset)) for offset in offsets]
            return context.make_tuple(builder, signature.return_type, moved)

        return types.UniTuple(types.int64, len(offsets))(types.int64), code

    return place


@intrinsic
def same(typing, value, *others):
    """The first argument. A function of Python that does as little takes numba a hundredth of a second for each type."""
    ty = types.unliteral(value)

    def code(context, builder, signature, arguments):
        return context.cast(builder, arguments[0], signature.args[0], ty)

    return ty(value, types.StarArgTuple(others)), code


@intrinsic
def advance(typing, addresses, strides, index):
    """The addresses `index` strides further on."""

    def code(context, builder, signature, arguments):
        starts, steps = (cgutils.unpack_tuple(builder, tup) for tup in arguments[:2])
        moved = [builder.add(start, builder.mul(step, arguments[2])) for start, step in zip(starts, steps)]
        return context.make_tuple(builder, signature.return_type, moved)

    return addresses(addresses, strides, types.int64), code


def room(size: int) -> Any:
    """A function that gives the address of so many bytes, which are the caller's as long as it runs."""

    @intrinsic
    def own(typing):
        def code(context, builder, signature, arguments):
            memory = cgutils.alloca_once(builder, ir.ArrayType(I8, size))
            memory.align = LINE
            return builder.ptrtoint(memory, I64)

        return types.int64(), code

    return own


def gathered(count: int) -> Any:
    """A function that takes `count` words, `step` apart, from word `first` behind an address on."""

    @intrinsic
    def gather(typing, address, first, step):
        def code(context, builder, signature, arguments):
            start = pointer(builder, arguments[0])
            indices = [builder.add(arguments[1], builder.mul(arguments[2], I64(i))) for i in range(count)]
            values = [builder.load(builder.gep(start, [i])) for i in indices]
            return context.make_tuple(builder, signature.return_type, values)

        return types.UniTuple(types.int64, count)(types.int64, types.int64, types.int64), code

    return gather
