"""What is seen and heard on the page: nothing moves or is cut, colours do not speak alone, keys, names, and the address."""

import inspect

import pytest
from browser import SIZES, resize, visible

from upsweep.textbook import KERNELS


@pytest.mark.parametrize("kernel", ["kogge-stone-double", "domino-dynamic", "warp-shuffle"])
def test_no_line_moves_when_it_runs(opened, kernel):
    """Long lines go on below themselves, and who runs them stands in a margin."""
    heights = "return JSON.stringify([...document.querySelectorAll('.line')].map((row) => row.getBoundingClientRect().height))"
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening(args[0]))", kernel)
    resting = opened.do(heights)
    for step in range(1, opened.do("return lab.last") + 1):
        opened.do("lab.go(arguments[0])", step)
        assert opened.do(heights) == resting, step
    assert opened.do(
        "const box = document.querySelector('.source'); return box.scrollWidth <= box.clientWidth"
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_names_of_arrays_are_not_cut(opened, size):
    resize(opened, *size)
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('domino-dynamic'))")
    cut = "return [...document.querySelectorAll('.array h3')].filter((h) => h.scrollWidth > h.clientWidth).length"
    assert opened.do(cut) == 0
    assert opened.do("return document.documentElement.scrollWidth") <= size[0]


def test_a_panel_without_contents_says_so(opened):
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('sequential'))")
    assert not visible(opened, ".heat")
    assert (
        opened.do("return document.querySelector('.banks .at').textContent")
        == "this kernel uses no shared memory"
    )
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('compaction'))")
    assert visible(opened, ".heat")
    assert not visible(opened, ".net .canvas")


def test_wrong_values_have_a_corner_as_well_as_a_colour(opened):
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('wrong-order')); lab.go(lab.last)")
    marked = "return [...document.querySelectorAll('.cell.flaw')].map((cell) => getComputedStyle(cell, '::after').content)"
    assert set(opened.do(marked)) == {'""'}


def test_the_player_speaks(opened):
    """What a screen reader says of the player; left and right step also where a menu has the focus."""
    play = "const play = document.getElementById('play'); play.click(); return play.ariaLabel"
    assert opened.do(play) == "Pause"
    opened.do("lab.pause(); lab.go(3)")
    assert opened.do("return document.getElementById('play').ariaLabel") == "Play"
    assert opened.do("return document.getElementById('slider').ariaValueText") == "step 3 of 9"
    opened.do("document.querySelector('.kernel').focus()")
    opened.key("\ue014")
    assert opened.do("return [lab.at, document.querySelector('.kernel').value]") == [4, "brent-kung"]


def test_a_race_is_shown_on_the_word_that_its_text_names(opened):
    for kernel in ("kogge-stone", "brent-kung", "blelloch"):
        opened.wait_for("await lab.panes[0].set(lab.panes[0].opening(args[0]))", kernel)
        opened.do("document.querySelector('.tempt').click()")
        opened.until("document.querySelectorAll('.line.bad').length")
        word = opened.do(
            "return document.querySelector('.finding .what').textContent.match(/on (xy\\[\\d+\\])/)[1]"
        )
        assert word in opened.do("return document.querySelector('.line.bad').innerText"), kernel


def test_the_address_leads_back(chromium, server):
    """A link opens a kernel with its dials and step, loading again stays there, and the way back works."""
    resize(chromium, 1280, 900)
    at = "return [lab.panes[0].dials.kernel, lab.panes[0].dials.n, lab.at, location.hash]"
    chromium.open(f"{server.url}#kernel=kogge-stone&n=8&step=3")
    assert chromium.do(at) == ["kogge-stone", 8, 3, "#kernel=kogge-stone&n=8&step=3"]
    chromium.wait_for("await lab.panes[0].set({ ...lab.panes[0].opening('blelloch'), n: 32 }); lab.go(2)")
    chromium.until("location.hash === '#kernel=blelloch&n=32&step=2'")
    chromium.do("document.documentElement.dataset.ready = ''; location.reload()")
    chromium.until("document.documentElement.dataset.ready === 'yes'")
    assert chromium.do(at)[:3] == ["blelloch", 32, 2]
    chromium.do("history.back()")
    chromium.until("lab.panes[0].dials.kernel === 'kogge-stone' && lab.at === 3")
    chromium.do(
        "location.hash = 'kernel=brent-kung&without=brent_kung:' + arguments[0]", barrier_of("brent-kung")
    )
    chromium.until("document.querySelectorAll('.line.bad').length === 2")
    chromium.do("location.hash = 'exercise=2'")
    chromium.until("document.querySelector('.practice h2').innerText.startsWith('Exercise 2')")
    chromium.do("location.hash = 'start'")
    chromium.until("document.getElementById('start').checkVisibility()")
    # What cannot be traced leads to the page's own beginning, with the reason.
    chromium.do(
        "location.hash = 'kernel=naive&n=1024'; document.documentElement.dataset.ready = ''; location.reload()"
    )
    chromium.until("document.documentElement.dataset.ready === 'yes'")
    assert chromium.do(at)[:2] == ["brent-kung", 16]
    assert "choose a smaller n" in chromium.do("return document.querySelector('.trouble').textContent")
    assert chromium.complaints() == []


def test_the_address_has_the_banks_and_the_kernel_beside(chromium, server):
    """A link to a lesson on two kernels under 16 banks; and what is chosen by hand comes into the address."""
    resize(chromium, 1280, 900)
    lesson = "#kernel=blelloch&n=64&banks=16+16+4&padded=4&beside=blelloch-padded&step=3"
    chromium.open(f"{server.url}{lesson}")
    seen = "return [lab.panes.map((pane) => pane.dials.kernel), lab.panes[0].model, lab.at]"
    model = {"banks": 16, "group": 16, "width": 4, "padding": 4}
    assert chromium.do(seen) == [["blelloch", "blelloch-padded"], model, 3]
    chromium.do("document.getElementById('compare').click()")
    chromium.until("location.hash === '#kernel=blelloch&n=64&banks=16+16+4&padded=4&step=3'")
    chromium.do("document.getElementById('compare').click()")
    chromium.until(f"location.hash === '{lesson}'")
    chromium.do("location.hash = 'kernel=reduction'")
    chromium.until("lab.panes[0].dials.kernel === 'reduction' && lab.panes.length === 1")
    chromium.until("lab.panes[0].model.banks === 32 && lab.panes[0].model.padding === 0")
    assert chromium.complaints() == []


def barrier_of(kernel):
    source, begin = inspect.getsourcelines(KERNELS[kernel].function)
    return begin + next(k for k, line in enumerate(source) if "syncthreads" in line)
