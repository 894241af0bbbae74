"""Tile shapes side by side. The numbers in gpu/shapes/ were chosen by such runs.

python benchmarks/gpu_tune.py CASE [LIKE]       a case of gpu_cases.py; LIKE names another case, whose shapes are tried
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

from gpu_cases import CASES, ready
from gpu_table import copied, timed
from upsweep.gpu import launch

SHAPES = {
    "add f4": list(itertools.product((32, 16), (8, 4), (2, 3, 4, 5, 6), (1, 2, 4))),
    "add f8": list(itertools.product((16, 8), (8, 4), (2, 3, 4, 5, 6), (1, 2, 4))),
    "add i2": list(itertools.product((32, 16), (8, 4), (2, 3, 4), (1, 2, 4))),
    "add i1": list(itertools.product((32, 16), (8, 4), (2, 3, 4), (2, 4, 8))),
    "add c16": list(itertools.product((8, 4), (8, 4), (2, 3, 4), (1, 2))),
    "affine f4 one row": list(itertools.product((16, 8), (8, 4), (2, 3, 4, 5), (1, 2))),
    "add f4 segments by flags": list(itertools.product((32, 16), (8, 4), (2, 3, 4, 5), (1, 2))),
    "python, 4 of f8": list(itertools.product((8, 4, 2), (8, 4), (1, 2, 3), (1, 2))),
    "python, 8 of f8": list(itertools.product((4, 2), (8, 4), (1, 2, 3), (1, 2))),
    "add f4 65536x4096 axis 0": list(itertools.product((32, 16), (8, 4, 16), (1, 2, 3, 4, 5), (1,))),
}


def tune(name: str, like: str) -> None:
    """Prints the best shapes, each as its fraction of a copy."""
    call = ready(next(case for case in CASES if case.name == name))
    chosen, results = launch.choose, []
    for items, warps, blocks, strips in SHAPES[like]:

        def choose(plan, laid, chip):
            plan, first = chosen(plan, laid, chip)
            if first.shape.together and 32 * items * warps < laid.n:
                raise ValueError("the block does not hold a row")
            tried = replace(first.shape, items=items, warps=warps, blocks=blocks, strips=strips)
            return plan, replace(first, shape=tried)

        if warps * strips > 32 or blocks * (warps + 2) > 64:
            continue
        launch.choose = choose
        launch._launches.clear()
        try:
            results.append((copied(call.moved) / timed(call.run), items, warps, blocks, strips))
        except Exception as error:
            print(name, items, warps, blocks, strips, str(error)[:100])
    launch.choose = chosen
    for fraction, items, warps, blocks, strips in sorted(results, reverse=True)[:6]:
        print(
            f"{name}: items {items} warps {warps} blocks {blocks} strips {strips}: {fraction:.3f}", flush=True
        )
    print(f"{name}: worst {min(results)}", flush=True)


if __name__ == "__main__":
    tune(sys.argv[1], sys.argv[-1])
