"""`python tests/fuzz`: cases until the time is over, or one of them again."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from case import Difference, Run, draws

from upsweep.engine import ENGINES

CASES = 15_000
"""The cases of one seed. The next seed follows, with other kernels."""


def told(engine: str) -> tuple[str, Any]:
    """The engine of that name, and the emulator where it stands for a GPU."""
    if engine != "emulated":
        return engine, None
    sys.path.append(str(Path(__file__).parents[1]))
    from conformance.memory import device

    return "cuda", device(engine)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz")
    parser.add_argument("--engine", default="cpu", choices=[*ENGINES, "emulated"])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--case", type=int, help="only this one, with all that is known of it")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--cases", type=int, default=10**9, help="at most so many")
    asked = parser.parse_args()
    how = told(asked.engine)
    if asked.case is not None:
        run = Run(asked.seed, *how)
        print(run.case(asked.case))
        run.check(asked.case)
        print("no difference")
        return 0
    end, seed, done, wrong = time.monotonic() + asked.seconds, asked.seed, 0, 0
    while time.monotonic() < end and done < asked.cases:
        run = Run(seed, *how)
        if not run.libraries:
            parser.error(f"no library whose arrays engine {asked.engine} scans is here")
        for number in range(CASES):
            if time.monotonic() > end or done >= asked.cases:
                break
            done += draws(how[0])
            try:
                run.check(number)
            except Difference as difference:
                wrong += 1
                print(f"{difference}\n", flush=True)
        print(f"seed {seed}: {done} cases so far, {wrong} differences", flush=True)
        seed += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
