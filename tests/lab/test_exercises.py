"""Starters of the exercises fail, and model solutions get full marks. Typical wrong answers are told what is wrong where."""

import ast
import re
import subprocess
import sys

import pytest

from portions import every
from upsweep.lab.exercises import EXERCISES
from upsweep.lab.exercises.grade import grade, graded

NUMBER = "    number = cuda.shared.array(1, 'int32')\n    if t == 0:\n        number[0] = cuda.atomic.add(counter, 0, 1)\n"
FENCED = [
    (
        "            before[0] = carries[bid]",
        "            cuda.threadfence()\n            before[0] = carries[bid]",
    ),
    ("        carries[bid + 1] = total\n", "        carries[bid + 1] = total\n        cuda.threadfence()\n"),
]
REVERSE = """    stride //= 4
    while stride > 0:
        cuda.syncthreads()
        index = (t + 1) * 2 * stride - 1
        if index + stride < items:
            xy[index + stride] = op(xy[index], xy[index + stride])
        stride //= 2
"""
ORDER = [
    ("op(xy[index], xy[index - stride])", "op(xy[index - stride], xy[index])"),
    ("op(xy[index + stride], xy[index])", "op(xy[index], xy[index + stride])"),
]
PADDED = [
    (
        "            left = right - stride\n",
        "            left = right - stride\n            left += left >> LOG_BANKS\n            right += right >> LOG_BANKS\n",
    ),
    ("xy[TILE - 1]", "xy[TILE - 1 + ((TILE - 1) >> LOG_BANKS)]"),
    ("xy[t]", "xy[t + (t >> LOG_BANKS)]"),
    ("xy[t + BLOCK]", "xy[t + BLOCK + ((t + BLOCK) >> LOG_BANKS)]"),
]
GUARDED = [
    ("    xy = ", "    items = min(TILE, n - start)\n    xy = "),
    ("    xy[t] = x[start + t]\n", "    if t < items:\n        xy[t] = x[start + t]\n"),
    ("    xy[t + BLOCK] = x[", "    if t + BLOCK < items:\n        xy[t + BLOCK] = x["),
    ("stride < TILE", "stride < items"),
    ("index < TILE", "index < items"),
    ("    y[start + t] = xy[t]\n", "    if t < items:\n        y[start + t] = xy[t]\n"),
    ("    y[start + t + BLOCK]", "    if t + BLOCK < items:\n        y[start + t + BLOCK]"),
]
PHASE = """    cuda.syncthreads()
    if t > 0:
        for k in range(first, last):
            xy[k] = op(xy[first - 1], xy[k])
"""
SHIFTED = [
    (
        "        xy[t] = x[i]\n",
        "        if t > 0:\n            xy[t] = x[i - 1]\n        else:\n            xy[t] = identity\n",
    )
]
BLANKS = [("op(...,", "op(xy[t - stride],"), ("xy[t] = ...", "xy[t] = temp")]
BETWEEN = [
    (
        "        if t >= stride and i < n:\n            xy[t] = temp",
        "        cuda.syncthreads()\n        if t >= stride and i < n:\n            xy[t] = temp",
    )
]
STALE = [("op(temp[pin, t - offset], temp[pout, t])", "op(temp[pin, t - offset], temp[pin, t])")]
SUMS = ("    if t == cuda.blockDim.x - 1:", "    if i < n and (t == cuda.blockDim.x - 1 or i == n - 1):")
CARRIED = ("    y[i] = op(scanned", "    if i < n and cuda.blockIdx.x > 0:\n        y[i] = op(scanned")
NUMBERED = ("    bid = cuda.blockIdx.x\n", NUMBER + "    cuda.syncthreads()\n    bid = number[0]\n")
FIRST = "        xy[source, t] = x[i]\n    cuda.syncthreads()\n"
LAST = "        source, target = target, source\n        cuda.syncthreads()\n"
PLACE, PHASE_3 = "    # here goes the reverse tree\n", "    # here goes phase 3\n"

NINE = [
    ("    if ...:\n        xy[t] = ...", "    if i < n:\n        xy[t] = x[i]"),
    ("stride < ...", "stride < cuda.blockDim.x"),
    ("        if ...:", "        if t >= stride and i < n:"),
    ("op(...,", "op(xy[t - stride],"),
    ("xy[t] = ...", "xy[t] = temp"),
    ("stride *= ...", "stride *= 2"),
]

SOLUTIONS = {
    1: BLANKS,
    2: SHIFTED,
    3: BETWEEN,
    4: [(FIRST, FIRST.split("    cuda")[0]), (LAST, LAST.split("        cuda")[0])],
    5: STALE,
    6: GUARDED,
    7: [(PLACE, REVERSE)],
    8: PADDED,
    9: ORDER,
    10: [(PHASE_3, PHASE)],
    11: [SUMS, CARRIED],
    12: [NUMBERED, *FENCED],
    13: [
        ("t = ...", "t = cuda.threadIdx.x"),
        ("i = ...", "i = cuda.blockIdx.x * cuda.blockDim.x + t"),
        *NINE,
    ],
    14: [(f"\n{name} = ...", f"\n{name} = {value}") for name, value in (
        ("HALF_WARPS", [2, 4, 4, 4, 2, 1]), ("FULL_WARPS", (2, 2, 2, 2, 2, 1)), ("PADDED", 1), ("PADDED_FOR_16", 2),
        ("ODD_STRIDE", 1))],
    15: [(f"\n{name} = ...", f"\n{name} = {value}") for name, value in (
        ("NAIVE_WORK", 120), ("KOGGE_STONE_WORK", 49), ("KOGGE_STONE_STEPS", 4), ("KOGGE_STONE_BARRIERS", 8),
        ("BRENT_KUNG_WORK", 26), ("BRENT_KUNG_STEPS", 7), ("BLELLOCH_SWAPS", 15), ("RATIO_AT_1024", 9.01))],
    16: [(f"\n{name} = ...", f"\n{name} = {value}") for name, value in (
        ("KOGGE_STONE", 5), ("MODULO", 191), ("NEIGHBOURS", 5), ("HALF_SPLIT_SECTORS", 32), ("INTERLEAVED_SECTORS", 64))],
    17: [(f"\n{name} = ...", f"\n{name} = {value}") for name, value in (
        ("SEQUENTIAL_ADDITIONS", 15), ("FIRST_LEVEL", [11]), ("SECOND_LEVEL", [5, 9, 13]), ("FIRST_INDEX", 7),
        ("INPUTS_AFTER_2_LEVELS", 4), ("ORDER_LOST", True), ("CYCLES_128_PADDED", 112), ("TWENTY_TIMES", 18.95), ("SNIR", 2),
        ("LAUNCHES", 3), ("GLOBAL_WORDS", 4), ("TIMES_BRENT_KUNG", 4.5))],
    18: [("    if t < n:\n        kept[t] = flags[t]\n", "    kept[t] = 0\n    if t > 0:\n        kept[t] = flags[t - 1]\n"),
         ("    y[kept[t]] = x[t]", "    if flags[t] != 0:\n        y[kept[t]] = x[t]")],
    19: [("    # here goes the scatter\n", """    cuda.syncthreads()
    if (x[t] >> bit) & 1 == 0:
        y[zeros[t]] = x[t]
    else:
        y[total[0] + t - zeros[t]] = x[t]
""")],
    20: [("        y[i] = prefixes[highs[i]] - prefixes[lows[i]]", """        count = prefixes[highs[i]]
        if lows[i] > 0:
            count = count - prefixes[lows[i] - 1]
        y[i] = count""")],
    21: [("cuda.blockIdx.x * length + t", "cuda.blockIdx.x * lead + t * step")],
    22: [("        y[i] = total", """        if lefts[i] > 0:
            total = total - table[bottoms[i] * width + lefts[i] - 1]
            if tops[i] > 0:
                total = total + table[(tops[i] - 1) * width + lefts[i] - 1]
        y[i] = total""")],
}  # fmt: skip

WRONG = {
    "a level begins too late": (
        1,
        [
            ("if t >= stride and i < n:\n            temp", "if t > stride and i < n:\n            temp"),
            *BLANKS,
        ],
        "values",
        "fill_the_blanks.py:26: thread 1 has given temp no value when it comes here",
    ),
    "exclusive: take the item away again": (
        2,
        [("        y[i] = xy[t]", "        y[i] = xy[t] - x[i]")],
        "values",
        "the items are strings in this run: only `op` combines them",
    ),
    "all blocks write the first items": (
        13,
        [("t = ...", "t = cuda.threadIdx.x"), ("i = ...", "i = t"), *NINE],
        "races",
        "WAW on y.*\\n.*\\n.*blocks that do not tell their items apart",
    ),
    "everybody has a place": (
        18,
        [
            (
                "    if t < n:\n        kept[t] = flags[t]\n",
                "    kept[t] = 0\n    if t > 0:\n        kept[t] = flags[t - 1]\n",
            )
        ],
        "races",
        "WAW on y.*\\n.*\\n.*items that are not kept",
    ),
    "the bit at the wrong end": (
        19,
        [*SOLUTIONS[19], ("x[t - 1] >> bit", "x[t - 1] << bit")],
        "values",
        "a zero goes to the number of zeros before it",
    ),
    "a question that nobody asked": (
        20,
        [*SOLUTIONS[20], ("if i < n:", "if i <= n:")],
        "races",
        "highs.*\\n.*threads with i >= n",
    ),
    "a box that nobody asked for": (
        22,
        [*SOLUTIONS[22], ("if i < n:", "if i <= n:")],
        "races",
        "bottoms.*\\n.*threads with i >= n",
    ),
    "the sum of a block that lacks one item": (
        11,
        [SUMS, CARRIED, ("if i < n and (t ==", "if i <= n and (t ==")],
        "races",
        "WAW on sums",
    ),
    "before the first bin": (
        20,
        [("- prefixes[lows[i]]", "- prefixes[lows[i] - 1]")],
        "values",
        r"y\[0\] was made in line 15, `y\[i\] = prefixes",
    ),
    "the neighbour to the right": (
        1,
        [("op(...,", "op(xy[t - 1],"), ("xy[t] = ...", "xy[t] = temp")],
        "values",
        "2 \\* stride items",
    ),
    "add in place": (
        1,
        [("op(...,", "op(xy[t - stride],"), ("xy[t] = ...", "xy[t] = op(xy[t - stride], xy[t])")],
        "races",
        "line 26",
    ),
    "exclusive: no identity": (
        2,
        [("xy[t] = x[i]", "xy[t] = x[i - 1]")],
        "races",
        "out of bounds.*line 17.*\\n.*thread 0 has no item",
    ),
    "exclusive: store shifted, no barrier": (
        2,
        [
            (
                "        y[i] = xy[t]",
                "        if t > 0:\n            y[i] = xy[t - 1]\n        else:\n            y[i] = identity",
            )
        ],
        "races",
        "race.*\\n.*\\n.*shift the load",
    ),
    "exclusive: only the store": (
        2,
        [("        y[i] = xy[t]", "        y[i] = identity")],
        "values",
        "leave x\\[i\\] out",
    ),
    "barrier in the branch": (
        3,
        [
            (
                "            temp = op(xy[t - stride], xy[t])\n",
                "            temp = op(xy[t - stride], xy[t])\n            cuda.syncthreads()\n",
            )
        ],
        "races",
        "divergent barrier.*\\n.*all threads of the block",
    ),
    "one barrier too many": (
        3,
        [*BETWEEN, ("        stride *= 2", "        cuda.syncthreads()\n        stride *= 2")],
        "work",
        "barriers where 8 are enough.*line 2[0-9]",
    ),
    "the needed barrier gone": (
        4,
        [
            ("        cuda.syncthreads()\n        if i < n:", "        if i < n:"),
            (LAST, LAST.split("        cuda")[0]),
        ],
        "races",
        "this barrier was needed",
    ),
    "only the last barrier gone": (
        4,
        [(LAST, LAST.split("        cuda")[0])],
        "work",
        "5 barriers where 4 are enough",
    ),
    "both from the stale half": (
        5,
        [("op(temp[pin, t - offset],", "op(temp[pout, t - offset],")],
        "values",
        "both operands lie in temp\\[pin\\]",
    ),
    "threads that leave": (
        6,
        [*GUARDED, ("    stride = 1\n", "    if t >= items:\n        return\n    stride = 1\n")],
        "races",
        "divergent barrier.*\\n.*must not return",
    ),
    "only the stores are guarded": (6, GUARDED[:3] + GUARDED[5:], "races", "uninitialised.*line 2[0-9]"),
    "the tree from below": (
        7,
        [
            (
                PLACE,
                REVERSE.replace("stride //= 4", "stride = 1")
                .replace("stride > 0", "stride < items")
                .replace("stride //= 2", "stride *= 2"),
            )
        ],
        "values",
        "largest stride down",
    ),
    "no barrier in the reverse tree": (
        7,
        [(PLACE, REVERSE.replace("        cuda.syncthreads()\n", ""))],
        "races",
        "a barrier before line 3[0-9]",
    ),
    "one thread does it": (
        7,
        [
            (
                PLACE,
                "    if t == 0:\n        for k in range(1, items):\n            xy[k] = op(xy[k - 1], x[start + k])\n",
            )
        ],
        "work",
        "one after the other",
    ),
    "Kogge and Stone instead": (
        7,
        [
            ("index = (t + 1) * 2 * stride - 1", "index = -1"),
            (
                PLACE,
                """    stride = 1
    while stride < items:
        cuda.syncthreads()
        if t >= stride and t < items:
            a = op(xy[t - stride], xy[t])
        if t + BLOCK >= stride and t + BLOCK < items:
            b = op(xy[t + BLOCK - stride], xy[t + BLOCK])
        cuda.syncthreads()
        if t >= stride and t < items:
            xy[t] = a
        if t + BLOCK >= stride and t + BLOCK < items:
            xy[t + BLOCK] = b
        stride *= 2
""",
            ),
            ("        if index < items:\n", "        if index >= 0 and index < items:\n"),
        ],
        "work",
        "49 operations where 26 are enough",
    ),
    "padded in the up-sweep alone": (
        8,
        [
            (
                "            left = right - stride\n            xy[right] =",
                PADDED[0][1] + "            xy[right] =",
            )
        ],
        "values",
        "padded everywhere in the same way",
    ),
    "padded for 16 banks": (
        8,
        [(a, b.replace("LOG_BANKS", "(LOG_BANKS - 1)")) for a, b in PADDED],
        "races",
        "highest padded index",
    ),
    "half of the order": (
        9,
        ORDER[:1],
        "values",
        "in the wrong order.*\\n.*before xy\\[index \\+ stride\\]\\ny\\[2\\] was made in line 3",
    ),
    "phase 3 without a barrier": (
        10,
        [(PHASE_3, PHASE.removeprefix("    cuda.syncthreads()\n"))],
        "races",
        "begins when phase 2 has ended",
    ),
    "phase 3 for the last item, too": (
        10,
        [(PHASE_3, PHASE.replace("range(first, last)", "range(first, last + 1)"))],
        "values",
        "its last item has it already",
    ),
    "phase 3 for thread 0, too": (
        10,
        [(PHASE_3, PHASE.replace("if t > 0:", "if t >= 0:"))],
        "races",
        "out of bounds.*\\n.*thread 0 has no section",
    ),
    "the last block leaves no sum": (
        11,
        [CARRIED, ("    if t == cuda.blockDim.x - 1:", "    if t == cuda.blockDim.x - 1 and i < n:")],
        "races",
        "sums.*\\n.*the last block may not be full",
    ),
    "its own sum, too": (
        11,
        [SUMS, CARRIED, ("scanned[cuda.blockIdx.x - 1]", "scanned[cuda.blockIdx.x]")],
        "values",
        "all blocks before its own",
    ),
    "numbers, but no fences": (12, [NUMBERED], "races", "race.*carries.*\\n.*threadfence"),
    "fences, but no numbers": (12, FENCED, "races", "deadlock.*\\n.*cannot start"),
    "every thread takes a number": (
        12,
        [("    bid = cuda.blockIdx.x\n", "    bid = cuda.atomic.add(counter, 0, 1)\n"), *FENCED],
        "races",
        "line 35.*never ends",
    ),
    "a number without a barrier": (
        12,
        [("    bid = cuda.blockIdx.x\n", NUMBER + "    bid = number[0]\n"), *FENCED],
        "races",
        "race|uninitialised",
    ),
}


def answer(folder, number, changes):
    """A file that holds the starter, with these texts in place of those."""
    text = EXERCISES[number].starter
    for old, new in changes:
        assert old in text, f"exercise {number} has no {old!r}"
        text = text.replace(old, new)
    path = folder / f"{EXERCISES[number].name}.py"
    path.write_text(text)
    return path


def mark(result, what):
    return next(m for m in result.marks if m.what == what)


def marks(folder, number, changes):
    path = answer(folder, number, changes)
    return graded(path.read_text(), path.name)


def test_there_are_twenty_and_more():
    assert list(EXERCISES) == list(range(1, 23))
    assert all(f"Exercise {n}:" in row.task for n, row in EXERCISES.items())
    assert EXERCISES[13].starter.count("...") - EXERCISES[13].task.count("...") == 9


@pytest.mark.parametrize("number", every(6, EXERCISES))
def test_starters_fail_and_solutions_pass(number, tmp_path):
    assert not marks(tmp_path, number, []).passed
    result = marks(tmp_path, number, SOLUTIONS[number])
    assert result.passed, str(result)


@pytest.mark.parametrize("number", [number for number, row in EXERCISES.items() if not row.questions])
def test_doing_nothing_earns_nothing(number):
    """This answer makes no race and does no work. Both are worth points only where the values are right."""
    tree = ast.parse(EXERCISES[number].starter)
    for kernel in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        kernel.body = [ast.Pass()]
    result = graded(ast.unparse(tree))
    assert result.points == 0, str(result)
    assert all(m.remarks for m in result.marks)


@pytest.mark.parametrize("number", [number for number, row in EXERCISES.items() if row.questions])
def test_a_wrong_prediction_is_answered(number, tmp_path):
    first, *rest = SOLUTIONS[number]
    result = marks(tmp_path, number, [(first[0], first[0].replace("...", "-1")), *rest])
    assert 0 < result.points < 100
    (remark,) = result.marks[0].remarks
    assert re.search(r"is .*, and not -1\n  why: \w", remark)


HIDDEN = {
    "sixteen for the block": (
        1, [*BLANKS, ("stride < cuda.blockDim.x", "stride < 16")], "n = 70: wrong value: y\\[16\\] holds x1..x16"),
    "a shifted load of everybody": (
        5, [*STALE, ("    if i < n:\n        if t > 0:", "    if True:\n        if t > 0:")], "n = 70: out of bounds"),
    "one block's i": (1, [*BLANKS, ("cuda.blockIdx.x * cuda.blockDim.x + t", "t")], "n = 70: .*never written|n = 70: .*race"),
    "a warp's barrier for the block's": (1, [*BLANKS, ("cuda.syncthreads()", "cuda.syncwarp()")], "n = 70: race"),
    "the same in exercise 3": (3, [*BETWEEN, ("cuda.syncthreads()", "cuda.syncwarp()")], "n = 70: race"),
    "a fence that ends at the block": (
        12, [NUMBERED, *[(a, b.replace("threadfence()", "threadfence_block()")) for a, b in FENCED]], "race.*no fenced flag"),
    "the items of the task": (2, [*SHIFTED, ("xy[t] = identity", "xy[t] = identity\n            xy[t] = 0")],
                             "make_it_exclusive.py:2[0-9]: TypeError"),
}  # fmt: skip


@pytest.mark.parametrize("name", every(3, HIDDEN))
def test_what_only_other_sizes_show(name, tmp_path):
    number, changes, says = HIDDEN[name]
    result = marks(tmp_path, number, changes)
    assert not result.passed
    assert re.search(says, str(result)), str(result)


TRICKS = {
    "it leaves": "import sys\nsys.exit(0)\n",
    "it replaces the grader": "import upsweep.lab.exercises.grade as g\ng.graded = lambda *a: None\ng.POINTS.clear()\n",
    "it replaces the check": "import upsweep.lab.checks as c\nc.check = lambda *a, **k: c.Report()\n",
    "its import never ends": "while True:\n    pass\n",
    "it kills its process": "import os\nos.kill(os.getpid(), 9)\n",
}


@pytest.mark.parametrize("trick", every(3, TRICKS))
def test_what_stands_beside_the_kernel_changes_nothing(trick, tmp_path):
    path = answer(tmp_path, 3, [])
    honest = graded(path.read_text(), path.name)
    path.write_text(path.read_text() + TRICKS[trick])
    assert [m.points for m in grade(path).marks] == [m.points for m in honest.marks]


def test_the_reference_is_no_answer(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from upsweep.textbook.trees import brent_kung as work_efficient\n")
    with pytest.raises(ValueError, match="holds neither the function of an exercise"):
        grade(path)
    borrowed = EXERCISES[7].starter.split("def ")[0] + (
        "from upsweep.textbook.trees import brent_kung\n\ndef work_efficient(x, y, n):\n    brent_kung(x, y, n)\n"
    )
    assert "NameError" in str(graded(borrowed))


def test_kernels_reach_nothing_of_python(tmp_path):
    for line in ("open('/etc/passwd')", "exec('1')", "__import__('os')", "y[0] = print(1)", "np.load('a')"):
        result = marks(tmp_path, 3, [*BETWEEN, ("    stride = 1\n", f"    {line}\n    stride = 1\n")])
        assert result.points == 0, line
        assert "missing_barrier.py:18" in str(result), str(result)


def test_limits_of_time_and_memory(tmp_path, monkeypatch):
    hungry = "    a = 9 ** 9 ** 9\n    stride = 1\n"
    path = answer(tmp_path, 3, [*BETWEEN, ("    stride = 1\n", hungry)])
    monkeypatch.setattr("upsweep.lab.exercises.grade.SECONDS", 3)
    result = grade(path)
    assert result.points == 0
    assert "was stopped" in str(result)
    monkeypatch.setattr("upsweep.lab.exercises.grade.SECONDS", 600)
    for wide in ("1 << 100000000000", "cuda.local.array(1000000000, dtype)"):
        path = answer(tmp_path, 3, [*BETWEEN, ("    stride = 1\n", f"    a = {wide}\n    stride = 1\n")])
        result = grade(path)
        assert result.points == 0
        assert "memory" in str(result).lower()
        assert "Traceback" not in str(result)


def test_a_forgotten_doubling_is_told_at_once(tmp_path):
    result = marks(tmp_path, 3, [*BETWEEN, ("        stride *= 2\n", "")])
    assert "this loop never ends: after 8 rounds stride = 1 again" in str(result)


@pytest.mark.parametrize("name", every(12, WRONG))
def test_wrong_answers_are_told_why(name, tmp_path):
    number, changes, what, says = WRONG[name]
    result = marks(tmp_path, number, changes)
    blamed = mark(result, what)
    assert blamed.points < blamed.of, str(result)
    assert re.search(says, "\n".join(blamed.remarks)), str(result)
    assert re.search(r"line \d+|\.py:\d+|y is", str(result)), str(result)


def test_the_line_that_is_named_is_the_files_own(tmp_path):
    path = answer(tmp_path, 3, [])
    said = str(grade(path))
    number = int(re.search(r"a barrier before line (\d+)", said)[1])
    assert path.read_text().splitlines()[number - 1].strip() == "if t >= stride and i < n:"
    assert f"line {number + 1}, `xy[t] = temp`" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def other(x):\n    pass\n", "neither the function of an exercise"),
        ("def broken(:\n", ":1:"),
    ],
)
def test_files_that_answer_nothing(text, says, tmp_path):
    path = tmp_path / "some.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        grade(path)


def test_code_that_no_kernel_has_is_shown_with_its_line(tmp_path):
    path = answer(tmp_path, 2, [("    stride = 1\n", "    import os\n    stride = 1\n")])
    result = grade(path)
    assert result.points == 0
    assert "make_it_exclusive.py:18: a kernel cannot use import" in str(result)


def test_commands(tmp_path):
    def run(*args):
        return subprocess.run(
            [sys.executable, "-c", "from upsweep.cli import main; main()", "lab", *args],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    listed = run("exercise")
    if listed.returncode:
        pytest.skip("the commands need typer: pip install 'upsweep[lab]'")
    assert "Exercise 12" in listed.stdout
    assert "missing barrier" in run("exercise", "3").stdout
    # The command does not overwrite an answer.
    assert run("exercise", "3").returncode == 1
    graded = run("grade", "missing_barrier.py")
    assert (graded.returncode, "before line 23" in graded.stdout) == (1, True), graded.stdout + graded.stderr
    answer(tmp_path, 3, SOLUTIONS[3])
    assert run("grade", "missing_barrier.py").returncode == 0
