"""The page for everybody: the keyboard alone, a screen reader, a reader's own colours, a narrow window, and paper."""

import pytest
from browser import resize

# The settings that a reader has made of his system.
OWN_COLOURS = [
    {"name": "forced-colors", "value": "active"},
    {"name": "prefers-color-scheme", "value": "dark"},
]
ENTER, SHOWN = "\ue007", "lab.panes[0].root.ariaBusy === 'false'"


@pytest.fixture
def opened(opened):
    yield opened
    opened.chrome("Emulation.setEmulatedMedia", media="", features=[])


def show(browser, kernel, step=0, **dials):
    browser.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening(args[0]), ...args[2] }); lab.go(args[1])",
        kernel,
        step,
        dials,
    )


def press(browser, selector):
    """The key on a button; what has the keyboard afterwards."""
    browser.do("document.querySelector(arguments[0]).focus()", selector)
    browser.key(ENTER)


def test_the_keyboard_stays_at_a_barrier_that_it_takes_out(opened):
    held = "return [document.activeElement.ariaLabel, lab.panes[0].dials.without.length, lab.panes[0].dials.before.length]"
    press(opened, ".source .act")
    opened.until(f"lab.panes[0].dials.without.length === 1 && {SHOWN}")
    label, *_ = opened.do(held)
    assert label.startswith("Put back the barrier in line")
    opened.key(ENTER)
    opened.until(f"lab.panes[0].dials.without.length === 0 && {SHOWN}")
    assert opened.do(held)[0] == label.replace("Put back", "Take out")
    press(opened, ".source button.add")
    opened.until(f"lab.panes[0].dials.before.length === 1 && {SHOWN}")
    assert opened.do(held)[0].startswith("Take the barrier before line")


def test_the_keyboard_stays_at_a_dial_that_it_turns(opened):
    """Also where the dial is refused: there are no -1 items."""
    for dial, value in (("op", "max"), ("n", 8), ("n", -1)):
        opened.do(
            "const field = document.querySelector(`[data-dial=${arguments[0]}]`).firstChild; field.focus();"
            "field.value = arguments[1]; field.dispatchEvent(new Event('change')); field.dataset.old = 'yes'",
            dial,
            value,
        )
        opened.until(f"{SHOWN} && !document.querySelector('[data-old]')")
        assert opened.do("return document.activeElement.closest('.slot')?.dataset.dial") == dial


def test_the_keyboard_goes_on_where_a_rung_opens_and_where_an_edit_has_run(opened):
    opened.do("document.getElementById('welcome').click()")
    press(opened, ".rungs li:nth-child(3) button")
    opened.until(f"lab.panes[0].payload.dials.kernel === 'kogge-stone' && {SHOWN}")
    assert opened.do("return document.activeElement.id") == "panes"
    press(opened, ".edit")
    opened.until("!document.querySelector('.editor').hidden")
    press(opened, ".editor [type=submit]")
    opened.until(f"document.querySelector('.editor').hidden && {SHOWN}")
    assert opened.do("return document.activeElement.className") == "edit"


def test_a_screen_reader_hears_what_a_step_does(opened):
    show(opened, "brent-kung", 3)
    words = opened.do("return [...document.querySelectorAll('.cell')].map((cell) => cell.title)")
    assert "xy[7] = 26, made of x4–7, written" in words
    assert "xy[5] = 11, made of x4–5, read" in words
    assert "y[0]" in words
    network = opened.do("return document.querySelector('.lit').ariaLabel")
    assert network.endswith("this step makes x0–3; x4–7; x8–11; x12–15")
    show(opened, "kogge-stone", 2, n=256)
    xy = opened.do(
        "return [...document.querySelectorAll('.words canvas')].map((sheet) => sheet.ariaLabel)[1]"
    )
    assert xy == "256 words of xy"
    opened.do("lab.go(3)")
    xy = opened.do(
        "return [...document.querySelectorAll('.words canvas')].map((sheet) => sheet.ariaLabel)[1]"
    )
    assert xy.startswith("256 words of xy, written: xy[1] = 3, made of x0–1; xy[2] = 5, made of x1–2; ")
    assert xy.endswith(" and 239 more")


def test_what_is_announced(opened):
    """A verdict and a caption are; the number of a step, which the slider has too, and captions that fly past are not."""
    live = "return ['.verdict', '.caption', '#where'].map((part) => document.querySelector(part).ariaLive)"
    assert opened.do(live) == ["polite", "polite", "off"]
    opened.do("document.getElementById('play').click()")
    assert opened.do(live) == ["polite", "off", "off"]
    opened.do("lab.pause()")
    assert opened.do(live) == ["polite", "polite", "off"]


def test_in_colours_of_the_readers_own_cells_and_lines_still_differ(opened):
    opened.chrome("Emulation.setEmulatedMedia", features=OWN_COLOURS)
    show(opened, "brent-kung", 3)
    look = (
        "const { backgroundColor, borderColor } = getComputedStyle(document.querySelector(arguments[0]));"
        "return backgroundColor + borderColor"
    )
    cells = [
        opened.do(look, f".cell{kind}")
        for kind in (".written", ".read:not(.written)", ":not(.written, .read)")
    ]
    assert len(set(cells)) == 3
    assert opened.do(look, ".line.run") != opened.do(look, ".line:not(.run)")
    # What is drawn has the same colours as what is written: white on black in this scheme.
    drawn = "return [colour('--ink'), getComputedStyle(document.body).color, colour('--panel')]"
    assert opened.do(drawn) == ["rgb(255, 255, 255)", "rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    show(opened, "wrong-order", 99)
    assert opened.do(look, ".cell.flaw.written") != opened.do(look, ".cell.written:not(.flaw)")


def test_a_narrow_window_needs_no_sideways_scrolling(opened):
    """320 is a window of 1280 at a zoom of four."""
    wide = "return document.documentElement.scrollWidth"
    for width in (390, 320):
        resize(opened, width, 640)
        opened.do("lab.start.show(true)")
        assert opened.do(wide) <= width
        opened.do("lab.start.show(false)")
        for kernel in ("brent-kung", "domino-dynamic", "ks-no-second-barrier"):
            show(opened, kernel, 3)
            assert opened.do(wide) <= width, (width, kernel)


def test_on_paper_nothing_is_cut_off_or_dark(opened):
    resize(opened, 720, 1000)
    opened.do("if (getComputedStyle(document.documentElement).colorScheme === 'light') lab.theme()")
    show(opened, "hierarchical", 3)
    # Chromium prints what is drawn as drawing commands: to clear one of the network's canvases would clear those below it.
    opened.do(
        "window.cleared = 0; const pen = CanvasRenderingContext2D.prototype, { clearRect } = pen;"
        "window.unspied = () => { pen.clearRect = clearRect; };"
        "pen.clearRect = function (...area) { if (this.canvas.closest('.net')) cleared++; return clearRect.apply(this, area); };"
        "matchMedia('print').addEventListener('change', () => { window.printed = true; }, { once: true })"
    )
    opened.chrome("Emulation.setEmulatedMedia", media="print")
    opened.until("window.printed")
    assert opened.do("unspied(); return cleared") == 0
    assert (
        opened.do("return [colour('--ink'), getComputedStyle(document.body).color]")
        == ["rgb(29, 32, 37)"] * 2
    )
    box = (
        "const box = document.querySelector(arguments[0]);"
        "return [box.scrollHeight - box.clientHeight, box.scrollWidth - box.clientWidth]"
    )
    assert max(opened.do(box, ".source")) <= 0
    rows = opened.do(
        "return [...document.querySelectorAll('.line')].map((row) => row.getBoundingClientRect().height)"
    )
    assert max(rows) < 3 * min(rows)
    flat = (
        "return [...document.querySelectorAll('.net canvas')]"
        ".map((c) => Math.abs(c.clientWidth / c.clientHeight - c.width / c.height) < 0.01)"
    )
    assert opened.do(flat) == [True] * 3
    opened.chrome("Emulation.setEmulatedMedia", media="")
    opened.do("lab.start.practise(lab.data.exercises[0])")
    opened.until("!document.querySelector('.editor').hidden")
    opened.chrome("Emulation.setEmulatedMedia", media="print")
    opened.until("document.querySelector('textarea').scrollTop === 0")
    assert max(opened.do(box, "textarea")) <= 0
    assert opened.do(
        "return document.querySelector('.gutter').clientHeight >= document.querySelector('textarea').clientHeight"
    )
