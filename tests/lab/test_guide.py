"""The first ten minutes on the page: the start, the meaning of words, the next thing to look at, and the user's own x,
operator and kernel.
"""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import SIZES, resize, visible

from portions import every
from upsweep import lab
from upsweep.lab.page import own
from upsweep.lab.page.course import GLOSSARY, RUNGS
from upsweep.lab.page.dials import first
from upsweep.lab.page.items import EXAMPLE, identity_of, items_of, operator_of
from upsweep.textbook import KERNELS, kogge_stone

COURSE = (Path(__file__).parents[2] / "docs" / "course.md").read_text(encoding="utf-8")
TAB, ESCAPE, ENTER, SHIFT = "\ue004", "\ue00c", "\ue007", "\ue008"
HOME, LEFT = "\ue011", "\ue012"


# --- the start screen ---------------------------------------------------------------------------------------------------


def test_rungs_are_those_of_the_course():
    assert re.findall(r"^## \d+\. (.+)$", COURSE, re.M) == [rung.title for rung in RUNGS]
    assert all(rung.kernel in KERNELS for rung in RUNGS)


def test_the_page_starts_with_a_definition_and_the_course(chromium, served):
    resize(chromium, 1280, 900)
    chromium.open(served(welcome=True).url)
    assert visible(chromium, "#start")
    assert not visible(chromium, "#panes")
    text = chromium.do("return document.getElementById('start').innerText")
    assert "What is a scan?" in text
    drawn = chromium.do(
        "return [...document.querySelectorAll('.definition text.y')].map((t) => t.textContent)"
    )
    assert drawn == ["3", "4", "11", "11", "15", "16", "22", "25"]
    titles = chromium.do("return [...document.querySelectorAll('.rungs b')].map((b) => b.textContent)")
    assert titles == [rung.title for rung in RUNGS]
    for k, rung in enumerate(RUNGS):
        chromium.do(
            "lab.start.show(true); document.querySelectorAll('.rungs button')[arguments[0]].click()", k
        )
        chromium.until(f"document.querySelector('.pane').dataset.kernel === '{rung.kernel}'")
        assert visible(chromium, ".net canvas"), rung.title
        assert chromium.do("return document.querySelector('.net canvas').clientWidth") > 300
    assert chromium.complaints() == []


def test_a_named_kernel_opens_at_once(opened):
    assert not visible(opened, "#start")
    opened.do("document.getElementById('welcome').click()")
    assert visible(opened, "#start")


# --- words --------------------------------------------------------------------------------------------------------------

POINT = "arguments[0].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))"


def test_terms_explain_themselves_on_hover_and_focus(opened):
    terms = opened.do("return [...document.querySelectorAll('.pane .term')].map((t) => t.dataset.term)")
    assert {
        "work",
        "steps",
        "barriers",
        "depth",
        "fan-out",
        "deficiency",
        "schedule",
        "banks",
        "race",
    } <= set(terms)
    at = "document.querySelector('.pane [data-term=deficiency]')"
    assert not visible(opened, "#tip")
    opened.do(f"{at}.focus()")
    assert visible(opened, "#tip")
    assert opened.do("return document.getElementById('tip').textContent") == GLOSSARY["deficiency"]
    assert opened.do(f"return {at}.getAttribute('aria-describedby')") == "tip"
    opened.key(ESCAPE)
    assert not visible(opened, "#tip")
    opened.do(f"(function () {{ {POINT} }})({at})")
    assert visible(opened, "#tip")
    opened.do(
        "document.querySelector('h1').dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))"
    )
    assert not visible(opened, "#tip")


@pytest.mark.parametrize(("width", "height"), every(3, SIZES[::-1]))
def test_a_term_fits_the_screen(opened, width, height):
    resize(opened, width, height)
    for term in opened.do("return [...document.querySelectorAll('.term')].map((t, k) => k)"):
        box = opened.do(
            "const [k] = arguments, tip = document.getElementById('tip'); document.querySelectorAll('.term')[k].focus();"
            "const t = tip.getBoundingClientRect();"
            "return tip.hidden ? null : [t.left, t.right]",
            term,
        )
        assert box is None or (box[0] >= 0 and box[1] <= width), term


def test_a_term_below_the_fold_explains_itself_to_the_keyboard(opened):
    """Tab scrolls to a word, and the tooltip comes along."""
    resize(opened, 1280, 500)
    opened.do("scrollTo(0, 0)")
    at = "document.querySelector('.counts [data-term=steps]')"
    opened.do(
        f"{at}.focus(); window.gap = () => {{"
        f"const a = {at}.getBoundingClientRect(), b = document.getElementById('tip').getBoundingClientRect();"
        "return Math.min(Math.abs(b.top - a.bottom), Math.abs(a.top - b.bottom)); }"
    )
    opened.until("scrollY > 0 && document.getElementById('tip').checkVisibility() && gap() < 2")
    resize(opened, 1280, 900)


# --- what to look at next -----------------------------------------------------------------------------------------------


def test_every_step_of_the_figure_has_a_caption(opened):
    said = opened.wait_for(
        "const all = [], caption = document.querySelector('.caption');"
        "for (let k = 0; k <= lab.last; k++) { lab.go(k); all.push(caption.textContent); } return all"
    )
    assert "26 grey dots" in said[0]
    assert "8 dots, all of words 1 apart" in said[2]
    assert all("Look at" in one or "Press" in one for one in said)
    assert "26 applications; one thread needs 15" in said[-1]


def test_the_verdict_says_what_to_look_at(opened):
    for k, rung in enumerate(RUNGS):
        opened.wait_for("await lab.panes[0].set(lab.panes[0].opening(args[0]))", rung.kernel)
        said = opened.do("return document.querySelector('.next').innerText")
        assert rung.watch[1:] in said
        if k + 1 < len(RUNGS):
            assert f"Rung {k + 2}: {RUNGS[k + 1].title}" in said
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('brent-kung'))")
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.line.bad').length === 2")
    assert "the two red lines" in opened.do("return document.querySelector('.next').innerText")


def test_a_finding_opens_its_step(opened):
    """The words of a wrong value point at the step in which the value was first made."""
    text = inspect.getsource(kogge_stone.kogge_stone).replace(
        "op(xy[t - stride], xy[t])", "op(xy[t], xy[t - stride])"
    )
    opened.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening('kogge-stone'), op: 'concat', edits: { kogge_stone: args[0] } })",
        text,
    )
    opened.do("document.querySelector('.point').click()")
    step = opened.do("return lab.at")
    flawed = opened.do("return lab.panes[0].run.trace.nodes.filter((n) => n.flaw).map((n) => n.step + 1)")
    assert step == min(flawed)


# --- the editor ---------------------------------------------------------------------------------------------------------


def test_the_editor_has_line_numbers_and_no_trap(opened):
    opened.do("document.querySelector('.edit').click()")
    lines = inspect.getsource(KERNELS["brent-kung"].function).rstrip().split("\n")
    begin = inspect.getsourcelines(KERNELS["brent-kung"].function)[1]
    numbers = opened.do("return document.querySelector('.gutter').textContent").split("\n")
    assert numbers == [str(begin + k) for k in range(len(lines))]
    text = opened.do("return document.querySelector('textarea').value")
    active = "return document.activeElement.tagName + '.' + (document.activeElement.type || '')"
    assert opened.do(active) == "TEXTAREA.textarea"
    opened.key(TAB)
    assert opened.do(active) == "BUTTON.submit"
    opened.do("document.querySelector('textarea').focus()")
    opened.key(ESCAPE)
    assert opened.do(active) == "BUTTON.submit"
    assert opened.do("return document.querySelector('textarea').value") == text
    opened.do("const t = document.querySelector('textarea'); t.focus(); t.setSelectionRange(24, 24)")
    opened.key(ENTER)
    assert opened.do("return document.querySelector('textarea').value").startswith(
        "def brent_kung(x, y, n):\n    \n"
    )
    assert (
        len(opened.do("return document.querySelector('.gutter').textContent").split("\n")) == len(lines) + 1
    )


# --- x and the operator -------------------------------------------------------------------------------------------------


def turn(browser, dial, value):
    browser.do(
        "const f = document.querySelector(`[data-dial=${arguments[0]}]`).firstChild;"
        "f.value = arguments[1]; f.dispatchEvent(new Event('change'))",
        dial,
        value,
    )


def results(browser):
    return browser.do("return lab.panes[0].run.result(lab.last)")


def test_a_dial_for_x(opened):
    turn(opened, "x", EXAMPLE)
    opened.until("document.querySelector('.pane').dataset.n === '8'")
    assert results(opened) == ["3", "4", "11", "11", "15", "16", "22", "25"]
    turn(opened, "op", "max")
    opened.until("document.querySelector('.pane').dataset.op === 'max'")
    assert results(opened) == ["3", "3", "7", "7", "7", "7", "7", "7"]
    turn(opened, "x", "3 pears")
    opened.until("!document.querySelector('.trouble').hidden")
    assert "'pears'" in opened.do("return document.querySelector('.trouble').textContent")


def test_your_own_operator(opened):
    turn(opened, "x", EXAMPLE)
    opened.until("document.querySelector('.pane').dataset.n === '8'")
    assert not visible(opened, ".own-operator")
    turn(opened, "op", "own")
    opened.until("document.querySelector('.pane').dataset.op === 'own'")
    assert visible(opened, ".own-operator")
    turn(opened, "own", "10 * a + b")
    opened.until("lab.panes[0].dials.own.startsWith('10')")
    # The operator is not associative: the tree gives other results than one thread.
    assert results(opened)[:3] == ["3", "31", "317"]
    turn(opened, "own", "a +")
    opened.until("!document.querySelector('.trouble').hidden")
    assert "expression of a and b" in opened.do("return document.querySelector('.trouble').textContent")


def test_items_and_identities():
    assert items_of("", "add", 3) == [1, 2, 3]
    assert items_of("1, 2.5", "add", 3) == [1, 2.5, 1]
    assert items_of("", "concat", 2) == ["a", "b"]
    assert items_of("a b", "own", 2) == ["a", "b"]
    assert (identity_of("max", [3, -4], ""), identity_of("min", [3, -4], "")) == (-4, 3)
    assert identity_of("own", [1], "7") == 7
    assert operator_of("own", "a * 2 + b")(3, 1) == 7
    assert operator_of("own", "b # the later one")(3, 1) == 1
    with pytest.raises(ValueError, match="expression"):
        operator_of("own", "import os")


def test_a_table_in_two_dimensions(opened):
    """The summed-area table is drawn as a rectangle, also where it is large."""
    shape = """
        const columns = (a) => getComputedStyle(a.querySelector('.cells')).gridTemplateColumns.split(' ').length;
        return [...document.querySelectorAll('.array.rows')].map((a) => [a.querySelector('h3').firstChild.data, columns(a)])"""
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('summed-area-table'))")
    assert opened.do(shape) == [["x", 4], ["rows", 4], ["y", 4]]
    opened.wait_for("await lab.panes[0].set({ ...lab.panes[0].dials, n: 100 })")
    assert (
        opened.do("return lab.panes[0].memory.sheets.filter((s) => s.across === 10).map((s) => s.columns)")
        == [10] * 3
    )


# --- your own kernel ----------------------------------------------------------------------------------------------------

MINE = '''"""A file of mine."""
from numba import cuda

WORDS = 32


@cuda.jit
def mine(x, y, n):
    """My first scan."""
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = x[0]
        for k in range(1, n):
            y[k] = op(y[k - 1], x[k])
'''


def test_a_file_is_read_and_not_run(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE + "\nraise SystemExit('this file was run')\n", encoding="utf-8")
    dials = own.read(str(path))
    assert (dials.kernel, dials.sizes, dials.expect) == ("mine", {"WORDS": 32}, "inclusive")
    path.write_text(MINE + "\ndef second(x, y, n):\n    y[0] = x[0]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"2 functions \(mine, second\).*mine.py:mine"):
        own.read(str(path))
    assert own.read(f"{path}:second").kernel == "second"
    with pytest.raises(ValueError, match="no function third"):
        own.read(f"{path}:third")


def test_your_own_file_on_the_page(chromium, served, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    server = served(lambda: own.read(str(path)))
    resize(chromium, 1280, 900)
    chromium.open(server.url)
    assert chromium.do("return document.querySelector('.pane').dataset.kernel") == "mine"
    assert chromium.do("return document.querySelector('.title').textContent") == "My first scan."
    assert results(chromium)[-1] == "136"
    turn(chromium, "n", "5")
    chromium.until("document.querySelector('.pane').dataset.n === '5'")
    assert results(chromium) == ["1", "3", "6", "10", "15"]
    path.write_text(MINE.replace("range(1, n)", "range(1, n - 1)"), encoding="utf-8")
    # The page shows the saved file on reload.
    chromium.open(server.url)
    assert "never written" in chromium.do("return document.querySelector('.pane').dataset.findings")
    assert chromium.complaints() == []


def test_the_command_writes_a_page_of_your_file(tmp_path):
    pytest.importorskip("click", reason="the command needs click: pip install 'upsweep[lab]'")
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    code = "from upsweep.cli import main; main()"
    command = [sys.executable, "-c", code, "lab", "nothing.py"]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert failed.returncode == 1
    assert "nothing.py" in failed.stderr
    assert "Traceback" not in failed.stderr


def mine(x, y, n):
    """A kernel in a notebook."""
    t = cuda.threadIdx.x  # noqa: F821
    xy = cuda.shared.array(16, dtype)  # noqa: F821
    xy[t] = x[t]
    cuda.syncthreads()  # noqa: F821
    y[t] = op(xy[t - 1], xy[t]) if t > 0 else xy[t]  # noqa: F821


def test_a_trace_as_a_page(chromium, tmp_path):
    trace = lab.trace(mine, n=16)
    lab.html(trace, tmp_path / "mine.html")
    resize(chromium, 1280, 900)
    chromium.open((tmp_path / "mine.html").as_uri())
    assert chromium.do("return document.querySelector('.pane').dataset.kernel") == "mine"
    assert chromium.do("return lab.last") == len(lab.to_dict(trace)["steps"])
    assert results(chromium) == [str(v) for v in trace.values]
    assert (tmp_path / "mine.html").stat().st_size < 300_000
    assert chromium.complaints() == []


def test_a_trace_in_a_notebook(chromium, tmp_path):
    """The output of a cell: the page in a frame of its own, which steps."""
    path = tmp_path / "cell.html"
    trace = lab.trace("brent-kung", n=16)
    path.write_text(f"<html data-ready=yes><body>{trace._repr_html_()}</body></html>", encoding="utf-8")
    chromium.open(path.as_uri())
    chromium.ask("POST", "/frame", {"id": 0})
    try:
        chromium.until("document.documentElement.dataset.ready === 'yes'")
        chromium.do("lab.go(lab.last)")
        assert results(chromium) == [str(v) for v in trace.values]
    finally:
        chromium.ask("POST", "/frame", {"id": None})
    assert chromium.complaints() == []
    assert first("brent-kung").kernel in trace._repr_html_()


# --- comparing, waiting, stopping ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), every(3, SIZES[::-1]))
def test_comparing_works_at_any_width(opened, width, height):
    resize(opened, width, height)
    opened.until(f"document.documentElement.clientWidth <= {width}")
    assert visible(opened, "#compare")
    opened.do("document.getElementById('compare').click()")
    opened.until(
        "document.querySelectorAll('.pane').length === 2 && document.querySelectorAll('.pane')[1].dataset.kernel"
    )
    opened.do("lab.go(lab.last)")
    assert opened.do("return document.documentElement.scrollWidth") <= width
    for part in (".net canvas", ".counts", ".kernel"):
        boxes = opened.do(
            "return [...document.querySelectorAll(`.pane ${arguments[0]}`)].map((e) => e.getBoundingClientRect().width)",
            part,
        )
        assert [width > 100 for width in boxes[:: 3 if "canvas" in part else 1]] == [True, True], part
    opened.do("document.getElementById('compare').click()")
    assert opened.do("return document.querySelectorAll('.pane').length") == 1


SLOW = "sum(0 for k in range(10 ** 9)) or a + b"


def test_a_run_can_be_stopped(opened):
    opened.do("lab.slow = lab.panes[0].set({ ...lab.panes[0].dials, op: 'own', own: arguments[0] })", SLOW)
    opened.until("document.querySelector('.busy').checkVisibility()")
    assert "Running" in opened.do("return document.querySelector('.busy').innerText")
    assert opened.do("return document.querySelector('.pane').ariaBusy") == "true"
    opened.do("document.querySelector('.stop').click()")
    opened.wait_for("await lab.slow")
    assert not visible(opened, ".busy")
    assert "stopped" in opened.do("return document.querySelector('.trouble').textContent")
    # The next run is served.
    turn(opened, "n", "5")
    opened.until("document.querySelector('.pane').dataset.n === '5'")
    assert json.loads(opened.do("return JSON.stringify(lab.panes[0].run.result(lab.last))"))[-1] == "15"


# --- what the verdict has to say ----------------------------------------------------------------------------------------


def test_a_race_is_a_film_of_two_threads(opened):
    """Both orders, access by access, and the result of each."""
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    trace = lab.trace("brent-kung", n=16).case.run(
        without=[("brent_kung", opened.do("return lab.panes[0].dials.without[0][1]"))]
    )
    film = lab.film(trace, next(f for f in lab.check(trace) if f.kind == "race"))
    shown = opened.do(
        "return [...document.querySelectorAll('.film li')].map((li) => [...li.querySelectorAll('.shot')].map((s) => s.innerText))"
    )
    assert [len(shots) for shots in shown] == [len(order.shots) for order in film.orders]
    first = film.orders[0].shots[0]
    assert shown[0][0].startswith(f"thread {first.thread} ")
    assert f"line {first.line}" in shown[0][0]
    wrong = next(order.wrong for order in film.orders if order.wrong)
    assert "{} becomes {} instead of {}".format(*wrong) in opened.do(
        "return document.querySelector('.film').innerText"
    )


def test_a_race_plays_in_both_orders(opened):
    """The player goes through the film's pictures: one access a step, beside its line, first one order and then the other."""
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    film = opened.do("return lab.panes[0].payload.findings.find((f) => f.film).film")
    assert [order["wrong"] is None for order in film["orders"]] == [True, False]
    opened.do(
        "const seen = window.seen = [], draw = lab.draw.bind(lab), shown = (s) => document.querySelector(s)?.innerText;"
        "const parts = ['.line.bad .no', '.caption', '.film .now'];"
        "lab.draw = () => { draw(); seen.push([...parts.map(shown), lab.panes[0].film?.order]); };"
        "document.getElementById('speed').value = '16'; document.querySelector('.roll').click()"
    )
    opened.until("lab.panes[0].film.order === 1 && lab.at === lab.last && lab.timer === null")
    seen = opened.do("return window.seen")
    for k, order in enumerate(film["orders"]):
        played = [one for one in seen if one[3] == k and one[0]]
        assert [int(line) for line, *_ in played] == [shot["line"] for shot in order["shots"]]
        for (_, caption, picture, _), shot in zip(played, order["shots"]):
            assert picture.startswith(f"thread {shot['thread']} ")
            assert f"Order {k + 1} of 2: in line {shot['line']}, thread {shot['thread']} " in caption
            assert f"{shot['value']} {'from' if shot['kind'] == 'load' else 'to'} {film['word']}" in caption
    assert "instead of" in seen[-1][1]
    assert opened.do("return document.querySelectorAll('.cell.flaw').length") > 0
    ends = opened.do("return lab.panes[0].run.result(lab.last)")
    opened.key(HOME)
    # From the beginning of the second order to the end of the first.
    opened.key(LEFT)
    assert opened.do("return [lab.panes[0].film.order, lab.at === lab.last]") == [0, True]
    assert opened.do("return lab.panes[0].run.result(lab.last)") != ends
    opened.do("document.querySelectorAll('.film li')[1].children[0].click()")
    assert opened.do("return [lab.panes[0].film.order, lab.at]") == [1, 2]


def test_the_keyboard_alone_reaches_the_race(opened):
    """From the invitation to the film with Enter alone, then the arrows step through it."""
    opened.do("document.querySelector('.tempt').focus()")
    opened.key(ENTER)
    opened.until("document.querySelectorAll('.film li').length === 2")
    assert opened.do("return document.activeElement.classList.contains('roll')")
    opened.key(ENTER)
    opened.until("lab.panes[0].film !== null && lab.at > 0")
    opened.do("lab.pause(); lab.go(1)")
    opened.key("\ue014")
    assert opened.do("return [lab.at, document.querySelectorAll('.line.bad').length]") == [2, 1]


def test_a_film_on_a_phone(opened):
    """The source comes before the network, and the transport stays one line."""
    resize(opened, 390, 844)
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    opened.do("document.querySelector('.roll').click()")
    opened.until("lab.at === 2")
    source, network, clock = (
        opened.do("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", part)
        for part in (".source", ".net", "#transport")
    )
    line = opened.do("return document.querySelector('.line.bad').getBoundingClientRect().toJSON()")
    assert 0 <= line["top"] < line["bottom"] <= clock["top"]
    assert source["top"] < network["top"]
    assert clock["height"] < 50
    assert clock["right"] <= 390
    assert opened.do("return document.documentElement.scrollWidth") <= 390
    resize(opened, 1280, 900)


def test_the_source_of_a_film_is_in_sight(opened):
    resize(opened, 1280, 900)
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    opened.do("document.querySelector('.roll').click()")
    opened.until("lab.at === 2")
    at = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
    line, strip, clock = (opened.do(at, part) for part in (".line.bad", ".film", "#transport"))
    assert line["bottom"] < 900
    assert strip["top"] >= clock["bottom"]
    code, who = (opened.do(at, f".line.bad {part}") for part in (".text", ".who"))
    # The names of the running threads do not cover the line.
    assert who["top"] >= code["bottom"] or who["left"] >= code["right"]


def test_sizes_are_named_where_barriers_are_judged(opened):
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    sizes = opened.do("return lab.panes[0].payload.barriers.sizes")
    said = opened.do("return document.querySelector('.verdict').innerText")
    assert len(sizes) > 20
    assert f"mends it, at each of {len(sizes)} sizes tried, from 1 to 1024" in said


def test_a_race_at_another_size_is_said(opened):
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.film li').length === 2")
    opened.wait_for("await lab.panes[0].dial('n', 1)")
    said = opened.do("return document.querySelector('.verdict').innerText")
    assert said.startswith("No race.")
    assert "But for n = 3 there is a race. A barrier before line" in said


def test_a_finding_says_what_to_do(opened):
    """Barriers mend races alone. Space opens the other findings."""
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('early-return'))")
    said = opened.do("return document.querySelector('.verdict').innerText")
    assert "Leave the work in the branch and take the barrier out of it" in said
    assert "mend" not in said
    opened.do("document.querySelector('summary').focus()")
    opened.key(" ")
    assert opened.do("return [document.querySelector('details').open, lab.timer]") == [True, None]


def test_what_follows_comes_after_its_cause(opened):
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('ks-no-second-barrier'))")
    heads = opened.do("return [...document.querySelectorAll('.finding > b')].map((b) => b.textContent)")
    assert heads[0] == "Race"
    assert all(head.startswith("So, ") for head in heads[1:])


CAPTIONS = """
await lab.panes[0].set(lab.panes[0].opening(args[0]));
const all = [], pane = document.querySelector('.pane');
for (let k = 0; k <= lab.last; k++) { lab.go(k); all.push(pane.querySelector('.caption').textContent); }
const look = pane.querySelector('.next span').textContent.replace('Look here: ', '');
return [all, pane.querySelector('.laws').textContent, look, pane.querySelector('.circuit').textContent]
"""


def test_sentences_say_what_happens_where_no_items_meet(opened):
    captions, laws, _, circuit = opened.wait_for(CAPTIONS, "compaction")
    assert (
        captions[0]
        == "No two items of x are combined here, so there is no network. Press →, and look at Memory."
    )
    assert "Step 2: 15 threads combine numbers that are no items of x" in captions[2]
    assert circuit == "no network: no two of the 16 items are combined"
    assert laws == "The operator is +: this kernel is written for sums."
    captions, laws, _, _ = opened.wait_for(CAPTIONS, "warp-shuffle")
    assert "Step 9: 16 threads pass values on by a shuffle, without memory." in captions
    assert laws == "The operator must be associative."
    captions, *_ = opened.wait_for(CAPTIONS, "range-query-short")
    assert captions[-1].endswith("2 results are wrong: look for red in Memory.")  # there are no dots
    assert opened.wait_for(CAPTIONS, "sequential")[1] == "The operator may be any function of two values."
    assert opened.wait_for(CAPTIONS, "sequential-exclusive")[1] == "The operator must have an identity."
    assert (
        opened.wait_for(CAPTIONS, "blelloch")[1]
        == "The operator must be associative, and must have an identity."
    )


def test_a_mistake_with_right_values_says_where_to_look(opened):
    for name, says in (
        ("padded-for-16-banks", "up to 2 in turn"),
        ("notes-last-barrier", "the barrier in line"),
        ("figure-11-3", "which concat is not"),
    ):
        assert says in opened.wait_for(CAPTIONS, name)[2], name
    # Both accesses of this race stand in one line.
    assert "in line 194." in opened.wait_for(CAPTIONS, "histogram-without-atomics")[2]
