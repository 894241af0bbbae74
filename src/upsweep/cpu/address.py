"""Memory by address, as the kernels see it: words, atomics, copies, calls of compiled code."""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I8, I32, I64 = (ir.IntType(n) for n in (8, 32, 64))


def pointer(builder: Any, address: Any, ty: Any = I64) -> Any:
    return builder.inttoptr(address, ty.as_pointer())


def fetch(builder: Any, place: Any, written: bool = False, near: bool = False) -> None:
    """Have the second nearest cache, or the nearest, fetch a line that will be read or written. The place need not be memory."""
    words = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    ask = cgutils.get_or_insert_function(builder.module, words, "llvm.prefetch.p0")
    builder.call(ask, [place, I32(int(written)), I32(3 if near else 2), I32(1)])


@intrinsic
def peek(typing, address, index):
    """Word `index` behind an address."""

    def code(context, builder, signature, arguments):
        return builder.load(builder.gep(pointer(builder, arguments[0]), [arguments[1]]))

    return types.int64(types.int64, types.int64), code


@intrinsic
def poke(typing, address, index, value):
    """Set word `index` behind an address."""

    def code(context, builder, signature, arguments):
        builder.store(arguments[2], builder.gep(pointer(builder, arguments[0]), [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


@intrinsic
def byte_at(typing, address, index):
    """The byte `index` behind an address."""

    def code(context, builder, signature, arguments):
        byte = builder.load(builder.gep(pointer(builder, arguments[0], I8), [arguments[1]]))
        return builder.zext(byte, I64)

    return types.int64(types.int64, types.int64), code


@intrinsic
def bytes_at(typing, address):
    """Eight bytes as a word, at an address that need not be a multiple of eight."""

    def code(context, builder, signature, arguments):
        return builder.load(pointer(builder, arguments[0]), align=1)

    return types.int64(types.int64), code


@intrinsic
def put_bytes(typing, address, value):
    """Set eight bytes to a word, at an address that need not be a multiple of eight."""

    def code(context, builder, signature, arguments):
        builder.store(arguments[1], pointer(builder, arguments[0]), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def fetched(typing, address):
    """Have the nearest cache fetch a line that will be read and written. The address need not be memory's."""

    def code(context, builder, signature, arguments):
        fetch(builder, pointer(builder, arguments[0], I8), written=True, near=True)
        return context.get_dummy_value()

    return types.void(types.int64), code


@intrinsic
def copy_bytes(typing, target, source, size):
    """memcpy."""

    def code(context, builder, signature, arguments):
        target, source = (pointer(builder, a, I8) for a in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


def _mover(size: int) -> Any:
    """A function that copies so many bytes."""

    @intrinsic
    def move(typing, target, source):
        def code(context, builder, signature, arguments):
            whole = ir.VectorType(I8, size)
            target, source = (pointer(builder, a, whole) for a in arguments)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return move


move_1, move_2, move_4, move_8, move_16 = map(_mover, (1, 2, 4, 8, 16))


@intrinsic
def stand_alone(typing):
    """Keep a step of a loop by itself: LLVM makes no vector code of the loop."""

    def code(context, builder, signature, arguments):
        builder.fence("acq_rel", "singlethread")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def stream_line(typing, target, source):
    """Copy 32 bytes, to an address that is a multiple of 32, past the cache."""

    def code(context, builder, signature, arguments):
        vector = ir.VectorType(I32, 8)
        value = builder.load(pointer(builder, arguments[1], vector), align=1)
        store = builder.store(value, pointer(builder, arguments[0], vector), align=32)
        store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def fetch_add(typing, address, amount):
    """Atomically add to the int64 at an address; the value before."""

    def code(context, builder, signature, arguments):
        return builder.atomic_rmw("add", pointer(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), code


@intrinsic
def load_acquire(typing, address):
    """The int64 at an address. With it comes all that was written before its release."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(pointer(builder, arguments[0]), "acquire", 8)

    return types.int64(types.int64), code


@intrinsic
def store_release(typing, address, value):
    """Publish the int64 at an address, together with all that was written before it."""

    def code(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], pointer(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def fence(typing):
    """Make stores that went around the cache visible before the stores that follow."""

    def code(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


def caller(count: int) -> Any:
    """A function that calls compiled code, by its address, with `count` int64, in numba's own calling convention: the places
    of the result and of an exception come first, and the status comes back.
    """
    status = ir.FunctionType(I32, [I8.as_pointer(), I8.as_pointer()] + [I64] * count)

    @intrinsic
    def call(typing, address, arguments):
        def code(context, builder, signature, values):
            result, exception = (cgutils.alloca_once(builder, I64) for _ in range(2))
            entry = builder.inttoptr(values[0], status.as_pointer())
            places = [builder.bitcast(place, I8.as_pointer()) for place in (result, exception)]
            done = builder.call(entry, [*places, *cgutils.unpack_tuple(builder, values[1])])
            return builder.sext(done, I64)

        return types.int64(types.int64, types.UniTuple(types.int64, count)), code

    return call


def outsider(count: int) -> Any:
    """A function that calls a function of C, by its address, with `count` words."""
    kind = ir.FunctionType(ir.VoidType(), [I64] * count)

    @intrinsic
    def call(typing, address, arguments):
        def code(context, builder, signature, values):
            builder.call(
                builder.inttoptr(values[0], kind.as_pointer()), cgutils.unpack_tuple(builder, values[1])
            )
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.int64, count)), code

    return call


yield_thread = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)
"""Let another thread run: the thread that we wait for may have lost its core."""
