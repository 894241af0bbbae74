"""The served page: traces on demand, for the local user alone.

The user's own text is run, so nobody else may reach this: it listens on 127.0.0.1, every address starts with a random
token, and a request that names another host or comes from another site's page is refused.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from upsweep.lab.page.answers import QUESTIONS
from upsweep.lab.page.dials import Dials
from upsweep.lab.page.html import page
from upsweep.lab.page.worker import Worker

LARGEST_REQUEST = 1 << 20


class Lab(ThreadingHTTPServer):
    """The server of one session; `url` is where it is found. `opening` is asked anew whenever the page is loaded."""

    daemon_threads = True

    def __init__(self, opening: Callable[[], Dials], welcome: bool = False):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.opening, self.welcome = opening, welcome
        self.worker = Worker()
        self.token = secrets.token_urlsafe(24)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.host}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A page that was closed or loaded again has no use for its answer.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        self.worker.close()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Lab  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        if self.invited(""):
            text = page(self.server.opening(), served=True, welcome=self.server.welcome)
            self.answer(text, "text/html")

    def do_POST(self) -> None:
        name = self.path.rpartition("/")[2]
        said = self.headers.get("Content-Length", "0")
        if not said.isdecimal():
            self.send_error(400)
            return
        length = int(said)
        # A connection that closes with unread bytes is reset, and the answer may be lost.
        body = self.rfile.read(length) if length <= LARGEST_REQUEST else None
        if name == "stop" and self.invited(name):
            self.server.worker.stop()
            self.answer("{}", "application/json")
        elif name != "stop" and self.invited(name if name in QUESTIONS else "?"):
            self.answer(self.asked(name, body), "application/json")

    def asked(self, name: str, body: bytes | None) -> str:
        if body is None:
            return json.dumps({"error": "that is too much text for a kernel"})
        try:
            given = json.dumps(json.loads(body))
        except ValueError as mistake:
            return json.dumps({"error": str(mistake)})
        return self.server.worker.ask(name, given)

    def invited(self, name: str) -> bool:
        """Whether the address holds the token, and the request comes from this page."""
        right = secrets.compare_digest(self.path.encode(), f"/{self.server.token}/{name}".encode())
        origin = self.headers.get("Origin", f"http://{self.server.host}")
        if right and self.headers.get("Host") == self.server.host and origin == f"http://{self.server.host}":
            return True
        self.send_error(403)
        return False

    def answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""
