"""All calls of the suite on one engine; exit 1 where a bit is wrong.

python tests/conformance/everything.py ENGINE                  with the large ones where the engine is "cuda"
python tests/conformance/everything.py ENGINE PART/PARTS       every PARTS-th of them, from PART on
ENGINE is one of upsweep's, or "emulated": the CUDA engine's kernels on this processor, some seconds a call; those for a chip
without clusters of blocks are "emulated-80".
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from conformance.cases import everything
from conformance.check import known, wrong
from conformance.large import large
from conformance.memory import device


def main(engine: str, part: int = 0, parts: int = 1) -> int:
    on, began, faults, count = device(engine), time.time(), 0, 0
    calls = [call for call in everything() if known(call, on)]
    if engine == "cuda":
        calls = [*large(), *calls]
    for call in itertools.islice(calls, part, None, parts):
        try:
            text = wrong(call, on)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:600]}"
        count += 1
        if text:
            faults += 1
            print(f"wrong: {call}: {text}", flush=True)
            # No call after this one would be right.
            if "CUDA:" in text or "illegal" in text:
                break
    print(f"{count} calls, {faults} wrong, {time.time() - began:.0f} s", flush=True)
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2].split("/") if len(sys.argv) > 2 else ())))
