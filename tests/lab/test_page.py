"""The lab's page in a headless Chromium: every kernel opens, steps and shows the right values, and a click shows a race."""

import http.client
import inspect
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import urllib.request
from dataclasses import replace

import pytest

from portions import parts
from upsweep import lab
from upsweep.lab.checks import wanted
from upsweep.lab.page.dials import ISSUE, PADDING, RESIDENT, SCHEDULES, Dials, first
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

# Walk a kernel from its beginning to its end, and report the page's contents.
WALK = """
const [name, n] = args, pane = lab.panes[0];
if (pane.dials.kernel !== name || n) await pane.set({ ...pane.opening(name), ...(n ? { n } : {}) });
const lines = [];
for (let k = 0; k <= lab.last; k++) {
  lab.go(k);
  lines.push([...pane.root.querySelectorAll(".line.run")].map((row) => Number(row.querySelector(".no").textContent)));
}
const { first, size } = pane.run.trace.result;
const { cells } = pane.memory, cell = (k) => cells[first + k].root.children[k];  // large arrays are drawn, and have no elements
const shown = (k) => cell(k).firstChild.textContent.trim();
const values = cell(0) ? Array.from({ length: size }, (_, k) => shown(k)) : pane.run.result(lab.last);
return { values, lines, data: { ...pane.root.dataset }, banks: pane.banks.total(),
         trouble: pane.root.querySelector(".trouble").hidden ? "" : pane.root.querySelector(".trouble").textContent };
"""


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


def test_the_command_serves_until_it_is_interrupted():
    pytest.importorskip("click", reason="the command needs click: pip install 'upsweep[lab]'")
    # Background jobs of a shell ignore interrupts, and so would their children.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from upsweep.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "lab",
        "domino",
        "--no-browser",
        "--n",
        "24",
        "--resident",
        "2",
        "--issue",
        "descending",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        try:
            with urllib.request.urlopen(url, timeout=300) as answer:
                start = re.search(rb'"start":(\{.*?\}),"served"', answer.read())[1]
            assert Dials.read(json.loads(start)) == replace(
                first("domino"), n=24, resident=2, issue="descending"
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == 0
        finally:
            process.kill()


EDITED = """def mine(x, y, n):
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = x[0]
        for k in range(1, n):
            y[k] = op(y[k - 1], x[k])"""
EDIT = """
document.querySelector(arguments[1] ? `[aria-label='Edit ${arguments[1]}']` : '.edit').click();
document.querySelector('textarea').value = arguments[0];
document.querySelector('.editor').requestSubmit();
"""

# --- served -------------------------------------------------------------------------------------------------------------


def ask(server, path, body=None, **headers):
    connection = http.client.HTTPConnection(server.host, timeout=300)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent, {"Host": server.host, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_only_the_local_user_is_served(server):
    mine = f"/{server.token}/"
    dials = {"kernel": "blelloch", "n": 5}
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, mine)[0] == 200
    assert ask(server, f"{mine}trace", dials)[0] == 200
    assert ask(server, f"{mine}trace", dials, Origin=f"http://{server.host}")[0] == 200
    assert ask(server, "/")[0] == 403
    assert ask(server, "/some-other-token-of-that-length/trace", dials)[0] == 403
    assert ask(server, mine, Host="evil.example")[0] == 403
    assert ask(server, f"{mine}trace", dials, Origin="https://evil.example")[0] == 403


def test_a_request_that_is_no_request_leaves_the_terminal_alone(server, capfd):
    """Lengths that are none are refused; a page that is closed before its answer comes is no error of the server's."""
    for length in ("-1", "many"):
        connection = http.client.HTTPConnection(server.host, timeout=300)
        connection.request("POST", f"/{server.token}/trace", headers={"Content-Length": length})
        assert connection.getresponse().status == 400
        connection.close()
    for _ in range(3):
        text = json.dumps({"kernel": "kogge-stone", "n": 64}).encode()
        host, _, port = server.host.partition(":")
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(
                f"POST /{server.token}/trace HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: {len(text)}\r\n\r\n".encode()
                + text
            )
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert ask(server, f"/{server.token}/trace", {"kernel": "blelloch", "n": 5})[0] == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("dials", "says"),
    [
        ({"kernel": "none"}, "none"),
        ({"kernel": "brent-kung", "colour": 1}, "colour"),
        ({"kernel": "brent-kung", "n": 0}, "at least one"),
        ({"kernel": "naive", "n": 1024}, "choose a smaller n"),
        (
            {"kernel": "brent-kung", "edits": {"brent_kung": "def k(x, y, n):\n    import os\n"}},
            ":2: a kernel cannot use import",
        ),
        ({"kernel": "brent-kung", "edits": {"brent_kung": "def k(x, y, n:\n"}}, ":1:"),
        ({"kernel": "domino", "resident": -1}, "at least one block"),
        ({"kernel": "domino", "issue": "sideways"}, "blocks start"),
        ({"kernel": "domino", "op": "power"}, "no operator"),
        ({"kernel": "blelloch", "op": "own", "own": "a + b"}, "write it into the field identity"),
        (
            {
                "kernel": "naive",
                "n": 1,
                "edits": {"naive": "def naive(x, y, n):\n    y[0] = 1 << 40000000000\n"},
            },
            ":2: MemoryError: it takes too much (thread 0)",
        ),
        ({"kernel": "brent-kung", "n": None}, "n must be a whole number, not empty"),
        ({"kernel": "brent-kung", "n": 1.5}, "n must be a whole number, not 1.5"),
        ({"kernel": "brent-kung", "n": 2_000_000_000}, "choose a smaller n"),
        ({"kernel": "brent-kung", "block": 2_000_000_000}, "choose a smaller block"),
        ({"kernel": "brent-kung", "block": -3}, "at least one thread"),
        ({"kernel": "brent-kung", "block": 0}, "at least one thread"),
        (
            {"kernel": "brent-kung", "op": "own", "own": "a + c"},
            "your operator a + c fails for a = 1 and b = 2: NameError",
        ),
        (
            {"kernel": "brent-kung", "op": "own", "own": "print(a)"},
            "your operator print(a) gives no value for a = 1",
        ),
    ],
)
def test_what_cannot_be_traced_is_said(server, dials, says):
    status, body = ask(server, f"/{server.token}/trace", dials)
    assert status == 200
    assert says in json.loads(body)["error"]


def test_a_kernel_prints_in_its_own_run_alone(capsys):
    """And not in those at 29 sizes that judge its barriers."""
    payload(replace(first("naive"), n=4, edits={"naive": "def k(x, y, n):\n    print(cuda.threadIdx.x)\n"}))
    assert capsys.readouterr().out.split() == ["0", "1", "2", "3"]


def test_a_loop_that_does_not_end_is_named(monkeypatch):
    """No smaller n would mend it."""
    monkeypatch.setattr("upsweep.lab.hooks.MOST_EVENTS", 200_000)
    endless = "def k(x, y, n):\n    t = 1\n    while t > 0:\n        t += 1\n"
    with pytest.raises(
        ValueError, match=r"line 3: the run was stopped after 200000 events; does this loop end\?"
    ):
        payload(replace(first("kogge-stone"), edits={"kogge_stone": endless}))


def test_any_size_and_an_edited_kernel_are_traced_on_demand(chromium, server):
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.open(server.url)
    for n in (37, 1):
        chromium.wait_for(
            "const n = document.querySelector('[data-dial=n] input'); n.value = args[0]; n.dispatchEvent(new Event('change'));",
            n,
        )
        chromium.until(f"document.querySelector('.pane').dataset.n === '{n}'")
        values = chromium.wait_for(WALK, "brent-kung")["values"]
        assert values == [str(k * (k + 1) // 2) for k in range(1, n + 1)]
    chromium.wait_for("const pane = lab.panes[0]; await pane.set(pane.opening('brent-kung'))")
    chromium.do(EDIT, EDITED, "")
    chromium.until("document.querySelector('.source').innerText.includes('def mine')")
    assert chromium.wait_for(WALK, "brent-kung")["values"] == [str(k * (k + 1) // 2) for k in range(1, 17)]
    chromium.do(EDIT, EDITED.replace("x[k])", "x[k]"), "")
    chromium.until("!document.querySelector('.trouble').hidden")
    # Lines keep the numbers of the file.
    last = inspect.getsourcelines(KERNELS["brent-kung"].function)[1] + 5
    assert f"<kernel>:{last}:" in chromium.do("return document.querySelector('.trouble').textContent")


def test_what_was_typed_into_a_kernel_is_there_again(chromium, server):
    """After a dial was turned, after a run, and after the page was loaded again; not after the way back to the textbook."""
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.open(server.url)
    press = "document.querySelector(arguments[0]).click()"
    chromium.do(press, ".edit")
    text = chromium.do("return document.querySelector('textarea').value")
    typed = "const t = document.querySelector('textarea'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))"
    chromium.do(typed, f"{text}  # mine")
    chromium.wait_for("await lab.panes[0].dial('n', 8)")
    for part in ("# mine", "# mine, too"):
        chromium.do(press, ".edit")
        assert chromium.do("return document.querySelector('textarea').value") == f"{text}  {part[:6]}"
        chromium.do(typed, f"{text}  {part}")
        chromium.do(press, ".editor [type=submit]")
        chromium.until(f"document.querySelector('.source').innerText.includes('{part}')")
    chromium.do("document.documentElement.dataset.ready = ''; location.reload()")
    chromium.until("document.documentElement.dataset.ready === 'yes'")
    chromium.do(press, ".edit")
    assert chromium.do("return document.querySelector('textarea').value") == f"{text}  # mine, too"
    chromium.do(press, ".drop")
    chromium.until("document.querySelector('.editor').hidden")
    chromium.do(press, ".edit")
    assert chromium.do("return document.querySelector('textarea').value") == text


def test_a_server_that_has_ended_is_named(chromium, served):
    server = served()
    chromium.open(server.url)
    server.shutdown()
    server.socket.close()
    chromium.wait_for("await lab.panes[0].dial('n', 8)")
    assert "start it again" in chromium.do("return document.querySelector('.trouble').textContent")
    assert len(chromium.complaints()) == 1


def test_each_kernel_of_several_can_be_edited(chromium, server):
    """The third launch's kernel forgets the sums. Then the first launch's kernel forgets its barriers, whose lines the second
    kernel has, too.
    """
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.open(server.url)
    chromium.wait_for("await lab.panes[0].set(lab.panes[0].opening('hierarchical'))")
    assert chromium.do("return document.querySelector('.edit').hidden")
    idle = "def forgetful(y, scanned, n):\n    i = cuda.grid(1)\n    if i < n:\n        y[i] = y[i]"
    chromium.do(EDIT, idle, "uniform_add")
    chromium.until("document.querySelector('.source').innerText.includes('def forgetful')")
    local = [str(sum(range(k // 4 * 4 + 1, k + 2))) for k in range(16)]
    assert chromium.wait_for("return lab.panes[0].run.result(lab.last)") == local
    first_kernel = inspect.getsource(KERNELS["hierarchical"].function).replace("scan_sections", "mine")
    chromium.do(EDIT, first_kernel, "scan_sections")
    chromium.until("document.querySelector('.source').innerText.includes('def mine')")
    assert "def forgetful" in chromium.do("return document.querySelector('.source').innerText")
    passed = "return lab.panes[0].payload.counts.barriers"
    before = chromium.do(passed)
    begin = inspect.getsourcelines(KERNELS["hierarchical"].function)[1]
    line = begin + next(k for k, row in enumerate(first_kernel.splitlines()) if "syncthreads" in row)
    chromium.do("lab.panes[0].change('without', ['mine', arguments[0]], true)", line)
    chromium.until("document.querySelector('.pane').dataset.findings.includes('race')")
    # The barriers of the first kernel's two levels alone.
    assert chromium.do(passed) == before - 2


def test_a_barrier_put_in_mends_the_race(chromium, server):
    chromium.chrome("Emulation.clearDeviceMetricsOverride")
    chromium.open(server.url)
    chromium.wait_for("await lab.panes[0].set(lab.panes[0].opening('ks-no-second-barrier'))")
    line = payload(Dials("ks-no-second-barrier", MISTAKES["ks-no-second-barrier"].n))["barriers"]["missing"][
        0
    ][0].line
    assert "race" in chromium.do("return document.querySelector('.pane').dataset.findings")
    chromium.do(
        "document.querySelector(`[aria-label='Put a barrier before line ${arguments[0]}']`).click()", line
    )
    chromium.until("document.querySelector('.pane').dataset.findings === ''")
    assert chromium.do("return document.querySelector('.line.put').innerText").startswith("+")
