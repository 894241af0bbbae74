"""The lab's page in a headless Chromium: every kernel opens, steps and shows the right values, and a click shows a race."""

import re
from dataclasses import replace

import pytest
from browser import WALK

from portions import parts
from upsweep import lab
from upsweep.lab.checks import wanted
from upsweep.lab.page.dials import ISSUE, PADDING, RESIDENT, SCHEDULES, first
from upsweep.lab.page.held import SIZES, grid
from upsweep.lab.page.html import packed, page
from upsweep.lab.page.items import OPERATORS
from upsweep.lab.page.played import built, payload
from upsweep.lab.play import text
from upsweep.lab.reading import Spot
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

LARGE = [
    replace(first(name), n=n)
    for name, n in (
        ("kogge-stone", 256),
        ("decoupled-look-back", 256),
        ("blelloch", 128),
        ("blelloch-padded-16", 128),
    )
]
MODELS = {
    "32 32 4": lab.Banks(),
    "16 16 4": lab.Banks(16, group=16),
    "8 8 4": lab.Banks(8, group=8),
    "32 32 8": lab.Banks(width=8),
}


HELD = [
    "brent-kung", "kogge-stone", "blelloch", "blelloch-interleaved", "reduction-modulo", "domino", "domino-dynamic",
    "hierarchical", "warp-shuffle",
]  # fmt: skip


def everything():
    """The offline page with some kernels as they open, with one of two barriers taken out, and once with 256 items."""
    start = first("brent-kung")
    variants = [first(name) for name in HELD]
    variants += [
        replace(start, without=(Spot("brent_kung", k),)) for k in payload(start)["places"][0]["barriers"]
    ]
    variants += [
        replace(first("domino"), resident=2, issue="descending"),
        replace(first("blelloch-padded"), n=64, padding=4),
    ]
    return page(start, [*variants, *LARGE])


@pytest.fixture(scope="module")
def file(shared):
    return shared("lab.html", everything)


@pytest.fixture
def opened(chromium, file):
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.open(file.as_uri())
    yield chromium
    assert chromium.complaints() == []


@parts(4)
def test_every_kernel_opens_steps_and_ends_with_the_right_values(opened, tmp_path, part):
    """And every mistake with its findings."""
    names = [*KERNELS, *MISTAKES][part::4]
    (tmp_path / "lab.html").write_text(page(first(names[0]), map(first, names)), encoding="utf-8")
    opened.open((tmp_path / "lab.html").as_uri())
    for name in names:
        seen = opened.wait_for(WALK, name)
        finds = MISTAKES[name].finds if name in MISTAKES else set()
        assert set(filter(None, seen["data"]["findings"].split(","))) == finds, name
        assert opened.do("return document.querySelectorAll('.finding').length > 0") == bool(finds), name
        if name in MISTAKES:
            continue
        trace = built(first(name)).run()
        assert seen["trouble"] == "", name
        assert seen["data"]["kernel"] == name
        assert seen["values"] == [text(v) for v in wanted(trace)], name
        assert int(seen["data"]["step"]) == int(seen["data"]["steps"]) == len(lab.to_dict(trace)["steps"]), (
            name
        )


@pytest.mark.parametrize(
    ("name", "n"), [("domino-dynamic", None), ("kogge-stone", 256), ("blelloch-padded-16", 128)]
)
def test_a_step_looks_the_same_from_both_sides(opened, name, n):
    """Going back shows, word by word and dot by dot, what going on has shown."""
    opened.wait_for(WALK, name, n)
    look = """
    const { root } = lab.panes[0], look = () => [
      ...[...root.querySelectorAll("canvas")].filter((one) => one.width && one.height).map((one) => one.toDataURL()),
      ...[...root.querySelectorAll(".cell")].map((one) => `${one.className} ${one.title} ${one.textContent}`),
      ...[...root.querySelectorAll(".caption, .at, .line.run")].map((one) => one.textContent),
    ].join("|");
    const on = [];
    for (let k = 0; k <= lab.last; k++) { lab.go(k); on.push(look()); }
    return on.map((_, k) => lab.last - k).filter((k) => { lab.go(k); return look() !== on[k]; });
    """
    assert opened.wait_for(look) == []


def test_the_lines_that_run_are_lit(opened):
    for name in ("brent-kung", "domino-dynamic", "hierarchical", "warp-shuffle"):
        steps = lab.to_dict(built(first(name)).run())["steps"]
        assert opened.wait_for(WALK, name)["lines"] == [[], *(step["lines"] for step in steps)], name


@pytest.mark.parametrize("model", MODELS)
def test_banks_cost_what_the_tracer_counts(opened, model):
    opened.do(
        "const s = document.querySelector('.model'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
        model,
    )
    for dials in (*map(first, HELD), *LARGE):
        counts = lab.counts(built(dials).run(), MODELS[model])
        shown = opened.wait_for(WALK, dials.kernel, dials.n)["banks"]
        assert shown == {name: getattr(counts, name) for name in ("requests", "wavefronts", "degree")}, (
            dials.key
        )


@pytest.mark.parametrize("name", ["blelloch", "blelloch-interleaved", "reduction-modulo"])
def test_what_warps_see(opened, name):
    """The counts of moved sectors and of branches that part a warp are the tracer's. Loads of neighbours move sectors twice."""
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening(args[0]))", name)
    trace = built(first(name)).run()
    shown = opened.do(
        "return ['sectors', 'parted'].map((k) => Number(document.querySelector(`[data-count=${k}]`).textContent))"
    )
    assert shown == [
        sum(row.sectors for row in lab.coalescing(trace)),
        sum(row.divergent for row in lab.divergence(trace)),
    ]
    assert ("spread" in opened.do("return document.querySelector('.counts').innerText")) == (
        name == "blelloch-interleaved"
    )


def choose(browser, dial, value):
    """Turn a dial of the first pane, as a user would."""
    browser.do(
        "const field = document.querySelector(`[data-dial=${arguments[0]}] select`); field.value = arguments[1];"
        "field.dispatchEvent(new Event('change'))",
        dial,
        value,
    )


def test_blocks_that_start_backwards_deadlock(opened):
    """Two blocks are held at once, the last ones first: the domino deadlocks, and the page says who waits for whom."""
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('domino'))")
    assert opened.do("return document.querySelector('.pane').dataset.findings") == ""
    choose(opened, "resident", "2")
    opened.until("document.querySelector('.pane').dataset.findings === 'deadlock'")
    assert opened.do("return document.querySelector('[data-dial=issue] select').value") == "descending"
    assert "cannot start before" in opened.do("return document.querySelector('.finding').innerText")
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('brent-kung'))")
    assert opened.do("return document.querySelector('.many-blocks').hidden")


def test_the_kernels_own_padding(opened):
    """The dial changes the kernel where the kernel pads its indices, and the banks' model where the kernel does not."""
    hidden = "return ['.kernel-padding', '.model-padding'].map((dial) => document.querySelector(dial).hidden)"
    opened.wait_for(
        "await lab.panes[0].set({ ...lab.panes[0].opening('blelloch-padded'), n: 64, padding: 4 })"
    )
    assert opened.do(hidden) == [False, True]
    trace = lab.trace("blelloch-padded", n=64, LOG_BANKS=4)
    shown = opened.do(
        "const pane = lab.panes[0]; return [pane.banks.total().degree, pane.run.trace.launches[0].names]"
    )
    assert shown == [lab.counts(trace).degree, {**trace.case.setup.launches[0].names}]
    assert shown[0] == 2
    opened.wait_for("await lab.panes[0].set(lab.panes[0].opening('blelloch'))")
    assert opened.do(hidden) == [True, False]


def test_keys(opened):
    def at():
        return opened.do("return Number(document.documentElement.dataset.step)")

    right, left, home, end = "\ue014", "\ue012", "\ue011", "\ue010"
    for key, wanted_step in ((right, 1), (right, 2), (left, 1), (end, 9), (right, 9), (home, 0), (left, 0)):
        opened.key(key)
        assert at() == wanted_step
    opened.do("document.getElementById('speed').value = '16'")
    opened.key(" ")
    opened.until("document.documentElement.dataset.step === '9'")
    opened.until("document.getElementById('play').textContent.includes('Play')")


def test_a_barrier_taken_out_shows_the_race(opened):
    opened.do("document.querySelector('.tempt').click()")
    opened.until("document.querySelectorAll('.line.bad').length === 2")
    seen = opened.do("""
        const pane = document.querySelector('.pane');
        return { findings: pane.dataset.findings, step: Number(pane.dataset.step), card: pane.querySelector('.finding').innerText,
                 bad: [...pane.querySelectorAll('.line.bad')].map((row) => row.innerText),
                 red: pane.querySelectorAll('.cell.flaw').length,
                 gone: pane.querySelector('.line.gone').innerText }""")
    assert "race" in seen["findings"].split(",")
    assert seen["step"] > 0
    assert seen["red"] > 0
    assert re.search(r"instead of", seen["card"])
    assert "syncthreads" in seen["gone"]
    assert all(re.search(r"thread \d+ (reads|writes) xy\[\d+\]", line) for line in seen["bad"])
    opened.do("[...document.querySelectorAll('.act')].find((b) => b.textContent === 'put back').click()")
    opened.until("document.querySelector('.pane').dataset.findings === ''")


def test_two_kernels_side_by_side(opened):
    opened.do("document.getElementById('compare').click()")
    opened.until(
        "document.querySelectorAll('.pane').length === 2 && document.querySelectorAll('.pane')[1].dataset.kernel"
    )
    opened.do("lab.go(lab.last)")
    shown = opened.do(
        "return [...document.querySelectorAll('.pane')].map((p) => [p.dataset.kernel, p.dataset.step, p.dataset.steps])"
    )
    assert [name for name, *_ in shown] == ["brent-kung", "kogge-stone"]
    assert all(step == steps for _, step, steps in shown)


def test_light_and_dark(opened):
    paper = "return getComputedStyle(document.body).backgroundColor"
    tones = {}
    for scheme in ("light", "dark"):
        opened.chrome(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        tones[scheme] = opened.do(paper)
    assert tones["light"] != tones["dark"]
    opened.do("document.getElementById('theme').click()")
    assert opened.do(paper) == tones["light"]
    opened.chrome("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("kernel", ["kogge-stone", "decoupled-look-back"])
def test_a_step_draws_only_what_changes(opened, kernel):
    """A step at 256 items draws the words that it or the step before touches, one step of the network as done, and one as new."""
    opened.wait_for("const pane = lab.panes[0]; await pane.set({ ...pane.opening(args[0]), n: 256 })", kernel)
    steps = opened.wait_for("""
    const drawn = {}, pane = lab.panes[0], { put } = Sheet.prototype, { ink } = Network.prototype, steps = [];
    Sheet.prototype.put = function (...given) { drawn.words++; return put.apply(this, given); };
    Network.prototype.ink = function (...given) { drawn.network++; return ink.apply(this, given); };
    const touched = (k) => (k < 1 ? [] : [...pane.run.doing(k - 1).reads, ...pane.run.doing(k - 1).writes]);
    lab.go(0);
    for (let k = 1; k < lab.last; k++) {
      Object.assign(drawn, { words: 0, network: 0 });
      lab.go(k);
      steps.push([drawn.words, new Set([...touched(k - 1), ...touched(k)]).size, drawn.network]);
    }
    Object.assign(Sheet.prototype, { put });
    Object.assign(Network.prototype, { ink });
    return steps;
    """)
    for words, touched, network in steps:
        assert words <= touched
        assert network <= 2
    assert any(words for words, *_ in steps)


def test_the_file_needs_no_network(file):
    shell = re.sub(
        r'<script type="application/json".*?</script>', "", file.read_text(encoding="utf-8"), flags=re.S
    )
    addresses = set(re.findall(r"https?://[^\"'` )<]+", shell))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in shell


def test_the_same_settings_give_the_same_page():
    dials = first("blelloch")
    assert packed(payload(dials)) == packed(payload(dials))
    assert page(dials, [dials]) == page(dials, [dials])


def test_formulas_of_one_section_stand_beside_no_several():
    """1024 threads scan 2000 items in two sections, whose costs are not those of one."""
    for n, several in ((1024, False), (2000, True)):
        shown = payload(replace(first("kogge-stone"), n=n))
        expected = {form["count"]: form["value"] for form in shown["formulas"]}
        assert expected == {what: shown["counts"][what] for what in expected}
        assert (not expected) == several


def test_what_a_file_holds_of_its_first_kernel():
    """Every dial can be turned, every barrier can be taken out, and a barrier can be put before every line that all threads
    pass.
    """
    held = list(grid(first("brent-kung"), wide=True))
    assert len({dials.key for dials in held}) == len(held)
    places = payload(first("brent-kung"))["places"][0]
    assert {dials.without for dials in held} == {
        (),
        *((("brent_kung", line),) for line in places["barriers"]),
    }
    assert {dials.before for dials in held} == {(), *((("brent_kung", line),) for line in places["free"])}
    assert {dials.op for dials in held} == {*OPERATORS} - {"own"}
    assert {dials.n for dials in held} == set(SIZES)
    assert {dials.schedule for dials in held} == set(SCHEDULES)
    for dials in held:
        trace = built(dials).run(without=dials.without, before=dials.before)
        if not dials.without:
            assert trace.values == wanted(trace), dials.key
    blocks = list(grid(first("domino-dynamic"), wide=True))
    assert {(dials.resident, dials.issue) for dials in blocks} == {(r, i) for r in RESIDENT for i in ISSUE}
    assert {dials.padding for dials in grid(first("blelloch-padded"), wide=True)} == set(PADDING)
