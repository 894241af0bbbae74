"""The lab's server: who is served, what it answers, and what a page has from it that no file holds."""

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
from browser import WALK

from upsweep.lab.page.dials import Dials, first
from upsweep.lab.page.played import payload
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

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
