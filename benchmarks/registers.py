"""The registers of a thread in each kernel on each chip, and the bytes that it spills, as a table.

python benchmarks/registers.py         prints it; it takes minutes and needs no GPU
python benchmarks/registers.py WORD    of kernels whose names contain the word
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "tests/gpu", "src")]

from cubins import Needs, needs
from test_compile import HOT, cubin
from test_moves import SPECS, moved

CHIPS = (80, 86, 89, 90, 100, 120)


def of(name: str, arch: int) -> Needs:
    """The most that any function of a kernel needs."""
    code = cubin(HOT[name], arch) if name in HOT else moved(name, arch)
    return Needs(*map(max, zip(*needs(code))))


def main(word: str = "") -> None:
    from cuda.bindings import nvrtc

    names = [name for name in (*HOT, *SPECS) if word in name]
    print("Registers of a thread + bytes that it spills to local memory, by NVRTC", nvrtc.nvrtcVersion()[1:])
    print("\n| kernel |", *(f"sm_{arch} |" for arch in CHIPS))
    print("|---|" + "---|" * len(CHIPS))
    with ProcessPoolExecutor() as pool:
        made = {(name, arch): pool.submit(of, name, arch) for name in names for arch in CHIPS}
        for name in names:
            row = [made[name, arch].result() for arch in CHIPS]
            print(f"| {name} |", *(f"{n.registers} + {n.spilled} |" for n in row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
