"""Code is compiled once, whichever process needs it first. Later processes load it without a compiler."""

import ast
import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types
from numba.core import ir

import upsweep as up
from upsweep.cache import folder
from upsweep.cpu import image, kept, lowering, shipped, units
from upsweep.cpu.code import Unit, callable_at, compiled
from upsweep.cpu.jitted import jitted
from upsweep.cpu.kept import Code, digest
from upsweep.cpu.memory import Items, inner, of_words
from upsweep.cpu.runs import runner


def run(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )


# Most tests here scan in order, which takes one piece of code where the tree's order takes seven.
UNCOMPILED = "{'numba', 'llvmlite'}.isdisjoint(sys.modules)"
# Of a list another call would be remembered, by one more piece.
SUM = (
    "import array, sys, upsweep as up\n"
    f"print(up.scan(array.array('d', [1.0, 2.0]), order='sequential')[-1], {UNCOMPILED})"
)
SLOWLY = (
    "import time\n"
    "from upsweep.cpu import compile as c\n"
    "compiled = c.compiled\n"
    "def slowly(unit, *how):\n"
    "    time.sleep(1.5 if str(unit.op) == 'add' else 0)\n"
    "    return compiled(unit, *how)\n"
    "c.compiled = slowly\n"
)


@pytest.fixture(scope="module")
def first(shared, tmp_path_factory):
    """A cache folder, and what the process said that compiled the sum of a few float64 into it, slowly."""

    def ran():
        own = str(tmp_path_factory.mktemp("first"))
        done = run(SLOWLY + SUM, UPSWEEP_CACHE_DIR=own)
        return json.dumps([own, done.stdout, done.stderr])

    return json.loads(shared("first.json", ran).read_text())


@pytest.fixture
def begun(first, tmp_path):
    """A copy of that folder, to be changed."""
    return shutil.copytree(first[0], tmp_path / "begun")


def test_processes_share_what_they_compile(begun):
    """One of the processes that need a unit at once compiles it, and the others wait."""
    code = (
        "import time, numpy as np, upsweep as up\n"
        "from upsweep.cpu import code\n"
        "made, compiled = [], code.compiled\n"
        "code.compiled = lambda unit: made.append(unit) or time.sleep(1) or compiled(unit)\n"
        "print(up.scan(np.arange(9, dtype='f2'), lambda a, b: a + b, order='sequential')[-1], len(made))"
    )
    env = {"UPSWEEP_CACHE_DIR": str(begun)}
    before = set(begun.rglob("*.code"))
    with ThreadPoolExecutor(3) as pool:
        said = [r.stdout.split() for r in pool.map(lambda _: run(code, **env), range(3))]
    new = set(begun.rglob("*.code")) - before
    assert [last for last, _ in said] == ["36.0"] * 3
    assert sum(int(made) for _, made in said) == len(new) > 0
    # A file on disk needs no waiting.
    assert run(code, **env).stderr == ""


def test_files_that_are_cut_off_or_hold_other_code_are_made_anew(begun, monkeypatch):
    monkeypatch.setenv("UPSWEEP_CACHE_DIR", str(begun))
    files = {file: file.read_bytes() for file in begun.rglob("*.code")}
    assert files
    for file, whole in files.items():
        assert kept.read(file.name)
        for told in (b"", whole[:7], whole[:-1], b"null\n", b"[1, 2]\n"):
            file.write_bytes(told)
            assert kept.read(file.name) is None
        other = file.rename(file.with_stem("other"))
        other.write_bytes(whole)
        assert kept.read(other.name) is None
        other.unlink()
    assert run(SUM).stdout == "3.0 False\n"
    assert set(begun.rglob("*.code")) == files.keys()
    for file, whole in files.items():
        assert kept.read(file.name)
        assert file.stat().st_size >= len(whole) - 64


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that a process works in stays there")
def test_a_relative_folder_may_be_gone(tmp_path, monkeypatch):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("UPSWEEP_CACHE_DIR", "kept")
    with kept._alone("a.code"):
        pass


def test_operators_share_what_is_around_them(begun):
    """A second operator costs its own function alone: nothing else goes through numba."""
    code = (
        "import numpy as np, upsweep as up\n"
        "from upsweep.cpu import lowering\n"
        "lowered, through = [], lowering._Lowering.run_pass\n"
        "lowering._Lowering.run_pass = lambda self, state: lowered.append(state.func_id.func_name) or through(self, state)\n"
        "for k in (1, 2):\n"
        "    first = len(lowered)\n"
        "    print(up.scan([3.0, 5.0], lambda a, b: a + b + k, order='sequential')[-1])\n"
        "print(sorted(lowered[first:]))"
    )
    said = run(code, UPSWEEP_CACHE_DIR=str(begun)).stdout
    assert said == "9.0\n10.0\n['<lambda>', 'call', 'filled']\n"


def test_dtypes_of_one_size_share_what_is_around_an_operator():
    """Integers do, and floats beside them where no segments are chosen between. Each has an operator of its own."""

    def plan(dtype, segmented=False, op=up.ops.MAX):
        kinds = (np.dtype(dtype),)
        return SimpleNamespace(accumulators=kinds, loads=kinds, segmented=segmented, initial=False, op=op)

    for segmented, around in ((False, 1), (True, 2)):
        made = [units.runs(plan(dtype, segmented), 8) for dtype in ("f4", "i4", "u4")]
        assert (len({unit.frame for unit in made}), len({unit.what for unit in made})) == (around, 3)
    sums, largest = (
        [units.straight(plan(dtype, op=op)) for dtype in ("i4", "u4")] for op in (up.ops.ADD, up.ops.MAX)
    )
    assert sums[0].what == sums[1].what
    assert largest[0].what != largest[1].what


def test_functions_of_words_are_compiled_once_and_for_a_kernel():
    """Importing them compiles nothing. A constant is an int64 like any other."""
    words = (types.int64,)
    twice = of_words(lambda n: n + n)
    assert not twice.overloads
    for kernel in (lambda n: twice(n), lambda n: twice(7) + n):
        inner(kernel).get_compile_result(types.int64(*words))
        assert list(twice.overloads) == [words]


def test_the_loops_over_runs_are_compiled_once(monkeypatch):
    """Spans call them with constants, other chunks with words. With copies for constants a first scan of another dtype took 1.5
    to 1.8 times as long.
    """
    lowered, through = [], lowering._Lowering.run_pass

    def watched(self, state):
        lowered.append(state.func_id.func_name)
        return through(self, state)

    monkeypatch.setattr(lowering._Lowering, "run_pass", watched)
    run_of = runner([np.dtype("f4")], False, False, 16)
    inner(run_of).get_compile_result(types.void(*(types.int64,) * 7))
    loops = ("pass_spans", "sum_runs", "scan_runs", "rise", "settle")
    assert [lowered.count(name) for name in loops] == [1] * 5


def test_variables_are_cleared_where_their_life_ends(monkeypatch):
    """Otherwise LLVM carries their values on, and scans of segments take a quarter longer."""
    ends, through = [], lowering._Lowering.run_pass

    def watched(self, state):
        ends.extend(end for block in state.func_ir.blocks.values() for end in block.find_insts(ir.Del))
        return through(self, state)

    monkeypatch.setattr(lowering._Lowering, "run_pass", watched)
    of_words(lambda n: n + n).get_compile_result(types.int64(types.int64))
    assert ends


@pytest.mark.skipif(not image.HERE, reason="object files are loaded here")
def test_an_image_may_lie_anywhere():
    """Code that reads a number of its own and calls the C library."""

    def make():
        return lambda place, value: write((place,), 0, np.fmod(read((value,), 0), np.float64(0.3)))

    items = Items([np.dtype("f8")], [np.dtype("f8")], True)
    read, write = items.read, items.write
    made = compiled(Unit(("fmod",), 2, make, "fmod"))
    assert "fmod" in made.needs
    given, out = np.array([1.0]), np.zeros(1)
    where = {image.loaded(made) for _ in range(3)}
    assert len(where) == 3
    for place in where:
        out[:] = 0
        status = np.zeros(2, np.int64)
        run_it = callable_at(place, 2)
        assert run_it(status.ctypes.data, status.ctypes.data + 8, out.ctypes.data, given.ctypes.data) == 0
        assert out[0] == np.fmod(1.0, 0.3)


def test_a_slow_first_call_says_why(first):
    notes = first[2].splitlines()
    assert len(notes) == len(set(notes))
    text = "upsweep: compiling add of float64 for this CPU, once; it is kept in"
    assert sum(note.startswith(text) for note in notes) == 1


def test_an_unwritable_cache_is_no_obstacle(tmp_path):
    file = tmp_path / "file"
    file.touch()
    done = run(SUM, UPSWEEP_CACHE_DIR=str(file))
    assert done.stdout == "3.0 False\n"
    assert done.stderr.count("upsweep: cannot keep compiled code") == 1
    assert "UPSWEEP_CACHE_DIR" in done.stderr
    assert "it is kept" not in done.stderr


def test_kernels_of_other_processes_keep_to_themselves_and_need_no_compiler(begun):
    """Code from disk is linked by name: kernels that two processes compiled must not call each other's functions. A third process
    finds all of them, and imports no compiler. The kernel that all of them go through is this process's, or one's before it.
    """
    file = f"{digest(units.kernel().what, here=True)}.code"
    shutil.copy(folder() / "cpu" / file, begun / "cpu")
    run("import numpy as np, upsweep as up; up.scan(np.arange(9000.0))", UPSWEEP_CACHE_DIR=str(begun))
    both = (
        "import sys, numpy as np, upsweep as up\n"
        "for d in ('i8', 'f8'):\n"
        "    for n in (1, 2, 5, 300, 4097, 9000):\n"
        "        np.testing.assert_array_equal(up.scan(np.ones(n, d)), np.arange(1, n + 1))\n"
        f"print(up.scan([1.0, 2.0], order='sequential')[-1], {UNCOMPILED})"
    )
    said = [run(both, UPSWEEP_CACHE_DIR=str(begun)).stdout for _ in range(2)]
    assert said == ["3.0 False\n", f"3.0 {image.HERE}\n"]


def test_numbers_of_keys_need_no_compiler():
    """The second process finds the loops that number keys of each kind, and the loop over the groups."""
    code = (
        "import sys, numpy as np, upsweep as up\n"
        "x, k = np.ones(9), np.arange(9) % 2\n"
        "for keys in (k, k * 10**9, k.astype('S4'), k.astype('S9')):\n"
        "    got = up.scan(x, segments=up.segments.groups(keys), order='sequential')\n"
        "    np.testing.assert_array_equal(got, [1, 1, 2, 2, 3, 3, 4, 4, 5])\n"
        f"print({UNCOMPILED})"
    )
    assert [run(code).stdout for _ in range(2)][1] == f"{image.HERE}\n"


def test_the_code_of_a_release_is_found():
    """The script that ships code makes calls whose own way to their code it knows."""
    code = "import kernels; print(*sorted({unit.frame[0] for unit in kernels.units()}), sep=',')"
    script = Path(__file__).parent.parent / "packaging"
    found = set(run(code, PYTHONPATH=f"{Path(up.__file__).parent.parent}:{script}").stdout.strip().split(","))
    assert found == {
        "blocks", "bring", "counting", "crew", "entry", "group entry", "grouping", "hand", "kernel", "loop", "restart",
        "runs", "short passes", "steps", "straight", "stream", "sweep", "turn in", "turn out", "walk",
    }  # fmt: skip


def test_code_that_comes_with_the_package(tmp_path, monkeypatch):
    """Shipped code is found for the best class that the processor belongs to, and not found once a text that it is made of has
    changed.
    """
    everyone, nobody = (
        shipped.CLASSES[1]._replace(name=name, machine=platform.machine(), wants=frozenset(wants))
        for name, wants in (("everyone", ()), ("nobody", ("a feature that there is not",)))
    )
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(shipped, "CLASSES", (nobody, everyone))
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.setattr(shipped.sys, "platform", "linux")
    unit = units.turn_in(4)
    code, other = compiled(unit), Code(b"no code at all", ["a", "b"], 3, [7])

    def found():
        shipped._shelf.cache_clear()
        return shipped.shipped(unit.what)

    shipped.write(nobody, {digest(unit.what): other})
    assert found() is None
    shipped.write(everyone, {"another": other, digest(unit.what): code, "a third": other})
    assert found() == code._replace(needs=list(code.needs), moved=list(code.moved))
    monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
    assert found() is None
    monkeypatch.delenv("NUMBA_CPU_NAME")
    monkeypatch.setattr(kept, "_texts", lambda: "other texts")
    assert found() is None
    monkeypatch.undo()
    shipped._shelf.cache_clear()


def imported(modules, package):
    """The files of `upsweep` that these modules import, those included that an import in a function asks for."""
    found, to_do = set(), [*modules]
    while to_do:
        folder = package.joinpath(*to_do.pop().split(".")[1:])
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if folder == package or file in found or not file.exists():
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("upsweep"):
                to_do += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def test_compiled_code_is_named_by_all_that_it_is_made_of(tmp_path, monkeypatch):
    """One letter more in any text, or a flag that numba goes by, and code is looked for under another name."""
    copy = shutil.copytree(
        kept.PACKAGE, tmp_path / "upsweep", ignore=shutil.ignore_patterns("__pycache__", "built")
    )
    monkeypatch.setattr(kept, "PACKAGE", copy)
    monkeypatch.setattr(kept, "_texts", kept._texts.__wrapped__)
    own = [
        f"upsweep.{folder}.{file.stem}"
        for folder in ("cpu", "scalars")
        for file in copy.glob(f"{folder}/*.py")
    ]
    files = imported(own, copy)
    assert {"operator.py", "keys.py", "dtypes.py", "kernel.py", "rules.py"} < {file.name for file in files}
    before = digest(())
    for file in files:
        text = file.read_bytes()
        file.write_bytes(text + b"\n")
        assert digest(()) != before, file
        file.write_bytes(text)
    assert digest(()) == before

    monkeypatch.chdir(tmp_path)
    names = {digest((), here=True)}
    for flag in ("BOUNDSCHECK", "DEBUGINFO", "OPT", "CPU_NAME"):
        monkeypatch.setenv(f"NUMBA_{flag}", "1")
        names.add(digest((), here=True))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    names.add(digest((), here=True))
    Path(".numba_config.yaml").write_text("boundscheck: 1")
    names.add(digest((), here=True))
    assert len(names) == 6


def one_more(a):
    return a + 1


def test_functions_that_numba_keeps_are_named_so_too(monkeypatch):
    """By itself numba asks for the time of the function's own file alone, and runs other functions' old code."""

    def found():
        made = jitted()(one_more)
        assert made(1) == 2
        return len(made.stats.cache_hits)

    found()
    assert found() == 1
    monkeypatch.setattr(kept, "_texts", lambda: "other texts")
    assert found() == 0


def test_built_in_operators_go_by_name():
    """One Python's compiled code serves another: the key of a built-in operator's function holds no bytecode."""
    f4 = (np.dtype("f4"),)
    own = Unit(("frame",), 7, lambda: None, "", up.Operator(lambda a, b: a + b * 2), f4)
    for op, known in ((up.ops.ADD, "add"), (up.Operator(lambda a, b: a + b), "add"), (up.ops.MUL, "mul")):
        what = own._replace(op=op).what
        assert known in str(what)
        assert "code" not in str(what)
    assert "code" in str(own.what)
    assert own._replace(op=up.ops.ADD).what != own._replace(op=up.ops.MUL).what != own.what


def test_importing_costs_what_numpy_costs():
    code = (
        "import numpy, sys; known = set(sys.modules); import upsweep; print(sorted(set(sys.modules) - known))"
    )
    loaded = run(code).stdout
    for heavy in ("numba", "torch", "jax", "dask", "cuda", "rich", "click", "llvmlite", "ml_dtypes"):
        assert f"'{heavy}'" not in loaded
