"""One readable text per kernel, compiled once: the text, the flags and the compiler's version are the key on disk.

Functions of Python are linked in (functions.py). Nothing contracts a multiplication and an addition: two operations stay two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from upsweep import cache as disk
from upsweep.engine import EngineError
from upsweep.function import unchanged
from upsweep.gpu.functions import Linked, python_ltoir

KERNELS = Path(__file__).parent / "kernels"
_SCAN = "narrow.cuh prelude.cuh operators.cuh spec elements.cuh copies.cuh memory.cuh"
_LANES = f"{_SCAN} dense.cuh params.cuh region.cuh thread.cuh warp.cuh packed.cuh epochs.cuh nodes.cuh"
_SELECTIVE = "narrow.cuh prelude.cuh maths.cuh spec copies.cuh pieces.cuh selective.cuh"
_BACK = "selective_back.cuh selective_walk.cuh selective_steward.cuh"
_GATED = "narrow.cuh prelude.cuh maths.cuh gates.cuh spec copies.cuh pieces.cuh gated_params.cuh"
_COLUMNS = (
    "column_lookback.cuh column_patches.cuh column_loose.cuh column_places.cuh column_serving.cuh column_moves.cuh "
    "column_lines.cuh"
)
_MARKS = "narrow.cuh prelude.cuh differ.cuh spec marks.cuh"
_SELECT = (
    "narrow.cuh prelude.cuh differ.cuh counts.cuh tally.cuh packs.cuh spec room.cuh kept.cuh kept_tile.cuh"
)
_REPEAT = "narrow.cuh prelude.cuh counts.cuh tally.cuh packs.cuh spec repeat.cuh"
_WALK = "walk_stages.cuh walk_columns.cuh walk_patches.cuh walk_serving.cuh"
_PARTS = {
    "rows": f"{_LANES} rows.cu",
    "tiles": f"{_LANES} lookback.cuh tile_serving.cuh tiles.cu",
    "columns": f"{_SCAN} params.cuh thread.cuh warp.cuh epochs.cuh nodes.cuh {_COLUMNS} columns.cu",
    "crosswise": f"{_SCAN} params.cuh thread.cuh crosswise.cu",
    "walk": f"{_SCAN} params.cuh thread.cuh barriers.cuh ring.cuh {_WALK} walk.cu",
    "short": f"{_SCAN} params.cuh thread.cuh short_rows.cuh stretch.cuh short.cu",
    "batches": f"{_SCAN} params.cuh thread.cuh stretch.cuh batches.cu",
    "alike": f"{_SCAN} params.cuh alike.cu",
    "bring": f"{_SCAN} params.cuh bring_tile.cuh bring_bytes.cuh bring.cu",
    "stepwise": f"{_SCAN} params.cuh bring_tile.cuh stepwise.cu",
    "shortwise": f"{_SCAN} params.cuh thread.cuh short_rows.cuh shortwise.cu",
    "sums": f"{_SCAN} params.cuh thread.cuh warp.cuh sums.cu",
    "selective": f"{_SELECTIVE} barriers.cuh serving.cuh selective_serving.cuh selective.cu",
    "selective_step": f"{_SELECTIVE} selective_step.cu",
    "selective_back": f"{_SELECTIVE} barriers.cuh serving.cuh selective_serving.cuh {_BACK} selective_back.cu",
    "gated": f"{_GATED} barriers.cuh serving.cuh gated.cuh gated.cu",
    "gated_lanes": f"{_GATED} gated_lanes.cuh gated_lanes.cu",
    "gated_back_lanes": f"{_GATED} gated_lanes.cuh gated_back_lanes.cu",
    "gated_step": f"{_GATED} gated_step.cu",
    "gated_back": f"{_GATED} barriers.cuh serving.cuh gated.cuh gated_back.cu",
    "total": "narrow.cuh prelude.cuh spec total.cu",
    "mark": f"{_MARKS} mark.cu",
    "changes": f"{_MARKS} changes.cu",
    "changes_bits": f"{_MARKS} changes_bits.cu",
    "select": f"{_SELECT} select.cu",
    "select_few": f"{_SELECT} select_few.cu",
    "flagged": "narrow.cuh prelude.cuh counts.cuh packs.cuh spec room.cuh flagged.cuh epochs.cuh flagged.cu",
    "repeat_sums": f"{_REPEAT} repeat_sums.cu",
    "repeat": f"{_REPEAT} repeat.cu",
    "sort": "narrow.cuh prelude.cuh counts.cuh spec digits.cuh sort.cu",
    "sort_small": "narrow.cuh prelude.cuh counts.cuh spec digits.cuh sort_small.cu",
    "count": "narrow.cuh prelude.cuh packs.cuh spec count.cu",
    "automaton": "narrow.cuh prelude.cuh spec automaton.cu",
    "codes": "narrow.cuh prelude.cuh counts.cuh tally.cuh packs.cuh spec codes.cu",
    "boxes": "narrow.cuh prelude.cuh spec boxes.cu",
    "cascade": "narrow.cuh prelude.cuh operators.cuh spec sections.cuh epochs.cuh section_sums.cuh cascade.cu",
    "links": "narrow.cuh prelude.cuh counts.cuh spec links.cu",
    "group_heads": "narrow.cuh prelude.cuh differ.cuh spec group_heads.cu",
    "group_rows": "narrow.cuh prelude.cuh spec group_rows.cuh group_rows.cu",
    "group_places": "narrow.cuh prelude.cuh spec group_rows.cuh group_places.cu",
    "carry": "narrow.cuh prelude.cuh spec carry.cu",
}
_FLAGS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space")
_LINK_FLAGS = ("-lto", "-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1")
SCHEMA = 3
"""Counts changes of how machine code is made that neither its text nor its flags show."""


def text(kernel: str, spec: str) -> str:
    """All parts of a kernel in order, each line under its own name."""
    names = _PARTS[kernel].split()
    parts = [f'#line 1 "{name}"\n{spec if name == "spec" else _file(name)}' for name in names]
    return "\n".join(parts)


@cache
def _file(name: str) -> str:
    return re.sub(r'(?m)^#(include "|pragma once).*$', "", (KERNELS / name).read_text())


def cubin(kernel: str, spec: str, python: Sequence[Linked], arch: int) -> bytes:
    """Machine code, from the disk where it has been compiled before, with these Python functions linked in."""
    for each in python:
        unchanged(each.function)
    source = text(kernel, spec)
    path = disk.folder() / f"{_digest(source, python, arch)}.cubin"
    code = disk.read(path)
    if code is None:
        code = made(source, python, arch)
        # A disk that refuses costs only the next compilation.
        with suppress(OSError):
            disk.write(path, code)
    return code


def made(source: str, python: Sequence[Linked], arch: int) -> bytes:
    """Machine code of a text, with these Python functions linked in."""
    if not python:
        return _compile(source, arch, linked=False)
    # Imported here, as a first call that finds its kernel on disk needs no threads.
    from concurrent.futures import ThreadPoolExecutor

    # NVRTC leaves the interpreter to numba meanwhile.
    with ThreadPoolExecutor(1) as pool:
        kernel = pool.submit(_compile, source, arch, linked=True)
        functions = [python_ltoir(each, arch) for each in python]
        return _link([kernel.result(), *functions], arch)


def _digest(source: str, python: Sequence[Linked], arch: int) -> str:
    """The name of machine code on disk: all that decides what it is."""
    parts = [str(SCHEMA), source, *_FLAGS, f"sm_{arch}", _versions(linked=bool(python))]
    if python:
        parts += _LINK_FLAGS
        parts += [repr((each.symbol, each.function.key, each.operands, each.results)) for each in python]
    return sha256(chr(0).join(parts).encode()).hexdigest()


@cache
def _versions(linked: bool) -> str:
    from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]

    if not linked:
        return str(nvrtc.nvrtcVersion()[1:])
    from importlib.metadata import version

    from cuda.bindings import nvjitlink  # pyright: ignore[reportAttributeAccessIssue]

    # The packages' data tells the versions: to import numba takes longer than all the rest of a first call from disk.
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
