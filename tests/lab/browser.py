"""A headless Chromium for tests. It is driven by the WebDriver protocol, in a few requests to chromedriver, without a package."""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"]  # fmt: skip
SIZES = ((1280, 900), (800, 700), (400, 850))
"""Of a window on a desk, on a small screen and on a phone."""


class Browser:
    """One window. Use it as a context manager, so that no process outlives it."""

    def __init__(self, profile, width=1280, height=900):
        self.driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.base = f"http://127.0.0.1:{self._port()}"
        options = {
            "binary": CHROMIUM,
            "args": [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 300_000},
        }
        session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/session/{session['sessionId']}"
        # No window manager gives a headless window the focus, and without it no focus event comes.
        self.chrome("Emulation.setFocusEmulationEnabled", enabled=True)

    def _port(self):
        """The port that chromedriver has chosen, which it says once it listens there."""
        said = []
        for line in self.driver.stdout:
            said.append(line)
            if "started successfully" in line:
                break
        if found := re.search(r"started successfully on port (\d+)", "".join(said)):
            return found[1]
        raise RuntimeError(f"chromedriver names no port: {''.join(said)}")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.server = re.split("[?#]", url)[0].rpartition("/")[0]
        self.ask("POST", "/url", {"url": url})
        self.until("document.documentElement.dataset.ready === 'yes'")

    def do(self, script, *args):
        """The value of a script's `return`."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait_for(self, script, *args):
        """The value that an async script's promise resolves to."""
        last = "const given = [...arguments], done = given.pop();"
        wrapped = f"{last} (async (...args) => {{ {script} }})(...given).then(done, (e) => done({{ failed: String(e) }}))"
        value = self.ask("POST", "/execute/async", {"script": wrapped, "args": list(args)})
        assert not (isinstance(value, dict) and "failed" in value), value
        return value

    def until(self, condition, seconds=300):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.do(f"return {condition}"):
                return
            time.sleep(0.02)
        raise AssertionError(f"never came true: {condition}; the console says {self.complaints()}")

    def complaints(self):
        """Errors on the console since the last call. The page of a test before may have asked its server once more, which had
        ended: what another server did is left out."""
        lines = self.ask("POST", "/se/log", {"type": "browser"})
        errors = [line["message"] for line in lines if line["level"] == "SEVERE"]
        return [text for text in errors if not text.startswith("http:") or text.startswith(self.server)]

    def key(self, key):
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})  # fmt: skip

    def chrome(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.communicate()


def resize(browser, width, height):
    browser.chrome(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
    )


def visible(browser, selector):
    return browser.do(
        "const e = document.querySelector(arguments[0]); return Boolean(e && e.checkVisibility())", selector
    )


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
