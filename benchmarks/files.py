"""Tables in files, scanned by the command line, beside polars and pandas: about 200 MB of .parquet and of .csv.

    pip install pandas polars && python benchmarks/files.py [a share of the rows]

Each run is a process of its own, from its start to the table that it leaves. Every result is checked before it is timed. The
figures are the peer's over ours: of wall time, where above 1 we are faster, and of the most memory that the process held. They
are stored after every row; of a row no turn starts after its SECONDS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from cpu import RESULTS, by_machine, processor

ROWS, REPEATS, SECONDS = {".parquet": 20_000_000, ".csv": 7_000_000}, 5, 20
COLUMNS = {"one column": ["price"], "all columns": ["shop", "day", "units", "price"]}
OPS = {"add": "cum_sum", "max": "cum_max"}
OURS = "from upsweep.cli import main; main()"
# A process is said to have held what its parent held before it: this one holds little.
TIMED = """import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run([sys.executable, "-c", *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""
READ_AND_WRITE = {
    ".parquet": ("{read}_parquet(source, columns=kept)", "write_parquet(target)", "to_parquet(target)"),
    ".csv": ("{read}_csv(source, {these}=kept)", "write_csv(target)", "to_csv(target, index=False)"),
}


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "shop": pa.array(
                np.array([f"shop {i}" for i in range(500)])[np.sort(rng.integers(0, 500, rows))]
            ),
            "day": np.sort(rng.integers(0, 3650, rows)),
            "units": rng.integers(0, 100, rows),
            "price": rng.standard_normal(rows).round(9),
        }
    )


def commands(source: Path, target: Path, kept: list[str], op: str) -> dict[str, list[str]]:
    """The command of each contestant: what Python runs."""
    kind, method = source.suffix, OPS[op]
    read, polars_writes, pandas_writes = READ_AND_WRITE[kind]
    start = f"source, target, kept = {str(source)!r}, {str(target)!r}, {kept!r}\n"
    scanned = f"with_columns(pl.col('price').{method}())"
    keep = [word for name in kept for word in ("--keep", name) if name != "price"] or ["--only"]
    ours = ["scan", str(source), "--column", "price", "--op", op, *keep, "--out", str(target), "--force"]
    polars = start + "import polars as pl\n"
    return {
        "ours": [OURS, *ours],
        "polars": [f"{polars}pl.{read.format(read='read', these='columns')}.{scanned}.{polars_writes}"],
        "polars, streaming": [
            f"{polars}pl.scan_{kind[1:]}(source).select(kept).{scanned}.sink_{kind[1:]}(target)"
        ],
        "pandas": [
            f"{start}import pandas as pd\ntable = pd.{read.format(read='read', these='usecols')}\n"
            f"table['price'] = table['price'].{method.replace('_', '')}()\ntable.{pandas_writes}"
        ],
    }


def run(command: list[str]) -> tuple[float, int]:
    """The seconds of a process, and the most memory that it held."""
    # As after an installation: without bytecode each start compiles some sixty modules of ours.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told = subprocess.run(
        [sys.executable, "-c", TIMED, *command], check=True, capture_output=True, env=env
    ).stdout
    seconds, most = told.split()[-2:]
    return float(seconds), int(most)


def check(made: Path, given: pa.Table, kept: list[str], op: str) -> None:
    read = {".parquet": pyarrow.parquet.read_table, ".csv": pyarrow.csv.read_csv}[made.suffix]
    got = read(made)
    accumulate = {"add": np.add, "max": np.maximum}[op].accumulate
    assert sorted(got.column_names) == sorted(kept)
    np.testing.assert_allclose(
        got["price"].to_numpy(), accumulate(given["price"].to_numpy()), rtol=1e-6, atol=1e-6
    )
    for name in kept:
        assert name == "price" or got[name].cast(given[name].type).equals(given[name]), (made, name)


def races(folder: Path, kind: str, share: float) -> Iterator[dict[str, Any]]:
    """A row for each op and choice of columns of one kind of file."""
    given, source, target = table(int(ROWS[kind] * share)), folder / f"given{kind}", folder / f"made{kind}"
    if kind == ".csv":
        pyarrow.csv.write_csv(given, source, pyarrow.csv.WriteOptions(quoting_style="none"))
    else:
        pyarrow.parquet.write_table(given, source)
    for (what, kept), op in product(COLUMNS.items(), OPS):
        contestants = commands(source, target, kept, op)
        for command in contestants.values():
            target.unlink(missing_ok=True)
            run(command)
            check(target, given, kept, op)
        runs: dict[str, list[tuple[float, int]]] = {name: [] for name in contestants}
        began = time.perf_counter()
        while len(runs["ours"]) < REPEATS and (not runs["ours"] or time.perf_counter() - began < SECONDS):
            for name, command in contestants.items():
                runs[name].append(run(command))
        least = {name: tuple(map(min, zip(*several))) for name, several in runs.items()}
        seconds, most = least.pop("ours")
        row = {"file": kind, "columns": what, "op": op, "megabytes": source.stat().st_size >> 20}
        row["turns"] = len(runs["ours"])
        for peer, (wall, memory) in least.items():
            row |= {f"time {peer}": round(wall / seconds, 3), f"memory {peer}": round(memory / most, 3)}
        yield row


def main(folder: Path, share: float) -> None:
    machine, cores = processor(), os.cpu_count() or 1
    versions = {name: version(name) for name in ("pandas", "polars", "pyarrow")}
    rows: list[dict[str, Any]] = []
    record = {"machine": machine, "cores": cores, "share of the rows": share, **versions, "rows": rows}
    for kind in ROWS:
        for row in races(folder, kind, share):
            print(row, flush=True)
            rows.append(row)
            (RESULTS / f"{by_machine('files')}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
