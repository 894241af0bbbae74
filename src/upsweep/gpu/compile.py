"""One readable text per kernel, compiled once: the text, the flags and the compiler's version are the key on disk.

A user's operator is compiled from Python to LTO-IR by numba-cuda and linked in, so that it is inlined like a built-in.
Nothing contracts a multiplication and an addition: two operations stay two.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.arithmetic import LogAddExp
from upsweep.cache import folder
from upsweep.engine import EngineError
from upsweep.operator import Operator, unchanged, uncompilable
from upsweep.operators import form_of
from upsweep.plan import Plan

KERNELS = Path(__file__).parent / "kernels"
_PARTS = {
    "rows": "narrow.cuh prelude.cuh operators.cuh spec elements.cuh params.cuh memory.cuh region.cuh thread.cuh warp.cuh rows.cu",
    "tiles": "narrow.cuh prelude.cuh operators.cuh spec elements.cuh params.cuh memory.cuh region.cuh thread.cuh warp.cuh "
    "packed.cuh nodes.cuh lookback.cuh tiles.cu",
    "columns": "narrow.cuh prelude.cuh operators.cuh spec elements.cuh params.cuh memory.cuh thread.cuh warp.cuh nodes.cuh "
    "column_lookback.cuh columns.cu",
    "walk": "narrow.cuh prelude.cuh operators.cuh spec elements.cuh params.cuh memory.cuh ring.cuh walk.cu",
    "short": "narrow.cuh prelude.cuh operators.cuh spec elements.cuh params.cuh memory.cuh thread.cuh short.cu",
    "flags": "narrow.cuh prelude.cuh spec flags.cu",
}
_FLAGS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space")
_LINK_FLAGS = ("-lto", "-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1")
SCHEMA = 2
"""Counts changes of how machine code is made that neither its text nor its flags show."""


def memory_type(dtype: np.dtype) -> str:
    """The C type that holds an item of this dtype in memory."""
    return _known(dtype).memory


def value_type(dtype: np.dtype) -> str:
    """The C type that an item of this dtype is computed in."""
    return _known(dtype).value


def _known(dtype: np.dtype) -> dtypes.DType:
    known = dtypes.row(dtype)
    if known is None or not dtype.isnative:
        raise EngineError(f"the cuda engine does not scan {dtype}")
    return known


def functions_text(plan: Plan) -> str:
    """What is computed: `Map` of the `Given` item of each array that is read, `Op` of two of the `Item`s that it gives, and
    `Finish` of a prefix, whose `Result` is written."""
    item, result = (
        tuple_type(plan.accumulators),
        tuple_type([a for a, d in zip(plan.accumulators, plan.stores) if d is not None]),
    )
    types = f"typedef {item} Item;\ntypedef Item Given;\ntypedef {result} Result;\ntypedef Same Map;\n"
    return types + operator_text(plan)[0] + _finish_text(plan)


def tuple_type(dtypes: Sequence[np.dtype]) -> str:
    return f"Tuple<{', '.join(map(value_type, dtypes))}>"


def _finish_text(plan: Plan) -> str:
    kept = [c for c, d in enumerate(plan.stores) if d is not None]
    copies = " ".join(f"get<{o}>(r) = get<{c}>(s);" for o, c in enumerate(kept))
    known = plan.finish and form_of(plan.finish, plan.accumulators)
    before = f"s = {known[1].functor}()(s); " if known else ""
    return (
        "struct Finish { __device__ __forceinline__ Result operator()(Item s) const "
        f"{{ Result r; {before}{copies} return r; }} }};\n"
    )


def operator_text(plan: Plan) -> tuple[str, bool]:
    """The definition of `Op`, and whether a Python function must be linked in for it."""
    op, accumulators = plan.op, plan.accumulators
    known = form_of(op, accumulators)
    if known is not None:
        form = known[1]
        numbers = "" if form.numbers is None else _numbers(form.numbers, accumulators[0])
        state = plan.order == "sequential" and plan.stores[:-1] == (None,) * (len(plan.stores) - 1)
        return f"{numbers}typedef {(state and form.state) or form.functor} Op;\n", False
    types = [value_type(d) for d in accumulators]
    operands = [f"const {t}*" for t in types] * 2 + [f"{t}*" for t in types]
    parts = range(len(types))
    passed = [f"&get<{i}>({side})" for side in "abr" for i in parts]
    return (
        f'extern "C" __device__ void upsweep_operator({", ".join(operands)});\n'
        "struct Op { __device__ __forceinline__ Item operator()(const Item& a, const Item& b) const {\n"
        f"  Item r; upsweep_operator({', '.join(passed)}); return r;\n}} }};\n"
    ), True


def _numbers(numbers: LogAddExp, dtype: np.dtype) -> str:
    """What LogAddExp computes with, in digits that lose nothing."""
    real, _, mantissa, far, exp2, log1p = numbers
    lists = [[float(real(x)).hex() for x in terms] for terms in (exp2, log1p)]
    exp2, log1p = (f"[{len(terms)}] = {{{', '.join(terms)}}}" for terms in lists)
    return (
        f"struct Numbers {{ int mantissa = {mantissa}; u{8 * dtype.itemsize} bits = 0; "
        f"{value_type(dtype)} far = {far}, exp2{exp2}, log1p{log1p}; }};\n"
    )


def text(kernel: str, spec: str) -> str:
    """All parts of a kernel in order, each line under its own name."""
    parts = []
    for name in _PARTS[kernel].split():
        source = spec if name == "spec" else (KERNELS / name).read_text()
        parts.append(f'#line 1 "{name}"\n' + re.sub(r'(?m)^#(include "|pragma once).*$', "", source))
    return "\n".join(parts)


def cubin(kernel: str, spec: str, op: Operator | None, accumulators: Sequence[np.dtype], arch: int) -> bytes:
    """Machine code, from the disk where it has been compiled before. `op` is a Python operator to link in, or None."""
    if op is not None:
        unchanged(op)
    source = text(kernel, spec)
    path = folder() / f"{_digest(source, op, arch)}.cubin"
    try:
        return path.read_bytes()
    except OSError:
        pass
    code = _compile(source, arch, linked=op is not None)
    if op is not None:
        code = _link([code, python_ltoir(op, accumulators, arch)], arch)
    _write(path, code)
    return code


def _digest(source: str, op: Operator | None, arch: int) -> str:
    """The name of machine code on disk: all that decides what it is."""
    parts = [str(SCHEMA), source, *_FLAGS, f"sm_{arch}", _versions(linked=op is not None)]
    if op is not None:
        parts += [*_LINK_FLAGS, repr(op.key)]
    return sha256(chr(0).join(parts).encode()).hexdigest()


def _write(path: Path, code: bytes) -> None:
    """Whole or not at all, whoever else writes it at the same time; a disk that refuses costs only the next compilation."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, path)
    except OSError:
        return


@cache
def _versions(linked: bool) -> str:
    from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]

    if not linked:
        return str(nvrtc.nvrtcVersion()[1:])
    from cuda.bindings import nvjitlink  # pyright: ignore[reportAttributeAccessIssue]

    # from the packages' data: to import them takes longer than all the rest of a first call from disk
    return (
        f"{nvrtc.nvrtcVersion()[1:]} {nvjitlink.version()} numba {version('numba')} {version('numba-cuda')}"
    )


def _compile(source: str, arch: int, linked: bool) -> bytes:
    from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]

    def check(answer: Any) -> Any:
        status, *values = answer
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise EngineError(f"NVRTC: {status.name}\n{_log(program)}")
        return values[0] if values else None

    def _log(program: Any) -> str:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        return log.decode()

    program = nvrtc.nvrtcCreateProgram(source.encode(), b"upsweep.cu", 0, [], [])[1]
    flags = [*_FLAGS, f"--gpu-architecture=sm_{arch}", *(["-dlto"] if linked else [])]
    check(nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags]))
    size, get = (
        (nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR)
        if linked
        else (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    )
    code = b" " * check(size(program))
    check(get(program, code))
    nvrtc.nvrtcDestroyProgram(program)
    return code


def python_ltoir(op: Operator, accumulators: Sequence[np.dtype], arch: int) -> bytes:
    """A Python operator as a C function of pointers: `upsweep_operator(a0*, ..., b0*, ..., result0*, ...)`."""
    from numba import from_dtype, types

    from upsweep.device_functions import compiler, numba_cuda, scalars_on_device

    cuda = numba_cuda()
    parts = range(len(accumulators))
    names = [f"{side}{i}" for side in "abr" for i in parts]
    a, b = (", ".join(f"{side}{i}[0]" for i in parts) for side in "ab")
    if len(accumulators) == 1:
        body = f"    r0[0] = returned(operator({a}, {b}))"
    else:
        stores = "\n".join(f"    r{i}[0] = r[{i}]" for i in parts)
        body = f"    r = returned(operator(({a}), ({b})))\n{stores}"
    scope = {
        "operator": scalars_on_device(op.fn),
        "returned": compiler().returned(accumulators, len(accumulators) == 1),
    }
    exec(f"def upsweep_operator({', '.join(names)}):\n{body}", scope)  # numba wants a function of fixed arity
    pointers = [types.CPointer(from_dtype(d)) for d in accumulators] * 3
    try:
        code, _ = cuda.compile(  # pyright: ignore[reportPrivateImportUsage]
            scope["upsweep_operator"],
            types.void(*pointers),
            output="ltoir",
            device=True,
            abi="c",
            abi_info={"abi_name": "upsweep_operator"},
            cc=(arch // 10, arch % 10),
        )
    except Exception as error:
        raise uncompilable(op, error) from error
    return code


def _link(parts: Sequence[bytes], arch: int) -> bytes:
    from cuda.bindings import nvjitlink  # pyright: ignore[reportAttributeAccessIssue]

    flags = [f"-arch=sm_{arch}", *_LINK_FLAGS]
    linker = nvjitlink.create(len(flags), flags)
    try:
        for part in parts:
            nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, part, len(part), "upsweep")
        nvjitlink.complete(linker)
        code = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, code)
        return bytes(code)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        raise EngineError(f"nvJitLink: {log.decode()}") from error
    finally:
        nvjitlink.destroy(linker)
