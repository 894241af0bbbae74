"""The command line: the results are the API's, also of a command that was killed and resumed."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import upsweep as up
from upsweep import short_way
from upsweep.engine import ENGINES

pytest.importorskip("click")
pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

RUN = """import upsweep.files as f, upsweep.files.blocks as t, upsweep.files.work as w
f.CHUNK_BYTES = t.BLOCK_BYTES = {size}
t.BLOCK_ROWS = {size} // 8
w.SAVE_SECONDS = 0.0
{then}"""


MAIN = "from upsweep.cli import main; main()"


def call(
    folder: Path, *words: object, chunk: int = 1 << 25, then: str = MAIN
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN.format(size=chunk, then=then), *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def status(folder: Path, *words: object, chunk: int = 1 << 25) -> int:
    """Of a command that runs within this process: a new one imports for half a second."""
    from upsweep.cli.app import app

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in (
            ("CHUNK_BYTES", chunk),
            ("blocks.BLOCK_BYTES", chunk),
            ("blocks.BLOCK_ROWS", chunk // 8),
            ("work.SAVE_SECONDS", 0.0),
        ):
            patch.setattr(f"upsweep.files.{name}", value)
        return app(list(map(str, words)), standalone_mode=False) or 0


def done(folder: Path, *words: object, chunk: int = 1 << 25) -> None:
    assert status(folder, *words, chunk=chunk) == 0
    assert not list(folder.glob("*.part"))


KILL = """import os, signal
signs, replace = [], os.replace
def mortal(fresh, path):
    signs.append(path.name)
    if signs.count('{sign}') == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(fresh, path)
os.replace = mortal
from upsweep.cli import main; main()"""


def killed(folder: Path, sign: str, *words: object, chunk: int = 1 << 14) -> None:
    """A command that is killed as it writes a checkpoint for the third time: what it made since the second is there, too."""
    got = call(folder, *words, chunk=chunk, then=KILL.format(sign=sign))
    assert got.returncode == -signal.SIGKILL, "it ended before it could be killed"
    assert list(folder.glob(f"*.part/{sign}"))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(
        np.ascontiguousarray(got).view("u1"), np.ascontiguousarray(expected).view("u1")
    )


@pytest.mark.parametrize(
    "words", [[], ["--exclusive"], ["--reverse", "--initial", "2.5"], ["--dtype", "float64", "--op", "max"]]
)
def test_an_array_in_chunks_has_the_bits_of_one_call(tmp_path: Path, words: list[str]) -> None:
    x = floats(100_001)
    np.save(tmp_path / "x.npy", x)
    done(tmp_path, "scan", "x.npy", *words, chunk=1 << 14)
    keywords = {"exclusive": "--exclusive" in words, "reverse": "--reverse" in words}
    keywords |= {"initial": 2.5} if "--initial" in words else {}
    keywords |= {"dtype": np.float64, "op": "max"} if "--dtype" in words else {}
    same_bits(np.load(tmp_path / "x.scan.npy"), up.scan(x, **keywords, engine="numpy"))


@pytest.mark.parametrize(("axis", "order"), [(0, "C"), (1, "C"), (-1, "F"), (0, "F")])
def test_a_plane_is_scanned_along_either_axis(tmp_path: Path, axis: int, order: str) -> None:
    x = np.asarray(floats(301, 217), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "x.npy", x)
    done(tmp_path, "scan", "x.npy", "--axis", axis, "--out", "y.npy", "--reverse", chunk=1 << 13)
    same_bits(np.load(tmp_path / "y.npy"), up.scan(x, axis=axis, reverse=True, engine="numpy"))


SPELT = {
    "flags": np.arange(50_001) % 700 == 3,
    "ends": np.arange(50_001) % 700 == 2,
    "keys": np.arange(50_001) // 300,
    "offsets": np.array([0, 0, 7, 4096, 4096, 30_000, 50_001]),
    "lengths": np.array([20_000, 0, 1, 30_000]),
}


ALL_AT_ONCE = ["--initial", "1.5", "--reverse", "--exclusive"]


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("flags", []),
        ("ends", ALL_AT_ONCE),
        ("ends", []),
        ("keys", ["--exclusive"]),
        ("offsets", ALL_AT_ONCE),
        ("lengths", ALL_AT_ONCE),
        ("keys", ["--reverse"]),
    ],
)
def test_segments_cross_chunks(tmp_path: Path, spelling: str, words: list[str]) -> None:
    x = floats(50_001)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "s.npy", SPELT[spelling])
    done(tmp_path, "scan", "x.npy", "--segments", f"{spelling}=s.npy", *words, chunk=1 << 14)
    keywords = {"exclusive": "--exclusive" in words, "reverse": "--reverse" in words}
    keywords |= {"initial": 1.5} if "--initial" in words else {}
    segments = getattr(up.segments, spelling)(SPELT[spelling])
    same_bits(np.load(tmp_path / "x.scan.npy"), up.scan(x, segments=segments, **keywords, engine="numpy"))


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    rng = np.random.default_rng(6)
    city = [f"city {i // 170}" for i in range(20_000)]
    made = pa.table({"city": city, "v": rng.random(20_000), "k": rng.integers(-9, 9, 20_000)})
    csv.write_csv(made, tmp_path / "t.csv")
    parquet.write_table(made, tmp_path / "t.parquet", row_group_size=3_000)
    return made


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_by_keys(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    done(tmp_path, "scan", f"t.{suffix}", "--column", "v", "--segments", "keys=city", chunk=1 << 14)
    read = csv.read_csv if suffix == "csv" else parquet.read_table
    got = read(tmp_path / f"t.scan.{suffix}")
    assert got.column_names == ["city", "v", "k"]
    assert got["city"].to_pylist() == table["city"].to_pylist()
    assert got["k"].to_pylist() == table["k"].to_pylist()
    keys = up.segments.keys(np.array(table["city"].to_pylist()))
    same_bits(got["v"].to_numpy(), up.scan(table["v"].to_numpy(), segments=keys, engine="numpy"))


def test_a_column_by_groups_of_two_keys(tmp_path: Path, table: pa.Table) -> None:
    done(
        tmp_path, "scan", "t.parquet", "--column", "v", "--segments", "groups=city,k", "--only", chunk=1 << 14
    )
    got = parquet.read_table(tmp_path / "t.scan.parquet")
    assert got.column_names == ["v"]
    groups = up.segments.groups(table["city"], table["k"])
    same_bits(got["v"].to_numpy(), up.scan(table["v"].to_numpy(), segments=groups, engine="numpy"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_expressions_of_columns(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    v, k = table["v"].to_numpy(), table["k"].to_numpy()
    words = ("--map", "v * k", "--finish", "prefix / (index + 1)", "--as", "mean", "--out", f"y.{suffix}")
    done(tmp_path, "scan", f"t.{suffix}", *words, chunk=1 << 14)
    read = csv.read_csv if suffix == "csv" else parquet.read_table
    got = read(tmp_path / f"y.{suffix}")
    assert got.column_names == ["city", "v", "k", "mean"]
    assert got["v"].to_pylist() == table["v"].to_pylist()
    want = up.scan((v, k), map=lambda v, k: v * k, finish=lambda p, v, k, i: p / (i + 1), engine="numpy")
    same_bits(got["mean"].to_numpy(), want)


def test_an_expression_in_place_of_its_column(tmp_path: Path, table: pa.Table) -> None:
    words = (
        "--column",
        "v",
        "--op",
        "affine",
        "--map",
        "0.5, 0.5 * v",
        "--finish",
        "prefix[1]",
        "--out",
        "y.csv",
    )
    done(tmp_path, "scan", "t.csv", *words)
    got, v = csv.read_csv(tmp_path / "y.csv"), table["v"].to_numpy()
    assert got.column_names == ["city", "v", "k"]
    same_bits(
        got["v"].to_numpy(),
        up.scan(v, "affine", map=lambda x: (0.5, 0.5 * x), finish=lambda p: p[1], engine="numpy"),
    )


def test_expressions_of_an_array_with_several_results(tmp_path: Path) -> None:
    x = floats(50_001)
    np.save(tmp_path / "x.npy", x)
    words = (
        "--op",
        "max",
        "--map",
        "abs(x)",
        "--finish",
        "prefix, sqrt(prefix) > x",
        "--as",
        "most",
        "--as",
        "below",
    )
    done(tmp_path, "scan", "x.npy", *words, "--reverse", chunk=1 << 14)
    got = np.load(tmp_path / "x.scan.npy")
    want = up.scan(x, "max", map=abs, finish=lambda p, x: (p, math.sqrt(p) > x), reverse=True, engine="numpy")
    same_bits(got["most"], want[0])
    same_bits(got["below"], want[1])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "x.__class__", "(lambda: 0)()", "[a for a in x]", "'text'", "(x := 3)", "f'{x}'", "exec(x)",
        "x[0](1)", "x +", "", "{x}", "x if x", "print(x)", "1j * x", "*x, x", "sqrt(*x)", "abs(x=1)", "y * 2",
    ],
)  # fmt: skip
def test_nothing_but_arithmetic_is_an_expression(text: str) -> None:
    from upsweep.cli.formulas import function_of

    with pytest.raises(ValueError, match=r"may hold|no expression|calls|names"):
        function_of(text, ["x"])


def test_a_column_may_be_called_as_a_function_is() -> None:
    from upsweep.cli.formulas import columns_in, function_of

    assert columns_in("max - min(e, 2) + pi") == ("max", "e")
    assert function_of("max - e", ["max", "e"])(5, 3) == 2
    assert function_of("prefix - index", ["log"], finish=True)(5, 3, 1) == 4
    assert function_of("prefix - log", ["log"], finish=True)(5, 3) == 2
    assert function_of("prefix", ["log"], finish=True)(5) == 5
    with pytest.raises(ValueError, match="a column is called index"):
        function_of("prefix", ["index"], finish=True)


def test_an_operator_on_tuples_takes_several_columns(tmp_path: Path, table: pa.Table) -> None:
    words = ("--op", "affine", "--column", "v", "--column", "k", "--dtype", "float64", "--out", "y.npy")
    done(tmp_path, "scan", "t.csv", *words, chunk=1 << 14)
    got = np.load(tmp_path / "y.npy")
    a, h = up.scan((table["v"].to_numpy(), table["k"].to_numpy().astype(float)), "affine", engine="numpy")
    same_bits(got["v"], a)
    same_bits(got["k"], h)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_in_place_keeps_what_is_not_scanned(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    file, read = f"t.{suffix}", csv.read_csv if suffix == "csv" else parquet.read_table
    words = ("scan", file, "--column", "v", "--column", "k", "--out", file)
    before = (tmp_path / file).read_bytes()
    refused = call(tmp_path, *words)
    assert refused.returncode == 1
    assert "exists already" in refused.stderr
    assert "--force" in refused.stderr
    assert (tmp_path / file).read_bytes() == before
    done(tmp_path, *words, "--force", chunk=1 << 14)
    got = read(tmp_path / file)
    assert got.column_names == table.column_names
    assert got["city"].to_pylist() == table["city"].to_pylist()
    # Each column by itself: "add" takes one.
    for name in ("v", "k"):
        same_bits(got[name].to_numpy(), up.scan(table[name].to_numpy(), engine="numpy"))
    done(tmp_path, "scan", f"t.{suffix}", "--column", "v", "--keep", "k", "--out", f"kept.{suffix}")
    done(tmp_path, "scan", f"t.{suffix}", "--column", "v", "--only", "--out", f"only.{suffix}")
    assert read(tmp_path / f"kept.{suffix}").column_names == ["v", "k"]
    assert read(tmp_path / f"only.{suffix}").column_names == ["v"]


def test_kept_text_stays_as_it_is(tmp_path: Path) -> None:
    lines = ['"id","v","note"', '007,1,"a, b"', '1e3,2,"two', 'lines"', ",3,", ""]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    done(tmp_path, "scan", "t.csv", "--column", "v", "--out", "u.csv")
    strings = csv.ConvertOptions(column_types={"id": pa.string()})
    got = csv.read_csv(tmp_path / "u.csv", None, csv.ParseOptions(newlines_in_values=True), strings)
    assert got.to_pydict() == {"id": ["007", "1e3", ""], "v": [1, 3, 6], "note": ["a, b", "two\nlines", ""]}
    done(tmp_path, "scan", "t.csv", "--column", "v", "--keep", "id", "--out", "w.csv")
    assert (tmp_path / "w.csv").read_text().splitlines()[1:] == ["007,1", "1e3,3", ",6"]


@pytest.mark.parametrize(("kind", "codec"), [("csv", "gzip"), ("parquet", None), ("npy", "zstd")])
def test_pipes_and_packed_files(tmp_path: Path, table: pa.Table, kind: str, codec: str | None) -> None:
    suffix = {"gzip": ".gz", "zstd": ".zst", None: ""}[codec]
    if kind == "npy":
        np.save(tmp_path / "t.npy", table["v"].to_numpy())
    source = tmp_path / f"t.{kind}{suffix}"
    if codec:
        with pa.output_stream(str(source), codec) as file:
            file.write((tmp_path / f"t.{kind}").read_bytes())
    words = [] if kind == "npy" else ["--column", "v"]
    done(tmp_path, "scan", source.name, *words, "--out", f"y.{kind}{suffix}")
    command = [sys.executable, "-c", "from upsweep.cli import main; main()", "scan", "-", *words]
    piped = subprocess.run(command, cwd=tmp_path, input=source.read_bytes(), capture_output=True, timeout=300)
    assert piped.returncode == 0, piped.stderr.decode()
    assert piped.stderr.startswith(b"-: 20,000 items by add in ")
    with pa.input_stream(str(tmp_path / f"y.{kind}{suffix}"), codec) as file:
        # A pipe gets its output unpacked. A footer numbers the row groups from the last checkpoint on.
        assert file.read() == piped.stdout or parquet.read_table(pa.BufferReader(piped.stdout)).equals(
            parquet.read_table(tmp_path / f"y.{kind}")
        )
    read = {"csv": csv.read_csv, "parquet": parquet.read_table, "npy": np.load}[kind]
    got = read(pa.BufferReader(piped.stdout) if kind != "npy" else io.BytesIO(piped.stdout))
    same_bits(got if kind == "npy" else got["v"].to_numpy(), up.scan(table["v"].to_numpy(), engine="numpy"))


def test_nobody_reads_on(tmp_path: Path) -> None:
    """As `upsweep scan x.csv --out - | head -1` ends: without a word, and without leaving anything."""
    csv.write_csv(pa.table({"v": np.arange(100_000)}), tmp_path / "x.csv")
    # A command that compiles would say so.
    done(tmp_path, "scan", "x.csv", "--column", "v")
    held = tmp_path / "held"
    held.mkdir()
    run = "from upsweep.cli import main; main()"
    command = [sys.executable, "-c", run, "scan", "x.csv", "--column", "v", "--out", "-"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(held)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"v"\n'
        process.stdout.close()
        said = process.stderr.read().decode()
    # As a shell says of `cat x.csv | head -1`.
    assert process.returncode == 128 + signal.SIGPIPE
    assert len(said.splitlines()) == 1, said
    assert "100,000 items" in said
    assert not list(held.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("- <&-", "standard input is closed"),
        ("t.csv --column v --out - >&-", "standard output is closed"),
        ("- </dev/null", "standard input.csv has no line of column names"),
        (
            "- <noise",
            "the column names of standard input.csv are no text in UTF-8: convert a table first, by iconv, and pass other data "
            "as .npy, .zarr or .parquet",
        ),
    ],
)
def test_a_closed_or_empty_pipe(tmp_path: Path, table: pa.Table, words: str, said: str) -> None:
    (tmp_path / "noise").write_bytes(b"\0\1")
    command = f"exec '{sys.executable}' -m upsweep scan {words}"
    got = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert got.returncode == 1
    assert got.stderr == f"upsweep: {said}\n"


def test_names_of_columns_in_any_locale(tmp_path: Path) -> None:
    words = ("--map", "größe + 1", "--segments", "keys=größe", "--keep", "größe", "--as", "ü")
    got = subprocess.run(
        [sys.executable, "-m", "upsweep", "scan", "-", *words], cwd=tmp_path, input="größe\n1\n1\n2\n".encode(),
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}, capture_output=True, timeout=300,
    )  # fmt: skip
    assert got.stdout.decode() == '"größe","ü"\n1,2\n1,4\n2,3\n', got.stderr


def test_a_private_file_stays_private(tmp_path: Path, table: pa.Table) -> None:
    (tmp_path / "t.csv").chmod(0o600)
    done(tmp_path, "scan", "t.csv", "--column", "v", "--out", "t.csv", "--force")
    assert (tmp_path / "t.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.dear
@pytest.mark.parametrize("words", [[], ["--as", "latest"], ["--reverse"]])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_times_keep_their_zone(tmp_path: Path, suffix: str, words: list[str]) -> None:
    """Also in a new column, and when a killed scan goes on."""
    at = np.random.default_rng(9).integers(1_600_000_000, 1_700_000_000, 20_000)
    made = pa.table({"t": pa.array(at).cast(pa.timestamp("s", "UTC")), "w": at})
    read, write = (
        (csv.read_csv, csv.write_csv) if suffix == "csv" else (parquet.read_table, parquet.write_table)
    )
    write(made, tmp_path / f"t.{suffix}")
    scan = ("scan", f"t.{suffix}", "--op", "max", "--column", "t", "--out", f"y.{suffix}", *words)
    if "--reverse" not in words:
        killed(tmp_path, "done.npz", *scan)
        assert "going on at" in call(tmp_path, *scan).stderr
    else:
        done(tmp_path, *scan, chunk=1 << 14)
    got = read(tmp_path / f"y.{suffix}")["latest" if "--as" in words else "t"]
    assert got.type.tz == "UTC"
    np.testing.assert_array_equal(
        got.cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy(),
        up.scan(at, "max", reverse="--reverse" in words, engine="numpy"),
    )


def test_one_line_says_what_was_done(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    got = call(tmp_path, "scan", "x.npy", "--op", "max")
    assert re.fullmatch(r"x\.scan\.npy: 10 items by max in \d+\.\d s, [1-9]\d* a second\n", got.stdout)


def test_the_version(tmp_path: Path) -> None:
    assert call(tmp_path, "--version").stdout == f"upsweep {up.__version__}\n"
    assert {"scan", "ema", "Stream", "__version__"} <= set(dir(up))


@pytest.mark.parametrize("sign", ["done.npz", "read.json"])
def test_killed_and_resumed(tmp_path: Path, sign: str) -> None:
    x = np.random.default_rng(7).random(100_000)
    if sign == "done.npz":
        np.save(tmp_path / "x.npy", x)
        words = ("scan", "x.npy", "--out", "y.npy")
    else:
        csv.write_csv(pa.table({"v": x}), tmp_path / "x.csv")
        words = ("scan", "x.csv", "--out", "y.npy")
    killed(tmp_path, sign, *words)
    assert not (tmp_path / "y.npy").exists()
    again = call(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert "going on at" in again.stderr
    assert not list(tmp_path.glob("*.part"))
    same_bits(np.load(tmp_path / "y.npy"), up.scan(x, engine="numpy"))


@pytest.mark.dear
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_that_was_killed_is_one_that_was_not(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(7)
    words = [f"word {i}" for i in range(50)]
    made = pa.table(
        {
            "k": pa.array(words).take(np.arange(20_000) // 400),
            "v": rng.random(20_000),
            "w": rng.random(20_000),
        }
    )
    file, chunk = f"x.{suffix}", 1 << 14 if suffix == "csv" else 1 << 12
    if suffix == "csv":
        csv.write_csv(made, tmp_path / file)
    else:
        parquet.write_table(made, tmp_path / file, row_group_size=3_000, compression="zstd")
    words = ("scan", file, "--column", "v", "--column", "w", "--segments", "keys=k", "--out")
    killed(tmp_path, "done.npz", *words, f"y.{suffix}", chunk=chunk)
    assert not (tmp_path / f"y.{suffix}").exists()
    again = call(tmp_path, *words, f"y.{suffix}", chunk=chunk)
    assert again.returncode == 0, again.stderr
    assert "going on at" in again.stderr
    done(tmp_path, *words, f"z.{suffix}", chunk=chunk)
    read = csv.read_csv if suffix == "csv" else parquet.read_table
    got = read(tmp_path / f"y.{suffix}")
    assert got.equals(read(tmp_path / f"z.{suffix}"))
    assert got.schema == made.schema
    assert got["k"].equals(made["k"])
    keys = up.segments.keys(np.array(made["k"]))
    for name in ("v", "w"):
        same_bits(got[name].to_numpy(), up.scan(made[name].to_numpy(), segments=keys, engine="numpy"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_of_numbers_needs_no_pandas(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    scan = f"f.scan_file('t.{suffix}', 'y.{suffix}', columns=['v'])"
    then = f"{scan}; import sys; assert 'pandas' not in sys.modules"
    command = [sys.executable, "-c", RUN.format(size=1 << 14, then=then)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)


def test_another_job_of_the_same_name_starts_anew(tmp_path: Path) -> None:
    x = np.random.default_rng(8).random(100_000)
    np.save(tmp_path / "x.npy", x)
    killed(tmp_path, "done.npz", "scan", "x.npy", "--out", "y.npy")
    again = call(tmp_path, "scan", "x.npy", "--op", "max", "--out", "y.npy")
    assert again.returncode == 0, again.stderr
    assert "going on" not in again.stderr
    same_bits(np.load(tmp_path / "y.npy"), up.scan(x, "max", engine="numpy"))


def test_nothing_to_scan(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.empty(0, np.float32))
    done(tmp_path, "scan", "x.npy")
    same_bits(np.load(tmp_path / "x.scan.npy"), np.empty(0, np.float32))


MISTAKES = {
    "no file": (["scan", "none.npy"], "there is no file"),
    "suffix": (["scan", "x.txt"], "neither .npy nor"),
    "axis": (
        ["scan", "plane.npy"],
        "the array has 2 dimensions (3, 4): say which to scan along, axis=0 to axis=1",
    ),
    "operator": (["scan", "x.npy", "--op", "plus"], "no operator is called 'plus'"),
    "identity": (["scan", "x.npy", "--op", "argmax"], "takes a tuple of 2"),
    "initial": (["scan", "x.npy", "--initial", "much"], "neither a number"),
    "no whole number": (["scan", "s.npy", "--initial", "0.5"], "initial=0.5 is no value of int64"),
    "segments": (["scan", "x.npy", "--segments", "rows=s.npy"], "pass flags="),
    "offsets": (["scan", "x.npy", "--segments", "offsets=s.npy"], "must cover 0 to 10"),
    "groups": (
        ["scan", "t.csv", "--column", "v", "--segments", "groups=k,zone"],
        "there is no column 'zone'",
    ),
    "column": (["scan", "t.csv", "--column", "w"], "there is no column 'w'"),
    "which column": (["scan", "t.csv"], "say which to scan, by columns= (--column): "),
    "not packed": (["scan", "u.csv.gz"], "u.csv.gz cannot be unpacked: "),
    "text": (["scan", "t.csv", "--column", "city"], "cannot be scanned"),
    "expression": (["scan", "t.csv", "--map", "v.real"], "and nothing else"),
    "name": (["scan", "t.csv", "--column", "v", "--finish", "prefix - w"], "there are prefix, v, index"),
    "results": (["scan", "t.csv", "--map", "v * k"], "pass names= (--as)"),
    "an empty name": (["scan", "t.csv", "--column", "v", "--as", ""], "needs a name that is not empty"),
    "an empty map": (["scan", "t.csv", "--column", "v", "--map", ""], "is no expression"),
    "an empty finish": (["scan", "t.csv", "--column", "v", "--finish", ""], "is no expression"),
    "one name for two": (
        ["scan", "t.csv", "--column", "v", "--column", "k", "--as", "s", "--as", "s"],
        "two columns 's'",
    ),
    "a name of two lines": (["scan", "lines.csv", "--column", "w"], "there are v, first second"),
    "a pipe with a name": (["scan", "pipe.csv"], "is no plain file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_end_in_one_line_and_leave_nothing(
    tmp_path: Path,
    table: pa.Table,
    mistake: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from upsweep.cli.app import app

    np.save(tmp_path / "x.npy", np.arange(10.0))
    np.save(tmp_path / "plane.npy", np.zeros((3, 4)))
    np.save(tmp_path / "s.npy", np.array([0, 5]))
    (tmp_path / "x.txt").write_text("1")
    (tmp_path / "u.csv.gz").write_text("v\n1\n")
    (tmp_path / "lines.csv").write_text('"v","first\nsecond"\n1,2\n')
    os.mkfifo(tmp_path / "pipe.csv")
    before = sorted(path.name for path in tmp_path.iterdir())
    words, said = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        app(words)
    assert end.value.code == 1
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_doctor_names_every_engine(tmp_path: Path) -> None:
    got = call(tmp_path, "doctor")
    assert got.returncode == 0, got.stderr
    assert all(f"engine {name}" in got.stdout for name in ENGINES)
    assert "numba" in got.stdout
    assert f"small calls: run in {'Python' if short_way.part is None else 'C'}" in got.stdout


def test_help_names_every_command(tmp_path: Path) -> None:
    got = call(tmp_path, "--help")
    assert got.returncode == 0, got.stderr
    for name in ("demo", "scan", "doctor", "bench", "lab"):
        assert f" {name} " in got.stdout


def test_without_the_lab_everything_else_works(tmp_path: Path) -> None:
    command = "import upsweep.cli.app as a; a.LAB = 'upsweep.nowhere'; a.app()"
    help_, lab = (
        subprocess.run([sys.executable, "-c", command, *words], cwd=tmp_path, capture_output=True, text=True)
        for words in (["--help"], ["lab", "open", "brent-kung"])
    )
    assert help_.returncode == 0, help_.stderr
    assert " lab " in help_.stdout
    assert lab.returncode == 1
    assert "upsweep.nowhere, which is not here" in lab.stderr


def test_two_at_once_do_not_mix(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    (tmp_path / "y.npy.part").mkdir()
    with FileLock(tmp_path / "y.npy.part" / "lock"):
        got = call(tmp_path, "scan", "x.npy", "--out", "y.npy")
    assert got.returncode == 1
    assert "another process works on this file" in got.stderr
    assert (tmp_path / "y.npy.part").exists()


def test_python_runs_it_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "upsweep", "--version"]
    got = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert got.stdout == f"upsweep {up.__version__}\n", got.stderr


def test_long_whole_numbers_lose_no_digits(tmp_path: Path) -> None:
    """pyarrow alone reads a column of them as floats."""
    whole = [2**64 - 1, 3, 2**63]
    (tmp_path / "t.csv").write_text("".join(f"{line}\n" for line in ("w,v", *(f"1e30,{n}" for n in whole))))
    got = call(tmp_path, "scan", "t.csv", "--op", "min", "--column", "v")
    assert got.returncode == 1
    assert "'v' has whole numbers that int64 does not hold, such as 18446744073709551615" in got.stderr
    done(tmp_path, "scan", "t.csv", "--op", "min", "--column", "v", "--dtype", "uint64", "--out", "y.npy")
    same_bits(np.load(tmp_path / "y.npy"), np.minimum.accumulate(np.array(whole, np.uint64)))
    done(tmp_path, "scan", "t.csv", "--op", "min", "--column", "w", "--out", "w.npy")
    same_bits(np.load(tmp_path / "w.npy"), np.full(3, 1e30))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_missing_values_are_said(tmp_path: Path, suffix: str, capsys) -> None:
    """Also where the first of them stands in a later block, and where a map reads them."""
    rows = 5_000
    v: list[float | None] = [0.5] * rows
    v[-3] = None
    made = pa.table({"v": v, "k": pa.array([None if x is None else 1 for x in v]), "w": range(rows)})
    write = csv.write_csv if suffix == "csv" else parquet.write_table
    write(made, tmp_path / f"t.{suffix}")
    as_nan = r"'{}' of {}.* missing values: dtype='float64' \(--dtype float64\) reads them as NaN"
    for words, says in (
        (["--column", "v"], as_nan.format("v", "double")),
        (["--column", "v", "--reverse"], as_nan.format("v", "double")),
        (["--map", "v * w", "--as", "s"], as_nan.format("v", "double")),
        (["--column", "k"], as_nan.format("k", "int64")),
        (
            ["--map", "k * w", "--as", "s", "--dtype", "float64"],
            "'k' of int64 has missing values: fill them first",
        ),
    ):
        assert status(tmp_path, "scan", f"t.{suffix}", *words, chunk=1 << 12) == 1
        said = capsys.readouterr().err
        assert re.search(says, said), (words, said)
        assert len(list(tmp_path.iterdir())) == 1
    read = csv.read_csv if suffix == "csv" else parquet.read_table
    for name, words in (("v", ["--column", "v"]), ("k", ["--column", "k"]), ("v", ["--map", "v + 0"])):
        done(tmp_path, "scan", f"t.{suffix}", *words, "--dtype", "float64", "--force", chunk=1 << 12)
        sums = read(tmp_path / f"t.scan.{suffix}")[name].to_numpy()
        step = 1.0 if name == "k" else 0.5
        np.testing.assert_allclose(sums[: rows - 3], np.arange(1, rows - 2) * step)
        assert np.isnan(sums[rows - 3 :]).all()


def test_a_full_memory_is_said_and_leaves_what_was_done(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "x.npy", np.arange(9.0))

    def full(*_: object) -> None:
        raise MemoryError("malloc of size 9437184 failed")

    monkeypatch.setattr("upsweep.files._scan", full)
    assert status(tmp_path, "scan", "x.npy", "--out", "y.npy") == 1
    assert capsys.readouterr().err == "upsweep: there is not enough memory: malloc of size 9437184 failed\n"
    assert (tmp_path / "y.npy.part" / "job.json").exists()


def test_only_and_keep_contradict(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert status(tmp_path, "scan", "t.csv", "--column", "a", "--keep", "b", "--only") == 1
    assert "--only keeps no other columns" in capsys.readouterr().err
