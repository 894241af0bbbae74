"""The exercises on the page: the task, an editor, marks, hints in stages, and the step that fails."""

import re

import pytest

from upsweep.lab.exercises import EXERCISES
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
    assert (result["points"], result["of"], result["passed"], result["hints"], result["dials"]) == (
        100,
        100,
        True,
        [],
        None,
    )


@pytest.mark.parametrize("text", [BLANKS, RACES, WRONG])
def test_a_wrong_answer_gets_hints(text):
    result = grade({"number": 1, "text": text})
    assert not result["passed"]
    assert result["hints"]


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
    browser.until("document.querySelector('.total').textContent !== ''", seconds=60)


def test_exercises_are_done_in_the_page(practising):
    practising.do("document.getElementById('welcome').click()")
    titles = practising.do("return [...document.querySelectorAll('.exercises b')].map((b) => b.textContent)")
    assert titles == [row["title"] for row in exercises()]
    practising.do("document.querySelector('.exercises button').click()")
    practising.until("!document.querySelector('.editor').hidden")
    assert practising.do("return document.querySelector('textarea').value") == BLANKS
    numbers = practising.do("return document.querySelector('.gutter').textContent").split("\n")
    assert numbers == [str(k + 1) for k in range(len(BLANKS.split("\n")))]

    hand_in(practising, RACES)
    practising.until("document.querySelectorAll('.line.bad').length === 2")  # the failing step is opened
    bad = practising.do(
        "return [...document.querySelectorAll('.line.bad .no')].map((n) => Number(n.textContent))"
    )
    assert set(bad) == {line_of(RACES, "temp = op("), line_of(RACES, "xy[t] = temp")}
    assert practising.do("return lab.at") > 0
    marked = practising.do(
        "return [...document.querySelectorAll('.gutter .bad')].map((n) => Number(n.textContent))"
    )
    assert set(marked) == set(bad)  # beside the text, too
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
