"""The exercises on the page: the task, an editor, marks, hints in stages, and the failing step."""

import json
import re

import pytest

from upsweep.lab.checks import check
from upsweep.lab.exercises import EXERCISES
from upsweep.lab.page.dials import Dials
from upsweep.lab.page.played import built
from upsweep.lab.page.practice import exercises, grade

BLANKS = EXERCISES[1].starter
RIGHT = BLANKS.replace("op(..., xy[t])", "op(xy[t - stride], xy[t])").replace("xy[t] = ...", "xy[t] = temp")
RACES = RIGHT.replace(
    "            temp = op(xy[t - stride], xy[t])\n        cuda.syncthreads()\n",
    "            temp = op(xy[t - stride], xy[t])\n",
)
WRONG = RIGHT.replace("op(xy[t - stride], xy[t])", "op(xy[t], xy[t])")


def line_of(text, part):
    return 1 + next(k for k, line in enumerate(text.splitlines()) if part in line)


def test_a_right_answer_has_all_marks():
    result = grade({"number": 1, "text": RIGHT})
    assert (result["points"], result["of"], result["passed"], result["hints"]) == (100, 100, True, [])
    # The page plays the answer itself.
    assert check(built(Dials.read(result["dials"])).run()).ok
    assert "op(xy[t - stride], xy[t])" in result["dials"]["edits"]["kogge_stone"]


@pytest.mark.parametrize("text", [BLANKS, RACES, WRONG])
def test_a_wrong_answer_gets_hints(text):
    result = grade({"number": 1, "text": text})
    assert not result["passed"]
    assert result["hints"]


def test_an_answer_that_was_stopped_is_not_run_again(monkeypatch):
    monkeypatch.setattr("upsweep.lab.exercises.grade.SECONDS", 0.01)
    monkeypatch.setattr("upsweep.lab.page.practice._runs_of", lambda *_, **__: pytest.fail("run again"))
    result = grade({"number": 1, "text": WRONG})
    assert result["dials"] is None
    assert "was stopped" in result["hints"][0]


def test_the_answer_of_another_exercise_is_none():
    """Also where both stand in one text, the one that is asked for is marked."""
    with pytest.raises(ValueError, match=r"does not hold missing_barrier: exercise 3"):
        grade({"number": 3, "text": RIGHT})
    both = grade({"number": 3, "text": f"{EXERCISES[3].starter}\n\n{RIGHT}"})
    assert both["points"] < both["of"]


@pytest.mark.parametrize("text", ["def fill_the_blanks(x, y, n:\n", "x = 1\n"])
def test_what_answers_nothing_is_refused(text):
    with pytest.raises(ValueError, match=r"fill_the_blanks"):
        grade({"number": 1, "text": text})


def test_hints_go_from_the_general_to_the_particular():
    hints = grade({"number": 1, "text": WRONG})["hints"]
    assert "wrong value" in hints[0]
    assert hints[1] == "A" + EXERCISES[1].why["wrong value"][1:]  # names keep their capitals
    assert str(line_of(WRONG, "op(xy[t], xy[t])")) in hints[2]
    assert "kogge-stone" in hints[-1]
    assert len(hints) == 4


@pytest.fixture
def practising(chromium, server):
    chromium.chrome(
        "Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False
    )
    chromium.open(server.url)
    yield chromium
    assert chromium.complaints() == []
    chromium.chrome("Emulation.clearDeviceMetricsOverride")


def hand_in(browser, text):
    browser.do(
        "document.querySelector('textarea').value = arguments[0]; document.querySelector('.total').textContent = '';"
        "document.querySelector('.editor').requestSubmit()",
        text,
    )
    browser.until("document.querySelector('.total').textContent !== ''")


def test_exercises_are_done_in_the_page(practising):
    practising.do("document.getElementById('welcome').click()")
    titles = practising.do("return [...document.querySelectorAll('.exercises b')].map((b) => b.textContent)")
    assert titles == [row["title"] for row in exercises()]
    sources = practising.do(
        "return [...document.querySelectorAll('.exercises span')].map((b) => b.textContent)"
    )
    assert sources == [row["source"] for row in exercises()]
    # A title is a few words, and its source stands below it.
    assert not any(set("().") & set(title) for title in titles)
    assert all(sources)
    practising.do("document.querySelector('.exercises button').click()")
    practising.until("!document.querySelector('.editor').hidden")
    assert practising.do("return document.querySelector('textarea').value") == BLANKS
    numbers = practising.do("return document.querySelector('.gutter').textContent").split("\n")
    assert numbers == [str(k + 1) for k in range(len(BLANKS.split("\n")))]

    hand_in(practising, RACES)
    # The failing step is opened.
    practising.until("document.querySelectorAll('.line.bad').length === 2")
    bad = practising.do(
        "return [...document.querySelectorAll('.line.bad .no')].map((n) => Number(n.textContent))"
    )
    assert set(bad) == {line_of(RACES, "temp = op("), line_of(RACES, "xy[t] = temp")}
    assert practising.do("return lab.at") > 0
    marked = practising.do(
        "return [...document.querySelectorAll('.gutter .bad')].map((n) => Number(n.textContent))"
    )
    # The mark stands beside the text, too.
    assert set(marked) == set(bad)
    assert practising.do("return document.querySelector('textarea').value") == RACES

    hand_in(practising, WRONG)
    practising.until("document.querySelector('.pane').dataset.findings.includes('wrong value')")
    assert practising.do("return document.querySelector('.hints').children.length") == 0
    total = int(re.search(r"of (\d)", practising.do("return document.querySelector('.hint').textContent"))[1])
    for k in range(1, total + 1):
        practising.do("document.querySelector('.hint').click()")
        assert practising.do("return document.querySelector('.hints').children.length") == k
    assert practising.do("return document.querySelector('.hint').disabled")

    hand_in(practising, RIGHT)
    assert practising.do("return document.querySelector('.total').textContent") == "100 of 100: done!"
    # The verdict and the picture are those of this answer, no longer those of the wrong one.
    practising.until("document.querySelector('.pane').dataset.findings === ''")
    assert practising.do("return document.querySelector('.verdict').textContent").startswith("No race.")

    # Nothing in an exercise leads to the textbook's kernel, which is the answer.
    ways = practising.do(
        "return [...document.querySelectorAll('.pane button')].filter((b) => b.checkVisibility()).map((b) => b.textContent)"
    )
    assert not {"Edit", "Close", "Back to the original", "Back to the textbook"} & set(ways)
    assert not any("Rung" in way or "Try it" in way for way in ways)


def test_a_draft_survives_leaving_and_loading_again(practising):
    practising.do(
        "document.getElementById('welcome').click(); document.querySelector('.exercises button').click()"
    )
    practising.until("!document.querySelector('.editor').hidden")
    practising.do(
        "const t = document.querySelector('textarea'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))",
        WRONG,
    )
    practising.do("document.querySelector('.leave').click(); lab.start.practise(lab.data.exercises[0])")
    practising.until("!document.querySelector('.editor').hidden")
    assert practising.do("return document.querySelector('textarea').value") == WRONG
    practising.do("location.reload()")
    practising.until("document.documentElement.dataset.ready === 'yes'")
    practising.do("lab.start.practise(lab.data.exercises[0])")
    practising.until("!document.querySelector('.editor').hidden")
    assert practising.do("return document.querySelector('textarea').value") == WRONG
    practising.do("document.querySelector('.drop').click()")
    practising.until(
        "document.querySelector('textarea').value === arguments[0]".replace(
            "arguments[0]", json.dumps(BLANKS)
        )
    )


def test_what_is_typed_while_a_text_is_marked_stays(practising):
    practising.do("lab.start.practise(lab.data.exercises[0])")
    practising.until("!document.querySelector('.editor').hidden")
    typed = "const t = document.querySelector('textarea'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))"
    practising.do(f"document.querySelector('.editor').requestSubmit(); {typed}", f"{WRONG}# typed on")
    practising.until("document.querySelector('.total').textContent !== ''")
    practising.do("document.querySelector('.total').textContent = ''")
    hand_in(practising, WRONG)
    practising.do(f"document.querySelector('.editor').requestSubmit(); {typed}", f"{WRONG}# typed on")
    practising.until("document.querySelector('.pane').dataset.practice === 'run' && lab.at > 0")
    assert practising.do("return document.querySelector('textarea').value") == f"{WRONG}# typed on"


def test_a_question_shows_no_run_that_answers_it(practising):
    number = next(row.number for row in EXERCISES.values() if row.questions)
    practising.do("lab.start.practise(lab.data.exercises[arguments[0] - 1])", number)
    practising.until("!document.querySelector('.editor').hidden")
    for part in (".net", ".memory", ".counts", ".banks", ".threads", ".verdict"):
        assert not practising.do("return document.querySelector(arguments[0]).checkVisibility()", part), part
    # Names of code are set as code.
    assert (
        practising.do("return document.querySelector('.task code').textContent")
        == "upsweep lab reduction --n 64"
    )
    hand_in(practising, EXERCISES[number].starter)
    assert practising.do("return document.querySelector('.total').textContent") == "0 of 100"
    practising.do("document.querySelector('.leave').click()")
    assert practising.do("return document.querySelector('.net').checkVisibility()")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("        stride *= 2\n", "", "never ends"),
        ("    stride = 1\n", "    stride = 1\n    while True:\n        stride += 1\n", "never ends"),
        ("op(xy[t - stride], xy[t])", "op(xy[t + stride], xy[t])", "outside of xy"),
    ],
)
def test_what_a_student_may_do_to_a_kernel_is_said(practising, old, new, says):
    practising.do("lab.start.practise(lab.data.exercises[0])")
    practising.until("!document.querySelector('.editor').hidden")
    hand_in(practising, RIGHT.replace(old, new))
    practising.until(
        "!document.querySelector('.pane').ariaBusy.includes('true') && document.querySelector('.finding')"
    )
    assert says in practising.do("return document.querySelector('.verdict').innerText")


def test_a_text_that_is_no_python_clears_the_marks_before(practising):
    practising.do("lab.start.practise(lab.data.exercises[0])")
    practising.until("!document.querySelector('.editor').hidden")
    hand_in(practising, WRONG)
    practising.until("document.querySelector('.finding')?.checkVisibility()")
    practising.do(
        "document.querySelector('textarea').value = 'def fill_the_blanks(x, y, n:';"
        "document.querySelector('.editor').requestSubmit()"
    )
    practising.until("!document.querySelector('.trouble').hidden")
    assert "fill_the_blanks.py:1:" in practising.do("return document.querySelector('.trouble').textContent")
    assert practising.do("return document.querySelector('.total').textContent") == ""
    assert not practising.do("return document.querySelector('.verdict').checkVisibility()")


BOX = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"


def test_a_beginner_sees_the_task_the_marks_and_no_verdict_on_another_kernel(practising):
    practising.do(
        "document.getElementById('welcome').click(); document.querySelector('.exercises button').click()"
    )
    practising.until("document.activeElement.tagName === 'TEXTAREA'")
    practising.until("document.querySelector('textarea').scrollTop > 0")
    picked = "const t = document.querySelector('textarea'), at = t.selectionStart; return [at, t.value.slice(at, t.selectionEnd)]"
    # The first blank.
    assert practising.do(picked) == [BLANKS.index("...", BLANKS.index("def ")), "..."]
    task, clock, editor = (practising.do(BOX, part) for part in (".task", "#transport", "textarea"))
    assert clock["bottom"] <= task["top"] < task["bottom"] < editor["top"] < 900
    hidden = "return ['.verdict', '.choose', '.dials'].every((part) => !document.querySelector(part).checkVisibility())"
    assert practising.do(hidden)
    level = "return ['textarea', '.gutter'].map((part) => document.querySelector(part).scrollTop)"
    text, gutter = practising.do(level)
    # A line and its number.
    assert abs(text - gutter) <= 1

    practising.do("scrollTo(0, 600)")
    hand_in(practising, BLANKS)
    practising.until("!document.querySelector('.trouble').hidden")
    said = practising.do("return document.querySelector('.trouble').textContent")
    assert "a blank is left" in said
    assert "temp = op(..., xy[t])" in said
    # Nothing has run yet.
    assert practising.do(hidden)
    marks = practising.do(BOX, ".marks")
    assert clock["height"] <= marks["top"] < 900
    practising.do("document.querySelector('.leave').click()")
    assert practising.do(
        "return document.querySelector('.trouble').hidden && document.querySelector('.verdict').checkVisibility()"
    )


def test_the_start_screen_says_where_to_begin(practising):
    practising.do("document.getElementById('welcome').click(); document.querySelector('.begin').click()")
    practising.until("document.querySelector('.pane').dataset.kernel === 'sequential'")
    assert practising.do("return document.getElementById('start').hidden")
