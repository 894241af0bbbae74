"""The page as one text: its markup, style and scripts put together, with the data that it starts from."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from upsweep.lab.page.variants import CHOICES, Dials, grid, kernels, payload
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

SCRIPTS = ("model", "data", "network", "memory", "source", "lanes", "banks", "panels", "pane", "app")
BESIDE = {"brent-kung": "kogge-stone", "kogge-stone": "brent-kung", "blelloch": "blelloch-padded", "domino": "domino-dynamic",
          "decoupled-look-back": "domino-dynamic", "matrix": "three-phase", "segmented": "kogge-stone", "harris": "han-carlson",
          "": "brent-kung"}  # fmt: skip
"""The kernel that a comparison opens with."""


def offline(path: str | Path, start: Dials) -> int:
    """Write a page that needs neither network nor Python, and give its size in bytes.

    It holds every kernel and every mistake at a few settings, each barrier taken out included; it opens at `start`, whose
    kernel has all of its dials.
    """
    every = {
        dials.key: dials for name in (*KERNELS, *MISTAKES) for dials in grid(name, wide=name == start.kernel)
    }
    written = page(start, {**every, start.key: start}.values()).encode()
    Path(path).write_bytes(written)
    return len(written)


def known(kernel: str) -> str:
    """The name, if it is one."""
    if kernel not in KERNELS and kernel not in MISTAKES:
        raise KeyError(
            f"no kernel is called {kernel}; there are {', '.join(KERNELS)}; and the mistakes {', '.join(MISTAKES)}"
        )
    return kernel


def page(start: Dials, embedded: Iterable[Dials] = (), served: bool = False) -> str:
    """The whole page; `embedded` are the variants that it carries along."""
    data = {
        "start": vars(start), "served": served, "kernels": kernels(), "choices": CHOICES,
        "beside": BESIDE, "variants": {dials.key: packed(payload(dials)) for dials in embedded},
    }  # fmt: skip
    shipped = files("upsweep.lab.page") / "static"
    text = (shipped / "page.html").read_text(encoding="utf-8")
    script = "\n".join((shipped / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    text = text.replace("/*style*/", (shipped / "style.css").read_text(encoding="utf-8"))
    return text.replace("/*script*/", script).replace("/*data*/", as_script(data))


def as_script(data: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def packed(data: Any) -> str:
    """JSON, compressed to what a browser unpacks by itself; the same data give the same text."""
    text = json.dumps(data, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
