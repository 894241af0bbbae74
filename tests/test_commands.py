"""Every `upsweep scan` that the README and the documentation print runs as it stands, on files with the columns that it names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).parents[1]
COMMANDS = [
    line
    for page in ("README.md", "docs/larger.md")
    for block in re.findall(
        r"^```console\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    for line in block.splitlines()
    if "upsweep scan" in line
]
TEXTS = {"plane": list("aabb"), "ticker": list("aabb"), "zone": list("abab")}
NUMBERS = ("delay", "distance", "fare", "price", "sold", "paid", "day")


def test_some_are_printed() -> None:
    assert len(COMMANDS) >= 12


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_runs_as_it_is_printed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from upsweep.cli.app import app

    monkeypatch.chdir(tmp_path)
    before, _, words = line.rpartition("upsweep scan ")
    (read,) = {
        name
        for name in shlex.split(f"{before} {words}", comments=True)
        if re.search(r"\.(npy|csv|parquet)", name)
    } - {word for flag, word in zip(words.split(), words.split()[1:]) if flag in ("--out", ">")}
    write(Path(read))
    run = shlex.split(re.split(r" [>|] ", words)[0], comments=True)
    result = CliRunner().invoke(app, ["scan", *run], input=Path(read).read_bytes() if before else None)
    assert result.exit_code == 0, result.output
    assert "-" in run or any(p.name != read and p.stat().st_size for p in tmp_path.iterdir())


def write(path: Path) -> None:
    """A file of this name: an array, or a table with every column that a command names."""
    if path.suffix == ".npy":
        np.save(path, np.arange(1.0, 5.0))
    elif path.suffix == ".parquet":
        parquet.write_table(table(), path)
    else:
        with pa.output_stream(path, compression="detect") as out:
            csv.write_csv(table(), out)


def table() -> pa.Table:
    return pa.table({**TEXTS, **{name: [1.5, 2.5, 0.5, 3.5] for name in NUMBERS}})
